"""What every estimator promises, for the graph-CRP: same bits, flat memory, clear errors."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import checks
from river.checks import common
from sklearn.metrics import adjusted_rand_score

from streamddcrp.errors import CheckpointError, ConfigError, SchemaError
from streamddcrp.models.graph.graph_crp import GraphCRP
from tests.conformance.test_river import DATA_CHECKS
from tests.conformance.test_river import rows as river_rows

GIVEN = ("normal_gamma", 0.0, 0.05, 1.5, 0.5)
OPTIONS = {
    "auto": {"warmup": 15, "n_particles": 8},
    "given": {"likelihood": GIVEN, "n_particles": 5, "lag": 2, "r": 7},
    "one each": {"warmup": 5, "resampling": "systematic", "n_particles": 6, "alpha": 0.5},
    "own past": {"likelihood": ("autoregression", 2), "warmup": 10, "n_particles": 4},
}


def stream(seed, n=90, d=2):
    rng = np.random.default_rng(seed)
    label = np.repeat(rng.integers(0, 4, n), rng.integers(1, 20, n))[:n]
    return rng.normal(0, 5, (4, d))[label] + rng.normal(size=(n, d))


def family_tree(seed, n, r):
    """Parents that form cliques: an earlier item of the last r and some of its parents."""
    rng = np.random.default_rng(seed)
    parents = [[]]
    for k in range(1, n):
        last = int(rng.integers(max(k - r, 0), k))
        mine = [j for j in parents[last] if j >= k - r and rng.random() < 0.7]
        parents.append([*mine, last] if rng.random() < 0.9 else [])
    return parents


def dicts(X):
    return [dict(enumerate(row)) for row in X.tolist()]


def same(a, b):
    return a.to_bytes() == b.to_bytes()


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_river(options):
    checks.check_estimator(GraphCRP(**options))


@pytest.mark.parametrize("check", DATA_CHECKS)
def test_data_checks_of_river(check):
    getattr(common, check)(GraphCRP(**OPTIONS["given"]), river_rows(300))


@pytest.mark.parametrize("with_parents", [False, True])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@settings(max_examples=8)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_any_cutting_and_any_restart_give_the_same_bits(options, with_parents, data, seed):
    if with_parents:
        options = options | {"lag": 0, "r": 20}
    X = stream(seed)
    parents = family_tree(seed, len(X), 20) if with_parents else None
    whole = GraphCRP(**options)
    expected = whole.step_many(X, parents=parents)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(X)), max_size=6)))
    model = GraphCRP(**options)
    parts = []
    for a, b in zip([0, *cuts], [*cuts, len(X)], strict=True):
        parts.append(model.step_many(X[a:b], parents=None if parents is None else parents[a:b]))
        if data.draw(st.booleans()):
            model = GraphCRP.from_bytes(model.to_bytes())
    assert pa.Table.from_batches(parts).combine_chunks().to_batches()[0].equals(expected)
    assert same(model, whole)
    one_by_one = GraphCRP(**options)
    for i, x in enumerate(dicts(X)):
        one_by_one.learn_one(x, parents=None if parents is None else parents[i])
    assert same(one_by_one, whole)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_step_many_is_predict_then_learn(options):
    X = stream(1)
    model, twin = GraphCRP(**options), GraphCRP(**options)
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
            assert twin.n_tables == out["n_tables"][i]
        twin.learn_one(x)
    assert same(model, twin)


def test_predictions_with_parents():
    X, parents = stream(2, 60), family_tree(2, 60, 50)
    model = GraphCRP(likelihood=GIVEN, n_particles=10)
    out = model.step_many(X, parents=parents)
    twin = GraphCRP(likelihood=GIVEN, n_particles=10)
    twin.learn_many(X[:-1], parents=parents[:-1])
    before = twin.to_bytes()
    x = dicts(X)[-1]
    assert twin.score_one(x, parents=parents[-1]) == out["score"][-1].as_py()
    assert twin.predict_one(x, parents=parents[-1]) == out["label"][-1].as_py()
    assert twin.predict_proba_one(x, parents=[])[-1] == pytest.approx(1.0)
    assert twin.to_bytes() == before
    twin.learn_one(x, parents=parents[-1])
    assert same(twin, model)


def test_scores_integrate_to_one():
    model = GraphCRP(warmup=20, n_particles=20)
    model.learn_many(stream(2, 100, d=1))
    grid = np.linspace(-400.0, 400.0, 4001)
    density = [math.exp(-model.score_one({0: float(v)})) for v in grid]
    # The tails beyond 400 of Student t tables with at least 3 degrees of freedom hold < 1e-5.
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize("options", [{}, {"lag": 5}], ids=["", "lag"])
def test_memory_is_flat(options):
    model = GraphCRP(likelihood=GIVEN, n_particles=20, r=20, **options)
    X = stream(3, 20_000)
    sizes = []
    for part in np.split(np.arange(len(X)), 20):
        model.learn_many(X[part])
        sizes.append((len(model.to_bytes()), model.nbytes))
    early, late = np.array(sizes[:10]).max(axis=0), np.array(sizes[10:]).max(axis=0)
    assert (late <= 2.0 * early).all()  # capacities are powers of two
    assert len(model.to_bytes()) < 200_000


@pytest.mark.slow
def test_memory_is_flat_over_100_000_rows():
    model = GraphCRP(likelihood=GIVEN)
    X, sizes = stream(4, 10_000), []
    for _ in range(10):
        model.learn_many(X)
        sizes.append((len(model.to_bytes()), model.nbytes))
    early, late = np.array(sizes[:5]).max(axis=0), np.array(sizes[5:]).max(axis=0)
    assert (late <= 1.5 * early).all()


def blocks(n_features, seed=3, n=400):
    """Rows of three clusters in random order."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat([0, 1, 2, 0], n // 4))
    return 6.0 * rng.normal(size=(3, n_features))[y] + rng.normal(size=(n, n_features)), y


