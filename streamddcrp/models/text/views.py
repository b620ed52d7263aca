"""What users see of a stream of texts or vectors: stories and their sizes, labels, events."""

import logging
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from streamddcrp.contract import LABEL
from streamddcrp.data.documents import top_words
from streamddcrp.data.words import WordTable
from streamddcrp.estimator import views
from streamddcrp.estimator.scikit import ScikitLearn
from streamddcrp.models.text.engine import State
from streamddcrp.models.text.events import StoryEvent, events_since
from streamddcrp.models.text.kernels import layout
from streamddcrp.models.text.kernels.events import MANY
from streamddcrp.models.text.story_line import StoryLine
from streamddcrp.typing import Axes, FloatArray, IntArray

_log = logging.getLogger(__name__)
MARKS = {"$": "[ticker]", "$$": "[tickers]"}  # words that stand for what was read
PIECE = 512  # documents that make fewer events than the rings hold


class StoryModel(ScikitLearn):
    """What `TextStream` and `EmbeddingStream` share: final labels, events, stories over time."""

    _config: Any
    _memory: Any
    _line: StoryLine
    _clocked: bool | None
    summary: Any
    _finals: views.FinalLabels
    _events_read: int
    _backlog: views.Backlog
    n_seen: Any
    _learn_batch: Any
    tells_stories = True
    _told_of_none = False
    _nothing = "words that tell"  # what a row without a story lacks

    @property
    def _lag(self) -> int:
        return int(self._config.ages[-1])

    @property
    def n_tables(self) -> int:
        """Number of live stories."""
        return int(self._memory.counts[layout.N_LIVE])

    def step_many(self, batch: object, t: object = None, *, index: bool = False) -> pa.RecordBatch:
        """Predict each document of a batch, then learn it, as `SeqDDCRP.step_many` does.

        ``label`` is the story assigned on arrival, with the next id for a new one; ``p_change`` the
        probability that it differs from that of the document before, null for vectors. More
        columns of int64 describe the document that came ``lag`` before, whose label became final:
        ``final_row`` (its arrival index) and ``final_label``, null at first. Texts also have
        ``theme``, that of the label, null as long as a new story is like no other; and
        ``final_theme``, that of the final label.
        """
        seen, held = self.n_seen, views.index_of(batch, index)
        out = self._learn_batch(batch, t)
        found = views.predictions(out)
        row = np.arange(seen, seen + len(out)) - self._lag
        label = np.nan_to_num(out[:, layout.FINAL_LABEL], nan=-1.0).astype(np.int64)
        columns = dict(zip(found.schema.names, found.columns, strict=True))
        columns["final_row"] = pa.array(row, mask=row < 0)
        columns["final_label"] = pa.array(label, mask=row < 0)
        of_texts = hasattr(self._memory.tables, "theme")
        ends = (("theme", layout.THEME), ("final_theme", layout.FINAL_THEME)) if of_texts else ()
        for name, at in ends:
            theme = np.ascontiguousarray(out[:, at])
            columns[name] = pa.array(theme, mask=np.isnan(theme)).cast(pa.int64())
        return views.with_index(held, views.with_times(pa.RecordBatch.from_pydict(columns), t))

    def final_labels(self, *, window: bool = False) -> pa.Table:
        """Return the labels that became final since the last call.

        At most the last 100,000 documents are kept for a call.

        Parameters
        ----------
        window : bool, default False
            Append the current labels of the last ``lag`` documents, for the end of a stream. If it
            goes on, they come again when they are final.

        Returns
        -------
        pyarrow.Table
            Columns ``row`` (arrival index) and ``label``, both int64.
        """
        final = self._finals.take()
        end = max(0, self.n_seen - self._lag)
        row = np.arange(end - len(final), end)
        if window:
            more = self.open_labels()
            final = np.concatenate([final, more["label"]])
            row = np.concatenate([row, more["row"]])
        return pa.table({"row": row, "label": final})

    def open_labels(self) -> pa.Table:
        """Return the labels of the last ``lag`` documents as they are now, which are not final.

        Returns
        -------
        pyarrow.Table
            Columns ``row`` (arrival index) and ``label``, both int64, and ``t`` (time).
        """
        labels, t = live_labels(self._memory, self._lag), self._memory.window.t
        row = np.arange(self.n_seen - len(labels), self.n_seen)
        return pa.table({"row": row, "label": labels, "t": t[row % len(t)]})

    def events(self) -> list[StoryEvent]:
        """Return what happened to stories since the last call, in the order of time.

        All events of the last call that learned, and the last 8,192 (of vectors 4,096) before it;
        see `StoryEvent`.
        """
        read, self._events_read = self._events_read, int(self._memory.counts[layout.N_EVENTS])
        return events_since(self._memory.events, self._events_read, read, self._backlog)

    def _followed(self, times: FloatArray, step: Callable[[], FloatArray]) -> FloatArray:
        """Learn documents by a step, and keep the labels that it makes final."""
        row = self.n_seen - self._lag  # the first whose label gets final, if not negative
        begin, end = (self._moment(i, times) for i in (max(row, 0), row + len(times) - 1))
        out = step()
        if not self._told_of_none and (out[:, LABEL] < 0).any():
            self._told_of_none = True
            _log.warning("a row without %s has the label -1: it is in no story", self._nothing)
        final = out[:, layout.FINAL_LABEL]
        labels = final[~np.isnan(final)].astype(np.int64)
        self._finals.add(labels)
        self._line.add(labels, begin, end)
        if not self._line.room:
            self._line.close(self._names)
        return out

    def _moment(self, row: int, more: FloatArray) -> float:
        """Return the time of a row of the window, or of those that are about to come."""
        past, seen = self._memory.window.t, self.n_seen
        if row < seen:
            return float(past[row % len(past)])
        return float(more[row - seen]) if row - seen < len(more) else math.nan

    def _keep_events(self) -> None:
        """Copy the events of a piece of a batch, before those of the next are written."""
        self._backlog.keep(self._memory.events, int(self._memory.counts[layout.N_EVENTS]))

    def merged(self) -> dict[int, int]:
        """Return what became of stories that were merged: id to the id it has now.

        Of the last 8,192 merges; stories of vectors are not merged.
        """
        log = self._memory.events
        if not hasattr(log, "older"):
            return {}
        made = int(self._memory.counts[layout.N_MERGES])
        out: dict[int, int] = {}
        for number in range(made - 1, max(0, made - len(log.older)) - 1, -1):  # the last first
            i = number % len(log.older)
            older = int(log.older[i])
            out[int(log.younger[i])] = out.get(older, older)
        return dict(sorted(out.items()))

    def trajectories(self) -> pa.Table:
        """Return the sizes of stories along the stream, the whole of it, in bounded memory.

        Returns
        -------
        pyarrow.Table
            One row per stretch of the stream and story: ``epoch`` (number of the stretch; there are
            at most 128, of as many documents each), ``begin`` and ``end`` (times), ``id``, ``mass``
            (number of documents) and ``words``, "" for vectors. The 40 largest stories of a stretch
            have rows of their own, the others share one, of id -1. Labels are final but those of
            the last ``lag``.
        """
        _, labels, t = (column.to_numpy() for column in self.open_labels().columns)
        return self._line.extended(labels, t, self._names).table()

    def plot(self, ax: Axes | None = None, *, stories: int = 30, dates: bool | None = None) -> Any:
        """Draw the largest stories over time as a stream; return the axes. Needs matplotlib.

        Areas are numbers of documents. The twelve largest have colours and names; triangles mark
        where they were first seen, crosses where last, arrow heads where they became part of
        others.

        Parameters
        ----------
        ax : matplotlib axes, optional
        stories : int
            How many; the others are left out.
        dates : bool, optional
            Whether times are time stamps (seconds since 1970); by default where they lie between
            1973 and 9999.
        """
        from streamddcrp.plots.figures import are_dates  # noqa: PLC0415 -- only for pictures
        from streamddcrp.plots.stream import plot_stories  # noqa: PLC0415

        live, merged = set(self.summary()["id"].to_pylist()), self.merged()
        tracks = self.trajectories()
        if dates is None:
            dates = bool(self._clocked) and are_dates(tracks["begin"].to_numpy())
        scale = "dates" if dates else "time" if self._clocked else "rows"
        return plot_stories(tracks, live, ax, largest=stories, scale=scale, merged=merged)

    def _names(self, ids: IntArray) -> list[str]:
        return [""] * len(ids)


