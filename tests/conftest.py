"""Test set-up: hypothesis profile, shared data, what runs uncompiled.

With NUMBA_DISABLE_JIT=1 kernels are Python and read in bounds, or raise (`make uncompiled`). They
take a hundred times as long, so some tests are left out then; each place has its reason below.
"""

import os
from pathlib import Path

import pytest
from hypothesis import settings

REPOSITORY = Path(__file__).resolve().parent.parent

settings.register_profile("dev", max_examples=25, deadline=None)
settings.register_profile("ci", max_examples=200, derandomize=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

UNCOMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"

# Left out of the uncompiled run. Prefixes of the ids of tests, and why.
COMPILED_ONLY: dict[str, str] = {}


def pytest_configure(config: pytest.Config) -> None:
    # numpy warns where compiled code does not: hashes of words wrap around, and an infinite square
    # is above what is left in a regression.
    if UNCOMPILED:
        for kernels in ("data.kernels.words", "likelihoods.kernels.regression"):
            overflow = "ignore:overflow encountered in scalar:RuntimeWarning"
            config.addinivalue_line("filterwarnings", f"{overflow}:streamddcrp.{kernels}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if UNCOMPILED:
        left_out = [item for item in items if item.nodeid.startswith(tuple(COMPILED_ONLY))]
        items[:] = [item for item in items if not item.nodeid.startswith(tuple(COMPILED_ONLY))]
        config.hook.pytest_deselected(items=left_out)


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
