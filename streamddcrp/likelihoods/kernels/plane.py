"""Compiled coordinates of rows in directions shared by columns; see `likelihoods.plane`."""

import math

from streamddcrp.compilation import entry
from streamddcrp.likelihoods.kernels.special import LOG_2PI, Array

ROUNDS = 16  # of imputing missing values from the coordinates


@entry
def coordinates(center: Array, scale: Array, axes: Array, X: Array, out: Array) -> None:
    """Fill ``out`` (N, Q + D) with coordinates and remainders of rows ``X`` (N, D). O(N Q D).

    ``axes`` (Q, D) are orthonormal directions of (x - center) / scale; a remainder is x - center
    minus the coordinates' part. A missing value is imputed from the coordinates, by fixed-point
    iteration from 0, and its remainder is missing; an empty row has no coordinates.
    """
    Q, D = axes.shape
    for i in range(X.shape[0]):
        known = 0
        for d in range(D):
            missing = math.isnan(X[i, d])
            known += 0 if missing else 1
            out[i, Q + d] = 0.0 if missing else (X[i, d] - center[d]) / scale[d]
        for _ in range(ROUNDS if known < D else 1):
            for q in range(Q):
                out[i, q] = 0.0
                for d in range(D):
                    out[i, q] += axes[q, d] * out[i, Q + d]
            for d in range(D):
                if math.isnan(X[i, d]):
                    out[i, Q + d] = 0.0
                    for q in range(Q):
                        out[i, Q + d] += axes[q, d] * out[i, q]
        for d in range(D):
            for q in range(Q):
                out[i, Q + d] -= axes[q, d] * out[i, q]
            out[i, Q + d] = math.nan if math.isnan(X[i, d]) else out[i, Q + d] * scale[d]
        for q in range(Q):
            out[i, q] = out[i, q] if known > 0 else math.nan


@entry
def turned(
    center: Array, axes: Array, precision: Array, X: Array, work: Array, out: Array, logs: Array
) -> None:
    """Fill ``out`` (N, D) with ``axes`` (D, D) times rows ``X`` (N, D) minus ``center``.

    A missing value becomes its expectation given the others, by ``precision`` (D, D), and ``logs``
    (N,) the log density of a row's missing values there. An empty row has no coordinates. ``work``
    (D + 1, D + 1). O(D^2) a row, O(D^2 m + m^3) for m missing values.
    """
    D = len(center)
    y = work[D]
    for i in range(X.shape[0]):
        n, logs[i] = 0, 0.0
        for d in range(D):
            y[d] = X[i, d] - center[d]
        for a in range(D):  # Cholesky factor of missing values, and forward substitution
            if not math.isnan(X[i, a]):
                continue
            column, total = 0, 0.0
            for b in range(D):
                if not math.isnan(X[i, b]):
                    total -= precision[a, b] * y[b]
                elif b <= a:
                    value = precision[a, b]
                    for k in range(column):
                        value -= work[n, k] * work[column, k]
                    work[n, column] = math.sqrt(value) if b == a else value / work[column, column]
                    column += 1
            for k in range(n):
                total -= work[n, k] * work[k, D]
            work[n, D] = total / work[n, n]
            logs[i] += math.log(work[n, n]) - 0.5 * LOG_2PI
            n += 1
        known, r = n < D, n
        for a in range(D - 1, -1, -1):
            if math.isnan(X[i, a]):
                r -= 1
                for k in range(r + 1, n):
                    work[r, D] -= work[k, r] * work[k, D]
                work[r, D] /= work[r, r]
                y[a] = work[r, D]
        for q in range(D):
            out[i, q] = 0.0 if known else math.nan
            for d in range(D):
                out[i, q] += axes[q, d] * y[d]
