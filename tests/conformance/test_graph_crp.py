"""GraphCRP: parents, units, what users see."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from streamddcrp import GraphCRP
from streamddcrp.errors import SchemaError
from tests.conformance.streams import levels, with_parents

GIVEN = ("normal_gamma", 0.0, 0.05, 1.5, 0.5)


def test_predictions_with_parents():
    model, stream = GraphCRP(likelihood=GIVEN, n_particles=10), with_parents(2)
    model.learn_many(stream.rows, parents=stream.side["parents"])
    before = model.to_bytes()
    assert model.predict_proba_one({0: 1.0, 1: 0.0}, parents=[])[-1] == pytest.approx(1.0)
    assert model.to_bytes() == before


@pytest.mark.slow
def test_memory_is_flat_over_100_000_rows():
    model = GraphCRP(likelihood=GIVEN)
    X, sizes = levels(4, 10_000).rows, []
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
    reported = [GraphCRP(n_particles=20).step_many(rows) for rows in (X, 1e6 * X + 3e8, 1e-9 * X)]
    for out, unit in zip(reported, (1.0, 1e6, 1e-9), strict=True):
        assert adjusted_rand_score(y[100:], out["label"].to_numpy()[100:]) > 0.95
        shift = out["score"].to_numpy(zero_copy_only=False)[64:] - n_features * np.log(unit)
        expected = reported[0]["score"].to_numpy(zero_copy_only=False)[64:]
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


def test_what_users_see():
    model = GraphCRP(likelihood=GIVEN, alpha=0.3, n_particles=20, window=10)
    assert model.n_tables == 0
    assert model.summary().num_rows == 0
    assert model.objective == 0.0
    a, b = np.zeros((15, 1)), np.full((15, 1), 9.0)
    model.learn_many(np.concatenate([a, b]))
    summary = model.summary()
    assert summary["id"].to_pylist() == [15]
    assert summary["weight"][0].as_py() == pytest.approx(15, abs=0.1)
    assert [(e.kind, e.label) for e in model.events()] == [
        ("birth", 0), ("birth", 15), ("death", 0)
    ]  # fmt: skip
    assert model.events() == []
    assert model.alpha_mean == 0.3
    learned = GraphCRP(likelihood=GIVEN, n_particles=20, window=10)
    learned.learn_many(np.concatenate([a, b]))
    assert 0.05 < learned.alpha_mean < 1.0


def test_refused_rows_change_nothing():
    model = GraphCRP(likelihood=GIVEN, n_particles=5, window=4)
    parents = [[], [0], [0, 1], [2]]
    model.learn_many(levels(5, 4).rows, parents=parents)
    before = model.to_bytes()
    good = [[0.0, 1.0]]
    for rows, given_parents, message in [
        ([[np.inf, 1.0]], [[3]], "inf"),
        (good, [[4]], "item 4 has not arrived"),
        (good, [[2, 1, 0, 3]], "do not form a clique"),
        (good, [[0, 0]], "twice"),
        (good, None, "come with parents|came with parents"),
        (good * 3, [[3], [4, 3], [0]], "row 2, parents: item 0 lies 6 items back"),
        (good, [[3], [3]], "one list for each of the 1 rows"),
    ]:
        with pytest.raises(SchemaError, match=message):
            model.learn_many(rows, parents=given_parents)
        assert model.to_bytes() == before
    with pytest.raises(SchemaError, match="do not form a clique"):
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
