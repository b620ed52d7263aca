"""`plot()` of models of rows: the last rows, by regime, with their surprise."""

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

plt = pytest.importorskip("matplotlib.pyplot")

from streamddcrp import DDCRPSampler, SeqDDCRP, TimeVaryingIBP  # noqa: E402
from streamddcrp.data.times import is_stamp  # noqa: E402
from streamddcrp.estimator.recent import COLUMNS, ROWS, Recent  # noqa: E402

START = datetime(2024, 5, 1)


def levels(n, n_columns=2, seed=0):
    """Rows of a process that changes its level every sixty rows."""
    rng = np.random.default_rng(seed)
    level = 20.0 * ((np.arange(n) // 60) % 2)
    return level[:, None] + rng.normal(size=(n, n_columns))


def titles(figure):
    return [ax.get_title(loc="left") for ax in figure.axes]


def test_a_time_line_has_values_surprise_and_regimes():
    model = SeqDDCRP()
    X = levels(240)
    out = model.step_many(pa.table({"flow": X[:, 0], "power [kW]": X[:, 1]}))
    figure = model.plot()
    names = titles(figure)
    assert names[:2] == ["flow", "power [kW]"]
    assert names[2].startswith("surprise")
    assert names[3] == "regimes"
    dots = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    drawn = sum(len(line.get_xdata()) for line in dots if not line.get_gid())
    assert drawn == 240
    score = figure.axes[2].lines[0].get_ydata()
    np.testing.assert_array_equal(score, out["score"].to_numpy(zero_copy_only=False))
    lanes = {label.get_text() for label in figure.axes[3].get_yticklabels()}
    labels = out["label"].to_numpy()[8:]
    assert lanes == {f"regime {k}" for k in range(1, len(set(labels.tolist())) + 1)}
    assert figure.axes[3].get_xlabel() == "row"
    assert figure.number in plt.get_fignums()


def test_one_by_one_and_in_batches_draw_the_same():
    X = levels(150)
    one, many = SeqDDCRP(), SeqDDCRP()
    for x in X.tolist():
        one.learn_one(dict(enumerate(x)))
    many.learn_many(X[:31])
    many.learn_many(X[31:])
    for a, b in zip(one._recent.rows(), many._recent.rows(), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("cuts", [(1,) * 40, (ROWS - 3, 7, 2), (2 * ROWS + 5,), (ROWS, ROWS)])
def test_a_ring_keeps_the_last_rows(cuts):
    X, t = levels(sum(cuts), COLUMNS + 2), np.arange(sum(cuts)) * 1.0
    ring, at = Recent(COLUMNS + 2), 0
    for n in cuts:
        part = slice(at, at + n)
        ring.add(X[part], t[part], t[part] % 7, -t[part])
        at += n
    times, labels, scores, values = ring.rows()
    np.testing.assert_array_equal(times, t[-ROWS:])
    np.testing.assert_array_equal(labels, t[-ROWS:] % 7)
    np.testing.assert_array_equal(scores, -t[-ROWS:])
    np.testing.assert_array_equal(values, X[-ROWS:, :COLUMNS])


def test_what_is_left_out_is_said():
    model = SeqDDCRP(likelihood=("normal_gamma", 0.0, 0.01, 1.5, 1.0))
    model.learn_many(levels(ROWS + 200, COLUMNS + 3))
    figure = model.plot()
    said = " ".join(text.get_text() for text in figure.axes[-1].texts)
    assert f"the last {ROWS:,} of {ROWS + 200:,} rows" in said
    assert f"the first {COLUMNS} of {COLUMNS + 3} columns are kept" in said
    assert "not drawn (20 of 32 columns)" in said
    assert "first seen in these rows" in str(
        [text.get_text() for text in figure.axes[-1].get_legend().get_texts()]
    )


def test_a_loaded_model_draws_what_it_learned_since():
    model = SeqDDCRP()
    model.learn_many(levels(100))
    model = SeqDDCRP.from_bytes(model.to_bytes())
    assert "no rows learned yet" in model.plot().texts[0].get_text()
    model.learn_many(levels(10))
    said = " ".join(text.get_text() for text in model.plot().axes[-1].texts)
    assert "the last 10 of 110 rows" in said


STAMPS = [START + timedelta(hours=i) for i in range(100)]


@pytest.mark.parametrize(
    "times",
    [
        STAMPS,
        np.array(STAMPS, "M8[us]"),
        pa.array(STAMPS),
        pa.chunked_array([STAMPS[:50], STAMPS[50:]]),
        pl.Series(STAMPS),
    ],
    ids=["list", "numpy", "arrow", "chunked", "polars"],
)
def test_time_stamps_are_dates(times):
    assert is_stamp(times)
    model = SeqDDCRP()
    model.learn_many(levels(100), times)
    figure = model.plot()
    assert figure.axes[-1].get_xlabel() == "time (UTC)"
    said = " ".join(text.get_text() for text in figure.axes[-1].texts)
    assert "2024-05-01 00:00 to 2024-05-05 03:00 UTC" in said


def test_numbers_are_no_dates():
    assert not is_stamp(3.0)
    assert not is_stamp(np.arange(3))
    assert not is_stamp([1, 2])
    assert is_stamp(np.datetime64("2024-01-01"))


def test_other_models_of_rows_draw_it_too():
    model = DDCRPSampler(warmup=10)
    model.learn_many(levels(130))
    assert titles(model.plot())[-1] == "regimes"


def test_features_have_one_colour_and_are_explained():
    rng = np.random.default_rng(0)
    on = np.column_stack([np.arange(200) % 60 < 30, np.arange(200) > 120])
    X = on @ np.array([[4.0, 0.0, 1.0], [0.0, -3.0, 1.5]]) + 0.2 * rng.normal(size=(200, 3))
    model = TimeVaryingIBP(n_particles=10, moves=2)
    model.learn_many(pa.table(dict(zip(("a", "b", "c"), X.T, strict=True))))
    figure = model.plot()
    lanes = next(ax for ax in figure.axes if "bar where one is on" in ax.get_title(loc="left"))
    bars = [tuple(part.get_facecolor()[0]) for part in lanes.collections]
    assert len(bars) >= 2
    assert len(set(bars)) == 1
    ids = {i for row in model.assignments()["features"].to_pylist() for i in row}
    assert {t.get_text() for t in lanes.get_yticklabels()} == {f"feature {i}" for i in ids}
    ax = model.plot("features")
    assert {tuple(part.get_facecolor()[0]) for part in ax.collections} == set(bars)
    _, panel, bar = ax.figure.axes
    assert panel.get_title(loc="left") == "what it adds to each column"
    assert bar.get_ylabel() == "of the column's largest"
    assert [label.get_text() for label in panel.get_xticklabels()] == ["a", "b", "c"]
