"""Documents as flat arrays."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from streamddcrp.data import Tokens, as_times, check_times
from streamddcrp.errors import SchemaError
from streamddcrp.models.language.base_measure import make_base_measure
from streamddcrp.models.language.vocabulary import Vocabulary
from streamddcrp.typing import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """Documents, each a ddCRP of its own over one base measure.

    Attributes
    ----------
    word : ndarray of int64, shape (N,)
        Ids of the tokens of all documents, one after the other.
    starts : ndarray of int64, shape (M + 1,)
        Document m is ``word[starts[m]:starts[m + 1]]``.
    g : ndarray of float64, shape (N,)
        Probability of each token under the base measure (it may differ from document to document,
        as where the document itself was left out when it was learned).
    t : ndarray of float64, shape (N,)
        Times; the place in the corpus where none were given.
    clocked : bool
        Whether times were given.
    n_words : int
        One more than the highest id.

    Examples
    --------
    >>> from streamddcrp.models.language.corpus import Corpus
    >>> corpus = Corpus.from_documents(["to be or not to be", "to sleep"], base_measure=50)
    >>> corpus.word, corpus.starts
    (array([0, 1, 2, 3, 0, 1, 0, 4]), array([0, 6, 8]))
    """

    word: IntArray
    starts: IntArray
    g: FloatArray
    t: FloatArray
    clocked: bool
    n_words: int

    @classmethod
    def from_documents(
        cls, documents: Iterable[Tokens], *, base_measure: Any, times: Iterable[Any] | None = None
    ) -> Self:
        """Lay out documents.

        Parameters
        ----------
        documents : iterable of texts, lists of words, or arrays of token ids
        base_measure : BaseMeasure, int, array_like or mapping
            As for `LinkLanguageModel`.
        times : iterable of array_like, optional
            Times of the tokens of each document, not falling within it.

        Raises
        ------
        SchemaError, OrderError
            A token is unknown, or a time unusable; the message names the document.
        """
        if isinstance(documents, str):
            message = "documents: expected several, got one text; put it in a list"
            raise SchemaError(message)
        vocabulary = Vocabulary(make_base_measure(base_measure))
        clocks = None if times is None else list(times)
        words: list[IntArray] = []
        stamps: list[FloatArray] = []
        for m, document in enumerate(documents):
            try:
                words.append(vocabulary.encode(document))
                if clocks is not None:
                    stamps.append(_clock(clocks, m, len(words[-1])))
            except SchemaError as error:
                message = f"document {m}, {error}"
                raise type(error)(message, row=error.row) from None
        starts = np.zeros(len(words) + 1, dtype=np.int64)
        np.cumsum([len(word) for word in words], out=starts[1:])
        word = np.concatenate(words) if words else np.empty(0, dtype=np.int64)
        t = np.concatenate(stamps) if stamps else np.arange(len(word), dtype=np.float64)
        n_words = int(word.max(initial=-1)) + 1
        return cls(word, starts, vocabulary.g(word), t, clocks is not None, n_words)

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return len(self.starts) - 1

    def document(self, m: int) -> slice:
        """Return where document m is."""
        return slice(int(self.starts[m]), int(self.starts[m + 1]))


def _clock(clocks: list[Any], m: int, n: int) -> FloatArray:
    if m >= len(clocks):
        message = "row 0: it has no times; every document needs them, or none has any"
        raise SchemaError(message)
    t = as_times(clocks[m], n)
    check_times(t)
    return t
