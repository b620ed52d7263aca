"""Parts of the bound of a tree of topics by themselves."""

import numpy as np
import pytest
from scipy.special import digamma, gammaln

from streamddcrp.models.trees.kernels.gain import local_bound
from tests.oracles.plain import plain

ALPHA, N = np.array([3.0, 2.0, 1.0]), np.array([2.0, 1.0, 3.0])


@pytest.mark.parametrize("first_fresh", [1, 2, 3])
def test_what_a_document_adds_by_itself(first_fresh):
    """Levels: -log B ratio and entropy; E log beta of topics that a full tree has no room for."""
    rng, V = np.random.default_rng(first_fresh), 7
    phi, eta = rng.dirichlet(np.ones(3), 3), np.array([0.5, 0.3, 0.1])
    phi[1] = [0.0, 0.25, 0.75]
    at_level = N @ phi
    expected = gammaln(ALPHA + at_level).sum() - gammaln(ALPHA.sum() + N.sum())
    expected -= gammaln(ALPHA).sum() - gammaln(ALPHA.sum())
    for n, p in zip(N, phi, strict=True):
        expected -= n * (p * np.log(p, where=p > 0.0, out=np.zeros(3))).sum()
        expected += n * (p * (digamma(eta) - digamma(V * eta)))[first_fresh:].sum()
    found = plain(local_bound)(N, phi, ALPHA, at_level, first_fresh, eta, V)
    assert found == pytest.approx(expected, rel=1e-10)
