"""Compiled kernels of the reachability matrix R = (I - A)^-1.

Customers are addressed by buffer row; ``start`` is the oldest row still kept. ``A`` is strictly
lower triangular, so R is unit lower triangular: only columns <= row are read or written. The link
of row i to row j >= ``first`` is ``A[i, j + shift]``: either all rows before it have a column
(shift 0), or only the last W (shift W - i).
"""

import numpy as np
from numpy.typing import NDArray

from streamddcrp.compilation import kernel

FloatArray = NDArray[np.float64]


@kernel
def append(A: FloatArray, first: int, shift: int, start: int, i: int, out_R: FloatArray) -> None:
    """Fill row i: R_i = e_i + sum_j A_ij R_j over j in [first, i)."""
    for k in range(start, i):
        out_R[i, k] = 0.0
    for j in range(first, i):
        link = A[i, j + shift]
        if link > 0.0:
            for k in range(start, j + 1):
                out_R[i, k] += link * out_R[j, k]
    for k in range(start, i):  # rounding may leave [0, 1] by an ulp, the exact value never does
        out_R[i, k] = min(max(out_R[i, k], 0.0), 1.0)
    out_R[i, i] = 1.0


@kernel
def revise(
    A: FloatArray, first: int, shift: int, start: int, i: int, n: int, work: FloatArray,
    out_R: FloatArray,
) -> None:  # fmt: skip
    """Recompute row i after a change of its links, then propagate the difference to later rows.

    Textbook form: R += R[:, i] (delta A_i R). Row i itself is rebuilt at the same cost, so rounding
    does not accumulate; each later row s gets R[s, i] (new R_i - old R_i).
    """
    for k in range(start, i):
        work[k] = -out_R[i, k]
    append(A, first, shift, start, i, out_R)
    for k in range(start, i):
        work[k] += out_R[i, k]
    for s in range(i + 1, n):
        reach = out_R[s, i]
        if reach > 0.0:
            for k in range(start, i):
                out_R[s, k] = min(max(out_R[s, k] + reach * work[k], 0.0), 1.0)


@kernel
def column_masses(start: int, n: int, R: FloatArray, out: FloatArray) -> None:
    """Sum the columns of R over rows [start, n): ``out[k - start] = sum_i R[i, k]``."""
    out[: n - start] = 0.0
    for i in range(start, n):
        for k in range(start, i + 1):
            out[k - start] += R[i, k]
