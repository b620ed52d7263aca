"""The particle sampler of the graph-CRP: exact evidence, no bias, parents, concentration."""

import math

import numpy as np
import pytest

from streamddcrp.contract import LABEL, SCORE
from streamddcrp.data.graphs import Parents, as_parents, check, from_parents, keep
from streamddcrp.data.kernels.parents import check_parents
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.likelihoods import NormalGamma
from streamddcrp.models.graph.config import make_config
from streamddcrp.models.graph.engine import (
    arrays_of,
    empty_state,
    predict_row,
    state_from_arrays,
    step,
)
from streamddcrp.models.graph.graph_crp import GraphCRP
from tests.oracles import graph_crp as oracle

X = np.array([0.3, -1.2, 0.1, 2.4, 2.0, -0.7])[:, None]
PRIOR = NormalGamma(0.0, 0.5, 2.0, 1.0)
LOG_Z = {"window": -11.958535733333, "kite": -12.368078784960, "learned": -11.523084397}


def settings(**options):
    options = {"window": 2, "given": False, "alpha": 0.8} | options
    return make_config(family=PRIOR.family, hyper=PRIOR.hyper(1), **options)


def learn(config, rows=X, parents=None):
    state = empty_state(config)
    if parents is None:
        return step(config, state, rows, np.arange(len(rows), dtype=float))
    given = as_parents(parents, len(rows))
    check(given, 0, config.r, state.recent.parents, state.recent.n_parents)
    keep(given, 0, state.recent.parents, state.recent.n_parents)
    return step(config, state, rows, np.arange(len(rows), dtype=float), *given)


def test_evidence_is_exact_while_all_children_fit():
    state, out = learn(settings(n_particles=100))
    assert state.log_evidence == pytest.approx(LOG_Z["window"], abs=1e-10)
    known = [-1.2207833383, -1.9340471102, -1.0614088556, -3.6603731097, -1.9594847176,
             -2.1224386020]  # fmt: skip
    np.testing.assert_allclose(-out[:, SCORE], known, atol=1e-9)
    state, out = learn(settings(n_particles=100, window=6, given=True), X, oracle.KITE)
    assert state.log_evidence == pytest.approx(LOG_Z["kite"], abs=1e-10)
    state, _ = learn(settings(n_particles=100, alpha=("gamma", 2.0, 1.0)))
    assert state.log_evidence == pytest.approx(LOG_Z["learned"], abs=1e-6)  # of the quadrature
    assert mean_alpha(state) == pytest.approx(2.4602378528, abs=1e-5)


def mean_alpha(state):
    config = settings(alpha=("gamma", 2.0, 1.0))
    log_weight = state.grid.base + state.particles.opened[:, None] * np.log(config.nodes)
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    means = weight @ config.nodes / weight.sum(axis=1)
    return float(state.particles.weight @ means)


def test_concentration_given_the_number_of_clusters():
    """Eight items, window 2, three clusters, Gamma(2, 1)."""
    config = settings(alpha=("gamma", 2.0, 1.0))
    nodes = config.nodes
    m = np.minimum(np.arange(8), 2)
    log_weight = config.log_prior + 3 * np.log(nodes) - np.log(nodes[:, None] + m).sum(axis=1)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    assert weight @ nodes == pytest.approx(1.2961319121, abs=1e-7)
    assert weight @ nodes**2 == pytest.approx(2.2951001539, abs=1e-6)
    assert weight @ (nodes / (nodes + 2)) == pytest.approx(0.3639159817, abs=1e-8)


def test_posterior_of_the_particles_is_that_of_the_enumeration():
    for parents, config in [
        (oracle.window(6, 2), settings(n_particles=100)),
        (oracle.KITE, settings(n_particles=100, window=6, given=True)),
    ]:
        state, _ = learn(config, X, parents if config.given else None)
        graph = from_parents(parents)
        found, probs, _ = oracle.posterior(X, parents, graph.cliques, graph.separators, 0.8, PRIOR)
        last = state.particles.label[:, 5 % state.particles.label.shape[1]]
        before = state.particles.label[:, 4 % state.particles.label.shape[1]]
        together = state.particles.weight[last == before].sum()
        assert together == pytest.approx(
            sum(p for q, p in zip(found, probs, strict=True) if q[4] == q[5]), abs=1e-10
        )


