"""What lies before each token: the weights of equal words, by the kind of decay.

Of a stream a `Memory` keeps what is needed:

======================  ============================================  =======================
`Fading`                exponential or no decay, of index or time     O(1) per token
`LookingBack`           any decay of the index distance               O(equal words within W)
`Timed`                 any other decay of time                       O(tokens within reach)
======================  ============================================  =======================

It answers one question for each token: how much weight lies on the equal words before it in the
document (``match``), and how much on all of them (``weight``, F_i). `matches` answers it for all
tokens of a `Corpus` at once.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from streamddcrp.data import Tokens, as_times, check_times
from streamddcrp.decay import Decay, Exponential, NoDecay
from streamddcrp.decay.base import Scaled
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.models.language.base_measure import Vocabulary, make_base_measure
from streamddcrp.models.language.kernels import (
    fade,
    fade_documents,
    look_back,
    look_back_at,
    look_back_documents,
    within_reach,
)
from streamddcrp.typing import FloatArray, IntArray

_TAIL = 1e-12  # weight, as a share of alpha, below which a link is not offered
_LONGEST = 1 << 22  # most entries of a table of weights
_PAIRS = 1 << 20  # weights computed at once
Match = tuple[FloatArray, FloatArray]


class Memory(ABC):
    """The past of one document, and more if several follow each other."""

    arrays_kept: tuple[str, ...]  # attributes that a checkpoint needs

    @abstractmethod
    def match(self, word: IntArray, t: FloatArray) -> Match:
        """Take up tokens; return ``match`` and ``weight`` of each before it was taken up."""

    @abstractmethod
    def peek(self, word: IntArray, t: float) -> tuple[FloatArray, float]:
        """Return ``match`` of each word as the next token at time t, and ``weight``."""

    @abstractmethod
    def new_document(self) -> None:
        """Forget: the next token is the first of a document."""

    @abstractmethod
    def grow(self, n_words: int) -> None:
        """Make room for words with ids below ``n_words``."""

    def arrays(self) -> dict[str, Any]:
        """Return the state, for a checkpoint."""
        return {name: getattr(self, name) for name in self.arrays_kept}

    def restore(self, arrays: dict[str, Any]) -> None:
        """Take the state of `arrays`."""
        for name in self.arrays_kept:
            setattr(self, name, arrays[name])


class Fading(Memory):
    """Exponential decay: a faded sum per word."""

    arrays_kept = ("mass", "seen", "total")

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.mass, self.seen, self.total = np.zeros(0), np.zeros(0), np.zeros(2)

    def match(self, word: IntArray, t: FloatArray) -> Match:
        match, weight = np.empty((2, len(word)))
        if len(word) and self.total[0] == 0.0:  # what is empty does not fade, whatever its time
            self.total[1] = t[0]
            self.seen[:] = t[0]
        fade(word, t, self.scale, self.mass, self.seen, self.total, match, weight)
        return match, weight

    def peek(self, word: IntArray, t: float) -> tuple[FloatArray, float]:
        left = np.exp((self.seen[word] - t) / self.scale) if self.total[0] else 1.0
        total = self.total[0] * math.exp((self.total[1] - t) / self.scale) if self.total[0] else 0.0
        return self.mass[word] * left, float(total)

    def new_document(self) -> None:
        self.mass[:] = 0.0
        self.total[:] = 0.0

    def grow(self, n_words: int) -> None:
        self.mass = _grown(self.mass, n_words, 0.0)
        self.seen = _grown(self.seen, n_words, self.total[1])


class LookingBack(Memory):
    """A decay of the index distance: the places of each word among the last W tokens."""

    arrays_kept = ("last", "previous", "places")

    def __init__(self, table: FloatArray) -> None:
        self.table, self.prefix = table, prefix_sums(table)
        self.last = np.empty(0, dtype=np.int64)
        self.previous = np.full(1 << (len(table) - 1).bit_length(), -1, dtype=np.int64)
        self.places = np.zeros(2, dtype=np.int64)  # of the next token, of the document's first

    def match(self, word: IntArray, t: FloatArray) -> Match:
        match, weight = np.empty((2, len(word)))
        n, start = self.places
        look_back(word, n, start, self.table, self.prefix, self.last, self.previous, match, weight)
        self.places[0] += len(word)
        return match, weight

    def peek(self, word: IntArray, t: float) -> tuple[FloatArray, float]:
        match = np.empty(len(word))
        n, start = self.places
        look_back_at(word, n, start, self.table, self.last, self.previous, match)
        return match, float(self.prefix[min(int(n - start), len(self.table) - 1)])

    def new_document(self) -> None:
        self.places[1] = self.places[0]

    def grow(self, n_words: int) -> None:
        self.last = _grown(self.last, n_words, -1)


class Timed(Memory):
    """A decay of time: the tokens within reach."""

    arrays_kept = ("word", "t")

    def __init__(self, decay: Decay, horizon: float) -> None:
        self.decay, self.horizon = decay, horizon
        self.word, self.t = np.empty(0, dtype=np.int64), np.empty(0)

    def match(self, word: IntArray, t: FloatArray) -> Match:
        word, t = np.concatenate([self.word, word]), np.concatenate([self.t, t])
        out = weigh_reach(word, t, len(self.word), self.horizon, self.decay.weight)
        gone = int(first_within(t, t[-1:], self.horizon)[0]) if len(t) else 0
        self.word, self.t = word[gone:].copy(), t[gone:].copy()
        return out

    def peek(self, word: IntArray, t: float) -> tuple[FloatArray, float]:
        gone = int(first_within(self.t, np.array([t]), self.horizon)[0])
        weights = self.decay.weight(t - self.t[gone:])
        sums = np.zeros(max(word.max(initial=-1), self.word.max(initial=-1)) + 1)
        np.add.at(sums, self.word[gone:], weights)
        return sums[word], float(weights.sum())

    def new_document(self) -> None:
        self.word, self.t = self.word[:0], self.t[:0]

    def grow(self, n_words: int) -> None:
        """Nothing is kept per word."""


def unscaled(decay: Decay, alpha: float) -> tuple[Decay, float]:
    """Return the same model with a decay that is no multiple: only f / alpha matters."""
    while isinstance(decay, Scaled):
        alpha /= decay.factor
        decay = decay.decay
    return decay, alpha


def fading_scale(decay: Decay) -> float | None:
    """Return the scale of an exponential decay, infinity for none, or None."""
    if isinstance(decay, Exponential):
        return decay.scale
    return math.inf if isinstance(decay, NoDecay) else None


def horizon_of(decay: Decay, alpha: float) -> float:
    """Return the distance beyond which links are lighter than 1e-12 alpha and left out."""
    share = _TAIL * alpha / float(decay.weight(0.0))
    return decay.horizon(min(max(share, 1e-300), 0.5))


def tabulate(decay: Decay, alpha: float) -> FloatArray:
    """Return f(0), ..., f(W) for index distances; refuse a decay that reaches too far."""
    horizon = horizon_of(decay, alpha)
    if not horizon < _LONGEST:
        message = (
            f"decay: {decay!r} still has weight {_LONGEST:,} tokens back; use an exponential "
            "decay, none, or one that ends sooner"
        )
        raise ConfigError(message)
    return np.trim_zeros(decay.weight(np.arange(math.floor(horizon) + 1.0)), "b")


def prefix_sums(table: FloatArray) -> FloatArray:
    """Return 0, f(1), f(1) + f(2), ..."""
    return np.concatenate([[0.0], np.cumsum(table[1:])])


def make_memory(decay: Decay, alpha: float, *, clocked: bool) -> Memory:
    """Choose the memory for a decay that is not a multiple of another."""
    scale = fading_scale(decay)
    if scale is not None:
        return Fading(scale)
    if clocked:
        horizon = horizon_of(decay, alpha)
        if math.isinf(horizon):
            message = f"decay: {decay!r} never ends, so that all tokens would have to be kept"
            raise ConfigError(message)
        return Timed(decay, horizon)
    return LookingBack(tabulate(decay, alpha))


def weigh_reach(
    word: IntArray,
    t: FloatArray,
    at: int,
    horizon: float,
    weigh: Callable[[FloatArray], FloatArray],
) -> Match:
    """Return ``match`` and ``weight`` of the tokens from ``at`` on, for any function of distance.

    O(pairs within reach) time, O(tokens) memory.
    """
    first = first_within(t, t[at:], horizon)
    reach = np.arange(at, len(t)) - first
    match, weight = np.empty(len(first)), np.empty(len(first))
    for low, high in _chunks(reach):
        n = reach[low:high]
        ends = np.cumsum(n)
        earlier = np.arange(n.sum()) + np.repeat(first[low:high] - (ends - n), n)
        weights = weigh(np.repeat(t[at + low : at + high], n) - t[earlier])
        within_reach(word, at + low, first[low:high], weights, match[low:high], weight[low:high])
    return match, weight


def first_within(t: FloatArray, now: FloatArray, horizon: float) -> IntArray:
    """Return the oldest place within reach of each time; one rounding too far, never too near."""
    return np.searchsorted(t, np.nextafter(now - horizon, -np.inf), side="left")


def _chunks(sizes: IntArray) -> Iterator[tuple[int, int]]:
    """Cut rows of given sizes into stretches of about a million entries in all."""
    ends = np.cumsum(sizes)
    low = 0
    while low < len(sizes):
        before = ends[low - 1] if low else 0
        high = max(low + 1, int(np.searchsorted(ends, before + _PAIRS, side="right")))
        yield low, high
        low = high


def _grown(array: Any, n_words: int, fill: float) -> Any:
    """Return an array with room for ``n_words``; growth costs O(1) per word."""
    more = max(n_words, 2 * len(array)) - len(array) if n_words > len(array) else 0
    return np.pad(array, (0, more), constant_values=fill) if more else array


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """Documents, each a ddCRP of its own over one base measure.

    Examples
    --------
    >>> from streamddcrp.models.language.memory import Corpus
    >>> corpus = Corpus.from_documents(["to be or not to be", "to sleep"], base_measure=50)
    >>> corpus.word, corpus.starts
    (array([0, 1, 2, 3, 0, 1, 0, 4]), array([0, 6, 8]))
    """

    word: IntArray  # (N,) ids of the tokens of all documents, one after the other
    starts: IntArray  # (M + 1,) document m is word[starts[m]:starts[m + 1]]
    # (N,) probability of each token under the base measure. It may differ from document to
    # document, as where the document itself was left out when it was learned.
    g: FloatArray
    t: FloatArray  # (N,) times; the place in the corpus where none were given
    clocked: bool  # whether times were given
    n_words: int  # one more than the highest id

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


def matches(corpus: Corpus, decay: Decay, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Return the weight of the equal words before each token, and of all, in its document.

    ``decay`` is no multiple of another; links lighter than 1e-12 alpha are left out.
    """
    scale = fading_scale(decay)
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
        horizon = horizon_of(decay, alpha)
        for m in range(corpus.n_documents):
            at = corpus.document(m)
            match[at], weight[at] = weigh_reach(corpus.word[at], corpus.t[at], 0, horizon, weigh)
        return match, weight
    table = weigh(np.arange(len(tabulate(decay, alpha)), dtype=np.float64))
    last = np.full(corpus.n_words, -1, dtype=np.int64)
    previous = np.empty(1 << (len(table) - 1).bit_length(), dtype=np.int64)
    look_back_documents(
        corpus.word, corpus.starts, table, prefix_sums(table), last, previous, match, weight
    )
    return match, weight
