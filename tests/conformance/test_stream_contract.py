"""What every estimator promises: same bits for any cutting and restart, flat memory, errors."""

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamddcrp import SeqDDCRP
from streamddcrp.decay import Exponential
from streamddcrp.errors import CheckpointError, ConfigError, OrderError, SchemaError
from streamddcrp.likelihoods import DirichletMultinomial

OPTIONS = {
    "auto": {"warmup": 15, "window": 12, "sweep_every": 4},
    "plain": {"likelihood": ("normal_gamma", 0.0, 0.05, 1.5, 0.5), "recall": False, "window": 10},
    "window decay": {"decay": ("window", 7), "warmup": 5, "window": 9, "sweep_every": 5},
    "few tables": {"max_tables": 3, "warmup": 10, "window": 8, "decay": ("exponential", 2.0)},
    "two columns": {"likelihood": ("normal_wishart", 0.0, 0.05, 1.0, 4.0), "window": 16},
    "own past": {"likelihood": ("autoregression", 2), "warmup": 10, "window": 10},
    "other column": {"likelihood": ("regression", "1"), "warmup": 10, "window": 10},
}


def stream(seed, n=90, d=2):
    rng = np.random.default_rng(seed)
    label = np.repeat(rng.integers(0, 4, n), rng.integers(1, 20, n))[:n]
    return rng.normal(0, 5, (4, d))[label] + rng.normal(size=(n, d))


def dicts(X):
    return [dict(enumerate(row)) for row in X.tolist()]


def same(a, b):
    """Two models are in the same state to the last bit."""
    return a.to_bytes() == b.to_bytes()


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1), clocked=st.booleans())
def test_any_cutting_and_any_restart_give_the_same_bits(options, data, seed, clocked):
    X = stream(seed)
    t = np.cumsum(np.random.default_rng(seed + 1).exponential(1.0, len(X))) if clocked else None
    whole = SeqDDCRP(**options)
    expected = whole.step_many(X, t)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(X)), max_size=6)))
    model = SeqDDCRP(**options)
    parts = []
    for a, b in zip([0, *cuts], [*cuts, len(X)], strict=True):
        times = None if t is None else t[a:b]
        parts.append(model.step_many(X[a:b], times))
        if data.draw(st.booleans()):
            model = SeqDDCRP.from_bytes(model.to_bytes())
    assert pa.Table.from_batches(parts).combine_chunks().to_batches()[0].equals(expected)
    assert same(model, whole)
    one_by_one = SeqDDCRP(**options)
    for i, x in enumerate(dicts(X)):
        one_by_one.learn_one(x, None if t is None else t[i])
    assert same(one_by_one, whole)


def test_step_many_is_predict_then_learn():
    X = stream(1, 120)
    model, twin = SeqDDCRP(warmup=20), SeqDDCRP(warmup=20)
    out = model.step_many(X).to_pydict()
    for i, x in enumerate(dicts(X)):
        assert twin.predict_one(x) == out["label"][i]
        score = twin.score_one(x)
        if i < 8:  # the first model is built from eight rows
            assert math.isnan(score)
            assert out["score"][i] is None
        else:
            assert score == out["score"][i]
            probs = twin.predict_proba_one(x)
            assert probs[-1] == out["p_new"][i]
            assert sum(probs.values()) == pytest.approx(1.0, rel=1e-12)
            assert max(probs.values()) == pytest.approx(out["label_prob"][i], rel=1e-12)
        twin.learn_one(x)
    assert same(model, twin)


def test_recent_labels_are_those_of_the_window_and_any_cutting_gives_the_same():
    X = stream(13, 200)
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


def test_scores_integrate_to_one():
    model = SeqDDCRP(warmup=20)
    model.learn_many(stream(2, 100, d=1))
    grid = np.linspace(-400.0, 400.0, 80_001)
    density = [math.exp(-model.score_one({0: float(v)})) for v in grid[::8]]
    # The tails beyond 400 of Student t tables with at least 3 degrees of freedom hold < 1e-5.
    assert np.trapezoid(density, grid[::8]) == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_memory_is_flat_once_the_window_is_full(options):
    model = SeqDDCRP(**options)
    X = stream(3, 4000)
    sizes = []
    for part in np.split(X, 8):
        model.learn_many(part)
        sizes.append(len(model.to_bytes()))
    rows = model.window + model.sweep_every
    tables = model.max_tables + model.sweep_every
    reach = 16 * model.window if options.get("decay", ("exponential",))[0] == "window" else tables
    most = 8 * (2 * rows * (rows + reach) + (3 * rows + reach) * tables + 60 * tables) + 100_000
    assert max(sizes) < most


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


def test_forms_of_a_batch_agree():
    X = stream(4)
    table = pa.table({"b": X[:, 1], "a": X[:, 0]})
    expected = SeqDDCRP(warmup=10)
    expected.learn_many(table)
    columns = SeqDDCRP(warmup=10)
    for batch in table.to_batches(max_chunksize=7):
        columns.learn_many(batch)
    rows = SeqDDCRP(warmup=10)
    for x in table.to_pylist():
        rows.learn_one(x)
    assert same(columns, expected)
    assert same(rows, expected)


