"""Decomposable graphs: parents of items, cliques, separators, and partition priors."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from streamddcrp.arguments import as_list, number_array
from streamddcrp.data.kernels.parents import ABSENT, OLD, TWICE, check_parents, keep_parents
from streamddcrp.errors import SchemaError
from streamddcrp.typing import ArrayLike, IntArray
from streamddcrp.validation import whole


class Parents(NamedTuple):
    """Parents of N rows."""

    items: IntArray  # (E,): arrival indices, row after row
    offsets: IntArray  # (N + 1,)

    def rows(self, a: int, z: int) -> "Parents":
        """Return the parents of rows a to z."""
        offsets = self.offsets[a : z + 1]
        return Parents(self.items[offsets[0] : offsets[-1]], offsets - offsets[0])

    def and_then(self, more: "Parents") -> "Parents":
        """Return these rows and further ones."""
        items = np.concatenate([self.items, more.items])
        return Parents(items, np.concatenate([self.offsets, self.offsets[-1] + more.offsets[1:]]))

    @property
    def most(self) -> int:
        """Largest number of parents of a row."""
        return int(np.diff(self.offsets).max(initial=0))


NO_PARENTS = Parents(np.empty(0, np.int64), np.zeros(1, np.int64))


def as_parents(parents: Any, n_rows: int) -> Parents:
    """Return sequences of arrival indices, one for each row, or an Arrow list, as two arrays."""
    if hasattr(parents, "combine_chunks"):
        parents = parents.combine_chunks()
    if hasattr(parents, "flatten") and hasattr(parents, "offsets"):
        offsets = np.asarray(parents.offsets.to_numpy(), np.int64)
        values: Any = parents.flatten()
        offsets = offsets - offsets[0]
    else:
        lists = [
            list(row) if isinstance(row, Iterable) and getattr(row, "ndim", True) else None
            for row in as_list("parents", parents)
        ]
        if None in lists:
            row = lists.index(None)
            raise SchemaError(
                f"row {row}, parents: expected a list of arrival indices; [] for none", row=row
            )
        sizes = [len(row) for row in lists if row is not None]
        offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
        values = [i for row in lists if row is not None for i in row]
    if len(offsets) != n_rows + 1:
        raise SchemaError(
            f"parents: expected one list for each of the {n_rows} rows, got {len(offsets) - 1}"
        )
    values = number_array("parents", values, whole=True)
    return Parents(values, np.ascontiguousarray(offsets))


def check(
    parents: Parents, first: int, r: int, kept: IntArray, n_kept: IntArray, waiting: int = 0
) -> None:
    """Refuse invalid parents: SchemaError with the first offending row in ``row``.

    ``first`` is the arrival index of the first row, ``r`` the largest distance of a parent.
    ``kept`` (r, W), ``n_kept`` (r,) are the parents of earlier items. ``waiting`` is the number of
    checked rows, which the row numbers in errors leave out.
    """
    row, rule, i, j = check_parents(first, r, parents.items, parents.offsets, kept, n_kept)
    if row < 0:
        return
    row -= waiting
    where = f"row {row}, parents: "
    if rule == ABSENT:
        what = (
            f"item {i} has not arrived; row {row} is item {j}, and parents are among 0 to {j - 1}"
            if j > 0
            else f"item {i} has not arrived; the first item has no parents"
        )
    elif rule == OLD:
        what = (
            f"item {i} lies {j - i} items back, and only the last {r} are remembered; leave it "
            "out (what is left of a clique is one), or take a larger r"
        )
    elif rule == TWICE:
        what = f"item {i} is named twice"
    else:
        what = (
            f"items {i} and {j} are not neighbours, so the parents do not form a clique and the "
            "graph would not be decomposable; leave one of them out"
        )
    raise SchemaError(where + what, row=int(row))


def keep(parents: Parents, first: int, kept: IntArray, n_kept: IntArray) -> None:
    """Store checked parents; ``kept`` must be wide enough."""
    keep_parents(first, parents.items, parents.offsets, kept, n_kept)


class DecomposableGraph(NamedTuple):
    """A graph in which every cycle of four or more has a chord."""

    # (N,), a perfect ordering: the earlier neighbours of an item are neighbours of each other.
    order: IntArray
    parents: list[frozenset[int]]  # the earlier neighbours of each item
    cliques: list[frozenset[int]]  # maximal ones
    # Each as often as it joins cliques; empty ones, between components, are left out.
    separators: list[frozenset[int]]


def _built(order: IntArray, parents: list[frozenset[int]]) -> DecomposableGraph:
    """Families minus parent sets, equal ones cancelled, are the cliques minus the separators."""
    times: Counter[frozenset[int]] = Counter()
    for k, mine in enumerate(parents):
        times[mine | {k}] += 1
        times[mine] -= 1
    del times[frozenset()]
    cliques = sorted((c for c, n in times.items() if n > 0), key=sorted)
    separators = sorted((s for s, n in times.items() for _ in range(-n)), key=sorted)
    return DecomposableGraph(order, parents, cliques, separators)


def from_parents(parents: Sequence[Iterable[int]] | Parents) -> DecomposableGraph:
    """Return the graph of items in a perfect ordering with given parents; raises SchemaError."""
    if not isinstance(parents, Parents):
        parents = as_parents(parents, len(parents))
    n = len(parents.offsets) - 1
    check(parents, 0, max(n, 1), np.zeros((1, 1), np.int64), np.zeros(1, np.int64))
    sets = [frozenset(parents.items[a:z].tolist()) for a, z in pairwise(parents.offsets)]
    return _built(np.arange(n), sets)


def window(n: int, order: int) -> DecomposableGraph:
    """Return the graph that joins each item to the ``order`` items before it."""
    return from_parents([range(max(0, k - whole("order", order, 1)), k) for k in range(n)])


def decomposable(n: int, edges: ArrayLike) -> DecomposableGraph:
    """Return the graph of ``n`` items and edges (E, 2), ordered by maximum cardinality search.

    SchemaError if an edge joins no two items or the graph is not decomposable; the message then
    names two items that lack an edge.
    """
    pairs = number_array("edges", edges, ndim=None, whole=True)
    pairs = pairs if pairs.size else np.empty((0, 2), np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise SchemaError(f"edges must have shape (E, 2), got {pairs.shape}")
    wrong = (pairs < 0).any(1) | (pairs >= n).any(1) | (pairs[:, 0] == pairs[:, 1])
    if wrong.any():
        row = int(wrong.argmax())
        raise SchemaError(
            f"edges: edge {row} is {pairs[row].tolist()}; it must join two of items 0 to {n - 1}",
            row=row,
        )
    near: list[set[int]] = [set() for _ in range(n)]
    for a, b in pairs.astype(np.int64).tolist():
        near[a].add(b)
        near[b].add(a)
    order, place = _search(near)
    parents: list[frozenset[int]] = [frozenset()] * n
    for k in order.tolist():
        mine = frozenset(j for j in near[k] if place[j] < place[k])
        last = max(mine, key=lambda j: place[j], default=-1)
        for j in mine - {last}:
            if j not in near[last]:
                raise SchemaError(
                    f"edges: the graph is not decomposable; items {j} and {last} are both joined "
                    f"to {k} and need an edge of their own"
                )
        parents[k] = mine
    return _built(order, parents)


def _search(near: list[set[int]]) -> tuple[IntArray, IntArray]:
    """Visit an item with most visited neighbours; return the order and each item's position."""
    count, place = [0] * len(near), [-1] * len(near)
    order: list[int] = []
    waiting = [(0, k) for k in range(len(near))]  # a heap; the last entry of an item comes first
    while waiting:
        _, k = heappop(waiting)
        if place[k] < 0:
            place[k] = len(order)
            order.append(k)
            for j in near[k]:
                if place[j] < 0:
                    count[j] += 1
                    heappush(waiting, (-count[j], j))
    return np.array(order, np.int64), np.array(place, np.int64)