def live_labels(state: Any, lag: int) -> IntArray:
    """Return the labels that are not final yet as they are now, the oldest document's first."""
    seen = int(state.counts[layout.N_SEEN])
    i, size = np.arange(max(0, seen - lag), seen), len(state.window.table)
    newer = getattr(state.window, "newer", np.full(size, -1))
    while len(i) and ((after := newer[i % size]) > i).any():
        i = np.maximum(i, after)
    k = state.window.table[i % size]
    return np.where(k >= 0, state.tables.id[np.maximum(k, 0)], -1)


def stories(state: State, table: WordTable, *, clocked: bool) -> pa.Table:
    """Return one row per live table, those with most weight now first."""
    tables, counts, sums = state.tables, state.counts, state.sums
    live = tables.live[: counts[layout.N_LIVE]]
    live = live[np.lexsort((tables.id[live], -tables.mass[live]))]
    share = tables.mass[live] / max(float(sums[layout.TOTAL]), 1e-300)
    columns: dict[str, Any] = {
        "id": tables.id[live],
        "weight": tables.mass[live] / sums[layout.GROWTH],
        "rows": tables.size[live] + tables.copies[live],
        "copies": tables.copies[live],
        "born": tables.born[live],
        "last_seen": tables.last_seen[live],
    }
    if clocked:
        columns |= {"born_t": tables.born_t[live], "last_t": tables.last_t[live]}
    rate = share * (_rate(state) if clocked else 1.0)
    columns["rate"] = pa.array(rate, mask=~np.isfinite(rate))
    examples = [_examples(state, int(k)) for k in live]
    theme = tables.theme[live]
    columns["theme"] = pa.array(tables.theme_id[np.maximum(theme, 0)], mask=theme < 0)
    columns["words"] = pa.array(words_of(state, table, _alone(state, live), live), pa.string())
    columns["examples"] = pa.array(examples, pa.list_(pa.string()))
    return pa.table(columns)


