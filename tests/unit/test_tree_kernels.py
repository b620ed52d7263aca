"""Parts of the bound of a tree of topics by themselves."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import digamma, gammaln

from streamddcrp.models.trees.kernels.gain import local_bound
from streamddcrp.models.trees.kernels.topics import N_WORDS, SCALE, _gather, learn
from streamddcrp.models.trees.topic_tree import Documents, Settings, TopicTree
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


def test_the_parameters_of_a_path_are_those_of_its_topics():
    """eta + scaled counts of the document's words, and their sums over all V words."""
    rng, V, K = np.random.default_rng(5), 9, 4
    eta, scale, words = np.array([0.5, 0.3, 0.1]), 0.7, np.array([1, 4, 8])
    counts = rng.exponential(1.0, (V, K))
    whole = np.zeros(8, np.int64)
    whole[N_WORDS], real = V, np.zeros(2)
    real[SCALE] = scale
    tree = SimpleNamespace(
        parent=np.array([-1, 0, 0, 1]), level=np.array([1, 2, 2, 3]), counts=counts,
        rows=counts.sum(axis=0), whole=whole, real=real,
    )  # fmt: skip
    for end, slots in [(3, [0, 1, 3]), (2, [0, 2, -1])]:
        path, lam, total = np.empty(3, np.int64), np.empty((3, 3)), np.empty(3)
        plain(_gather)(tree, SimpleNamespace(eta=eta), end, words, path, lam, total)
        assert path.tolist() == slots
        kept = np.where(np.array(slots) >= 0, scale, 0.0) * counts[:, slots]
        np.testing.assert_allclose(lam, eta + kept[words], rtol=1e-12)
        np.testing.assert_allclose(total, (eta + kept).sum(axis=0), rtol=1e-12)


def test_documents_that_count_more_and_more_count_as_many_as_they_are():
    """The n-th one as n^(1 - forgetting), all together n: masses of the root and its words."""
    rng, n = np.random.default_rng(0), 12
    settings = Settings(1.0, np.array([0.5, 0.3]), np.array([2.0, 1.0]), forgetting=0.6, revisits=0)
    state = TopicTree.empty(settings, 6)
    offsets, words = np.arange(0, 5 * n + 1, 5), rng.integers(0, 6, 5 * n)
    tree, docs = state.arrays, Documents(
        words, np.ones(5 * n), np.zeros((5 * n, 2)), offsets, np.zeros(n), np.full(n, -1),
        np.zeros(n), *np.zeros((2, n), np.int64),
    )  # fmt: skip
    learn(0, n, True, np.full(n, 6), tree, docs, settings, np.empty((n + 1, 4)))
    weight = docs.weights * tree.real[SCALE]
    assert weight.sum() == pytest.approx(n, rel=1e-12)
    assert weight[-1] == pytest.approx(n**0.4, rel=1e-12)
