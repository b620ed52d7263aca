"""The report of stories: the final labels, the picture, a page without other files."""

import re
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.models.text.text_stream import TextStream
from streamddcrp_connectors.report.report import make_report

pytest.importorskip("matplotlib")

THEMES = ("oil prices opec barrel", "cup final <b>goal</b> team", "vote election party poll")
N = 900


def rows(page):
    return re.findall(r"<tr[^>]*><td.*?</tr>", page, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stories")
    rng = np.random.default_rng(0)
    texts = [" ".join([*rng.permutation(THEMES[k].split()), f"w{i % 90}"])
             for i, k in enumerate(rng.integers(3, size=N).tolist())]  # fmt: skip
    texts[5] = "..."
    times = [datetime(2024, 1, 1) + timedelta(hours=i) for i in range(N)]
    pq.write_table(pa.table({"at": times, "title": texts}), folder / "news.parquet")
    out = TextStream(lag=100, scale="story").step_many(texts, times)
    columns = {"row": np.arange(N), "time": pa.array(times)}
    columns |= dict(zip(out.schema.names, out.columns, strict=True))
    pq.write_table(pa.table(columns), folder / "out.parquet")
    return folder


def test_report_of_texts(folder):
    words, paths = make_report(
        folder / "out.parquet", folder / "news.parquet", time="at", text="title"
    )
    assert [path.suffix for path in paths] == [".png", ".svg", ".txt", ".html"]
    assert words == paths[2].read_text()
    assert "900 texts, 2024-01-01 00:00 to 2024-02-07 11:00: 3 stories" in words
    assert {"opec", "goal", "vote"} <= set(words.split())
    page = paths[3].read_text()
    assert len(rows(page)) == 3 + 10
    assert "&lt;b&gt;goal&lt;/b&gt;" in page
    assert "<b>goal</b>" not in page
    assert "<svg" in page


def test_final_labels_count(folder):
    table = pq.read_table(folder / "out.parquet")
    label = table["label"].to_numpy().copy()
    label[10] = 77  # a label at once that did not stay
    i = table.schema.get_field_index("label")
    pq.write_table(table.set_column(i, "label", pa.array(label)), folder / "other.parquet")
    words, _ = make_report(
        folder / "other.parquet", folder / "news.parquet", time="at", text="title"
    )
    assert ": 3 stories" in words


def test_one_text_and_results_without_final_labels(tmp_path):
    pq.write_table(pa.table({"t": ["only one"]}), tmp_path / "one.parquet")
    results = {"row": [0], "label": [0], "score": [3.0]}
    pq.write_table(pa.table(results), tmp_path / "out.parquet")
    words, _ = make_report(tmp_path / "out.parquet", tmp_path / "one.parquet", text="t")
    assert words.startswith("1 text, row 0 to row 0: 1 story,")


def test_the_page_tells_when_stories_were_and_what_is_odd(tmp_path):
    texts = [f"oil prices opec barrel w{i % 7} {'rise' if i % 2 else 'fall'}" for i in range(200)]
    labels = np.zeros(200, np.int64)
    for i in range(60, 120):
        texts[i], labels[i] = f"cup final goal team w{i % 7}", 1
    scores = np.full(200, 10.0)
    texts[150], scores[150] = "oil prices opec barrel zebra yak", 25.0
    texts[151], scores[151] = "oil prices opec barrel " + "long " * 40, 24.0
    pq.write_table(pa.table({"t": texts}), tmp_path / "news.parquet")
    results = {"row": np.arange(200), "label": labels, "score": scores}
    pq.write_table(pa.table(results), tmp_path / "out.parquet")
    _, paths = make_report(tmp_path / "out.parquet", tmp_path / "news.parquet", text="t")
    page = paths[3].read_text()
    begins, odd = page.split("What happened</h2>")[1].split("Surprising texts</h2>")
    assert [line.split("<td>")[1][:5] for line in rows(begins)] == ["begin", "ends<"]
    assert ">row 60<" in begins
    assert ">row 119<" in begins
    assert "zebra yak" in rows(odd)[0]
    assert page.count('class="busy"') == 2


def test_typical_texts_are_not_the_same_again(tmp_path):
    texts = ["oil prices rise opec", "oil prices rise opec", "oil prices fall opec meets barrel",
             "barrel of oil dearer", "oil"]  # fmt: skip
    pq.write_table(pa.table({"t": texts}), tmp_path / "news.parquet")
    results = {"row": range(5), "label": [0] * 5, "score": [3.0] * 5}
    pq.write_table(pa.table(results), tmp_path / "out.parquet")
    _, paths = make_report(tmp_path / "out.parquet", tmp_path / "news.parquet", text="t")
    stories = paths[3].read_text().split("Surprising texts")[0]
    assert stories.count("<li>oil prices rise opec</li>") == 1
    assert stories.count("<li>") == 3


def test_what_does_not_fit_is_refused(folder):
    files = folder / "out.parquet", folder / "news.parquet"
    with pytest.raises(ConfigError, match="exclude each other"):
        make_report(*files, time="at", text="title", features=("title",))
    with pytest.raises((ConfigError, SchemaError), match="headline"):
        make_report(*files, time="at", text="headline")


def test_themes_are_listed_with_their_stories(tmp_path):
    texts = [f"{THEMES[i % 3].replace('<b>goal</b>', 'goal')} w{i}" for i in range(90)]
    pq.write_table(pa.table({"t": texts}), tmp_path / "news.parquet")
    results = {"row": range(90), "label": [i % 3 for i in range(90)], "score": [3.0] * 90}
    theme = [None if i < 3 else [8, 5, 8][i % 3] for i in range(90)]
    pq.write_table(pa.table(results | {"theme": theme}), tmp_path / "out.parquet")
    _, paths = make_report(tmp_path / "out.parquet", tmp_path / "news.parquet", text="t")
    listed = paths[3].read_text().split("Themes</h2>")[1].split("Stories</h2>")[0]
    (line,) = re.findall(r"<li>.*?</li>", listed)  # of one story only, no theme is shown
    assert "60 texts in 2 stories" in line
    assert re.findall(r'href="#story-(\d)"', line) == ["0", "2"]


def test_lines_of_machines_are_named_by_their_templates(tmp_path):
    """A burst, and a template that comes late, are told."""
    rng = np.random.default_rng(0)
    forms = ("web door {} opened by {}", "web heat {} above {} degrees", "db backup {} took {} s")
    said = []
    for i in range(1500):
        k = 1 if 700 < i < 760 else 0 if i % 12 else 1
        k = 2 if i > 1200 and i % 3 == 0 else k
        said.append(forms[k].format(rng.integers(100), rng.integers(900)))
    times = [datetime(2024, 1, 1) + timedelta(minutes=i) for i in range(1500)]
    pq.write_table(pa.table({"at": times, "line": said}), tmp_path / "log.parquet")
    out = TextStream(lag=100).step_many(said, times)
    columns = {"row": np.arange(1500), "time": pa.array(times)}
    columns |= dict(zip(out.schema.names, out.columns, strict=True))
    pq.write_table(pa.table(columns), tmp_path / "out.parquet")
    words, paths = make_report(
        tmp_path / "out.parquet", tmp_path / "log.parquet", time="at", text="line"
    )
    assert {line.split("  ")[-1] for line in words.splitlines()[2:]} == {
        form.replace("{}", "<*>") for form in forms
    }
    told = rows(paths[3].read_text())
    assert any("<td>bursts" in row and "web heat" in row for row in told)
    assert any("<td>begins" in row and "db backup" in row for row in told)
