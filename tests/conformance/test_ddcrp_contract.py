"""What every estimator promises, for the particle filter: same bits, flat memory, clear errors."""

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import checks
from river.checks import common

from streamddcrp.decay import Exponential
from streamddcrp.errors import CheckpointError, ConfigError, OrderError, SchemaError
from streamddcrp.likelihoods import DirichletMultinomial
from streamddcrp.models.ddcrp.estimator import DDCRPSampler
from tests.conformance.test_river import DATA_CHECKS
from tests.conformance.test_river import rows as river_rows

GIVEN = ("normal_gamma", 0.0, 0.05, 1.5, 0.5)
OPTIONS = {
    "auto": {"warmup": 15},
    "given": {"likelihood": GIVEN, "n_particles": 3, "lag": 2},
    "window decay": {"decay": ("window", 7), "warmup": 5, "lag": 3, "n_particles": 4},
    "no decay": {"decay": "none", "warmup": 10, "n_particles": 1, "lag": 5},
    "two columns": {"likelihood": ("normal_wishart", 0.0, 0.05, 1.0, 4.0)},
    "own past": {"likelihood": ("autoregression", 2), "warmup": 10, "decay": ("logistic", 5.0)},
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
def test_river(options):
    checks.check_estimator(DDCRPSampler(**options))


@pytest.mark.parametrize("check", DATA_CHECKS)
@pytest.mark.parametrize("options", [{}, OPTIONS["given"], OPTIONS["window decay"]])
def test_data_checks_of_river(options, check):
    getattr(common, check)(DDCRPSampler(**options), river_rows(300))


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1), clocked=st.booleans())
def test_any_cutting_and_any_restart_give_the_same_bits(options, data, seed, clocked):
    X = stream(seed)
    t = np.cumsum(np.random.default_rng(seed + 1).exponential(1.0, len(X))) if clocked else None
    whole = DDCRPSampler(**options)
    expected = whole.step_many(X, t)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(X)), max_size=6)))
    model = DDCRPSampler(**options)
    parts = []
    for a, b in zip([0, *cuts], [*cuts, len(X)], strict=True):
        times = None if t is None else t[a:b]
        parts.append(model.step_many(X[a:b], times))
        if data.draw(st.booleans()):
            model = DDCRPSampler.from_bytes(model.to_bytes())
    assert pa.Table.from_batches(parts).combine_chunks().to_batches()[0].equals(expected)
    assert same(model, whole)
    one_by_one = DDCRPSampler(**options)
    for i, x in enumerate(dicts(X)):
        one_by_one.learn_one(x, None if t is None else t[i])
    assert same(one_by_one, whole)


def bell(d):
    return np.exp(-0.02 * d**2)


@pytest.mark.parametrize("clocked", [False, True])
def test_a_users_decay_does_not_mind_the_cutting(clocked):
    X = stream(1)
    t = np.cumsum(np.random.default_rng(2).exponential(1.0, len(X))) if clocked else None
    whole, model = (DDCRPSampler(decay=bell, warmup=10, lag=2) for _ in range(2))
    expected = whole.step_many(X, t)
    parts = [
        model.step_many(X[a:b], None if t is None else t[a:b])
        for a, b in [(0, 3), (3, 20), (20, 21), (21, 90)]
    ]
    assert pa.Table.from_batches(parts).combine_chunks().to_batches()[0].equals(expected)
    with pytest.raises(ConfigError, match="function"):
        model.to_bytes()


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_step_many_is_predict_then_learn(options):
    X = stream(1)
    model, twin = DDCRPSampler(**options), DDCRPSampler(**options)
    out = model.step_many(X).to_pydict()
    wait = options.get("warmup", 0)
    for i, x in enumerate(dicts(X)):
        assert twin.predict_one(x) == out["label"][i]
        score = twin.score_one(x)
        if i < wait:
            assert math.isnan(score)
            assert out["score"][i] is out["p_new"][i] is None
        elif i > 0:  # before the first row the number of features is unknown
            assert score == out["score"][i]
            probs = twin.predict_proba_one(x)
            assert probs[-1] == out["p_new"][i]
            assert sum(probs.values()) == pytest.approx(1.0, rel=1e-12)
            assert max(probs.values()) == pytest.approx(out["label_prob"][i], rel=1e-12)
            assert twin.n_tables == out["n_tables"][i]
        twin.learn_one(x)
    assert same(model, twin)


