"""Parents of items as arrays, refused where they form no decomposable graph."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from streamddcrp.data.kernels.parents import ABSENT, OLD, TWICE, check_parents, keep_parents
from streamddcrp.errors import SchemaError
from streamddcrp.typing import IntArray


class Parents(NamedTuple):
    """Parents of N rows.

    Attributes
    ----------
    items : ndarray of int64, shape (E,)
        Arrival indices, row after row.
    offsets : ndarray of int64, shape (N + 1,)
    """

    items: IntArray
    offsets: IntArray

    def rows(self, a: int, z: int) -> "Parents":
        """Return those of rows a to z."""
        offsets = self.offsets[a : z + 1]
        return Parents(self.items[offsets[0] : offsets[-1]], offsets - offsets[0])

    def and_then(self, more: "Parents") -> "Parents":
        """Return these rows and more."""
        items = np.concatenate([self.items, more.items])
        return Parents(items, np.concatenate([self.offsets, self.offsets[-1] + more.offsets[1:]]))

    @property
    def most(self) -> int:
        """Largest number of parents of a row."""
        return int(np.diff(self.offsets).max(initial=0))


NO_PARENTS = Parents(np.empty(0, np.int64), np.zeros(1, np.int64))


def as_parents(parents: Any, n_rows: int) -> Parents:
    """Return a sequence of sequences of arrival indices, or an Arrow list array, as two arrays.

    Raises
    ------
    SchemaError
        If it does not have a row for each of the batch, or holds something else.
    """
    if hasattr(parents, "combine_chunks"):
        parents = parents.combine_chunks()
    if hasattr(parents, "flatten") and hasattr(parents, "offsets"):
        offsets = np.asarray(parents.offsets.to_numpy(), np.int64)
        parents, rows = None, (np.asarray(parents.flatten()), offsets - offsets[0])
        values, offsets = rows
    else:
        lists = [list(row) if isinstance(row, Iterable) else None for row in parents]
        if None in lists:
            row = lists.index(None)
            message = f"row {row}, parents: expected a list of arrival indices; [] for none"
            raise SchemaError(message, row=row)
        sizes = [len(row) for row in lists if row is not None]
        offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
        values = np.array([i for row in lists if row is not None for i in row])
    if len(offsets) != n_rows + 1:
        message = (
            f"parents: expected one list for each of the {n_rows} rows, got {len(offsets) - 1}"
        )
        raise SchemaError(message)
    if len(values) and values.dtype.kind not in "iu":
        message = f"parents: expected arrival indices, whole numbers, got values like {values[0]!r}"
        raise SchemaError(message)
    return Parents(values.astype(np.int64), np.ascontiguousarray(offsets))


def check(parents: Parents, first: int, r: int, kept: IntArray, n_kept: IntArray) -> None:
    """Refuse parents that break a rule.

    Parameters
    ----------
    parents : Parents
    first : int
        Arrival index of the first row.
    r : int
        How many items back a parent may lie.
    kept, n_kept : ndarray of int64, shape (r, W) and (r,)
        Parents of the items before.

    Raises
    ------
    SchemaError
        With the first offending row in ``row``.
    """
    row, rule, i, j = check_parents(first, r, parents.items, parents.offsets, kept, n_kept)
    if row < 0:
        return
    where = f"row {row}, parents: "
    if rule == ABSENT:
        what = (
            f"item {i} has not arrived; row {row} is item {j}, and parents are among 0 to {j - 1}"
            if j > 0
            else f"item {i} has not arrived; the first item has no parents"
        )
    elif rule == OLD:
        what = (
            f"item {i} lies {j - i} items back, and only the last r = {r} are remembered; leave it "
            "out (what is left of a clique is one), or take a larger r"
        )
    elif rule == TWICE:
        what = f"item {i} is named twice"
    else:
        what = (
            f"items {i} and {j} are no neighbours, so the parents form no clique and the graph "
            "would not be decomposable; leave one of them out"
        )
    raise SchemaError(where + what, row=int(row))


def keep(parents: Parents, first: int, kept: IntArray, n_kept: IntArray) -> None:
    """Remember checked parents; ``kept`` must be wide enough."""
    keep_parents(first, parents.items, parents.offsets, kept, n_kept)
