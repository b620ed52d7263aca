"""The pages of a report: whole by themselves, escaped, linked both ways, fit for a browser."""

import html.parser
import re
from collections import Counter
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamddcrp_connectors.report.report import make_report

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

HOSTILE = "<img src=x onerror=alert(1)>\"'&{{7*7}}"
BELL = "a\x07b\x00c"  # no XML may hold these
N = 120
LABELS = [0] * 40 + [1] * 30 + [0] * 50


class Parsed(html.parser.HTMLParser):
    """What a page holds: its tags with their attributes, its ids, its links, its text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(page)
        self.ids = [attrs["id"] for _, attrs in self.tags if "id" in attrs]

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def having(self, tag, name):
        return [attrs[name] for found, attrs in self.tags if found == tag and name in attrs]


@pytest.fixture(scope="module")
def regimes(tmp_path_factory):
    """A page about numbers: six columns, one of which is called what no column should be."""
    folder = tmp_path_factory.mktemp("regimes")
    rng = np.random.default_rng(0)
    level = np.array([0.0, 5.0])[LABELS]
    names = [*(f"sensor {d}" for d in range(4)), BELL, HOSTILE]
    times = [datetime(2024, 1, 1) + timedelta(hours=i) for i in range(N)]
    data = {"at": times} | {name: level + rng.normal(size=N) for name in names}
    data[HOSTILE][90] = 40.0
    pq.write_table(pa.table(data), folder / "data.parquet")
    scores = [None] * 8 + rng.uniform(size=N - 8).tolist()
    scores[90] = 25.0
    results = {"row": range(N), "time": times, "label": LABELS, "score": scores}
    pq.write_table(pa.table(results), folder / "found.parquet")
    _, paths = make_report(folder / "found.parquet", folder / "data.parquet", time="at")
    return paths[3]


@pytest.fixture(scope="module")
def stories(tmp_path_factory):
    """A page about texts."""
    folder = tmp_path_factory.mktemp("stories")
    rng = np.random.default_rng(0)
    themes = ["oil prices opec barrel", f"cup final {HOSTILE} team", "vote election party poll"]
    labels = rng.integers(3, size=300)
    texts = [" ".join(rng.permutation(themes[k].split())) for k in labels]
    pq.write_table(pa.table({"t": texts}), folder / "news.parquet")
    results = {"row": range(300), "label": labels, "score": rng.uniform(5, 9, 300)}
    pq.write_table(pa.table(results), folder / "found.parquet")
    _, paths = make_report(folder / "found.parquet", folder / "news.parquet", text="t")
    return paths[3]


@pytest.fixture(params=["regimes", "stories"])
def path(request):
    return request.getfixturevalue(request.param)


def test_a_page_needs_nothing_else(path):
    page = path.read_text()
    parsed = Parsed(page)
    for tag, attrs in parsed.tags:
        for name in ("src", "href", "xlink:href", "action", "data", "srcset"):
            value = attrs.get(name, "")
            if tag != "script":
                assert value.startswith(("#", "data:")) or not value, (tag, name, value)
    assert not re.search(r"url\((?!#)|@import", page)
    assert [a["content"] for t, a in parsed.tags if t == "meta" and a.get("name") == "viewport"]
    policy = next(a["content"] for t, a in parsed.tags if a.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert "script-src 'sha256-" in policy
    assert "prefers-color-scheme: dark" in page


def test_what_the_data_hold_is_escaped(path):
    page = path.read_text()
    parsed = Parsed(page)
    assert "onerror" not in {name for _, attrs in parsed.tags for name in attrs}
    assert not [tag for tag, _ in parsed.tags if tag == "img"]
    assert "7*7" in parsed.text
    assert sum(tag == "script" for tag, _ in parsed.tags) == 1


def test_links_lead_somewhere_and_back(path):
    parsed = Parsed(path.read_text())
    assert max(Counter(parsed.ids).values()) == 1
    links = [link[1:] for link in parsed.having("a", "href") + parsed.having("a", "xlink:href")]
    assert set(links) <= set(parsed.ids)
    assert len(set(links)) > 6
    for link in links:  # a band is called what it leads to
        if re.match(r"(visit|moment|story)-", link):
            attrs = [a for t, a in parsed.tags if t == "a" and a.get("xlink:href") == f"#{link}"]
            assert attrs[0]["aria-label"]
            assert f"#{attrs[0]['id']}" in parsed.having("a", "href")


def test_it_can_be_read_without_the_picture(path):
    parsed = Parsed(path.read_text())
    picture = next(attrs for tag, attrs in parsed.tags if attrs.get("class") == "picture")
    assert "tables below" in picture["aria-label"]
    assert len(picture["aria-label"]) < 400
    assert all(attrs.get("scope") for tag, attrs in parsed.tags if tag == "th")
    assert {"filter", "tables"} <= set(parsed.ids)


def test_every_column_and_regime_is_told(regimes):
    text = Parsed(regimes.read_text()).text
    for name in [*(f"sensor {d}" for d in range(4)), "a b c", HOSTILE]:
        assert name in text
    assert "there at the end" in text
    assert "2024-01-04 18:00" in text  # the surprising row
    assert text.count("regime 1") > text.count("regime 2")


def opened(browser, path, **how):
    context = browser.new_context(**how)
    context.set_default_timeout(300_000)  # the machine may be busy
    page = context.new_page()
    page.complaints, page.requests = [], []
    page.on("console", lambda message: page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("dialog", lambda dialog: page.complaints.append(dialog.message))
    page.on("request", lambda request: page.requests.append(request.url))
    page.goto(path.as_uri())
    return page


def test_in_a_browser(chromium, path):
    """No request, no complaint, no sideways scrolling; links, filter and keys do what they say."""
    page = opened(chromium, path, viewport={"width": 390, "height": 800})
    assert [url for url in page.requests if not url.startswith("data:")] == [path.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    total = page.locator("tbody tr").count()
    page.keyboard.press("/")
    page.keyboard.type("nothing has these words")
    page.get_by_text(f"0 of {total} rows", exact=True).wait_for()
    assert page.locator("tbody tr:visible").count() == 0
    page.locator("svg.picture a[id]").first.focus()
    page.keyboard.press("Enter")  # to a row that is hidden
    row = page.locator("tr:target")
    row.wait_for()
    assert page.locator("tbody tr:visible").count() == total
    row.locator("a").first.click()
    page.locator("a:target").wait_for(state="attached")
    assert page.complaints == []
    page.context.close()


def test_dark_mode(chromium, path):
    """Letters of page and picture stand out from the ground in both schemes."""
    look = """() => { const of = (e, p) => getComputedStyle(e)[p].match(/[\\d.]+/g).slice(0, 3)
        .reduce((sum, part, k) => sum + part * [0.2126, 0.7152, 0.0722][k], 0);
        const letters = [...document.querySelectorAll('svg.picture text')].pop();
        return [of(document.body, 'backgroundColor'), of(document.body, 'color'),
                of(letters, 'fill')]; }"""
    for scheme, sign in (("light", 1), ("dark", -1)):
        page = opened(chromium, path, color_scheme=scheme)
        ground, ink, letters = page.evaluate(look)
        assert sign * (ground - ink) > 100
        assert sign * (ground - letters) > 100
        page.context.close()
