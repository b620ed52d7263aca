"""A hierarchical Dirichlet process mixture by the direct assignment sampler: a peer.

Reference: Teh, Jordan, Beal and Blei, "Hierarchical Dirichlet processes", JASA 2006, section 5.3
and appendix A.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from streamddcrp.likelihoods import make_likelihood
from streamddcrp.likelihoods.kernels.families import add_stats, log_predictives, n_post, posterior

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class HDP:
    """State of the sampler; K clusters in use, at the first places of its arrays.

    ``alpha`` and ``gamma``, the concentrations of groups and of the base measure, are drawn from
    Gamma(1, 1) priors where they are not given.
    """

    def __init__(
        self, X: FloatArray, group: IntArray, likelihood: Any, seed: int,
        alpha: float | None = None, gamma: float | None = None,
    ) -> None:  # fmt: skip
        family = make_likelihood(likelihood)
        self.law = family.family, family.hyper(X.shape[1])
        self.X, self.group = np.ascontiguousarray(X), group
        self.rng = np.random.default_rng(seed)
        self.known = alpha, gamma
        self.alpha, self.gamma = (1.0 if a is None else a for a in self.known)
        room = 2 * len(X) + 1  # clusters that lose all rows stay until the sweep is over
        self.K, self.label = 0, np.zeros(len(X), np.int64)
        self.n = np.zeros((int(group.max()) + 1, room))  # rows of each group in each cluster
        self.beta = np.ones(room)  # weights of clusters; at K, of all others
        self.stats = np.zeros((room, family.n_stats(X.shape[1])))
        self.post = np.zeros((room, int(n_post(*self.law))))
        for k in range(room):
            posterior(*self.law, self.stats[k], self.post[k])
        for i in range(len(X)):
            self._seat(i)

    def _densities(self, x: FloatArray) -> FloatArray:
        """Log predictive density of a row (D,) in each cluster, and in a new one: (K + 1,)."""
        out = np.empty(self.K + 1)
        log_predictives(*self.law, self.post, x, self.K + 1, out)
        return out

    def _weights(self, g: int) -> FloatArray:
        """Weights of the clusters, and of a new one, for a row of group g: (K + 1,)."""
        weight: FloatArray = self.alpha * self.beta[: self.K + 1] + self.n[g, : self.K + 1]
        return weight

    def _add(self, i: int, k: int, sign: float) -> None:
        self.n[self.group[i], k] += sign
        add_stats(*self.law, self.X[i], sign, self.stats[k])
        posterior(*self.law, self.stats[k], self.post[k])

    def _seat(self, i: int) -> None:
        """Draw the cluster of a row that has none."""
        density = self._densities(self.X[i])
        upto = np.cumsum(self._weights(self.group[i]) * np.exp(density - density.max()))
        k = int(upto.searchsorted(self.rng.random() * upto[-1], side="right"))
        if k == self.K:
            part, rest = self.rng.beta(1.0, self.gamma), self.beta[k]
            self.beta[k : k + 2] = part * rest, (1.0 - part) * rest
            self.K += 1
        self.label[i] = k
        self._add(i, k, 1.0)

    def sweep(self) -> None:
        """Draw all clusters once, then tables, weights and concentrations."""
        for i, k in enumerate(self.label.tolist()):
            self._add(i, k, -1.0)
            self._seat(i)
        used = np.unique(self.label)
        self.label = np.searchsorted(used, self.label)
        for array in (self.n.T, self.stats, self.post, self.beta):
            array[: len(used)] = array[used]
        self.n[:, len(used) :] = 0.0
        for k in range(len(used), self.K):
            self.stats[k] = 0.0
            posterior(*self.law, self.stats[k], self.post[k])
        self.K = len(used)
        tables = np.zeros(self.K)
        for k, strength in enumerate((self.alpha * self.beta[: self.K]).tolist()):
            for size in self.n[:, k].astype(int):
                chance = strength / (strength + np.arange(size))
                tables[k] += (self.rng.random(size) < chance).sum()
        share = self.rng.dirichlet(np.append(tables, self.gamma))
        self.beta[: self.K + 1] = share
        self._draw_concentrations(tables.sum())

    def _draw_concentrations(self, n_tables: float) -> None:
        rng, sizes = self.rng, self.n.sum(axis=1)
        if self.known[0] is None:
            log_w = np.log(rng.beta(self.alpha + 1.0, sizes)).sum()
            less = (rng.random(len(sizes)) * (sizes + self.alpha) < sizes).sum()
            self.alpha = rng.gamma(1.0 + n_tables - less, 1.0 / (1.0 - log_w))
        if self.known[1] is None:
            less = rng.random() * (n_tables + self.gamma) < n_tables
            log_w = np.log(rng.beta(self.gamma + 1.0, n_tables))
            self.gamma = rng.gamma(1.0 + self.K - less, 1.0 / (1.0 - log_w))

    def log_predictive(self, X: FloatArray, group: Any) -> FloatArray:
        """Log predictive density of each new row (M,) of the known groups."""
        weight = np.array([self._weights(g) for g in group])
        density = np.array([self._densities(x) for x in X])
        weight /= weight.sum(axis=1, keepdims=True)
        return np.asarray(logsumexp(density, axis=1, b=weight))
