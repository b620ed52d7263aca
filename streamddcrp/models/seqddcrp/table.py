"""The struct of arrays behind live components."""

from typing import NamedTuple

import numpy as np

from streamddcrp.typing import FloatArray, IntArray


class ComponentTable(NamedTuple):
    """Live components as arrays; rows beyond the live ones are unused capacity.

    Attributes
    ----------
    ids : ndarray of int64, shape (K,)
        What users see. Given in order of birth, never reused.
    born, last_seen : ndarray of int64, shape (K,)
        Arrival index of the customer that opened it; of the last one seen there, or -1.
    stats : ndarray of float64, shape (K, P)
        Expected sufficient statistics of all its customers.
    frozen : ndarray of float64, shape (K, P)
        The part of ``stats`` that customers no longer in memory contributed.
    shadow : ndarray of float64, shape (K, P)
        The part of ``frozen`` that may be split off one day.
    post : ndarray of float64, shape (K, Q)
        Posterior of the parameter given ``stats``, as the likelihood caches it; column 0 is the log
        marginal likelihood.

    Examples
    --------
    >>> from streamddcrp.models.seqddcrp.table import empty_table, resized
    >>> table = empty_table(4, n_stats=3, n_post=2)
    >>> resized(table, 8).stats.shape
    (8, 3)
    """

    ids: IntArray
    born: IntArray
    last_seen: IntArray
    stats: FloatArray
    frozen: FloatArray
    shadow: FloatArray
    post: FloatArray


def empty_table(capacity: int, *, n_stats: int, n_post: int) -> ComponentTable:
    """Return a table with room for ``capacity`` components."""
    return ComponentTable(
        ids=np.full(capacity, -1, np.int64),
        born=np.zeros(capacity, np.int64),
        last_seen=np.zeros(capacity, np.int64),
        stats=np.zeros((capacity, n_stats)),
        frozen=np.zeros((capacity, n_stats)),
        shadow=np.zeros((capacity, n_stats)),
        post=np.zeros((capacity, n_post)),
    )


def resized(table: ComponentTable, capacity: int) -> ComponentTable:
    """Return a copy with room for ``capacity`` components."""
    keep = min(capacity, len(table.ids))
    larger = empty_table(capacity, n_stats=table.stats.shape[1], n_post=table.post.shape[1])
    for new, old in zip(larger, table, strict=True):
        new[:keep] = old[:keep]
    return larger