def test_time_stamps_are_seconds_and_default_to_typical_gaps():
    X = stream(5)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    stamps = [start + timedelta(hours=i) for i in range(len(X))]
    by_hour, by_index = SeqDDCRP(warmup=10), SeqDDCRP(warmup=10)
    labels = by_hour.step_many(X, stamps)["label"].to_pylist()
    assert labels == by_index.step_many(X)["label"].to_pylist()
    assert by_hour.objective == pytest.approx(by_index.objective, rel=1e-9)
    event = by_hour.events()[-1]
    assert event.t == pytest.approx(start.timestamp() + 3600.0 * event.index, abs=1e-3)


@pytest.mark.parametrize("cut", [0, 5, 40])
def test_a_refused_batch_changes_nothing(cut):
    X = stream(6)
    model = SeqDDCRP(warmup=10)
    model.learn_many(X[:cut], np.arange(cut, dtype=float))
    before = model.to_bytes()
    good = np.arange(cut, cut + 5.0)
    bad = X[cut : cut + 5].copy()
    bad[3, 1] = np.nan
    with pytest.raises(SchemaError, match=r"row 3, column 1") as refused:
        model.learn_many(bad, good)
    assert refused.value.row == 3
    bad[3, 1] = np.inf
    with pytest.raises(SchemaError, match=r"row 3, column 1"):
        model.learn_many(bad, good)
    with pytest.raises(OrderError, match="row 2"):
        model.learn_many(X[cut : cut + 5], good[[0, 1, 0, 2, 3]])
    with pytest.raises(SchemaError, match="numbers"):
        model.learn_many(pa.table({"a": ["x"]}), [float(cut)])
    with pytest.raises(SchemaError, match="'b'"):
        model.learn_one({0: 1.0, "b": "text"}, float(cut))
    assert model.to_bytes() == before


@pytest.mark.parametrize("cut", [10, 40, 63, 64, 68])
def test_rows_after_the_choice_of_family_in_the_same_batch_are_checked(cut):
    counts = pa.table({"n": np.r_[np.arange(69) % 7, -5, 3, 4]})
    model = SeqDDCRP()
    model.learn_many(counts[:cut])
    before = model.to_bytes()
    with pytest.raises(SchemaError, match=r"row .*, column 'n': GammaPoisson") as refused:
        model.learn_many(counts[cut:])
    assert refused.value.row == 69 - cut
    assert model.to_bytes() == before


def test_warm_up_states_do_not_depend_on_the_cutting():
    X = stream(11, 30)
    at_once, in_parts = SeqDDCRP(), SeqDDCRP()
    at_once.learn_many(X)
    for part in np.array_split(X, 7):
        in_parts.learn_many(part)
    assert same(at_once, in_parts)
    restored = SeqDDCRP.from_bytes(in_parts.to_bytes())
    for model in (at_once, restored):
        model.learn_many(stream(12, 40))
    assert same(at_once, restored)


def test_open_vocabulary_grows_in_warm_up():
    model = SeqDDCRP(likelihood=DirichletMultinomial(4.0), warmup=5)
    for i in range(12):
        model.learn_one({f"w{i % 4}": 1, "common": 2}, t=float(i))
    assert model.summary()["size"].to_pylist()[0] > 0
    assert np.isfinite(model.objective)


def test_missing_values_are_integrated_out():
    X = stream(7)
    holes = np.random.default_rng(0).random(X.shape) < 0.2
    columns = {str(d): pa.array(X[:, d], mask=holes[:, d]) for d in range(2)}
    model = SeqDDCRP(warmup=20)
    out = model.step_many(pa.table(columns))
    assert np.isfinite(out["score"].drop_null().to_numpy()).all()
    one_by_one = SeqDDCRP(warmup=20)
    for row in pa.table(columns).to_pylist():
        one_by_one.learn_one(row)
    assert same(model, one_by_one)


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


def test_lags_survive_gaps_and_restarts():
    y = np.cumsum(np.random.default_rng(1).normal(size=80))
    column = pa.array(y, mask=np.random.default_rng(2).random(80) < 0.3)
    whole = SeqDDCRP(likelihood=("autoregression", 3), warmup=20)
    expected = whole.step_many(pa.table({"y": column}))
    assert np.isfinite(expected["score"].drop_null().to_numpy()).all()
    parts, model = [], SeqDDCRP(likelihood=("autoregression", 3), warmup=20)
    for i in range(80):
        parts.append(model.step_many(pa.table({"y": column[i : i + 1]})))
        model = SeqDDCRP.from_bytes(model.to_bytes())
    assert pa.Table.from_batches(parts).combine_chunks().to_batches()[0].equals(expected)


