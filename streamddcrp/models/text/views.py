"""What users see of a stream of texts or vectors: stories and their sizes, labels, events."""

from array import array
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from scipy.optimize import brentq

from streamddcrp.contract import Event, EventRing
from streamddcrp.data.documents import top_words
from streamddcrp.data.words import WordTable
from streamddcrp.estimator.views import FinalLabels, events_since, predictions
from streamddcrp.models.text.config import Config
from streamddcrp.models.text.engine import State
from streamddcrp.models.text.kernels import layout
from streamddcrp.typing import FloatArray, IntArray

OTHERS = -1  # in place of an id: all other stories
_FIRST = 128  # documents of a stretch, at first
_MOST = 128  # stretches
_STORIES = 40  # of a stretch
_NAMED = 4096  # documents after which stories are named

Names = Callable[[IntArray], list[str]]


class StoryModel:
    """What `TextStream` and `EmbeddingStream` share: final labels and events of stories."""

    _config: Any
    _memory: Any
    _finals: FinalLabels
    _events_read: int
    n_seen: Any
    _learn_batch: Any

    @property
    def _lag(self) -> int:
        return int(self._config.ages[-1])

    @property
    def n_tables(self) -> int:
        """Number of live stories."""
        return int(self._memory.counts[layout.N_LIVE])

    def step_many(self, batch: object, t: object = None) -> pa.RecordBatch:
        """Predict each document of a batch, then learn it, in one pass.

        Parameters
        ----------
        batch, t
            As for `learn_many`.

        Returns
        -------
        pyarrow.RecordBatch
            One row per document with ``label`` (int64, the story it is assigned to on arrival; a
            new one gets the next id), ``label_prob``, ``score`` (-log predictive density in nats),
            ``p_new`` (probability of a new story), ``p_change`` (of another one than that of the
            document before; null for vectors), ``n_tables`` (int64), and the document whose label
            it made final, that which came ``lag`` before: ``final_row`` (its arrival index) and
            ``final_label``, null at first.
        """
        seen = self.n_seen
        out = self._learn_batch(batch, t)
        found = predictions(out)
        row = np.arange(seen, seen + len(out)) - self._lag
        label = np.nan_to_num(out[:, layout.FINAL_LABEL], nan=-1.0).astype(np.int64)
        columns = dict(zip(found.schema.names, found.columns, strict=True))
        columns["final_row"] = pa.array(row, mask=row < 0)
        columns["final_label"] = pa.array(label, mask=row < 0)
        return pa.RecordBatch.from_pydict(columns)

    def final_labels(self, *, window: bool = False) -> pa.Table:
        """Return the labels that became final since the last call.

        At most the last 100,000 documents are kept for a call.

        Parameters
        ----------
        window : bool, default False
            Append the labels of the last ``lag`` documents as they are now: at the end of a stream
            these are all there will be. They come again when they are final.

        Returns
        -------
        pyarrow.Table
            Columns ``row`` (arrival index) and ``label``, both int64.
        """
        final = self._finals.take()
        end = max(0, self.n_seen - self._lag)
        row = np.arange(end - len(final), end)
        if window:
            more = live_labels(self._memory, self._lag)
            final = np.concatenate([final, more])
            row = np.concatenate([row, np.arange(self.n_seen - len(more), self.n_seen)])
        return pa.table({"row": row, "label": final})

    def events(self) -> list[Event]:
        """Return what happened to stories since the last call, at most the last 8,192 events.

        A birth is reported with the first final label of a story of at least ``births`` texts (of
        vectors, with the first label); the event names its first document as far as is known then.
        A death names the last one. A merge names the younger id and, in ``into``, the older one,
        which stays. A split names the id of the smaller half, which is new, and in ``into`` the one
        that the larger half keeps; final labels of before stay as they were. Deaths and merges are
        only of stories that were born. A return says that a story that was born (its new id) is, at
        odds of twenty to one, one of the last 512 that died, whose id is in ``into``. Of vectors
        there are births and deaths only, and the last 4,096.
        """
        log, read = EventRing(*self._memory.events[:5]), self._events_read
        self._events_read = int(self._memory.counts[layout.N_EVENTS])
        return events_since(log, self._events_read, read, 0.0, 1.0)


def live_labels(state: Any, lag: int) -> IntArray:
    """Return the labels that are not final yet as they are now, the oldest document's first."""
    seen = int(state.counts[layout.N_SEEN])
    k = state.window.table[np.arange(max(0, seen - lag), seen) % len(state.window.table)]
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
        "rows": tables.size[live],
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