def test_scores_integrate_to_one():
    model = DDCRPSampler(warmup=20)
    model.learn_many(stream(2, 100, d=1))
    grid = np.linspace(-400.0, 400.0, 10_001)
    density = [math.exp(-model.score_one({0: float(v)})) for v in grid]
    # The tails beyond 400 of Student t tables with at least 3 degrees of freedom hold < 1e-5.
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize("clocked", [False, True])
@pytest.mark.parametrize("decay", [("exponential", 3.0), ("window", 10), ("logistic", 8.0)])
def test_memory_is_flat(decay, clocked):
    model = DDCRPSampler(decay=decay, likelihood=GIVEN, lag=1, time_unit=1.0)
    X = stream(3, 20_000)
    t = np.cumsum(np.random.default_rng(4).exponential(1.0, len(X))) if clocked else None
    sizes = []
    for part in np.split(np.arange(len(X)), 20):
        model.learn_many(X[part], None if t is None else t[part])
        sizes.append((len(model.to_bytes()), model.nbytes))
    early, late = np.array(sizes[:10]).max(axis=0), np.array(sizes[10:]).max(axis=0)
    assert (late <= 2.0 * early).all()  # capacities are powers of two
    assert len(model.to_bytes()) < 200_000


def test_forms_of_a_batch_agree():
    X = stream(4)
    table = pa.table({"b": X[:, 1], "a": X[:, 0]})
    expected = DDCRPSampler(warmup=10)
    expected.learn_many(table)
    columns, rows = DDCRPSampler(warmup=10), DDCRPSampler(warmup=10)
    for batch in table.to_batches(max_chunksize=7):
        columns.learn_many(batch)
    for x in table.to_pylist():
        rows.learn_one(x)
    assert same(columns, expected)
    assert same(rows, expected)


def test_time_stamps_are_seconds_and_default_to_typical_gaps():
    X = stream(5)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    stamps = [start + timedelta(hours=i) for i in range(len(X))]
    by_hour, by_index = DDCRPSampler(warmup=10), DDCRPSampler(warmup=10)
    labels = by_hour.step_many(X, stamps)["label"].to_pylist()
    assert labels == by_index.step_many(X)["label"].to_pylist()
    assert by_hour.objective == pytest.approx(by_index.objective, rel=1e-9)
    event = by_hour.events()[-1]
    assert event.t == pytest.approx(start.timestamp() + 3600.0 * event.index, abs=1e-3)


@pytest.mark.parametrize("cut", [0, 5, 40])
def test_a_refused_batch_changes_nothing(cut):
    X = stream(6)
    model = DDCRPSampler(warmup=10)
    model.learn_many(X[:cut], np.arange(cut, dtype=float))
    before = model.to_bytes()
    good = np.arange(cut, cut + 5.0)
    bad = X[cut : cut + 5].copy()
    for value in (np.nan, np.inf):
        bad[3, 1] = value
        with pytest.raises(SchemaError, match=r"row 3, column 1") as refused:
            model.learn_many(bad, good)
        assert refused.value.row == 3
    with pytest.raises(OrderError, match="row 2"):
        model.learn_many(X[cut : cut + 5], good[[0, 1, 0, 2, 3]])
    with pytest.raises(SchemaError, match="numbers"):
        model.learn_many(pa.table({"a": ["x"]}), [float(cut)])
    with pytest.raises(SchemaError, match="'b'"):
        model.learn_one({0: 1.0, "b": "text"}, float(cut))
    if cut:
        with pytest.raises(SchemaError, match="with times"):
            model.learn_many(X[cut : cut + 5])
    assert model.to_bytes() == before


@pytest.mark.parametrize("cut", [10, 40, 63, 64, 68])
def test_rows_after_the_choice_of_family_in_the_same_batch_are_checked(cut):
    counts = pa.table({"n": np.r_[np.arange(69) % 7, -5, 3, 4]})
    model = DDCRPSampler()
    model.learn_many(counts[:cut])
    before = model.to_bytes()
    with pytest.raises(SchemaError, match=r"row .*, column 'n': GammaPoisson") as refused:
        model.learn_many(counts[cut:])
    assert refused.value.row == 69 - cut
    assert model.to_bytes() == before


def test_a_decay_that_fails_changes_nothing():
    limit = [1e9]

    def decay(d):
        if np.any(d > limit[0]):
            message = "too far"
            raise ValueError(message)
        return np.exp(-d)

    X, t = stream(7), np.arange(90.0)
    model = DDCRPSampler(decay=decay, warmup=10)
    twin = DDCRPSampler(decay=decay, warmup=10)
    model.learn_many(X[:5], t[:5])
    for a, b in [(5, 20), (20, 40)]:
        limit[0] = 0.5
        with pytest.raises(ConfigError, match="too far"):
            model.learn_many(X[a:b], t[a:b])
        limit[0] = 1e9
        model.learn_many(X[a:b], t[a:b])
    expected = twin.step_many(X, t)
    assert model.step_many(X[40:], t[40:]).equals(expected.slice(40))


def test_missing_values_are_integrated_out():
    X = stream(7)
    holes = np.random.default_rng(0).random(X.shape) < 0.2
    columns = {str(d): pa.array(X[:, d], mask=holes[:, d]) for d in range(2)}
    model, one_by_one = DDCRPSampler(warmup=20), DDCRPSampler(warmup=20)
    out = model.step_many(pa.table(columns))
    assert np.isfinite(out["score"].drop_null().to_numpy()).all()
    for row in pa.table(columns).to_pylist():
        one_by_one.learn_one(row)
    assert same(model, one_by_one)


