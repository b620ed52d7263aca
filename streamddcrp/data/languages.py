"""Stop words by language, and recognition of texts' languages by these words.

A text of n different words, k of them in a language's list, has under this language the likelihood

    p^k (1 - p)^(n - k),  p = 0.2

and under another one the same with p = 0.025. The ratio is capped at 20, since one text in twenty
may quote another language. The hypotheses are that the share of a stream's texts in the language is
at most one in twenty, or above, each with a uniform prior. A language of fewer than one text in ten
is therefore not found. A language is recognised when its odds are a thousand to one for each
candidate language and, before `ENOUGH` texts were checked, twenty to one against each other
language: Danish and Norwegian differ little.
Words already left out are no evidence, so that known Spanish is not mistaken for Catalan; neither
are one-letter words.

The two probabilities were chosen on real texts of 26 languages and on English corpora, see
``research/notes/texts-measured.md``. Lists with few words of their texts recognise nothing: Greek,
Korean, and the scripts without spaces.
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamddcrp.data.words import WordTable
from streamddcrp.errors import ConfigError, import_extra
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp.validation import choice

FIRST_LOOK, MOST_BETWEEN = 8, 8192  # texts before the first check, and most between checks
ENOUGH = 256
_IN, _NOT = 0.2, 0.025  # share of words in the list of the text's language, or of another
_QUOTED = 0.05
_ODDS, _MARGIN = 1000.0, 20.0
_PARTS = np.linspace(0.1, 1.0, 10)  # share of texts, if the stream holds the language
_QUOTATIONS = np.linspace(0.0, _QUOTED, 6)  # and if it does not


class Lists(NamedTuple):
    """The stop words of all languages but English."""

    names: tuple[str, ...]  # of the languages, in order
    words: tuple[tuple[str, ...], ...]  # of each
    table: WordTable  # of all of them
    holds: NDArray[np.bool_]  # (V, L): lists that contain a word; none for one-letter words


def stop_words_of(language: str) -> tuple[str, ...]:
    """Return a language's words from the package ``stop-words``, or raise ConfigError."""
    lists = _package(f"stop words by the name of a language, {language!r},")
    choice("stop_words", language, {*lists.AVAILABLE_LANGUAGES, "english", "auto"})
    words = lists.get_stop_words(language)
    table = WordTable((), repeats=True)
    ends = table.encode(words)[1]
    return tuple(word for word, n in zip(words, np.diff(ends).tolist(), strict=True) if n == 1)


@cache
def known_lists() -> Lists:
    """Return the lists used for recognition; needs the package ``stop-words``."""
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
    what = f"{wanted} needs the package stop-words; give a list of words instead, or install it"
    return import_extra("stop_words", what, "words")


def check_languages(names: object) -> list[str]:
    """Return a state's languages, each once; raises ConfigError."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"languages: expected a list of names, got {names!r:.80}")
    if len(set(names)) < len(names):
        raise ConfigError(f"languages: each can be there once, got {names!r:.80}")
    return names


def until_look(seen: int, first: int = FIRST_LOOK, most: int = MOST_BETWEEN) -> int:
    """Return the texts until the next check: at 8, 16, 32, …, 8192, 16384, … (first and most)."""
    return most - seen % most if seen >= most else max(first, 1 << seen.bit_length()) - seen


def is_due(seen: int, first: int = FIRST_LOOK, most: int = MOST_BETWEEN) -> bool:
    """Return whether a check is due after this many texts."""
    return seen > 0 and until_look(seen - 1, first, most) == 1


def recognise(listed: IntArray, sizes: IntArray, known: Sequence[int]) -> int:
    """Return the number of the texts' language, or -1.

    ``listed`` (N, L) counts different words of a text in each list but in no known language's,
    ``sizes`` (N,) all those in no known language's; ``known`` languages are skipped.

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
    """Return the log of the mean likelihood, with shares of texts equally likely a priori."""
    log = np.log(1.0 - parts[:, None] + parts[:, None] * ratio).sum(axis=1)
    return float(log.max() + np.log(np.mean(np.exp(log - log.max()))))
