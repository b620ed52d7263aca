"""The first rows of a temporal mixture, which wait until its scales can be chosen."""

import logging
from typing import Any, NamedTuple

import numpy as np

from streamddcrp.contract import SCORE
from streamddcrp.data.times import Piece
from streamddcrp.models.temporal.engine import Engine, Settings
from streamddcrp.models.temporal.evolving import Evolving
from streamddcrp.typing import FloatArray, IntArray

_log = logging.getLogger(__name__)


class Waiting(NamedTuple):
    """Rows of the warm-up, with the numbers and times of their epochs."""

    X: FloatArray
    number: IntArray
    t: FloatArray

    def and_then(self, X: FloatArray, piece: Piece) -> "Waiting":
        """Return these rows and more."""
        return Waiting(
            np.concatenate([self.X.reshape(-1, X.shape[1]), X]),
            np.concatenate([self.number, np.full(len(X), piece.number)]),
            np.concatenate([self.t, np.full(len(X), piece.time)]),
        )

    def is_ripe(self, warmup: int, number: int) -> bool:
        """Whether there are enough rows, and epoch ``number`` is later than theirs."""
        return len(self.X) >= warmup and number > self.number[-1]

    def found(self, laws: list[Any], settings: Settings) -> Evolving:
        """Return the model, of several with different scales, that the rows surprised least."""
        tried = [self._taught(Evolving(Engine(settings, law))) for law in laws]
        best = int(np.argmin([surprise for _, surprise in tried]))
        _log.info("scales: guess %d of %d, by the first %d rows", best + 1, len(laws), len(self.X))
        return tried[best][0]

    def _taught(self, model: Evolving) -> tuple[Evolving, float]:
        """Let a model learn the rows; return it and how much they surprised it."""
        surprise = 0.0
        starts = [0, *(np.flatnonzero(np.diff(self.number)) + 1).tolist()]
        for a, b in zip(starts, [*starts[1:], len(self.X)], strict=True):
            model.go_to(int(self.number[a]))
            surprise += float(model.seat(self.X[a:b], float(self.t[a]))[:, SCORE].sum())
        return model, surprise


NOTHING = Waiting(np.empty((0, 0)), np.empty(0, np.int64), np.empty(0))
