"""The last documents of a tree of topics, with where they were put."""

from collections import namedtuple
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Self

import numpy as np

from streamddcrp.models.trees.tree import attributes
from streamddcrp.records import CHANCE, FINITE, WEIGHT, check, index, refuse_if, up_to
from streamddcrp.typing import FloatArray, IntArray

Documents = namedtuple("Documents", "offsets words counts phi weights ends own")  # for kernels
_BY_WORD, _BY_DOCUMENT = Documents._fields[1:4], Documents._fields[4:]


class StoredWindow(NamedTuple):
    """`Window` as it is stored."""

    words: Annotated[IntArray, "T", index("V")]
    counts: Annotated[FloatArray, "T", WEIGHT]
    phi: Annotated[FloatArray, "T L", CHANCE]
    offsets: Annotated[IntArray, "O", up_to("T")]
    weights: Annotated[FloatArray, "N", FINITE]
    ends: Annotated[IntArray, "N", index("K", none=True)]
    own: Annotated[FloatArray, "N", FINITE]


def check_window(arrays: Mapping[str, Any], lengths: dict[str, int]) -> dict[str, int]:
    """Check a stored window; return the lengths, with those that followed."""
    known = check(StoredWindow, arrays, lengths, "window.")
    offsets = arrays["window.offsets"]
    refuse_if(
        known["O"] != known["N"] + 1 or offsets[0] != 0 or offsets[-1] != known["T"]
        or bool((np.diff(offsets) < 0).any()),
        "documents and words",
    )  # fmt: skip
    return known


def padded(array: Any, *room: int) -> Any:
    """Return an array with zeros behind it, of given lengths."""
    out = np.zeros((*room, *array.shape[len(room) :]), array.dtype)
    out[tuple(map(slice, array.shape))] = array
    return out


@dataclass(slots=True)
class Window:
    """The last n documents where they were put, d's words from ``offsets[d]`` on, with room."""

    n: int
    offsets: IntArray  # (documents + 1,)
    words: IntArray  # (words,)
    counts: FloatArray  # (words,)
    phi: FloatArray  # (words, L) levels of the words
    weights: FloatArray  # (documents,) in the raw statistics
    ends: IntArray  # (documents,) endpoints, -1 where there is none
    own: FloatArray  # (documents,) their own part of the bound

    @classmethod
    def empty(cls, L: int) -> Self:
        """Return a window without documents."""
        whole, real = np.zeros(0, np.int64), np.zeros(0)
        offsets = np.zeros(1, np.int64)
        return cls(0, offsets, whole, real, np.zeros((0, L)), real.copy(), whole.copy(), real)

    @property
    def arrays(self) -> Documents:
        """What kernels take."""
        return Documents(**attributes(self, Documents._fields))

    def append(self, offsets: IntArray, words: IntArray, counts: FloatArray, keep: int) -> int:
        """Add documents; return how many of the oldest, but for the last ``keep``, had to go."""
        more, used, gone = len(offsets) - 1, int(self.offsets[self.n]) + len(words), 0
        if self.n + more >= len(self.offsets) or used > len(self.words):
            gone = self.forget(keep, more, len(words))
        first, at = self.n, int(self.offsets[self.n])
        self.offsets[first : first + more + 1] = offsets + at
        self.words[at : at + len(words)] = words
        self.counts[at : at + len(words)] = counts
        self.ends[first : first + more] = -1
        self.n += more
        return gone

    def forget(self, keep: int, n: int = 0, n_words: int = 0) -> int:
        """Drop all but the last ``keep`` documents, with room for more; return how many went."""
        gone = max(0, self.n - keep)
        documents, spots = slice(gone, self.n), slice(*self.offsets[[gone, self.n]].tolist())
        left, left_words = self.n - gone, spots.stop - spots.start
        room, room_words = 2 * (left + n), 2 * (left_words + n_words)
        self.offsets = padded(self.offsets[gone : self.n + 1] - spots.start, room + 1)
        for name in _BY_WORD:
            setattr(self, name, padded(getattr(self, name)[spots], room_words))
        for name in _BY_DOCUMENT:
            setattr(self, name, padded(getattr(self, name)[documents], room))
        self.n = left
        return gone

    def stored(self, keep: int) -> tuple[dict[str, Any], int]:
        """Return the arrays of the last ``keep`` documents for a checkpoint, and how many go."""
        gone = max(0, self.n - keep)
        documents, spots = slice(gone, self.n), slice(*self.offsets[[gone, self.n]].tolist())
        arrays = {"window.offsets": self.offsets[gone : self.n + 1] - spots.start}
        arrays |= {f"window.{name}": getattr(self, name)[spots] for name in _BY_WORD}
        arrays |= {f"window.{name}": getattr(self, name)[documents] for name in _BY_DOCUMENT}
        return arrays, gone

    @classmethod
    def restored(cls, arrays: Mapping[str, Any], documents: int, tokens: int) -> Self:
        """Rebuild from `stored`, with room for so many documents and words."""
        return cls(
            n=len(arrays["window.weights"]),
            offsets=padded(arrays["window.offsets"], documents + 1),
            **{name: padded(arrays[f"window.{name}"], tokens) for name in _BY_WORD},
            **{name: padded(arrays[f"window.{name}"], documents) for name in _BY_DOCUMENT},
        )
