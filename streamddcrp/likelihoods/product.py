"""Rows with columns of several kinds, each kind with its own family."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from streamddcrp.cached import Cached
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.likelihoods.base import Likelihood
from streamddcrp.likelihoods.columns import as_columns
from streamddcrp.likelihoods.kernels import families
from streamddcrp.likelihoods.registry import family, make_likelihood
from streamddcrp.typing import FloatArray, IntArray


@family("product")
@dataclass(frozen=True)
class Product(Likelihood):
    """Families for separate columns, independent given the table.

    A missing value is treated as its column's family treats it. A row costs the sum of the parts'
    costs. Point estimates: those of all parts by name, NaN for columns of parts without a parameter
    of that name.

    Parameters
    ----------
    parts : mapping or sequence of pairs, family to columns
        Families as objects, or by name as a model takes them; columns by position or name, in the
        order of the family's parameters. Each column of the data must be in a part, and may be a
        regressor in a second one.

    Examples
    --------
    >>> from streamddcrp.likelihoods import BetaBernoulli, NormalGamma
    >>> family = Product([(NormalGamma(0.0, 0.5, 2.0, 1.0), [0]), (BetaBernoulli(1.0, 1.0), [1])])
    >>> stats = family.suffstats([[0.3, 1.0], [-1.2, 1.0], [0.5, 0.0]]).sum(axis=0)
    >>> family.point_estimates(stats)["probability"]
    array([[nan, 0.6]])
    """

    parts: Any

    family: ClassVar[int] = families.PRODUCT

    def __post_init__(self) -> None:
        pairs = self.parts.items() if isinstance(self.parts, Mapping) else self.parts
        try:
            parts = tuple((make_likelihood(part), as_columns(columns)) for part, columns in pairs)
        except ConfigError:
            raise
        except (TypeError, ValueError):
            parts = ()
        if not parts or not all(columns for _, columns in parts):
            raise ConfigError(
                "Product: parts must be pairs of a family and its columns, by position or name; "
                f"got {self.parts!r}"
            )
        object.__setattr__(self, "parts", parts)
        for part, columns in parts:
            if isinstance(part, Product) or part.n_features not in {None, len(columns)}:
                raise ConfigError(f"Product: {part} does not fit the columns {list(columns)}")

    @property
    def least_power(self) -> float:
        return float(min(part.least_power for part, _ in self.parts))

    @property
    def suits_any(self) -> bool:
        return all(part.suits_any for part, _ in self.parts)

    @Cached
    def is_scaled(self) -> bool:
        return all(
            part.is_scaled and not any(isinstance(c, str) for c in columns)
            for part, columns in self.parts
        )

    @property
    def n_features(self) -> int | None:
        """Number of columns of all parts, None if some are known by name only."""
        found = {c for _, columns in self.parts for c in columns}
        return None if any(isinstance(c, str) for c in found) else len(found)

    def scaled(self, X: FloatArray, names: Sequence[str] | None = None) -> Self:
        if self.is_scaled:
            return self

        def with_rows(part: Likelihood, x: FloatArray, at: list[int]) -> Likelihood:
            return part.scaled(x, None if names is None else [names[j] for j in at])

        return self._changed(np.asarray(X, dtype=np.float64), with_rows, names)

    @property
    def free_spread(self) -> bool:
        return any(part.free_spread for part, _ in self.parts)

    def tempered(self, X: FloatArray, names: Sequence[str] | None = None) -> Self:
        return self._changed(X, lambda part, x, _: part.tempered(x), names)

    def remarks(self, names: Sequence[str]) -> list[str]:
        return [said for part, at in self.parts for said in part.remarks([names[j] for j in at])]

    def unscaled(self) -> Self:
        return type(self)([(part.unscaled(), columns) for part, columns in self.parts])

    def on_grid(self, X: FloatArray) -> Self:
        return self._changed(X, lambda part, x, _: part.on_grid(x))

    def spread_by(self, factor: float, X: FloatArray) -> Self:
        return self._changed(X, lambda part, x, _: part.spread_by(factor, x))

    def _changed(
        self, X: FloatArray, change: Callable[[Likelihood, FloatArray, list[int]], Likelihood],
        names: Sequence[str] | None = None,
    ) -> Self:  # fmt: skip
        """Change each part, given its columns of rows (N, D) and their positions."""
        placed = self._placed(X.shape[1], names)
        return type(self)([(change(part, X[:, at], at), at) for part, at in placed])

    def _placed(
        self, n_features: int, names: Sequence[str] | None = None
    ) -> list[tuple[Likelihood, list[int]]]:
        known = {name: j for j, name in enumerate(names or ())}
        placed = [(part, [known.get(c, c) for c in columns]) for part, columns in self.parts]
        found = {j for _, columns in placed for j in columns}
        for column in (c for _, at in placed for c in at if c not in range(n_features)):
            message = f"Product: there is no column {column!r}; the data have "
            raise SchemaError(message + (str(list(names)) if names else f"{n_features} columns"))
        for j in set(range(n_features)) - found:
            column = j if names is None else names[j]
            raise SchemaError(
                f"Product: column {column!r} is in no part; give it one, or leave it out"
            )
        return placed

    def _row_length(self, n_features: int) -> int:
        return sum(part._row_length(len(columns)) for part, columns in self.parts)

    def _prior(self, n_features: int) -> FloatArray:
        priors = [part.hyper(len(at)) for part, at in self._placed(n_features)]
        heads = np.empty((len(priors), 5))
        h, c, s, q = 4 + heads.size, 0, 1, 1
        for i, (prior, (part, _)) in enumerate(zip(priors, self.parts, strict=True)):
            heads[i] = part.family, h, c, s, q
            h += len(prior)
            c += int(prior[0])
            s += int(families.n_stats(part.family, prior))
            q += int(families.n_post(part.family, prior))
        return np.concatenate([[len(priors), s - 1, q - 1], heads.ravel(), *priors])

    def n_stats(self, n_features: int) -> int:
        sizes = [int(part.n_stats(len(columns))) for part, columns in self.parts]
        return 1 + sum(sizes)

    def prepare(
        self, X: FloatArray, past: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray | None]:
        # the rows of all parts, concatenated
        rows, ends = [], []
        for part, at in self._placed(X.shape[1]):
            part_rows, end = part.prepare(X[:, at], None if past is None else past[:, at])
            rows.append(part_rows)
            if end is not None:
                ends.append((at, end))
        new = None
        if ends:
            n_lags = max(len(end) for _, end in ends)
            new = np.full((n_lags, X.shape[1]), np.nan)
            for at, end in ends:
                new[n_lags - len(end) :, at] = end
        return np.concatenate(rows, axis=1), new

    def explains(self, x: FloatArray) -> IntArray:
        found = [np.array(at)[part.explains(x[at])] for part, at in self._placed(len(x))]
        return np.unique(np.concatenate(found))

    def without(self, x: FloatArray, at: IntArray, past: FloatArray | None = None) -> FloatArray:
        rows = []
        for part, columns in self._placed(len(x)):
            own, lags = x[columns], None if past is None else past[:, columns]
            places = part.explains(own)
            some = part.without(own, places, lags)
            part_rows = np.repeat(some[:1], 1 + len(at), axis=0)
            for row, d in zip(some[1:], np.array(columns)[places], strict=True):
                part_rows[1 + np.flatnonzero(at == d)] = row
            rows.append(part_rows)
        return np.concatenate(rows, axis=1)

    def in_units(self, view: FloatArray, n_features: int) -> FloatArray:
        out, c = np.full((3, n_features), np.nan), 0
        for part, columns in self._placed(n_features):
            width = part._row_length(len(columns))
            own = part.in_units(view[:, c : c + width].copy(), len(columns))
            known = ~np.isnan(own[0])
            out[:, np.array(columns)[known]] = own[:, known]
            c += width
        return out

    def check_rows(self, X: FloatArray, names: Sequence[str] | None = None) -> None:
        labels: Any = range(X.shape[1]) if names is None else names
        errors = []
        for part, at in self._placed(X.shape[1], names):
            try:
                part.check_rows(X[:, at], [labels[j] for j in at])
            except SchemaError as error:
                errors.append(error)
        if errors:
            raise min(errors, key=lambda error: error.row or 0)

    def suits(self, X: FloatArray) -> NDArray[np.bool_]:
        found = np.ones(X.shape, dtype=bool)
        for part, at in self._placed(X.shape[1], None):
            found[:, at] = part.suits(X[:, at])
        return found

    def sample(self, rng: Generator, stats: ArrayLike, size: int | None = None) -> FloatArray:
        rows = np.empty((1 if size is None else size, self.n_features or 0))
        for part, at, own in self._apart(np.atleast_2d(np.asarray(stats, dtype=np.float64))):
            rows[:, at] = part.sample(rng, own[0], len(rows))
        return rows[0] if size is None else rows

    def point_estimates(self, stats: ArrayLike) -> dict[str, FloatArray]:
        return self._joined(stats, lambda part, own: part.point_estimates(own))

    def _quantiles(self, stats: ArrayLike, p: FloatArray) -> dict[str, FloatArray]:
        return self._joined(stats, lambda part, own: part._quantiles(own, p))

    def _joined(self, stats: ArrayLike, of_part: Any) -> dict[str, FloatArray]:
        """Return values (K, D, ..) by name from those of the parts, NaN for missing ones."""
        matrix = np.atleast_2d(np.asarray(stats, dtype=np.float64))
        found: dict[str, FloatArray] = {}
        for part, at, own in self._apart(matrix):
            for name, values in of_part(part, own).items():
                nothing = np.full((len(matrix), self.n_features or 0, *values.shape[2:]), np.nan)
                target = found.setdefault(name, nothing)
                target[:, at] = np.where(np.isnan(values), target[:, at], values)
        return found

    def _apart(self, stats: FloatArray) -> Iterator[tuple[Likelihood, list[int], FloatArray]]:
        """Yield each part with its columns and its statistics (K, P of the part)."""
        self._posteriors(stats)  # checks the width
        first = 1
        for part, at in self._placed(self.n_features or 0):
            last = first + part.n_stats(len(at))
            yield part, at, stats[:, first:last]
            first = last

    def to_config(self) -> dict[str, Any]:
        parts = [[part.to_config(), list(columns)] for part, columns in self.parts]
        return {"family": "Product", "parts": parts}
