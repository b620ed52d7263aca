"""Wang and Blei's coordinate ascent for topic trees of a fixed shape, as printed in the paper.

Word levels conditional on the path or, as in the paper, factorised; and natural-gradient steps on
batches. `NestedCRPTopics` climbs the same bound with all parameters at their optimum.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import digamma as digammas
from scipy.special import gammaln

from streamddcrp.compilation import inner, kernel
from streamddcrp.errors import ConfigError
from streamddcrp.models.trees.kernels.tree import (
    beta_parameters,
    log_path_chances,
    softmax,
    subtree_sums,
)
from streamddcrp.numerics import digamma
from tests.oracles.nested_tree import endpoint_scores

_FLOOR = 1e-300


@inner
def _log_beta(x):
    total, out = 0.0, 0.0
    for l in range(len(x)):
        total += x[l]
        out += math.lgamma(x[l])
    return out - math.lgamma(total)


@inner
def _settle(n, score, alpha, rounds, tol, phi, r):
    """Fit levels to a path, ``score`` (U, L) the expected log words; return the bound.

    r = alpha + n phi;  log phi = psi(r) + score + const.
    """
    U, L = score.shape
    N, whole = 0.0, 0.0
    for u in range(U):
        N += n[u]
    for l in range(L):
        whole += alpha[l]
    for l in range(L):
        r[l] = alpha[l] + N * alpha[l] / whole
    part, new = np.empty(L), np.empty(L)
    for _ in range(rounds):
        for l in range(L):
            part[l] = digamma(r[l])
            new[l] = alpha[l]
        for u in range(U):
            top, norm = -np.inf, 0.0
            for l in range(L):
                top = max(top, part[l] + score[u, l])
            for l in range(L):
                phi[u, l] = math.exp(part[l] + score[u, l] - top)
                norm += phi[u, l]
            for l in range(L):
                phi[u, l] /= norm
                new[l] += n[u] * phi[u, l]
        moved = 0.0
        for l in range(L):
            moved += abs(new[l] - r[l])
            r[l] = new[l]
        if moved < tol * N:
            break
    out = _log_beta(r) - _log_beta(alpha)
    for u in range(U):
        for l in range(L):
            if phi[u, l] > 0.0:
                out += n[u] * phi[u, l] * (score[u, l] - math.log(max(phi[u, l], _FLOOR)))
    return out


@kernel
def path_step(
    offsets, words, n, parent, level, L, prior, elog, fresh, alpha, rounds, tol, q, counts,
):  # fmt: skip
    """Place documents with levels conditional on the path; return the sum of log Z.

    Parameters
    ----------
    prior : ndarray, shape (K,)
        Expected log prior of the endpoints.
    elog : ndarray, shape (V, K)
        Expected log probability of words in topics; ``fresh`` (L,) in a topic that is not kept.
    q : ndarray, shape (N, K)
        Gets the endpoint probabilities.
    counts : ndarray, shape (V, K)
        Expected words of the nodes are added.
    """
    K, total = len(parent), 0.0
    longest = 0
    for d in range(len(offsets) - 1):
        longest = max(longest, offsets[d + 1] - offsets[d])
    score, r = np.empty((longest, L)), np.empty(L)
    phi, log_s = np.empty((K, longest, L)), np.empty(K)
    for d in range(len(offsets) - 1):
        at, U = offsets[d], offsets[d + 1] - offsets[d]
        for k in range(K):
            for l in range(level[k], L):
                for u in range(U):
                    score[u, l] = fresh[l]
            i = k
            while i >= 0:
                for u in range(U):
                    score[u, level[i] - 1] = elog[words[at + u], i]
                i = parent[i]
            log_s[k] = prior[k] + _settle(
                n[at : at + U], score[:U], alpha, rounds, tol, phi[k, :U], r
            )
        total += softmax(log_s, K, q[d])
        for k in range(K):
            i = k
            while i >= 0:
                for u in range(U):
                    counts[words[at + u], i] += q[d, k] * n[at + u] * phi[k, u, level[i] - 1]
                i = parent[i]
    return total


@kernel
def factorised_step(
    offsets, words, n, parent, level, L, prior, elog, fresh, alpha, rounds, tol, q, counts,
):  # fmt: skip
    """Place documents with path and levels independent, as in the paper; return their bound.

    As `path_step`. In turns: r = alpha + n phi; log S from sum_u n_u phi_ul E log beta;
    log phi_ul = psi(r_l) - psi(sum r) + sum_i Q_i E log beta_iu + (1 - sum Q) fresh_l.
    """
    K, bound = len(parent), 0.0
    node, out_of_tree, log_s, Q = np.empty(K), np.empty(L), np.empty(K), np.empty(K)
    r, mass, entry = np.empty(L), np.empty(L), np.empty(L)
    base = _log_beta(alpha)
    for d in range(len(offsets) - 1):
        at, U = offsets[d], offsets[d + 1] - offsets[d]
        phi = np.full((U, L), 1.0 / L)
        before = -np.inf
        now = 0.0
        for _ in range(rounds):
            total_r = 0.0
            for l in range(L):
                r[l], out_of_tree[l] = alpha[l], 0.0
                for u in range(U):
                    r[l] += n[at + u] * phi[u, l]
                    out_of_tree[l] += n[at + u] * phi[u, l] * fresh[l]
                total_r += r[l]
            for i in range(K):
                node[i] = 0.0
                for u in range(U):
                    node[i] += n[at + u] * phi[u, level[i] - 1] * elog[words[at + u], i]
            endpoint_scores(parent, level, K, L, prior, node, out_of_tree, log_s)
            now = softmax(log_s, K, q[d])
            subtree_sums(parent, K, q[d], Q)
            # KL(Dir(r) || Dir(alpha)) and the words' terms at the phi that q was found with
            now += _log_beta(r) - base
            shift = digamma(total_r)
            for l in range(L):
                elt = digamma(r[l]) - shift
                mass[l] = 0.0
                now += (alpha[l] - r[l]) * elt
                for u in range(U):
                    if phi[u, l] > 0.0:
                        now += n[at + u] * phi[u, l] * (elt - math.log(max(phi[u, l], _FLOOR)))
            if now - before < tol * abs(now):
                break
            before = now
            for i in range(K):
                mass[level[i] - 1] += Q[i]
            for u in range(U):
                top, norm = -np.inf, 0.0
                for l in range(L):
                    entry[l] = digamma(r[l]) - shift + (1.0 - mass[l]) * fresh[l]
                for i in range(K):
                    entry[level[i] - 1] += Q[i] * elog[words[at + u], i]
                for l in range(L):
                    top = max(top, entry[l])
                for l in range(L):
                    phi[u, l] = math.exp(entry[l] - top)
                    norm += phi[u, l]
                for l in range(L):
                    phi[u, l] /= norm
        bound += now
        for i in range(K):
            for u in range(U):
                counts[words[at + u], i] += Q[i] * n[at + u] * phi[u, level[i] - 1]
    return bound


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

    q: np.ndarray
    counts: np.ndarray
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

    parent: np.ndarray
    level: np.ndarray
    alpha: np.ndarray
    eta: np.ndarray
    gamma: float
    counts: np.ndarray
    mass: np.ndarray
    family: str = "path"

    def __post_init__(self) -> None:
        if self.family not in _STEPS:
            message = f"family must be 'path' or 'factorised', got {self.family!r}"
            raise ConfigError(message)

    def _sticks(self) -> tuple[np.ndarray, np.ndarray]:
        K = len(self.parent)
        size, a, b = np.empty((3, K))
        beta_parameters(self.parent, K, self.mass, self.gamma, size, a, b)
        return a, b

    def expect(
        self, offsets: np.ndarray, words: np.ndarray, n: np.ndarray, *, rounds: int = 500,
        tol: float = 1e-10,
    ) -> Expectation:  # fmt: skip
        """Place documents; words ``words[offsets[d]:offsets[d + 1]]`` with counts ``n``."""
        K, V, L = len(self.parent), len(self.counts), len(self.alpha)
        prior = np.empty(K)
        a, b = self._sticks()
        log_path_chances(self.parent, self.level, K, L, a, b, self.gamma, False, prior)
        eta = self.eta[self.level - 1]
        elog = digammas(self.counts + eta) - digammas(self.counts.sum(axis=0) + V * eta)
        fresh = digammas(self.eta) - digammas(V * self.eta)
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
        both = digammas(a + b)
        sticks = (a - 1.0) * (digammas(a) - both) + (b - self.gamma) * (digammas(b) - both)
        sticks -= gammaln(a) + gammaln(b) - gammaln(a + b) + np.log(self.gamma)
        V, eta = len(self.counts), self.eta[self.level - 1]
        lam = self.counts + eta
        total = lam.sum(axis=0)
        topics = np.sum(self.counts * (digammas(lam) - digammas(total)), axis=0)
        topics += gammaln(total) - gammaln(V * eta) + V * gammaln(eta)
        topics -= np.sum(gammaln(lam), axis=0)
        return float(np.sum(sticks) + np.sum(topics))