CASES = {
    "plain": {},
    "revised": {"rejuvenate": 2},
    "revised twice": {"rejuvenate": 2, "moves": 2},
    "alpha integrated out": {"alpha": ("gamma", 2.0, 1.0), "rejuvenate": 2},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("n_particles", [3, 8])
def test_evidence_has_no_bias(case, n_particles):
    log_z = LOG_Z["learned" if "alpha" in CASES[case] else "window"]
    ratio = np.array(
        [
            math.exp(
                learn(settings(n_particles=n_particles, seed=seed, **CASES[case]))[0].log_evidence
                - log_z
            )
            for seed in range(600)
        ]
    )
    assert ratio.std() > 0
    assert ratio.mean() == pytest.approx(1.0, abs=3 * ratio.std() / math.sqrt(len(ratio)))


def test_evidence_has_no_bias_with_parents_of_their_own():
    ratio = np.array(
        [
            math.exp(
                learn(settings(n_particles=4, seed=seed, window=6, given=True), X, oracle.KITE)[
                    0
                ].log_evidence
                - LOG_Z["kite"]
            )
            for seed in range(600)
        ]
    )
    assert ratio.mean() == pytest.approx(1.0, abs=3 * ratio.std() / math.sqrt(len(ratio)))


def test_a_wide_window_is_the_chinese_restaurant_process():
    rows = np.random.default_rng(0).normal(size=(5, 1))
    state, _ = learn(settings(n_particles=60, window=5), rows)
    parents = oracle.window(5, 5)
    graph = from_parents(parents)
    _, _, log_z = oracle.posterior(rows, parents, graph.cliques, [], 0.8, PRIOR)
    assert state.log_evidence == pytest.approx(log_z, abs=1e-10)


def stream(n, seed=0):
    rng = np.random.default_rng(seed)
    return np.array([-5.0, 0.0, 5.0])[rng.integers(0, 3, n)][:, None] + rng.normal(size=(n, 1))


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_cutting_restart_and_capacity_change_no_bit(options):
    rows = stream(150)
    config = settings(n_particles=20, window=10, **{"alpha": 0.5} | options)
    whole, out = learn(config, rows)
    state, parts = empty_state(config), []
    for a, b in [(0, 1), (1, 30), (30, 31), (31, 150)]:
        state, part = step(config, state, rows[a:b], np.arange(a, b, dtype=float))
        parts.append(part)
        state = state_from_arrays(config, arrays_of(state))
    np.testing.assert_array_equal(np.concatenate(parts), out)
    for name, values in arrays_of(whole).items():
        np.testing.assert_array_equal(arrays_of(state)[name], values, err_msg=name)


@pytest.mark.parametrize("rejuvenate", [0, 5])
def test_books_are_kept(rejuvenate):
    """What is counted incrementally is what a count from scratch gives."""
    config = settings(n_particles=30, window=10, rejuvenate=rejuvenate, moves=2)
    state = empty_state(config)
    rows = stream(120, 1)
    for i, x in enumerate(rows):
        state, _ = step(config, state, x[None], np.array([float(i)]))
        particles, pool = state.particles, state.pool
        R = particles.label.shape[1]
        held = np.zeros(len(pool.name), int)
        for p in np.flatnonzero(particles.weight > 0):
            window = particles.label[p, np.arange(max(i + 1 - 10, 0), i + 1) % R]
            memory = particles.label[p, np.arange(max(i + 2 - R, 0), i + 1) % R]
            K = particles.n_tables[p]
            np.testing.assert_array_equal(np.bincount(window, minlength=K), particles.near[p, :K])
            if rejuvenate:
                np.testing.assert_array_equal(
                    np.bincount(memory, minlength=K), particles.held[p, :K]
                )
            alive = particles.entry[p, :K]
            np.testing.assert_array_equal(alive >= 0, particles.near[p, :K] > 0)
            np.add.at(held, alive[alive >= 0], 1)
            key = np.bitwise_xor.reduce(pool.mixed[alive[alive >= 0]])
            assert key == particles.key[p]
            for k in np.flatnonzero(alive >= 0):  # a table is named by its first member
                opener = state.names.opener[pool.name[alive[k]]]
                first = i + 1 - len(memory) + int(np.flatnonzero(memory == k)[0])
                assert opener == first or opener < i + 2 - R
        np.testing.assert_array_equal(held, pool.holders)
        assert (held == 0).sum() == pool.n_free[0] + 1  # the empty cluster
        assert particles.weight.sum() == pytest.approx(1.0, rel=1e-12)


def test_predicting_changes_nothing_and_agrees_with_learning():
    config = settings(n_particles=20, window=10)
    state, _ = learn(config, stream(60))
    before = arrays_of(state)
    x = np.array([4.0])
    out = predict_row(config, state, x)
    after = arrays_of(state)
    assert all((before[name] == after[name]).all() for name in before)
    _, learned = step(config, state, x[None], np.zeros(1))
    np.testing.assert_array_equal(learned[0], out)


def test_a_stream_of_three_clusters():
    rows = stream(400, 3)
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 3, 400)
    _, out = learn(settings(n_particles=50, window=40, alpha=0.3), rows)
    labels = out[200:, LABEL].astype(int)
    for j in range(3):
        mine = labels[truth[200:] == j]
        assert np.bincount(mine).max() > 0.95 * len(mine)


