"""Words of texts as small reusable integers: only live words take memory.

Reading a text is one compiled pass over its bytes (`kernels.words.read_document`). A model can,
document by document, read words, place the document and release words no longer in use. Libraries
cut texts well, but return a Python object for each word or a column of an ever growing vocabulary;
``research/notes/texts-measured.md`` has the comparison.

A word, in any script, consists of:

* letters and digits, joined by ``+``, ``#`` and ``'`` after the first (c++, c#, don't), with
combining marks, a letter and its mark taken as one (Unicode NFC); everything else separates,
including the ``#`` of a hashtag;
* initials with dots (U.S., e.g.), and each emoji;
* lower-case letters, with wide and narrow forms of a letter taken as one;
* in scripts without spaces (Chinese, Japanese kana, Thai, Lao, Khmer, Burmese) the pieces that a
table has learned from earlier texts (`streamddcrp.data.kernels.pieces`), or, if the table counts
repeats, each pair of neighbouring characters or a lone one;
* at most 64 bytes: longer words with the same beginning are one word.

Unless a table keeps them, these are left out: links (https://…, www.…, t.co/…), the "RT @name:" of
forwarded messages, and tickers ($IBM, <IBM.N>). A given ticker rarely recurs, but the presence of
one or several marks company news: the first ticker of a text is the word ``$``, others are ``$$``,
unless a table counts repeats.

Control characters and bytes that are not UTF-8 separate words. All models read texts this way;
those that count words use `streamddcrp.data.tokenize`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streamddcrp.data.characters import characters, compositions, single
from streamddcrp.data.kernels import pieces as at
from streamddcrp.data.kernels import words as kernels
from streamddcrp.data.kernels.characters import LONGEST
from streamddcrp.errors import CheckpointError, ConfigError
from streamddcrp.records import MOST, Within, check, empty, index, refuse_if, up_to
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp.validation import choice

ENGLISH = (
    "a", "about", "after", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been",
    "but", "by", "can", "could", "did", "do", "does", "for", "from", "had", "has", "have", "he",
    "her", "his", "how", "i", "if", "in", "into", "is", "it", "its", "me", "more", "my", "no",
    "not", "of", "on", "or", "our", "she", "so", "than", "that", "the", "their", "them", "then",
    "there", "these", "they", "this", "to", "up", "was", "we", "were", "what", "when", "where",
    "which", "who", "why", "will", "with", "would", "you", "your",
)  # fmt: skip
RAW = {"links": kernels.LINKS, "retweets": kernels.RETWEETS, "tickers": kernels.TICKERS}
_PIECES = ("piece_keys", "piece_counts", "piece_sums", "due_keys", "due_counts")
_START = 1024  # initial capacity in words
BETWEEN = bytes([kernels.BETWEEN])
_MOST = 1 << 29  # of words
_NONE = np.zeros(0, np.int64)


class WordArrays(NamedTuple):
    """State of a table of words, one argument of its kernels; its capacity C is a power of two."""

    slots: Annotated[IntArray, "S"]  # 2 C
    letters: Annotated[NDArray[np.uint64], "C 8"]  # bytes of each word, in memory order
    length: Annotated[NDArray[np.uint8], "C"]  # number of bytes, 0 for a free index
    # Number of the last document with the word, negative if it introduced it; `STOP`.
    seen: Annotated[IntArray, "C"]
    free: Annotated[NDArray[np.int32], "C"]  # indexes to reuse, the next one last
    # Indexes ever used, including free ones; stop words; documents read; whether each occurrence of
    # a word counts; bits of the raw parts kept; and the first two before the last document.
    counts: Annotated[IntArray, "8"]
    characters: Annotated[NDArray[np.int32], "P"]  # each character's role
    # The same for bytes: the lower-case ASCII letter or 0, and `OPENS`.
    table: Annotated[NDArray[np.uint8], "256"]
    pairs: Annotated[IntArray, "Q"]  # letters and marks, in order: letter << 21 | mark,
    composed: Annotated[NDArray[np.int32], "Q"]  # and the letters they form
    word: Annotated[NDArray[np.uint8], "64"]  # the word being read, as bytes
    eights: Annotated[NDArray[np.uint64], "8"]  # and as eights
    # For scripts without spaces, see `streamddcrp.data.kernels.pieces`: counts by hash, 0 if empty;
    # the sums for pieces and for characters, entries, counts due, and the amount subtracted from
    # each count;
    piece_keys: Annotated[IntArray, "T"]
    piece_counts: Annotated[IntArray, "T"]
    piece_sums: Annotated[IntArray, "5"]
    due_keys: Annotated[IntArray, "D"]  # keys that the last text adds counts to,
    due_counts: Annotated[IntArray, "D"]
    run: Annotated[NDArray[np.uint8], "B"]  # and the run of characters being segmented
    starts: Annotated[IntArray, "R1"]
    codes: Annotated[NDArray[np.uint64], "R"]
    rates: Annotated[FloatArray, "R"]
    hashes: Annotated[IntArray, "R L"]
    often: Annotated[FloatArray, "R L"]  # expected counts of its pieces
    weights: Annotated[FloatArray, "R L"]
    scale: Annotated[FloatArray, "R"]
    boundary: Annotated[FloatArray, "R1"]


class _Pieces(NamedTuple):
    """A checkpoint's data on scripts without spaces, in key order."""

    keys: Annotated[IntArray, "N", Within(2, math.inf)]
    counts: Annotated[IntArray, "N", Within(1, MOST)]


