"""Test set-up: cache of compiled kernels, hypothesis profile, shared data.

The kernel cache must be chosen before numba is imported, so nothing here may import the package.
"""

import hashlib
import importlib.util
import os
import shutil
import sys
import time
from pathlib import Path

import pytest
from hypothesis import settings

REPOSITORY = Path(__file__).resolve().parent.parent
WEEK = 7 * 86400.0


def compiled_sources() -> list[Path]:
    """Find every source file of the package that numba compiles, wherever it is installed."""
    spec = importlib.util.find_spec("streamddcrp")  # locates the package without importing it
    roots = [] if spec is None else list(spec.submodule_search_locations or [])
    files = (path for root in roots for path in Path(root).rglob("*.py"))
    return sorted(path for path in files if b"njit" in path.read_bytes())


def cache_folder() -> Path:
    """Name the kernel cache after its sources.

    numba notices an edit of a function, but not of a function it calls in another file: with one
    folder for each version of the sources a stale kernel cannot be picked up.
    """
    digest = hashlib.sha256()
    for path in compiled_sources():
        digest.update(f"{path.parent.name}/{path.name}\n".encode())
        digest.update(path.read_bytes())
    return REPOSITORY / ".numba_cache" / digest.hexdigest()[:16]


def prepare_cache() -> None:
    folder = cache_folder()
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    if "numba" in sys.modules:  # a plugin was faster: tell the loaded module too
        sys.modules["numba"].config.CACHE_DIR = str(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)  # marks it as in use
        for old in folder.parent.iterdir():
            if old.is_dir() and old.stat().st_mtime < time.time() - WEEK:
                shutil.rmtree(old, ignore_errors=True)
    except OSError:
        pass  # read-only checkout: numba chooses a folder of its own


prepare_cache()

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
