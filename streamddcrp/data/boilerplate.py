"""Set aside boilerplate words from sparse rows, in models that take batches of documents.

`streamddcrp.data.kernels.boilerplate` explains the method.
"""

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from streamddcrp import records as rec
from streamddcrp.compilation import entry_point
from streamddcrp.data.documents import Word
from streamddcrp.data.kernels.boilerplate import BETWEEN_LOOKS, FIRST_LOOK, MOST_READ, choose_words
from streamddcrp.typing import FloatArray, IntArray

_Ints = NDArray[np.int32]


class _Words(NamedTuple):
    aside: Annotated[FloatArray, "V"]  # share of all words for boilerplate, else 0
    mark: Annotated[_Ints, "V"]  # work space
    listed: Annotated[_Ints, "V"]


class _Stored(NamedTuple):
    """What `Boilerplate.state` returns."""

    aside: Annotated[FloatArray, "A", rec.CHANCE]
    # texts, the next check, share of all words set aside
    numbers: Annotated[
        FloatArray, "3", rec.counters({1: rec.Within(FIRST_LOOK, rec.MOST), 2: rec.CHANCE})
    ]
    sizes: Annotated[IntArray, "N", rec.up_to("T")]  # of the recent texts
    words: Annotated[_Ints, "T", rec.index("V")]


class _Texts(NamedTuple):
    text: _Ints
    start: IntArray
    length: IntArray
    aside: IntArray


class Boilerplate:
    """Words that are set aside, with their shares of all words in ``aside`` (V,).

    >>> found = Boilerplate()
    >>> rng = np.random.default_rng(0)
    >>> story = rng.integers(0, 10, 300)
    >>> X = np.zeros((300, 101))
    >>> for i, k in enumerate(story):
    ...     X[i, 10 * k + rng.permutation(10)[:6]] = 1
    >>> X[:, 100] = 1  # a word of all texts
    >>> found.note(scipy.sparse.csr_array(X))
    >>> found.look(), found.words.tolist()
    (True, [100])
    >>> float(found.strip(scipy.sparse.csr_array(X)).sum(axis=0)[100])
    0.0
    """

    def __init__(self) -> None:
        self.aside = np.zeros(0)
        self.seen = 0  # texts
        self._next = FIRST_LOOK
        self._part = 0.0  # of all words set aside
        self._recent = (np.zeros(0, np.int64), np.zeros(0, np.int32))  # sizes of texts, words

    @property
    def words(self) -> IntArray:
        """Numbers of the words set aside."""
        return np.flatnonzero(self.aside)

    def note(self, X: Any) -> None:
        """Note documents: sparse rows (N, V), before any removal."""
        sizes = np.append(self._recent[0], np.diff(X.indptr).astype(np.int64))
        words = np.append(self._recent[1], X.indices.astype(np.int32))
        kept = np.cumsum(sizes[::-1])[::-1] - sizes < MOST_READ  # by the number of later words
        self._recent = (sizes[kept], words[len(words) - int(sizes[kept].sum()) :])
        self.seen += X.shape[0]

    def look(self) -> bool:
        """Look for boilerplate if due; return whether more was found."""
        if self.seen < self._next:
            return False
        sizes, recent = self._recent
        V = max(int(recent.max(initial=-1)) + 1, len(self.aside))
        words = rec.empty(_Words, {"V": V})
        words.aside[: len(self.aside)] = self.aside
        n = len(sizes)
        text = np.zeros(1 << max(len(recent) - 1, 1).bit_length(), np.int32)
        text[: len(recent)] = recent
        # one extra place: a ring holds one text fewer than its places
        start, length = np.zeros(n + 1, np.int64), np.append(sizes, 0)
        start[:n] = np.cumsum(sizes) - sizes
        texts = _Texts(text, start, length, np.zeros(n + 1, np.int64))
        self._part, fresh = entry_point(choose_words)(words, texts, n)
        self.aside = np.abs(words.aside)
        self._next = self.seen + min(self.seen, BETWEEN_LOOKS)
        return bool(fresh > 0.0)

    def strip(self, X: Any) -> Any:
        """Return sparse rows (N, V) without the words set aside."""
        if not self._part:
            return X
        left = self.aside[np.minimum(X.indices, len(self.aside) - 1)] == 0.0
        left |= X.indices >= len(self.aside)
        ends = np.concatenate([[0], np.cumsum(left)])
        parts = (X.data[left], X.indices[left], ends[X.indptr].astype(X.indptr.dtype))
        return scipy.sparse.csr_array(parts, shape=X.shape)

    def surprise(self, X: Any) -> FloatArray:
        """Return the surprise in nats (N,) of each row's boilerplate words, at usual rates."""
        out = np.zeros(X.shape[0])
        if not self._part:
            return out
        aside = np.append(self.aside, 0.0)[np.minimum(X.indices, len(self.aside))]
        each = np.full(len(aside), np.log1p(-self._part))
        np.log(aside, where=aside > 0.0, out=each)
        each *= -X.data
        some = np.flatnonzero(np.diff(X.indptr))
        if len(some):
            out[some] = np.add.reduceat(each, X.indptr[some])
        return out

    def parts(self, names: Sequence[Word]) -> dict[Word, float]:
        """Return the words set aside, by name, with their share of all words."""
        return {names[w]: float(self.aside[w]) for w in self.words.tolist()}

    def keep(self, used: Any) -> None:
        """Drop unused words, (V,) of bool, and renumber the rest. Those set aside must stay."""
        sizes, words = self._recent
        here = used[words]
        text = np.repeat(np.arange(len(sizes)), sizes)
        sizes = np.bincount(text, here, len(sizes)).astype(np.int64)
        number = np.cumsum(used) - 1
        self._recent = (sizes, number[words[here]].astype(np.int32))
        self.aside = np.pad(self.aside, (0, len(used) - len(self.aside)))[used]

    def state(self) -> dict[str, Any]:
        """Return arrays for a checkpoint."""
        numbers = np.array([self.seen, self._next, self._part])
        sizes, words = self._recent
        stored = _Stored(self.aside, numbers, sizes, words)
        return {f"boilerplate.{name}": part for name, part in stored._asdict().items()}

    @classmethod
    def restore(cls, arrays: Any, n_words: int) -> Self:
        """Rebuild from `state`, with ``n_words`` words; raises CheckpointError."""
        lengths = {"V": n_words, "T": len(arrays["boilerplate.words"])}
        known = rec.check(_Stored, arrays, lengths, "boilerplate.")
        stored = _Stored(*(arrays[f"boilerplate.{name}"] for name in _Stored._fields))
        whole = int(stored.sizes.sum()) == known["T"] and known["A"] <= n_words
        rec.refuse_if(
            not whole or bool(stored.numbers[2]) != bool(stored.aside.any()), "boilerplate"
        )
        self = cls()
        seen, due, self._part = stored.numbers.tolist()
        self.seen, self._next = int(seen), int(due)
        self.aside, self._recent = stored.aside, (stored.sizes, stored.words)
        return self
