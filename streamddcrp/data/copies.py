"""Find copies among texts, in models that take batches of documents.

`streamddcrp.data.kernels.copies` explains the method.
"""

from typing import Annotated, NamedTuple

import numpy as np

from streamddcrp import records as rec
from streamddcrp.compilation import entry_point
from streamddcrp.data.documents import Bags
from streamddcrp.data.kernels import copies as kernels
from streamddcrp.typing import FloatArray, IntArray


class _Index(NamedTuple):
    """Texts M by number, T places with their words, buckets S of codes, words V, U in a text."""

    start: Annotated[IntArray, "M"]
    length: Annotated[IntArray, "M"]  # 0: a copy
    code: Annotated[IntArray, "M 5"]
    older: Annotated[IntArray, "M 5", -1]  # text of the same bucket
    newest: Annotated[IntArray, "S 5", -1]
    text: Annotated[IntArray, "T"]
    times: Annotated[FloatArray, "T"]
    owner: Annotated[IntArray, "T"]
    before: Annotated[IntArray, "T", -1]  # place of the same word
    last: Annotated[IntArray, "V", -1]
    held: Annotated[IntArray, "V"]  # texts with a word
    # work space: the words of the new text, 1, 2, ..; by these, how often they come, their
    # probability, that given the others, and a count
    slot: Annotated[IntArray, "V"]
    amount: Annotated[FloatArray, "U"]
    told: Annotated[FloatArray, "U"]
    mean: Annotated[FloatArray, "U"]
    counted: Annotated[IntArray, "U"]
    codes: Annotated[IntArray, "2 5"]


class CopyIndex:
    """The last ``reach`` texts, by which copies of them are found.

    >>> index, words = CopyIndex(exact=True), np.arange(8)
    >>> found, _ = index.find(Bags(np.array([0, 4, 8]), words, np.ones(8)))
    >>> found.tolist(), index.find(Bags(np.array([0, 4]), words[4:], np.ones(4)))[0].tolist()
    ([-1, -1], [1])
    """

    def __init__(self, *, exact: bool, reach: int = rec.MOST) -> None:
        self.reach, self.exact = reach, exact
        self._index = rec.empty(_Index, dict.fromkeys("MSTVU", 1))
        self._numbers = np.zeros(3, np.int64)

    def __len__(self) -> int:
        return int(self._numbers[kernels.N_SEEN])

    def find(self, bags: Bags, mode: int = kernels.LEARN) -> tuple[IntArray, FloatArray]:
        """Return the number of the text that each one copies, -1: none, and its surprise."""
        n, index, (seen, _, places) = len(bags.offsets) - 1, self._index, self._numbers.tolist()
        longest, V = int(np.diff(bags.offsets).max(initial=0)), int(bags.words.max(initial=-1)) + 1
        needs = seen + n, places + len(bags.words), V, longest + 1
        room = tuple(map(len, (index.start, index.text, index.last, index.told)))
        if any(a > b for a, b in zip(needs, room, strict=True)):
            more = [max(b, 1 << (a - 1).bit_length()) for a, b in zip(needs, room, strict=True)]
            lengths = dict(zip("MTVU", more, strict=True))
            self._index = index = rec.resized(index, lengths | {"S": lengths["M"]})
            entry_point(kernels.link_again)(index, seen)
        source, surprise = np.empty(n, np.int64), np.empty(n)
        entry_point(kernels.find_copies)(
            index, bags, self._numbers, self.reach, self.exact, mode, source, surprise
        )
        return source, surprise
