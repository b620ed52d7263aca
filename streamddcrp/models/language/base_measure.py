"""Words: the probability that a new table shows each (the base measure g), and their ids."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from streamddcrp.arguments import as_list, checked, number_array
from streamddcrp.data import Tokens, as_tokens
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.typing import ArrayLike, FloatArray, IntArray
from streamddcrp.validation import whole

_ROUNDING = 1e-9
_MOST = 1 << 24  # words of a vocabulary: memory may have room for each from the start


@dataclass(frozen=True, slots=True, eq=False)
class BaseMeasure:
    """Probabilities of the words a new table may show, over a vocabulary of a stated size.

    Some words are listed with their probabilities. The other ``n_words`` - V words of the
    vocabulary share the remainder equally and need not be known beforehand: new words take their
    places as they come. Therefore g sums to 1 over an open vocabulary, as an evidence requires.

    Created by `uniform`, `from_probabilities` or `from_counts`. Probabilities estimated from the
    scored text itself make every evidence too good: estimate them from other text.

    Examples
    --------
    >>> from streamddcrp.models.language.base_measure import BaseMeasure
    >>> g = BaseMeasure.from_counts("the cat and the dog", smoothing=1.0, n_words=10)
    >>> dict(zip(g.words, g.probs.round(3).tolist())), round(g.unseen, 3)
    ({'the': 0.2, 'cat': 0.133, 'and': 0.133, 'dog': 0.133}, 0.067)
    """

    probs: FloatArray  # (V,) probability of each listed word
    n_words: int  # size of the vocabulary, V to 2^24
    words: tuple[str, ...] | None = None  # (V,) None: tokens are whole numbers, or none is listed

    def __post_init__(self) -> None:
        if len(number_array("probs", self.probs)) > whole("n_words", self.n_words, 1, _MOST):
            raise ConfigError(
                f"n_words: {self.n_words} words are fewer than the {len(self.probs)} given"
            )

    @property
    def unseen(self) -> float:
        """Probability of each word that is not listed."""
        left = 1.0 - float(self.probs.sum())
        n = self.n_words - len(self.probs)
        return left / n if n and left > _ROUNDING * 1e-3 else 0.0

    @classmethod
    @checked
    def uniform(cls, n_words: int) -> Self:
        """Make all of ``n_words`` words equally likely, with none known beforehand."""
        return cls(np.empty(0), whole("n_words", n_words, 1))

    @classmethod
    @checked
    def from_probabilities(
        cls, probs: ArrayLike | Mapping[str, float], n_words: int | None = None
    ) -> Self:
        """Take given probabilities.

        Parameters
        ----------
        probs : array_like of float, shape (V,), or mapping of str to float
            For the tokens 0 .. V - 1, or for words. Words of probability 0 cannot be shown.
        n_words : int, optional
            Size of the vocabulary if it is larger than V; the probabilities then sum to less than
            1, and the other words share the remainder. Default: V, and they must sum to 1.
        """
        words = tuple(probs) if isinstance(probs, Mapping) else None
        values: Any = list(probs.values()) if isinstance(probs, Mapping) else probs
        try:
            p = np.array(values, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            p = np.empty((0, 0))
        if p.ndim != 1 or not np.all((p >= 0.0) & (p <= 1.0)):
            raise ConfigError(
                f"base measure: expected probabilities, one per word; got {_short(values)}"
            )
        for word in words or ():
            if not isinstance(word, str):
                raise ConfigError(
                    f"base measure: expected words with their probabilities, got {word!r}"
                )
        size = len(p) if n_words is None else whole("n_words", n_words, 1)
        total = float(p.sum())
        open_ = size > len(p)
        if total > 1.0 + _ROUNDING or (not open_ and total < 1.0 - _ROUNDING):
            raise ConfigError(
                f"base measure: the probabilities sum to {total!r}, not 1; divide them by their "
                "sum, or give the rest to words not listed by a larger n_words"
            )
        return cls(p / total if not open_ or total > 1.0 else p, size, words)

    @classmethod
    @checked
    def from_counts(
        cls,
        documents: Tokens | Iterable[Tokens],
        *,
        smoothing: float = 0.5,
        n_words: int | None = None,
    ) -> Self:
        """Learn probabilities from word frequencies in one or several texts.

        g(v) = (n_v + smoothing) / (n + smoothing n_words), also for unseen words.

        Parameters
        ----------
        documents : iterable of texts, lists of words, or arrays of token ids; or one of these
            A list of strings is a list of texts.
        smoothing : float
            Imagined count of every word of the vocabulary, >= 0.
        n_words : int, optional
            Size of the vocabulary. Default: the words seen, and no others.
        """
        counts = _count(documents)
        if not counts:
            raise ConfigError("base measure: there is no word to count")
        if not 0.0 <= smoothing < np.inf:
            raise ConfigError(f"smoothing must be a number >= 0, got {smoothing!r}")
        if isinstance(next(iter(counts)), str):
            words = tuple(counts)
            n = np.array([counts[word] for word in words], dtype=np.float64)
        else:
            words = None
            n = np.zeros(max(counts) + 1)
            n[list(counts)] = list(counts.values())
        size = len(n) if n_words is None else whole("n_words", n_words, 1)
        return cls((n + smoothing) / (n.sum() + smoothing * size), size, words)

    def to_config(self) -> dict[str, Any]:
        """Return everything but the probabilities as JSON values."""
        words = None if self.words is None else list(self.words)
        return {"n_words": int(self.n_words), "words": words}

    @classmethod
    @checked
    def from_config(cls, config: Mapping[str, Any], probs: FloatArray) -> Self:
        """Rebuild from what `to_config` returned and the probabilities."""
        words = config.get("words")
        return cls(probs, config.get("n_words", 0), None if words is None else tuple(words))


def make_base_measure(spec: object) -> BaseMeasure:
    """Return the base measure of a number of equal words, of probabilities by token, or itself.

    >>> make_base_measure(50).unseen
    0.02
    >>> make_base_measure({"yes": 0.75, "no": 0.25}).probs
    array([0.75, 0.25])
    """
    if isinstance(spec, BaseMeasure):
        return spec
    if isinstance(spec, int | np.integer):
        return BaseMeasure.uniform(spec)  # type: ignore[arg-type]
    if isinstance(spec, str) or spec is None:
        raise ConfigError(
            "base measure: expected the size of the vocabulary, probabilities, or a BaseMeasure "
            f"(BaseMeasure.from_counts learns one from a text); got {_short(spec)}"
        )
    return BaseMeasure.from_probabilities(spec)  # type: ignore[arg-type]


class Vocabulary:
    """Ids of tokens: the listed words, then new ones as they come, up to the stated size.

    >>> from streamddcrp.models.language.base_measure import BaseMeasure, Vocabulary
    >>> vocabulary = Vocabulary(BaseMeasure.uniform(3))
    >>> vocabulary.encode("to be or to be")
    array([0, 1, 2, 0, 1])
    >>> vocabulary.encode(["not"])
    Traceback (most recent call last):
    ...
    streamddcrp.errors.SchemaError: row 0: the word 'not' is unknown, and the vocabulary of 3 ...
    """

    def __init__(self, base_measure: BaseMeasure) -> None:
        self.base_measure = base_measure
        self._unseen = base_measure.unseen
        self._names = list(base_measure.words or ())
        self._ids = {name: v for v, name in enumerate(self._names)}
        self.of_words: bool | None = None  # whether tokens are words; None until the first came
        if base_measure.words is not None or len(base_measure.probs):
            self.of_words = base_measure.words is not None

    def __len__(self) -> int:
        """Count the words with a name: listed or seen; all where tokens are whole numbers."""
        return self.base_measure.n_words if self.of_words is False else len(self._names)

    @property
    def unnamed(self) -> float:
        """Total probability of all other words under the base measure."""
        return (self.base_measure.n_words - len(self)) * self._unseen

    def name(self, v: int) -> str | int:
        """Return the word of an id, or the id if tokens are whole numbers."""
        return self._names[v] if self.of_words else v

    @contextmanager
    def undone(self, *, always: bool = True) -> Iterator[None]:
        """Forget the new words of a block, always or only if it fails."""
        of_words, n = self.of_words, len(self._names)
        keep = False
        try:
            yield
            keep = not always
        finally:
            if not keep:
                self.of_words = of_words
                for name in self._names[n:]:
                    del self._ids[name]
                del self._names[n:]

    def encode(self, tokens: object) -> IntArray:
        """Return the ids of tokens, with new words, none where the base measure refuses a token."""
        found = as_tokens(tokens)
        if len(found) == 0:
            return np.empty(0, dtype=np.int64)
        are_words = not isinstance(found, np.ndarray)
        if self.of_words is not None and self.of_words != are_words:
            kinds = {True: "words", False: "whole numbers"}
            raise SchemaError(
                f"tokens: got {kinds[are_words]}, but this vocabulary is of {kinds[not are_words]}"
            )
        with self.undone(always=False):
            self.of_words = are_words
            ids = self._words(found) if not isinstance(found, np.ndarray) else self._numbers(found)
            self._check_possible(ids)
        return ids

    def g(self, ids: IntArray) -> FloatArray:
        """Return the probability of each id under the base measure."""
        probs = self.base_measure.probs
        out = np.full(len(ids), self._unseen)
        if len(probs):
            known = ids < len(probs)
            out[known] = probs[ids[known]]
        return out

    def to_config(self) -> dict[str, Any]:
        """Return the words added to the listed ones, for a checkpoint."""
        more = self._names[len(self.base_measure.words or ()) :]
        return {"of_words": self.of_words, "words": more}

    @classmethod
    @checked
    def from_config(cls, base_measure: BaseMeasure, config: dict[str, Any]) -> Self:
        """Rebuild from what `to_config` returned."""
        vocabulary = cls(base_measure)
        if config["words"]:
            vocabulary.encode(list(config["words"]))
        vocabulary.of_words = config["of_words"]
        return vocabulary

    def _words(self, words: list[str]) -> IntArray:
        known, most = self._ids, self.base_measure.n_words
        ids = [known.get(word, -1) for word in words]
        if -1 in ids:
            for row, word in enumerate(words):
                if word in known:
                    continue
                if len(self._names) == most:
                    raise SchemaError(
                        f"row {row}: the word {word!r} is unknown, and the vocabulary of {most:,} "
                        "words is full; give the base measure a larger n_words, or leave it out",
                        row=row,
                    )
                known[word] = len(self._names)
                self._names.append(word)
            ids = [known[word] for word in words]
        return np.array(ids, dtype=np.int64)

    def _numbers(self, ids: IntArray) -> IntArray:
        most = self.base_measure.n_words
        wrong = (ids < 0) | (ids >= most)
        if wrong.any():
            row = int(wrong.argmax())
            raise SchemaError(
                f"row {row}: token {ids[row]} is not in the vocabulary of {most:,} words, which "
                f"are numbered 0 to {most - 1}; give the base measure a larger n_words",
                row=row,
            )
        return ids

    def _check_possible(self, ids: IntArray) -> None:
        impossible = self.g(ids) <= 0.0
        if impossible.any():
            row = int(impossible.argmax())
            raise SchemaError(
                f"row {row}: the base measure gives {self.name(int(ids[row]))!r} no probability; "
                "learn it with smoothing > 0 and n_words above the number of words counted",
                row=row,
            )


def _count(documents: Any) -> Counter[Any]:
    counts: Counter[Any] = Counter()
    for part in _parts(documents):
        found = as_tokens(part)
        if isinstance(found, np.ndarray):
            values, n = np.unique(found, return_counts=True)
            if len(values) and values[0] < 0:
                raise ConfigError(f"base measure: token {values[0]} is negative")
            counts.update(dict(zip(values.tolist(), n.tolist(), strict=True)))
        else:
            counts.update(found)
    if len({isinstance(token, str) for token in counts}) > 1:
        raise ConfigError("base measure: some tokens are words and some are whole numbers")
    return counts


def _parts(documents: Any) -> Iterable[Any]:
    """Return the documents of one or several: a list of strings is a list of texts."""
    if isinstance(documents, str) or (
        isinstance(documents, np.ndarray) and documents.dtype != object
    ):
        return [documents]
    parts = as_list("documents", documents)
    return [parts] if any(isinstance(part, int | np.integer) for part in parts) else parts


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
