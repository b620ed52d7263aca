"""The report: right words, whole pictures, and a clear refusal of what does not fit together."""

import dataclasses
import io
import itertools
import json
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from streamddcrp.plots.figures import INK, styled
from streamddcrp.plots.findings import changed_features, find, odd_features, telling_features
from streamddcrp.plots.palette import COLOURS, DARK, GREY, colours_of
from streamddcrp.plots.segments import HOLD, Numbers, visits
from streamddcrp.plots.series import Clock, Labelled
from streamddcrp.plots.timeline import draw, render
from streamddcrp_connectors.cli import main
from streamddcrp_connectors.report.page import page_of_regimes
from streamddcrp_connectors.report.results import read_labelled
from streamddcrp_connectors.report.words import in_words, number
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.names import Names
from streamddcrp_connectors.run.sinks import open_sink

# 30 hours: 5 of warm-up, then regime 0 with a blip of 3, regime 1, two rows of 2, back to 0, to 1.
LABELS = [0] * 5 + [0] * 5 + [3] + [0] * 3 + [1] * 6 + [2] * 2 + [0] * 3 + [1] * 5
TIMES = np.datetime64("2024-05-01T00:00", "ns") + np.arange(30) * np.timedelta64(1, "h")
X = [12.0 if i == 12 else {0: 10.0, 1: 20.0, 2: 15.0, 3: 30.0}[k] for i, k in enumerate(LABELS)]
SCORES = [None] * 5 + [1.0] * 25
SCORES[14], SCORES[22] = 9.0, 5.0

WORDS = """\
data.csv: 30 rows from 2024-05-01 00:00 to 2024-05-02 05:00, in UTC (29 hours).
5 rows are the model's warm-up, before its first prediction, and left out below.

2 regimes: states that lasted for at least 3 consecutive rows; one that comes back keeps its number.
2 other labels never lasted so long (3 rows in all).

Regime 1: 44.0 % of rows (11), first seen 2024-05-01 05:00, last seen 2024-05-02 00:00 (id 0).
  flow  mean 10.18, mostly 10 to 11 (lowest 10, highest 12)

Regime 2: 44.0 % of rows (11), first seen 2024-05-01 14:00, there at the end (id 1).
  flow  always 20

Longest stays:
  regime 1, 2024-05-01 05:00 to 2024-05-01 13:00 (8 hours, 9 rows)
  regime 2, 2024-05-01 14:00 to 2024-05-01 19:00 (5 hours, 6 rows)
  regime 2, 2024-05-02 01:00 to 2024-05-02 05:00 (4 hours, 5 rows)

Came back after another regime had taken over:
  regime 1, once: 2024-05-01 22:00
  regime 2, once: 2024-05-02 01:00

Most surprising moments (nats), farthest above the rows around first, numbered as in the picture:
  1. 2024-05-01 14:00: surprise 9; flow 20; regime 2 begins
  2. 2024-05-01 22:00: surprise 5; flow 10; back to regime 1
"""


def write_data(folder, *, keys=None, name="data.csv"):
    """Write the series as CSV, with times of a zone as people have them."""
    zoned = [f"{np.datetime_as_string(t + np.timedelta64(2, 'h'), 's')}+02:00" for t in TIMES]
    columns = {"when": zoned, "flow": X} | ({} if keys is None else {"pump": keys})
    lines = [",".join(columns)]
    lines += [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def write_results(path, *, times=TIMES, keys=None, rows=range(30)):
    """Write results with the sinks of `run`."""
    columns = {"row": pa.array(list(rows), pa.int64())}
    if times is not None:
        columns["time"] = pa.array(times, pa.timestamp("ns", "UTC"))
    if keys is not None:
        columns["key"] = pa.array(keys)
    columns["label"] = pa.array(LABELS, pa.int64())
    for name in ("label_prob", "score", "p_new", "p_change"):
        columns[name] = pa.array(SCORES, pa.float64())
    columns["n_tables"] = pa.array([4] * 30, pa.int64())
    sink = open_sink(path, io.BytesIO(), None)
    sink.rewind(None)
    batch = pa.record_batch(list(columns.values()), names=list(columns))
    sink.write(batch.slice(0, 13))
    sink.write(batch.slice(13))
    sink.finish()
    return path


def report(*arguments):
    return CliRunner().invoke(main, ["report", *map(str, arguments)])


def check_picture(prefix):
    from matplotlib.image import imread

    png = prefix.with_suffix(".png")
    assert png.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    pixels = imread(png)
    assert pixels.shape[1] > 1500
    assert pixels[..., :3].std() > 0.05  # a blank page has none
    root = ET.fromstring(prefix.with_suffix(".svg").read_bytes())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "arrow"])
