"""The first rows of a stream choose its model: priors compete, and the log score decides.

Nothing is known of the data at first, and a prior that is too broad or too narrow, too ready or too
slow to open tables, costs the whole stream. So a model is rebuilt from all rows so far after 8,
16, 32, .. rows, up to the end of the warm-up: one for each candidate prior, scaled by those rows,
and the one that has predicted them best, each row by those before it, predicts and learns until the
next stage. The sum of these log scores is an estimate of the log evidence, and candidates are
compared by it (`race`) rather than by their bounds: where tables overlap, a bound also pays for not
knowing who sits where, so it prefers one broad table to many long after the broad one predicts
worse.
"""

import logging
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple, Self

import numpy as np

from streamddcrp.contract import BIRTH, DEATH, LABEL, LIVE_TABLES, MERGE, record
from streamddcrp.data.scaled import looks_scaled_on_the_way
from streamddcrp.data.seasons.subtracted import Subtraction
from streamddcrp.likelihoods import Likelihood
from streamddcrp.models.seqddcrp.engine import Engine
from streamddcrp.models.seqddcrp.kernels.known import REPORTED, STRAY, UNREPORTED
from streamddcrp.models.seqddcrp.kernels.layout import (
    LAST_TIME,
    LIKELY,
    N_COLUMNS,
    N_EVENTS,
    NEXT_ID,
    OUTLIER,
    REGIME,
    SETTLED,
    STATE,
)
from streamddcrp.models.seqddcrp.race import FEW, Race
from streamddcrp.models.seqddcrp.recipe import Recipe
from streamddcrp.models.seqddcrp.state import State
from streamddcrp.records import FINITE, VALUE, check, refuse_if
from streamddcrp.typing import FloatArray, IntArray

_log = logging.getLogger(__name__)

FIRST_STAGE = 8  # rows
KEPT = 1024  # rows from which to begin again, where seasons are found after the warm-up


def stages(last: int) -> list[int]:
    """Return after how many rows the model is rebuilt; ``last`` is the last of them."""
    doubling = [FIRST_STAGE << k for k in range(last.bit_length()) if FIRST_STAGE << k < last]
    return [*doubling, last]


class EarlyRows(NamedTuple):
    """Rows of the warm-up, as they are stored."""

    x: Annotated[FloatArray, "N D", VALUE]
    t: Annotated[FloatArray, "N", FINITE]
    labels: Annotated[FloatArray, "N", FINITE]


@dataclass(slots=True)
class WarmUp:
    """The first rows and the model that leads; afterwards, while seasons are sought, the last rows.

    Attributes
    ----------
    last : int
        Rows after which the leader is kept.
    n_rows : int
        Rows so far.
    parts, times, labels : deque of ndarray
        Chunks of rows, their times, and the labels they were given.
    n_held : int
        Rows in the chunks, the first of which may hold rows that are not needed any more.
    """

    last: int
    n_rows: int = 0
    parts: deque[FloatArray] = field(default_factory=deque)
    times: deque[FloatArray] = field(default_factory=deque)
    labels: deque[FloatArray] = field(default_factory=deque)
    n_held: int = 0

    @property
    def rows_to_go(self) -> int | None:
        """Number of rows to the next stage; None if there is none."""
        if self.is_over:
            return None
        return next(stage for stage in stages(self.last) if stage > self.n_rows) - self.n_rows

    @property
    def at_stage(self) -> bool:
        """Whether a model is to be built now."""
        return self.n_rows <= self.last and self.n_rows in stages(self.last)

    @property
    def is_over(self) -> bool:
        """Whether the last stage has been reached."""
        return self.n_rows >= self.last

    @property
    def n_kept(self) -> int:
        """Number of rows from which a model is built."""
        return min(self.n_rows, max(self.last, KEPT))

    @property
    def nbytes(self) -> int:
        """Bytes that the rows take."""
        return sum(part.nbytes for part in (*self.parts, *self.times, *self.labels))

    def arrays(self, n_features: int) -> dict[str, FloatArray]:
        """Return the arrays of a checkpoint, from which `resumed` goes on."""
        times, labels = self._last(self.times), self._last(self.labels)
        return {"early.x": self.rows(n_features), "early.t": times, "early.labels": labels}

    @classmethod
    def resumed(
        cls, last: int, n_rows: int, arrays: Mapping[str, FloatArray], n_features: int
    ) -> Self:
        """Return the warm-up that `arrays` described after so many rows."""
        check(EarlyRows, arrays, {"D": n_features}, "early.")
        x, t, labels = (arrays[f"early.{name}"].copy() for name in ("x", "t", "labels"))
        early = cls(last, n_rows, deque([x]), deque([t]), deque([labels]), len(t))
        refuse_if(early.n_held != early.n_kept, "warm-up")
        return early

    def _last(self, chunks: Iterable[FloatArray]) -> FloatArray:
        return np.concatenate([*chunks])[self.n_held - self.n_kept :]

    def rows(self, n_features: int) -> FloatArray:
        """Return the rows kept; words that came later are missing in earlier ones."""
        rows = np.full((self.n_held, n_features), np.nan)
        done = 0
        for X in self.parts:
            rows[done : done + len(X), : X.shape[1]] = X
            done += len(X)
        return rows[self.n_held - self.n_kept :]

    def take(
        self, leader: Engine | None, X: FloatArray, net: FloatArray, t: FloatArray
    ) -> FloatArray:
        """Let the leader predict and learn rows, net of seasons, up to the next stage at most."""
        if leader is None:
            out = np.full((len(X), N_COLUMNS), np.nan)
            out[:, [LABEL, SETTLED, OUTLIER]], out[:, LIVE_TABLES] = 0, 1
        else:
            out = leader.step(net, t)
        self.parts.append(X.copy())
        self.times.append(t.copy())
        self.labels.append(out[:, LABEL].copy())
        self.n_rows, self.n_held = self.n_rows + len(X), self.n_held + len(X)
        while self.n_held - len(self.times[0]) >= self.n_kept:
            self.n_held -= len(self.times[0])
            for chunks in (self.parts, self.times, self.labels):
                chunks.popleft()
        return out

    def lead(
        self, recipe: Recipe, family: Likelihood, leader: Engine | None, names: list[str],
        first_time: float | None, season: Subtraction | None = None,
    ) -> Engine:  # fmt: skip
        """Build a model for each candidate from all rows so far and return the best one.

        The rows are taken less the seasons as they are known now. The best one's tables take over
        the ids of those tables of the leader whose rows they hold.
        """
        width = max(X.shape[1] for X in self.parts)
        rows, times, said = self.rows(width), self._last(self.times), self._last(self.labels)
        if self.n_rows == min(FEW, self.last) and looks_scaled_on_the_way(rows):
            _log.warning(
                "the rows look as if they came from a scaler that learns as it goes, such as "
                "river's StandardScaler: it pulls regimes towards each other. Leave it out; the "
                "model takes the scale of each column from its first rows"
            )
        if season is not None and season.tracker is not None:
            family, rows = family.on_grid(rows), rows - season.at(times)
        race = Race(recipe, rows, times, self.n_rows, first_time)
        race.run(family, names, None if leader is None else leader.opening)
        chosen, best = race.best.candidate, race.engine
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug(
                "prior by the first %d rows: opening %g, spread %g, reach %g (log score %.1f; "
                "others: %s)",
                self.n_rows, chosen.opening, chosen.spread, best.decay.scale, race.best.score,
                ", ".join(map(str, race.trials)),
            )  # fmt: skip
        if self.is_over:
            _log.info(
                "prior chosen after %d rows: chance of a new regime %g, variance within a regime "
                "%g of the total variance",
                self.n_rows, chosen.opening, chosen.spread,
            )  # fmt: skip
            if recipe.reaches:
                _log.info("links reach back about %g rows", best.decay.scale)
        for remark in best.likelihood.remarks(names):
            _log.log(logging.INFO if self.is_over else logging.DEBUG, "%s", remark)
        old = None if leader is None else leader.state
        _take_over_ids(old, said, best.state, race.labels, self.n_rows - 1)
        return best


