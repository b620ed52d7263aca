"""Words of texts as small whole numbers that are used again: only live words take memory.

Reading a text is one compiled pass over its bytes (`kernels.words.read_document`), so that a
model can, document by document, read words, place the document and release the words that nothing
holds any more. Libraries cut texts well, but hand a Python object or a column of an ever growing
vocabulary a word; the table of figures in ``docs/text.md`` has the comparison.

What a word is, in any script:

* letters and digits, joined by ``+``, ``#`` and ``'`` after the first (c++, c#, don't), with the
  marks that go with them, a letter and its mark taken as one (Unicode NFC); everything else
  separates, the ``#`` of a hashtag too;
* initials with dots (U.S., e.g.), and each emoji;
* in lower case, wide and narrow forms of one letter taken as one;
* in scripts without spaces (Chinese, Japanese kana, Thai, Lao, Khmer, Burmese) each pair of
  neighbouring characters, or one that stands alone;
* cut after 64 bytes: longer words that begin alike are one word.

Left out, unless a table keeps them: links (https://…, www.…, t.co/…), the "RT @name:" of messages
that were passed on, and tickers ($IBM, <IBM.N>).

Control characters and bytes that are not UTF-8 separate. All models read texts so, those that count
words by `streamddcrp.data.tokenize`.
"""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streamddcrp.data.kernels.characters import LONGEST
from streamddcrp.data.kernels.words import (
    ALONE,
    BEGINS,
    BETWEEN,
    DOCUMENTS,
    FREE,
    IGNORED,
    JOINS,
    KEEP,
    LINKS,
    MARK,
    OPENS,
    PAIRED,
    REPEATS,
    RETWEETS,
    STOPS,
    TICKERS,
    USED,
    read_documents,
    rehash,
    release_words,
)
from streamddcrp.errors import CheckpointError, ConfigError, MissingExtraError
from streamddcrp.records import empty
from streamddcrp.typing import IntArray
from streamddcrp.validation import choice

ENGLISH = (
    "a", "about", "after", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been",
    "but", "by", "can", "could", "did", "do", "does", "for", "from", "had", "has", "have", "he",
    "her", "his", "how", "i", "if", "in", "into", "is", "it", "its", "me", "more", "my", "no",
    "not", "of", "on", "or", "our", "she", "so", "than", "that", "the", "their", "them", "then",
    "there", "these", "they", "this", "to", "up", "was", "we", "were", "what", "when", "where",
    "which", "who", "why", "will", "with", "would", "you", "your",
)  # fmt: skip
RAW = {"links": LINKS, "retweets": RETWEETS, "tickers": TICKERS}
_EMOJI = (range(0x2600, 0x27C0), range(0x2B50, 0x2B56), range(0x1F000, 0x1FB00))
_START = 1024  # words for which there is room at first
_BETWEEN = bytes([BETWEEN])
_MOST = 1 << 29  # of words
_POINTS = 1 << 17  # characters of the table; beyond are ideographs and what is in no language
_ALONE = ((0x0E00, 0x0F00), (0x1000, 0x10A0), (0x1780, 0x1800), (0x3005, 0x3008), (0x3021, 0x3030),
          (0x3031, 0x3130), (0x31A0, 0x3200), (0x3400, 0x4DC0), (0x4E00, 0xA000), (0xF900, 0xFB00),
          (0xFF66, 0xFFA0))  # fmt: skip