def test_report_says_and_draws_what_was_found(tmp_path, ending):
    results = write_results(tmp_path / f"found.{ending}")
    done = report(results, "--source", write_data(tmp_path), "--time", "when")
    assert done.exit_code == 0, done.output
    assert done.stdout == WORDS
    assert (tmp_path / "found.txt").read_text() == WORDS
    check_picture(tmp_path / "found")


def test_regimes_have_the_names_that_were_given_to_them(tmp_path):
    label = int(LABELS[-1])
    Names(tmp_path).give("", label, "cleaning $x^$")
    results = write_results(tmp_path / "found.jsonl")
    data = write_data(tmp_path)
    done = report(results, "--source", data, "--time", "when", "--checkpoint", tmp_path)
    assert done.exit_code == 0, done.output
    assert f"Regime {label + 1} (cleaning $x^$): " in done.stdout
    assert done.stdout.replace(" (cleaning $x^$)", "") == WORDS
    check_picture(tmp_path / "found")


@pytest.mark.parametrize(
    ("out", "made"),
    [
        ("", "found"),
        ("new", "new"),
        ("new.png", "new"),
        ("v1.2", "v1.2"),
        ("new.d/", "new.d/found"),
    ],
)
def test_files_go_where_they_are_asked_to(tmp_path, out, made):
    (tmp_path / "new.d").mkdir()
    results = write_results(tmp_path / "found.parquet")
    data = write_data(tmp_path)
    done = report(results, "--source", data, "--time", "when", "--out", f"{tmp_path}/{out}")
    assert done.exit_code == 0, done.output
    for ending in (".png", ".svg", ".txt"):
        assert (tmp_path / (made + ending)).exists()


def test_without_times_rows_are_counted(tmp_path):
    results = write_results(tmp_path / "found.jsonl", times=None)
    done = report(results, "--source", write_data(tmp_path), "--features", "flow")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("data.csv: 30 rows (row 0 to row 29).\n")
    assert "regime 1, row 5 to row 13 (9 rows)" in done.stdout
    check_picture(tmp_path / "found")


def test_times_are_found_as_a_run_finds_them(tmp_path):
    results, data = write_results(tmp_path / "found.parquet"), write_data(tmp_path)
    assert report(results, "--source", data).stdout == WORDS
    assert report(results, "--source", data, "--features", "flow").stdout == WORDS


def test_rows_that_were_set_aside_or_repeated(tmp_path):
    """Results may skip rows (dead letters) and, from a pipe, hold some twice: the last counts."""
    skipping = [i + (i > 3) for i in range(30)]
    write_results(tmp_path / "found.jsonl", times=None, rows=skipping)
    data = tmp_path / "data.csv"
    data.write_text("flow\n" + "".join(f"{x}\n" for x in [*X[:4], "oops", *X[4:]]))
    once = report(tmp_path / "found.jsonl", "--source", data)
    assert once.exit_code == 0, once.output
    assert "always 20" in once.stdout
    lines = (tmp_path / "found.jsonl").read_text().splitlines(keepends=True)
    wrong = [line.replace('"label": 0', '"label": 77') for line in lines[6:9]]
    (tmp_path / "found.jsonl").write_text("".join(lines[:9] + lines[6:]))
    assert report(tmp_path / "found.jsonl", "--source", data).stdout == once.stdout
    (tmp_path / "found.jsonl").write_text("".join(lines[:6] + wrong + lines[6:]))
    assert report(tmp_path / "found.jsonl", "--source", data).stdout == once.stdout


