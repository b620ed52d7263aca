"""Estimate the covariance of columns within tables from the first rows of a stream.

With independent columns, a cluster of correlated columns is cut into several tables. EM on a
mixture of Gaussians with a common covariance W estimates what tables share; BIC chooses its number
of clusters. W becomes the mean of an inverse Wishart prior worth 40 rows. Each table then has its
own covariance, and a new one a plausible covariance from its first row on.
"""

import math

import numpy as np
from scipy.special import chdtri

from streamddcrp.likelihoods.columns import LEAST_VARIANCE, column_cells, column_powers
from streamddcrp.likelihoods.gaussian import NormalWishart
from streamddcrp.typing import FloatArray

WORTH = 40.0  # rows for which the common covariance counts
KAPPA = 0.1  # weight of the prior mean in rows: tables lie three deviations from it
MOST_COLUMNS = 12  # of one covariance: with more, a row costs over three times as much
FEWEST_ROWS = 32
FEW = 4  # rows of a table too small to show correlations itself
LEVEL = 0.01  # of the tests for correlation
ROWS_A_COLUMN = 2
CLUSTERS = (1, 2, 3, 4, 5, 6, 8, 10, 12)  # numbers of clusters tried
STARTS = 2
ROUNDS = 20
ENOUGH = 1e-3  # nats a row that an EM round must gain
OWN = 0.1  # share of a column's variance that is its own, in one row for each column


def as_one(X: FloatArray, labels: FloatArray) -> NormalWishart | None:
    """Return a prior for the covariances of rows (N, D) within tables.

    ``labels`` (N,) are tables of independent columns. None if they show no correlations, rows are
    few, values are missing, or successive rows are similar.
    """
    N, D = X.shape
    if not 1 < D <= MOST_COLUMNS or max(FEWEST_ROWS, ROWS_A_COLUMN * D) > N or np.isnan(X).any():
        return None
    if (column_powers(X) < 1.0).any() or not _depend(X, labels):
        return None
    scatter = WORTH * common_covariance(X, column_cells(X))
    return NormalWishart(X.mean(axis=0), KAPPA, scatter, D + 1.0 + WORTH)


def _depend(X: FloatArray, labels: FloatArray) -> bool:
    """Whether columns of rows (N, D) are correlated within the tables ``labels``, at 1 %.

    Tests correlations common to all tables, and those of each table, which may be opposite.
    """
    _, table, size = np.unique(labels, return_inverse=True, return_counts=True)
    means = np.stack([np.bincount(table, weights=x) for x in X.T], axis=1) / size[:, None]
    rest = X - means[table]
    each = [_squared_correlations(rest[table == k]) for k in np.flatnonzero(size > FEW)]
    together = _squared_correlations(rest, len(size))
    pairs = 0.5 * X.shape[1] * (X.shape[1] - 1)
    return bool(
        together > chdtri(pairs, LEVEL) or sum(each) > chdtri(pairs * max(len(each), 1), LEVEL)
    )


def _squared_correlations(rest: FloatArray, n_tables: int = 1) -> float:
    """Return the sum of squared column correlations times degrees of freedom: chi squared."""
    products = rest.T @ rest
    scale = np.sqrt(np.maximum(np.diag(products), LEAST_VARIANCE))
    r = products / np.outer(scale, scale)
    np.fill_diagonal(r, 0.0)
    return float(0.5 * (len(rest) - n_tables) * np.sum(r**2))


def common_covariance(X: FloatArray, cells: FloatArray) -> FloatArray:
    """Return the common within-cluster covariance W (D, D) of rows (N, D).

    ``cells`` (D,): cell widths of rounded values. O(N D (D + K)) a round.
    """
    rng = np.random.default_rng(0)
    scale = np.sqrt(X.var(axis=0) + cells**2 / 12.0)
    Z = (X - X.mean(axis=0)) / scale
    best, found = -math.inf, np.eye(len(scale))
    for K in (K for K in CLUSTERS if len(Z) >= 4 * K):
        for _ in range(STARTS if K > 1 else 1):
            score, W = _fit(Z, (cells / scale) ** 2 / 12.0, _spread_out(Z, K, rng))
            score -= 0.5 * K * (X.shape[1] + 1) * math.log(len(Z))
            if score > best:
                best, found = score, W
    covariance: FloatArray = 0.5 * (found + found.T) * np.outer(scale, scale)
    return covariance


def _spread_out(Z: FloatArray, K: int, rng: np.random.Generator) -> FloatArray:
    """Return K separated rows, each drawn by its squared distance from earlier ones."""
    chosen = [Z[rng.integers(len(Z))]]
    distance = np.full(len(Z), np.inf)
    while len(chosen) < K:
        distance = np.minimum(distance, ((Z - chosen[-1]) ** 2).sum(axis=1))
        total = distance.sum()
        chosen.append(Z[rng.choice(len(Z), p=distance / total)] if total > 0.0 else Z[0])
    return np.array(chosen)


def _fit(Z: FloatArray, cells: FloatArray, means: FloatArray) -> tuple[float, FloatArray]:
    """Run EM from means (K, D); return the log likelihood and the covariance."""
    N, D = Z.shape
    squares = Z.T @ Z + N * np.diag(cells)
    distance = (means**2).sum(axis=1) - 2.0 * Z @ means.T
    share = np.eye(len(means))[distance.argmin(axis=1)]
    last, W = -math.inf, np.eye(D)
    for _ in range(ROUNDS):
        size = share.sum(axis=0) + 1e-9
        means = (share.T @ Z) / size[:, None]
        W = (squares - (means.T * size) @ means + OWN * D * np.eye(D)) / (N + D)
        root = np.linalg.inv(np.linalg.cholesky(W))
        Y, M = Z @ root.T, means @ root.T
        log = np.log(size / N) - 0.5 * ((M**2).sum(axis=1) - 2.0 * Y @ M.T)
        log -= 0.5 * (Y**2).sum(axis=1)[:, None]
        top = log.max(axis=1, keepdims=True)
        share = np.exp(log - top)
        total = share.sum(axis=1, keepdims=True)
        share /= total
        score = float((top + np.log(total)).sum() + N * np.log(np.diag(root)).sum())
        if score < last + ENOUGH * N:
            break
        last = score
    return score, W
