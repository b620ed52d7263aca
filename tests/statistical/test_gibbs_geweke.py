"""Geweke's joint test: rows and links drawn alternately follow their joint distribution."""

import numpy as np
import pytest
import scipy.sparse as sp

from streamddcrp.likelihoods import GammaPoisson, NormalGamma
from streamddcrp.models.ddcrp.chain import Chain
from streamddcrp.models.ddcrp.distances import Distances
from tests.oracles.enumeration import tables
from tests.oracles.sampling import effective_size

N = 8
CIRCLE = sp.coo_array((np.ones(N), (np.arange(N), (np.arange(N) + 1) % N)), (N, N))
CASES = {
    "index": (Distances.by_index(N), ("exponential", 3.0)),
    "crp": (Distances.by_index(N), "none"),
    "general": (Distances.by_index(N, sequential=False), ("window", 3.0)),
    "circle": (Distances.by_hops(CIRCLE), ("window", 1.5)),
}
FAMILIES = [NormalGamma(0.5, 0.8, 6.0, 4.0), GammaPoisson(3.0, 1.5)]


def rows_given(labels, family, rng, out):
    """Draw the rows of each table with a parameter of their own from the prior."""
    nothing = np.zeros(family.n_stats(out.shape[1]))
    for k in np.unique(labels):
        inside = labels == k
        out[inside] = family.sample(rng, nothing, int(inside.sum()))


def functions(labels, X):
    """Moments of the joint: of tables, of rows, of rows at one table."""
    together = labels[:, None] == labels
    return [
        len(np.unique(labels)), together.sum(), X.mean(), (X**2).mean(),
        (X @ X.T)[together].sum(), (X @ X.T)[0, 1], X[-1, 0] * len(np.unique(labels)),
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: type(f).__name__)
@pytest.mark.parametrize("case", CASES)
def test_joint_distribution(case, family):
    distances, decay = CASES[case]
    candidates = distances.candidates(decay, 0.8)
    prior = np.exp(candidates.log_prior())
    rng = np.random.default_rng(11)
    X = np.empty((N, 2))

    forward = []
    for _ in range(10_000):
        links = [rng.choice(N, p=row) for row in prior]
        labels = np.array(tables(links))
        rows_given(labels, family, rng, X)
        forward.append(functions(labels, X))

    back = []
    chain = Chain(X, family.family, family.hyper(2), candidates)
    for _ in range(10_000):
        chain.sweep(rng)
        labels = chain.labels
        rows_given(labels, family, rng, X)
        chain.refresh()
        back.append(functions(labels, X))

    a, b = np.array(forward), np.array(back)
    n_eff = np.array([effective_size(trace) for trace in b.T])
    assert n_eff.min() > 1000
    error = np.sqrt(a.var(0) / len(a) + b.var(0) / n_eff)
    assert (np.abs(a.mean(0) - b.mean(0)) < 4.5 * error).all()
