"""What every estimator promises, for the time-varying IBP: same bits, flat memory, clear errors."""

import math

import numpy as np
import pyarrow as pa
import pytest
from river import checks

from streamddcrp.errors import CheckpointError, ConfigError, OrderError, SchemaError
from streamddcrp.models.features.tv_ibp import TimeVaryingIBP

SMALL = {"window": 12, "n_particles": 8, "n_redrawn": 3, "warmup": 20}


def causes(seed=0, n=120, d=4, offset=0.0):
    rng = np.random.default_rng(seed)
    first = np.arange(n)[:, None] < n // 2
    Z = rng.random((n, 3)) < np.where(first, [0.5, 0.5, 0.0], [0.0, 0.5, 0.5])
    return Z @ (3.0 * rng.normal(size=(3, d))) + 0.3 * rng.normal(size=(n, d)) + offset


def test_river():
    checks.check_estimator(TimeVaryingIBP(n_particles=5, n_redrawn=1, missing=True, warmup=5))


@pytest.mark.parametrize("options", [{}, {"missing": True}, {"sigma_x": 0.3, "sigma_y": 3.0}])
def test_any_cutting_and_any_restart_give_the_same_bits(options):
    X = causes(1)
    rows = [[None if options.get("missing") and (i + j) % 9 == 0 else v for j, v in enumerate(x)]
            for i, x in enumerate(X.tolist())]  # fmt: skip
    table = pa.table({f"c{j}": [row[j] for row in rows] for j in range(4)})
    whole = TimeVaryingIBP(**SMALL, **options)
    expected = whole.step_many(table)
    model, parts, at = TimeVaryingIBP(**SMALL, **options), [], 0
    for cut in (3, 4, 30, 31, 77, 120):
        parts.append(model.step_many(table.slice(at, cut - at)))
        model, at = TimeVaryingIBP.from_bytes(model.to_bytes()), cut
    assert pa.Table.from_batches(parts).combine_chunks().to_batches()[0].equals(expected)
    assert model.to_bytes() == whole.to_bytes()
    one = TimeVaryingIBP(**SMALL, **options)
    for row in rows:
        one.learn_one({f"c{j}": v for j, v in enumerate(row)})
    assert one.to_bytes() == whole.to_bytes()
    assert len(one.events()) == len(whole.events()) > 0


def test_step_many_is_predict_then_learn():
    X = causes(2)
    model, twin = TimeVaryingIBP(**SMALL), TimeVaryingIBP(**SMALL)
    out = model.step_many(X).to_pydict()
    for i, row in enumerate(X.tolist()):
        x = dict(enumerate(row))
        score, probs = twin.score_one(x), twin.transform_one(x)
        if i < SMALL["warmup"]:
            assert math.isnan(score)
            assert out["score"][i] is out["p_new"][i] is None
        else:
            assert score == out["score"][i]
            assert probs.pop(-1) == out["p_new"][i]
            assert [f for f in probs if probs[f] > 0.5] == out["features"][i]
            assert twin.predict_one(x) == out["label"][i]
            assert twin.n_tables == out["n_tables"][i]
        twin.learn_one(x)
    assert model.objective == pytest.approx(twin.objective, rel=1e-12)


def test_features_are_found_and_explained():
    X = causes(3, offset=20.0)
    model = TimeVaryingIBP(window=30, n_particles=20, n_redrawn=10)
    model.learn_many(X)
    assert model.n_features >= 2
    assert all(0.15 < sd < 0.6 for sd in model.noise.values())
    fit = np.column_stack([c.to_numpy() for c in model.reconstruct(X[-30:]).columns])
    assert np.sqrt(((fit - X[-30:]) ** 2).mean()) < 0.6
    rates = model.transform_many(X[-30:])
    assert rates.num_columns == model.n_features
    summary = model.summary()
    assert summary.column_names[:4] == ["id", "prob", "owners", "born"]
    assert set(summary["id"].to_pylist()) <= set(model.loadings())
    assigned = model.assignments()
    assert assigned["row"].to_pylist() == list(range(120))
    assert assigned["final"].to_pylist().count(False) == 29
    kinds = {e.kind for e in model.events()}
    assert "birth" in kinds
    assert model.events() == []


def test_gaps_are_filled():
    X = causes(4)
    model = TimeVaryingIBP(**SMALL, missing=True)
    model.learn_many(X)
    x = dict(enumerate(X[-1].tolist()))
    filled = model.reconstruct_one(x | {1: None})
    assert filled[1] == pytest.approx(x[1], abs=1.5)


def test_memory_is_flat():
    model = TimeVaryingIBP(window=8, n_particles=3, n_redrawn=1, warmup=10)
    sizes = []
    for seed in range(20):
        model.learn_many(causes(seed, 1000))
        sizes.append((model.nbytes, len(model.to_bytes())))
    early, late = np.array(sizes[:10]).max(axis=0), np.array(sizes[10:]).max(axis=0)
    assert (late <= 1.5 * early).all()


