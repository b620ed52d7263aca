"""The option ``likelihood`` of a temporal mixture: the kind of rows, and their emission."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from streamddcrp.data import Vectorizer
from streamddcrp.data.batches import read_batch
from streamddcrp.data.documents import is_text, read_bags, read_document
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.estimator.stored import from_json, to_json
from streamddcrp.likelihoods import make_likelihood
from streamddcrp.likelihoods.registry import likelihood_from_config
from streamddcrp.models.temporal.emissions import Emission
from streamddcrp.models.temporal.emissions.conjugate import ConjugateDecay, refuse_order
from streamddcrp.models.temporal.emissions.drift import GaussianDrift, guesses
from streamddcrp.models.temporal.emissions.full import FullGaussianDrift, full_guesses
from streamddcrp.models.temporal.emissions.text import TextDecay
from streamddcrp.records import FINITE, WEIGHT, check_one, refuse_if
from streamddcrp.typing import FloatArray
from streamddcrp.validation import choice, whole

TEXT, NUMBERS, FULL = "text", "gaussian", "full_gaussian"
_OF_NUMBERS = GaussianDrift, FullGaussianDrift, ConjugateDecay
_ARRAYS = ("gains", "shares", "drift_sums")  # of emissions other than `GaussianDrift`
_ALL = (*_OF_NUMBERS, TextDecay)
EMISSIONS = {cls.__name__: cls for cls in _ALL}
_LARGEST = 1e40  # of a number: squares and their ratios must not overflow
_FACTORS = (0.04, 0.2, 1.0, 5.0)  # of the variance that a family expects within a cluster


def emission_to_json(emission: Any) -> dict[str, Any]:
    """Describe an emission and what it has learned."""
    values = {field.name: getattr(emission, field.name) for field in fields(emission)}
    plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in values.items()}
    if isinstance(emission, ConjugateDecay):
        plain["likelihood"] = emission.likelihood.to_config()
    return {"emission": type(emission).__name__, **plain}


def emission_from_json(config: dict[str, Any]) -> Any:
    """Rebuild from `emission_to_json`."""
    values: dict[str, Any] = {
        k: np.array(v, np.float64) if isinstance(v, list) else v for k, v in config.items()
    }
    name = values.pop("emission")
    if name == "ConjugateDecay":
        values["likelihood"] = likelihood_from_config(values["likelihood"])
    cls: Any = EMISSIONS[choice("emission", name, EMISSIONS)]
    return cls(**values)


def check_emission(emission: Any, n_features: int) -> None:
    """Refuse a stored emission for other rows: CheckpointError."""
    D = len(emission.birth_mean) if isinstance(emission, GaussianDrift) else None
    D = emission.n_features if isinstance(emission, ConjugateDecay) else D
    n_features = n_features or D or 0  # before the first row, the given number
    refuse_if(D is not None and n_features != D, "features of the emission")
    for part in fields(emission):
        value = getattr(emission, part.name)
        array = isinstance(emission, GaussianDrift) or part.name in _ARRAYS
        refuse_if(array != isinstance(value, np.ndarray), part.name)
        if array:
            if isinstance(emission, GaussianDrift):
                full = isinstance(emission, FullGaussianDrift) and part.name != "birth_mean"
                shape: tuple[int, ...] = (n_features,) * (1 + full)
                shape = (2, *shape) if part.name.endswith("_sums") else shape
            elif part.name == "shares":  # of the words met
                shape = (len(value),)
            else:
                shape = part.default_factory().shape  # type: ignore[operator]
            within = WEIGHT if part.name == "shares" else FINITE
            check_one(part.name, value, shape, np.float64, within)
        elif part.name == "n_words":
            whole(part.name, value, 1, 1 << 24)
        elif part.name not in ("likelihood", "n_features"):
            number = type(value) in (int, float) and 0.0 <= value < math.inf
            open_ = value is None and part.name in ("beta", "forget")
            refuse_if(not number and not open_, part.name)
    if isinstance(emission, FullGaussianDrift):
        refuse_if(not emission.is_sound, "covariances")
    if isinstance(emission, TextDecay):
        refuse_if(emission.rho > 1.0 or len(emission.shares) > emission.n_words, "emission")


class LikelihoodOption:
    """The parsed option ``likelihood`` of a model."""

    def __init__(self, option: Any) -> None:
        words = option if isinstance(option, str) else ""
        self.given: Any = option  # one of the words below, or a family or an emission
        self.kind: str | None  # of rows; None until the first one shows it
        if words in ("auto", TEXT, NUMBERS, FULL):
            self.kind = {"auto": None, FULL: NUMBERS}.get(words, words)
        elif isinstance(option, _OF_NUMBERS):
            self.kind = NUMBERS
        elif isinstance(option, TextDecay):
            self.kind = TEXT
        else:
            try:
                self.given, self.kind = make_likelihood(option), NUMBERS
            except ConfigError as error:
                raise ConfigError(
                    f"{error}; or 'auto', 'gaussian', 'full_gaussian', 'text', or one of "
                    f"{', '.join(EMISSIONS)}"
                ) from error
            refuse_order(self.given)

    @staticmethod
    def to_json(option: Any) -> Any:
        """Describe the option, for a checkpoint."""
        if isinstance(option, _ALL):
            return {"emission": emission_to_json(option)}
        return to_json(option)

    @staticmethod
    def from_json(value: Any) -> Any:
        if isinstance(value, dict) and set(value) == {"emission"}:
            return emission_from_json(value["emission"])
        return from_json(value)

    def kind_of(self, rows: Any) -> str:
        """Return the kind of a row or batch."""
        return self.kind or (TEXT if is_text(rows) else NUMBERS)

    @property
    def _is_family(self) -> bool:
        return not isinstance(self.given, (str, *_ALL))

    def emission(self, kind: str, n_features: int | None) -> Emission | None:
        """Return the emission for ``n_features`` columns, if it needs no rows to choose it."""
        if kind == TEXT:
            return TextDecay() if isinstance(self.given, str) else self.given
        if isinstance(self.given, str):
            return None
        if not self._is_family:
            return self.given  # type: ignore[no-any-return]
        if n_features is None or not self.given.is_scaled:
            return None
        self.given.hyper(n_features)  # refuses a width it does not support
        return ConjugateDecay(self.given, n_features)

    def candidates(self, X: FloatArray, names: Sequence[str]) -> Sequence[Emission]:
        """Return emissions with different scales for rows (N, D) like these."""
        if not self._is_family:
            return full_guesses(X) if self.given == FULL else guesses(X)
        family = self.given.scaled(X, names)
        if self.given.free_spread:
            return [ConjugateDecay(family.spread_by(f, X), X.shape[1]) for f in _FACTORS]
        return [ConjugateDecay(family, X.shape[1])]

    def check(self, rows: Any, names: Sequence[Any]) -> None:
        """Refuse rows (N, D) outside the emission's support; ``names`` are of columns."""
        given = self.given
        width = getattr(given, "n_features", None)
        if isinstance(given, GaussianDrift):
            width = len(given.noise)
        if width is not None and rows.shape[1] != width:
            raise SchemaError(f"batch: the likelihood has {width} columns, got {rows.shape[1]}")
        wrong = np.abs(rows) > _LARGEST
        if wrong.any():
            row, d = (int(i) for i in np.unravel_index(int(wrong.argmax()), wrong.shape))
            raise SchemaError(
                f"row {row}, column {names[d]!r}: {rows[row, d]!r} is too large; rescale the "
                f"column to less than {_LARGEST:g}",
                row=row,
            )
        family = given.likelihood if isinstance(given, ConjugateDecay) else given
        if hasattr(family, "check_rows"):
            family.check_rows(rows, names)

    def read_one(self, x: Any, kind: str, vectorizer: Vectorizer, *, learn: bool = True) -> Any:
        """Return a batch of one row: a list with a document, or an array (1, D)."""
        if kind == TEXT:
            return [read_document(x)]
        if not isinstance(x, Mapping):
            raise SchemaError(
                f"expected a dict of features, got {x!r}; texts need likelihood='text' from the "
                "start"
            )
        return vectorizer.row(x, learn=learn)

    def read_many(self, batch: Any, kind: str, vectorizer: Vectorizer) -> Any:
        """Return the rows of a batch: documents or counts of words, or an array (N, D)."""
        if isinstance(batch, np.ndarray) and batch.ndim == 0:
            batch = batch.item()
        if isinstance(batch, list | tuple | np.ndarray) and len(batch) == 0:
            return []
        if kind == TEXT:
            return read_bags(batch)
        if isinstance(batch, list | tuple) and isinstance(batch[0], Mapping):
            raise SchemaError(
                "batch: a list of dicts is read as counts of words; choose likelihood='text' if it "
                "is that, or pass numbers as a table"
            )
        return read_batch(batch, vectorizer).X
