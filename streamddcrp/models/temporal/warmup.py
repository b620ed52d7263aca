"""Numeric rows collected until their scales can be chosen."""

import logging
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from streamddcrp.contract import SCORE
from streamddcrp.data.epochs import Piece
from streamddcrp.models.temporal.emissions import Emission
from streamddcrp.models.temporal.engine import Engine
from streamddcrp.models.temporal.stream import StreamState
from streamddcrp.models.temporal.window import Settings
from streamddcrp.typing import FloatArray, IntArray

_log = logging.getLogger(__name__)


class WarmUp(NamedTuple):
    """Rows collected for choosing scales, with the numbers and times of their epochs."""

    X: FloatArray
    number: IntArray
    t: FloatArray

    def and_then(self, X: FloatArray, piece: Piece) -> "WarmUp":
        """Return these rows and further ones."""
        return WarmUp(
            np.concatenate([self.X.reshape(-1, X.shape[1]), X]),
            np.concatenate([self.number, np.full(len(X), piece.number)]),
            np.concatenate([self.t, np.full(len(X), piece.time)]),
        )

    def is_over(self, warmup: int, number: int) -> bool:
        """Whether there are enough rows, and epoch ``number`` is later than theirs."""
        return len(self.X) >= warmup and number > self.number[-1]

    def best(self, candidates: Sequence[Emission], settings: Settings) -> StreamState:
        """Return the state with the emission that predicts the rows best."""
        tried = [self._learned(StreamState(Engine(settings, emission))) for emission in candidates]
        best = int(np.argmin([surprise for _, surprise in tried]))
        _log.info(
            "prior of clusters chosen after %d rows: the best of %d guesses of their spread",
            len(self.X),
            len(tried),
        )
        return tried[best][0]

    def _learned(self, state: StreamState) -> tuple[StreamState, float]:
        """Learn the rows; return the state and their surprise."""
        surprise = 0.0
        starts = [0, *(np.flatnonzero(np.diff(self.number)) + 1).tolist()]
        for a, b in zip(starts, [*starts[1:], len(self.X)], strict=True):
            state.go_to(int(self.number[a]))
            surprise += float(state.seat(self.X[a:b], float(self.t[a]))[:, SCORE].sum())
        return state, surprise


NO_ROWS = WarmUp(np.empty((0, 0)), np.empty(0, np.int64), np.empty(0))
