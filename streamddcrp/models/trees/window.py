"""The last documents with where they were put, so that they can be put elsewhere."""

from dataclasses import dataclass

import numpy as np

from streamddcrp.typing import FloatArray, IntArray


@dataclass(slots=True)
class Window:
    """Documents one after another, in arrays with room for more.

    Attributes
    ----------
    n : int
        Documents.
    offsets : ndarray of int64, shape (documents + 1,)
    words, counts : ndarray, shape (words,)
    weights : ndarray, shape (documents,)
        In the raw statistics.
    ends : ndarray of int64, shape (documents,)
        Endpoints, -1 where there is none.
    own : ndarray, shape (documents,)
        Their own part of the bound.
    phi : ndarray, shape (words, L)
        Levels of the words.
    """

    n: int
    offsets: IntArray
    words: IntArray
    counts: FloatArray
    weights: FloatArray
    ends: IntArray
    own: FloatArray
    phi: FloatArray

    @classmethod
    def empty(cls, L: int) -> "Window":
        """Return a window without documents."""
        return cls(
            0, np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0),
            np.zeros(0, np.int64), np.zeros(0), np.zeros((0, L)),
        )  # fmt: skip

    def make_room(self, n: int, n_words: int, keep: int) -> int:
        """Make room for n more documents; return how many of the oldest had to go for it.

        At least the last ``keep`` ones stay.
        """
        used = int(self.offsets[self.n])
        if self.n + n < len(self.offsets) and used + n_words <= len(self.words):
            return 0
        return self.forget(keep, n, n_words)

    def forget(self, keep: int, n: int = 0, n_words: int = 0) -> int:
        """Drop all but the last ``keep`` documents, with room for more; return how many went."""
        used = int(self.offsets[self.n])
        gone = max(0, self.n - keep)
        at = int(self.offsets[gone])
        left, left_words = self.n - gone, used - at
        room, room_words = 2 * (left + n), 2 * (left_words + n_words)
        offsets = np.zeros(room + 1, np.int64)
        offsets[: left + 1] = self.offsets[gone : self.n + 1] - at
        self.words = _moved(self.words[at:used], room_words)
        self.counts = _moved(self.counts[at:used], room_words)
        self.phi = _moved(self.phi[at:used], room_words)
        for name in ("weights", "ends", "own"):
            setattr(self, name, _moved(getattr(self, name)[gone : self.n], room))
        self.offsets, self.n = offsets, left
        return gone

    def append(self, offsets: IntArray, words: IntArray, counts: FloatArray) -> int:
        """Add documents, for which there is room; return the number of the first."""
        first, at, more = self.n, int(self.offsets[self.n]), len(offsets) - 1
        self.offsets[first : first + more + 1] = offsets + at
        self.words[at : at + len(words)] = words
        self.counts[at : at + len(words)] = counts
        self.ends[first : first + more] = -1
        self.n += more
        return first


def _moved(array: np.ndarray, room: int) -> np.ndarray:
    out = np.zeros((room, *array.shape[1:]), array.dtype)
    out[: len(array)] = array
    return out
