"""The last documents of a tree of topics, with their places."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Self

import numpy as np

from streamddcrp import records as rec
from streamddcrp.data.documents import Bags
from streamddcrp.typing import FloatArray, IntArray


class Documents(NamedTuple):
    """N placed documents of T words, d's words from ``offsets[d]`` on; O = N + 1."""

    words: Annotated[IntArray, "T", rec.index("V")]
    counts: Annotated[FloatArray, "T", rec.WEIGHT]
    phi: Annotated[FloatArray, "T L", rec.CHANCE]  # levels of the words
    offsets: Annotated[IntArray, "O", rec.up_to("T")]
    weights: Annotated[FloatArray, "N", rec.FINITE]  # in the raw statistics
    ends: Annotated[IntArray, "N", rec.index("K", none=True)]  # endpoints, -1: none
    own: Annotated[FloatArray, "N", rec.FINITE]  # their own part of the bound


def check_window(arrays: Mapping[str, Any], lengths: dict[str, int]) -> dict[str, int]:
    """Check a stored window; return the lengths, with those that followed."""
    known = rec.check(Documents, arrays, lengths, "window.")
    offsets = arrays["window.offsets"]
    rec.refuse_if(
        known["O"] != known["N"] + 1 or offsets[0] != 0 or offsets[-1] != known["T"]
        or bool((np.diff(offsets) < 0).any()),
        "documents and words",
    )  # fmt: skip
    return known


def with_room(docs: Documents, n: int, n_words: int) -> Documents:
    """Return a copy with room for ``n`` documents and ``n_words`` words."""
    lengths = {"O": n + 1, "N": n, "T": n_words, "L": docs.phi.shape[1]}
    return rec.resized(docs, lengths)


@dataclass(slots=True)
class Window:
    """The last n documents, with room for more."""

    n: int
    docs: Documents  # as kernels take them

    @classmethod
    def empty(cls, L: int) -> Self:
        """Return a window without documents."""
        return cls(0, rec.empty(Documents, {"O": 1, "N": 0, "T": 0, "L": L}))

    def append(self, bags: Bags, keep: int) -> int:
        """Add documents; return how many of the oldest, before the last ``keep``, were dropped."""
        more, n_words, gone = len(bags.offsets) - 1, len(bags.words), 0
        used = int(self.docs.offsets[self.n]) + n_words
        if self.n + more >= len(self.docs.offsets) or used > len(self.docs.words):
            gone = self.forget(keep, more, n_words)
        docs, first, at = self.docs, self.n, int(self.docs.offsets[self.n])
        docs.offsets[first : first + more + 1] = bags.offsets + at
        docs.words[at : at + n_words] = bags.words
        docs.counts[at : at + n_words] = bags.counts
        docs.ends[first : first + more] = -1
        self.n += more
        return gone

    def forget(self, keep: int, n: int = 0, n_words: int = 0) -> int:
        """Drop all but the last ``keep`` documents, and make room; return the number dropped."""
        left, gone = self.last(keep)
        self.n -= gone
        self.docs = with_room(left, 2 * (self.n + n), 2 * (len(left.words) + n_words))
        return gone

    def last(self, keep: int) -> tuple[Documents, int]:
        """Return the last ``keep`` documents, without a copy, and the number before them."""
        gone = max(0, self.n - keep)
        first, end = self.docs.offsets[[gone, self.n]].tolist()
        of = {"O": slice(gone, self.n + 1), "N": slice(gone, self.n), "T": slice(first, end)}
        fields: Any = zip(rec.declared(Documents), self.docs, strict=True)
        docs = Documents(*(array[of[field.room[0]]] for field, array in fields))
        return docs._replace(offsets=docs.offsets - first), gone

    @classmethod
    def restored(cls, arrays: Mapping[str, Any], n: int, n_words: int) -> Self:
        """Rebuild from stored documents, with room for ``n`` of them and ``n_words`` words."""
        docs = Documents(*(arrays[f"window.{name}"] for name in Documents._fields))
        return cls(len(docs.weights), with_room(docs, n, n_words))
