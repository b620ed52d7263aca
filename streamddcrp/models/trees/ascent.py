"""Topic trees of a fixed shape by coordinate ascent, and by natural-gradient steps on batches."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from streamddcrp.errors import ConfigError
from streamddcrp.models.trees.kernels.ascent import factorised_step, path_step
from streamddcrp.models.trees.kernels.tree import beta_parameters, log_path_chances
from streamddcrp.typing import FloatArray, IntArray

_STEPS = {"path": path_step, "factorised": factorised_step}


class Expectation(NamedTuple):
    """Documents on the tree.

    Attributes
    ----------
    q : ndarray, shape (N, K)
        Endpoint probabilities.
    counts : ndarray, shape (V, K)
        Expected words of each node.
    local : float
        Sum over documents of log Z, and of the levels' terms.
    """

    q: FloatArray
    counts: FloatArray
    local: float


@dataclass(slots=True)
class Ascent:
    """Posterior of sticks and topics of a tree, from expected statistics.

    The variational bound is local - KL(q(v) || p(v)) - KL(q(beta) || p(beta)); `expect` maximises
    it over the documents, `step` with ``rho`` 1 over sticks and topics.

    Attributes
    ----------
    parent, level : ndarray of int64, shape (K,)
        Slots in order: parents before children, older siblings before younger.
    alpha, eta : ndarray, shape (L,)
    gamma : float
    counts : ndarray, shape (V, K)
        Expected words; q(beta_i) = Dir(eta + counts_i).
    mass : ndarray, shape (K,)
        Expected documents of each endpoint, from which q(v) follows.
    family : {"path", "factorised"}
        Whether levels of words depend on the path.
    """

    parent: IntArray
    level: IntArray
    alpha: FloatArray
    eta: FloatArray
    gamma: float
    counts: FloatArray
    mass: FloatArray
    family: str = "path"

    def __post_init__(self) -> None:
        if self.family not in _STEPS:
            message = f"family must be 'path' or 'factorised', got {self.family!r}"
            raise ConfigError(message)

    def _sticks(self) -> tuple[FloatArray, FloatArray]:
        K = len(self.parent)
        size, a, b = np.empty((3, K))
        beta_parameters(self.parent, K, self.mass, self.gamma, size, a, b)
        return a, b

    def expect(
        self, offsets: IntArray, words: IntArray, n: FloatArray, *, rounds: int = 500,
        tol: float = 1e-10,
    ) -> Expectation:  # fmt: skip
        """Place documents; words ``words[offsets[d]:offsets[d + 1]]`` with counts ``n``."""
        K, V, L = len(self.parent), len(self.counts), len(self.alpha)
        prior = np.empty(K)
        a, b = self._sticks()
        log_path_chances(self.parent, self.level, K, L, a, b, self.gamma, False, prior)
        eta = self.eta[self.level - 1]
        elog = digamma(self.counts + eta) - digamma(self.counts.sum(axis=0) + V * eta)
        fresh = digamma(self.eta) - digamma(V * self.eta)
        q, counts = np.empty((len(offsets) - 1, K)), np.zeros((V, K))
        local = _STEPS[self.family](
            offsets, words, n, self.parent, self.level, L, prior, elog, fresh, self.alpha, rounds,
            tol, q, counts,
        )  # fmt: skip
        return Expectation(q, counts, float(local))

    def step(self, found: Expectation, rho: float = 1.0, total: float | None = None) -> None:
        """Take a natural-gradient step towards what ``total`` documents like these would give.

        Parameters
        ----------
        found : Expectation
        rho : float
            1 forgets what was before.
        total : float, optional
            Default: the documents of ``found``; with ``rho`` 1 that is coordinate ascent.
        """
        weight = rho * (1.0 if total is None else total / len(found.q))
        self.counts = (1.0 - rho) * self.counts + weight * found.counts
        self.mass = (1.0 - rho) * self.mass + weight * found.q.sum(axis=0)

    def divergence(self) -> float:
        """Return KL(q(v) || p(v)) + KL(q(beta) || p(beta))."""
        a, b = (part[1:] for part in self._sticks())
        both = digamma(a + b)
        sticks = (a - 1.0) * (digamma(a) - both) + (b - self.gamma) * (digamma(b) - both)
        sticks -= gammaln(a) + gammaln(b) - gammaln(a + b) + np.log(self.gamma)
        V, eta = len(self.counts), self.eta[self.level - 1]
        lam = self.counts + eta
        total = lam.sum(axis=0)
        topics = np.sum(self.counts * (digamma(lam) - digamma(total)), axis=0)
        topics += gammaln(total) - gammaln(V * eta) + V * gammaln(eta)
        topics -= np.sum(gammaln(lam), axis=0)
        return float(np.sum(sticks) + np.sum(topics))
