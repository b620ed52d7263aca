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


@dataclass
class RegressionTwin(Twin):
    """Dense textbook formulas, y not centred; an incomplete row is left out of a target's data."""

    targets: tuple
    mean: np.ndarray
    scale: np.ndarray
    kappa: float
    shape: np.ndarray
    rate: np.ndarray

    def data(self, t, X):
        """Design matrix and output of the t-th target, and which rows are complete."""
        X = np.atleast_2d(X)
        others = [d for d in range(X.shape[1]) if d not in self.targets]
        standard = (X[:, others] - self.mean[others]) / self.scale[others]
        y = X[:, self.targets[t]]
        complete = ~np.isnan(standard).any(axis=1) & ~np.isnan(y)
        return np.column_stack([np.ones(len(X)), standard])[complete], y[complete], complete

    def prior(self, t, P):
        return np.r_[self.mean[self.targets[t]], np.zeros(P - 1)], self.kappa * np.eye(P)

    def posterior(self, t, X, z):
        phi, y, complete = self.data(t, X)
        z = np.asarray(z)[complete]
        M0, L0 = self.prior(t, phi.shape[1])
        L = L0 + phi.T @ (z[:, None] * phi)
        M = np.linalg.solve(L, L0 @ M0 + phi.T @ (z * y))
        b = self.rate[t] + 0.5 * (np.sum(z * y * y) + M0 @ L0 @ M0 - M @ L @ M)
        return M, L, self.shape[t] + 0.5 * z.sum(), b

    def each(self, x, X, z):
        """Posterior, regressors and output of each target that the row x can tell about."""
        for t in range(len(self.targets)):
            phi, y, complete = self.data(t, x)
            if complete.all():
                yield *self.posterior(t, X, z), phi[0], y[0]

    def log_predictive(self, x, X, z):
        total = 0.0
        for M, L, a, b, phi, y in self.each(x, X, z):
            scale = np.sqrt(b / a * (1 + phi @ np.linalg.solve(L, phi)))
            total += stats.t.logpdf(y, 2 * a, M @ phi, scale)
        return total

    def expected_log_lik(self, x, X, z):
        total = 0.0
        for M, L, a, b, phi, y in self.each(x, X, z):
            gap = a / b * (y - M @ phi) ** 2 + phi @ np.linalg.solve(L, phi)
            total += 0.5 * (special.psi(a) - np.log(b) - LOG_2PI - gap)
        return total

    def draw_log_lik(self, rng, x, X, z, size):
        total = np.zeros(size)
        for M, L, a, b, phi, y in self.each(x, X, z):
            sd = 1 / np.sqrt(stats.gamma.rvs(a, scale=1 / b, size=size, random_state=rng))
            w = M + sd[:, None] * rng.multivariate_normal(0 * M, np.linalg.inv(L), size=size)
            total += stats.norm.logpdf(y, w @ phi, sd)
        return total

    def kl(self, X, z):
        total = 0.0
        for t in range(len(self.targets)):
            M, L, a, b = self.posterior(t, X, z)
            M0, L0 = self.prior(t, len(M))
            ratio = np.linalg.solve(L, L0)
            distance = a / b * (M - M0) @ L0 @ (M - M0)
            total += kl_gamma(a, b, self.shape[t], self.rate[t])
            total += 0.5 * (np.trace(ratio) - len(M) - np.linalg.slogdet(ratio)[1] + distance)
        return total


@dataclass
class ProductTwin(Twin):
    """Parts, each a twin with its columns; everything adds up."""

    parts: list

    def log_predictive(self, x, X, z):
        return sum(twin.log_predictive(x[at], X[:, at], z) for twin, at in self.parts)

    def expected_log_lik(self, x, X, z):
        return sum(twin.expected_log_lik(x[at], X[:, at], z) for twin, at in self.parts)

    def kl(self, X, z):
        return sum(twin.kl(X[:, at], z) for twin, at in self.parts)
