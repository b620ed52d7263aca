"""Array aliases used in signatures."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["ArrayLike", "FloatArray", "IntArray", "Probabilities"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Probabilities = Callable[[], dict[int, float]]  # of the tables; only some callers want them
