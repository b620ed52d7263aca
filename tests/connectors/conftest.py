"""Sources that several tests run on."""

import pytest

from .data import rows, write_csv
from .servers import Nats, Redis, started


@pytest.fixture
def csv(tmp_path):
    return write_csv(tmp_path / "rows.csv", rows(60, bad=0.25))


@pytest.fixture
def good(tmp_path):
    return write_csv(tmp_path / "good.csv", rows(60))


@pytest.fixture
def nats_server(tmp_path):
    yield from started(Nats, tmp_path / "nats", "nats")


@pytest.fixture
def redis_server(tmp_path):
    yield from started(Redis, tmp_path / "redis", "redis")
