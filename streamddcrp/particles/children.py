"""Room for the children of all particles."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamddcrp.particles.names import room
from streamddcrp.particles.pool import UintArray
from streamddcrp.typing import FloatArray, IntArray


class Children(NamedTuple):
    """Work space for the children of all particles, M = P (K + 1) of them, and those that stay."""

    parent: IntArray  # (M,)
    table: IntArray
    weight: FloatArray
    key: UintArray
    work: FloatArray
    hashed: IntArray  # (a power of two >= 2 M,)
    chosen: IntArray  # (P,)
    kept_weight: FloatArray
    ancestor: IntArray
    place: IntArray
    to: IntArray
    n: IntArray  # (1,) how many stay
    used: NDArray[np.bool_]
    offspring: IntArray


def empty_children(n_particles: int, n: int) -> Children:
    """Return work space for ``n`` children of so many particles."""
    P, whole = n_particles, np.int64
    fields: dict[str, NDArray[Any]] = {
        "parent": np.zeros(n, whole),
        "table": np.zeros(n, whole),
        "weight": np.zeros(n),
        "key": np.zeros(n, np.uint64),
        "work": np.zeros(n),
        "hashed": np.zeros(room(2 * n, 2), whole),
        "chosen": np.zeros(P, whole),
        "kept_weight": np.zeros(P),
        "ancestor": np.zeros(P, whole),
        "place": np.zeros(P, whole),
        "to": np.zeros(P, whole),
        "n": np.zeros(1, whole),
        "used": np.zeros(P, np.bool_),
        "offspring": np.zeros(P, whole),
    }
    return Children(**fields)
