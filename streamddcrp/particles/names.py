"""Names of the tables that particles have, and the room they take."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamddcrp.typing import FloatArray, IntArray

BoolArray = NDArray[np.bool_]


class Names(NamedTuple):
    """Tables that any particle has, by the customer that opened them.

    Attributes
    ----------
    opener : ndarray of int64, shape (G,)
        Arrival index, which is the table's id; -1: the place is free.
    last_seen : ndarray of int64, shape (G,)
        Last arrival that was most probably seated there; -1: none.
    told : ndarray of bool, shape (G,)
        Whether its birth has been told.
    weight : ndarray of float64, shape (G,)
        Of the particles that have it.
    n_holders : ndarray of int64, shape (G,)
        How many they are.
    """

    opener: IntArray
    last_seen: IntArray
    told: BoolArray
    weight: FloatArray
    n_holders: IntArray


def empty_names(n: int) -> Names:
    """Return room for so many names."""
    fields: dict[str, NDArray[Any]] = {
        "opener": np.full(n, -1),
        "last_seen": np.full(n, -1),
        "told": np.zeros(n, np.bool_),
        "weight": np.zeros(n),
        "n_holders": np.zeros(n, np.int64),
    }
    return Names(**fields)


def room(needed: int, least: int) -> int:
    """Return a power of two that is large enough."""
    return max(least, 1 << (needed - 1).bit_length())
