"""Sources that several tests run on, and a browser where there is one."""

import gc
import shutil
import warnings

import pytest

from .data import rows, write_csv
from .servers import Nats, Redis, started

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


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


@pytest.fixture(scope="module")
def chromium():
    """Return a browser that leaves nothing behind."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is installed")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as driver:
        try:
            browser = driver.chromium.launch(
                executable_path=found, args=["--no-sandbox"], timeout=300_000
            )
        except api.Error as error:
            pytest.skip(f"{found} does not start here: {str(error).partition(chr(10))[0]}")
        yield browser
        browser.close()
    with warnings.catch_warnings():  # the driver leaves its event loop open
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
