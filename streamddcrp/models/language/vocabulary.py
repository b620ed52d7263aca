"""From tokens to ids and their probabilities under the base measure."""

from typing import Any, Self

import numpy as np

from streamddcrp.data import as_tokens
from streamddcrp.errors import SchemaError
from streamddcrp.models.language.base_measure import BaseMeasure
from streamddcrp.typing import FloatArray, IntArray


class Vocabulary:
    """Ids of tokens: the listed words first, then new ones as they come, up to the stated size.

    Parameters
    ----------
    base_measure : BaseMeasure

    Attributes
    ----------
    of_words : bool or None
        Whether tokens are words; None until the first came.

    Examples
    --------
    >>> from streamddcrp.models.language.base_measure import BaseMeasure
    >>> from streamddcrp.models.language.vocabulary import Vocabulary
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
        if base_measure.words is not None:
            self.of_words: bool | None = True
        else:
            self.of_words = False if len(base_measure.probs) else None

    def __len__(self) -> int:
        """Count the words with a name: listed or seen; all where tokens are whole numbers."""
        return self.base_measure.n_words if self.of_words is False else len(self._names)

    @property
    def unnamed(self) -> float:
        """Probability under the base measure of all other words together."""
        return (self.base_measure.n_words - len(self)) * self._unseen

    def name(self, v: int) -> str | int:
        """Return the word of an id, or the id where tokens are whole numbers."""
        return self._names[v] if self.of_words else v

    def mark(self) -> tuple[bool | None, int]:
        """Return where to go back to with `rollback`."""
        return self.of_words, len(self._names)

    def rollback(self, mark: tuple[bool | None, int]) -> None:
        """Forget the words that came since."""
        self.of_words, n = mark
        for name in self._names[n:]:
            del self._ids[name]
        del self._names[n:]

    def encode(self, tokens: object) -> IntArray:
        """Return the ids of tokens, taking up new words.

        Raises
        ------
        SchemaError
            With ``row``, at a token that the base measure gives no probability. Nothing is taken
            up then.
        """
        found = as_tokens(tokens)
        if len(found) == 0:
            return np.empty(0, dtype=np.int64)
        are_words = not isinstance(found, np.ndarray)
        if self.of_words is not None and self.of_words != are_words:
            kinds = {True: "words", False: "whole numbers"}
            message = (
                f"tokens: {kinds[are_words]} came, but this vocabulary is of {kinds[not are_words]}"
            )
            raise SchemaError(message)
        mark = self.mark()
        try:
            self.of_words = are_words
            ids = self._words(found) if not isinstance(found, np.ndarray) else self._numbers(found)
            self._check_possible(ids)
        except SchemaError:
            self.rollback(mark)
            raise
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
        """Return the words that came on top of the listed ones, for a checkpoint."""
        more = self._names[len(self.base_measure.words or ()) :]
        return {"of_words": self.of_words, "words": more}

    @classmethod
    def from_config(cls, base_measure: BaseMeasure, config: dict[str, Any]) -> Self:
        """Rebuild from what `to_config` returned."""
        vocabulary = cls(base_measure)
        if config["words"]:
            vocabulary.encode(list(config["words"]))
        vocabulary.of_words = config["of_words"]
        return vocabulary

    def _words(self, words: list[str]) -> IntArray:
        known = self._ids
        ids = [known.get(word, -1) for word in words]
        if -1 in ids:
            most = self.base_measure.n_words
            for row, word in enumerate(words):
                if ids[row] >= 0:
                    continue
                if word not in known:
                    if len(self._names) == most:
                        message = (
                            f"row {row}: the word {word!r} is unknown, and the vocabulary of "
                            f"{most:,} words is full; give the base measure a larger n_words, or "
                            "leave the word out"
                        )
                        raise SchemaError(message, row=row)
                    known[word] = len(self._names)
                    self._names.append(word)
                ids[row] = known[word]
        return np.array(ids, dtype=np.int64)

    def _numbers(self, ids: IntArray) -> IntArray:
        most = self.base_measure.n_words
        wrong = (ids < 0) | (ids >= most)
        if wrong.any():
            row = int(wrong.argmax())
            message = (
                f"row {row}: token {ids[row]} is not in the vocabulary of {most:,} words, which "
                f"are numbered 0 to {most - 1}; give the base measure a larger n_words"
            )
            raise SchemaError(message, row=row)
        return ids

    def _check_possible(self, ids: IntArray) -> None:
        impossible = self.g(ids) <= 0.0
        if impossible.any():
            row = int(impossible.argmax())
            message = (
                f"row {row}: the base measure gives {self.name(int(ids[row]))!r} no probability; "
                "learn it with smoothing > 0 and n_words above the number of words counted"
            )
            raise SchemaError(message, row=row)
