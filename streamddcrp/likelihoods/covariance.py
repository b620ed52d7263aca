"""Estimate the covariance of columns within tables from the first rows of a stream.

With independent columns, a cluster of correlated columns is cut into several tables. EM on a
mixture of Gaussians with a common covariance W estimates what tables share; BIC chooses its number
of clusters. W becomes the mean of an inverse Wishart prior worth 40 rows. Each table then has its
own covariance, and a new one a plausible covariance from its first row on. Rows of many columns
are turned by W, so that only a few coordinates need a covariance.
"""

import math

import numpy as np

from streamddcrp.likelihoods.base import Likelihood
from streamddcrp.likelihoods.columns import LEAST_VARIANCE, column_cells, column_powers, is_extreme
from streamddcrp.likelihoods.gaussian import NormalGamma, NormalWishart
from streamddcrp.likelihoods.product import Product
from streamddcrp.likelihoods.turned import Turned
from streamddcrp.typing import FloatArray

WORTH = 40.0  # rows for which the common covariance counts
LEAST_SPREAD = 1.0  # of means of tables, in variances within tables
KAPPA = 0.1  # weight of the prior mean in rows: tables lie three deviations from it
MOST_COLUMNS = 12  # or coordinates of one covariance: with more, a row costs three times as much
FEWEST_ROWS = 32
FEW = 4  # rows of a table too small to show correlations itself
ROWS_A_COLUMN = 2
CLUSTERS = (1, 2, 3, 4, 5, 6, 8, 10, 12)  # numbers of clusters tried
STARTS, TRIED = 4, 4  # EM runs for each number; candidates for the start of each cluster
ROUNDS = 20
ENOUGH = 1e-3  # nats a row that an EM round must gain
OWN = 0.1  # rows a column for which the covariance of all rows counts in W
FINEST = 1e-4  # least cell width of a value, in standard deviations


def as_one(X: FloatArray, labels: FloatArray) -> Likelihood | None:
    """Return a prior for the covariances of rows (N, D) within tables.

    ``labels`` (N,) are tables of independent columns. None if they show no correlations, rows
    without missing values are few, or successive rows are similar.
    """
    if X.shape[1] < 2 or (column_powers(X) < 1.0).any():
        return None
    whole = ~np.isnan(X).any(axis=1)
    X, labels = X[whole], labels[whole]
    N, D = X.shape
    if max(FEWEST_ROWS, ROWS_A_COLUMN * D) > N or not _depend(X, labels):
        return None
    cells = np.maximum(column_cells(X), FINEST * X.std(axis=0))
    within, n_clusters = common_covariance(X, cells)
    if n_clusters == 1 and 2 * np.unique(labels, return_counts=True)[1].max() < N:
        return None  # too few rows to show the tables' clusters
    if D <= MOST_COLUMNS:
        return NormalWishart(X.mean(axis=0), KAPPA, WORTH * within, D + 1.0 + WORTH)
    total = np.cov(X.T, bias=True) + np.diag(cells**2 / 12.0)
    return as_turned(X.mean(axis=0), within, total, cells)


def as_turned(
    center: FloatArray, within: FloatArray, total: FloatArray, cells: FloatArray
) -> Turned:
    """Return a prior of rows about ``center`` with covariance ``within`` (D, D) in tables.

    Coordinates z = A x with A within A' = 1 and A total A' diagonal are independent, except the
    first of them, along which tables differ most: there each table has its own covariance.
    """
    root = np.linalg.inv(np.linalg.cholesky(within))
    spread, turn = np.linalg.eigh(root @ total @ root.T)
    axes = turn.T[::-1] @ root
    spread = spread[::-1]  # 1, and what the tables' means add
    kappa, at = 1.0 / np.maximum(spread - 1.0, LEAST_SPREAD), range(len(center))
    some = kappa[:MOST_COLUMNS]
    full = NormalWishart(
        np.zeros(len(some)), np.exp(np.log(some).mean()), WORTH * np.eye(len(some)),
        len(some) + 1.0 + WORTH,
    )  # fmt: skip
    rest = NormalGamma(
        0.0, kappa[MOST_COLUMNS:], 1.0 + 0.5 * WORTH, 0.5 * WORTH,
        np.sqrt(axes**2 @ cells**2)[MOST_COLUMNS:],
    )  # fmt: skip
    parts = Product([(full, at[:MOST_COLUMNS]), (rest, at[MOST_COLUMNS:])])
    return Turned(parts, at, center, np.sqrt(spread), axes)


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
    return is_extreme(together, pairs) or is_extreme(sum(each), pairs * max(len(each), 1))


