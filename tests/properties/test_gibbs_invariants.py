"""What holds after every update of the sampler, and over every window on a graph."""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from streamddcrp.decay import Exponential, LinearWindow, Logistic, NoDecay, Window
from streamddcrp.likelihoods import BetaBernoulli, NormalGamma, NormalWishart, Product
from streamddcrp.models.ddcrp.chain import Chain
from streamddcrp.models.ddcrp.distances import Distances
from streamddcrp.models.ddcrp.kernels.branch import move_branch
from streamddcrp.models.ddcrp.kernels.link import update
from streamddcrp.models.ddcrp.sampler import PARAMETER, Griddy, HyperGrid, sample_ddcrp

DECAYS = [NoDecay(), Window(3.5), Exponential(4.0), Logistic(3.0), LinearWindow(6.0)]
SEEDS = st.integers(0, 2**32 - 1)


def some_distances(kind, n, rng, sequential):
    if kind == "index":
        return Distances.by_index(n, sequential=sequential)
    if kind == "time":
        return Distances.by_time(np.cumsum(rng.exponential(1.0, n)), sequential=sequential)
    if kind == "covariates":
        return Distances.by_covariates(rng.normal(0, 3, (n, 2)), sequential=sequential)
    graph = sp.random_array((n, n), density=min(1.0, 3.0 / n), rng=rng)
    return Distances.by_hops(graph, sequential=sequential)


def check(chain, stats, family):
    state = chain._state
    links, slot, free = state.links, state.slot, state.free
    kids = state.children.tolist()
    n = len(links)
    # labels: weakly connected components of the links
    graph = sp.coo_array((np.ones(n), (np.arange(n), links)), (n, n))
    n_tables, parts = connected_components(graph, directed=True, connection="weak")
    _, first = np.unique(parts, return_index=True)
    np.testing.assert_array_equal(chain.labels, first[parts])
    assert chain.n_tables == n_tables
    # child lists: the inverse of the links
    for j in range(n):
        found, before, i = [], -1, kids[j][0]
        while i >= 0:
            assert kids[i][2] == before
            found.append(i)
            before, i = i, kids[i][1]
        assert sorted(found) == [i for i in np.flatnonzero(links == j) if i != j]
    # slots: each table has one, all others are free
    live = np.unique(slot)
    assert len(live) == n_tables
    assert sorted([*live, *free[: free[n]]]) == list(range(n))
    # statistics: sums by slot
    expected = np.array([stats[slot == k].sum(0) for k in live])
    np.testing.assert_allclose(state.stats[live], expected, rtol=1e-9, atol=1e-9)
    marginal = family.log_marginal(expected)
    np.testing.assert_allclose(state.marginal[live], marginal, rtol=1e-9, atol=1e-9)
    assert (state.mass == 0.0).all()  # the tables' weights


@given(
    seed=SEEDS,
    n=st.integers(1, 25),
    kind=st.sampled_from(["index", "time", "covariates", "graph"]),
    decay=st.sampled_from(DECAYS),
    alpha=st.floats(0.01, 10.0),
    sequential=st.booleans(),
)
def test_state_after_every_update(seed, n, kind, decay, alpha, sequential):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(0, 3, (n, 2)), rng.random(n) < 0.5])
    family = Product(
        [(NormalWishart([0.0, 0.0], 0.1, np.eye(2), 4.0), [0, 1]), (BetaBernoulli(1.0, 1.0), [2])]
    )
    rows, _ = family.prepare(X)
    stats = family.suffstats(X)
    distances = some_distances(kind, n, rng, sequential)
    candidates = distances.candidates(decay, alpha)
    chain = Chain(rows, family.family, family.hyper(3), candidates)
    check(chain, stats, family)
    for i in rng.integers(0, n, 12):
        update(i, rng.random(), rng.random(), chain._state)
        check(chain, stats, family)
        if not sequential:
            move_branch(i, rng.random(), rng.random(), chain._state)
            check(chain, stats, family)
    for go in (chain.sweep, chain.forward, chain.sweep):
        go(rng)
        check(chain, stats, family)
    if sequential:
        chain.redraw_links(rng)
        check(chain, stats, family)
    allowed = candidates.log_prior()[np.arange(n), chain.links]
    assert (allowed > -np.inf).all()


@given(seed=SEEDS, n=st.integers(2, 40), width=st.floats(1.0, 2.0, exclude_min=True))
def test_tables_of_direct_neighbours_are_connected(seed, n, width):
    rng = np.random.default_rng(seed)
    graph = sp.random_array((n, n), density=min(1.0, 2.0 / n), rng=rng).tocsr()
    X = rng.normal(size=(n, 1))
    samples = sample_ddcrp(
        X, ("normal_gamma", 0.0, 0.1, 1.5, 1.0), alpha=0.1, decay=("window", width),
        distances=Distances.by_hops(graph), n_sweeps=5, burn_in=5, n_chains=1, seed=seed,
    )  # fmt: skip
    for labels in samples.labels:
        for k in np.unique(labels):
            inside = np.flatnonzero(labels == k)
            part = graph[inside][:, inside]
            assert connected_components(part, directed=False, return_labels=False) == 1


@given(seed=SEEDS, sequential=st.booleans(), decay=st.sampled_from(DECAYS[1:]))
def test_state_after_moves_of_the_decay(seed, sequential, decay):
    """What `check` counts anew, and links that the decay chosen allows."""
    rng = np.random.default_rng(seed)
    X, family = rng.normal(0, 3, (20, 1)), NormalGamma(0.0, 0.1, 1.5, 1.0)
    values = (2.0, 3.5, 8.0)
    distances = Distances.by_index(20, sequential=sequential)
    grid = Griddy(HyperGrid((0.2, 1.0), values), distances, decay, 0.5)
    candidates, _, value = grid.start
    chain = Chain(family.prepare(X)[0], family.family, family.hyper(1), candidates)
    stats, moved = family.suffstats(X), set()
    name = PARAMETER[type(decay)]
    for _ in range(10):
        chain.sweep(rng)
        labels = chain.labels
        alpha, value = grid.move(chain, rng)
        check(chain, stats, family)
        np.testing.assert_array_equal(chain.labels, labels)
        moved.add(value)
        now = distances.candidates(replace(decay, **{name: value}), alpha)
        log_p = now.log_prior()[np.arange(20), chain.links]
        assert (log_p > -np.inf).all()
        tables = np.array([stats[labels == k].sum(0) for k in {*labels}])
        marginal = family.log_marginal(tables).sum()
        np.testing.assert_allclose(chain.log_joint, log_p.sum() + marginal, rtol=1e-10)
    assert moved <= set(values)
