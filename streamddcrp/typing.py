"""Array aliases for signatures."""

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["ArrayLike", "Axes", "FloatArray", "IntArray", "Probabilities"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Axes = Annotated[Any, "matplotlib axes", "transData"]  # the attribute by which they are recognised
Probabilities = Callable[[], dict[int, float]]  # of the tables, computed on demand
