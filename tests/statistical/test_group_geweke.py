"""Geweke's joint test of the Gibbs sampler of groups: rows and clusters drawn in turn.

If each step leaves the joint law, clusters have the prior's moments, and rows the law of one alone.
"""

import math

import numpy as np
import pytest

from streamddcrp.likelihoods import NormalGamma
from streamddcrp.likelihoods.kernels.families import add_stats, posterior
from streamddcrp.models.graph.group_gibbs import _Chain
from streamddcrp.models.graph.group_state import Config

pytestmark = pytest.mark.slow
PRIOR = NormalGamma(0.0, 0.5, 3.0, 2.0)
N, GROUP = 6, np.array([0, 1, 2, 0, 1, 2])
NONE = np.zeros(PRIOR.n_stats(1))
# auxiliary items of root and nodes; the node of each group; then the parents of all items
LAYERS = {
    1: ((3, 0), np.zeros(3, int), [[], [0], [0, 1], *([[0, 1, 2]] * 3), *([[0, 1, 2]] * 3)]),
    2: (
        (2, 2), np.array([1, 1, 2]),
        [[], [0], [0, 1], [0, 1, 2], [0, 1], [0, 1, 4], *([[2, 3]] * 2), [4, 5],
         *([[2, 3]] * 2), [4, 5]],
    ),
}  # fmt: skip


def forward(rng, parents, alpha):
    """Labels of the rows, from the prior."""
    labels, n_aux = [], len(parents) - N
    for k, above in enumerate(parents):
        mine = [*above, k - 3] if k >= n_aux + 3 else above  # the group's first row
        u = rng.random() * (alpha + len(mine))
        labels.append(labels[mine[int(u)]] if u < len(mine) else k)
    return np.array(labels[n_aux:])


def rows_of(rng, labels):
    X = np.empty((N, 1))
    for j in np.unique(labels):
        mine = np.flatnonzero(labels == j)
        X[mine] = PRIOR.sample(rng, NONE, size=len(mine)).reshape(-1, 1)
    return X


def load(chain, X):
    """Let the chain go on with other rows in the same clusters."""
    family, hyper, clusters = PRIOR.family, PRIOR.hyper(1), chain.state.clusters
    chain.rows = X
    clusters.stats[:] = 0.0
    for x, k in zip(X, chain.labels, strict=True):
        add_stats(family, hyper, x, 1.0, clusters.stats[k])
    for k in chain.labels:
        posterior(family, hyper, clusters.stats[k], clusters.post[k])


def moments(labels, X, alpha):
    spread = np.tanh(X[:, 0])  # bounded: rows of a new cluster have heavy tails
    return [
        len(np.unique(labels)), labels[0] == labels[3], labels[0] == labels[1],
        labels[0] == labels[2], spread.mean(), (spread**2).mean(), spread[0] * spread[2],
        alpha / (1.0 + alpha),
    ]  # fmt: skip


@pytest.mark.parametrize("prior", [None, (2.0, 2.0)])
@pytest.mark.parametrize("layers", [1, 2])
def test_geweke(layers, prior):
    rng = np.random.default_rng(13)
    sizes, node, parents = LAYERS[layers]
    exact, found = [], []
    for _ in range(6_000):
        alpha = 0.7 if prior is None else rng.gamma(prior[0], 1.0 / prior[1])
        labels = forward(rng, parents, alpha)
        exact.append(moments(labels, rows_of(rng, labels), alpha))
    config = Config(PRIOR.family, PRIOR.hyper(1), 0.7, *sizes, 1, False, 0, 5)
    chain = _Chain(np.zeros((N, 1)), GROUP, node, config, prior, rng)
    chain.sweep()
    for _ in range(12_000):
        load(chain, rows_of(rng, chain.labels))
        chain.sweep()
        found.append(moments(chain.labels, chain.rows, chain.config.alpha))
    exact, found = np.array(exact, float), np.array(found, float)
    blocks = found.reshape(100, -1, found.shape[1]).mean(axis=1)  # of 120 steps each
    error = np.sqrt(blocks.var(axis=0, ddof=1) / 100 + exact.var(axis=0) / len(exact))
    gap = found.mean(axis=0) - exact.mean(axis=0)
    assert (np.abs(gap) <= 4.0 * error + 1e-12).all(), gap / error  # 0 where alpha is known
    assert math.isfinite(chain.log_joint())
