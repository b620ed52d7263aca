"""A series of rows with their labels: what the time line draws."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from streamddcrp.plots.clock import Clock
from streamddcrp.typing import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Cause:
    """A latent feature and the rows that have it.

    Parameters
    ----------
    id : int
    on : ndarray of bool, shape (N,)
    """

    id: int
    on: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A series with a label and a score for each row.

    Parameters
    ----------
    name : str
        Name of the series, with the key if it is one of several.
    features : tuple of str
    values : ndarray of float64, shape (N, D)
        NaN where missing.
    labels : ndarray of int64, shape (N,)
    scores : ndarray of float64, shape (N,)
        NaN during the model's warm-up, when the label has no meaning.
    clock : Clock
    causes : tuple of Cause
        Latent features of the rows, where the model has them.
    measured : ndarray of float64, shape (N, D), or None
        The values as they were measured, where ``values`` are less their seasons.
    names : mapping of int to str
        Names given to regimes, by label.
    note : str
        What else is to be said of it under its name.
    cut : bool
        Whether there were rows before these.
    """

    name: str
    features: tuple[str, ...]
    values: FloatArray
    labels: IntArray
    scores: FloatArray
    clock: Clock
    causes: tuple[Cause, ...] = ()
    measured: FloatArray | None = None
    names: Mapping[int, str] = field(default_factory=dict)
    note: str = ""
    cut: bool = False

    def __len__(self) -> int:
        return len(self.labels)

    def name_of(self, label: int) -> str:
        """Say which regime a label is, with the name that somebody gave it."""
        name = self.names.get(label)
        return f"regime {label}" + (f" ({name})" if name else "")
