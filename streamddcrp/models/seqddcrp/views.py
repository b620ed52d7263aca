"""The user's view of a streaming model: bound, events, live tables, labels of the window."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import scipy

from streamddcrp.contract import KINDS, Event
from streamddcrp.data.laws.columns import Laws
from streamddcrp.data.seasons.subtracted import Subtraction
from streamddcrp.estimator.reasons import Explanation, differences, explanation, parts_of
from streamddcrp.estimator.row_model import Features, RowModel
from streamddcrp.estimator.standing import SAME, Standing, chance_of_stay
from streamddcrp.estimator.views import (
    Backlog,
    events_since,
    no_tables,
    predictions,
    with_parameters,
)
from streamddcrp.models.seqddcrp.engine import Engine, bound
from streamddcrp.models.seqddcrp.kernels import layout
from streamddcrp.models.seqddcrp.kernels.reasons import NOTES, NUMBER, WRITTEN
from streamddcrp.models.seqddcrp.kernels.regimes import BEGAN, N_SEEN, STAYING
from streamddcrp.models.seqddcrp.reference import Reference, reference_of
from streamddcrp.models.seqddcrp.regimes import Regimes
from streamddcrp.models.seqddcrp.state import live_columns
from streamddcrp.models.seqddcrp.warmup import WarmUp
from streamddcrp.plots.segments import Numbers
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp.validation import VERDICTS, choice, whole

_EXPLAINED = ("birth", "return", "split")
_NEW = 20  # rows for which a regime does not count as usual


class TableViews(RowModel):
    """The part of the model that only shows results."""

    _stream: Engine | None
    _early: WarmUp | None
    _season: Subtraction | None
    _laws: Laws | None
    _first_time: float
    _regimes: Regimes
    _backlog: Backlog
    _rows_less_season: Any
    _states: FloatArray  # of the last batch's rows, and of the row before
    _marks: dict[int, tuple[str, str]]
    _numbers: Numbers
    _watch: Any  # notified before and after rows are learned, some at a time
    window: int

    def _named(self, out: FloatArray) -> pa.RecordBatch:
        outlier = pa.array(out[:, layout.OUTLIER] > 0.0)
        state = pa.array(out[:, layout.SETTLED].astype(np.int64))
        return predictions(out).append_column("outlier", outlier).append_column("state", state)

    @property
    def n_tables(self) -> int:
        """Number of live tables: those with at least half an expected row."""
        return 0 if self._stream is None else len(live_columns(self._stream.state))

    @property
    def bound(self) -> float:
        """Exact lower bound on the log evidence of everything learned so far; NaN in warm-up."""
        if self._stream is None:
            return math.nan if self._n_seen else 0.0
        return bound(self._stream.config, self._stream.state)

    objective = bound

    def events(self) -> list[Event]:
        """Return the table events since the last call.

        Includes all of the last call that learned, and the last 256 before it.
        """
        if self._stream is None:
            return []
        log, read = self._stream.state.events, self._events_read
        self._events_read = self._n_events
        found = events_since(log, self._events_read, read, 0.0, 1.0, self._backlog)
        self._note_reasons()
        return [self._described(event) for event in found]

    def _described(self, event: Event) -> Event:
        """Give an event the number of its regime, and reasons."""
        number = self._numbers.of.get(self._regimes.of(event.label))
        event = event if number is None else replace(event, number=number)
        return self._reasons(event) if event.kind in _EXPLAINED else event

    @property
    def _n_events(self) -> int:
        return 0 if self._stream is None else int(self._stream.state.counts[layout.N_EVENTS])

    def _keep_events(self) -> None:
        """Copy events and their notes before later rows overwrite them."""
        if self._stream is not None:
            self._backlog.keep(self._stream.state.events, self._n_events)
        self._note_reasons()

    def _note_reasons(self) -> None:
        """Copy notes on events since the last time, in the present units."""
        if self._stream is None:
            return
        log, scratch, notes = self._stream.state.events, self._stream.state.scratch, self._backlog
        made = int(scratch.noted[NOTES])
        if made == notes.noted:
            return
        is_held = scratch.told[:, NUMBER] >= self._n_events - len(log.kind)
        for place in np.flatnonzero(is_held & (scratch.told[:, WRITTEN] > notes.noted)).tolist():
            i = int(scratch.told[place, NUMBER]) % len(log.kind)
            into = int(log.into[i]) if log.into[i] >= 0 else None
            mark = KINDS[log.kind[i]], int(log.label[i]), into, int(log.arrival[i])
            notes.reasons[mark] = self._noted(mark, scratch.views[place].copy())
        notes.noted = made

    def _noted(self, mark: Any, views: FloatArray | None) -> tuple[Any, FloatArray | None]:
        """Return how an event's regime differs, as of now."""
        assert self._stream is not None  # for mypy
        _, label, into, index = mark
        views = self._stream.compare(label, into, index) if views is None else views
        return self._stream.likelihood, views

    def _reasons(self, event: Event) -> Event:
        """Describe how an event's regime differs from others, and when it began."""
        assert self._stream is not None  # for mypy
        mark = event.kind, event.label, event.into, event.index
        likelihood, views = self._backlog.reasons.get(mark) or self._noted(mark, None)
        between = event.between
        if between is None and event.into is None:
            between = self._stream.began(event.label, event.index)
        found: list[Any] = []
        if views is not None:
            others: Any = views[: 3 if event.kind == "return" else 2]
            found = differences(likelihood, others, self._feature_names())
        return replace(
            event, between=between, **dict(zip(("reasons", "unlike"), found, strict=False))
        )

    def summary(self) -> pa.Table:
        """Return one row for each live table.

        ``id``; ``weight``, the expected number of rows that it remembers; ``regime``, the id of its
        state in the column ``state`` of `step_many`, which several tables may share; ``number``, as
        reports and the page count them: states that lasted for three rows, in the order in which
        they did, null if it has not or if 4,096 others have since; ``rows`` and ``visits``, the
        number of rows most probably there, and of their runs; ``stay``, the length of a stay in its
        regime in rows, null if `transitions` does not give it; ``born`` and ``last_seen``, arrival
        indices (``last_seen`` is null if no row was most probably there); the likelihood's
        `point_estimates`, one column for each feature; last ``name`` and ``verdict``, see `mark`.
        """
        if self._stream is None:
            return no_tables(
                regime=pa.int64(), number=pa.int64(), rows=pa.int64(), visits=pa.int64(),
                stay=pa.float64(),
            )  # fmt: skip
        state, live = self._stream.state, live_columns(self._stream.state)
        ids, last_seen = state.table.ids[live], state.table.last_seen[live]
        stays = {row["state"]: row["rows"] for row in self.transitions().to_pylist()}
        regimes = [self._regimes.of(label) for label in ids.tolist()]
        columns = {
            "id": ids, "weight": state.table.stats[live, 0],
            "regime": pa.array(regimes, pa.int64()),
            "number": pa.array([self._numbers.of.get(label) for label in regimes], pa.int64()),
            "rows": state.atoms.n_rows[live],
            "visits": state.atoms.n_visits[live],
            "stay": pa.array([stays.get(label) for label in regimes], pa.float64()),
            "born": state.table.born[live],
            "last_seen": pa.array(last_seen, mask=last_seen < 0),
        }  # fmt: skip
        stats, features = state.table.stats[live], self._feature_names()
        table = with_parameters(columns, stats, self._stream.likelihood, features)
        marks = [self._marked(label) for label in ids.tolist()]
        for place, name in enumerate(("name", "verdict")):
            words = pa.array([mark[place] for mark in marks], pa.string())
            table = table.append_column(name, words)
        return table

    def mark(self, label: int, name: str = "", verdict: str = "normal") -> None:
        """Name a regime, and mark it as normal, planned or a fault; the state stores both.

        `summary` shows them. For a planned regime `RegimeAnomalyDetector` raises no alarm; for a
        fault it raises one as soon as the regime is the state of the stream.

        Parameters
        ----------
        label : int
            Id of the regime.
        name : str
        verdict : {"normal", "planned", "fault"}
        """
        self._marks[whole("label", label, 0)] = (str(name), choice("verdict", verdict, VERDICTS))

    def _marked(self, label: int) -> tuple[str | None, str]:
        """Return the name and verdict of an id, else those of another id of its regime."""
        found: tuple[str | None, str] = (None, "normal")
        regime = self._regimes.of(label)
        for other, mark in self._marks.items():
            found = mark if self._regimes.of(other) == regime else found
        return self._marks.get(label, found)

    @property
    def verdicts(self) -> dict[int, str]:
        """The verdict on each marked regime, by all its ids."""
        marks = self._marks.items()
        found = {self._regimes.of(label): verdict for label, (_, verdict) in marks}
        return found | {label: verdict for label, (_, verdict) in marks}

    def transitions(self) -> pa.Table:
        """Return how long states last, and their usual successors; one row for each state.

        Uses the column ``state`` of `step_many`, for the 16 states with most stays. The present
        stay counts as censored.

        Returns
        -------
        pyarrow.Table
            ``state`` (int64); ``stays`` (int64), the number of ended stays; ``rows`` (float64), the
            posterior median of the mean length of a stay, with its 0.95 interval ``rows_low`` to
            ``rows_high``, if rows end a stay independently of each other; ``present``, the length
            of the present stay so far, and ``longer``, the probability of such a length given
            earlier stays: near 0, it is unusually long; null if no stay in that state has ended;
            ``following``, a list of ``state`` and ``probability``, the most probable first: the
            posterior mean of a Dirichlet distribution with weight 1 for all states together, with
            -1 for a state not seen yet. Equation (9) of ``docs/math/states_over_tables.md``.
        """
        return _STAYS.empty_table() if self._stream is None else stays_of(self._regimes)

    def _standing(self, key: Any = None) -> Standing | None:
        """Return the stream's present state; None in warm-up."""
        if self._stream is None:
            return None
        engine, state, past = self._stream, self._stream.state, self._regimes.past
        counts, log = state.counts, state.events
        label, since = self._regimes.counts[[STAYING, BEGAN]].tolist()
        stays = dict(zip(past.stay_ids.tolist(), past.stays.tolist(), strict=True))
        n, total = stays.get(label, (0.0, 0.0))
        at = since - int(counts[layout.N_SEEN] - counts[layout.N_ROWS])
        mine = np.flatnonzero((log.label == label) & (np.abs(log.arrival - since) <= SAME))
        began = float(log.begun[mine[-1]]) if len(mine) else math.nan
        if 0 <= at < counts[layout.N_ROWS]:
            began = float(state.rows.clock[at])
        past = since > int(counts[layout.N_SEEN]) - since
        share = min(total / since, 1.0) if past else 1.0
        event = Event("birth", label, since, began)
        reasons = self._reasons(event).reasons if since else ()
        pace = engine.time_unit if engine.clocked else 1.0
        name, verdict = self._marked(label)
        rows = int(counts[layout.N_SEEN]) - since
        longer = chance_of_stay(n, total, rows)
        number = self._numbers.of.get(label)
        return Standing(
            key, label, rows, began, share, longer, reasons, pace, name, verdict, number
        )

    def column_laws(self) -> dict[Hashable, str]:
        """Return each column's law: what is subtracted before its rows are clustered."""
        names = self._feature_names()
        return dict.fromkeys(names, "level") if self._laws is None else self._laws.in_words(names)

    def reference(self, ids: Sequence[int] | None = None) -> Reference:
        """Return a frozen copy of tables, to measure the surprise of later rows.

        Parameters
        ----------
        ids : sequence of int, optional
            Ids of live tables. Default: all with at least 5 expected rows.

        Raises
        ------
        ConfigError
            In warm-up, or if an id is not a live table's.
        """
        return reference_of(self._stream, self._vectorizer, ids)

    def recent_labels(self) -> IntArray:
        """Return the present labels of the last rows, oldest first.

        A row's label in `step_many` was given before the row was learned; these labels use later
        rows. If tables are rarely opened they are the most probable path of tables through these
        rows, so that similar tables do not alternate. The rows are those whose links may still
        change: the last ``window`` to ``window + sweep_every``, fewer at the start of a stream; all
        0 in warm-up.

        Returns
        -------
        ndarray of int64
        """
        if self._stream is None:
            return np.zeros(self._n_seen, dtype=np.int64)
        ids: IntArray = self._stream.state.table.ids[self._stream.path()]
        return ids

    def _row_less_season(self, x: FloatArray, t: float) -> FloatArray:
        """Return a row (D,) minus the seasons of its time, as learned; changes nothing."""
        if self._early is not None and self._early.leads_raw:
            return x
        if self._laws is not None:
            x = self._laws.held.step(x[None], learn=False)[0]
        if self._season is not None:
            x = self._season.less(x[None], np.array([t]))[0]
        return x if self._laws is None else self._laws.less(x)

    def explain_one(self, x: Any, t: Any = None, **side: Any) -> Explanation:
        row, names, time = self._as_row(x, t)
        if self._stream is None:
            return explanation((), 0.0, 0.0)
        net = self._row_less_season(row, time)
        return self._in_words(names, row, net, self._stream.explain(net, time))

    def explain_learned(self, x: Features, ago: int) -> Explanation | None:
        """Explain a row of the last batch by the previous row's state, as that state is now.

        Parameters
        ----------
        x : mapping
            The row.
        ago : int
            Its position from the end of the last learned batch: 1 for the last row.

        Returns
        -------
        Explanation or None
            None if the row is not of that batch, or needs earlier rows that are no longer stored.
        """
        if self._stream is None:
            return None
        ago = whole("ago", ago, 1)
        return self._explain_learned(self._read(x)[0][0], ago, self._usual(ago))

    def _usual(self, ago: int) -> Reference:
        """Return what the state before a row of the last batch expects.

        If that state has no table, is unknown, or is itself new, uses the last earlier table that
        was there for longer.
        """
        assert self._stream is not None  # for mypy
        state = self._stream.state
        columns, row = live_columns(state), int(state.counts[layout.N_SEEN]) - ago
        born = dict(zip(state.table.ids[columns].tolist(), state.table.born[columns], strict=True))
        label: int | None = int(self._states[-ago - 1]) if ago < len(self._states) else -1
        if born.get(label, row) > row - _NEW:
            before = self._stream.before(-1 if label is None else label, row)
            label = label if before is None and label in born else before
        return self.reference([label] if label is not None and label in born else None)

    def _explain_learned(self, row: FloatArray, ago: int, usual: Reference) -> Explanation | None:
        """Explain a row (D,) of the last batch by its surprise to a reference."""
        net = self._rows_less_season()
        lags, at = 0 if usual.past is None else len(usual.past), len(net) - ago
        if at < lags:
            return None
        past = net[at - lags : at] if lags else None
        found = usual._explain_row(net[at], past)
        return self._in_words(self._feature_names(), row, net[at], found)

    def _explain_to(
        self, reference: Reference, x: Features, t: Any, past: FloatArray | None
    ) -> Explanation:
        row, names, time = self._as_row(x, t)
        net = self._row_less_season(row, time)
        return self._in_words(names, row, net, reference._explain_row(net, past))

    def _in_words(
        self, names: list[str], row: FloatArray, net: FloatArray, found: tuple[int, Any]
    ) -> Explanation:
        """Return an explanation of a row, or of it minus seasons, in the row's units."""
        regime, (at, (score, excess), surprise, view) = found
        if net is not row:
            factor = 1.0 if self._season is None else self._season.factors(row, net)
            view[0] = factor * view[0] + (row - factor * net)
            view[1] *= factor
        return explanation(parts_of(names, row, at, surprise, view), score, excess, regime)

    def _as_row(self, x: Features, t: Any) -> tuple[FloatArray, list[str], float]:
        """Return a checked row to explain (D,), its column names, and its time."""
        X, names = self._read(x)
        if self._stream is not None:
            self._check_rows(X, names)
        return X[0], names, self._time_of(t)

    def _surprise_to(self, reference: Reference, x: Features, t: Any) -> float:
        """Return a row's surprise to a reference, with the seasons of its time subtracted."""
        if self._season is None and self._laws is None:
            return reference.score_one(x)
        X = self._vectorizer.row(x, learn=False)
        net = self._row_less_season(X[0], self._time_of(t))
        return float(reference._score_rows(net[None])[0])