@pytest.mark.parametrize("warmup", [1, 15])
def test_open_vocabulary_grows(warmup):
    rng = np.random.default_rng(8)
    texts = []
    for i in range(60):
        words = rng.choice(6, size=5) + (0 if i % 20 < 10 else 6)
        texts.append({f"w{w}": int((words == w).sum()) for w in set(words.tolist())})
    vocabulary = sorted({w for text in texts for w in text})
    growing, fixed = (
        DDCRPSampler(likelihood=DirichletMultinomial(4.0), warmup=warmup, lag=2) for _ in range(2)
    )
    labels, fixed_labels = [], []
    for text in texts:
        row = {w: text.get(w, 0) for w in vocabulary}
        labels.append(growing.predict_one(text))
        fixed_labels.append(fixed.predict_one(row))
        growing.learn_one(text)
        fixed.learn_one(row)
    assert labels == fixed_labels
    assert growing.objective == pytest.approx(fixed.objective, rel=1e-10)
    assert len(set(labels)) >= 2


def test_regimes_get_tables_that_are_born_and_die():
    level = np.repeat([0.0, 30.0, 0.0, 60.0], 150)
    X = level[:, None] + np.random.default_rng(10).normal(size=(600, 1))
    model = DDCRPSampler(
        likelihood=("normal_gamma", 0.0, 0.001, 1.5, 1.0), decay=("exponential", 2.0), alpha=0.1
    )
    out = model.step_many(X).to_pydict()
    assert [out["label"][i] for i in (140, 290, 440, 590)] == [0, 150, 300, 450]
    for name in ("p_new", "p_change"):
        assert min(out[name][i] for i in (150, 300, 450)) > 0.99
    told = [(e.kind, e.label, e.index) for e in model.events() if e.label in (0, 150, 300, 450)]
    births = [event for event in told if event[0] == "birth"]
    assert births == [("birth", i, i) for i in (0, 150, 300, 450)]
    deaths = {label: index for kind, label, index in told if kind == "death"}
    # dead once the weight of the last member is below 1e-12 alpha: 30 length scales later, and
    # there is no table any more that outweighs it
    assert set(deaths) == {0, 150, 300}
    assert all(150 <= index - label <= 150 + 65 for label, index in deaths.items())
    assert model.events() == []
    summary = model.summary().to_pydict()
    assert 450 in summary["id"]
    at = summary["id"].index(450)
    assert summary["size"][at] == pytest.approx(150, abs=2.0)
    assert summary["mean_0"][at] == pytest.approx(60, abs=0.5)
    assert summary["prob"][at] == pytest.approx(1.0)
    assert (summary["born"][at], summary["last_seen"][at]) == (450, 599)
    assert len(summary["id"]) == model.n_tables


def test_checkpoint_files(tmp_path):
    model = DDCRPSampler(decay=Exponential(5.0), warmup=10)
    model.learn_many(stream(9))
    model.save(tmp_path / "model.state")
    assert same(DDCRPSampler.load(tmp_path / "model.state"), model)
    blob = (tmp_path / "model.state").read_bytes()
    (tmp_path / "short.state").write_bytes(blob[:-100])
    with pytest.raises(CheckpointError):
        DDCRPSampler.load(tmp_path / "short.state")


def test_a_model_without_tables_has_the_columns_of_one_with():
    model = DDCRPSampler(warmup=10)
    columns = model.summary().column_names
    assert model.summary().num_rows == model.n_tables == 0
    model.learn_many(stream(13))
    assert model.summary().column_names[: len(columns)] == columns
    assert model.summary().num_rows == model.n_tables > 0


def test_seeds_matter():
    X = stream(11, 200)
    models = [DDCRPSampler(seed=seed) for seed in (0, 0, 1)]
    for model in models:
        model.learn_many(X)
    assert models[0].objective == models[1].objective != models[2].objective


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": math.nan}, "alpha"),
        ({"n_particles": 0}, "n_particles"),
        ({"lag": -1}, "lag"),
        ({"seed": -1}, "seed"),
        ({"warmup": 0}, "warmup"),
        ({"time_unit": 0.0}, "time_unit"),
        ({"decay": ("exponential", -1.0)}, "scale"),
        ({"decay": "steep"}, "decay"),
        ({"likelihood": ("gauss", 1.0)}, "likelihood"),
    ],
)
def test_bad_options_are_named(options, words):
    with pytest.raises(ConfigError, match=words):
        DDCRPSampler(**options)


def test_plot_draws_a_bar_a_table():
    pytest.importorskip("matplotlib").use("Agg")
    model = DDCRPSampler(warmup=10)
    model.learn_many(stream(12))
    assert len(model.plot().patches) == model.n_tables
