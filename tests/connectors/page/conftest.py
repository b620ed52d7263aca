"""Pages that are closed after the test, and a browser that opens them.

Nothing here fails because the machine is busy: waits end when what is waited for is there, and
their limits are far beyond what it takes. Limits of time are tested apart, in `test_speed.py`.
"""

import pytest

from streamddcrp_connectors.page import observer

from .feeding import Feeder

LIMIT = 300  # seconds
LOST = ("net::ERR_", "WebSocket connection")  # while nothing listens


@pytest.fixture
def feeder(monkeypatch):
    pytest.importorskip("tornado")
    monkeypatch.setattr(observer, "PATIENCE", LIMIT)  # while a page writes what it keeps
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
        context.set_default_timeout(1000 * LIMIT)
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
