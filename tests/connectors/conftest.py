"""Sources that several tests run on."""

import pytest

from .data import rows, write_csv


@pytest.fixture
def csv(tmp_path):
    return write_csv(tmp_path / "rows.csv", rows(60, bad=0.25))


@pytest.fixture
def good(tmp_path):
    return write_csv(tmp_path / "good.csv", rows(60))
