"""The move of a branch against its matrix over all link vectors."""

import numpy as np
import pytest
import scipy.sparse as sp

from streamddcrp.likelihoods import NormalGamma
from streamddcrp.models.ddcrp.chain import Chain
from streamddcrp.models.ddcrp.distances import Distances
from streamddcrp.models.ddcrp.kernels.branch import move_branch
from tests.oracles.branches import branch_moves
from tests.oracles.enumeration import tables
from tests.oracles.sampling import affordable, total_variation, total_variation_bound

X = np.array([0.3, -1.2, 0.5, 2.0, -0.9])[:, None]
FAMILY = NormalGamma(0.0, 0.5, 2.0, 1.0)
EDGES = np.array([(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)])
GRAPH = sp.coo_array((np.ones(5), EDGES.T), (5, 5))
ONE_WAY = np.array([[0, 0.3, 1, 9], [2, 0, 0.5, 9], [0.1, 9, 0, 1], [0.4, 1, 2, 0]])
CASES = {
    "graph": Distances.by_hops(GRAPH).candidates(("window", 1.5), 1.0),
    "hops": Distances.by_hops(GRAPH).candidates(("exponential", 0.7), 0.3),
    "one-way": Distances.by_matrix(np.where(ONE_WAY > 5.0, np.inf, ONE_WAY)).candidates(
        ("exponential", 1.0), 0.4
    ),
}


def put(chain, links):
    """Put the chain into a state."""
    state = chain._state
    state.links[:], state.slot[:] = links, tables(links)
    state.children[:] = -1
    for i, j in enumerate(links):
        if i != j:
            after = state.children[j, 0]
            state.children[i, 1] = after
            if after >= 0:
                state.children[after, 2] = i
            state.children[j, 0] = i
    chain.refresh()


@pytest.fixture(params=CASES)
def case(request):
    candidates = CASES[request.param]
    if request.param == "hops":  # 5^5 vectors would be many: those of four customers
        candidates = Distances.by_hops(GRAPH.tocsr()[:4, :4]).candidates(("exponential", 0.7), 0.3)
    rows = X[: candidates.n]
    stats = FAMILY.suffstats(rows)
    return candidates, rows, branch_moves(
        candidates.log_prior(), lambda m: float(FAMILY.log_marginal(stats[list(m)].sum(0))[0])
    )  # fmt: skip


def test_random_branches_leave_the_posterior_invariant(case):
    """And detailed balance holds; with one customer alone neither would."""
    _, _, (_, probs, moves) = case
    mean = moves.mean(axis=0)
    np.testing.assert_allclose(mean.sum(axis=1), 1.0, rtol=1e-12)
    flow = probs[:, None] * mean
    np.testing.assert_allclose(flow, flow.T, atol=1e-14)
    assert np.abs(probs @ moves[0] - probs).max() > 1e-3


def test_kernel_draws_from_the_matrix(case):
    candidates, rows, (place, probs, moves) = case
    rng = np.random.default_rng(2)
    chain = Chain(rows, FAMILY.family, FAMILY.hyper(1), candidates)
    n_draws = affordable(1000)
    several = 0
    for links in list(place)[:: max(1, len(place) // 8)]:
        i = int(rng.integers(candidates.n))
        counts = np.zeros(len(probs))
        for _ in range(n_draws):
            put(chain, links)
            move_branch(i, rng.random(), rng.random(), chain._state)
            counts[place[tuple(chain.links.tolist())]] += 1
        expected = moves[i, place[links]]
        several += (expected > 0.0).sum() > candidates.n
        assert total_variation(counts, expected) < total_variation_bound(expected, n_draws)
    assert several > 0  # outcomes that the link of i alone would not have
