"""Pages that are closed after the test, and a browser where there is one."""

import gc
import shutil
import warnings

import pytest

from .feeding import Feeder

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

LOST = ("ERR_CONNECTION", "before receiving a handshake")  # while nothing listens


@pytest.fixture
def feeder():
    pytest.importorskip("tornado")
    made = []

    def make(*args, **options):
        made.append(Feeder(*args, **options))
        return made[-1]

    yield make
    for one in made:
        one.page.close()


@pytest.fixture(scope="module")
def shared():
    """Return a page with 300 rows that tests do not change."""
    pytest.importorskip("tornado")
    made = Feeder()
    made.feed(300)
    yield made
    made.page.close()


@pytest.fixture(scope="module")
def chromium():
    """Return a browser that leaves nothing behind."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is installed")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()
    with warnings.catch_warnings():  # the driver leaves its event loop open
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def visit(chromium):
    """Return what opens a page in a browser of its own; whatever it complains of fails the test."""
    contexts, wrong = [], []

    def open_(address, restarts=False, **options):
        def complain(said):
            lost = restarts and any(sign in said.text for sign in LOST)
            if said.type in ("error", "warning") and not lost:
                wrong.append(said.text)

        options = {"viewport": {"width": 1280, "height": 800}} | options
        context = chromium.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.requested = []
        page.on("request", lambda request: page.requested.append(request.url))
        page.on("websocket", lambda socket: page.requested.append(socket.url))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: (wrong.append("a dialog"), dialog.dismiss()))
        page.on("console", complain)
        page.goto(address)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert not wrong