@pytest.mark.parametrize("n_features", [1, 3])
def test_units_do_not_matter(n_features):
    """A sensor in millions about a large level, nothing set; one column is enough."""
    X, y = blocks(n_features)
    told = [GraphCRP(n_particles=20).step_many(rows) for rows in (X, 1e6 * X + 3e8, 1e-9 * X)]
    for out, unit in zip(told, (1.0, 1e6, 1e-9), strict=True):
        assert adjusted_rand_score(y[100:], out["label"].to_numpy()[100:]) > 0.95
        shift = out["score"].to_numpy(zero_copy_only=False)[64:] - n_features * np.log(unit)
        expected = told[0]["score"].to_numpy(zero_copy_only=False)[64:]
        assert np.median(np.abs(shift - expected)) < 1e-4  # rounding may change a draw


def test_columns_that_do_not_move():
    X, y = blocks(3)
    for constant in (7.0, 0.0, 1e9):
        out = GraphCRP(n_particles=20).step_many(np.column_stack([X, np.full(len(X), constant)]))
        assert adjusted_rand_score(y[100:], out["label"].to_numpy()[100:]) > 0.95
    X[:200, 0] = 5.0  # moves later
    for rows in (X, np.full((200, 2), 3.0)):
        out = GraphCRP(n_particles=20).step_many(rows)
        assert np.isfinite(out["score"].to_numpy(zero_copy_only=False)[64:]).all()


def test_words_may_come_later():
    model = GraphCRP(likelihood=("dirichlet_multinomial", 0.5), n_particles=10, lag=2, r=5)
    for i in range(30):
        model.learn_one({"ab"[i % 2]: 3, "cde"[i % 3] if i > 10 else "c": 1})
    assert model.n_seen == 30
    assert math.isfinite(model.objective)
    assert same(GraphCRP.from_bytes(model.to_bytes()), model)


def test_what_users_see():
    model = GraphCRP(likelihood=GIVEN, alpha=0.3, n_particles=20, r=10)
    assert model.n_tables == 0
    assert model.summary().num_rows == 0
    assert model.objective == 0.0
    a, b = np.zeros((15, 1)), np.full((15, 1), 9.0)
    model.learn_many(np.concatenate([a, b]))
    summary = model.summary()
    assert summary["id"].to_pylist() == [15]
    assert summary["size"][0].as_py() == pytest.approx(15, abs=0.1)
    assert [(e.kind, e.label) for e in model.events()] == [
        ("birth", 0), ("birth", 15), ("death", 0)
    ]  # fmt: skip
    assert model.events() == []
    assert model.alpha_mean == 0.3
    learned = GraphCRP(likelihood=GIVEN, n_particles=20, r=10)
    learned.learn_many(np.concatenate([a, b]))
    assert 0.05 < learned.alpha_mean < 1.0
    beam = GraphCRP(likelihood=GIVEN, resampling="n_best", n_particles=3)
    beam.learn_many(b)
    assert math.isnan(beam.objective)


def test_refused_rows_change_nothing():
    model = GraphCRP(likelihood=GIVEN, n_particles=5, r=4)
    parents = [[], [0], [0, 1], [2]]
    model.learn_many(stream(5, 4), parents=parents)
    before = model.to_bytes()
    good = [[0.0, 1.0]]
    for rows, given_parents, message in [
        ([[np.nan, 1.0]], [[3]], "nan|NaN"),
        (good, [[4]], "item 4 has not arrived"),
        (good, [[2, 1, 0, 3]], "no clique"),
        (good, [[0, 0]], "twice"),
        (good, None, "come with parents|came with parents"),
        (good * 3, [[3], [4, 3], [0]], "row 2, parents: item 0 lies 6 items back"),
        (good, [[3], [3]], "one list for each of the 1 rows"),
    ]:
        with pytest.raises(SchemaError, match=message):
            model.learn_many(rows, parents=given_parents)
        assert model.to_bytes() == before
    with pytest.raises(SchemaError, match="no clique"):
        model.predict_one({0: 0.0, 1: 1.0}, parents=[0, 3])
    window = GraphCRP(likelihood=GIVEN, n_particles=5)
    window.learn_many(good)
    with pytest.raises(SchemaError, match="name none"):
        window.learn_many(good, parents=[[0]])
    waiting = GraphCRP(n_particles=5)
    waiting.learn_many(good * 2, parents=[[], [0]])
    before = waiting.to_bytes()
    with pytest.raises(SchemaError, match="row 1, parents: item 5 has not"):
        waiting.learn_many(good * 2, parents=[[0], [5]])
    assert waiting.to_bytes() == before


def test_options_and_checkpoints_that_are_refused():
    with pytest.raises(ConfigError, match="r must be a whole number from 1"):
        GraphCRP(r=0)
    for options in ({"r": 0}, {"lag": 60}, {"alpha": "1"}, {"resampling": "no"}, {"warmup": 0}):
        with pytest.raises(ConfigError):
            GraphCRP(**options)
    blob = GraphCRP().to_bytes()
    with pytest.raises(CheckpointError):
        GraphCRP.from_bytes(blob[:-1])
