"""Regimes over the states of an engine, and their stays: `kernels.regimes` on arrays it owns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Self

import numpy as np

from streamddcrp.compilation import entry_point
from streamddcrp.models.seqddcrp.kernels import regimes as kernel
from streamddcrp.models.seqddcrp.kernels import stays
from streamddcrp.records import (
    FINITE,
    MOST,
    PREPARED,
    WEIGHT,
    Array,
    Within,
    arrays_of,
    check_one,
    counters,
    empty,
    nbytes_of,
    refuse_if,
    restore,
    up_to,
)
from streamddcrp.typing import FloatArray, IntArray

WIDEST = 64  # columns; wider tables have no regimes over states, as a stay would cost 1 ms
_ID = Within(-1, MOST)


class Past(NamedTuple):
    """Remembered stays, sums over the present one and over all rows, stays counted for users."""

    state: Annotated[IntArray, "V:U"]
    regime: Annotated[IntArray, "V:U"]
    rows: Annotated[IntArray, "V:U"]
    features: Annotated[FloatArray, "V:U 5 D", PREPARED]
    seam: Annotated[FloatArray, "V:U", FINITE]
    near: Annotated[FloatArray, "R D", PREPARED]
    bends: Annotated[FloatArray, "2 D", PREPARED]
    jumps: Annotated[FloatArray, "D", PREPARED]
    present: Annotated[FloatArray, "6 D", PREPARED]
    overall: Annotated[FloatArray, "3 D", PREPARED]
    # By regime: number of stays and their rows, and their successors.
    stay_ids: Annotated[IntArray, "Y", _ID, -1]
    stays: Annotated[FloatArray, "Y 2", WEIGHT]
    successors: Annotated[FloatArray, "Y Y", WEIGHT]


class Scratch(NamedTuple):
    """Work space of the kernels."""

    y: Annotated[FloatArray, "W"]
    noise: Annotated[FloatArray, "W"]
    sums: Annotated[FloatArray, "W B 4"]
    prior: Annotated[FloatArray, "B"]
    work: Annotated[FloatArray, "B"]
    sizes: Annotated[FloatArray, "V"]
    gain: Annotated[FloatArray, "V"]
    join: Annotated[FloatArray, "V"]
    places: Annotated[IntArray, "V"]
    before: Annotated[IntArray, "V"]
    order: Annotated[IntArray, "V"]
    named: Annotated[IntArray, "V"]


_LENGTHS = {
    "V": stays.STAYS, "W": stays.STAYS + 2, "B": stays.LADDER, "Y": kernel.PLACES, "R": stays.NEAR,
}  # fmt: skip
_SCRATCH = empty(Scratch, _LENGTHS)  # no call leaves anything there
_ROWS = (kernel.N_SEEN, kernel.SINCE, kernel.BEGAN, kernel.ENDED)
COUNTS = counters(
    dict.fromkeys(_ROWS, up_to("N"))
    | dict.fromkeys((kernel.STATE, kernel.SHOWN, kernel.STAYING), _ID)
)


@dataclass(slots=True)
class Regimes:
    """Regimes over states; ``past.features`` has no columns where states are the regimes."""

    past: Past
    counts: Annotated[IntArray, COUNTS]

    @classmethod
    def over(cls, n_features: int) -> Self:
        """Return regimes before the first row."""
        past = empty(Past, _LENGTHS | {"D": n_features if n_features <= WIDEST else 0})
        counts = np.zeros(kernel.N_COUNTS, np.int64)
        counts[[kernel.STATE, kernel.SHOWN, kernel.STAYING]] = -1
        return cls(past, counts)

    @property
    def groups(self) -> tuple[Any, ...]:
        """The arrays that the kernel takes first."""
        return self.past, self.counts, _SCRATCH

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return nbytes_of(self)

    def step(self, rows: FloatArray, out: FloatArray, upto: int) -> None:
        """Learn rows (N, D), minus seasons, whose states are in ``out``; write regimes there.

        ``upto``: rows after them; no row is learned twice.
        """
        known = max(len(out) - (upto - int(self.counts[kernel.N_SEEN])), 0)
        self.counts[kernel.N_SEEN] = upto - len(out) + known
        rows, told = np.ascontiguousarray(rows[known:, : self.past.present.shape[1]]), out[known:]
        entry_point(kernel.step_regimes)(*self.groups, rows, told)

    def of(self, state: int) -> int:
        """Return the regime of a state: its id unless a stay in it is remembered."""
        at = np.flatnonzero(self.past.state[: self._used["U"]] == state)
        return int(self.past.regime[at[0]]) if len(at) else state

    def kept(self) -> dict[str, Array]:
        """Return copies of the arrays, for a checkpoint."""
        return {f"regimes.{name}": array for name, array in arrays_of(self, self._used).items()}

    @property
    def _used(self) -> dict[str, int]:
        used = int(stays.n_past(self.counts))
        return _LENGTHS | {"U": used, "D": self.past.present.shape[1]}

    @classmethod
    def resumed(cls, arrays: Mapping[str, Array], n_features: int, n_seen: int) -> Self:
        """Rebuild from `kept`; raises CheckpointError."""
        part = "regimes."
        own = {k.removeprefix(part): v for k, v in arrays.items() if k.startswith(part)}
        found = cls.over(n_features)
        refuse_if("counts" not in own, "regimes")
        check_one("counts", own["counts"], found.counts.shape, np.int64, COUNTS, {"N": n_seen})
        found.counts[:] = own["counts"]
        restore(found, found._used | {"N": n_seen}, own)
        return found