def _joined(lists: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    """Return each list's beginning (N + 1,), and all items."""
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int64)
    return offsets, np.array([k for one in lists for k in one], dtype=np.int64)


class Flat(NamedTuple):
    """A graph as arrays; those of x are ``xs[x_at[i] : x_at[i + 1]]``."""

    signs: IntArray  # of cliques, 1, and then separators, -1
    set_at: IntArray
    sets: IntArray  # their members
    holder_at: IntArray
    holders: IntArray  # sets of each item
    near_at: IntArray
    near: IntArray  # its neighbours


def flat(graph: DecomposableGraph) -> Flat:
    """Lay out a graph for kernels."""
    sets = [sorted(one) for one in graph.cliques + graph.separators]
    signs = [1] * len(graph.cliques) + [-1] * len(graph.separators)
    near: list[list[int]] = [[] for _ in graph.parents]
    for k, mine in enumerate(graph.parents):
        near[k] += sorted(mine)
        for j in mine:
            near[j].append(k)
    of_item: list[list[int]] = [[] for _ in near]
    for h, items in enumerate(sets):
        for k in items:
            of_item[k].append(h)
    return Flat(np.array(signs), *_joined(sets), *_joined(of_item), *_joined(near))


def log_prior(
    graph: DecomposableGraph, labels: ArrayLike, alpha: float, discount: float = 0.0
) -> float:
    """Return the log probability of a partition, -inf if a cluster is not connected.

    The items follow the perfect ordering: n / (alpha + m) for a cluster with n of an item's m
    parents, alpha / (alpha + m) for a new one (Caron and Doucet 2009, eq. 7, as a product). A
    discount d reduces n by d, and adds d to alpha for each cluster of the parents.
    """
    given: list[Any] = np.asarray(labels).tolist()
    total, opened = 0.0, set()
    for k in graph.order.tolist():
        mine = graph.parents[k]
        n = sum(given[j] == given[k] for j in mine)
        if n == 0:
            if given[k] in opened:
                return -math.inf
            opened.add(given[k])
        opens = alpha + discount * len({given[j] for j in mine})
        total += math.log(n - discount if n else opens) - math.log(alpha + len(mine))
    return total
