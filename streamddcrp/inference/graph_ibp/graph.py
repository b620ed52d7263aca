"""A decomposable graph, given by the parents of each item, and the feature prior on it."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from streamddcrp.errors import ConfigError
from streamddcrp.typing import ArrayLike, IntArray

__all__ = ["FeatureGraph"]


class FeatureGraph:
    """Decomposable graph of items 0 .. n - 1 in a perfect order.

    Parameters
    ----------
    parents : sequence of iterables of int
        For each item its neighbours among the items before it; they must be neighbours of each
        other.

    Examples
    --------
    >>> graph = FeatureGraph([[], [0], [1]])
    >>> graph.intensity([0, 1]), graph.intensity([0, 2])
    (0.25, 0.0)
    >>> graph.total
    2.0
    """

    def __init__(self, parents: Sequence[Iterable[int]]) -> None:
        self.parents = [sorted(int(j) for j in pa) for pa in parents]
        for k, pa in enumerate(self.parents):
            if len(set(pa)) < len(pa) or any(not 0 <= j < k for j in pa):
                message = f"parents of item {k} must be different earlier items, got {pa}"
                raise ConfigError(message)
            if pa and not set(pa[:-1]) <= set(self.parents[pa[-1]]):
                apart = min(set(pa[:-1]) - set(self.parents[pa[-1]]))
                message = (
                    f"parents of item {k} are no clique: {apart} and {pa[-1]} are not neighbours; "
                    "join them, or leave one out"
                )
                raise ConfigError(message)

    @classmethod
    def window(cls, n: int, order: int) -> "FeatureGraph":
        """Return the graph in which each item is joined to the ``order`` items before it."""
        if order < 1:
            message = f"order must be at least 1, got {order}"
            raise ConfigError(message)
        return cls([range(max(0, k - order), k) for k in range(n)])

    def __len__(self) -> int:
        return len(self.parents)

    @property
    def total(self) -> float:
        """Sum of all intensities: expected number of features over alpha."""
        return sum(1.0 / (1 + len(pa)) for pa in self.parents)

    def intensity(self, history: Iterable[int]) -> float:
        """Return the expected number of features with these owners, over alpha."""
        owners = sorted(set(history))
        if not owners:
            message = "a history needs at least one owner"
            raise ConfigError(message)
        value = 1.0
        for k in range(owners[0], len(self)):  # in the perfect order, item by item
            q, m = 1 + len(self.parents[k]), len(set(self.parents[k]) & set(owners))
            if k == owners[0]:
                value *= 1.0 / q
            elif k in owners:
                value *= m / q
            else:
                value *= (q - m) / q
        return self._once(owners, value)

    def _once(self, owners: list[int], value: float) -> float:
        """Correct for a first item that is not the only one without a parent among the owners."""
        starts = [k for k in owners if not set(self.parents[k]) & set(owners)]
        return value if len(starts) == 1 else 0.0

    def log_prior(self, Z: ArrayLike, alpha: float) -> float:
        """Log probability of a feature matrix (n, K) up to the order of its columns."""
        columns = np.asarray(Z).T
        histories = [tuple(np.flatnonzero(z).tolist()) for z in columns if z.any()]
        log_p = -alpha * self.total
        for h in set(histories):
            m, rate = histories.count(h), alpha * self.intensity(h)
            if rate == 0.0:
                return -math.inf
            log_p += m * math.log(rate) - math.lgamma(m + 1)
        return log_p

    def flat(self) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray, IntArray, IntArray]:
        """Return sets with signs, the sets of each item, and neighbours, as flat arrays.

        Families count +1, parent sets -1; a family that is no clique cancels with a parent set.
        """
        sets = [[*pa, k] for k, pa in enumerate(self.parents)] + self.parents
        signs = [1] * len(self) + [-1] * len(self)
        holders: list[list[int]] = [[] for _ in self.parents]
        near: list[list[int]] = [[] for _ in self.parents]
        for s, items in enumerate(sets):
            for k in items:
                holders[k].append(s)
        for k, pa in enumerate(self.parents):
            near[k] += pa
            for j in pa:
                near[j].append(k)
        return (
            np.array(signs), *_flat(sets), *_flat(holders), *_flat(near),
        )  # fmt: skip


def _flat(lists: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int64)
    return offsets, np.array([k for one in lists for k in one], dtype=np.int64)
