"""Compiled coordinates of rows in directions shared by columns; see `likelihoods.plane`."""

import math

from streamddcrp.compilation import entry
from streamddcrp.likelihoods.kernels.special import Array

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
