"""The sizes of stories along a stream, in bounded memory."""

from array import array
from collections.abc import Callable, Mapping
from copy import copy
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from streamddcrp.records import MOST, Within, check, refuse_if
from streamddcrp.typing import FloatArray, IntArray

OTHERS = -1  # in place of an id: all other stories
_FIRST = 128  # documents of a stretch, at first
_MOST = 128  # stretches
_STORIES = 40  # of a stretch
_NAMED = 4096  # documents after which stories are named
Names = Callable[[IntArray], list[str]]


class Stretch(NamedTuple):
    """Documents that followed each other."""

    begin: float  # time of the first one
    end: float  # and of the last
    ids: IntArray  # stories, in order
    mass: IntArray  # and their numbers of documents


class _Stored(NamedTuple):
    """The N stretches and the open one, as they are stored."""

    span: Annotated[FloatArray, "M 2"]  # M = N + 1; of the open one first
    size: Annotated[IntArray, "N", Within(0, _STORIES + 1)]
    ids: Annotated[IntArray, "T", Within(OTHERS, MOST)]
    mass: Annotated[IntArray, "T"]
    labels: Annotated[IntArray, "L", Within(-1, MOST)]


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
        """Return a row per stretch and story; those among the largest of none have the id -1."""
        sizes = [len(stretch.ids) for stretch in self.stretches]
        ids = np.concatenate([np.zeros(0, np.int64), *(s.ids for s in self.stretches)])
        span = np.array([stretch[:2] for stretch in self.stretches], np.float64).reshape(-1, 2)
        names = [self._names.get(i, (0, ""))[1] for i in ids.tolist()]
        mass = np.concatenate([np.zeros(0, np.int64), *(s.mass for s in self.stretches)])
        epoch, begin, end = (np.repeat(x, sizes) for x in (np.arange(len(sizes)), *span.T))
        columns = [epoch, begin, end, ids, mass, pa.array(names, pa.string())]
        return pa.table(columns, names=["epoch", "begin", "end", "id", "mass", "words"])

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
        counts = [meta["width"], meta["waited"], *(n for pair in meta["nameless"] for n in pair)]
        counts += [n for story, size, _ in meta["names"] for n in (story, size)]
        refuse_if(not all(type(n) is int and -1 <= n <= MOST for n in counts), "line of stories")
        refuse_if(not all(isinstance(name, str) for *_, name in meta["names"]), "names of stories")
        N = len(arrays["line_size"])
        check(_Stored, arrays, {"N": N, "M": N + 1}, "line_")
        line = cls()
        line.width, line._waited = meta["width"], meta["waited"]
        fits = len(arrays["line_labels"]) < line.width and N < _MOST
        fits = fits and int(arrays["line_size"].sum()) == len(arrays["line_ids"])
        refuse_if(not fits, "line of stories")
        line._names = {i: (n, name) for i, n, name in meta["names"]}
        line._nameless = {i: n for i, n in meta["nameless"]}
        line._labels = array("q", arrays["line_labels"].tobytes())
        (begin, end), *spans = arrays["line_span"].tolist()
        line._span = (begin, end)
        cuts = np.cumsum(arrays["line_size"])[:-1]
        parts = (np.split(arrays[name], cuts) for name in ("line_ids", "line_mass"))
        line.stretches = [Stretch(*s, *p) for s, *p in zip(spans, *parts, strict=True)] if N else []
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
    mass = np.concatenate([[rest], mass[large]])
    return stretch._replace(ids=np.concatenate([[OTHERS], ids[large]]), mass=mass)
