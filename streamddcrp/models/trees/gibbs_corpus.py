"""Counts of words as tokens in a row."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from streamddcrp.errors import SchemaError
from streamddcrp.typing import IntArray


class Corpus(NamedTuple):
    """Tokens of N documents: those of document d are words[first[d]:first[d + 1]], in order."""

    words: IntArray
    first: IntArray
    n_words: int


def as_corpus(counts: Any, n_words: int | None = None) -> Corpus:
    """Return the tokens of whole counts (N, V), dense or scipy sparse.

    Raises
    ------
    SchemaError
        A count is negative or not whole, or V is not ``n_words``; the message names the row.
    """
    try:
        X = sparse.csr_array(counts, dtype=np.float64)
    except (TypeError, ValueError):
        message = "documents: expected counts of words, an array or sparse matrix (N, V)"
        raise SchemaError(message) from None
    if X.ndim != 2 or X.shape[1] < 1 or (n_words is not None and X.shape[1] != n_words):
        wanted = "V >= 1" if n_words is None else f"V = {n_words}"
        message = f"documents: expected counts (N, V) with {wanted}, got shape {X.shape}"
        raise SchemaError(message)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    bad = np.flatnonzero(~((X.data >= 0.0) & (np.floor(X.data) == X.data)))
    if len(bad):
        row = int(np.searchsorted(X.indptr, bad[0], side="right")) - 1
        word, value = X.indices[bad[0]], X.data[bad[0]]
        message = f"row {row}, word {word}: {value} is not a count; give a whole number >= 0"
        raise SchemaError(message, row=row)
    n = X.data.astype(np.int64)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(n)])
    words = np.repeat(X.indices.astype(np.int64), n)
    return Corpus(words, ends[X.indptr].astype(np.int64), X.shape[1])