class _Stored(NamedTuple):
    """The words U of a checkpoint, including unused indexes."""

    length: Annotated[NDArray[np.uint8], "U", Within(0, LONGEST)]
    letters: Annotated[NDArray[np.uint8], "B"]
    free: Annotated[NDArray[np.int32], "F", index("U")]
    stops: Annotated[IntArray, "1", up_to("U")]
    more_stops: Annotated[IntArray, "M", index("U")]


class WordTable:
    """Words and their indexes; kernels take ``arrays``, which `grow` replaces.

    ``stop_words``: None for `ENGLISH`. ``repeats``: each occurrence of a word counts, else one per
    document; nothing is then learned from texts, so a text gives the same words everywhere.
    ``keep``: parts of raw texts, from `RAW`, to read as words. ConfigError if an option is invalid.

    >>> table = WordTable()
    >>> words, ends = table.encode(["C++ or C#?", "Let's learn c++!", "学习語言"])
    >>> table.decode(words), ends.tolist()
    (['c++', 'c#', "let's", 'learn', 'c++', '学习語言'], [0, 2, 5, 6])
    >>> table.release(words[:1])
    >>> table.decode(table.encode(["Cobol"])[0]), len(table)
    (['cobol'], 5)
    """

    def __init__(
        self,
        stop_words: Iterable[str] | None = None,
        *,
        repeats: bool = False,
        keep: Iterable[str] = (),
    ) -> None:
        self.arrays = _english() if stop_words is None else _empty(_START)
        if stop_words is not None:
            self._read_stop_words(tuple(stop_words))
        self.arrays = _with_due(self.arrays, 1)
        self.arrays.counts[kernels.STOPS] = self.arrays.counts[kernels.USED]
        self.arrays.seen[: self.arrays.counts[kernels.USED]] = kernels.STOP
        self.arrays.counts[kernels.REPEATS] = repeats
        for name in keep:
            self.arrays.counts[kernels.KEEP] |= RAW[choice("keep", name, tuple(RAW))]

    def _read_stop_words(self, stops: tuple[object, ...]) -> None:
        self.arrays = _with_due(self.arrays, 0)  # stop words teach nothing
        texts = [stop for stop in stops if isinstance(stop, str)]
        ends = self.encode(texts)[1] if texts else np.zeros(1)
        wrong = [stop for stop in stops if not isinstance(stop, str)]
        wrong += [text for text, n in zip(texts, np.diff(ends).tolist(), strict=True) if n != 1]
        if wrong:
            raise ConfigError(f"stop_words: {wrong[0]!r} is not one word; give each word by itself")

    def __len__(self) -> int:
        """Count live words, without stop words."""
        counts = self.arrays.counts
        return int(counts[kernels.USED] - counts[kernels.FREE] - counts[kernels.STOPS])

    def __getitem__(self, w: int) -> str:
        """Return the word of an index."""
        letters: bytes = self.arrays.letters[w].tobytes()
        return letters[: self.arrays.length[w]].decode(errors="replace")

    @property
    def capacity(self) -> int:
        """Upper end of the indexes with room, a power of two."""
        return len(self.arrays.length)

    @property
    def stop_words(self) -> list[str]:
        """The words left out."""
        return self.decode(np.flatnonzero(self.arrays.seen == kernels.STOP))

    def grow(self, n_more: int) -> None:
        """Make room for ``n_more`` words, up to 2^29 in all (else ConfigError); indexes stay."""
        if self.arrays.piece_sums[at.DUE] > 0 and not len(self.arrays.piece_keys):
            self.arrays = _with_pieces(self.arrays)
        old = self.arrays
        need = int(old.counts[kernels.USED] - old.counts[kernels.FREE]) + n_more
        if need <= self.capacity:
            return
        if need > _MOST:
            raise ConfigError(f"{need:,} different words at a time; at most {_MOST:,} are possible")
        new = _empty(1 << (need - 1).bit_length())
        n = self.capacity
        for name in "letters", "length", "seen", "free":
            getattr(new, name)[:n] = getattr(old, name)
        new.counts[:] = old.counts
        kernels.rehash(new, new.slots)
        self.arrays = new._replace(**{name: getattr(old, name) for name in _PIECES})

    def encode(
        self, documents: Sequence[str] | Sequence[Sequence[str]], *, most: int = 1 << 20
    ) -> tuple[IntArray, IntArray]:
        """Read texts, or lists of words, without stop words; the caller must `release` them.

        ``most``: words that count in a document. Returns indexes (M,), document after document, and
        (N + 1,) their beginnings and the end.
        """
        listed = bool(len(documents)) and not isinstance(documents[0], str)
        parts = [joined([x] if isinstance(x, str) else x) for x in documents]
        data = np.frombuffer(b"".join(parts), np.uint8)
        offsets = np.cumsum([0, *map(len, parts)])
        return self.read(data, offsets, listed=listed, most=most)

    def read(
        self, data: NDArray[np.uint8], offsets: IntArray, *, listed: bool, most: int = 1 << 20
    ) -> tuple[IntArray, IntArray]:
        """Read documents from bytes, the i-th from ``offsets[i]`` on; see `encode`.

        ``listed``: words separated by byte 255, else UTF-8 texts.
        """
        out = np.empty(1024, np.int64)
        ends = np.zeros(len(offsets), np.int64)
        row = 0
        while True:
            row = kernels.read_documents(data, offsets, row, listed, self.arrays, most, out, ends)
            if row == len(offsets) - 1:
                return out[: ends[-1]].copy(), ends
            need = min(most, int(offsets[row + 1] - offsets[row]) // 2 + 1)
            self.grow(need)
            if len(out) - ends[row] < need:
                out = np.concatenate([out, np.empty(len(out) + need, np.int64)])

    def leave_out(self, words: Sequence[str]) -> IntArray:
        """Add stop words; return the indexes of new ones, which must not be in use."""
        found = np.unique(self.encode([list(words)])[0])
        self.arrays.seen[found] = kernels.STOP
        self.arrays.counts[kernels.STOPS] += len(found)
        return found

    def decode(self, words: IntArray) -> list[str]:
        """Return words by their indexes."""
        data = self.arrays.letters[words].tobytes()
        ends = enumerate(self.arrays.length[words].tolist())
        return [data[LONGEST * i : LONGEST * i + n].decode(errors="replace") for i, n in ends]

    def release(self, words: IntArray) -> None:
        """Free indexes for other words; the last freed is reused first."""
        kernels.release_words(self.arrays, words)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return arrays for a checkpoint, without pieces if there are none."""
        used, free, _ = self.arrays.counts[: kernels.DOCUMENTS].tolist()
        length = self.arrays.length[:used]
        kept = np.arange(LONGEST) < length[:, None]
        order = np.argsort(self.arrays.piece_keys)
        order = order[len(order) - int(self.arrays.piece_sums[at.LISTED]) :]
        pieces = _Pieces(self.arrays.piece_keys[order], self.arrays.piece_counts[order])
        learned = {f"pieces.{name}": part for name, part in pieces._asdict().items() if len(part)}
        # Stop words come first, except those added later.
        stops = np.flatnonzero(self.arrays.seen[:used] == kernels.STOP)
        first = int(np.count_nonzero(stops == np.arange(len(stops))))
        if first < len(stops):
            learned["word_more_stops"] = stops[first:]
        return learned | {
            "word_letters": self.arrays.letters[:used].view(np.uint8)[kept],
            "word_length": length.copy(),
            "word_free": self.arrays.free[:free].copy(),
            "word_stops": np.array([first]),
        }

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]], *, keep: Iterable[str] = ()) -> Self:
        """Restore a table from `state`, except for ``keep``; raises CheckpointError."""
        none_added = () if "word_more_stops" in state else ("more_stops",)
        check(_Stored, state, {}, "word_", none_added)
        length, free = state["word_length"], state["word_free"]
        used, live = len(length), int(np.count_nonzero(length))
        first, more = int(state["word_stops"][0]), state.get("word_more_stops", _NONE)
        sound = (
            int(length.sum(dtype=np.int64)) == len(state["word_letters"])
            and len(free) == used - live
            and np.array_equal(np.sort(free), np.flatnonzero(length == 0))
            and (more[:1] > first).all()
            and (np.diff(more) > 0).all()
            and length[more].all()
        )
        if not sound:
            raise CheckpointError(
                "the words of the checkpoint are inconsistent; use another checkpoint"
            )
        table = cls((), keep=keep)
        kept_raw = table.arrays.counts[kernels.KEEP]
        arrays = table.arrays = _empty(max(_START, 1 << (used - 1).bit_length()))
        arrays.counts[kernels.KEEP] = kept_raw
        kept = np.arange(LONGEST) < length[:, None]
        arrays.letters[:used].view(np.uint8)[kept] = state["word_letters"]
        arrays.length[:used], arrays.free[: len(free)] = length, free
        arrays.counts[: kernels.DOCUMENTS] = used, len(free), first + len(more)
        arrays.seen[:first], arrays.seen[more] = kernels.STOP, kernels.STOP
        kernels.rehash(arrays, arrays.slots)
        if "pieces.keys" in state:
            n = check(_Pieces, state, {}, "pieces.")["N"]
            keys, counts = state["pieces.keys"], state["pieces.counts"]
            refuse_if(n > at.MOST_PIECES or bool((np.diff(keys) <= 0).any()), "pieces")
            table.arrays = _with_pieces(arrays)
            at.enter_pieces(table.arrays, keys, counts)
        return table


def joined(words: Iterable[str]) -> bytes:
    """Encode words as the byte list that `WordTable.read` takes."""
    return BETWEEN.join([str.encode(word, "utf-8", "surrogatepass") for word in words])


def _empty(capacity: int) -> WordArrays:
    pairs, composed = compositions()
    lengths = {
        "C": capacity, "S": 2 * capacity, "P": 0, "Q": 0, "T": 0, "D": 1, "R": at.MOST_UNITS,
        "R1": at.MOST_UNITS + 1, "B": at.MOST_UNITS * LONGEST, "L": at.LONGEST_PIECE,
    }  # fmt: skip
    return empty(WordArrays, lengths)._replace(
        characters=characters(), table=single(), pairs=pairs, composed=composed
    )


def _english() -> WordArrays:
    """Return a table of `ENGLISH` without the reading kernel, which takes seconds to compile."""
    arrays = _empty(_START)
    for w, word in enumerate(ENGLISH):
        arrays.letters[w].view(np.uint8)[: len(word)] = list(word.encode())
        arrays.length[w] = len(word)
    arrays.counts[kernels.USED] = len(ENGLISH)
    kernels.rehash(arrays, arrays.slots)
    return arrays


def _with_pieces(arrays: WordArrays) -> WordArrays:
    """Make room for piece counts, in a table that stays about half empty."""
    counts = np.zeros((2, 2 * at.MOST_PIECES), np.int64)
    arrays = arrays._replace(piece_keys=counts[0], piece_counts=counts[1])
    return _with_due(arrays, at.MOST_DUE)


def _with_due(arrays: WordArrays, n: int) -> WordArrays:
    """Make room for a text's counts; a capacity of one shows that a table exists."""
    return arrays._replace(due_keys=np.zeros(n, np.int64), due_counts=np.zeros(n, np.int64))