def names(state: State, table: WordTable, ids: IntArray) -> list[str]:
    """Return the top words of stories, "" for those that are dead."""
    live = state.tables.live[: state.counts[layout.N_LIVE]]
    at = dict(zip(state.tables.id[live].tolist(), live.tolist(), strict=True))
    known = [i for i in ids.tolist() if i in at]
    words = _words(state, table, np.array([at[i] for i in known], np.int64))
    found = dict(zip(known, words, strict=True))
    return [found.get(i, "") for i in ids.tolist()]


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
    out = []
    for k in live:
        part = slice(*np.searchsorted(owner, [k, k + 1]))
        out.append(top_words(word[part], count[part], totals, table))
    return out


def _examples(state: State, k: int) -> list[str]:
    """Return the most typical texts of a table, the most typical first."""
    tables = state.tables
    best = sorted(range(tables.fit.shape[1]), key=lambda e: -tables.fit[k, e])
    return [
        bytes(tables.example[k, e, : tables.example_length[k, e]]).decode(errors="ignore")
        for e in best
        if tables.fit[k, e] > -np.inf
    ]


def _rate(state: State) -> float:
    """Return how many documents came in a unit of time, over the window."""
    seen, size = int(state.counts[layout.N_SEEN]), len(state.window.t)
    n = min(seen, size)
    if n < 2:
        return float("nan")
    span = state.window.t[(seen - 1) % size] - state.window.t[(seen - n) % size]
    return float((n - 1) / span) if span > 0.0 else float("inf")


def decay_scale(config: Config, state: State) -> float:
    """Return the scale of the decay, or of one under which links have the same median age.

    NaN where times do not show yet how fast documents come.
    """
    if not config.clocks:
        return config.decay
    vectors = state.sums[layout.N_SUMS :].reshape(layout.N_VECTORS, -1)
    shares = vectors[layout.MIXED] * vectors[layout.TOTALS]
    shares = shares / shares.sum() if shares.sum() > 0.0 else vectors[layout.PRIOR]
    rate, unit = _rate(state) if config.clocked else 1.0, state.sums[layout.UNIT]
    if not np.isfinite(rate):
        return float("nan")
    ages = vectors[layout.SCALES] / rate
    if unit > 0.0:
        ages = np.where(vectors[layout.TIMED] > 0.0, vectors[layout.SCALES] * unit, ages)
    half = brentq(lambda age: shares @ np.exp(-age / ages) - 0.5, 0.0, float(ages.max()))
    return float(half / np.log(2.0))


class Stretch(NamedTuple):
    """Documents that followed each other."""

    begin: float  # time of the first one
    end: float  # and of the last
    ids: IntArray  # stories, in order
    mass: IntArray  # and their numbers of documents


