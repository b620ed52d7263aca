"""The page in a real browser."""

import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from .conftest import LIMIT

HERE = Path(__file__).resolve().parents[3]
HOSTILE = ("<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", "{{7*7}}\u202ex")


def look(page, js):
    return page.evaluate(js)


def until(page, js, good=bool):
    """Ask the page until the answer is good; return it, and how long that took."""
    begun = time.monotonic()
    while True:
        answer = page.evaluate(js)
        if good(answer):
            return answer, time.monotonic() - begun
        assert time.monotonic() - begun < LIMIT, (js, answer)
        time.sleep(0.03)


DRAWN = "import('/page.js').then(page => page.latencies.length)"
ROWS = "parseInt(document.querySelector('#rows').textContent.replace(/,/g, ''))"
CARDS = "document.querySelectorAll('.card').length"
PAINTED = """(() => { const c = document.querySelector('#chart');
  const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
  const seen = new Set(); for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 200)
    seen.add((d[i] << 16) | (d[i + 1] << 8) | d[i + 2]); return [...seen].map(n =>
    '#' + n.toString(16).padStart(6, '0').toUpperCase()) })()"""


def background(work):
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_nothing_leaves_the_machine(feeder, visit):
    fed = feeder()
    fed.feed(3000)
    page = visit(fed.address)
    until(page, DRAWN)
    assert all(f"//127.0.0.1:{fed.port}/" in url for url in page.requested)
    assert any(url.startswith("ws:") for url in page.requested)
    assert "token" not in page.url
    until(page, PAINTED, {"#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7"}.issubset)


@pytest.mark.parametrize("rate", [10, 20_000])
def test_what_is_learned_is_drawn_in_bounded_heap(feeder, visit, rate):
    fed = feeder()
    fed.feed(500)
    page = visit(fed.address)
    until(page, DRAWN)
    before = look(page, DRAWN)
    background(lambda: fed.at_rate(rate, 4.0)).join(LIMIT)
    until(page, ROWS, lambda n: n == fed.n)
    until(page, DRAWN, lambda n: n > before)
    assert heap(page) < 20 * (1 << 20)


