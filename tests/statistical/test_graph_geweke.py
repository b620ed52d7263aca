"""Geweke's joint test of the Gibbs sampler on graphs: rows and clusters drawn in turn.

If each step leaves the joint law, clusters have the prior's moments, and rows the law of one alone.
"""

import math

import numpy as np
import pytest

from streamddcrp.data.graphs import from_parents
from streamddcrp.likelihoods import NormalGamma
from streamddcrp.models.graph.config import make_config
from streamddcrp.models.graph.gibbs import _Chain
from tests.oracles import graph_crp as oracle

pytestmark = pytest.mark.slow
PRIOR = NormalGamma(0.0, 0.5, 3.0, 2.0)


def moments(labels, X):
    spread = np.tanh(X[:, 0])  # bounded: rows of a new cluster have heavy tails
    return [
        len(np.unique(labels)), labels[3] == labels[4], labels[0] == labels[5],
        spread.mean(), (spread**2).mean(), spread[3] * spread[4],
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["kite", "window 2", "tree", "two parts"])
@pytest.mark.parametrize("alpha", [0.7, ("gamma", 2.0, 2.0)])
def test_geweke(name, alpha):
    rng = np.random.default_rng(11)
    graph, n = from_parents(oracle.GRAPHS[name]), len(oracle.GRAPHS[name])
    config = make_config(
        family=PRIOR.family, hyper=PRIOR.hyper(1), window=1, given=True, alpha=alpha, n_particles=1
    )
    none = np.zeros(PRIOR.n_stats(1))

    def rows(labels):
        X = np.empty((n, 1))
        for j in np.unique(labels):
            mine = np.flatnonzero(labels == j)
            X[mine] = PRIOR.sample(rng, none, size=len(mine)).reshape(-1, 1)
        return X

    def forward():
        a = alpha if isinstance(alpha, float) else rng.gamma(2.0, 0.5)
        labels = np.zeros(n, np.int64)
        for k in graph.order:
            mine = sorted(graph.parents[k])
            u = rng.random() * (a + len(mine))
            labels[k] = labels[mine[int(u)]] if u < len(mine) else k
        return labels

    exact = []
    for _ in range(8_000):
        labels = forward()
        exact.append(moments(labels, rows(labels)))
    chain = _Chain(graph, np.zeros((n, 1)), config, alpha, rng)
    found = []
    for _ in range(16_000):
        chain.rows = rows(chain.labels)
        chain.begin(chain.labels)
        chain.sweep()
        found.append(moments(chain.labels, chain.rows))
    exact, found = np.array(exact, float), np.array(found, float)
    blocks = found.reshape(100, -1, found.shape[1]).mean(axis=1)  # of 160 steps each
    error = np.sqrt(blocks.var(axis=0, ddof=1) / 100 + exact.var(axis=0) / len(exact))
    gap = found.mean(axis=0) - exact.mean(axis=0)  # 0 of what cannot be: both parts in one cluster
    assert (np.abs(gap) <= 4.0 * error).all(), gap / error
    assert math.isfinite(chain.log_joint())
