"""Test set-up: hypothesis profile, shared data."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

REPOSITORY = Path(__file__).resolve().parent.parent

settings.register_profile("dev", max_examples=25, deadline=None)
settings.register_profile("ci", max_examples=200, derandomize=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of the real data sets: ``shared/data`` beside the checkout, or $STREAMDDCRP_SHARED."""
    given = os.environ.get("STREAMDDCRP_SHARED")
    folder = Path(given) if given else REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(
            f"no shared data at {folder}; set STREAMDDCRP_SHARED to the folder of data sets"
        )
    return folder
