"""Linear regressions, with unknown coefficients and noise, on other columns or the past."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.likelihoods import columns as col
from streamddcrp.likelihoods.base import Likelihood
from streamddcrp.likelihoods.kernels import families
from streamddcrp.likelihoods.registry import family
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp.validation import whole

MOST_LAGS = 256  # of an autoregression: its posteriors take cubic time


class _Linear(Likelihood):
    """Shared by both families: standardised regressors, one regression for each output.

    A row reaches the kernels as one block for each output, (regressors, output - mean).
    """

    mean: Any
    scale: Any
    kappa: Any
    shape: Any
    rate: Any

    family: ClassVar[int] = families.REGRESSION
    _columns: ClassVar[tuple[str, ...]] = ("mean", "scale", "shape", "rate")
    _from_rows: ClassVar[tuple[str, ...]] = ("mean", "scale", "rate")
    _spread: ClassVar[str | None] = "rate"
    _support: ClassVar[str] = "numbers between -1e40 and 1e40"

    def __post_init__(self) -> None:
        super().__post_init__()
        kappa = col.scalar_parameter(type(self).__name__, "kappa", self.kappa)
        object.__setattr__(self, "kappa", kappa)

    def _shape_of_rows(self, n_features: int) -> tuple[int, int]:
        """Return the number of outputs D and of coefficients P for each."""
        raise NotImplementedError

    def _scale(self, X: FloatArray) -> dict[str, Any]:
        variances = col.column_variances(X)
        rate = np.multiply(self.shape, col.TABLE_VARIANCE * variances)
        return {"mean": col.column_means(X), "scale": np.sqrt(variances), "rate": rate}

    def n_stats(self, n_features: int) -> int:
        D, P = self._shape_of_rows(n_features)
        return int(families.n_stats(self.family, np.array([D * P, D, P], dtype=np.float64)))

    def _row_length(self, n_features: int) -> int:
        D, P = self._shape_of_rows(n_features)
        return D * P

    def _prior(self, n_features: int) -> FloatArray:
        D, P = self._shape_of_rows(n_features)
        shape, rate = col.columns(self.shape, D), col.columns(self.rate, D)
        prior = np.column_stack([np.zeros((D, P)), np.full((D, P), self.kappa), shape, rate])
        return np.concatenate([[D, P], prior.ravel()])

    def _outputs(self, n_features: int) -> IntArray:
        return np.arange(n_features)

    def explains(self, x: FloatArray) -> IntArray:
        outputs = self._outputs(len(x))
        return outputs[~np.isnan(x[outputs])]

    def without(self, x: FloatArray, at: IntArray, past: FloatArray | None = None) -> FloatArray:
        # one row without each output, which remains a regressor of later rows
        P = self._shape_of_rows(len(x))[1]
        rows = np.repeat(self.prepare(x[np.newaxis], past)[0], 1 + len(at), axis=0)
        blocks = (self._outputs(len(x)) == at[:, np.newaxis]).argmax(axis=1)
        rows[1 + np.arange(len(at)), (blocks + 1) * P - 1] = np.nan
        return rows

    def in_units(self, view: FloatArray, n_features: int) -> FloatArray:
        out, outputs = np.full((3, n_features), np.nan), self._outputs(n_features)
        P = self._shape_of_rows(n_features)[1]
        out[:, outputs] = view[:, P - 1 :: P]
        out[0] += np.asarray(self.mean)
        out[1] = np.sqrt(out[1])
        return out

    def _in_support(self, X: FloatArray) -> Any:
        return np.abs(X) <= 1e40  # with coefficients of up to 1e60, squares do not overflow

    def _draw(self, rng: Generator, stats: ArrayLike) -> tuple[int, FloatArray, FloatArray]:
        """Draw from the posterior: number of features, coefficients (D, P), noise sd (D,)."""
        n_features, _, post = self._posteriors(stats)
        D, P = self._shape_of_rows(n_features)
        cells = post[0, 1:].reshape(D, -1)
        shape, rate = cells[:, -4] - 0.5, 0.5 / cells[:, -3]
        sd = 1.0 / np.sqrt(rng.gamma(shape, 1.0 / rate))
        root = np.zeros((D, P, P))  # the inverse Cholesky factor of the precision of w
        root[:, *np.tril_indices(P)] = cells[:, P:-5]
        noise = np.einsum("dij,di->dj", root, rng.normal(size=(D, P)))
        return n_features, cells[:, :P] + sd[:, None] * noise, sd

    def _coefficients(self, stats: ArrayLike) -> tuple[int, FloatArray, FloatArray]:
        """Return the number of features, coefficients (K, D, P) and noise sd (K, D)."""
        n_features, _, post = self._posteriors(stats)
        D, P = self._shape_of_rows(n_features)
        cells = post[:, 1:].reshape(len(post), D, (post.shape[1] - 1) // D)  # K may be 0
        return n_features, cells[:, :, :P], np.sqrt(0.5 / cells[:, :, -1])


@family("regression")
@dataclass(frozen=True)
class Regression(_Linear):
    """Columns that depend linearly on the other columns of their row, with Gaussian noise.

    For each target, y = w0 + sum_j w_j (x_j - mean_j) / scale_j + noise over the other columns,
    with precision ~ Gamma(shape, rate), w0 ~ N(mean of y, 1 / (kappa precision)) and w_j ~ N(0, 1 /
    (kappa precision)). The density is that of the targets given the others, which are not modelled
    themselves. A target is left out if it or a regressor is missing. O(T P^2) time and memory per
    row and table, O(T P^3) when a table's posterior is updated, for T targets and P - 1 regressors.
    Point estimates, of y = intercept + sum_j slope_j x_j + noise: ``intercept``, ``sd`` of the
    noise (E[precision]^-1/2) and, by the name or position of each regressor, ``slope_...``; NaN for
    columns that are not targets.

    Parameters
    ----------
    targets : int, str or sequence of them
        Columns to explain, by position or name. All other columns are regressors.
    mean, scale : float or sequence of float, length n_features
        Centre and unit of each column, which the prior refers to. From rows: mean and standard
        deviation.
    kappa : float, default 0.05
        Weight of the prior of the coefficients, in rows.
    shape, rate : float or sequence of float, one for each target
        Prior of the noise precision. From rows: a rate for which a table's noise is expected to be
        small, 5 % of the target's variance.
    names : sequence of str, optional
        Column names. From the stream.

    Examples
    --------
    >>> family = Regression("y", names=("x", "y")).scaled([[0.0, 1.0], [1.0, 3.0], [2.0, 5.0]])
    >>> table = family.suffstats([[0.0, 1.0], [1.0, 3.1], [2.0, 4.9], [3.0, 7.1]]).sum(axis=0)
    >>> float(family.point_estimates(table)["slope_x"][0, 1])
    1.99
    """

    targets: Any
    mean: Any = None
    scale: Any = None
    kappa: Any = 0.05
    shape: Any = 1.5
    rate: Any = None
    names: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        targets = col.as_columns(self.targets)
        if not targets:
            raise ConfigError(
                "Regression: targets must be positions or names of columns, each once; "
                f"got {self.targets!r}"
            )
        object.__setattr__(self, "targets", targets)
        if self.names is not None:
            object.__setattr__(self, "names", tuple(map(str, self.names)))
        for name in ("shape", "rate"):
            value = getattr(self, name)
            if isinstance(value, tuple) and len(value) != len(targets):
                raise ConfigError(
                    f"Regression: {name} has {len(value)} numbers for {len(targets)} targets"
                )
        _ = self.n_features  # refuses names for another number of columns

    @property
    def is_scaled(self) -> bool:
        """Whether all parameters are given and all targets known by position."""
        named = any(isinstance(target, str) for target in self.targets)
        return super().is_scaled and (self.names is not None or not named)

    @property
    def n_features(self) -> int | None:
        """Number of columns of the parameters, None if mean and scale are numbers."""
        return col.common_width("Regression", mean=self.mean, scale=self.scale, names=self.names)

    def scaled(self, X: FloatArray, names: Sequence[str] | None = None) -> Self:
        named = self if self.names is not None or names is None else replace(self, names=names)
        return super(Regression, named).scaled(X)

    def _scale(self, X: FloatArray) -> dict[str, Any]:
        rows = np.asarray(X, dtype=np.float64)
        found, (targets, _) = super()._scale(rows), self._split(rows.shape[1])
        variances = col.TABLE_VARIANCE * found["scale"][targets] ** 2
        return found | {"rate": col.columns(self.shape, len(targets)) * variances}

    def _split(self, n_features: int) -> tuple[IntArray, IntArray]:
        names = self.names or ()
        places = [names.index(c) if c in names else c for c in self.targets]
        for given, place in zip(self.targets, places, strict=True):
            if not isinstance(place, int) or not 0 <= place < n_features:
                raise SchemaError(
                    f"Regression: there is no column {given!r}; the data have "
                    f"{list(names) if names else f'{n_features} columns'}"
                )
        return np.array(places), np.setdiff1d(np.arange(n_features), places)

    def _shape_of_rows(self, n_features: int) -> tuple[int, int]:
        return len(self.targets), max(1 + n_features - len(self.targets), 0)

    def _outputs(self, n_features: int) -> IntArray:
        return self._split(n_features)[0]

    def _spread_of(self, X: FloatArray) -> FloatArray:
        return X[:, self._split(X.shape[1])[0]]

    def _prior(self, n_features: int) -> FloatArray:
        self._split(n_features)  # refuses unknown targets
        return super()._prior(n_features)

    def prepare(
        self, X: FloatArray, past: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray | None]:
        # a block for each target: (standardised regressors, target - mean)
        targets, regressors = self._split(X.shape[1])
        centred = X - np.asarray(self.mean)
        blocks = np.empty((len(X), len(targets), 1 + len(regressors)))
        blocks[:, :, :-1] = (centred / self.scale)[:, None, regressors]
        blocks[:, :, -1] = centred[:, targets]
        return blocks.reshape(len(X), self._row_length(X.shape[1])), None

    def sample(
        self,
        rng: Generator,
        stats: ArrayLike,
        size: int | None = None,
        *,
        x: ArrayLike | None = None,
    ) -> FloatArray:
        """Draw coefficients and noise given ``stats`` (P,), then targets in (D,) or (size, D).

        ``x``: the rows with the regressors, which the family does not model; default: the prior
        means.
        """
        n_features, w, sd = self._draw(rng, stats)
        targets, regressors = self._split(n_features)
        rows = np.empty((1 if size is None else size, n_features))
        rows[:] = self.mean if x is None else x
        standard = ((rows - self.mean) / self.scale)[:, regressors]
        noise = sd * rng.normal(size=(len(rows), len(targets)))
        centre = col.columns(self.mean, n_features)[targets]
        rows[:, targets] = centre + w[:, 0] + standard @ w[:, 1:].T + noise
        return rows[0] if size is None else rows

    def point_estimates(self, stats: ArrayLike) -> dict[str, FloatArray]:
        n_features, w, sd = self._coefficients(stats)
        targets, regressors = self._split(n_features)
        mean, scale = col.columns(self.mean, n_features), col.columns(self.scale, n_features)
        slopes = w[:, :, 1:] / scale[regressors]
        intercept = mean[targets] + w[:, :, 0] - slopes @ mean[regressors]
        names = [f"slope_{j if self.names is None else self.names[j]}" for j in regressors]
        found = {"intercept": intercept, "sd": sd}
        found |= {name: slopes[:, :, j] for j, name in enumerate(names)}
        out = {name: np.full((len(w), n_features), np.nan) for name in found}
        for name, values in found.items():
            out[name][:, targets] = values
        return out


@family("autoregression")
@dataclass(frozen=True)
class Autoregression(_Linear):
    """Columns that depend linearly on their own last values, with Gaussian noise.

    For each column, y_t = mean + w_0 + sum_j w_j (y_{t-j} - mean) / scale + noise with j = 1 ..
    order, precision ~ Gamma(shape, rate) and w ~ N(0, 1 / (kappa precision)). Order 1 covers levels
    (w_1 = 0), random walks and trends. A missing lag is replaced by the last known value. A missing
    y_t is left out, as are the first values of a series, whose lags are unknown. The previous row
    is the last one to arrive, whatever its table. Costs as for `Regression` with D targets and P =
    order + 1. Point estimates, of y_t = intercept + sum_j lag_j y_{t-j} + noise: ``intercept``,
    ``sd`` of the noise, ``lag1``, ``lag2`` ...

    Parameters
    ----------
    order : int, default 1
        Number of lags, at most 256.
    mean, scale, kappa, shape, rate
        As for `Regression`, each column a target.

    Examples
    --------
    >>> family = Autoregression(1, 0.0, 1.0, rate=0.1)
    >>> table = family.suffstats([[1.0], [2.0], [3.1], [3.9], [5.0]]).sum(axis=0)
    >>> {k: round(float(v[0, 0]), 1) for k, v in family.point_estimates(table).items()}
    {'intercept': 1.0, 'sd': 0.2, 'lag1': 1.0}
    """

    order: Any = 1
    mean: Any = None
    scale: Any = None
    kappa: Any = 0.05
    shape: Any = 1.5
    rate: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "order", whole("Autoregression: order", self.order, 1, MOST_LAGS))

    def _shape_of_rows(self, n_features: int) -> tuple[int, int]:
        return n_features, 1 + self.order

    def prepare(
        self, X: FloatArray, past: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray | None]:
        # a block for each column: (standardised lags, y - mean); past (order, D): gaps filled, NaN
        # while nothing is known
        n, D = X.shape
        if past is None:
            past = np.full((self.order, D), np.nan)
        known = carried_forward(np.concatenate([past[-self.order :], X]))
        lags = (known[:-1] - self.mean) / self.scale
        blocks = np.empty((n, D, self.order + 1))
        for j in range(self.order):
            blocks[:, :, j] = lags[self.order - 1 - j : self.order - 1 - j + n]
        blocks[:, :, -1] = X - self.mean
        return blocks.reshape(n, self._row_length(D)), known[n:]

    def sample(self, rng: Generator, stats: ArrayLike, size: int | None = None) -> FloatArray:
        # a series that starts at the mean
        D, w, sd = self._draw(rng, stats)
        n = 1 if size is None else size
        mean, scale = col.columns(self.mean, D), col.columns(self.scale, D)
        series = np.tile(mean, (self.order + n, 1))
        noise = sd * rng.normal(size=(n, D))
        for i in range(n):
            lags = (series[i : i + self.order][::-1] - mean) / scale
            series[i + self.order] += w[:, 0] + (w[:, 1:].T * lags).sum(axis=0) + noise[i]
        return series[-1] if size is None else series[self.order :]

    def point_estimates(self, stats: ArrayLike) -> dict[str, FloatArray]:
        D, w, sd = self._coefficients(stats)
        mean, scale = col.columns(self.mean, D), col.columns(self.scale, D)
        lags = w[:, :, 1:] / scale[:, None]
        intercept = mean + w[:, :, 0] - lags.sum(axis=2) * mean
        found = {f"lag{j + 1}": lags[:, :, j] for j in range(self.order)}
        return {"intercept": intercept, "sd": sd, **found}


def carried_forward(rows: FloatArray) -> FloatArray:
    """Replace missing values (N, D) by the last known one above them, if any."""
    last = np.where(np.isnan(rows), 0, np.arange(len(rows))[:, None])
    filled: FloatArray = np.take_along_axis(rows, np.maximum.accumulate(last, axis=0), axis=0)
    return filled
