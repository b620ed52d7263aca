"""Array aliases used in signatures."""

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["ArrayLike", "Axes", "FloatArray", "IntArray", "Probabilities"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Axes = Annotated[Any, "matplotlib axes", "transData"]  # what of them tells them from others
Probabilities = Callable[[], dict[int, float]]  # of the tables; only some callers want them