def _squared_correlations(rest: FloatArray, n_tables: int = 1) -> float:
    """Return the sum of squared column correlations times degrees of freedom: chi squared."""
    products = rest.T @ rest
    scale = np.sqrt(np.maximum(np.diag(products), LEAST_VARIANCE))
    r = products / np.outer(scale, scale)
    np.fill_diagonal(r, 0.0)
    return float(0.5 * (len(rest) - n_tables) * np.sum(r**2))


def common_covariance(X: FloatArray, cells: FloatArray) -> tuple[FloatArray, int]:
    """Return the common within-cluster covariance W (D, D) of rows (N, D); number of clusters.

    ``cells`` (D,): cell widths of rounded values. O(N D (D + K)) a round.
    """
    rng = np.random.default_rng(0)
    scale = np.sqrt(X.var(axis=0) + cells**2 / 12.0)
    Z = (X - X.mean(axis=0)) / scale
    total = Z.T @ Z / len(Z) + np.diag((cells / scale) ** 2 / 12.0)
    best, within = -math.inf, total
    for K in (K for K in CLUSTERS if len(Z) >= 4 * K):
        for _ in range(STARTS if K > 1 else 1):
            # clusters hidden in a covariance of fewer clusters appear as it becomes theirs
            share = _nearest(Z @ np.linalg.inv(np.linalg.cholesky(within)).T, K, rng)
            score, within = _fit(Z, total, share)
            score -= 0.5 * K * (X.shape[1] + 1) * math.log(len(Z))
            if score > best:
                best, n_clusters, found = score, K, within
    return 0.5 * (found + found.T) * np.outer(scale, scale), n_clusters


def _nearest(Y: FloatArray, K: int, rng: np.random.Generator) -> FloatArray:
    """Assign each row to the nearest of K separated rows, (N, K), 0 or 1.

    Each of these is the best of a few, drawn by squared distance from earlier ones.
    """
    near, least = np.zeros(len(Y), dtype=np.int64), np.full(len(Y), np.inf)
    tried = Y[rng.integers(len(Y), size=1)]
    for k in range(K):
        distance = ((Y - tried[:, None]) ** 2).sum(axis=2)
        one = distance[np.minimum(distance, least).sum(axis=1).argmin()]
        near[one < least] = k
        least = np.minimum(one, least)
        if not least.any():
            break
        tried = Y[rng.choice(len(Y), size=TRIED, p=least / least.sum())]
    return np.eye(K)[near]


def _fit(Z: FloatArray, total: FloatArray, share: FloatArray) -> tuple[float, FloatArray]:
    """Return the log likelihood that EM reaches from shares (N, K), and W; ``total``: of all."""
    (N, D), last = Z.shape, -math.inf
    for _ in range(ROUNDS):
        size = share.sum(axis=0) + 1e-9
        means = (share.T @ Z) / size[:, None]
        W = total - (means.T * size) @ means / (N + OWN * D)
        root = np.linalg.inv(np.linalg.cholesky(W))
        Y, M = Z @ root.T, means @ root.T
        log = np.log(size / N) - 0.5 * ((M**2).sum(axis=1) - 2.0 * Y @ M.T)
        log -= 0.5 * (Y**2).sum(axis=1)[:, None]
        top = log.max(axis=1, keepdims=True)
        share = np.exp(log - top)
        sums = share.sum(axis=1, keepdims=True)
        share /= sums
        score = float((top + np.log(sums)).sum() + N * np.log(np.diag(root)).sum())
        if score < last + ENOUGH * N:
            break
        last = score
    return score, W
