"""SeqDDCRP: regimes that return, changes of slope, columns of several kinds."""

import numpy as np
import pyarrow as pa
import pytest

from streamddcrp import SeqDDCRP
from streamddcrp.errors import SchemaError
from tests.conformance.cases import CASES
from tests.conformance.laws import restored
from tests.conformance.streams import levels
from tests.fuzz.interrupts import assert_prefix


def test_recent_labels_are_those_of_the_window_and_any_cutting_gives_the_same():
    X = levels(13, 200).rows
    model, in_parts = SeqDDCRP(warmup=20, window=12), SeqDDCRP(warmup=20, window=12)
    assert model.recent_labels().tolist() == []
    model.learn_many(X[:5])
    assert model.recent_labels().tolist() == [0] * 5
    model.learn_many(X[5:])
    for part in np.array_split(X, 9):
        in_parts.learn_many(part)
    labels = model.recent_labels()
    assert labels.tolist() == in_parts.recent_labels().tolist()
    assert 12 <= len(labels) <= 12 + model.sweep_every
    far = np.full((12, 2), 1e3)
    far[6:] *= -1.0
    model.learn_many(far)
    old, new = np.split(model.recent_labels()[-12:], 2)
    assert len(set(old)) == len(set(new)) == len(set(old) ^ set(new)) - 1 == 1


def test_a_full_store_is_told_once_and_only_of_the_prior_that_was_chosen(caplog):
    rng = np.random.default_rng(16)
    regimes = np.repeat(rng.normal(0.0, 4.0, (5, 16)), 80, axis=0)
    rows = rng.permutation(regimes.reshape(-1, 16)) + rng.normal(size=(400, 16))
    model = SeqDDCRP()  # some of the priors that it tries open a table for every row
    model.learn_many(rows)
    assert model.n_tables < model.max_tables
    assert "tables are in use" not in caplog.text
    crowded = SeqDDCRP(max_tables=3)
    for part in np.split(rows, 8):
        crowded.learn_many(part)
    assert caplog.text.count("all 3 tables are in use") == 1


def test_a_season_that_is_left_in_is_judged_no_more():
    """Eight rows were found, and left in because tables tell them as well; the state loads."""
    case = next(case for case in CASES if case.name == "SeqDDCRP, season found")
    stream = case.some(75)[:200]
    model = case.learned(stream)
    assert model._season.tracker is None
    assert not case.differences(restored(model), model)


def test_changes_of_slope_are_found_and_recalled():
    """A random walk: any mixture of levels would cut it into pieces."""
    drift = np.repeat([0.5, -1.0, 0.5, -1.0], 250)
    walk = 1000.0 + np.cumsum(drift + 0.3 * np.random.default_rng(0).normal(size=1000))
    model = SeqDDCRP(likelihood=("autoregression", 1))
    label = np.array(model.step_many(pa.table({"y": walk}))["label"])
    rising, falling = label[100], label[400]
    assert rising != falling
    # late by a few rows after a change: 20 of 950 rows
    assert np.mean(label[50:] == np.where(drift > 0, rising, falling)[50:]) > 0.98
    summary = model.summary()
    assert {"intercept_y", "lag1_y", "sd_y"} <= set(summary.column_names)
    lag = dict(zip(summary["id"].to_pylist(), summary["lag1_y"].to_pylist(), strict=True))
    assert [lag[rising], lag[falling]] == pytest.approx([1.0, 1.0], abs=0.01)


def test_regression_knows_columns_by_name():
    rng = np.random.default_rng(3)
    x, slope = rng.normal(size=400), np.repeat([2.0, -3.0], 200)
    model = SeqDDCRP(likelihood=("regression", "load"))
    model.learn_many(pa.table({"wind": x, "load": 5.0 + slope * x + 0.2 * rng.normal(size=400)}))
    summary = model.summary().to_pydict()
    assert "slope_wind_wind" not in summary
    big = np.argsort(summary["weight"])[-2:]
    found = sorted(np.array(summary["slope_wind_load"])[big])
    assert found == pytest.approx([-3.0, 2.0], abs=0.15)
    with pytest.raises(SchemaError, match="no column 'power'"):
        SeqDDCRP(likelihood=("regression", "power"), warmup=1).learn_one({"load": 1.0})


