"""Documents at rest, and the weights of equal words before each of their tokens."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from streamddcrp.arguments import checked
from streamddcrp.data import Tokens, as_times, check_times
from streamddcrp.decay import Decay
from streamddcrp.errors import SchemaError
from streamddcrp.models.language import memory
from streamddcrp.models.language.base_measure import Vocabulary, make_base_measure
from streamddcrp.models.language.kernels import fade_documents
from streamddcrp.typing import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """Documents, each a ddCRP of its own over one base measure.

    Examples
    --------
    >>> from streamddcrp.models.language.corpus import Corpus
    >>> corpus = Corpus.from_documents(["to be or not to be", "to sleep"], base_measure=50)
    >>> corpus.word, corpus.starts
    (array([0, 1, 2, 3, 0, 1, 0, 4]), array([0, 6, 8]))
    """

    word: IntArray  # (N,) ids of the tokens of all documents, one after the other
    starts: IntArray  # (M + 1,) document m is word[starts[m]:starts[m + 1]]
    # (N,) probability of each token under the base measure. It may differ between documents, for
    # example if each document was left out when its measure was learned.
    g: FloatArray
    t: FloatArray  # (N,) times, or positions in the corpus if none were given
    clocked: bool  # whether times were given
    n_words: int  # one more than the highest id

    @classmethod
    @checked
    def from_documents(
        cls, documents: Iterable[Tokens], *, base_measure: Any, times: Iterable[Any] | None = None
    ) -> Self:
        """Lay out documents; SchemaError and OrderError name an invalid one.

        Parameters
        ----------
        documents : iterable of texts, lists of words, or arrays of token ids
        base_measure : BaseMeasure, int, array_like or mapping
            As for `LinkLanguageModel`.
        times : iterable of array_like, optional
            Times of the tokens of each document, not decreasing within it.
        """
        if isinstance(documents, str):
            raise SchemaError("documents: expected several, got one text; put it in a list")
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
                raise type(error)(f"document {m}, {error}", row=error.row) from None
        if clocks is not None and len(clocks) > len(words):
            raise SchemaError(f"times: got {len(clocks)} for {len(words)} documents")
        starts = np.zeros(len(words) + 1, dtype=np.int64)
        np.cumsum([len(word) for word in words], out=starts[1:])
        word = np.concatenate(words) if words else np.empty(0, dtype=np.int64)
        t = np.concatenate(stamps) if stamps else np.arange(len(word), dtype=np.float64)
        n_words = int(word.max(initial=-1)) + 1
        return cls(word, starts, vocabulary.g(word), t, clocks is not None, n_words)

    @property
    def n_documents(self) -> int:
        return len(self.starts) - 1

    def document(self, m: int) -> slice:
        """Return where document m is."""
        return slice(int(self.starts[m]), int(self.starts[m + 1]))


def _clock(clocks: list[Any], m: int, n: int) -> FloatArray:
    if m >= len(clocks):
        raise SchemaError("row 0: it has no times; every document needs them, or none has any")
    t = as_times(clocks[m], n)
    check_times(t, given=clocks[m])
    return t


def matches(corpus: Corpus, decay: Decay, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Return the weights of equal words, and of all words, before each token in its document.

    ``decay`` is not a multiple of another; links lighter than 1e-12 alpha are dropped.
    """
    scale = memory.fading_scale(decay)
    if scale is None:
        return sums_within_reach(corpus, decay, alpha, decay.weight)
    match, weight = np.empty(len(corpus.word)), np.empty(len(corpus.word))
    mass, seen = np.zeros(corpus.n_words), np.empty(corpus.n_words)
    fade_documents(corpus.word, corpus.t, corpus.starts, scale, mass, seen, match, weight)
    return match, weight


def sums_within_reach(
    corpus: Corpus, decay: Decay, alpha: float, weigh: Callable[[FloatArray], FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Sum a function of distance over the equal words within reach of each token, and over all."""
    match, weight = np.empty(len(corpus.word)), np.empty(len(corpus.word))
    if corpus.clocked:
        past: memory.Memory = memory.Timed(weigh, memory.horizon_of(decay, alpha))
    else:
        past = memory.LookingBack(weigh(np.arange(float(len(memory.tabulate(decay, alpha))))))
        past.grow(corpus.n_words)
    for m in range(corpus.n_documents):
        at = corpus.document(m)
        past.new_document()
        match[at], weight[at] = past.match(corpus.word[at], corpus.t[at])
    return match, weight
