"""A series of rows with their labels: what the time line draws."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from streamddcrp.plots.clock import Clock
from streamddcrp.plots.segments import Numbers
from streamddcrp.typing import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Cause:
    """A latent feature and the rows that have it."""

    id: int
    on: NDArray[np.bool_]  # (N,)


@dataclass(frozen=True, slots=True)
class Labelled:
    """A series with a label and a score for each row."""

    name: str  # with the key if it is one of several
    features: tuple[str, ...]
    values: FloatArray  # (N, D); NaN where missing
    labels: IntArray  # (N,)
    scores: FloatArray  # (N,); NaN in the model's warm-up, when the label has no meaning
    clock: Clock
    causes: tuple[Cause, ...] = ()  # latent features of the rows, where the model has them
    measured: FloatArray | None = None  # values as they were, where ``values`` lack their seasons
    names: Mapping[int, str] = field(default_factory=dict)  # given to regimes, by label
    note: str = ""  # what else is to be said under its name
    cut: bool = False  # whether there were rows before these
    numbers: Mapping[int, int] = field(init=False)  # of regimes; none where rows are cut

    def __post_init__(self) -> None:
        numbers = Numbers()
        if not self.cut:
            numbers.see(self.labels[~np.isnan(self.scores)])
        object.__setattr__(self, "numbers", numbers.of)

    def __len__(self) -> int:
        return len(self.labels)

    def name_of(self, label: int) -> str:
        """Say which regime a label is, with the name that somebody gave it."""
        name, number = self.names.get(label), self.numbers.get(label)
        what = f"id {label}" if number is None else f"regime {number}"
        return what + (f" ({name})" if name else "")
