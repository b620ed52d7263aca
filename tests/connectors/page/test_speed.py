"""How soon the page shows what. Times are the best of three: noise of a machine only adds."""

import time

import numpy as np
import pytest

from .test_browser import CARDS, DRAWN, background, killed, look, thousand_keys, until

pytestmark = pytest.mark.slow
LATENCIES = "import('/page.js').then(page => page.latencies)"


def test_first_data_soon(feeder, visit):
    fed = feeder()
    fed.feed(3000)
    took = []
    for _ in range(3):
        begun = time.monotonic()
        until(visit(fed.address), DRAWN)
        took.append(time.monotonic() - begun)
    assert min(took) < 1.5


@pytest.mark.parametrize("rate", [10, 1000, 20_000])
def test_what_is_learned_is_drawn_soon_and_often(feeder, visit, rate):
    """p95 of learned to drawn at most 250 ms, at least four pictures a second."""
    fed = feeder()
    fed.feed(500)
    page = visit(fed.address)
    until(page, DRAWN)
    tries = []
    for _ in range(3):
        before = look(page, DRAWN)
        work = background(lambda: fed.at_rate(rate, 4.0))
        while work.is_alive():
            page.wait_for_timeout(100)
        page.wait_for_timeout(300)
        seen = look(page, LATENCIES)[before:]
        tries.append((np.percentile(seen, 95), len(seen) / 4.0))
        if tries[-1][0] <= 250 and tries[-1][1] >= 4:
            break
    assert tries[-1][0] <= 250, tries
    assert tries[-1][1] >= 4, tries


def test_five_browsers_draw_each_second(feeder, visit):
    fed = feeder()
    fed.feed(500)
    pages = [visit(fed.address) for _ in range(5)]
    for page in pages:
        until(page, DRAWN)
    before = [look(page, DRAWN) for page in pages]
    work = background(lambda: fed.at_rate(1000, 4.0))
    while work.is_alive():
        pages[0].wait_for_timeout(100)
    pictures = [look(page, DRAWN) - n for page, n in zip(pages, before, strict=True)]
    assert min(pictures) >= 4, pictures  # all in software on few cores


def test_a_thousand_keys_are_painted_soon(feeder, visit):
    fed = thousand_keys(feeder)
    until(visit(fed.address), CARDS, lambda n: n == 1000)
    took = []
    for _ in range(3):
        begun = time.monotonic()
        page = visit(fed.address)
        until(page, CARDS, lambda n: n == 1000)
        until(page, "document.querySelector('.card canvas').width", lambda n: n > 0)
        took.append(time.monotonic() - begun)
    assert min(took) < 3.0
    page.fill("#find", "0777")
    shown = "[...document.querySelectorAll('.card')].filter(x => x.checkVisibility()).length"
    assert until(page, shown, lambda n: n == 1)[1] < 1.0


def test_live_again_soon(visit, tmp_path):
    waits = killed(visit, tmp_path, 3)
    assert min(waits) < 3.0, waits