_FOLLOWING = pa.list_(pa.struct([("state", pa.int64()), ("probability", pa.float64())]))
_STAYS = pa.schema([
    ("state", pa.int64()), ("stays", pa.int64()), ("rows", pa.float64()),
    ("rows_low", pa.float64()), ("rows_high", pa.float64()), ("present", pa.int64()),
    ("longer", pa.float64()), ("following", _FOLLOWING),
])  # fmt: skip


def stays_of(regimes: Regimes) -> pa.Table:
    """Return one row for each state that has ended a stay or is present."""
    past, counts = regimes.past, regimes.counts
    present, since = int(counts[STAYING]), int(counts[N_SEEN] - counts[BEGAN])
    places = np.flatnonzero(past.stay_ids >= 0)
    ids = past.stay_ids[places].tolist()
    ended = dict(zip(ids, past.stays[places].tolist(), strict=True))
    ended.setdefault(present, [0.0, 0.0])
    followed = dict(zip(ids, past.successors[np.ix_(places, places)].tolist(), strict=True))
    rows = []
    for label in sorted(ended):
        n, total = ended[label]
        here = label == present
        longer = chance_of_stay(n, total, since) if here and n else None
        total += since if here else 0
        others = [other for other in ids if other != label]
        seen = dict(zip(ids, followed.get(label, [0.0] * len(ids)), strict=True)) | {-1: 0.0}
        share = 1.0 / (len(others) + 1)
        whole = sum(seen.values()) + 1.0
        chances = {k: (seen[k] + share) / whole for k in [*others, -1]}
        high, middle, low = (
            1.0 / float(scipy.special.betaincinv(n + 0.5, total - n + 0.5, p))
            for p in (0.025, 0.5, 0.975)
        )
        following = sorted(chances.items(), key=lambda pair: -pair[1])
        rows.append({
            "state": label, "stays": int(n), "rows": middle, "rows_low": low, "rows_high": high,
            "present": since if here else None, "longer": longer,
            "following": [{"state": k, "probability": p} for k, p in following],
        })  # fmt: skip
    return pa.Table.from_pylist(rows, schema=_STAYS)