def names(state: State, table: WordTable, ids: IntArray) -> list[str]:
    """Return the top words of stories, "" for those that are dead."""
    live = state.tables.live[: state.counts[layout.N_LIVE]]
    at = dict(zip(state.tables.id[live].tolist(), live.tolist(), strict=True))
    known = [i for i in ids.tolist() if i in at]
    slots = np.array([at[i] for i in known], np.int64)
    words = words_of(state, table, _alone(state, slots), slots)
    found = dict(zip(known, words, strict=True))
    return [found.get(i, "") for i in ids.tolist()]


def themes(state: State, table: WordTable) -> pa.Table:
    """Return one row per theme of live tables, the one with most documents first."""
    tables, live = state.tables, state.tables.live[: state.counts[layout.N_LIVE]]
    rows = tables.size + tables.copies
    group = np.full(len(tables.id), -1)
    group[live] = tables.theme[live]
    live = live[np.lexsort((tables.id[live], -rows[live]))]
    members: dict[int, list[Any]] = {}
    for k in live.tolist():
        members.setdefault(int(group[k]), []).append(k)
    members.pop(-1, None)
    found = sorted(members, key=lambda g: (-rows[members[g]].sum(), tables.theme_id[g]))
    weight = [tables.mass[members[g]].sum() / state.sums[layout.GROWTH] for g in found]
    columns = {
        "id": tables.theme_id[found],
        "rows": pa.array([rows[members[g]].sum() for g in found], pa.int64()),
        "weight": pa.array(weight, pa.float64()),
        "stories": pa.array([tables.id[members[g]] for g in found], pa.list_(pa.int64())),
        "words": pa.array(words_of(state, table, group, found), pa.string()),
    }
    return pa.table(columns)


