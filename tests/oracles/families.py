"""Conjugate families the slow way: textbook updates, scipy densities, explicit divergences.

Every twin takes rows X (N, D), NaN where missing, and weights z (N,); none sums statistics. The
Gaussian, Poisson and Bernoulli twins treat features one by one and drop missing values.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special, stats

LOG_2PI = np.log(2.0 * np.pi)


def kl_gamma(a1, b1, a0, b0):
    """KL between Gamma distributions with shapes a and rates b."""
    return (
        (a1 - a0) * special.psi(a1)
        - special.gammaln(a1)
        + special.gammaln(a0)
        + a0 * (np.log(b1) - np.log(b0))
        + a1 * (b0 - b1) / b1
    )


def kl_dirichlet(c1, c0):
    return (
        special.gammaln(c1.sum())
        - special.gammaln(c1).sum()
        - special.gammaln(c0.sum())
        + special.gammaln(c0).sum()
        + np.dot(c1 - c0, special.psi(c1) - special.psi(c1.sum()))
    )


def kl_wishart(n1, V1, n0, V0):
    """KL between Wishart distributions with scale matrices V."""
    D = len(V1)
    ratio = np.linalg.solve(V0, V1)
    return (
        -0.5 * n0 * np.linalg.slogdet(ratio)[1]
        + 0.5 * n1 * (np.trace(ratio) - D)
        + special.multigammaln(0.5 * n0, D)
        - special.multigammaln(0.5 * n1, D)
        + 0.5 * (n1 - n0) * special.psi(0.5 * (n1 - np.arange(D))).sum()
    )


class Twin:
    """What follows from `log_predictive`, `expected_log_lik` and `kl` in any family."""

    def log_marginal(self, X):
        """Chain rule: each row given those before it."""
        total = 0.0
        for i in range(len(X)):
            total += self.log_predictive(X[i], X[:i], np.ones(i))
        return total

    def bound(self, X, z):
        """Evaluate sum_i z_i E log p(x_i | theta) - KL at the optimal q."""
        expected = sum(z[i] * self.expected_log_lik(X[i], X, z) for i in range(len(X)))
        return expected - self.kl(X, z)


class FeatureTwin(Twin):
    """Features independent of each other: subclasses handle one feature, values without NaN."""

    def features(self, X, z):
        for d in range(np.shape(X)[1]):
            seen = ~np.isnan(X[:, d])
            yield d, X[seen, d], z[seen]

    def log_predictive(self, x, X, z):
        return sum(
            self.log_predictive_1(x[d], *self.posterior_1(d, values, weights))
            for d, values, weights in self.features(X, z)
            if not np.isnan(x[d])
        )

    def expected_log_lik(self, x, X, z):
        return sum(
            self.expected_1(x[d], *self.posterior_1(d, values, weights))
            for d, values, weights in self.features(X, z)
            if not np.isnan(x[d])
        )

    def kl(self, X, z):
        return sum(self.kl_1(d, values, weights) for d, values, weights in self.features(X, z))


@dataclass
class NormalGammaTwin(FeatureTwin):
    mean: np.ndarray
    kappa: np.ndarray
    shape: np.ndarray
    rate: np.ndarray

    def posterior_1(self, d, x, z):
        n = z.sum()
        if n == 0.0:
            return self.mean[d], self.kappa[d], self.shape[d], self.rate[d]
        average = np.average(x, weights=z)
        scatter = np.sum(z * (x - average) ** 2)
        kappa = self.kappa[d] + n
        mean = (self.kappa[d] * self.mean[d] + n * average) / kappa
        misfit = self.kappa[d] * n / kappa * (average - self.mean[d]) ** 2
        return mean, kappa, self.shape[d] + n / 2, self.rate[d] + (scatter + misfit) / 2

    def log_predictive_1(self, x, mean, kappa, shape, rate):
        scale = np.sqrt(rate * (kappa + 1) / (shape * kappa))
        return stats.t.logpdf(x, 2 * shape, mean, scale)

    def expected_1(self, x, mean, kappa, shape, rate):
        log_precision = special.psi(shape) - np.log(rate)
        return 0.5 * (log_precision - LOG_2PI - 1 / kappa - shape / rate * (x - mean) ** 2)

    def draw_log_lik_1(self, rng, x, size, mean, kappa, shape, rate):
        precision = stats.gamma.rvs(shape, scale=1 / rate, size=size, random_state=rng)
        mu = stats.norm.rvs(mean, 1 / np.sqrt(kappa * precision), random_state=rng)
        return stats.norm.logpdf(x, mu, 1 / np.sqrt(precision))

    def kl_1(self, d, x, z):
        mean, kappa, shape, rate = self.posterior_1(d, x, z)
        ratio = self.kappa[d] / kappa
        precision = shape / rate
        given_precision = 0.5 * (
            ratio - 1 - np.log(ratio) + self.kappa[d] * precision * (mean - self.mean[d]) ** 2
        )
        return given_precision + kl_gamma(shape, rate, self.shape[d], self.rate[d])


@dataclass
class GammaPoissonTwin(FeatureTwin):
    shape: np.ndarray
    rate: np.ndarray

    def posterior_1(self, d, x, z):
        return self.shape[d] + np.sum(z * x), self.rate[d] + z.sum()

    def log_predictive_1(self, x, shape, rate):
        return stats.nbinom.logpmf(x, shape, rate / (rate + 1))

    def expected_1(self, x, shape, rate):
        return x * (special.psi(shape) - np.log(rate)) - shape / rate - special.gammaln(x + 1)

    def draw_log_lik_1(self, rng, x, size, shape, rate):
        intensity = stats.gamma.rvs(shape, scale=1 / rate, size=size, random_state=rng)
        return stats.poisson.logpmf(x, intensity)

    def kl_1(self, d, x, z):
        return kl_gamma(*self.posterior_1(d, x, z), self.shape[d], self.rate[d])


@dataclass
class BetaBernoulliTwin(FeatureTwin):
    a: np.ndarray
    b: np.ndarray

    def posterior_1(self, d, x, z):
        return self.a[d] + np.sum(z * x), self.b[d] + np.sum(z * (1 - x))

    def log_predictive_1(self, x, a, b):
        return stats.betabinom.logpmf(x, 1, a, b)

    def expected_1(self, x, a, b):
        return special.psi(a if x == 1 else b) - special.psi(a + b)

    def draw_log_lik_1(self, rng, x, size, a, b):
        return stats.bernoulli.logpmf(x, stats.beta.rvs(a, b, size=size, random_state=rng))

    def kl_1(self, d, x, z):
        prior = np.array([self.a[d], self.b[d]])
        return kl_dirichlet(np.array(self.posterior_1(d, x, z)), prior)


@dataclass
class DirichletMultinomialTwin(Twin):
    concentration: np.ndarray

    def posterior(self, X, z):
        return self.concentration + np.asarray(z) @ np.nan_to_num(X)

    def log_predictive(self, x, X, z):
        """Token by token, each given those before it (Polya's urn)."""
        c = self.posterior(X, z).copy()
        total = 0.0
        for v, count in enumerate(np.nan_to_num(x)):
            for _ in range(int(count)):
                total += np.log(c[v] / c.sum())
                c[v] += 1
        return total

    def expected_log_lik(self, x, X, z):
        c = self.posterior(X, z)
        return np.dot(np.nan_to_num(x), special.psi(c) - special.psi(c.sum()))

    def draw_log_lik(self, rng, x, X, z, size):
        theta = stats.dirichlet.rvs(self.posterior(X, z), size=size, random_state=rng)
        return np.log(theta) @ np.nan_to_num(x)

    def kl(self, X, z):
        return kl_dirichlet(self.posterior(X, z), self.concentration)


@dataclass
class NormalWishartTwin(Twin):
    mean: np.ndarray
    kappa: float
    scatter: np.ndarray
    dof: float

    def filled(self, X):
        return np.where(np.isnan(X), self.mean, X)

    def posterior(self, X, z):
        n = z.sum()
        if n == 0.0:
            return self.mean, self.kappa, self.scatter, self.dof
        X = self.filled(X)
        average = np.average(X, axis=0, weights=z)
        kappa = self.kappa + n
        gap = average - self.mean
        scatter = self.scatter + (z[:, None] * (X - average)).T @ (X - average)
        scatter = scatter + self.kappa * n / kappa * np.outer(gap, gap)
        return (self.kappa * self.mean + n * average) / kappa, kappa, scatter, self.dof + n

    def log_predictive(self, x, X, z):
        mean, kappa, scatter, dof = self.posterior(X, z)
        df = dof - len(mean) + 1
        shape = scatter * (kappa + 1) / (kappa * df)
        return stats.multivariate_t.logpdf(self.filled(x), mean, shape, df)

    def expected_log_lik(self, x, X, z):
        mean, kappa, scatter, dof = self.posterior(X, z)
        D = len(mean)
        log_det = (
            special.psi((dof - np.arange(D)) / 2).sum()
            + D * np.log(2)
            - np.linalg.slogdet(scatter)[1]
        )
        r = self.filled(x) - mean
        distance = dof * r @ np.linalg.solve(scatter, r)
        return 0.5 * (log_det - D * LOG_2PI - D / kappa - distance)

    def draw_log_lik(self, rng, x, X, z, size):
        mean, kappa, scatter, dof = self.posterior(X, z)
        scale = np.linalg.inv(scatter)
        precisions = stats.wishart.rvs(dof, scale, size=size, random_state=rng)
        out = np.empty(size)
        for i, precision in enumerate(np.reshape(precisions, (size, len(mean), len(mean)))):
            cov = np.linalg.inv(precision)
            mu = rng.multivariate_normal(mean, cov / kappa)
            out[i] = stats.multivariate_normal.logpdf(self.filled(x), mu, cov)
        return out

    def kl(self, X, z):
        mean, kappa, scatter, dof = self.posterior(X, z)
        D = len(mean)
        ratio = self.kappa / kappa
        gap = mean - self.mean
        distance = self.kappa * dof * gap @ np.linalg.solve(scatter, gap)
        given_precision = 0.5 * (D * (ratio - 1 - np.log(ratio)) + distance)
        inverses = np.linalg.inv(scatter), np.linalg.inv(self.scatter)
        return given_precision + kl_wishart(dof, inverses[0], self.dof, inverses[1])
