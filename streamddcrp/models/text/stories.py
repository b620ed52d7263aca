"""What users see of a stream of texts: stories, events, merges."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.optimize import brentq

from streamddcrp.contract import KINDS, Event
from streamddcrp.data.documents import Word, top_words
from streamddcrp.data.kernels.words import LONGEST
from streamddcrp.data.words import WordTable
from streamddcrp.models.text.config import Config
from streamddcrp.models.text.kernels.layout import (
    MIXED,
    N_EVENTS,
    N_LIVE,
    N_MERGES,
    N_SEEN,
    N_SUMS,
    N_VECTORS,
    PRIOR,
    SCALES,
    TIMED,
    TOTAL,
    TOTALS,
    UNIT,
)
from streamddcrp.models.text.state import State
from streamddcrp.models.text.vectors import VectorState
from streamddcrp.typing import FloatArray, IntArray

_log = logging.getLogger(__name__)


class _Names(Sequence[Word]):
    """Words by number, decoded when asked for."""

    def __init__(self, table: WordTable) -> None:
        self._letters = memoryview(table.arrays.letters).cast("B")
        self._length = table.arrays.length

    def __len__(self) -> int:
        return len(self._length)

    def __getitem__(self, w: Any) -> Any:
        begin = LONGEST * int(w)
        letters = self._letters[begin : begin + int(self._length[w])]
        return bytes(letters).decode(errors="replace")


def stories(state: State, table: WordTable, *, clocked: bool) -> pa.Table:
    """Return one row a live table, those with most weight now first."""
    tables, counts, sums = state.tables, state.counts, state.sums
    live = tables.live[: counts[N_LIVE]]
    live = live[np.lexsort((tables.id[live], -tables.mass[live]))]
    share = tables.mass[live] / max(float(sums[TOTAL]), 1e-300)
    columns: dict[str, Any] = {
        "id": tables.id[live],
        "size": tables.size[live].astype(np.float64),
        "born": tables.born[live],
        "last_seen": tables.last_seen[live],
    }
    if clocked:
        columns |= {"born_t": tables.born_t[live], "last_t": tables.last_t[live]}
    columns["rate"] = share * (_rate(state) if clocked else 1.0)
    examples = [_examples(state, int(k)) for k in live]
    columns["words"] = pa.array(_words(state, table, live), pa.string())
    columns["examples"] = pa.array(examples, pa.list_(pa.string()))
    return pa.table(columns)


def _rate(state: State) -> float:
    """Return how many documents came in a unit of time, over the window."""
    seen, size = int(state.counts[N_SEEN]), len(state.window.t)
    n = min(seen, size)
    if n < 2:
        return float("nan")
    span = state.window.t[(seen - 1) % size] - state.window.t[(seen - n) % size]
    return float((n - 1) / span) if span > 0.0 else float("inf")


def names(state: State, table: WordTable, ids: IntArray) -> list[str]:
    """Return the top words of stories, "" for those that are dead."""
    live = state.tables.live[: state.counts[N_LIVE]]
    at = dict(zip(state.tables.id[live].tolist(), live.tolist(), strict=True))
    known = [i for i in ids.tolist() if i in at]
    words = _words(state, table, np.array([at[i] for i in known], np.int64))
    told = dict(zip(known, words, strict=True))
    return [told.get(i, "") for i in ids.tolist()]


def _words(state: State, table: WordTable, live: Any) -> list[str]:
    """Return the top words of tables."""
    words, postings = state.words, state.postings
    which = np.flatnonzero(words.df)
    df = words.df[which].astype(np.int64)
    ends = np.cumsum(df)
    at = np.repeat(words.start[which] - (ends - df), df) + np.arange(ends[-1] if len(df) else 0)
    word, count, owner = np.repeat(which, df), postings.copies[at], postings.table[at]
    totals: FloatArray = np.bincount(word, count, minlength=len(words.df)).astype(np.float64)
    wanted = np.zeros(len(state.tables.id), np.bool_)
    wanted[live] = True
    mine = wanted[owner]
    word, count, owner = word[mine], count[mine], owner[mine]
    order = np.lexsort((word, owner))
    word, count, owner = word[order], count[order].astype(np.float64), owner[order]
    said, out = _Names(table), []
    for k in live:
        part = slice(*np.searchsorted(owner, [k, k + 1]))
        out.append(top_words(word[part], count[part], totals, said))
    return out


def _examples(state: State, k: int) -> list[str]:
    """Return the most typical texts of a table, the most typical first."""
    tables = state.tables
    best = sorted((e for e in range(tables.fit.shape[1])), key=lambda e: -tables.fit[k, e])
    return [
        bytes(tables.example[k, e, : tables.example_length[k, e]]).decode(errors="ignore")
        for e in best
        if tables.fit[k, e] > -np.inf
    ]


def memory_of(config: Config, state: State) -> float:
    """Return the decay, or one with the same median age of the documents that are followed.

    NaN where times do not tell yet how fast documents come.
    """
    if not config.clocks:
        return config.decay
    vectors, unit = state.sums[N_SUMS:].reshape(N_VECTORS, -1), state.sums[UNIT]
    shares = vectors[MIXED] * vectors[TOTALS]
    shares = shares / shares.sum() if shares.sum() > 0.0 else vectors[PRIOR]
    rate = _rate(state) if config.clocked else 1.0
    if not np.isfinite(rate):
        return float("nan")
    ages = vectors[SCALES] / rate
    if unit > 0.0:
        ages = np.where(vectors[TIMED] > 0.0, vectors[SCALES] * unit, ages)
    half = brentq(lambda age: shares @ np.exp(-age / ages) - 0.5, 0.0, float(ages.max()))
    return float(half / np.log(2.0))


def events_since(state: State | VectorState, read: int) -> list[Event]:
    """Return the events after the first ``read``."""
    log, made = state.events, int(state.counts[N_EVENTS])
    size = len(log.kind)
    if made - read > size:
        _log.warning("%d events were overwritten; call events() more often", made - read - size)
    found = []
    for i in (number % size for number in range(max(read, made - size), made)):
        into = int(log.into[i]) if log.into[i] >= 0 else None
        label, arrival, t = int(log.label[i]), int(log.arrival[i]), float(log.t[i])
        found.append(Event(KINDS[log.kind[i]], label, arrival, t, into))
    return found


def survivors(state: State) -> dict[int, int]:
    """Return what became of tables that were merged: old id to the id it has now."""
    made, size = int(state.counts[N_MERGES]), len(state.events.younger)
    out: dict[int, int] = {}
    for i in (number % size for number in range(made - 1, max(0, made - size) - 1, -1)):
        older = int(state.events.older[i])
        out[int(state.events.younger[i])] = out.get(older, older)
    return dict(sorted(out.items()))


def live_labels(state: State, lag: int) -> IntArray:
    """Return the labels that are not final yet as they stand, the oldest document's first."""
    seen = int(state.counts[N_SEEN])
    at = np.arange(max(0, seen - lag), seen) % len(state.window.table)
    k = state.window.table[at]
    return np.where(k >= 0, state.tables.id[np.maximum(k, 0)], -1)