def mixed_table(n=300):
    """Two regimes that differ in a level, a flag and a rate; a tenth of all values is missing."""
    rng = np.random.default_rng(5)
    second = np.repeat([False, True, False], n // 3)
    columns = {
        "temp": np.where(second, 30.0, 10.0) + rng.normal(size=n),
        "open": rng.random(n) < np.where(second, 0.9, 0.1),
        "starts": rng.poisson(np.where(second, 6.0, 1.0)),
    }
    return second, pa.table(
        {name: pa.array(values, mask=rng.random(n) < 0.1) for name, values in columns.items()}
    )


def test_columns_of_several_kinds_are_told_apart():
    second, table = mixed_table()
    whole = SeqDDCRP(warmup=30)
    expected = whole.step_many(table)
    label = np.array(expected["label"])
    assert np.mean((label == label[150])[40:] == second[40:]) > 0.95
    assert np.isfinite(expected["score"].drop_null().to_numpy()).all()
    summary = whole.summary().to_pydict()
    assert {"mean_temp", "sd_temp", "probability_open", "mean_starts"} <= set(summary)
    assert not {"mean_open", "sd_open", "sd_starts", "probability_temp"} & set(summary)
    found = {i: k for k, i in enumerate(summary["id"])}[label[150]]
    assert summary["probability_open"][found] == pytest.approx(0.9, abs=0.12)
    assert summary["mean_starts"][found] == pytest.approx(6.0, abs=1.0)


def test_parts_may_be_given_by_name():
    _, table = mixed_table()
    parts = [
        (("autoregression", 1), "temp"),
        ("beta_bernoulli", "open"),
        ("gamma_poisson", "starts"),
    ]
    model = SeqDDCRP(likelihood=("product", parts), warmup=30)
    model.learn_many(table)
    assert SeqDDCRP.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()
    assert {"lag1_temp", "probability_open", "mean_starts"} <= set(model.summary().column_names)
    before = model.to_bytes()
    with pytest.raises(SchemaError, match=r"row 1, column 'open': BetaBernoulli expects 0 or 1"):
        model.learn_many(pa.table({"temp": [1.0, 1.0], "open": [0, 2], "starts": [1, 1]}))
    assert model.to_bytes() == before
    with pytest.raises(SchemaError, match="column 'load' is in no part"):
        SeqDDCRP(likelihood=("product", parts)).learn_one(
            {"temp": 1, "open": 0, "starts": 2, "load": 3}
        )


def test_events_tell_births_returns_and_deaths():
    rng = np.random.default_rng(10)
    level = np.repeat([0.0, 30.0, 0.0, 60.0], 150)
    X = level[:, None] + rng.normal(size=(600, 1))
    model = SeqDDCRP(likelihood=("normal_gamma", 0.0, 0.001, 1.5, 1.0))
    model.learn_many(X)
    reported = [(e.kind, e.label, e.index) for e in model.events()]
    assert reported == [("birth", 0, 0), ("birth", 1, 150), ("return", 0, 301), ("birth", 2, 450)]
    assert model.events() == []
    split = SeqDDCRP(likelihood=("normal_gamma", 0.0, 0.05, 1.5, 0.005))
    split.learn_many(np.random.default_rng(0).normal(0, 1, (800, 1)))
    merges = [event for event in split.events() if event.kind == "merge"]
    assert merges
    assert all(event.into != event.label for event in merges)
    live = set(split.summary()["id"].to_pylist())
    assert not live & {event.label for event in merges}
    plain = SeqDDCRP(likelihood=("normal_gamma", 0.0, 0.001, 1.5, 1.0), recall=False)
    plain.learn_many(X)
    kinds = [e.kind for e in plain.events()]
    assert kinds.count("birth") == 4
    assert kinds.count("death") >= 1
    summary = model.summary().to_pydict()
    assert summary["id"] == [0, 1, 2]
    assert summary["weight"] == pytest.approx([250, 150, 150], abs=1.0)  # 250: the memory
    assert summary["mean_0"] == pytest.approx([0, 30, 60], abs=0.5)


def test_an_interrupt_after_a_season_was_found_leaves_a_prefix(monkeypatch):
    case = next(case for case in CASES if case.name == "SeqDDCRP, season of the clock")
    stream, model = case.some(15), case.make()

    def pause():
        if model._n_learned >= 272:
            raise KeyboardInterrupt

    whole = case.learned(stream)
    with monkeypatch.context() as patch:
        patch.setattr("streamddcrp.models.seqddcrp.estimator.pause", pause)
        with pytest.raises(KeyboardInterrupt):
            case.step(model, stream)
    assert model._in_season
    assert_prefix(case, stream, model, whole)
