"""Seasons in the model: rows are learned without them, and again when one is found."""

import logging
from copy import deepcopy

import numpy as np

from streamddcrp.data import Vectorizer
from streamddcrp.data.laws.columns import Laws
from streamddcrp.data.seasons.subtracted import Subtraction
from streamddcrp.likelihoods import Likelihood, NormalGamma
from streamddcrp.likelihoods.auto import choose_family, counts_of, numbers_of
from streamddcrp.models.seqddcrp.engine import Engine
from streamddcrp.models.seqddcrp.recipe import Recipe
from streamddcrp.models.seqddcrp.warmup import CLEAR_LEAD, WarmUp
from streamddcrp.typing import FloatArray

_log = logging.getLogger(__name__)
SEASON_ROWS = 512  # least warm-up if seasons are to be learned
FAMILY_ROWS = 64  # rows before families other than numbers are tried


class InSeason:
    """The part of the model that handles seasons."""

    _season: Subtraction | None  # None: seasons are neither used nor sought
    _laws: Laws | None  # None: columns are learned unchanged
    _early: WarmUp | None
    _stream: Engine | None
    _family: Likelihood | None
    _types: list[str] | None
    _clocked: bool | None
    _is_auto: bool
    _is_given: bool
    _net: list[FloatArray]  # the last batch minus its seasons
    _vectorizer: Vectorizer
    _recipe: Recipe
    _first_time: float

    @property
    def _origin(self) -> float | None:
        """Time of the first row; None if rows have no times."""
        return self._first_time if self._clocked else None

    def _rows_to_go(self, most: int) -> int:
        """Return the number of rows until the model may be rebuilt."""
        assert self._early is not None  # for mypy
        clocked = bool(self._clocked)
        if self._early.contest is not None:
            return 1
        season = None if self._season is None else self._season.rows_to_go(clocked=clocked)
        look = None if self._laws is None else self._laws.next_look
        law = None if look is None else look - self._early.n_rows
        return min(n for n in (self._early.rows_to_go, season, law, most) if n is not None)

    def _finds_season(self) -> bool:
        """Whether seasons were just found, so that stored rows are to be learned again."""
        if self._season is None or self._is_given:
            return False
        assert self._early is not None  # for mypy
        if not self._season.is_new:
            return self._leaves_season(self._season)
        self._early.rescale(self._season, self._laws, self._vectorizer.n_features)
        if self._is_auto:
            family = self._family_by_now
            if self._season.is_first and not self._early.is_over:
                family = self._family_by_rows
            if not self._season.keep_to(numbers_of(family, self._vectorizer.n_features)):
                self._season.settle()
                _log.info(
                    'season: left in, as its columns are no numbers; season="auto" takes them '
                    "for numbers"
                )
                return False
        else:
            family = self._family_by_now
        if self._season.is_sought and not self._is_predicted(family):
            self._season.refuse(clocked=bool(self._clocked))
            return False
        if self._is_auto:
            self._family, self._types = family.unscaled(), None
        self._early.last = max(self._early.last, SEASON_ROWS)
        return self._stream is not None

    def _leaves_season(self, season: Subtraction) -> bool:
        """Whether columns lose their season because laws and tables predict as well without."""
        if season.doubted is None:
            return False
        left = season.doubted
        season.leave(left)
        if not self._is_predicted(self._family_by_now, -CLEAR_LEAD):
            season.stay()
            return False
        names = [name for name, gone in zip(self._vectorizer.names, left, strict=True) if gone]
        _log.info("season: not of %s any more", ", ".join(map(repr, names)))
        return self._stream is not None

    def _is_predicted(self, family: Likelihood, least: float = CLEAR_LEAD) -> bool:
        """Whether the present seasons lead the earlier ones: tables know other cycles."""
        assert self._early is not None  # for mypy
        assert self._season is not None
        names, width = self._vectorizer.names, self._vectorizer.n_features
        free, rivals, factors = numbers_of(family, width).tolist(), [], []
        for season in (self._season.before(), self._season):
            laws = Laws() if self._laws is None else deepcopy(self._laws)
            rows = self._early.rows_less_season(season, laws, width)
            if laws.subtracts:
                laws.look(rows, self._early.n_rows, free, names, from_scratch=True)
                rows = laws.begin(rows)
            rivals.append((laws.as_numbers(family), rows))
            factors.append(self._early.log_factors(season))
        least += factors[1] - factors[0]
        return self._early.leads(self._recipe, rivals, names, self._origin, least)

    def _less_season(
        self, X: FloatArray, t: FloatArray | None, a: int, b: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return rows a to b of a batch minus their season, and minus what their past predicts."""
        net = X[a:b] if self._laws is None else self._laws.held.step(X[a:b])
        if self._season is not None:
            net = self._season.step(net, None if t is None else t[a:b])
        level = net
        if self._laws is not None:
            net = self._laws.step(net)
        self._net.append(net)
        return level, net

    @property
    def _seeks(self) -> bool:
        """Whether seasons or laws are still sought."""
        seeks = self._season is not None and self._season.seeks and not self._is_given
        return seeks or (self._laws is not None and self._laws.next_look is not None)

    def _finds_law(self, *, from_scratch: bool) -> bool:
        """Whether a check for laws was due and has just found some.

        ``from_scratch``: the seasons have changed, so the laws may change.
        """
        early, laws = self._early, self._laws
        if early is None or laws is None or not (from_scratch or early.n_rows == laws.next_look):
            return False
        names, width = self._vectorizer.names, self._vectorizer.n_features
        kept, family = early.rows(width), self._family_by_now
        free = numbers_of(family, width)  # only numbers have laws, and counts, which become numbers
        others_held = laws.look_for_held(kept, free.tolist(), names)
        if self._is_auto:
            free |= counts_of(family, width) & (np.nanmax(kept, axis=0, initial=0.0) > 1.0)
        rows = early.rows_less_season(self._season, laws, width)
        changed = laws.look(
            rows, early.n_rows, free.tolist(), names, from_scratch=from_scratch or others_held
        )
        if not (changed and early.is_over) or laws.subtracts or others_held:
            return (changed or others_held) and early.is_over
        return early.would_predict(laws, self._recipe, family, names, self._origin, self._season)

    def _forget_early_rows(self) -> None:
        """End the warm-up if it is over, with no contest or search for seasons going on."""
        if self._early is not None and self._early.is_over and self._early.contest is None:
            self._early = self._early if self._seeks else None
            if self._early is None and self._laws is not None and not self._laws.in_use:
                self._laws = None

    def _end_contest(self) -> None:
        """Finish a contest at once, so that its best candidate leads."""
        if self._early is not None:
            names = self._vectorizer.names
            self._stream = self._early.go_on(self._stream, names, at_once=True)

    def _keep_season(self) -> None:
        """Keep the present seasons, since a comparison needs a constant model."""
        if self._season is not None:
            self._season.settle()
        if self._laws is not None:
            self._laws.settle()
        self._forget_early_rows()

    def _rows_less_season(self) -> FloatArray:
        """Return the last batch's rows minus their seasons, if it may have any."""
        return np.concatenate([np.empty((0, self._vectorizer.n_features)), *self._net])

    @property
    def _in_season(self) -> bool:
        return self._season is not None and self._season.tracker is not None

    @property
    def _family_by_now(self) -> Likelihood:
        """The family at this stage, whatever follows in the present batch."""
        by_rows = self._is_auto and self._early is not None and not self._early.is_over
        if self._family is not None and (self._in_season or not by_rows):
            return self._family
        return self._family_by_rows

    @property
    def _family_by_rows(self) -> Likelihood:
        """The family suggested by the rows so far."""
        if self._early is None or self._early.n_rows < FAMILY_ROWS:
            return NormalGamma()
        rows = self._early.rows(self._vectorizer.n_features)
        return choose_family(rows, self._types)