def test_regression_knows_columns_by_name():
    rng = np.random.default_rng(3)
    x, slope = rng.normal(size=400), np.repeat([2.0, -3.0], 200)
    model = SeqDDCRP(likelihood=("regression", "load"))
    model.learn_many(pa.table({"wind": x, "load": 5.0 + slope * x + 0.2 * rng.normal(size=400)}))
    summary = model.summary().to_pydict()
    assert "slope_wind_wind" not in summary
    big = np.argsort(summary["size"])[-2:]
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
    parts, model = [], SeqDDCRP(warmup=30)
    for a, b in [(0, 1), (1, 20), (20, 77), (77, 300)]:
        parts.append(model.step_many(table[a:b]))
        model = SeqDDCRP.from_bytes(model.to_bytes())
    assert pa.Table.from_batches(parts).combine_chunks().to_batches()[0].equals(expected)
    assert same(model, whole)
    one_by_one = SeqDDCRP(warmup=30)
    for row in table.to_pylist():
        one_by_one.learn_one(row)
    assert same(one_by_one, whole)


def test_parts_may_be_given_by_name():
    _, table = mixed_table()
    parts = [
        (("autoregression", 1), "temp"),
        ("beta_bernoulli", "open"),
        ("gamma_poisson", "starts"),
    ]
    model = SeqDDCRP(likelihood=("product", parts), warmup=30)
    model.learn_many(table)
    assert same(SeqDDCRP.from_bytes(model.to_bytes()), model)
    assert {"lag1_temp", "probability_open", "mean_starts"} <= set(model.summary().column_names)
    before = model.to_bytes()
    with pytest.raises(SchemaError, match=r"row 1, column 'open': BetaBernoulli expects 0 or 1"):
        model.learn_many(pa.table({"temp": [1.0, 1.0], "open": [0, 2], "starts": [1, 1]}))
    assert model.to_bytes() == before
    with pytest.raises(SchemaError, match="column 'load' is in no part"):
        SeqDDCRP(likelihood=("product", parts)).learn_one(
            {"temp": 1, "open": 0, "starts": 2, "load": 3}
        )


def test_open_vocabulary_does_not_depend_on_when_words_come():
    rng = np.random.default_rng(8)
    texts = []
    for i in range(60):
        words = rng.choice(6, size=5) + (0 if i % 20 < 10 else 6)
        texts.append({f"w{w}": int((words == w).sum()) for w in set(words.tolist())})
    vocabulary = sorted({w for text in texts for w in text})
    growing = SeqDDCRP(likelihood=DirichletMultinomial(4.0), window=10, sweep_every=4)
    labels = []
    for text in texts:
        labels.append(growing.predict_one(text))
        growing.learn_one(text)
    fixed = SeqDDCRP(likelihood=DirichletMultinomial(4.0), window=10, sweep_every=4)
    fixed_labels = []
    for text in texts:
        row = {w: text.get(w, 0) for w in vocabulary}
        fixed_labels.append(fixed.predict_one(row))
        fixed.learn_one(row)
    assert labels == fixed_labels
    assert growing.objective == pytest.approx(fixed.objective, rel=1e-10)
    assert len(set(labels)) >= 2


def test_checkpoint_files(tmp_path):
    model = SeqDDCRP(decay=Exponential(5.0), warmup=10)
    model.learn_many(stream(9))
    model.save(tmp_path / "model.state")
    assert same(SeqDDCRP.load(tmp_path / "model.state"), model)
    blob = (tmp_path / "model.state").read_bytes()
    (tmp_path / "short.state").write_bytes(blob[:-100])
    with pytest.raises(CheckpointError):
        SeqDDCRP.load(tmp_path / "short.state")
    with pytest.raises(ConfigError, match="function"):
        SeqDDCRP(decay=lambda d: np.exp(-d)).to_bytes()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": math.nan}, "alpha"),
        ({"gamma": -1.0}, "gamma"),
        ({"window": 0}, "window"),
        ({"sweep_every": 0}, "sweep_every"),
        ({"max_tables": 0}, "max_tables"),
        ({"birth_threshold": 1.5}, "birth_threshold"),
        ({"decay": ("exponential", -1.0)}, "scale"),
        ({"decay": "steep"}, "decay"),
        ({"likelihood": ("gauss", 1.0)}, "likelihood"),
        ({"warmup": 0}, "warmup"),
        ({"time_unit": 0.0}, "time_unit"),
    ],
)
def test_bad_options_are_named(options, words):
    with pytest.raises(ConfigError, match=words):
        SeqDDCRP(**options)


def test_events_tell_births_returns_and_deaths():
    rng = np.random.default_rng(10)
    level = np.repeat([0.0, 30.0, 0.0, 60.0], 150)
    X = level[:, None] + rng.normal(size=(600, 1))
    model = SeqDDCRP(likelihood=("normal_gamma", 0.0, 0.001, 1.5, 1.0))
    model.learn_many(X)
    told = [(e.kind, e.label, e.index) for e in model.events()]
    assert told == [("birth", 0, 0), ("birth", 1, 150), ("return", 0, 300), ("birth", 2, 450)]
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
    assert summary["size"] == pytest.approx([300, 150, 150], abs=1.0)
    assert summary["mean_0"] == pytest.approx([0, 30, 60], abs=0.5)
