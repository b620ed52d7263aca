"""Tokens: words of a text, a list of words, or integers that stand for words."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from streamddcrp.data.words import WordTable
from streamddcrp.errors import SchemaError
from streamddcrp.typing import IntArray

Tokens = str | Sequence[str] | Sequence[int] | IntArray
_MOST = np.iinfo(np.int64).max


def tokenize(text: str) -> list[str]:
    """Cut a text into all its words, in order, by the rule of `streamddcrp.data.words`.

    Words are letters and digits of any script in lower case, joined by ``+``, ``#`` and ``'``;
    nothing is left out or stemmed. For other words, pass a list instead of a text.

    Examples
    --------
    >>> from streamddcrp.data import tokenize
    >>> tokenize("The cat -- a big one -- didn't sit.")
    ['the', 'cat', 'a', 'big', 'one', "didn't", 'sit']
    """
    return tokenize_all([text])[0]


def tokenize_all(texts: Sequence[str]) -> list[list[str]]:
    """Cut each text into words as `tokenize` does."""
    table = WordTable((), repeats=True)
    found, ends = table.encode(texts, most=max(map(len, texts), default=0))
    names = table.decode(np.arange(len(table)))
    words = [names[w] for w in found.tolist()]
    return [words[a:b] for a, b in pairwise(ends.tolist())]


def as_tokens(tokens: object) -> list[str] | IntArray:
    """Return the words of a text or list, or token ids (N,) as integers.

    SchemaError if they are neither all words nor all integers, in one dimension.

    >>> as_tokens("To be, or not to be")
    ['to', 'be', 'or', 'not', 'to', 'be']
    >>> as_tokens([0, 1, 0])
    array([0, 1, 0])
    """
    if isinstance(tokens, str):
        return tokenize(tokens)
    items: Any = tokens
    if not isinstance(items, np.ndarray):
        try:
            items = list(items)
        except TypeError:
            raise SchemaError(
                f"tokens: expected a text, words or whole numbers; got {tokens!r}"
            ) from None
        if not items:
            return np.empty(0, dtype=np.int64)
        if isinstance(items[0], str):
            return _words(items)
    try:
        ids = np.asarray(items)
    except ValueError:  # lists of different lengths
        ids = np.empty((1, 1), dtype=object)
    if ids.dtype.kind == "U" and ids.ndim == 1 and ids is items:
        return _words(ids.tolist())
    fits = ids.ndim == 1 and ids.dtype.kind in "iu" and ids.max(initial=0) <= _MOST
    if not fits and (ids.size or ids.dtype.names):
        raise SchemaError(
            f"tokens: expected a text, a list of words or a flat array of whole numbers; got an "
            f"array of shape {ids.shape} and type {ids.dtype}"
        )
    return np.ascontiguousarray(ids.ravel(), dtype=np.int64)


def _words(items: list[Any]) -> list[str]:
    for row, word in enumerate(items):
        if not isinstance(word, str):
            raise SchemaError(f"row {row}: expected a word like the first, got {word!r}", row=row)
    return items