def heap(page):
    """Return the bytes that the page's scripts keep."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    found = session.send("Performance.getMetrics")["metrics"]
    return next(metric["value"] for metric in found if metric["name"] == "JSHeapUsedSize")


def test_five_browsers_at_once(feeder, visit):
    fed = feeder()
    fed.feed(500)
    pages = [visit(fed.address) for _ in range(5)]
    for page in pages:
        until(page, DRAWN)
    before = [look(page, DRAWN) for page in pages]
    background(lambda: fed.at_rate(1000, 4.0)).join(LIMIT)
    for page, n in zip(pages, before, strict=True):
        until(page, ROWS, lambda rows: rows == fed.n)
        until(page, DRAWN, lambda now, n=n: now > n)


def test_hostile_names_texts_and_keys_are_text(feeder, visit):
    fed = feeder(features=HOSTILE)
    fed.feed(600, events=fed.happen(("birth", 1, 200, None)))
    page = visit(fed.address)
    until(page, "document.querySelectorAll('#regimes tbody').length", lambda n: n == 3)
    until(page, "document.querySelector('#regimes').innerText", lambda x: HOSTILE[0] in x)
    assert look(page, "document.querySelectorAll('img, script:not([src])').length") == 0
    texts = feeder(features=("title",), text=True)
    stories = [{"id": i, "words": HOSTILE[i % 3], "examples": [HOSTILE[1]]} for i in range(5)]
    texts.feed(1000, texts=[HOSTILE[0]] * 1000, stories=stories)
    page = visit(texts.address)
    until(page, "document.querySelector('#regimes').innerText", lambda x: HOSTILE[1] in x)
    assert look(page, "document.querySelectorAll('img, script:not([src])').length") == 0
    keyed = feeder(key="machine")
    keyed.feed(300, keys=[HOSTILE[i % 3] for i in range(300)])
    page = visit(keyed.address)
    until(page, CARDS, lambda n: n == 3)
    page.click(".card >> nth=0")
    until(page, "document.body.dataset.view", lambda x: x == "stream")
    until(page, DRAWN)
    assert look(page, "document.querySelector('#name').textContent") in HOSTILE


def test_keys_names_and_addresses(feeder, visit, tmp_path):
    """Pause, move, zoom, span, live, theme, name and acknowledge, by keyboard alone."""
    fed = feeder(tmp_path)
    fed.feed(2500)
    page = visit(fed.address)
    until(page, DRAWN)
    label = "document.querySelector('#chart').ariaLabel"
    whole, _ = until(page, label, lambda x: x and "surprise" in x)
    page.keyboard.press(" ")
    until(page, "document.querySelector('#pause').ariaPressed", lambda x: x == "true")
    page.keyboard.press("+")
    part, _ = until(page, label, lambda x: x != whole)
    page.keyboard.press("ArrowLeft")
    until(page, label, lambda x: x != part)
    assert "end=" in page.url
    seen = look(page, label)
    other = visit(fed.address)
    other.goto(page.url)
    until(other, label, lambda x: x == seen)  # the address is that of the view
    page.keyboard.press("l")
    until(page, "document.querySelector('#live').disabled")
    theme = "document.documentElement.dataset.theme"
    assert look(page, theme) == "light"
    page.keyboard.press("t")
    until(page, theme, lambda x: x == "dark")
    page.focus("#regimes button:text-is('Name') >> nth=0")
    page.keyboard.press("Enter")
    page.keyboard.type("cleaning")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('#regimes').innerText", lambda x: "cleaning" in x)
    until(other, "document.querySelector('#regimes').innerText", lambda x: "cleaning" in x)
    assert look(page, "document.querySelectorAll('#regimes input').length") == 0
    page.keyboard.press("Enter")  # the button has the focus again
    page.select_option("#regimes select", "planned")
    for one in (page, other):
        until(
            one, "document.querySelector('#regimes .verdict').innerText", lambda x: x == "planned"
        )
    assert look(page, "document.querySelectorAll('#regimes .edit').length") == 0
    kept = (tmp_path / "page-names.json").read_text()
    assert "cleaning" in kept
    assert "planned" in kept
    until(page, "document.querySelector('#acknowledge').hidden", lambda x: x is False)
    page.focus("#acknowledge")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('#acknowledge').hidden")
    until(other, "document.querySelector('#acknowledge').hidden")
    page.focus("#silences summary")
    page.keyboard.press("Enter")
    until(page, "document.activeElement.placeholder", lambda x: x == "Reason")
    page.keyboard.type("cleaning")
    page.keyboard.press("Enter")
    for one in (page, other):
        until(
            one, "document.querySelector('#silences ul').textContent", lambda x: "(cleaning)" in x
        )
    page.click("#silences li button")
    until(other, "document.querySelectorAll('#silences li').length", lambda n: n == 0)


def test_every_control_has_a_name_and_fits_a_phone(feeder, visit):
    fed = feeder()
    fed.feed(2500)
    phone = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"}
    page = visit(fed.address, **phone)
    until(page, DRAWN)
    until(page, "document.querySelectorAll('#regimes tbody').length")
    assert look(page, "document.documentElement.scrollWidth") <= 390
    assert look(page, "document.documentElement.dataset.theme") == "dark"
    nameless = """[...document.querySelectorAll('button, a, select, input, canvas')]
      .filter(x => x.checkVisibility() && !(x.ariaLabel || x.textContent.trim() || x.title))
      .map(x => x.outerHTML)"""
    assert look(page, nameless) == []


def thousand_keys(feeder):
    """Return what was fed with rows of a thousand keys."""
    fed = feeder(key="machine")
    keys = [f"press {k:04d}" for k in range(1000)]
    for _ in range(3):
        fed.feed(20_000, keys=[k for k in keys for _ in range(20)])
    return fed


def test_columns_are_chosen_and_all_is_in_sight(feeder, visit):
    fed = feeder(features=tuple(f"c{d}" for d in range(20)))
    fed.feed(1000)
    page = visit(fed.address, viewport={"width": 1440, "height": 900})
    until(page, DRAWN)
    words = "document.querySelector('#columns summary').textContent"
    found, _ = until(page, words, lambda x: x.endswith(" of 20"))
    assert 2 <= int(found.split()[1]) < 8
    bottom = "document.querySelector('#chart').getBoundingClientRect().bottom"
    assert look(page, bottom) <= 900  # the axis of times is the lowest part of the picture
    counts = "document.querySelector('#counts').textContent"
    until(page, counts, lambda x: x == "How many in the last rows: 2 (75 %), 1 (25 %)")
    page.click("#columns summary")
    page.get_by_label("c7", exact=True).set_checked(True)
    page.get_by_label("c3", exact=True).set_checked(True)
    until(
        page,
        "import('/page.js').then(page => page.shown().history.shown.join())",
        lambda x: {"3", "7"} <= set(x.split(",")),
    )
    assert "columns=" in page.url
    page.click("#columns button")
    until(page, words, lambda x: x == found)
    ticked = """(async () => {
      WebSocket.prototype.send = () => {}  // no answer comes
      const labels = [...document.querySelectorAll('#columns label')]
      const box = labels.find(x => x.textContent === 'c9').firstChild
      box.click()
      document.querySelector('#chart').dispatchEvent(new PointerEvent('pointermove'))  // draws
      for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame)
      return box.checked })()"""
    assert look(page, ticked)  # a choice stands while its answer is on the way


def test_a_thousand_keys(feeder, visit):
    """A click shows one of them, and Escape all."""
    page = visit(thousand_keys(feeder).address)
    until(page, CARDS, lambda n: n == 1000)
    until(page, "document.querySelector('.card canvas').width", lambda n: n > 0)
    page.fill("#find", "0777")
    shown = "[...document.querySelectorAll('.card')].filter(x => x.checkVisibility()).length"
    until(page, shown, lambda n: n == 1)
    page.click(".card:visible")
    until(page, "document.querySelector('#name').textContent", lambda x: x == "press 0777")
    until(page, "document.querySelectorAll('#regimes tbody').length")
    page.keyboard.press("Escape")
    until(page, CARDS, lambda n: n == 1000)


def run(csv, folder, port):
    return subprocess.Popen(
        [sys.executable, "-c", "from streamddcrp_connectors.cli import main; main()", "run",
         str(csv), "--follow", "--time", "at", "--checkpoint", str(folder / "state"), "--sink",
         str(folder / "out.jsonl"), "--live", f"127.0.0.1:{port}"],
        cwd=HERE, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def answers(port):
    """Wait until a page answers at a port."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=60) as link:
            link.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            if link.recv(1):
                return
        time.sleep(0.05)
    pytest.fail(f"nothing answers at port {port}")


