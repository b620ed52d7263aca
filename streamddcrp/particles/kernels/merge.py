"""Exact merging of particles that differ only in what no longer matters."""

import numpy as np

from streamddcrp.compilation import kernel
from streamddcrp.particles.kernels.random import uniform


@kernel
def merge_equal(key, weight, n, table, seed, t, purpose):
    """Give the weight of children with equal keys to one of them, drawn by weight; others get 0.

    Equal keys must mean equal laws of everything to come; then no expectation changes.

    Parameters
    ----------
    key : ndarray of uint64, shape (>= n,)
        64 bits from `hash_of`, so that different states have different keys.
    weight : ndarray of float64, shape (>= n,)
    table : ndarray of int64, shape (a power of two >= 2 n,)
        Work space.

    Returns
    -------
    int
        How many children have a weight afterwards.
    """
    table[:] = -1
    mask = np.uint64(len(table) - 1)
    one = np.uint64(1)
    distinct = 0
    for m in range(n):
        if weight[m] <= 0.0:
            continue
        at = key[m] & mask
        while table[at] >= 0 and key[table[at]] != key[m]:
            at = (at + one) & mask
        other = table[at]
        if other < 0:
            table[at] = m
            distinct += 1
            continue
        both = weight[other] + weight[m]
        if uniform(seed, t, m, purpose, 0) * both < weight[m]:
            weight[m] = both
            weight[other] = 0.0
            table[at] = m
        else:
            weight[other] = both
            weight[m] = 0.0
    return distinct
