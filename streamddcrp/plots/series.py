"""A series of rows with their labels, as the time line draws it."""

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

    name: str  # with the key if there are several
    features: tuple[str, ...]
    values: FloatArray  # (N, D); NaN where missing
    labels: IntArray  # (N,)
    scores: FloatArray  # (N,); NaN in the model's warm-up, when labels have no meaning
    clock: Clock
    causes: tuple[Cause, ...] = ()  # latent features of the rows, if the model has them
    measured: FloatArray | None = None  # original values, if ``values`` have seasons subtracted
    names: Mapping[int, str] = field(default_factory=dict)  # names of regimes, by label
    note: str = ""  # a remark below its name
    cut: bool = False  # whether earlier rows are missing
    numbers: Mapping[int, int] | None = None  # of regimes; none if rows are missing

    def __post_init__(self) -> None:
        if self.numbers is None:
            numbers = Numbers()
            if not self.cut:
                numbers.see(self.labels[~np.isnan(self.scores)])
            object.__setattr__(self, "numbers", numbers.of)

    def __len__(self) -> int:
        return len(self.labels)

    def name_of(self, label: int) -> str:
        """Return the regime of a label, with its name if it has one."""
        name, number = self.names.get(label), (self.numbers or {}).get(label)
        what = f"id {label}" if number is None else f"regime {number}"
        return what + (f" ({name})" if name else "")
