"""Points on a tree of components: local step, statistics, global step and bound.

A point is a sum of the vectors of its path, each times a standard normal loading, plus a mean and
noise of precision tau. The mean and all K vectors, M (K + 1, D), have one matrix-normal posterior
with row covariance S. Sections of the mathematics: Wang and Blei (2009), with the loadings
conditional on the path and one joint Gaussian for all vectors.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from streamddcrp.models.trees.kernels.loadings import collect, factors, place
from streamddcrp.models.trees.kernels.tree import beta_parameters, log_path_chances
from streamddcrp.models.trees.tree import paths_of
from streamddcrp.typing import FloatArray, IntArray

_NOTHING = 1e-8  # share of a point that counts for nothing
_NEVER = -40.0  # log of a share that makes no difference to a float, and is taken for none
_FAR = -700.0  # of the least share that is a float
_LOG_2PI = float(np.log(2.0 * np.pi))


class Prior(NamedTuple):
    """Prior: concentration, variances of vectors and mean, shape and rate of the precision."""

    gamma: float
    vector_var: float
    mean_var: float
    shape: float
    rate: float


@dataclass(slots=True)
class Weights:
    """Posterior of everything global.

    Attributes
    ----------
    M : ndarray, shape (K + 1, D)
        Means: of the data's mean, then of the nodes' vectors.
    S : ndarray, shape (K + 1, K + 1)
    shape, rate : float
        Of the precision.
    mass : ndarray, shape (K,)
        Endpoint masses, from which q(v) follows.
    """

    M: FloatArray
    S: FloatArray
    shape: float
    rate: float
    mass: FloatArray

    @property
    def precision(self) -> float:
        """Expected precision of the noise."""
        return self.shape / self.rate


@dataclass(slots=True)
class Stats:
    """Sums over points: E[y y'], E[y] t', |t|^2, points, missing levels, endpoint masses.

    y = (1, loadings on the nodes), zero off the path.
    """

    yy: FloatArray
    yt: FloatArray
    tt: float
    n: float
    fresh: float
    mass: FloatArray

    @classmethod
    def none(cls, K: int, D: int) -> "Stats":
        """Return the statistics of no points."""
        return cls(np.zeros((K + 1, K + 1)), np.zeros((K + 1, D)), 0.0, 0.0, 0.0, np.zeros(K))

    def plus(self, other: "Stats", weight: float = 1.0) -> "Stats":
        """Return these and ``weight`` times others."""
        return Stats(
            self.yy + weight * other.yy, self.yt + weight * other.yt, self.tt + weight * other.tt,
            self.n + weight * other.n, self.fresh + weight * other.fresh,
            self.mass + weight * other.mass,
        )  # fmt: skip

    def times(self, weight: float) -> "Stats":
        """Return these times a number."""
        return Stats(
            self.yy * weight, self.yt * weight, self.tt * weight, self.n * weight,
            self.fresh * weight, self.mass * weight,
        )  # fmt: skip


class Local(NamedTuple):
    """Points on the tree.

    Attributes
    ----------
    q : ndarray, shape (N, K)
        Endpoint probabilities.
    log_z : ndarray, shape (N,)
    loadings : ndarray, shape (N, K)
        Expected loadings on the nodes.
    stats : Stats
    """

    q: FloatArray
    log_z: FloatArray
    loadings: FloatArray
    stats: Stats


def sticks_of(parent: IntArray, mass: FloatArray, gamma: float) -> tuple[FloatArray, FloatArray]:
    """Return the parameters (K,) of q(v) from endpoint masses."""
    size, a, b = np.empty((3, len(parent)))
    beta_parameters(parent, len(parent), mass, gamma, size, a, b)
    return a, b


def local_step(
    X: FloatArray, parent: IntArray, level: IntArray, L: int, w: Weights, prior: Prior, *,
    far: bool = False,
) -> Local:  # fmt: skip
    """Return where points (N, D) are on the tree, with the optimal q(c) and q(x | endpoint).

    log p(t | endpoint) = D/2 (E log tau - log 2 pi) - tau/2 (|t - m_mu|^2 + D S_mu,mu)
    + h' Sig h / 2 + log det(Sig) / 2 - (L - l0) / 2 log(1 + tau D var),  Sig^-1 = I + tau G_PP,
    G = M M' + D S,  h = tau ((t - m_mu) M_P' - D S_P,mu).
    """
    N, D = X.shape
    K = len(parent)
    tau = w.precision
    G = w.M @ w.M.T + D * w.S
    MX = w.M @ X.T
    tt = np.einsum("nd,nd->n", X, X)
    z = tau * (MX[1:] - G[0, 1:, None])
    paths = paths_of(parent, level, L)
    rows, log_det = np.zeros((K, L)), np.empty(K)
    factors(G, tau, paths, level, rows, log_det)
    a, b = sticks_of(parent, w.mass, prior.gamma)
    chances = np.empty(K)
    log_path_chances(parent, level, K, L, a, b, prior.gamma, False, chances)
    missing = tau * D * prior.vector_var
    chances += 0.5 * (log_det - (L - level) * np.log1p(missing))
    chances += 0.5 * D * (digamma(w.shape) - np.log(w.rate) - _LOG_2PI)
    q, log_z = np.empty((K, N)), np.empty(N)
    base = -0.5 * tau * (tt - 2.0 * MX[0] + G[0, 0])
    place(z, paths, level, rows, chances, base, _FAR if far else _NEVER, q, log_z)
    stats = Stats.none(K, D)
    loadings = np.zeros((K, N))
    collect(z, paths, level, rows, q, _NOTHING, loadings, stats.yy)
    stats.n, stats.tt, stats.mass = float(N), float(tt.sum()), q.sum(axis=1)
    stats.yy[0, 0], stats.yy[1:, 0] = N, stats.yy[0, 1:]
    stats.yt[0], stats.yt[1:] = X.sum(axis=0), loadings @ X
    stats.fresh = float(stats.mass @ ((L - level) / (1.0 + missing)))
    return Local(q.T, log_z, loadings.T, stats)


def global_step(stats: Stats, w: Weights, prior: Prior) -> Weights:
    """Return the optimum of vectors and mean, then of the precision, then of the sticks."""
    K1, D = stats.yt.shape
    inverse = w.precision * stats.yy
    inverse[np.diag_indices(K1)] += 1.0 / _variances(K1, prior)
    S = np.linalg.inv(inverse)
    S = 0.5 * (S + S.T)
    M = w.precision * (S @ stats.yt)
    residual = stats.tt - 2.0 * np.sum(M * stats.yt) + np.sum(stats.yy * (M @ M.T + D * S))
    residual += stats.fresh * D * prior.vector_var
    shape = prior.shape + 0.5 * stats.n * D
    return Weights(M, S, shape, prior.rate + 0.5 * max(residual, 0.0), stats.mass.copy())


def _variances(K1: int, prior: Prior) -> FloatArray:
    out = np.full(K1, prior.vector_var)
    out[0] = prior.mean_var
    return out


def kl_of_all(parent: IntArray, w: Weights, prior: Prior) -> float:
    """Return the divergence of everything global from its prior."""
    K1, D = w.M.shape
    var = _variances(K1, prior)
    vectors = np.sum((D * np.diag(w.S) + np.sum(w.M**2, axis=1)) / var) - K1 * D
    vectors += D * np.sum(np.log(var)) - D * np.linalg.slogdet(w.S)[1]
    at, bt, a0, b0 = w.shape, w.rate, prior.shape, prior.rate
    noise = (at - a0) * digamma(at) - gammaln(at) + gammaln(a0) + a0 * (np.log(bt) - np.log(b0))
    noise += at * (b0 - bt) / bt
    a, b = (part[1:] for part in sticks_of(parent, w.mass, prior.gamma))
    both = digamma(a + b)
    log_beta = gammaln(a) + gammaln(b) - gammaln(a + b)
    sticks = (a - 1.0) * (digamma(a) - both) + (b - prior.gamma) * (digamma(b) - both)
    return float(0.5 * vectors + noise + np.sum(sticks - log_beta - np.log(prior.gamma)))


def reconstruct(
    X: FloatArray, ends: IntArray, parent: IntArray, level: IntArray, L: int, M: FloatArray
) -> FloatArray:
    """Project points onto the mean and the span of the vectors of their paths."""
    out = np.empty_like(X)
    paths = paths_of(parent, level, L)
    for k in np.unique(ends).tolist():
        rows = np.flatnonzero(ends == k)
        W = M[paths[k, : level[k]] + 1]
        _, size, basis = np.linalg.svd(W, full_matrices=False)
        basis = basis[size > 1e-10 * max(size[0], 1e-300)]
        out[rows] = M[0] + (X[rows] - M[0]) @ basis.T @ basis
    return out