def test_one_key_of_several(tmp_path):
    keys = ["a" if i % 2 else "b" for i in range(30)]
    results = write_results(tmp_path / "found.parquet", keys=keys)
    data = write_data(tmp_path, keys=keys)
    columns = ("--source", data, "--time", "when", "--key", "pump")
    done = report(results, *columns, "--only", "b")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("data.csv, b: 15 rows from 2024-05-01 00:00 to 2024-05-02 04:00")
    check_picture(tmp_path / "found")
    several = report(results, *columns)
    assert several.exit_code == 0, several.output
    assert several.stdout.startswith("data.csv: 2 keys, none of them ")
    assert "  a: regime " in several.stdout
    check_picture(tmp_path / "found")
    unknown = report(results, *columns, "--only", "c")
    assert unknown.exit_code == 2
    assert "no key 'c'; it has b, a" in unknown.stderr


def short_data(folder):
    path = write_data(folder)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:20]))


def later_data(folder):
    path = write_data(folder)
    path.write_text(path.read_text().replace("2024-05-01T07:00:00", "2024-05-01T07:00:01"))


def text_in_data(folder):
    path = write_data(folder)
    path.write_text(path.read_text().replace("30.0", "much"))


def cut_results(folder):
    path = folder / "found.parquet"
    path.write_bytes(path.read_bytes()[:-20])


def no_results(folder):
    sink = open_sink(folder / "found.parquet", io.BytesIO(), None)
    sink.rewind(None)
    sink.finish()


def empty_results(folder):
    schema = pa.schema([("row", pa.int64()), ("label", pa.int64()), ("score", pa.float64())])
    pq.write_table(schema.empty_table(), folder / "found.parquet")


def broken_label(folder):
    table = pa.table({"row": [0, 1], "label": [0.5, 1.0], "score": [1.0, 1.0]})
    pq.write_table(table, folder / "found.parquet")


def keyed(folder):
    keys = ["a" if i % 2 else "b" for i in range(30)]
    write_results(folder / "found.parquet", keys=keys)
    write_data(folder, keys=keys)


