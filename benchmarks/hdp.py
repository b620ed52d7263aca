"""A hierarchical Dirichlet process of Gaussians, by the direct assignment sampler: a peer.

Reference: Teh, Jordan, Beal and Blei, "Hierarchical Dirichlet processes", JASA 2006, section 5.3
and appendix A.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class HDP:
    """State of the sampler; columns are independent normal-gamma, ``prior`` as in the library.

    ``alpha`` and ``gamma``, the concentrations of groups and of the base measure, are drawn from
    Gamma(1, 1) priors where they are not given.
    """

    def __init__(
        self, X: FloatArray, group: IntArray, prior: tuple[float, ...], seed: int,
        alpha: float | None = None, gamma: float | None = None,
    ) -> None:  # fmt: skip
        self.X, self.group, self.prior = X, group, prior
        self.rng = np.random.default_rng(seed)
        self.known = alpha, gamma
        self.alpha, self.gamma = (1.0 if a is None else a for a in self.known)
        self.label = np.full(len(X), -1)
        self.n = np.zeros((int(group.max()) + 1, 0))  # rows of each group in each cluster
        self.sums = np.zeros((2, 0, X.shape[1]))  # of rows and squares
        self.beta, self.rest = np.zeros(0), 1.0  # weights of clusters, and of all others
        for i in range(len(X)):
            self._seat(i)

    def densities(self, x: FloatArray) -> FloatArray:
        """Log predictive density of a row (D,) in each cluster, and in a new one: (K + 1,)."""
        mean, kappa, shape, rate = self.prior
        size = np.append(self.n.sum(axis=0), 0.0)[:, None]
        first, second = (np.vstack([sums, np.zeros(sums.shape[1])]) for sums in self.sums)
        weight = kappa + size
        centre = (kappa * mean + first) / weight
        a = shape + 0.5 * size
        b = rate + 0.5 * (second + kappa * mean**2 - weight * centre**2)
        scale = 2.0 * b * (weight + 1.0) / weight
        out = gammaln(a + 0.5) - gammaln(a) - 0.5 * np.log(np.pi * scale)
        out = out - (a + 0.5) * np.log1p((x - centre) ** 2 / scale)
        return np.asarray(out.sum(axis=1))

    def _weights(self, g: int) -> FloatArray:
        """Probabilities of the clusters, and of a new one, for a row of group g: (K + 1,)."""
        weight = self.alpha * np.append(self.beta, self.rest)
        weight[:-1] += self.n[g]
        return weight / weight.sum()

    def _add(self, i: int, k: int, sign: float) -> None:
        self.n[self.group[i], k] += sign
        self.sums[:, k] += sign * np.stack([self.X[i], self.X[i] ** 2])

    def _seat(self, i: int) -> None:
        """Draw the cluster of a row that has none."""
        density = self.densities(self.X[i])
        p = self._weights(self.group[i]) * np.exp(density - density.max())
        k = int(np.searchsorted(np.cumsum(p), self.rng.random() * p.sum(), side="right"))
        if k == len(self.beta):
            part = self.rng.beta(1.0, self.gamma)
            self.beta = np.append(self.beta, part * self.rest)
            self.rest *= 1.0 - part
            self.n = np.column_stack([self.n, np.zeros(len(self.n))])
            self.sums = np.concatenate([self.sums, np.zeros((2, 1, self.X.shape[1]))], axis=1)
        self.label[i] = k
        self._add(i, k, 1.0)

    def sweep(self) -> None:
        """Draw all clusters once, then tables, weights and concentrations."""
        for i, k in enumerate(self.label):
            self._add(i, k, -1.0)
            self._seat(i)
        used = self.n.sum(axis=0) > 0
        self.label = (np.cumsum(used) - 1)[self.label]
        self.n, self.sums = self.n[:, used], self.sums[:, used]
        beta = self.beta[used]
        tables = np.zeros(len(beta))
        for k, strength in enumerate(self.alpha * beta):
            for size in self.n[:, k].astype(int):
                chance = strength / (strength + np.arange(size))
                tables[k] += (self.rng.random(size) < chance).sum()
        share = self.rng.dirichlet(np.append(tables, self.gamma))
        self.beta, self.rest = share[:-1], float(share[-1])
        self._draw_concentrations(tables.sum())

    def _draw_concentrations(self, n_tables: float) -> None:
        rng, sizes = self.rng, self.n.sum(axis=1)
        if self.known[0] is None:
            log_w = np.log(rng.beta(self.alpha + 1.0, sizes)).sum()
            n_tables_less = n_tables - (rng.random(len(sizes)) * (sizes + self.alpha) < sizes).sum()
            self.alpha = rng.gamma(1.0 + n_tables_less, 1.0 / (1.0 - log_w))
        if self.known[1] is None:
            less = rng.random() * (n_tables + self.gamma) < n_tables
            log_w = np.log(rng.beta(self.gamma + 1.0, n_tables))
            self.gamma = rng.gamma(1.0 + len(self.beta) - less, 1.0 / (1.0 - log_w))

    def log_predictive(self, X: FloatArray, group: Any) -> FloatArray:
        """Log predictive density of each new row (M,) of the known groups."""
        density = np.array([self.densities(x) for x in X])
        weight = np.array([self._weights(g) for g in group])
        return np.asarray(logsumexp(density, axis=1, b=weight))
