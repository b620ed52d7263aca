"""The engine of SeqDDCRP: steps over rows, grows the state, and calls the kernels."""

import struct
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from streamddcrp.compilation import entry_point, entry_with
from streamddcrp.contract import KINDS, P_NEW, SCORE
from streamddcrp.decay import Decay
from streamddcrp.estimator.reasons import asked, explained
from streamddcrp.likelihoods import Likelihood
from streamddcrp.likelihoods.base import holes
from streamddcrp.models.seqddcrp.config import Config
from streamddcrp.models.seqddcrp.kernels import layout
from streamddcrp.models.seqddcrp.kernels.amend import amend
from streamddcrp.models.seqddcrp.kernels.arrival import explain_next, predict, step_rows
from streamddcrp.models.seqddcrp.kernels.path import most_probable_path
from streamddcrp.models.seqddcrp.kernels.reasons import before, began, compare
from streamddcrp.models.seqddcrp.kernels.state import objective
from streamddcrp.models.seqddcrp.state import State, arrays_of, grown, widened
from streamddcrp.numerics import CALLER_GIVEN
from streamddcrp.records import nbytes_of
from streamddcrp.typing import FloatArray, IntArray


@dataclass(slots=True)
class Engine:
    """Likelihood, clock and state of a model after it has begun.

    ``clocked``: rows have times, and the engine's time is (t - first_time) / time_unit, else the
    arrival index. ``n_features``: columns of the input rows; the engine's may be more. ``opening``:
    opening probability of the initial alpha. ``past`` (n_lags, D): the last rows, for an
    autoregressive likelihood.
    """

    likelihood: Likelihood
    decay: Decay
    clocked: bool
    first_time: float
    time_unit: float
    config: Config
    state: State
    n_features: int
    opening: float
    past: FloatArray | None = None
    _sized: tuple[State, int] | None = None  # a state, and its bytes

    @property
    def nbytes(self) -> int:
        """Bytes of the state's arrays."""
        if self._sized is None or self._sized[0] is not self.state:
            self._sized = self.state, nbytes_of(self.state)
        return self._sized[1]

    @property
    def n_forbidden(self) -> int:
        """Rows that needed a new table when all were in use."""
        return self.state.counts.item(layout.N_FORBIDDEN)

    def kept(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return arrays and JSON values for a checkpoint; `Recipe.resume` restores them."""
        arrays = arrays_of(self.state) | {"hyper": self.config.hyper}
        if self.past is not None:
            arrays["past"] = self.past
        names = ("time_unit", "n_features", "opening")
        meta = {name: getattr(self, name) for name in names} | {"reach": self.decay.scale}
        return arrays, {"likelihood": self.likelihood.to_config(), **meta}

    def copy(self, into: "Engine | None" = None) -> "Engine":
        """Return an independent copy, reusing the arrays of ``into`` if they fit."""
        mine, size = self.state, len(self.state.table.ids)
        if (
            into is None
            or into.likelihood is not self.likelihood
            or (len(into.state.table.ids), into.state.rows.x.shape) != (size, mine.rows.x.shape)
        ):
            state = grown(mine, self.config, size)
            for name in ("events", "counts", "sums"):
                setattr(state, name, deepcopy(getattr(mine, name)))
            config = self.config._replace(hyper=self.config.hyper.copy())
            return replace(self, config=config, state=state)
        own = into.state
        for name in ("rows", "groups", "atoms", "table", "events"):
            for target, source in zip(getattr(own, name), getattr(mine, name), strict=True):
                target[...] = source
        hyper = into.config.hyper
        own.counts[:], own.sums[:], hyper[:] = mine.counts, mine.sums, self.config.hyper
        own.scratch.columns[:], own.scratch.asked[0] = own.rows.x.T, -1.0
        own.scratch.prior_post[:], own.scratch.stale[:] = np.nan, 1.0
        return replace(self, config=self.config._replace(hyper=hyper), state=own)

    def step(
        self, X: FloatArray, t: FloatArray, keep: Callable[[], None] | None = None
    ) -> FloatArray:
        """Predict and learn checked rows (N, D) at times (N,); return the predictions (N, 10).

        ``keep``: called before later rows may overwrite events, and at the end.
        """
        config, state = self._for_width(X.shape[1])
        rows, past = self.likelihood.prepare(X, self.past)
        times = self.in_time(t)
        given = given_weights(self.decay, config, state, times, clocked=self.clocked)
        # nothing can fail from here on
        self.config, self.state, self.n_features, self.past = config, state, X.shape[1], past
        rows, times, given = map(np.ascontiguousarray, (rows, times, given))
        out, done = np.empty((len(X), layout.N_COLUMNS)), 0
        while done < len(X):
            before, begin = self.state.counts[_BEFORE].tolist(), done
            self.state, done = _run(config, self.state, rows, times, given, out, begin)
            note_times(self.state, before, t[begin:done], times[begin:done])
            if keep is not None:
                keep()
        slopes = self.likelihood.log_slopes(X)
        if slopes is not None:
            out[:, SCORE] -= slopes
        return out

    def predict(self, x: FloatArray, t: float) -> tuple[FloatArray, FloatArray]:
        """Predict a checked row (D,); return predictions (10,) and probabilities by column."""
        config, state = self._for_width(len(x))
        rows, _ = self.likelihood.prepare(x[None], self.past)
        time = self.in_time(np.array([t]))
        given = given_weights(self.decay, config, state, time, clocked=self.clocked)
        out, probs = predict_row(config, state, rows[0], float(time[0]), given)
        slopes = self.likelihood.log_slopes(x[None])
        if slopes is not None:
            out[SCORE] -= slopes[0]
        return out, probs

    def explain(
        self, x: FloatArray, t: float, bound: Any = None, room: Any = None
    ) -> tuple[int, tuple[IntArray, tuple[float, float], FloatArray, FloatArray]]:
        """Explain a checked row (D,): the id of the regime expected, and what `explained` says.

        ``bound``: the kernel with the arrays of the state, and ``room``: what `asked` returns, if
        known.
        """
        config, state = self._for_width(len(x))
        time, given = self.in_time(t), _NOTHING
        if config.decay_code == CALLER_GIVEN:
            times = np.array([time])
            given = given_weights(self.decay, config, state, times, clocked=self.clocked)
        kernel = bound or partial(entry_point(explain_next), *groups_of(config, state))
        room = room or asked(self.likelihood, x, self.past, state.n_tables + 1)
        at, rows, out, view = room
        home = kernel(time, given, np.empty(len(config.hyper)), rows, out, view)
        return state.table.ids.item(home), explained(self.likelihood, x, at, out, view)

    def amend(self, back: int, old: FloatArray, new: FloatArray) -> bool:
        """Give the row ``back`` rows ago the values ``new`` (D,), if it has the ``old`` ones.

        Returns whether it has. Missing values, which may be imputed, are not compared.
        """
        rows, _ = self.likelihood.prepare(np.stack([old, new]))
        (was, now), state = np.ascontiguousarray(rows), self.state
        i = int(state.counts[layout.N_ROWS]) - back
        kept = np.where(np.isnan(was), was, state.rows.x[i])
        if not np.allclose(was, kept, rtol=1e-9, atol=0.0, equal_nan=True):
            return False
        entry_point(amend)(*groups_of(self.config, state), i, now)
        return True

    def column(self, label: int) -> int | None:
        """Return the index of a table, or None if it no longer exists."""
        at = np.flatnonzero(self.state.table.ids[: self.state.n_tables] == label)
        return int(at[0]) if len(at) else None

    def before(self, label: int, index: int) -> int | None:
        """Return the last other table seen before a row, or None."""
        state = self.state
        at = entry_point(before)(state.rows, state.atoms, state.table, state.counts, label, index)
        return None if at < 0 else int(state.table.ids[at])

    def compare(self, label: int, into: int | None, index: int) -> FloatArray | None:
        """Describe a regime that began at row ``index``, and others: see `compare`."""
        state = self.state
        views = np.empty((3, 3, state.rows.x.shape[1]))
        used = entry_point(compare)(
            self.config, state.rows, state.atoms, state.table, state.counts, state.scratch, label,
            -1 if into is None else into, index, 1, views,
        )  # fmt: skip
        return views if used else None

    def began(self, label: int, index: int) -> tuple[float, float] | None:
        """Return the times between which a regime's first row lies: see `began`."""
        state, span = self.state, np.empty(2, np.int64)
        entry_point(began)(
            self.config, state.rows, state.atoms, state.table, state.counts, state.scratch, label,
            index, span,
        )  # fmt: skip
        if span[0] < 0:
            return None
        past = int(state.counts[layout.N_SEEN] - state.counts[layout.N_ROWS])
        earliest, latest = state.rows.clock[span - past].tolist()
        return earliest, latest

    def path(self) -> IntArray:
        """Return the column of each row in the window, oldest first."""
        state = self.state
        n_rows = int(state.counts[layout.N_ROWS])
        path = np.empty(n_rows, np.int64)
        if n_rows:
            entry_point(most_probable_path)(
                self.config, state.rows, state.atoms, state.table, state.counts, state.sums,
                state.scratch, np.empty((n_rows, state.n_tables), np.int64), path,
            )  # fmt: skip
        return path

    def in_time(self, t: Any) -> Any:
        """Return a time, or times (N,), in the engine's units."""
        return (t - self.first_time) / self.time_unit if self.clocked else t

    def _for_width(self, n_features: int) -> tuple[Config, State]:
        """Return settings and state for a width of rows, grown for new words."""
        if n_features == self.n_features:
            return self.config, self.state
        config = self.config._replace(hyper=self.likelihood.hyper(n_features))
        return config, widened(self.state, config)


_BEFORE = [layout.N_SEEN, layout.N_EVENTS, layout.N_ROWS]  # a state's counters, for `note_times`
_AFTER = [layout.N_EVENTS, layout.N_ROWS, layout.SINCE_BLOCK]


def note_times(state: State, before: list[int], t: FloatArray, times: FloatArray) -> None:
    """Store users' times (N,) of newly learned rows, also in their events.

    A kernel only knows the engine's ``times``, which give users' times only up to rounding.
    ``before``: the values of the counters `_BEFORE` before these rows.
    """
    n_seen, n_events, n_rows = before
    made, w, since_block = state.counts[_AFTER].tolist()
    if made == n_events and since_block >= len(t):  # nothing was evicted or noted
        state.rows.clock[n_rows:w] = t
        return
    clock, events = np.concatenate([state.rows.clock[:n_rows], t]), state.events
    state.rows.clock[:w] = clock[len(clock) - w :]
    first, room = n_seen - n_rows, len(events.kind)
    i = np.arange(max(n_events, made - room), made) % room
    noticed = t[times[:-1].searchsorted(events.t[i])]
    at = events.arrival[i] - first
    events.begun[i] = begun = np.where(at >= 0, clock.take(at, mode="clip"), noticed)
    events.t[i] = np.where(events.kind[i] < len(KINDS), noticed, begun)
    events.earliest[i] = events.latest[i] = np.nan
    spans = state.scratch.spans
    told = np.flatnonzero(spans[:, 0] >= 0)
    if len(told):
        events.earliest[told], events.latest[told] = clock[spans[told].T - first]
        spans[told] = -1


_NOTHING = np.empty((1, 0))


class Alone:
    """Single rows, in arrays reused for each row.

    Does the work of `Engine.step` and `Engine.predict`, skipping what is unchanged since the
    previous row: the number of columns, the types and addresses of all arrays, and the row itself
    if it was predicted before. ``values, t``: the current input row, also as an array ``row``;
    ``answer``: its prediction, 10 floats.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.values: tuple[Any, ...] = ()
        self.t = 0.0
        self._form = f"{engine.n_features}d"
        self._X, self._time = np.zeros((1, engine.n_features)), np.empty(1)
        self.row, self._place = self._X[0], self._X.data
        self.out = np.empty((1, layout.N_COLUMNS))
        self._rows, self._row, self._out_row = self._X, self._X[0], self.out[0]
        self.answer: Any = memoryview(self._out_row)
        self._slopes = engine.likelihood.log_slopes(self._X)
        rows, _ = engine.likelihood.prepare(self._X)
        self._suits_any = engine.likelihood.suits_any
        self._as_it_is = rows is self._X and self._slopes is None  # no missing values
        self._state: State | None = None  # to which the next two are bound, with the settings
        self._config: Config | None = None
        self._counts: Any = None
        self._learn = self._ask = self._why = None
        self._room: Any = None  # arrays for explanations, and the values that they lack
        self._holes: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Alone, (self.engine,)  # a copy has its own arrays

    @staticmethod
    def takes(engine: Engine) -> bool:
        """Whether an engine needs only the values and times of rows."""
        return engine.past is None and engine.config.decay_code != CALLER_GIVEN

    def suits(self, engine: Engine) -> bool:
        """Whether it belongs to this engine at its present width."""
        return self.engine is engine and self._X.shape[1] == engine.n_features

    def take(self, values: tuple[Any, ...], t: float, names: list[str]) -> None:
        """Take an ordinary row; raises SchemaError if the likelihood refuses it."""
        engine = self.engine
        self.t = t
        if values is not self.values:
            self.values, likelihood = (), engine.likelihood
            struct.pack_into(self._form, self._place, 0, *values)
            if not self._suits_any:
                likelihood.check_rows(self._X, names)
            if not self._as_it_is:
                self._rows = np.ascontiguousarray(likelihood.prepare(self._X)[0])
                self._row = self._rows[0]
                self._slopes = likelihood.log_slopes(self._X)
            self.values = values
        if engine.state is not self._state or engine.config is not self._config:
            self._state, self._config = engine.state, engine.config
            self._counts = engine.state.counts.data
            self._learn = self._ask = self._why = None

    def step(self) -> None:
        """Predict and learn the row; ``answer`` holds the prediction."""
        engine, learn, counts = self.engine, self._learn, self._counts
        self._time[0] = engine.in_time(self.t)
        seen, made, w = counts[layout.N_SEEN], counts[layout.N_EVENTS], counts[layout.N_ROWS]
        if learn is None or not learn(self._rows, self._time, _NOTHING, 0, self.out):
            config, state = engine.config, engine.state
            engine.state = run(config, state, self._rows, self._time, _NOTHING, self.out)
            self._learn = entry_with(
                step_rows, config, state.rows, state.groups, state.atoms, state.table, state.events,
                state.counts, state.sums, state.scratch,
            )  # fmt: skip
        if counts[layout.N_EVENTS] == made and counts[layout.SINCE_BLOCK]:
            engine.state.rows.clock[w] = self.t
        else:
            note_times(engine.state, [seen, made, w], np.array([self.t]), self._time)
        if self._slopes is not None:
            self.answer[SCORE] -= self._slopes[0]

    def predict(self) -> None:
        """Predict the row; ``answer`` holds the prediction."""
        engine, time = self.engine, self.engine.in_time(self.t)
        if self._ask is None:
            config, state = engine.config, engine.state
            ask(config, state, self._row, time, _NOTHING, self._out_row)
            self._ask = entry_with(predict, *groups_of(config, state))
        else:
            self._ask(self._row, time, _NOTHING, 0, self._out_row)
        if self._slopes is not None:
            self.answer[SCORE] -= self._slopes[0]

    def explain(self) -> Any:
        """Explain the row as `Engine.explain` does."""
        engine, room = self.engine, self._room
        n_tables = engine.state.n_tables + 1
        if room is None or len(room[2]) != 2 + n_tables or not self._as_it_is:
            room = self._room = asked(engine.likelihood, self.row, None, n_tables)
            self._holes = holes(room[1])
        else:
            room[1][:] = self.row
            self._holes.fill(np.nan)
        found = engine.explain(self.row, self.t, self._why, room)
        if self._why is None:
            self._why = entry_with(explain_next, *groups_of(engine.config, engine.state))
        return found

    def probabilities(self) -> dict[int, float]:
        """Return the tables' probabilities after `predict`, with -1 for a new one."""
        state = self.engine.state
        return by_table(state, state.scratch.weight[: state.counts[layout.N_TABLES]], self.answer)


def groups_of(config: Config, state: State) -> tuple[Any, ...]:
    """Return the arrays that kernels need to predict."""
    table = state.atoms, state.table, state.counts, state.sums
    return config, state.rows, state.groups, *table, state.scratch


def by_table(state: State, probs: FloatArray, out: Any) -> dict[int, float]:
    """Return columns' probabilities by table id, with -1 for a new one."""
    ids = state.table.ids[: len(probs)].tolist()
    return dict(zip(ids, probs.tolist(), strict=True)) | {-1: float(out[P_NEW])}


def given_weights(
    decay: Decay, config: Config, state: State, t: FloatArray, *, clocked: bool
) -> FloatArray:
    """Log weights for decays that the kernel does not know: column gap - 1.

    Returns
    -------
    ndarray of float64, shape (1, M) or (N, M)
        One row for all arrivals if the distance is the gap itself.
    """
    if config.decay_code != CALLER_GIVEN:
        return _NOTHING
    reach = config.window + config.sweep_every + max(config.halo, 1) + config.sweep_every
    if not clocked:
        return np.ascontiguousarray(decay.log_weight(np.arange(1.0, reach + 1.0))[None, :])
    w, n_groups = int(state.counts[layout.N_ROWS]), int(state.counts[layout.N_GROUPS])
    seen = int(state.counts[layout.N_SEEN])
    past = np.full(reach, np.nan)
    past[reach - w :] = state.rows.t[:w]
    gaps = seen - state.groups.arrival[:n_groups]
    past[reach - gaps] = state.groups.t[:n_groups]
    earlier = np.lib.stride_tricks.sliding_window_view(np.concatenate([past, t[:-1]]), reach)
    distance = t[:, None] - earlier[:, ::-1]
    there = ~np.isnan(distance)
    weights = np.full(distance.shape, -np.inf)
    weights[there] = decay.log_weight(distance[there])
    return weights


def run(
    config: Config, state: State, X: FloatArray, t: FloatArray, given: FloatArray, out: FloatArray,
    done: int = 0,
) -> State:  # fmt: skip
    """Predict and learn contiguous rows (N, D) at times (N,); return the state, perhaps larger.

    ``out`` (N, 10): the predictions; the first ``done`` rows are already learned.
    """
    while done < len(X):
        state, done = _run(config, state, X, t, given, out, done)
    return state


def _run(
    config: Config, state: State, X: FloatArray, t: FloatArray, given: FloatArray, out: FloatArray,
    done: int,
) -> tuple[State, int]:  # fmt: skip
    """As `run`, up to when events must be kept; also return the number of learned rows."""
    while True:
        done = entry_point(step_rows)(
            config, state.rows, state.groups, state.atoms, state.table, state.events, state.counts,
            state.sums, state.scratch, X, t, given, done, out,
        )  # fmt: skip
        if done == len(X) or state.n_tables + 4 <= len(state.table.ids):
            return state, done
        state = grown(state, config, 2 * len(state.table.ids))


def predict_row(
    config: Config, state: State, x: FloatArray, t: float, given: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Predict one row without changing anything.

    Returns
    -------
    out : ndarray of float64, shape (10,)
    probs : ndarray of float64, shape (K,)
        Probability of each live column; the remainder to 1 is a new table's.
    """
    out = np.empty(layout.N_COLUMNS)
    ask(config, state, np.array(x), t, given, out)  # missing values may be imputed
    return out, state.scratch.weight[: state.counts[layout.N_TABLES]].copy()


def ask(
    config: Config, state: State, x: FloatArray, t: float, given: FloatArray, out: FloatArray
) -> None:
    """As `predict_row` with contiguous arrays, into ``out``; the rest stays in ``scratch``."""
    entry_point(predict)(*groups_of(config, state), x, t, given, 0, out)


def bound(config: Config, state: State) -> float:
    """Bound on the log evidence of everything learned so far."""
    return float(
        objective(
            config, state.rows, state.atoms, state.table, state.counts, state.sums, state.scratch
        )
    )