REFUSALS = {
    "no results": (lambda folder: (folder / "found.parquet").unlink(), {}, "cannot read"),
    "no data": (lambda folder: (folder / "data.csv").unlink(), {}, "cannot read"),
    "not results": (None, {"results": "data.csv"}, "it has no column 'row', only when, flow"),
    "a run of no rows": (no_results, {}, "it has no column 'label', only row"),
    "results without rows": (empty_results, {}, "holds no rows"),
    "damaged results": (cut_results, {}, "not a whole Parquet file"),
    "a label that is none": (broken_label, {}, "row 0: column 'label' must be a whole number"),
    "shorter data": (short_data, {}, "is not about {data}: row 19 is not in it"),
    "other times": (later_data, {}, "row 5: the time was 2024-05-01T05:00:00"),
    "unusable data": (text_in_data, {}, "row 10: column 'flow' must be a number"),
    "no such column": (None, {"--time": "hour"}, "has no column 'hour'; it has when, flow"),
    "key not named": (keyed, {"--only": "a"}, "give the same --key COL"),
    "no such feature": (None, {"--features": "flow, speed"}, "has no column 'speed'"),
    "no keys": (None, {"--only": "a"}, "has no keys"),
    "no folder": (None, {"--out": "{folder}/nowhere/it"}, "there is no folder"),
    "over its data": (
        lambda folder: (folder / "data.csv").rename(folder / "found.txt"),
        {"--source": "{folder}/found.txt"},
        "would be written over",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals_are_one_line(tmp_path, case):
    write_results(tmp_path / "found.parquet")
    write_data(tmp_path)
    spoil, options, expected = REFUSALS[case]
    if spoil is not None:
        spoil(tmp_path)
    names = {"results": "found.parquet", "--source": "{folder}/data.csv", "--time": "when"}
    names |= options
    arguments = [tmp_path / names.pop("results")]
    for option, value in names.items():
        if value is not None:
            arguments += [option, value.format(folder=tmp_path)]
    done = report(*arguments)
    assert done.exit_code == 2
    assert expected.format(data=tmp_path / "data.csv") in done.stderr
    assert done.stderr.startswith("streamddcrp: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert not list(tmp_path.glob("*.png"))


def test_a_missing_matplotlib_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    results = write_results(tmp_path / "found.parquet")
    done = report(results, "--source", write_data(tmp_path), "--time", "when")
    assert done.exit_code == 2
    assert "pip install 'streamddcrp[plot]'" in done.stderr


def test_pyplot_is_left_alone(tmp_path):
    """No global figures or settings: a report may be made inside somebody's program."""
    results = write_results(tmp_path / "found.parquet")
    data = write_data(tmp_path)
    code = f"""if True:
        import sys, matplotlib
        from streamddcrp_connectors.report.report import make_report
        before = matplotlib.rcParams.copy()
        make_report({str(results)!r}, {str(data)!r}, time="when")
        assert "matplotlib.pyplot" not in sys.modules
        assert matplotlib.rcParams.copy() == before
    """
    subprocess.run([sys.executable, "-c", code], check=True)


def series(labels, *, values=None, scores=None, features=("x",)):
    labels = np.asarray(labels, dtype=np.int64)
    n = len(labels)
    return Labelled(
        name="made",
        features=features,
        values=np.zeros((n, len(features))) if values is None else values,
        labels=labels,
        scores=np.ones(n) if scores is None else scores,
        clock=Clock(np.arange(n)),
    )


def test_forty_regimes_share_a_lane_and_the_words_stay_short():
    labels = np.repeat(np.arange(40), 10)
    findings = find(series(labels, values=labels[:, None] * 1.0))
    words = in_words(findings)
    assert "40 regimes" in words
    assert "28 smaller regimes with 70.0 % of the rows." in words
    assert "No regime came back" in words
    assert len(words.splitlines()) < 70
    assert render(findings, ("png",))["png"].startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "made",
    [
        series([0]),
        series([0] * 20, scores=np.full(20, np.nan)),
        series([0, 1] * 10),
        series([0] * 9, values=np.full((9, 1), np.nan)),
        series([0] * 9, values=np.full((9, 1), 1e300), features=("温度 $x_1 " * 20,)),
    ],
    ids=["one row", "all warm-up", "nothing holds", "all missing", "odd name"],
)
def test_odd_series_are_drawn_and_told(made):
    findings = find(made)
    assert in_words(findings).startswith("made: ")
    pictures = render(findings)
    assert pictures["png"].startswith(b"\x89PNG")
    ET.fromstring(pictures["svg"])


def test_the_same_picture_gives_the_same_files():
    findings = find(series(LABELS))
    assert render(findings) == render(findings)


def test_features_that_tell_regimes_apart_come_first():
    labels = np.repeat([0, 1], 50)
    noise = np.random.default_rng(0).normal(size=(100, 5))
    noise[:, 1] += 9 * labels
    noise[:, 3] += 5 * labels
    noise[:, 4] = np.nan
    findings = find(series(labels, values=noise, features=tuple("abcde")))
    findings = dataclasses.replace(findings, moments=())
    assert telling_features(findings, 2) == [1, 3]
    assert telling_features(findings, 3)[:2] == [1, 3]
    assert sorted(telling_features(findings, 5)) == [0, 1, 2, 3, 4]


def test_a_short_visit_is_no_change_of_its_columns():
    labels = np.repeat([0, 1, 0, 2, 0], [100, 4, 100, 100, 100])  # the second only by chance
    noise = np.random.default_rng(0).normal(size=(404, 30))
    noise[204:304, 7] += 3.0
    noise[100:104, 9] += 9.0
    findings = find(series(labels, values=noise, features=tuple(map(str, range(30)))))
    assert changed_features(findings) == [9, 7]
    assert telling_features(findings, 12)[:2] == [9, 7]
    said = next(t.get_text() for t in pictured(findings).axes[-1].texts if "18" in t.get_text())
    assert said.startswith("18 columns without a change: ")


def test_a_young_model_has_no_surprising_moments():
    scores = np.random.default_rng(0).normal(size=2000)
    scores += 30.0 * np.exp(-np.arange(2000) / 150.0)
    scores[1500] += 15.0
    assert find(series(np.zeros(2000, int), scores=scores)).moments[0] == 1500


def test_features_at_rest_come_last():
    values = np.random.default_rng(0).normal(size=(100, 4))
    values[:, 0], values[:, 1] = np.nan, 3.0
    findings = find(series(np.zeros(100, dtype=int), values=values, features=tuple("abcd")))
    findings = dataclasses.replace(findings, moments=())
    assert telling_features(findings, 2) == [2, 3]
    assert "\n\n\n" not in in_words(findings)


def pictured(findings):
    with styled():
        return draw(findings)


def faulty(n_columns=20, column=7, row=160):
    """Two regimes in most columns, and one that has a fault in one row and no regimes."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 100)
    values = rng.normal(size=(200, n_columns)) + 20.0 * labels[:, None]
    values[:, column] -= 20.0 * labels
    values[row, column] += 10.0
    scores = rng.uniform(size=200)
    scores[row] = 30.0
    names = tuple(f"sensor {d}" for d in range(n_columns))
    return find(series(labels, values=values, scores=scores, features=names))


def test_a_fault_in_one_of_many_columns_is_drawn_ringed_and_told():
    findings = faulty()
    assert odd_features(findings.series, 160) == [7]
    assert len(telling_features(findings, 12)) == 12
    figure = pictured(findings)
    panel = next(ax for ax in figure.axes if ax.get_title(loc="left") == "sensor 7")
    ring = next(line for line in panel.lines if line.get_gid() == "odd-1-7")
    assert ring.get_xydata().tolist() == [[160.0, findings.series.values[160, 7]]]
    assert "160: surprise 30; sensor 7 " in in_words(findings)


def test_columns_that_are_left_out_are_named():
    findings = faulty()
    figure, words = pictured(findings), in_words(findings)
    drawn = {ax.get_title(loc="left") for ax in figure.axes}
    left_out = [name for name in findings.series.features if name not in drawn]
    said = next(t.get_text() for t in figure.axes[-1].texts if t.get_text().startswith("not drawn"))
    assert said == f"not drawn (8 of 20 columns): {', '.join(left_out)}"
    listed = words.split("--features): ")[1].split(".\n")[0].split(", ")
    reported = {line.split("  mean")[0].strip() for line in words.splitlines() if "  mean" in line}
    assert {name.strip() for name in listed} | reported == set(findings.series.features)
    assert "not drawn" not in str(pictured(faulty(12)).axes[-1].texts)


def test_moments_and_warm_up_look_different():
    """Moments are dashed dark lines, the warm-up is hatched; no area is filled for either."""
    findings = faulty()
    scores = findings.series.scores.copy()
    scores[:10] = np.nan
    ax = pictured(find(dataclasses.replace(findings.series, scores=scores))).axes[0]
    assert [patch.get_hatch() for patch in ax.patches] == ["////"]
    assert not ax.patches[0].get_fill() or ax.patches[0].get_facecolor()[3] == 0.0
    dashed = [line for line in ax.lines if line.is_dashed()]
    assert len(dashed) == len(findings.moments)
    assert {line.get_color() for line in dashed} == {INK}


def test_given_names_are_drawn_and_written_as_text():
    made = series(LABELS, scores=np.array(SCORES, float))
    findings = find(dataclasses.replace(made, names={1: "cleaning <b> $x^$"}))
    lanes = [label.get_text() for label in pictured(findings).axes[-1].get_yticklabels()]
    assert lanes == ["regime 1", "regime 2 (cleaning <b> $x^$)"]
    assert "Regime 2 (cleaning <b> $x^$): " in in_words(findings)
    assert "regime 2 (cleaning &lt;b&gt; $x^$)" in page_of_regimes(findings)


def test_labels_of_the_picture_keep_apart():
    figure = pictured(
        find(series(LABELS, values=np.array(X)[:, None], scores=np.array(SCORES, float)))
    )
    figure.canvas.draw()
    boxes = [t.get_window_extent() for ax in figure.axes for t in (*ax.texts, ax._left_title)
             if t.get_text()]  # fmt: skip
    boxes += [ax.get_legend().get_window_extent() for ax in figure.axes if ax.get_legend()]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(1, 4))
def test_visits_agree_with_the_rule_told_row_by_row(labels, hold):
    """The twin: walk the rows and change regime when a label has held."""
    labels = np.array(labels, dtype=np.int64)
    now, expected = None, []
    for i in range(hold - 1, len(labels)):
        run = labels[i - hold + 1 : i + 1]
        if (run == run[0]).all():
            if now != run[0]:
                now = int(run[0])
                expected.append([now, i - hold + 1, i])
            expected[-1][2] = i
    assert [[v.label, v.first, v.last] for v in visits(labels, hold)] == expected


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(0, 60))
def test_regimes_have_numbers_without_gaps_whatever_the_batches(labels, cut):
    labels, numbers = 5 * np.array(labels, dtype=np.int64), Numbers()
    numbers.see(labels[:cut])
    numbers = Numbers.restored(json.loads(json.dumps(numbers.state())))
    for upto, label in enumerate(labels[cut:-1].tolist(), start=1):
        numbers.add(label, upto)
        numbers.add(label, upto)  # nothing is added twice
    numbers.see(labels[cut:][-1:])
    found = [visit.label for visit in visits(labels)]
    order = dict.fromkeys(found)
    assert numbers.of == {label: n for n, label in enumerate(order, start=1)}
    assert list(numbers.of) == list(dict.fromkeys(reversed(found)))[::-1]


def test_a_visit_needs_three_rows():
    assert HOLD == 3
    assert visits(np.array([5, 5])) == []
    assert len(visits(np.array([5, 5, 5]))) == 1


@pytest.mark.parametrize(
    ("times", "said", "span"),
    [
        (np.array(["2024-01-01", "2024-01-09"], "M8[ns]"), "2024-01-09", "8 days"),
        (np.array(["2024-01-01T00:00", "2024-01-01T00:05"], "M8[ns]"), "2024-01-01 00:05", "5 min"),
        (np.array([0, 1_500_000], "M8[ns]"), "1970-01-01 00:00:00.001500", "0 seconds"),
        (np.array([1e9, 1e9 + 5]), "1000000005", "5 long"),
        (np.array([0.1, 0.35]), "0.35", "0.25 long"),
        (np.arange(2), "row 1", ""),
    ],
)
def test_times_are_said_as_finely_as_needed(times, said, span):
    clock = Clock(times)
    assert clock.at(1) == said
    assert clock.span(0, 1).startswith(span)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (-101.25, "-101.2"), (99999.6, "100,000"), (1.5e-9, "1.500e-09"), (0.1, "0.1")],
)
def test_numbers_have_four_digits(value, text):
    assert number(value) == text


@pytest.mark.parametrize("palette", [COLOURS, DARK])
def test_colours_differ_for_every_kind_of_sight(palette):
    """At least 16 apart in CIELAB under the simulations of Machado et al. (2009), severity 1."""
    sights = np.array(
        [
            np.eye(3),
            [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
             [-0.003882, -0.048116, 1.051998]],
            [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
             [-0.011820, 0.042940, 0.968881]],
            [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
             [0.004733, 0.691367, 0.303900]],
        ]
    )  # fmt: skip
    seen = np.array([[lab(sight @ linear(colour)) for sight in sights] for colour in palette])
    for one, other in itertools.combinations(seen, 2):
        assert np.linalg.norm(one - other, axis=1).min() > 16


def linear(colour):
    c = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = to_xyz @ np.clip(rgb, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@given(st.sets(st.integers(0, 100), max_size=12))
def test_no_two_regimes_share_a_colour(labels):
    given_ = colours_of(labels)
    assert set(given_) == labels
    assert len(set(given_.values())) == len(labels)
    assert GREY not in given_.values()


def test_regimes_are_drawn_by_the_state_where_results_have_it(tmp_path):
    data = write_data(tmp_path)
    labels = write_results(tmp_path / "labels.parquet")
    table = pq.read_table(labels)
    states = [0 if k == 3 else k for k in LABELS]
    both = tmp_path / "both.parquet"
    pq.write_table(table.append_column("state", pa.array(states, pa.int64())), both)
    columns = Columns("when", None, ("flow",))
    assert read_labelled(labels, data, columns).labels.tolist() == LABELS
    assert read_labelled(both, data, columns).labels.tolist() == states
