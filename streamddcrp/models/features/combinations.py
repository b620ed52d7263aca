"""Labels of combinations: rows with the same set of features on share one."""

import numpy as np
from numpy.typing import NDArray

from streamddcrp.typing import IntArray

REMEMBERED = 65_536  # rows after which a combination that does not come back is forgotten
_STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


class Combinations:
    """Gives a set of ids the arrival index of the first row that had it.

    A set that no row had for 65,536 rows is forgotten, and has a new label when it comes again: so
    memory does not grow with the stream.
    """

    def __init__(self) -> None:
        self.key: NDArray[np.uint64] = np.empty(0, np.uint64)
        self.label: IntArray = np.empty(0, np.int64)
        self.last: IntArray = np.empty(0, np.int64)

    def labels(self, ids: IntArray, rows: IntArray, *, learn: bool = True) -> IntArray:
        """Return the labels of rows.

        Parameters
        ----------
        ids : ndarray of int64, shape (N, F)
            Ids that a row has, in any order; -1 for none.
        rows : ndarray of int64, shape (N,)
            Their arrival indices, ascending.
        learn : bool
            Whether the rows are remembered.
        """
        n_old, N = len(self.key), len(ids)
        key = np.concatenate([self.key, _keys(ids)])
        at = np.concatenate([self.last, rows])
        order = np.lexsort((at, key))
        key, at = key[order], at[order]
        fresh = np.ones(n_old + N, np.bool_)
        fresh[1:] = (key[1:] != key[:-1]) | (at[1:] - at[:-1] > REMEMBERED)
        known = np.concatenate([self.label, np.full(N, -1)])[order]
        start = np.maximum.accumulate(np.where(fresh, np.arange(n_old + N), 0))
        named = np.where(known >= 0, known, at)[start]
        out = np.empty(n_old + N, np.int64)
        out[order] = named
        if learn and N:
            last = np.ones(n_old + N, np.bool_)
            last[:-1] = key[1:] != key[:-1]
            last &= rows[-1] + 1 - at <= REMEMBERED
            self.key, self.label, self.last = key[last], named[last], at[last]
        return out[n_old:]


def _keys(ids: IntArray) -> NDArray[np.uint64]:
    """Hash sets: the sum of the hashes of what is in them."""
    x = (ids + 1).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in _STEPS:
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    x ^= x >> np.uint64(31)
    keys: NDArray[np.uint64] = np.where(ids >= 0, x, np.uint64(0)).sum(axis=1, dtype=np.uint64)
    return keys
