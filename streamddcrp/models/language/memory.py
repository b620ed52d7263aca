"""The past of each token: weights of equal words, by the kind of decay.

======================  ============================================  =======================
`Fading`                exponential or no decay, of index or time     O(1) per token
`LookingBack`           any decay of the index distance               O(equal words within W)
`Timed`                 any other decay of time                       O(tokens within reach)
======================  ============================================  =======================

A `Memory` gives for each token the weight of the equal words before it in the document (``match``),
and that of all words (``weight``, F_i).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import numpy as np

from streamddcrp.decay import Decay, Exponential, NoDecay
from streamddcrp.decay.base import Scaled
from streamddcrp.errors import ConfigError
from streamddcrp.models.language.kernels import fade, look_back, look_back_at, within_reach
from streamddcrp.records import FINITE, MOST, WEIGHT, Within, check, declared, index, refuse_if
from streamddcrp.typing import FloatArray, IntArray

_TAIL = 1e-12  # weight, relative to alpha, below which a link is dropped
_LONGEST = 1 << 22  # most entries of a table of weights
_PAIRS = 1 << 20  # weights computed at once
Match = tuple[FloatArray, FloatArray]


class Memory(ABC):
    """The past of one document, or of several in succession.

    The attributes of a checkpoint are declared as in `streamddcrp.records`.
    """

    @abstractmethod
    def match(self, word: IntArray, t: FloatArray) -> Match:
        """Take tokens; return ``match`` and ``weight`` of each before it was taken."""

    @abstractmethod
    def peek(self, word: IntArray, t: float) -> tuple[FloatArray, float]:
        """Return ``match`` of each word as the next token at time t, and ``weight``."""

    @abstractmethod
    def new_document(self) -> None:
        """Forget: the next token is the first of a document."""

    @abstractmethod
    def check(self, arrays: dict[str, Any], n_words: int) -> None:
        """Refuse an inconsistent stored state: CheckpointError."""

    @abstractmethod
    def grow(self, n_words: int) -> None:
        """Make room for words with ids below ``n_words``."""

    def arrays(self) -> dict[str, Any]:
        """Return the state, for a checkpoint."""
        return {f.name: getattr(self, f.name) for f in declared(type(self))}

    def restore(self, arrays: dict[str, Any], n_words: int) -> None:
        """Restore the state from `arrays`, given the number of words; raises CheckpointError."""
        self.check(arrays, n_words)
        for f in declared(type(self)):
            setattr(self, f.name, arrays[f.name])


class Fading(Memory):
    """Exponential decay: a faded sum per word."""

    mass: Annotated[FloatArray, "V", WEIGHT]
    seen: Annotated[FloatArray, "V", FINITE]
    total: Annotated[FloatArray, "2", FINITE]

    def check(self, arrays: dict[str, Any], n_words: int) -> None:
        check(Fading, arrays, {})
        refuse_if(len(arrays["mass"]) > 4 * n_words + 1024, "room for words")

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.mass, self.seen, self.total = np.zeros(0), np.zeros(0), np.zeros(2)

    def match(self, word: IntArray, t: FloatArray) -> Match:
        match, weight = np.empty((2, len(word)))
        if len(word) and self.total[0] == 0.0:  # an empty sum does not fade, whatever its time
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

    last: Annotated[IntArray, "V", Within(-1, MOST)]
    previous: Annotated[IntArray, "P", Within(-1, MOST)]
    places: Annotated[IntArray, "2"]

    def check(self, arrays: dict[str, Any], n_words: int) -> None:
        check(LookingBack, arrays, {"P": len(self.previous)})
        n, start = arrays["places"].tolist()
        at = np.arange(len(self.previous))
        here = n - 1 - (n - 1 - at) % len(self.previous)  # the last place kept at each
        later = (arrays["last"] >= n).any() or (arrays["previous"] >= np.maximum(here, 0)).any()
        room = 4 * n_words + 1024
        refuse_if(start > n or bool(later) or len(arrays["last"]) > room, "places of words")

    def __init__(self, table: FloatArray) -> None:
        self.weights = table, np.append(0.0, np.cumsum(table[1:]))
        self.last = np.empty(0, dtype=np.int64)
        self.previous = np.full(1 << (len(table) - 1).bit_length(), -1, dtype=np.int64)
        self.places = np.zeros(2, dtype=np.int64)  # of the next token, of the document's first

    def match(self, word: IntArray, t: FloatArray) -> Match:
        match, weight = np.empty((2, len(word)))
        n, start = self.places
        look_back(word, n, start, self.weights, self.last, self.previous, match, weight)
        self.places[0] += len(word)
        return match, weight

    def peek(self, word: IntArray, t: float) -> tuple[FloatArray, float]:
        match, (table, prefix) = np.empty(len(word)), self.weights
        n, start = self.places
        look_back_at(word, n, start, table, self.last, self.previous, match)
        return match, float(prefix[min(int(n - start), len(table) - 1)])

    def new_document(self) -> None:
        self.places[1] = self.places[0]

    def grow(self, n_words: int) -> None:
        self.last = _grown(self.last, n_words, -1)


class Timed(Memory):
    """A decay of time: the tokens within reach."""

    word: Annotated[IntArray, "N", index("V")]
    t: Annotated[FloatArray, "N", FINITE]

    def check(self, arrays: dict[str, Any], n_words: int) -> None:
        check(Timed, arrays, {"V": n_words})
        refuse_if(bool((np.diff(arrays["t"]) < 0.0).any()), "times of tokens")

    def __init__(self, weigh: Callable[[FloatArray], FloatArray], horizon: float) -> None:
        self.weigh, self.horizon = weigh, horizon
        self.word, self.t = np.empty(0, dtype=np.int64), np.empty(0)

    def match(self, word: IntArray, t: FloatArray) -> Match:
        at = len(self.word)
        word, t = np.concatenate([self.word, word]), np.concatenate([self.t, t])
        first = first_within(t, t[at:], self.horizon)
        match, weight = np.empty((2, len(first)))
        for low, high in _chunks(np.arange(at, len(t)) - first):
            n = np.arange(at + low, at + high) - first[low:high]
            earlier = np.arange(n.sum()) + np.repeat(first[low:high] - (np.cumsum(n) - n), n)
            weights = self.weigh(np.repeat(t[at + low : at + high], n) - t[earlier])
            own = first[low:high]
            within_reach(word, at + low, own, weights, match[low:high], weight[low:high])
        gone = int(first[-1]) if len(first) else 0
        self.word, self.t = word[gone:].copy(), t[gone:].copy()
        return match, weight

    def peek(self, word: IntArray, t: float) -> tuple[FloatArray, float]:
        gone = int(first_within(self.t, np.array([t]), self.horizon)[0])
        weights = self.weigh(t - self.t[gone:])
        sums = np.zeros(max(word.max(initial=-1), self.word.max(initial=-1)) + 1)
        np.add.at(sums, self.word[gone:], weights)
        return sums[word], float(weights.sum())

    def new_document(self) -> None:
        self.word, self.t = self.word[:0], self.t[:0]

    def grow(self, n_words: int) -> None:
        """Nothing is kept per word."""


def unscaled(decay: Decay, alpha: float) -> tuple[Decay, float]:
    """Return the same model with a decay that is not a multiple: only f / alpha matters."""
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
    """Return the distance beyond which links are lighter than 1e-12 alpha and dropped."""
    share = _TAIL * alpha / float(decay.weight(0.0))
    return decay.horizon(min(max(share, 1e-300), 0.5))


def tabulate(decay: Decay, alpha: float) -> FloatArray:
    """Return f(0), ..., f(W) for index distances; refuse a decay that reaches too far."""
    horizon = horizon_of(decay, alpha)
    if not horizon < _LONGEST:
        raise ConfigError(
            f"decay: {decay!r} still has weight {_LONGEST:,} tokens back; use an exponential "
            "decay, none, or one that ends sooner"
        )
    return np.trim_zeros(decay.weight(np.arange(math.floor(horizon) + 1.0)), "b")


def make_memory(decay: Decay, alpha: float, *, clocked: bool) -> Memory:
    """Choose the memory for a decay that is not a multiple of another."""
    scale = fading_scale(decay)
    if scale is not None:
        return Fading(scale)
    if clocked:
        horizon = horizon_of(decay, alpha)
        if math.isinf(horizon):
            raise ConfigError(
                f"decay: {decay!r} never ends, so that all tokens would have to be kept"
            )
        return Timed(decay.weight, horizon)
    return LookingBack(tabulate(decay, alpha))


def first_within(t: FloatArray, now: FloatArray, horizon: float) -> IntArray:
    """Return the oldest place within reach of each time; rounding may include one too many."""
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