def test_bad_arrivals_for_the_kite():
    ring, n_ring = np.zeros((8, 4), np.int64), np.zeros(8, np.int64)
    kite = as_parents(oracle.KITE, 6)
    check(kite, 0, 8, ring, n_ring)
    keep(kite, 0, ring, n_ring)
    for bad in ([0, 3], [3, 4], [1, 2, 5]):
        with pytest.raises(SchemaError, match="do not form a clique"):
            check(as_parents([bad], 1), 6, 8, ring, n_ring)
    for good in ([1, 2, 3], []):
        check(as_parents([good], 1), 6, 8, ring, n_ring)
    for bad, message in [([6], "has not arrived"), ([-1], "has not arrived"), ([3, 3], "twice")]:
        with pytest.raises(SchemaError, match=message):
            check(as_parents([bad], 1), 6, 8, ring, n_ring)
    with pytest.raises(SchemaError, match="only the last 2"):
        check(as_parents([[1]], 1), 6, 2, ring, n_ring)


def test_the_test_of_cliques_is_that_of_all_pairs():
    rng = np.random.default_rng(7)
    ring, n_ring = np.zeros((1, 1), np.int64), np.zeros(1, np.int64)
    for _ in range(300):
        parents: list[list[int]] = []
        near: set[frozenset[int]] = set()
        for k in range(7):
            some = sorted(rng.choice(k, rng.integers(0, min(k, 3) + 1), replace=False).tolist())
            is_clique = all(frozenset((a, b)) in near for a in some for b in some if a < b)
            found = check_parents(0, 9, *as_parents([*parents, some], k + 1), ring, n_ring)
            assert found[0] == (-1 if is_clique else k)
            some = some if is_clique else []
            parents.append(some)
            near |= {frozenset((k, j)) for j in some}


def test_parents_in_several_forms():
    import pyarrow as pa

    expected = Parents(np.array([0, 0, 1]), np.array([0, 0, 1, 3]))
    lists = [[], [0], [0, 1]]
    for form in (
        lists,
        [np.array(row, int) for row in lists],
        pa.array(lists, pa.list_(pa.int64())),
    ):
        found = as_parents(form, 3)
        np.testing.assert_array_equal(found.items, expected.items)
        np.testing.assert_array_equal(found.offsets, expected.offsets)
    for bad, message in [
        ([[], [0]], "one list for each of the 3"),
        ([[], 0, []], "row 1, parents: expected a list"),
        ([[], [0.5], []], "whole numbers"),
        ([[], ["a"], []], "whole numbers"),
    ]:
        with pytest.raises(SchemaError, match=message):
            as_parents(bad, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 0}, "window must be"),
        ({"window": 2.5}, "window must be"),
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": ("gamma", 1.0)}, "alpha"),
        ({"alpha": ("gamma", 1.0, -1.0)}, "alpha"),
        ({"n_particles": 0}, "n_particles"),
        ({"rejuvenate": 3}, "rejuvenate must not exceed window"),
        ({"rejuvenate": 1, "given": True}, "rejuvenate"),
        ({"seed": -1}, "seed"),
    ],
)
def test_options_that_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        settings(**options)


def test_a_row_beside_which_all_others_vanish():
    """The densest table is no parent's: what is left is a new one, with the prior's density."""
    given, far = ("normal_gamma", 0.0, 0.05, 1.5, 0.5), np.full((1, 4), 1e90)
    model, fresh = (GraphCRP(likelihood=given, n_particles=3) for _ in range(2))
    model.learn_many(np.repeat(far, 30, axis=0), parents=[[], *([i] for i in range(29))])
    out = model.step_many(far, parents=[[]])
    expected = fresh.step_many(far, parents=[[]])["score"][0].as_py()
    assert out["score"][0].as_py() == pytest.approx(expected, rel=1e-14)
    assert out["p_new"][0].as_py() == 1.0


def test_a_given_alpha_is_its_mean_in_warm_up_too():
    assert [GraphCRP(alpha=alpha).alpha_mean for alpha in (1, 0.5)] == [1.0, 0.5]
    assert math.isnan(GraphCRP().alpha_mean)
