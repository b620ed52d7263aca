"""Sparse bags of words that replace arrays of counts."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from streamddcrp.data.documents import Bags as Entries
from streamddcrp.models.temporal.kernels.text import assigned, weighted
from streamddcrp.records import Within, check, check_one, refuse_if
from streamddcrp.typing import FloatArray, IntArray


def as_rows(X: Any) -> Entries:
    """Return the entries of sparse rows."""
    X = X if isinstance(X, sparse.csr_array) else sparse.csr_array(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    parts = X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data.astype(np.float64)
    return Entries(*parts)


@dataclass(slots=True, eq=False)
class Bags:
    """Sparse counts (.., V) with the indexing, sums and stacking of dense arrays."""

    shape: tuple[int, ...]  # of the leading axes
    width: int  # largest word so far plus one: V is open
    offsets: IntArray  # entries of bag b, in C order, from offsets[b] to offsets[b + 1]
    words: IntArray
    counts: FloatArray

    @classmethod
    def empty(cls, K: int) -> "Bags":
        return cls((K,), 0, np.zeros(K + 1, np.int64), np.zeros(0, np.int64), np.zeros(0))

    @classmethod
    def assigned(cls, X: Any, q: FloatArray) -> "Bags":
        """Return the expected bags (K,) of rows (N, V) under assignments (N, K)."""
        rows = as_rows(X)
        width = int(rows.words.max(initial=-1)) + 1
        return cls((q.shape[1],), width, *assigned(q, rows, width))

    @property
    def entries(self) -> Entries:
        return Entries(self.offsets, self.words, self.counts)

    @property
    def ndim(self) -> int:
        return len(self.shape) + 1

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> "Iterator[Bags]":
        return (self[e] for e in range(len(self)))

    def __getitem__(self, key: Any) -> "Bags":
        """Pick bags along the leading axes."""
        return self._pick(np.arange(len(self.offsets) - 1).reshape(self.shape)[key])

    def _pick(self, which: IntArray) -> "Bags":
        flat = which.ravel()
        begin = self.offsets[flat]
        size = self.offsets[flat + 1] - begin
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(size)])
        places = np.repeat(begin - offsets[:-1], size) + np.arange(offsets[-1])
        return Bags(which.shape, self.width, offsets, self.words[places], self.counts[places])

    def __add__(self, other: "Bags") -> "Bags":
        if self.shape != other.shape:
            raise ValueError(f"bags of shapes {self.shape} and {other.shape} cannot be added")
        n = (len(self.offsets) - 1,)
        total = stacked([replace(self, shape=n), replace(other, shape=n)]).total(np.ones(2))
        return replace(total, shape=self.shape)

    def total(self, weights: FloatArray) -> "Bags":
        """Return the sum (K,) of bags (E, K) with weights (E,)."""
        sums = weighted(self.entries, weights, self.shape[1], self.width)
        return Bags(self.shape[1:], self.width, *sums)

    def sizes(self) -> FloatArray:
        """Sum of the counts of every bag, in the shape of the leading axes."""
        sums = np.zeros(len(self.offsets) - 1)
        some = np.flatnonzero(np.diff(self.offsets))
        if len(some):
            sums[some] = np.add.reduceat(self.counts, self.offsets[some])
        return sums.reshape(self.shape)

    def heavy(self, least: float) -> "Bags":
        """Return the bags without entries below ``least``."""
        return self._chosen(self.counts >= least)

    def without(self, words: IntArray) -> "Bags":
        return self._chosen(~np.isin(self.words, words))

    def _chosen(self, some: Any) -> "Bags":
        kept = np.concatenate([np.zeros(1, np.int64), np.cumsum(some)])
        return Bags(self.shape, self.width, kept[self.offsets], self.words[some], self.counts[some])

    def renumbered(self, number: IntArray, width: int) -> "Bags":
        """Return the bags with the numbers (V,) of words replaced, in the same order."""
        return replace(self, words=number[self.words], width=width)

    def to_dense(self, width: int | None = None) -> FloatArray:
        """Return the equivalent array, with ``width`` words."""
        n = len(self.offsets) - 1
        out = np.zeros((n, self.width if width is None else width))
        out[np.repeat(np.arange(n), np.diff(self.offsets)), self.words] = self.counts
        return out.reshape(*self.shape, -1) if n else out.reshape(*self.shape, out.shape[1])

    @classmethod
    def of_rows(cls, X: Any) -> "Bags":
        """Return sparse rows (N, V) as they are."""
        offsets, words = X.indptr.astype(np.int64), X.indices.astype(np.int64)
        return cls(X.shape[:1], X.shape[1], offsets, words, X.data)

    def to_rows(self) -> Any:
        parts = (self.counts, self.words, self.offsets)
        return sparse.csr_array(parts, shape=(*self.shape, self.width))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        known = _FUNCTIONS.get(func)
        return NotImplemented if known is None else known(*args, **kwargs)


def _joined(parts: Sequence[Bags], shape: tuple[int, ...]) -> Bags:
    offsets, start = [np.zeros(1, np.int64)], 0
    for part in parts:
        offsets.append(part.offsets[1:] + start)
        start += len(part.words)
    words, counts = ([getattr(part, name) for part in parts] for name in ("words", "counts"))
    width = max(part.width for part in parts)
    return Bags(shape, width, *map(np.concatenate, (offsets, words, counts)))


def stacked(arrays: Iterable[Bags]) -> Bags:
    """Return bags along a new first axis."""
    parts = list(arrays)
    return _joined(parts, (len(parts), *parts[0].shape))


def _concatenate(arrays: Sequence[Bags]) -> Bags:
    parts = list(arrays)
    return _joined(parts, (sum(map(len, parts)), *parts[0].shape[1:]))


def _take(array: Bags, indices: IntArray, axis: int = 0) -> Bags:
    return array[(*[slice(None)] * axis, np.asarray(indices))]


def _where(condition: Any, yes: Bags, no: Bags) -> Bags:
    """Choose among bags (K,) by a condition (K, 1)."""
    K = len(yes)
    return _concatenate([yes, no])[np.where(condition.ravel(), np.arange(K), K + np.arange(K))]


_FUNCTIONS: dict[Any, Any] = {
    np.stack: stacked,
    np.concatenate: _concatenate,
    np.take: _take,
    np.where: _where,
}


def put(arrays: dict[str, Any], name: str, value: Any) -> None:
    """Store an array, bags or sparse rows among the arrays of a checkpoint."""
    bags = Bags.of_rows(value) if sparse.issparse(value) else value
    if not isinstance(bags, Bags):
        arrays[name] = value
        return
    arrays[f"{name}.shape"] = np.array([*bags.shape, bags.width])
    arrays |= {f"{name}.{part}": array for part, array in bags.entries._asdict().items()}


def get(arrays: dict[str, Any], name: str) -> Any:
    """Return an array or bags stored by `put`."""
    if name in arrays:
        return arrays[name]
    stored = arrays[f"{name}.shape"]
    check_one(f"{name}.shape", stored, (len(stored),), np.int64, Within(0, 1 << 31))
    *shape, width = stored.tolist()
    n = math.prod(shape)
    lengths = {"O": n + 1, "V": width, "T": len(arrays[f"{name}.words"])}
    check(Entries, arrays, lengths, f"{name}.")
    offsets = arrays[f"{name}.offsets"]
    sound = offsets[0] == 0 and offsets[-1] == len(arrays[f"{name}.words"])
    refuse_if(not sound or bool((np.diff(offsets) < 0).any()), f"{name}.offsets")
    return Bags(tuple(shape), width, *(arrays[f"{name}.{part}"] for part in Entries._fields))


def get_rows(arrays: dict[str, Any], name: str) -> Any:
    """Return rows stored by `put`: an array, or sparse ones."""
    found = get(arrays, name)
    return found.to_rows() if isinstance(found, Bags) else found