class WordArrays(NamedTuple):
    """State of a table of words, one argument of its kernels; its capacity C is a power of two."""

    slots: Annotated[IntArray, "S"]  # 2 C
    letters: Annotated[NDArray[np.uint64], "C 8"]  # bytes of each word, in the order of memory
    length: Annotated[NDArray[np.uint8], "C"]  # how many they are, 0 where an index is free
    # Number of the last document that held the word, negative if it came with that one.
    seen: Annotated[IntArray, "C"]
    free: Annotated[NDArray[np.int32], "C"]  # indexes to use again, the next one last
    # Indexes ever used, free ones among them, stop words (the first indexes), documents read,
    # whether words count each time they come, and bits of what is kept of raw texts.
    counts: Annotated[IntArray, "6"]
    characters: Annotated[NDArray[np.int32], "P"]  # what each character does
    # The same of bytes: the lower-case letter of ASCII, or 0; and `OPENS`.
    table: Annotated[NDArray[np.uint8], "256"]
    pairs: Annotated[IntArray, "Q"]  # letters and marks, in order: letter << 21 | mark,
    composed: Annotated[NDArray[np.int32], "Q"]  # and the letters that they make
    word: Annotated[NDArray[np.uint8], "64"]  # the word that is being read, by bytes
    eights: Annotated[NDArray[np.uint64], "8"]  # or by eights


