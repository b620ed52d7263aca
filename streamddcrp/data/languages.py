"""Lists of stop words by language, and the languages of texts, recognised by these words.

A text of n different words, k of them in a list, is in that language with the likelihood

    p^k (1 - p)^(n - k),  p = 0.2

and in another one with the same for p = 0.025. The ratio of the two is at most 20, since one text
in twenty may quote another language whatever its own is. Whether a stream holds a language is a
question about the part of its texts in it: at most one in twenty, or above, each with a uniform
prior. So a language of fewer than one text in ten is not found. One is recognised when the odds for
it are a thousand to one for each language that might have been, and, while fewer than `ENOUGH`
texts were looked at, twenty to one against each other language: Danish and Norwegian differ little.
Words that are left out are no evidence, so that Spanish does not speak for Catalan any more; nor
are words of one letter.

The two probabilities were chosen on real texts of 26 languages and on English corpora, see
``research/notes/texts-measured.md``. Lists that hold few of the words of a text recognise nothing:
Greek, Korean, and the lists of scripts without spaces.
"""

import math
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamddcrp.data.words import WordTable
from streamddcrp.errors import ConfigError, MissingExtraError
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp.validation import choice

FIRST_LOOK, MOST_BETWEEN = 8, 8192  # texts before languages are looked for, and between two looks
ENOUGH = 256
_IN, _NOT = 0.2, 0.025  # how often a word is in the list of the language of its text, or of another
_QUOTED = 0.05
_ODDS, _MARGIN = 1000.0, 20.0
_PARTS = np.linspace(0.1, 1.0, 10)  # of the texts, if the stream holds a language
_QUOTATIONS = np.linspace(0.0, _QUOTED, 6)  # and if not


class Lists(NamedTuple):
    """The stop words of all languages but English."""

    names: tuple[str, ...]  # of the languages, in order
    words: tuple[tuple[str, ...], ...]  # of each
    table: WordTable  # of all of them
    holds: NDArray[np.bool_]  # (V, L): which lists hold a word, none if it has one letter


def stop_words_of(language: str) -> tuple[str, ...]:
    """Return a language's words by the package ``stop-words``; ConfigError if it has none."""
    lists = _package(f"stop words by the name of a language, {language!r},")
    choice("stop_words", language, {*lists.AVAILABLE_LANGUAGES, "english", "auto"})
    words = lists.get_stop_words(language)
    table = WordTable((), repeats=True)
    ends = table.encode(words)[1]
    return tuple(word for word, n in zip(words, np.diff(ends).tolist(), strict=True) if n == 1)


@cache
def known_lists() -> Lists:
    """Return the lists that languages are recognised by; needs the package ``stop-words``."""
    package = _package('stop_words="auto"')
    names = tuple(sorted({*package.AVAILABLE_LANGUAGES} - {"english"}))
    table = WordTable((), repeats=True)
    found = [np.unique(table.encode([*stop_words_of(name)])[0]) for name in names]
    holds = np.zeros((table.capacity, len(names)), np.bool_)
    for j, indexes in enumerate(found):
        holds[indexes, j] = True
    holds[[w for w in range(len(table)) if len(table[w]) == 1]] = False
    return Lists(names, tuple(tuple(table.decode(part)) for part in found), table, holds)


def _package(wanted: str) -> Any:
    try:
        return import_module("stop_words")
    except ImportError:
        raise MissingExtraError(
            f"{wanted} needs the package stop-words; install streamddcrp[words], or give a list "
            "of words"
        ) from None


def check_languages(names: object) -> list[str]:
    """Return the names of languages of a state, each once; raises ConfigError."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"languages: expected a list of names, got {names!r:.80}")
    if len(set(names)) < len(names):
        raise ConfigError(f"languages: each can be there once, got {names!r:.80}")
    return names


def until_look(seen: int, first: int = FIRST_LOOK, most: int = MOST_BETWEEN) -> int:
    """Return in how many texts to look again: at 8, 16, 32, …, 8192, 16384, … (first and most)."""
    return most - seen % most if seen >= most else max(first, 1 << seen.bit_length()) - seen


def is_due(seen: int, first: int = FIRST_LOOK, most: int = MOST_BETWEEN) -> bool:
    """Return whether to look after so many texts."""
    return seen > 0 and until_look(seen - 1, first, most) == 1


def recognise(listed: IntArray, sizes: IntArray, known: Sequence[int]) -> int:
    """Return the number of the language that texts are in, or -1.

    ``listed`` (N, L): different words of a text in each list and in no known language's; ``sizes``
    (N,): those in no known language's; ``known``: languages that are not looked for.

    >>> import numpy as np
    >>> listed = np.tile([[2, 0], [1, 1]], (10, 1))
    >>> recognise(listed, np.full(20, 7), []), recognise(listed[:4], np.full(4, 7), [])
    (0, -1)
    """
    hit, miss = math.log(_IN / _NOT), math.log((1.0 - _IN) / (1.0 - _NOT))
    log_ratio = listed * hit + (sizes[:, None] - listed) * miss
    likely = np.mean(log_ratio > 0.0, axis=0) > _QUOTED  # else quotations explain them better
    likely[list(known)] = False
    if not likely.any():
        return -1
    ratio = np.exp(np.clip(log_ratio, -50.0, 50.0))
    ratio = ratio / (1.0 - _QUOTED + _QUOTED * ratio)
    odds = np.full(len(likely), -np.inf)
    for j in np.flatnonzero(likely).tolist():
        odds[j] = _evidence(ratio[:, j], _PARTS) - _evidence(ratio[:, j], _QUOTATIONS)
    best = int(np.argmax(odds))
    others = float(np.delete(odds, best).max(initial=-np.inf))
    sure = len(sizes) >= ENOUGH or odds[best] - others >= math.log(_MARGIN)
    return best if sure and odds[best] >= math.log(_ODDS * len(odds)) else -1


def _evidence(ratio: FloatArray, parts: FloatArray) -> float:
    """Return the log of the mean likelihood, each part of the texts being as likely a priori."""
    log = np.log(1.0 - parts[:, None] + parts[:, None] * ratio).sum(axis=1)
    return float(log.max() + np.log(np.mean(np.exp(log - log.max()))))
