"""What rows of a temporal mixture are: the option ``likelihood``, and the emission it leads to."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from streamddcrp.data import Vectorizer
from streamddcrp.data.batches import read_batch
from streamddcrp.data.documents import (
    CountRows,
    Vocabulary,
    is_text,
    read_counts,
    read_document,
    read_documents,
)
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.estimator.stored import from_json, to_json
from streamddcrp.likelihoods import make_likelihood
from streamddcrp.models.temporal.emissions.conjugate import ConjugateDecay, refuse_order
from streamddcrp.models.temporal.emissions.drift import GaussianDrift
from streamddcrp.models.temporal.emissions.logistic import LogisticNormalText
from streamddcrp.models.temporal.emissions.scales import guesses, spreads
from streamddcrp.models.temporal.emissions.text import TextDecay
from streamddcrp.models.temporal.engine import Engine, Settings
from streamddcrp.models.temporal.evolving import Evolving
from streamddcrp.models.temporal.stored import EMISSIONS, emission_from_json, emission_to_json
from streamddcrp.typing import FloatArray

TEXT, NUMBERS = "text", "gaussian"
_LARGEST = 1e40  # of a number: squares and their ratios must not overflow


class Law:
    """The option ``likelihood`` of a model, read.

    Attributes
    ----------
    given : str or object
        "auto", "gaussian", "text", or a family or an emission.
    kind : {"text", "gaussian"} or None
        What rows are; None until the first one shows it.
    """

    def __init__(self, option: Any) -> None:
        words = option if isinstance(option, str) else ""
        self.given: Any = option
        if words in ("auto", TEXT, NUMBERS):
            self.kind = None if words == "auto" else words
        elif isinstance(option, tuple(EMISSIONS.values())):
            numbers = isinstance(option, GaussianDrift | ConjugateDecay)
            self.kind = NUMBERS if numbers else TEXT
        else:
            try:
                self.given, self.kind = make_likelihood(option), NUMBERS
            except ConfigError as error:
                message = (
                    f"{error}; or 'auto', 'gaussian', 'text', or one of {', '.join(EMISSIONS)}"
                )
                raise ConfigError(message) from error
            refuse_order(self.given)

    @staticmethod
    def to_json(option: Any) -> Any:
        """Describe the option, for a checkpoint."""
        emission = isinstance(option, tuple(EMISSIONS.values()))
        return {"law": emission_to_json(option)} if emission else to_json(option)

    @staticmethod
    def from_json(value: Any) -> Any:
        """Rebuild from `to_json`."""
        if isinstance(value, dict) and set(value) == {"law"}:
            return emission_from_json(value["law"])
        return from_json(value)

    def kind_of(self, rows: Any) -> str:
        """Return what a row, or a batch of rows, is."""
        return self.kind or (TEXT if is_text(rows) else NUMBERS)

    @property
    def _is_family(self) -> bool:
        return not isinstance(self.given, (str, *EMISSIONS.values()))

    def begun(self, kind: str, settings: Settings, n_features: int | None) -> Evolving | None:
        """Return a model that need not wait for rows, if these say what it is for."""
        if kind == TEXT:
            law = TextDecay() if isinstance(self.given, str) else self.given
            return Evolving(Engine(settings, law), Vocabulary())
        if isinstance(self.given, str):
            return None
        if not self._is_family:
            return Evolving(Engine(settings, self.given))
        if n_features is None or not self.given.is_scaled:
            return None
        self.given.hyper(n_features)  # refuses a width that it is not for
        return Evolving(Engine(settings, ConjugateDecay(self.given, n_features)))

    def candidates(self, X: FloatArray, names: Sequence[str]) -> list[Any]:
        """Return emissions of different scales, for rows (N, D) like these."""
        if not self._is_family:
            return guesses(X)
        family = self.given.scaled(X, names)
        if self.given.free_spread:
            return spreads(family, X.shape[1])
        return [ConjugateDecay(family, X.shape[1])]

    def check(self, rows: Any, kind: str, names: Sequence[Any], vocabulary: Any) -> None:
        """Refuse rows that the emission does not take; ``names`` are of columns."""
        if kind == TEXT:
            self._check_words(rows, vocabulary)
            return
        law = self.given
        width = getattr(law, "n_features", None)
        if isinstance(law, GaussianDrift):
            width = len(law.noise)
        if width is not None and rows.shape[1] != width:
            message = f"batch: the likelihood has {width} columns, got {rows.shape[1]}"
            raise SchemaError(message)
        wrong = np.abs(rows) > _LARGEST
        if wrong.any():
            row, d = (int(i) for i in np.unravel_index(int(wrong.argmax()), wrong.shape))
            message = (
                f"row {row}, column {names[d]!r}: {rows[row, d]!r} is too large; rescale the "
                f"column to less than {_LARGEST:g}"
            )
            raise SchemaError(message, row=row)
        family = law.likelihood if isinstance(law, ConjugateDecay) else law
        if hasattr(family, "check_rows"):
            family.check_rows(rows, names)

    def _check_words(self, rows: Any, vocabulary: Any) -> None:
        law = self.given
        if not isinstance(law, LogisticNormalText) or vocabulary is None:
            return
        known: set[Any] = set(vocabulary.words)
        for row, document in enumerate(rows):
            known.update(word for word, _ in document)
            if len(known) > law.n_words:
                message = (
                    f"row {row}: more than {law.n_words} words, where the vocabulary of the "
                    "emission ends; make n_words larger, or choose likelihood='text'"
                )
                raise SchemaError(message, row=row)

    def read_one(self, x: Any, kind: str, vectorizer: Vectorizer, *, learn: bool = True) -> Any:
        """Return a batch of one row: a list of a document, or an array (1, D)."""
        if kind == TEXT:
            return [read_document(x)]
        if not isinstance(x, Mapping):
            message = (
                f"expected a dict of features, got {x!r}; texts need likelihood='text' from the "
                "start"
            )
            raise SchemaError(message)
        return vectorizer.transform(x, learn=learn)[None].copy()

    def read_many(self, batch: Any, kind: str, vectorizer: Vectorizer) -> Any:
        """Return the rows of a batch: documents or counts of words, or an array (N, D)."""
        if isinstance(batch, list | tuple | np.ndarray) and len(batch) == 0:
            return []
        if kind == TEXT:
            if sparse.issparse(batch) or (isinstance(batch, np.ndarray) and batch.ndim == 2):
                return CountRows(read_counts(batch))
            return read_documents(batch)
        if isinstance(batch, list | tuple) and isinstance(batch[0], Mapping):
            message = (
                "batch: a list of dicts is read as counts of words; choose likelihood='text' if it "
                "is that, or hand numbers over as a table"
            )
            raise SchemaError(message)
        return read_batch(batch, vectorizer).X