class StoryLine:
    """The sizes of stories in each stretch of a stream, and their names.

    What is kept depends on the order of documents alone, if each piece that is added ends where
    `room` says, or before, and `close` follows where it is 0.

    Examples
    --------
    >>> line = StoryLine()
    >>> line.add(np.repeat([0, 1], [40, 88]), 0.0, 127.0)
    >>> line.room
    0
    >>> line.close(lambda ids: [f"story {i}" for i in ids])
    >>> line.table().to_pylist()[0]
    {'epoch': 0, 'begin': 0.0, 'end': 127.0, 'id': 0, 'mass': 40, 'words': ''}
    """

    def __init__(self) -> None:
        self.width = _FIRST
        self.stretches: list[Stretch] = []
        self._names: dict[int, tuple[int, str]] = {}  # by the stretch in which each was largest
        self._nameless: dict[int, int] = {}  # sizes that are larger than when they were named
        self._waited = 0  # documents since stories were named
        self._labels = array("q")  # of the open stretch
        self._span = (0.0, 0.0)

    @property
    def room(self) -> int:
        """Number of documents up to the end of the open stretch."""
        return self.width - len(self._labels)

    def add(self, labels: IntArray, begin: float, end: float) -> None:
        """Add documents, not more than there is `room` for, with the times of first and last."""
        if len(labels):
            self._span = (self._span[0] if self._labels else begin, end)
            self._labels.frombytes(labels.tobytes())

    def close(self, names: Names) -> None:
        """End the open stretch.

        Parameters
        ----------
        names : callable
            Names of stories, given their ids, "" where unknown; asked about once in `_NAMED`
            documents.
        """
        if not self._labels:
            return
        ids, mass = np.unique(np.array(self._labels, np.int64), return_counts=True)
        stretch = _kept(Stretch(*self._span, ids, mass.astype(np.int64)))
        self.stretches.append(stretch)
        self._labels = array("q")
        for i, n in zip(stretch.ids.tolist(), stretch.mass.tolist(), strict=True):
            if i != OTHERS and n >= max(self._names.get(i, (0, ""))[0], self._nameless.get(i, 0)):
                self._nameless[i] = n
        self._waited += self.width
        if self._waited >= _NAMED:
            self._name(names)
        if len(self.stretches) >= _MOST:
            self._coarsen()

    def _name(self, names: Names) -> None:
        found = names(np.array(list(self._nameless), np.int64))
        for (i, n), name in zip(self._nameless.items(), found, strict=True):
            if name:
                self._names[i] = (n, name)
        self._nameless, self._waited = {}, 0

    def _coarsen(self) -> None:
        pairs = zip(self.stretches[::2], self.stretches[1::2], strict=True)
        self.stretches = [_kept(_joined(a, b)) for a, b in pairs]
        self.width *= 2
        there = set(np.concatenate([stretch.ids for stretch in self.stretches]).tolist())
        self._names = {i: name for i, name in self._names.items() if i in there}

    def extended(self, labels: IntArray, times: FloatArray, names: Names) -> Self:
        """Return a copy to which documents were added, with its last stretch closed."""
        line = copy(self)
        line.stretches, line._labels = list(self.stretches), self._labels[:]
        line._names, line._nameless = dict(self._names), dict(self._nameless)
        while len(labels):
            n = min(line.room, len(labels))
            line.add(labels[:n], float(times[0]), float(times[n - 1]))
            if not line.room:
                line.close(names)
            labels, times = labels[n:], times[n:]
        line.close(names)
        line._name(names)
        return line

    def table(self) -> Any:
        """Return one row per stretch and story: epoch, begin and end of it, id, mass, words.

        Stories that are among the largest of no stretch have the id -1 together.
        """
        sizes = [len(stretch.ids) for stretch in self.stretches]
        ids = np.concatenate([np.zeros(0, np.int64), *(s.ids for s in self.stretches)])
        span = np.array([stretch[:2] for stretch in self.stretches], np.float64).reshape(-1, 2)
        names = [self._names.get(i, (0, ""))[1] for i in ids.tolist()]
        return pa.table(
            {
                "epoch": np.repeat(np.arange(len(sizes)), sizes),
                "begin": np.repeat(span[:, 0], sizes),
                "end": np.repeat(span[:, 1], sizes),
                "id": ids,
                "mass": np.concatenate([np.zeros(0, np.int64), *(s.mass for s in self.stretches)]),
                "words": pa.array(names, pa.string()),
            }
        )

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return arrays and JSON values for a checkpoint."""
        none = np.zeros(0, np.int64)
        arrays = {
            "line_span": np.array([self._span, *((s.begin, s.end) for s in self.stretches)]),
            "line_size": np.array([len(s.ids) for s in self.stretches], np.int64),
            "line_ids": np.concatenate([none, *(s.ids for s in self.stretches)]),
            "line_mass": np.concatenate([none, *(s.mass for s in self.stretches)]),
            "line_labels": np.array(self._labels, np.int64),
        }
        meta = {
            "width": self.width,
            "waited": self._waited,
            "names": [[i, *name] for i, name in self._names.items()],
            "nameless": [list(pair) for pair in self._nameless.items()],
        }
        return arrays, meta

    @classmethod
    def restore(cls, arrays: Mapping[str, Any], meta: Mapping[str, Any]) -> Self:
        """Make the line whose `state` this is."""
        line = cls()
        line.width, line._waited = meta["width"], meta["waited"]
        line._names = {i: (n, name) for i, n, name in meta["names"]}
        line._nameless = {i: n for i, n in meta["nameless"]}
        line._labels = array("q", arrays["line_labels"].tobytes())
        (begin, end), *spans = arrays["line_span"].tolist()
        line._span = (begin, end)
        ends = np.cumsum(arrays["line_size"])
        starts = ends - arrays["line_size"]
        ids, mass = arrays["line_ids"], arrays["line_mass"]
        line.stretches = [
            Stretch(first, last, ids[i:j], mass[i:j])
            for (first, last), i, j in zip(spans, starts, ends, strict=True)
        ]
        return line


def _joined(a: Stretch, b: Stretch) -> Stretch:
    ids, at = np.unique(np.concatenate([a.ids, b.ids]), return_inverse=True)
    mass = np.zeros(len(ids), np.int64)
    np.add.at(mass, at, np.concatenate([a.mass, b.mass]))
    return Stretch(a.begin, b.end, ids, mass)


def _kept(stretch: Stretch) -> Stretch:
    """Keep the largest stories, among equal ones the older, and the others as one."""
    ids, mass = stretch.ids, stretch.mass
    order = np.lexsort((ids, -mass, ids == OTHERS))[:_STORIES]
    large = np.zeros(len(ids), np.bool_)
    large[order] = ids[order] != OTHERS
    rest = int(mass[~large].sum())
    if not rest:
        return stretch
    return stretch._replace(
        ids=np.concatenate([[OTHERS], ids[large]]), mass=np.concatenate([[rest], mass[large]])
    )
