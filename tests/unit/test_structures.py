"""Which window, graph or number of auxiliary items: by evidence, against enumeration."""

import math

import numpy as np
import pytest

from streamddcrp import GraphCRP, GroupDP, race
from streamddcrp.data.graphs import from_parents
from tests.oracles import graph_crp as oracle
from tests.unit.test_group_dp import PRIOR, X

ALPHA, SEEDS = 0.8, 400
GROUP = [0, 1, 0, 1]


def exact(parents, n_aux=0):
    """Log evidence of the rows below ``n_aux`` auxiliary items, by enumeration."""
    rows = np.concatenate([np.full((n_aux, 1), np.nan), X])
    graph = from_parents(parents)
    return oracle.posterior(rows, parents, graph.cliques, graph.separators, ALPHA, PRIOR)[-1]


def below(n):
    """Parents of n auxiliary items and of the rows of two groups."""
    aux = [[*range(k)] for k in range(n)]
    earlier = [[n + i for i in range(k) if GROUP[i] == GROUP[k]] for k in range(len(X))]
    return [*aux, *([*range(n), *mine] for mine in earlier)]


def window(r):
    return lambda seed: (
        GraphCRP(window=r, alpha=ALPHA, likelihood=PRIOR, n_particles=3, seed=seed),
        {},
    )


def items(n):
    return lambda seed: (
        GroupDP(n_shared=n, alpha=ALPHA, likelihood=PRIOR, n_particles=3, seed=seed),
        {"group": GROUP},
    )


def named(parents):
    return lambda seed: (
        GraphCRP(window=4, alpha=ALPHA, likelihood=PRIOR, n_particles=3, seed=seed),
        {"parents": parents},
    )


TREES = [[], [0], [0], [0]], [[], [0], [1], [2]], [[], [], [0], [1]]
KINDS = {
    "window": {r: (window(r), exact(oracle.window(len(X), r))) for r in (1, 2, 4)},
    "auxiliary items": {n: (items(n), exact(below(n), n)) for n in (1, 2, 3)},
    "graph": {k: (named(tree), exact(tree)) for k, tree in enumerate(TREES)},
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_posterior_of_a_structure_is_that_of_the_enumeration(kind):
    """The evidence of each has no bias, so neither has that of their mixture."""
    log_z = np.array([z for _, z in KINDS[kind].values()])
    share = np.exp(log_z - np.logaddexp.reduce(log_z))
    assert share.max() - share.min() > 0.02  # they differ
    found = []
    for seed in range(SEEDS):
        scores = {}
        for name, (make, _) in KINDS[kind].items():
            model, side = make(seed)
            scores[str(name)] = model.step_many(X, **side)["score"]
        one = race(scores)
        weight = np.exp(np.logaddexp.reduce(one.log_evidence) - np.logaddexp.reduce(log_z))
        found.append([weight, *(weight * one.probs)])
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / math.sqrt(SEEDS)
    assert (np.abs(mean - [1.0, *share]) < 3.5 * error + 1e-9).all()