@pytest.mark.slow
def test_memory_is_flat_over_100_000_rows():
    model = TimeVaryingIBP(n_particles=5, n_redrawn=1)
    sizes = []
    for seed in range(100):
        model.learn_many(causes(seed % 10, 1000))
        sizes.append((model.nbytes, len(model.to_bytes())))
    early, late = np.array(sizes[:50]).max(axis=0), np.array(sizes[50:]).max(axis=0)
    assert (late <= 1.5 * early).all()


def test_one_column_in_large_units():
    rng = np.random.default_rng(0)
    x = np.where(rng.random(300) < 0.4, 5.0, 0.0) + 0.3 * rng.normal(size=300)
    model = TimeVaryingIBP(n_particles=20, n_redrawn=5)
    model.learn_many(1e6 * x[:, None] + 3e8)
    assert 0.25e6 < model.noise[0] < 0.35e6
    loading = max(model.summary()["loading_0"].to_pylist(), key=abs)
    assert abs(loading) == pytest.approx(5e6, rel=0.1)


@pytest.mark.parametrize("scale", [1e-150, 1e-6, 1e6, 1e90])
@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_scales_do_not_matter(scale, offset):
    X = causes(5, offset=100.0 * offset)
    model, other = TimeVaryingIBP(**SMALL), TimeVaryingIBP(**SMALL)
    a, b = model.step_many(X), other.step_many(scale * X)
    shift = X.shape[1] * math.log(scale)
    score, scaled = (out["score"].to_numpy(zero_copy_only=False)[20:] for out in (a, b))
    assert np.isfinite(scaled).all()
    assert np.median(np.abs(scaled - shift - score)) < 1e-3  # rounding may change a draw


def test_constant_and_strange_columns():
    X = causes(6, 200)
    X[:, 0] = 7.0
    X[:, 1] = np.where(np.arange(200) < 100, 0.0, X[:, 1])
    X[150] = 1e6
    out = TimeVaryingIBP(**SMALL).step_many(X)
    assert np.isfinite(out["score"].to_numpy(zero_copy_only=False)[20:]).all()
    out = TimeVaryingIBP(**SMALL).step_many(np.zeros((60, 3)))
    assert np.isfinite(out["score"].to_numpy(zero_copy_only=False)[20:]).all()


@pytest.mark.parametrize("begun", [False, True])
def test_a_refused_row_changes_nothing(begun):
    model = TimeVaryingIBP(**SMALL)
    X = causes(7)
    model.learn_many(X[: 60 if begun else 5])
    before = model.to_bytes()
    for bad in (np.nan, np.inf):
        batch = X[:10].copy()
        batch[4, 2] = bad
        with pytest.raises(SchemaError, match="row 4, column 2") as caught:
            model.learn_many(batch)
        assert caught.value.row == 4
    with pytest.raises(SchemaError, match="missing=True"):
        model.learn_one({0: 1.0, 1: None, 2: 0.0, 3: 0.0})
    with pytest.raises(SchemaError):
        model.learn_many(X[:3, :2])
    assert model.to_bytes() == before
    timed = TimeVaryingIBP(**SMALL)
    timed.learn_one({"a": 1.0}, t=5.0)
    with pytest.raises(OrderError):
        timed.learn_one({"a": 1.0}, t=4.0)


@pytest.mark.parametrize(
    "options",
    [
        {"window": 0}, {"window": 2.5}, {"alpha": 0.0}, {"n_particles": 0}, {"n_redrawn": -1},
        {"warmup": 0}, {"sigma_x": 1.0}, {"sigma_x": 0.0, "sigma_y": 1.0}, {"baseline": 1},
        {"seed": -1},
    ],
)  # fmt: skip
def test_bad_options(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        TimeVaryingIBP(**options)


def test_damaged_state_is_refused():
    model = TimeVaryingIBP(**SMALL)
    model.learn_many(causes(8))
    blob = bytearray(model.to_bytes())
    blob[len(blob) // 2] ^= 1
    with pytest.raises(CheckpointError):
        TimeVaryingIBP.from_bytes(bytes(blob))


def test_plot():
    pytest.importorskip("matplotlib").use("Agg")
    model = TimeVaryingIBP(**SMALL)
    model.learn_many(causes(9))
    assert model.plot().get_ylabel() == "feature"


def test_ids_last_where_two_features_are_on_in_the_same_rows():
    """For a whole window, so that only their loadings tell them apart."""
    t = np.arange(400)
    on = np.column_stack([t % 90 < 40, t % 60 < 20, t > 250])
    causes = np.array([[4.0, 0.0, 1.0], [0.0, -2.0, 1.5], [-1.0, 0.0, -3.0]])
    noise = 0.2 * np.random.default_rng(0).normal(size=(400, 3))
    model = TimeVaryingIBP(n_particles=30, n_redrawn=5)
    model.learn_many([20.0, 5.0, 50.0] + on @ causes + noise)
    sets = model.assignments()["features"].to_pylist()
    found = np.array([[i in one for one in sets] for i in model.summary()["id"].to_pylist()])
    for k in range(3):  # a feature or what is on without it: the baseline decides
        same = (found == on[:, k]).mean(axis=1)
        assert max(same.max(), 1.0 - same.min()) > 0.97
