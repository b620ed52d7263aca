"""Algorithm 1 of Bartunov and Vetrov (2014) with a dense reachability matrix, the peer in speed.

Every q(c_i) is updated in turn, in random order, from R = (I - A)^-1; R then takes one rank-1
correction (Woodbury), O(N^2) each and so O(N^3) a sweep. Two slips of the printed algorithm are
corrected, without which the bound is not monotone: the self-link is scored by
log p(c_i = i) + a_ii alone, and the sum that defines a_ik runs over s >= i.

``full_update=True`` corrects the whole matrix (N^2 numbers); the default corrects only the block
that can change, rows >= i and columns < i, which is the faster form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, multigammaln, xlogy

from research.stick_breaking import LOG_2PI, GaussianPrior

FloatArray = NDArray[np.float64]


def link_log_prior(
    n: int, alpha: float, decay: Callable[[FloatArray], FloatArray] | None = None
) -> FloatArray:
    """Log prior of the links by index gap, shape (N, N) lower triangular; None is the CRP."""
    gap = np.arange(n)[:, None] - np.arange(n)[None, :]
    weight = np.ones((n, n)) if decay is None else decay(np.maximum(gap, 0).astype(np.float64))
    weight = np.where(gap > 0, weight, 0.0)
    np.fill_diagonal(weight, alpha)
    with np.errstate(divide="ignore"):
        out: FloatArray = np.log(weight / weight.sum(axis=1, keepdims=True))
    return out


class Tables(Protocol):
    """What the algorithm asks of a family: refit from Z, then expected log likelihood and bound."""

    def refit(self, Z: FloatArray) -> None:
        """Set every q(theta_k) to the posterior under soft assignments `Z`, shape (N, K)."""

    def expected_log_lik(self) -> FloatArray:
        """E_q[log p(x_i | theta_k)], shape (N, K)."""

    def evidence(self) -> FloatArray:
        """Sum over i of Z_ik E_q log p(x_i | theta_k), less KL(q(theta_k) || p), shape (K,)."""


class KnownVarianceTables:
    """x ~ N(theta, variance I), theta ~ N(mean, spread I)."""

    def __init__(
        self, X: FloatArray, variance: float = 1.0, mean: float = 0.0, spread: float = 100.0
    ) -> None:
        self.X, self.variance, self.mean, self.spread = X, variance, mean, spread

    def refit(self, Z: FloatArray) -> None:
        self.Z = Z
        self.var = 1.0 / (1.0 / self.spread + Z.sum(axis=0) / self.variance)
        pull = self.mean / self.spread + Z.T @ self.X / self.variance
        self.centre = self.var[:, None] * pull

    def expected_log_lik(self) -> FloatArray:
        D = self.X.shape[1]
        square = (self.X**2).sum(axis=1)[:, None] + (self.centre**2).sum(axis=1)
        square = square - 2.0 * self.X @ self.centre.T + D * self.var
        out: FloatArray = -0.5 * D * (LOG_2PI + np.log(self.variance)) - 0.5 * square / (
            self.variance
        )
        return out

    def evidence(self) -> FloatArray:
        D, ratio = self.X.shape[1], self.var / self.spread
        shift = ((self.centre - self.mean) ** 2).sum(axis=1) / self.spread
        kl = 0.5 * (D * (ratio - 1.0 - np.log(ratio)) + shift)
        out: FloatArray = (self.Z * self.expected_log_lik()).sum(axis=0) - kl
        return out


class NormalWishartTables:
    """x ~ N(mu, Lambda^-1) under a Normal-Wishart prior: the library's model in plain NumPy.

    One column and (scatter, dof) = (2 rate, 2 shape) make it the Normal-Gamma family.
    """

    def __init__(self, X: FloatArray, prior: GaussianPrior) -> None:
        self.prior = prior
        self.D = X.shape[1]
        y = X - prior.mean
        outer = (y[:, :, None] * y[:, None, :]).reshape(len(X), -1)
        self.moments = np.column_stack([np.ones(len(X)), y, outer])

    def refit(self, Z: FloatArray) -> None:
        D, prior = self.D, self.prior
        stats = Z.T @ self.moments
        self.size = np.maximum(stats[:, 0], 0.0)
        self.kappa = prior.kappa + self.size
        self.dof = prior.dof + self.size
        self.shift = stats[:, 1 : D + 1] / self.kappa[:, None]
        second = stats[:, D + 1 :].reshape(-1, D, D)
        pull = self.shift[:, :, None] * self.shift[:, None, :]
        self.scatter = prior.scatter + second - self.kappa[:, None, None] * pull
        self.log_det = np.linalg.slogdet(self.scatter)[1]

    def expected_log_lik(self) -> FloatArray:
        D = self.D
        precision = self.dof[:, None, None] * np.linalg.inv(self.scatter)
        linear = np.einsum("kde,ke->kd", precision, self.shift)
        half = 0.5 * (self.dof[:, None] - np.arange(D))
        log_det = digamma(half).sum(axis=1) + D * np.log(2.0) - self.log_det
        constant = 0.5 * (
            log_det - D * LOG_2PI - D / self.kappa - (linear * self.shift).sum(axis=1)
        )
        weight = np.column_stack([constant, linear, -0.5 * precision.reshape(len(constant), -1)])
        out: FloatArray = self.moments @ weight.T
        return out

    def evidence(self) -> FloatArray:
        D, prior = self.D, self.prior
        gammas = multigammaln(0.5 * prior.dof, D)
        gain = np.array([multigammaln(0.5 * nu, D) for nu in self.dof]) - gammas
        out: FloatArray = (
            gain
            + 0.5 * D * (np.log(prior.kappa) - np.log(self.kappa))
            + 0.5 * prior.dof * np.linalg.slogdet(prior.scatter)[1]
            - 0.5 * self.dof * self.log_det
            - 0.5 * D * self.size * np.log(np.pi)
        )
        return out


class DenseAlgorithm1:
    """Mean-field seqddCRP mixture with a dense R, started from all-singletons.

    Parameters
    ----------
    log_prior : ndarray, shape (N, N)
        Log prior of the links, -inf above the diagonal.
    tables : Tables
        The family, holding the data.
    seed : int
        Of the order in which links are visited.
    full_update : bool
        Correct the whole of R at every link rather than the block that can change.
    """

    def __init__(
        self, log_prior: FloatArray, tables: Tables, *, seed: int = 0, full_update: bool = False
    ) -> None:
        self.log_prior, self.tables, self.full_update = log_prior, tables, full_update
        self.rng = np.random.default_rng(seed)
        self.start_from(np.eye(len(log_prior)))

    def start_from(self, links: FloatArray) -> None:
        """Take these q(c_i), shape (N, N) lower triangular, with R and the tables they imply."""
        self.links = links.copy()
        self.R = np.linalg.inv(np.eye(len(links)) - np.tril(links, -1))
        self.tables.refit(self.Z)

    @property
    def Z(self) -> FloatArray:  # noqa: N802 - the papers' name
        """q(i sits at the table opened by k), shape (N, N)."""
        return self.R * np.diag(self.links)

    def sweep(self, order: NDArray[np.int64] | None = None) -> None:
        """Update every q(c_i) once, then every q(theta_k)."""
        loglik = self.tables.expected_log_lik()
        links, R = self.links, self.R
        own = np.diag(links).copy()
        for i in self.rng.permutation(len(links)) if order is None else order:
            a = R[i:, i] @ loglik[i:, : i + 1]
            score = self.log_prior[i, : i + 1].copy()
            score[:i] += R[:i, :i] @ (a[:i] * own[:i])
            score[i] += a[i]
            score = np.exp(score - score.max())
            score /= score.sum()
            own[i] = score[i]
            if self.full_update:
                delta = np.zeros(len(links))
                delta[:i] = score[:i] - links[i, :i]
                R += np.outer(R[:, i], delta @ R)
            else:
                delta = score[:i] - links[i, :i]
                R[i:, :i] += np.outer(R[i:, i], delta @ R[:i, :i])
            links[i, : i + 1] = score
        self.tables.refit(self.Z)

    def bound(self) -> float:
        """Evidence lower bound; `tables` is in step with the links after every sweep."""
        used = self.links > 0.0
        links = self.links[used]
        prior = float((links * self.log_prior[used]).sum() - xlogy(links, links).sum())
        return prior + float(self.tables.evidence().sum())
