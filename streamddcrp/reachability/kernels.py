"""Compiled kernels of the reachability matrix R = (I - A)^-1.

Customers are addressed by their row in the buffers; ``start`` is the oldest row still kept. ``A``
is strictly lower triangular, so R is unit lower triangular: only columns <= row are read or
written. In the banded layout ``band[i, w]`` is the link of row i to row ``i - width + w``.
"""

import numpy as np
from numpy.typing import NDArray

from streamddcrp.compilation import kernel

FloatArray = NDArray[np.float64]


@kernel
def _close_row(start: int, i: int, out_R: FloatArray) -> None:
    """Set the diagonal; rounding may leave [0, 1] by an ulp, the exact value never does."""
    for k in range(start, i):
        out_R[i, k] = min(max(out_R[i, k], 0.0), 1.0)
    out_R[i, i] = 1.0


@kernel
def append_dense(A: FloatArray, start: int, i: int, out_R: FloatArray) -> None:
    """Fill row i: R_i = e_i + sum_j A_ij R_j over j in [start, i)."""
    for k in range(start, i):
        out_R[i, k] = 0.0
    for j in range(start, i):
        link = A[i, j]
        if link > 0.0:
            for k in range(start, j + 1):
                out_R[i, k] += link * out_R[j, k]
    _close_row(start, i, out_R)


@kernel
def append_banded(band: FloatArray, start: int, i: int, out_R: FloatArray) -> None:
    """Fill row i from its last ``width`` predecessors."""
    width = band.shape[1]
    for k in range(start, i):
        out_R[i, k] = 0.0
    for j in range(max(start, i - width), i):
        link = band[i, j - i + width]
        if link > 0.0:
            for k in range(start, j + 1):
                out_R[i, k] += link * out_R[j, k]
    _close_row(start, i, out_R)


@kernel
def propagate(start: int, i: int, n: int, delta: FloatArray, out_R: FloatArray) -> None:
    """Add the rank-1 change R[i+1:n, i] * delta of rows behind i; delta = change of row i of R."""
    for s in range(i + 1, n):
        reach = out_R[s, i]
        if reach > 0.0:
            for k in range(start, i):
                out_R[s, k] = min(max(out_R[s, k] + reach * delta[k], 0.0), 1.0)


@kernel
def revise_dense(
    A: FloatArray, start: int, i: int, n: int, work: FloatArray, out_R: FloatArray
) -> None:
    """Recompute row i after a change of A[i], then carry the difference to the rows behind it.

    Textbook form: R += R[:, i] (delta A_i R). Row i itself is built afresh, which costs the same
    and keeps rounding from adding up in it.
    """
    for k in range(start, i):
        work[k] = -out_R[i, k]
    append_dense(A, start, i, out_R)
    for k in range(start, i):
        work[k] += out_R[i, k]
    propagate(start, i, n, work, out_R)


@kernel
def revise_banded(
    band: FloatArray, start: int, i: int, n: int, work: FloatArray, out_R: FloatArray
) -> None:
    """Do as `revise_dense`, in the banded layout."""
    for k in range(start, i):
        work[k] = -out_R[i, k]
    append_banded(band, start, i, out_R)
    for k in range(start, i):
        work[k] += out_R[i, k]
    propagate(start, i, n, work, out_R)


@kernel
def column_masses(start: int, n: int, R: FloatArray, out: FloatArray) -> None:
    """Sum the columns of R over rows [start, n): ``out[k - start] = sum_i R[i, k]``."""
    for k in range(start, n):
        out[k - start] = 0.0
    for i in range(start, n):
        for k in range(start, i + 1):
            out[k - start] += R[i, k]
