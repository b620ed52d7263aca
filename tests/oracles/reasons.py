"""What a part of a row adds to its surprise, the slow way."""

import numpy as np
from scipy import integrate, stats


def student(x, n, total, square, prior):
    """Return the predictive of a Normal-Gamma column from sums of its rows, frozen."""
    mean, kappa, shape, rate = prior
    kappa_n, shape_n = kappa + n, shape + 0.5 * n
    mean_n = (kappa * mean + total) / kappa_n
    rate_n = rate + 0.5 * (square + kappa * mean**2 - kappa_n * mean_n**2)
    scale = np.sqrt(rate_n * (kappa_n + 1.0) / (kappa_n * shape_n))
    return stats.t(2.0 * shape_n, mean_n, scale)


def conditional_student(X, d, x, mean, kappa, scatter, dof):
    """Return p(x_d | the others) after rows X under a Normal-Wishart prior, frozen.

    Of a Student t with nu degrees of freedom, location m and scale matrix S, the conditional has
    nu + D - 1 of them, location m_d + S_dr S_rr^-1 (x_r - m_r), and the squared scale
    (nu + q) / (nu + D - 1) (S_dd - S_dr S_rr^-1 S_rd), q the distance of the others.
    """
    n, D = X.shape
    kappa_n, dof_n = kappa + n, dof + n
    mean_n = (kappa * mean + X.sum(axis=0)) / kappa_n
    away = X - X.mean(axis=0)
    between = X.mean(axis=0) - mean
    scatter_n = scatter + away.T @ away + kappa * n / kappa_n * np.outer(between, between)
    nu = dof_n - D + 1.0
    S = scatter_n * (kappa_n + 1.0) / (kappa_n * nu)
    r = np.arange(D) != d
    solved = np.linalg.solve(S[np.ix_(r, r)], np.column_stack([x[r] - mean_n[r], S[r, d]]))
    q = (x[r] - mean_n[r]) @ solved[:, 0]
    left = S[d, d] - S[d, r] @ solved[:, 1]
    location = mean_n[d] + S[d, r] @ solved[:, 0]
    scale = np.sqrt((nu + q) / (nu + D - 1.0) * left)
    return stats.t(nu + D - 1.0, location, scale)


def integrated_out(log_density, x, d, low, high):
    """Return log of the integral of a density over the value of column d."""

    def at(value):
        row = x.copy()
        row[d] = value
        return np.exp(log_density(row))

    return np.log(integrate.quad(at, low, high, limit=400, epsrel=1e-10)[0])