def _take_over_ids(
    old: State | None, old_labels: FloatArray, new: State, new_labels: FloatArray, last: int
) -> None:
    """Rename the tables of ``new`` after those of ``old`` that hold the same rows; report the rest.

    ``last`` is the number of the last row.

    Each pair of tables is matched once, those with most rows in common first. A table of ``old``
    without a match has merged into the one that most of its rows are at now.
    """
    alive = {0} if old is None else set(old.table.ids[: old.n_tables].tolist())
    shared = Counter(
        zip(old_labels.astype(int).tolist(), new_labels.astype(int).tolist(), strict=True)
    )
    name: dict[int, int] = {}
    taken: set[int] = set()
    for (was, now), _ in shared.most_common():
        if was in alive and was not in taken and now not in name:
            name[now] = was
            taken.add(was)
    next_id = 1 if old is None else int(old.counts[NEXT_ID])
    ids: IntArray = new.table.ids[: new.n_tables]
    born = new.table.born[: new.n_tables]
    births = []
    reported, before = new.atoms.reported, _reported(old)
    now_t = float(new.sums[LAST_TIME])
    for m, now in enumerate(ids.tolist()):
        if now not in name:
            name[now] = next_id
            next_id += 1
        if name[now] in before:
            reported[m] = REPORTED if reported[m] >= UNREPORTED else REPORTED - STRAY
        elif reported[m] in {REPORTED, REPORTED - STRAY}:
            births.append((name[now], int(born[m])))
        ids[m] = name[now]
    new.counts[NEXT_ID] = next_id
    new.counts[REGIME] = name.get(int(new.counts[REGIME]), -1)
    state = -1 if old is None else int(old.counts[STATE])
    new.counts[STATE] = state if state in taken else name.get(int(new.counts[STATE]), -1)
    new.counts[LIKELY] = -1
    new.counts[N_EVENTS] = 0
    if old is not None:
        new.counts[N_EVENTS] = old.counts[N_EVENTS]
        for target, source in zip(new.events, old.events, strict=True):
            target[:] = source
        for was in before:
            if was not in taken:
                stays = Counter({now: n for (w, now), n in shared.items() if w == was})
                into = name.get(stays.most_common(1)[0][0], -1) if stays else -1
                kind = DEATH if into < 0 else MERGE
                record(new.events, new.counts, N_EVENTS, kind, was, into, last, now_t)
    for label, arrival in births:
        record(new.events, new.counts, N_EVENTS, BIRTH, label, -1, arrival, now_t)


def _reported(state: State | None) -> list[int]:
    """Return the ids of the tables that users know of."""
    if state is None:
        return []
    pairs = zip(state.table.ids, state.atoms.reported[: state.n_tables], strict=False)
    return [int(label) for label, reported in pairs if reported in {REPORTED, REPORTED - STRAY}]
