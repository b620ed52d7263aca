"""What the model does with seasons: it learns rows less them, and again where some are found."""

import logging

import numpy as np

from streamddcrp.data import Vectorizer
from streamddcrp.data.seasons.subtracted import Subtraction
from streamddcrp.likelihoods import Likelihood, NormalGamma
from streamddcrp.likelihoods.auto import choose_family
from streamddcrp.models.seqddcrp.engine import Engine
from streamddcrp.models.seqddcrp.warmup import WarmUp
from streamddcrp.typing import FloatArray

_log = logging.getLogger(__name__)
SEASON_ROWS = 512  # least warm-up where seasons are to be learned
FAMILY_ROWS = 64  # rows from which on families other than numbers are tried


class InSeason:
    """The part of the model that knows of seasons."""

    _season: Subtraction | None  # None: there are none, and none are looked for
    _early: WarmUp | None
    _stream: Engine | None
    _family: Likelihood | None
    _types: list[str] | None
    _clocked: bool | None
    _is_auto: bool
    _is_given: bool
    _net: list[FloatArray]  # the last batch less its seasons
    _vectorizer: Vectorizer

    def _rows_to_go(self, most: int) -> int:
        """Return the number of rows up to the next after which the model may be rebuilt."""
        assert self._early is not None  # for mypy
        clocked = bool(self._clocked)
        if self._early.contest is not None:
            return 1
        season = None if self._season is None else self._season.rows_to_go(clocked=clocked)
        return min(n for n in (self._early.rows_to_go, season, most) if n is not None)

    def _finds_season(self) -> bool:
        """Whether seasons have just been found, so that the rows kept are to be learned again."""
        if self._season is None or not self._season.is_new or self._is_given:
            return False
        assert self._early is not None  # for mypy
        if self._is_auto and self._season.is_first:
            family = self._family if self._early.is_over else self._family_by_rows
            if not isinstance(family, NormalGamma):
                self._season.settle()
                self._season.tracker = None
                _log.info(
                    'season: left in, as not all columns are numbers; season="auto" takes them '
                    "for numbers"
                )
                return False
            self._family, self._types = NormalGamma(), None
        self._early.last = max(self._early.last, SEASON_ROWS)
        return self._stream is not None

    def _less_season(self, X: FloatArray, t: FloatArray | None, a: int, b: int) -> FloatArray:
        """Return rows a to b of a batch less their seasons, which learn them."""
        if self._season is None:
            return X[a:b]
        self._net.append(self._season.step(X[a:b], None if t is None else t[a:b]))
        return self._net[-1]

    @property
    def _has_season(self) -> bool:
        """Whether the next batch may be learned less its seasons."""
        return self._season is not None and not self._season.is_over

    def _forget_early_rows(self) -> None:
        """End the warm-up where it is over, no contest goes on and no season is sought."""
        seeks = self._season is not None and self._season.seeks and not self._is_given
        if self._early is not None and self._early.is_over and self._early.contest is None:
            self._early = self._early if seeks else None

    def _end_contest(self) -> None:
        """Let the best of the candidates lead at once, where a contest goes on."""
        if self._early is not None:
            names = self._vectorizer.names
            self._stream = self._early.go_on(self._stream, names, at_once=True)

    def _keep_season(self) -> None:
        """Keep to the seasons in use: what the model is compared with is not to change."""
        if self._season is not None:
            self._season.settle()
            self._forget_early_rows()

    def _rows_less_season(self) -> FloatArray:
        """Return the rows of the last batch, less their seasons, where it may have some."""
        return np.concatenate([np.empty((0, self._vectorizer.n_features)), *self._net])

    @property
    def _in_season(self) -> bool:
        """Whether seasons are subtracted."""
        return self._season is not None and self._season.tracker is not None

    @property
    def _family_by_now(self) -> Likelihood:
        """The family at this stage, whatever the batch at hand holds behind it."""
        by_rows = self._is_auto and self._early is not None and not self._early.is_over
        if self._family is not None and (self._in_season or not by_rows):
            return self._family
        return self._family_by_rows

    @property
    def _family_by_rows(self) -> Likelihood:
        """The family that the rows so far suggest."""
        if self._early is None or self._early.n_rows < FAMILY_ROWS:
            return NormalGamma()
        rows = self._early.rows(self._vectorizer.n_features)
        return choose_family(rows, self._types)