def killed(visit, folder, times):
    """Kill a run, and start it again; return how long its page took each time to be live again."""
    pytest.importorskip("tornado")
    from streamddcrp_connectors.page.access import token_of
    from streamddcrp_connectors.page.observer import listen

    with listen("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    csv = folder / "rows.csv"
    rng = np.random.default_rng(0)

    def write(first, n):
        times = np.datetime64("2026-01-01", "s") + np.arange(first, first + n)
        lines = [f"{t},{x:.3f}\n" for t, x in zip(times, rng.normal(size=n), strict=True)]
        with csv.open("a") as file:
            file.write("".join(lines))

    csv.write_text("at,x\n")
    write(0, 2000)
    address = f"http://127.0.0.1:{port}/?token={token_of(folder / 'state')}"
    first = "import('/page.js').then(p => p.shown().history.known[0])"
    waits = []
    job = run(csv, folder, port)
    try:
        answers(port)
        page = visit(address, restarts=True)
        until(page, ROWS, lambda n: n == 2000)
        known, _ = until(page, first, lambda t: t and t > 0)
        for i in range(times):
            job.kill()
            job.wait()
            until(page, "document.querySelector('#link').textContent", lambda x: x != "live")
            write(2000 + 500 * i, 500)
            job = run(csv, folder, port)
            answers(port)  # how long processes take to start is not the page's doing
            wait = until(page, "document.querySelector('#link').className", lambda x: "live" in x)
            waits.append(wait[1])
            until(page, ROWS, lambda n, i=i: n == 2500 + 500 * i)
            until(page, first, lambda t: t == known)
    finally:
        job.kill()
        job.wait()
    return waits


def test_a_killed_run_that_starts_again_is_live_with_its_history(visit, tmp_path):
    killed(visit, tmp_path, 1)
