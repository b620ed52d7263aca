"""The interface of all conjugate families."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from streamddcrp.cached import Cached
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.likelihoods import columns as col
from streamddcrp.likelihoods.kernels import families
from streamddcrp.likelihoods.plane import Plane
from streamddcrp.likelihoods.warp import images, log_slopes
from streamddcrp.typing import FloatArray, IntArray


class Likelihood:
    """A conjugate family: p(x | theta) with a conjugate prior on theta.

    Its sufficient statistics are a vector of length P that adds, subtracts, scales and merges;
    ``stats[0]`` is the (soft) number of rows. A subclass is a frozen dataclass of prior parameters
    that defines the statistics' layout, the support of values, and draws. Its densities are
    compiled, under the code ``family`` of `streamddcrp.likelihoods.kernels.families`.
    """

    family: ClassVar[int]
    __dataclass_fields__: ClassVar[dict[str, Any]]
    _columns: ClassVar[tuple[str, ...]] = ()  # parameters that are one number, or one per feature
    _from_rows: ClassVar[tuple[str, ...]] = ()  # parameters that `scaled` can supply
    _optional: ClassVar[tuple[str, ...]] = ()  # those of them that may be missing
    _spread: ClassVar[str | None] = None  # the one of them proportional to the variance
    warp: Any = None  # a map for each column, None for none
    power: Any = 1.0  # weight of a row in a column
    share: Any = 1.0  # weight of a column, including its prior
    plane: Any = None  # centre, scale and axes of a `Plane`
    # The rule of `_in_support` in words.
    _support: ClassVar[str] = "numbers between -1e100 and 1e100"

    def __post_init__(self) -> None:
        for name in self._columns:
            value = getattr(self, name)
            if value is not None or name not in self._from_rows:
                least = {"mean": -np.inf, "step": 0.0, "power": 0.0, "share": 0.0}.get(name)
                value = col.column_parameter(type(self).__name__, name, value, least=least)
                object.__setattr__(self, name, value)
        _ = self.n_features  # refuses inconsistent numbers of features

    @property
    def least_power(self) -> float:
        """Weight of a row in the column with the slowest noise."""
        return float(np.min(self.power))

    @Cached
    def n_features(self) -> int | None:
        """Number of features D of the parameters, None for any."""
        if self.plane is not None:
            return len(self.plane[0])
        values = {name: getattr(self, name) for name in self._columns}
        return col.common_width(type(self).__name__, **values)

    @Cached
    def is_scaled(self) -> bool:
        """Whether all parameters are known; if not, `scaled` takes them from rows."""
        needed = (name for name in self._from_rows if name not in self._optional)
        return all(getattr(self, name) is not None for name in needed)

    def scaled(self, X: FloatArray, names: Sequence[str] | None = None) -> Self:
        """Return the family with missing parameters taken from the first rows (N, D).

        ``names`` are the columns', for families that use them. NaN is a missing value.
        """
        if self.is_scaled:
            return self
        scale = self._scale(X)
        return replace(self, **{k: scale[k] for k in self._from_rows if getattr(self, k) is None})

    @property
    def free_spread(self) -> bool:
        """Whether the variance within a table is a missing parameter."""
        return self._spread is not None and getattr(self, self._spread) is None

    def unscaled(self) -> Self:
        """Return the family without the parameters that `scaled` can supply."""
        free: dict[str, Any] = dict.fromkeys(self._from_rows)
        return replace(self, **free, **({"share": 1.0} if "share" in self._columns else {}))

    def spread_by(self, factor: float, X: FloatArray) -> Self:
        """Return the prior with ``factor`` times the expected variance within tables.

        Columns constant in the first rows ``X`` keep their nominal variance: a smaller one would
        predict them ever better, and they would outvote the columns that vary.
        """
        if self._spread is None:
            return self
        factors = np.where([col.varies(column) for column in self._spread_of(X).T], factor, 1.0)
        return replace(self, **{self._spread: self._spread_times(factors)})

    def _spread_of(self, X: FloatArray) -> FloatArray:
        """Return the columns of rows (N, D) with known prior variances."""
        return X

    def _spread_times(self, factors: FloatArray) -> FloatArray:
        """Return the spread parameter for the columns' variances times factors (D,)."""
        value: FloatArray = np.multiply(getattr(self, str(self._spread)), factors)
        return value

    def tempered(self, X: FloatArray, names: Sequence[str] | None = None) -> Self:
        """Return the family with columns weighted by their worth in first rows (N, D).

        Correlated columns, and rows similar to their predecessors, are redundant. Returns the
        family itself if it cannot weight a column.
        """
        return replace(self, share=col.column_shares(X)) if "share" in self._columns else self

    def on_grid(self, X: FloatArray) -> Self:
        """Return the family with the column resolutions found in measured rows (N, D).

        For rows from which something is subtracted before the family sees them. Returns the family
        itself if its rows have no resolution, or if it is given.
        """
        return self

    def warped(self, X: FloatArray) -> Self:
        """Return the family with a map for each skewed column of first rows (N, D).

        The family itself if no column is skewed, or if it has no maps.
        """
        return self

    def remarks(self, names: Sequence[str]) -> list[str]:
        """Return plain sentences on findings in the first rows, for the log."""
        share = col.columns(self.share, len(names))
        return [col.repeats(share.sum(), len(names))] if (share < 1.0).any() else []

    def _scale(self, X: FloatArray) -> dict[str, Any]:
        raise NotImplementedError

    def n_stats(self, n_features: int) -> int:
        """Return the length P of the sufficient statistics of ``n_features`` features."""
        return int(families.n_stats(self.family, np.array([float(n_features)])))

    def hyper(self, n_features: int) -> FloatArray:
        """Return the prior as a new array in the layout of `kernels.families`.

        ConfigError if a parameter is missing, SchemaError if they are for another number of
        features.
        """
        if not self.is_scaled:
            raise ConfigError(
                f"{self} lacks parameters; give them, or take them from rows with scaled(X), as a "
                "model does with its first rows"
            )
        if self.n_features is not None and self.n_features != n_features:
            raise SchemaError(
                f"{type(self).__name__} has parameters for {self.n_features} features, the data "
                f"have {n_features}; give parameters for {n_features} features, or single numbers "
                "for all of them"
            )
        return np.concatenate([[float(self._row_length(n_features))], self._prior(n_features)])

    def prepare(
        self, X: FloatArray, past: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray | None]:
        """Return rows in the kernels' form, and the part that the next rows need.

        ``X`` (N, D) are consecutive rows, ``past`` (n_lags, D) the result of `prepare` for earlier
        rows. Rows are (N, hyper[0]): ``X`` itself in families without regressors that integrate
        missing values out. The second result is None in families without memory.
        """
        if self._plane is not None:
            return self._plane.apply(X), None
        return X if self.warp is None else images(self.warp, X), None

    @Cached
    def _plane(self) -> Plane | None:
        if self.plane is None:
            return None
        center, scale, *axes = np.array(self.plane)
        return Plane(center, scale, np.array(axes))

    def explains(self, x: FloatArray) -> IntArray:
        """Return the columns of a row (D,) whose value the family models."""
        if x.dot(x) >= 0.0:  # nothing is missing: a twentieth of the time of `explain_one`
            return np.arange(len(x))
        return (~np.isnan(x)).nonzero()[0]

    def without(self, x: FloatArray, at: IntArray, past: FloatArray | None = None) -> FloatArray:
        """Return (1 + n, C): a prepared row (D,), and copies without each of the columns ``at``."""
        return np.ascontiguousarray(self.prepare(lacking(x, at), past)[0])

    def in_units(self, view: FloatArray, n_features: int) -> FloatArray:
        """Return each column's mean, standard deviation and expected surprise (3, D).

        ``view`` (3, C): mean, variance and expected surprise of prepared columns; overwritten.
        """
        np.sqrt(view[1], view[1])
        return view

    def log_slopes(self, X: FloatArray) -> FloatArray | None:
        """Return what `prepare` adds to each row's log density (N, D); None for nothing."""
        if self.warp is None:
            return None
        weights = col.columns(self.power, X.shape[1]) * col.columns(self.share, X.shape[1])
        slopes: FloatArray = (log_slopes(self.warp, X) * weights).sum(axis=1)
        return slopes  # by @, one row would be rounded otherwise than several

    def _row_length(self, n_features: int) -> int:
        return n_features

    def _prior(self, n_features: int) -> FloatArray:
        return np.concatenate(
            [col.columns(getattr(self, name), n_features) for name in self._columns]
        )

    def suffstats(self, x: ArrayLike, past: FloatArray | None = None) -> FloatArray:
        """Return the sufficient statistics of a row, or of several consecutive rows.

        Parameters
        ----------
        x : array_like of float, shape (D,) or (N, D)
            NaN marks a missing value.
        past : ndarray of float64, shape (n_lags, D), optional
            The rows before, for autoregressive families.
        """
        rows = np.asarray(x, dtype=np.float64)
        if rows.ndim not in {1, 2}:
            raise SchemaError(f"x must have shape (D,) or (N, D), got {rows.shape}")
        hyper = self.hyper(rows.shape[-1])
        matrix = np.ascontiguousarray(self.prepare(np.atleast_2d(rows), past)[0])
        out = np.empty((len(matrix), self.n_stats(rows.shape[-1])))
        families.stats_of_rows(self.family, hyper, matrix, out)
        return out[0] if rows.ndim == 1 else out

    def log_marginal(self, stats: ArrayLike) -> FloatArray:
        """Return log p(rows), with the parameter integrated out, for each table, (K,).

        ``stats`` (K, P) are sums of sufficient statistics, possibly with soft weights. The result
        is then the value of sum_i z_i E log p(x_i | theta) - KL(q || p) at the optimal q.
        """
        _, _, post = self._posteriors(stats)
        return np.ascontiguousarray(post[:, 0])

    def log_predictive(
        self, x: ArrayLike, stats: ArrayLike, past: FloatArray | None = None
    ) -> FloatArray:
        """Return each table's log density (K,) of a row (D,), with the parameter integrated out.

        ``stats`` (K, P): zeros are a new table; ``past``: as for `suffstats`.
        """
        return self._scores(families.log_predictives, x, stats, past)

    def expected_log_lik(
        self, x: ArrayLike, stats: ArrayLike, past: FloatArray | None = None
    ) -> FloatArray:
        """Return E[log p(x | theta)] under each table's posterior; see `log_predictive`."""
        return self._scores(families.expected_log_liks, x, stats, past)

    def check_rows(self, X: FloatArray, names: Sequence[str] | None = None) -> None:
        """Refuse rows (N, D) with values outside the support; NaN (missing) is allowed.

        ``names`` are column names for the message. SchemaError with the first offending row in
        ``row``.
        """
        good = self._in_support(X)
        if good is True or good.all():
            return
        bad = ~(np.isnan(X) | good)
        if not bad.any():
            return
        i, j = (int(index) for index in np.argwhere(bad)[0])
        column = f"column {j}" if names is None else f"column {names[j]!r}"
        raise SchemaError(
            f"row {i}, {column}: {type(self).__name__} expects {self._support}, got {X[i, j]}; "
            "correct the value, leave it missing, or choose another likelihood",
            row=i,
        )

    @property
    def suits_any(self) -> bool:
        """Whether the support includes all numbers from -1e100 to 1e100."""
        return type(self)._in_support is Likelihood._in_support

    def suits(self, X: FloatArray) -> NDArray[np.bool_]:
        """Return which values of rows (N, D) are in the support; NaN is not considered."""
        return np.array(np.broadcast_to(self._in_support(X), X.shape))

    def _in_support(self, X: FloatArray) -> Any:
        """Return a boolean array, False where a value breaks the rule ``_support``, or True."""
        if np.vdot(X, X) <= 1e200:  # the fastest test of a single row
            return True
        return np.abs(X) <= 1e100  # beyond, squares overflow

    def sample(self, rng: Generator, stats: ArrayLike, size: int | None = None) -> FloatArray:
        """Draw theta given ``stats`` (P,), then a row (D,), or rows (size, D), given theta."""
        raise NotImplementedError

    def point_estimates(self, stats: ArrayLike) -> dict[str, FloatArray]:
        """Return parameters (K, D) by name for ``stats`` (K, P); NaN for columns without one."""
        raise NotImplementedError

    def intervals(self, stats: ArrayLike, level: float = 0.95) -> dict[str, FloatArray]:
        """Return equal-tailed intervals of each table's parameters, by the counts of its rows.

        For ``stats`` (K, P): arrays (K, D, 2) by the names of `point_estimates`. Empty for
        regressions, and for columns on a transformed scale.

        Examples
        --------
        >>> from streamddcrp.likelihoods import BetaBernoulli
        >>> family = BetaBernoulli(1.0, 1.0)
        >>> stats = family.suffstats([[1.0]] * 9 + [[0.0]]).sum(axis=0)
        >>> family.intervals(stats)["probability"].round(2).tolist()
        [[[0.59, 0.98]]]
        """
        if not 0.0 < level < 1.0:
            raise ConfigError(f"level must be above 0 and below 1, got {level!r}")
        return self._quantiles(stats, np.array([0.5 - 0.5 * level, 0.5 + 0.5 * level]))

    def _quantiles(self, stats: ArrayLike, p: FloatArray) -> dict[str, FloatArray]:
        """Return quantiles of parameters, (K, D, len(p))."""
        return {}

    def to_config(self) -> dict[str, Any]:
        """Return the family's name and parameters as a JSON-able dict."""
        values = {field.name: _listed(getattr(self, field.name)) for field in fields(self)}
        return {"family": type(self).__name__, **values}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Rebuild from `to_config`; ConfigError if the family differs or a part is missing."""
        expected = {"family", *(field.name for field in fields(cls))}
        if config.get("family") != cls.__name__ or set(config) != expected:
            raise ConfigError(
                f"{cls.__name__}: the description must have the entries {sorted(expected)} with "
                f"family {cls.__name__!r}, got {dict(config)!r}"
            )
        return cls(**{name: value for name, value in config.items() if name != "family"})

    def _scores(
        self, kernel: Any, x: ArrayLike, stats: ArrayLike, past: FloatArray | None
    ) -> FloatArray:
        D, hyper, post = self._posteriors(stats)
        row = np.asarray(x, dtype=np.float64)
        if row.shape != (D,):
            raise SchemaError(f"x must have shape ({D},) to fit the statistics, got {row.shape}")
        ready, out = self.prepare(row[np.newaxis], past)[0][0], np.empty(len(post))
        kernel(self.family, hyper, post, np.ascontiguousarray(ready), len(post), out)
        slopes = self.log_slopes(row[np.newaxis])
        return out if slopes is None else out + slopes

    def _posteriors(self, stats: ArrayLike) -> tuple[int, FloatArray, FloatArray]:
        """Return D, the prior and the cached posterior (K, Q) of statistics (K, P) or (P,)."""
        matrix = np.ascontiguousarray(np.atleast_2d(np.asarray(stats, dtype=np.float64)))
        P = matrix.shape[1]
        D = self.n_features
        if D is None:
            D = bisect_left(range(P), P, key=self.n_stats)
        if matrix.ndim != 2 or self.n_stats(D) != P:
            raise SchemaError(
                f"stats must have shape (K, P) with P = n_stats(D) of {type(self).__name__}, "
                f"got {matrix.shape}; build them with suffstats"
            )
        hyper = self.hyper(D)
        post = np.empty((len(matrix), int(families.n_post(self.family, hyper))))
        families.posteriors(self.family, hyper, matrix, len(matrix), post)
        return D, hyper, post


def _listed(value: Any) -> Any:
    """Return tuples as lists, as JSON does."""
    return [_listed(item) for item in value] if isinstance(value, tuple) else value


def lacking(x: FloatArray, at: IntArray) -> FloatArray:
    """Return a row (D,), and copies without each of the columns ``at``: (1 + n, D)."""
    D = len(x)
    rows = np.empty((1 + len(at), D))
    rows[:] = x
    if len(at) == D:
        holes(rows).fill(np.nan)
    else:
        rows[1 + np.arange(len(at)), at] = np.nan
    return rows


def holes(rows: FloatArray) -> FloatArray:
    """Return what is missing in the copies (D,) of a row without each column, (1 + D, D)."""
    D = rows.shape[1]
    return rows.reshape(-1)[D :: D + 1]