class WordTable:
    """Words and their indexes.

    Parameters
    ----------
    stop_words : iterable of str, optional
        Words to leave out; None: a short English list, `ENGLISH`; (): none.
    repeats : bool
        Whether a word counts each time it comes; else once a document.
    keep : iterable of str
        What of raw texts is read as words instead of being left out: some of `RAW`.

    Attributes
    ----------
    arrays : WordArrays
        What kernels take; another one after `grow`.

    Raises
    ------
    ConfigError
        One of ``stop_words`` is not a word, or of ``keep`` not known.

    Examples
    --------
    >>> table = WordTable()
    >>> words, ends = table.encode(["C++ or C#?", "Let's learn c++!", "学习語言"])
    >>> table.decode(words), ends.tolist()
    (['c++', 'c#', "let's", 'learn', 'c++', '学习', '习語', '語言'], [0, 2, 5, 8])
    >>> table.release(words[:1])
    >>> table.decode(table.encode(["Cobol"])[0]), len(table)
    (['cobol'], 7)
    """

    def __init__(
        self,
        stop_words: Iterable[str] | None = None,
        *,
        repeats: bool = False,
        keep: Iterable[str] = (),
    ) -> None:
        stops: tuple[object, ...] = ENGLISH if stop_words is None else tuple(stop_words)
        self.arrays = _empty(_START)
        for stop in stops:
            if not (isinstance(stop, str) and len(self.encode([stop])[0]) == 1):
                message = f"stop_words: {stop!r} is not one word; give each word by itself"
                raise ConfigError(message)
        self.arrays.counts[STOPS] = self.arrays.counts[USED]
        self.arrays.counts[REPEATS] = repeats
        for name in keep:
            self.arrays.counts[KEEP] |= RAW[choice("keep", name, tuple(RAW))]

    def __len__(self) -> int:
        """Count live words, without stop words."""
        counts = self.arrays.counts
        return int(counts[USED] - counts[FREE] - counts[STOPS])

    def __getitem__(self, w: int) -> str:
        """Return the word of an index."""
        letters: bytes = self.arrays.letters[w].tobytes()
        return letters[: self.arrays.length[w]].decode(errors="replace")

    @property
    def capacity(self) -> int:
        """Upper end of the indexes for which there is room; a power of two."""
        return len(self.arrays.length)

    @property
    def stop_words(self) -> list[str]:
        """What is left out."""
        return self.decode(np.arange(self.arrays.counts[STOPS]))

    def grow(self, n_more: int) -> None:
        """Make room for so many more words; indexes stay as they are.

        Raises
        ------
        ConfigError
            There would be more than 2^29 words.
        """
        old = self.arrays
        need = int(old.counts[USED] - old.counts[FREE]) + n_more
        if need <= self.capacity:
            return
        if need > _MOST:
            message = f"{need:,} different words at a time are too many; {_MOST:,} are the most"
            raise ConfigError(message)
        new = _empty(1 << (need - 1).bit_length())
        n = self.capacity
        for name in "letters", "length", "seen", "free":
            getattr(new, name)[:n] = getattr(old, name)
        new.counts[:] = old.counts
        rehash(new, new.slots)
        self.arrays = new

    def encode(
        self, documents: Sequence[str] | Sequence[Sequence[str]], *, most: int = 1 << 20
    ) -> tuple[IntArray, IntArray]:
        """Read texts, or lists of words, all of them kept: `release` is the caller's.

        Parameters
        ----------
        documents : list of str, or of lists of str
            Words of a list are taken as they are; stop words are left out of both.
        most : int
            Words of a document that count; others after them are left out.

        Returns
        -------
        words : ndarray of int, shape (M,)
            Indexes, one document after the other.
        ends : ndarray of int, shape (N + 1,)
            Where each document begins, and the end.
        """
        listed = bool(len(documents)) and not isinstance(documents[0], str)
        parts = [joined([x] if isinstance(x, str) else x) for x in documents]
        data = np.frombuffer(b"".join(parts), np.uint8)
        offsets = np.cumsum([0, *map(len, parts)])
        offsets.flags.writeable = False  # as those that come from Arrow
        return self.read(data, offsets, listed=listed, most=most)

    def read(
        self, data: NDArray[np.uint8], offsets: IntArray, *, listed: bool, most: int = 1 << 20
    ) -> tuple[IntArray, IntArray]:
        """Read documents from a buffer of bytes; see `encode`.

        Parameters
        ----------
        data : ndarray of uint8
        offsets : ndarray of int64, shape (N + 1,)
            Where each document begins, and the end.
        listed : bool
            Whether these are words, the byte 255 between; else texts in UTF-8.
        most : int
        """
        out = np.empty(1024, np.int64)
        ends = np.zeros(len(offsets), np.int64)
        row = 0
        while True:
            row = read_documents(data, offsets, row, listed, self.arrays, most, out, ends)
            if row == len(offsets) - 1:
                return out[: ends[-1]].copy(), ends
            need = min(most, int(offsets[row + 1] - offsets[row]) // 2 + 1)
            self.grow(need)
            if len(out) - ends[row] < need:
                out = np.concatenate([out, np.empty(len(out) + need, np.int64)])

    def decode(self, words: IntArray) -> list[str]:
        """Return words by their indexes."""
        data = self.arrays.letters[words].tobytes()
        ends = enumerate(self.arrays.length[words].tolist())
        return [data[LONGEST * i : LONGEST * i + n].decode(errors="replace") for i, n in ends]

    def release(self, words: IntArray) -> None:
        """Free indexes for other words, the last of them first in turn."""
        release_words(self.arrays, words)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return arrays for a checkpoint."""
        used, free, stops = self.arrays.counts[:DOCUMENTS].tolist()
        length = self.arrays.length[:used]
        kept = np.arange(LONGEST) < length[:, None]
        return {
            "word_letters": self.arrays.letters[:used].view(np.uint8)[kept],
            "word_length": length.copy(),
            "word_free": self.arrays.free[:free].copy(),
            "word_stops": np.array([stops]),
        }

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]], *, keep: Iterable[str] = ()) -> Self:
        """Make the table whose `state` this is; what it keeps is no part of it.

        Raises
        ------
        CheckpointError
            The arrays do not belong together.
        """
        length, free = state["word_length"], state["word_free"]
        used, live = len(length), int(np.count_nonzero(length))
        sound = (
            length.max(initial=0) <= LONGEST
            and int(length.sum(dtype=np.int64)) == len(state["word_letters"])
            and len(free) == used - live
            and np.array_equal(np.sort(free), np.flatnonzero(length == 0))
            and 0 <= int(state["word_stops"][0]) <= used
        )
        if not sound:
            message = "the words of the checkpoint do not belong together; use another checkpoint"
            raise CheckpointError(message)
        table = cls((), keep=keep)
        kept_raw = table.arrays.counts[KEEP]
        arrays = table.arrays = _empty(max(_START, 1 << (used - 1).bit_length()))
        arrays.counts[KEEP] = kept_raw
        kept = np.arange(LONGEST) < length[:, None]
        arrays.letters[:used].view(np.uint8)[kept] = state["word_letters"]
        arrays.length[:used], arrays.free[: len(free)] = length, free
        arrays.counts[:DOCUMENTS] = used, len(free), state["word_stops"][0]
        rehash(arrays, arrays.slots)
        return table


def stop_words_of(language: str) -> tuple[str, ...]:
    """Return the words of the list that the package ``stop-words`` keeps of a language.

    Raises
    ------
    MissingExtraError
        If the package is not installed.
    ConfigError
        If it has no such language.
    """
    try:
        lists = import_module("stop_words")
    except ImportError:
        message = (
            f"stop words by the name of a language, {language!r}, need the package stop-words; "
            "install streamddcrp[words], or give a list of words"
        )
        raise MissingExtraError(message) from None
    choice("stop_words", language, {*lists.AVAILABLE_LANGUAGES, "english"})
    table = WordTable((), repeats=True)
    words = lists.get_stop_words(language)
    return tuple(word for word in words if len(table.encode([word])[0]) == 1)


def joined(words: Iterable[str]) -> bytes:
    """Return words as the bytes that `WordTable.read` takes for a list."""
    return _BETWEEN.join([str.encode(word, "utf-8", "surrogatepass") for word in words])


def _empty(capacity: int) -> WordArrays:
    arrays = empty(WordArrays, {"C": capacity, "S": 2 * capacity, "P": 0, "Q": 0})
    pairs, composed = _compositions()
    return arrays._replace(
        characters=_characters(), table=_single(), pairs=pairs, composed=composed
    )


@cache
def _characters() -> NDArray[np.int32]:
    """Return what each character does and its lower-case form, for the kernels."""
    kinds = np.zeros(_POINTS, np.int32)
    for point in range(_POINTS):
        character = chr(point)
        if character.isalnum():
            kinds[point] = _lower(character) | JOINS | BEGINS
        elif not character.isascii():
            category = unicodedata.category(character)
            if category[0] == "M":
                kinds[point] = point | JOINS | MARK
            elif category == "Cf":
                kinds[point] = IGNORED
            elif category == "So" and any(point in part for part in _EMOJI):
                kinds[point] = point | ALONE
    for character in "+#'":
        kinds[ord(character)] = ord(character) | JOINS
    kinds[0x2019] = ord("'") | JOINS  # the typographic apostrophe
    kinds[0x200B] = 0  # the space of no width
    for start, stop in _ALONE:
        kinds[start:stop] |= np.where(kinds[start:stop] & BEGINS, PAIRED, 0).astype(np.int32)
    return kinds


@cache
def _single() -> NDArray[np.uint8]:
    """Return what each byte does by itself."""
    kinds, out = _characters()[:128], np.full(256, OPENS, np.uint8)
    out[:128] = np.where(kinds & JOINS, kinds & 0x7F, 0) | np.where(kinds & BEGINS, OPENS, 0)
    return out


@cache
def _compositions() -> tuple[IntArray, NDArray[np.int32]]:
    """Return pairs of letters and marks in order, and the letters that they make, for the kernels.

    After lower-casing; i with a dot is i.
    """
    found = {ord("i") << 21 | 0x307: ord("i")}
    for point in range(_POINTS):
        parts = unicodedata.decomposition(chr(point)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            letter, mark = (chr(int(part, 16)) for part in parts)
            if unicodedata.normalize("NFC", letter + mark) == chr(point) and letter.isalnum():
                found.setdefault(_lower(letter) << 21 | ord(mark), _lower(chr(point)))
    keys = sorted(found)
    return np.array(keys, np.int64), np.array([found[key] for key in keys], np.int32)


def _lower(character: str) -> int:
    """Return the lower-case form of a letter (σ for ς, i for İ), if that is one character."""
    if character == "\u0130":
        return ord("i")
    for form in (unicodedata.normalize("NFKC", character).casefold(), character.lower()):
        if len(form) == 1 and form.isalnum():
            return ord(form)
    return ord(character)