def _alone(state: State, slots: Any) -> IntArray:
    """Return groups of tables, (K,): each of ``slots`` by itself, the others in none."""
    group = np.full(len(state.tables.id), -1)
    group[slots] = slots
    return group


def words_of(state: State, table: WordTable, group: IntArray, wanted: Any) -> list[str]:
    """Return the top words of groups of tables; ``group`` (K,): that of each slot, or -1."""
    words, postings = state.words, state.postings
    which = np.flatnonzero(words.df)
    df = words.df[which].astype(np.int64)
    ends = np.cumsum(df)
    at = np.repeat(words.start[which] - (ends - df), df) + np.arange(ends[-1] if len(df) else 0)
    word, count, owner = np.repeat(which, df), postings.copies[at], group[postings.table[at]]
    totals: FloatArray = np.bincount(word, count, minlength=len(words.df)).astype(np.float64)
    mine = (owner >= 0) & ~no_names(words.df, int(state.counts[layout.N_LIVE]))[word]
    pairs, which = np.unique(owner[mine] * len(words.df) + word[mine], return_inverse=True)
    owner, word = np.divmod(pairs, len(words.df))
    count = np.bincount(which, count[mine], len(pairs)).astype(np.float64)
    out = []
    for k in wanted:
        part = slice(*np.searchsorted(owner, [k, k + 1]))
        out.append(top_words(word[part], count[part], totals, table))
    return out


def no_names(df: Any, n: int) -> Any:
    """Return which words of the trade most of ``n`` stories have, by the stories that have each."""
    return (2 * df > n) & (n >= MANY)


def spelled(words: str) -> str:
    """Return words as they are shown: of tickers, that there was one."""
    return " ".join(MARKS.get(word, word) for word in words.split(" "))


def _examples(state: State, k: int) -> list[str]:
    """Return the most typical texts of a table, the most typical first."""
    tables = state.tables
    best = sorted(range(tables.fit.shape[1]), key=lambda e: -tables.fit[k, e])
    return [
        bytes(tables.example[k, e, : tables.example_length[k, e]]).decode(errors="ignore")
        for e in best
        if tables.fit[k, e] > -np.inf
    ]


def _rate(state: Any) -> float:
    """Return how many documents came in a unit of time, over the window."""
    seen, size = int(state.counts[layout.N_SEEN]), len(state.window.t)
    n = min(seen, size)
    if n < 2:
        return float("nan")
    span = state.window.t[(seen - 1) % size] - state.window.t[(seen - n) % size]
    return float((n - 1) / span) if span > 0.0 else float("inf")


def decay_scale(config: Any, state: Any) -> float:
    """Return the scale of the decay, or of one with as old a median link; NaN: pace unknown yet."""
    if not config.clocks:
        return float(config.decay)
    n = layout.N_VECTORS * state.tables.masses.shape[0]
    vectors = state.sums[layout.N_SUMS : layout.N_SUMS + n].reshape(layout.N_VECTORS, -1)
    shares = vectors[layout.MIXED] * vectors[layout.TOTALS]
    shares = shares / shares.sum() if shares.sum() > 0.0 else vectors[layout.PRIOR]
    rate, unit = _rate(state) if config.clocked else 1.0, state.sums[layout.UNIT]
    if not np.isfinite(rate):
        return float("nan")
    ages = vectors[layout.SCALES] / rate
    if unit > 0.0:
        ages = np.where(vectors[layout.TIMED] > 0.0, vectors[layout.SCALES] * unit, ages)
    from scipy.optimize import brentq  # noqa: PLC0415 -- a fifth of all that is imported

    half = brentq(lambda age: shares @ np.exp(-age / ages) - 0.5, 0.0, float(ages.max()))
    return float(half / np.log(2.0))
