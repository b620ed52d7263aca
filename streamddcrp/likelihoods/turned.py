"""Rows turned so that dependent columns become independent coordinates."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from streamddcrp.cached import Cached
from streamddcrp.errors import ConfigError
from streamddcrp.likelihoods.base import Likelihood
from streamddcrp.likelihoods.columns import as_array, as_columns
from streamddcrp.likelihoods.kernels.plane import turned
from streamddcrp.likelihoods.registry import family, make_likelihood
from streamddcrp.typing import FloatArray

FARTHEST = 1e50  # deviations; of a coordinate further off, products with others overflow


@family("turned")
@dataclass(frozen=True)
class Turned(Likelihood):
    """A family of coordinates z = A (x - center) that replace some columns x.

    A missing value is replaced by its expectation given the other columns, if z is Gaussian with
    deviations ``scale``; its density is left out. O(D^2) a row plus the cost of ``inner``. Point
    estimates are those of ``inner``; ``sd`` treats coordinates as uncorrelated.

    Parameters
    ----------
    inner : Likelihood
        For rows with coordinates instead of columns.
    at : sequence of int, length Q
        The columns.
    center, scale : sequence of float, length Q
    axes : array_like of float, shape (Q, Q)
        The matrix A, of full rank.
    """

    inner: Likelihood
    at: Any
    center: Any
    scale: Any
    axes: Any

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "inner", make_likelihood(self.inner))
        put(self, "family", self.inner.family)
        put(self, "at", as_columns(self.at))
        center, scale, axes = (
            as_array("Turned", name, getattr(self, name)) for name in ("center", "scale", "axes")
        )
        Q = len(self.at)
        fine = center.shape == scale.shape == (Q,) and axes.shape == (Q, Q) and Q > 0
        if not fine or not (scale > 0.0).all() or not np.linalg.slogdet(axes)[0]:
            raise ConfigError(
                "Turned: center, scale and axes must be of as many columns as there are in at, the "
                "scale positive and the axes independent"
            )
        put(self, "center", tuple(center.tolist()))
        put(self, "scale", tuple(scale.tolist()))
        put(self, "axes", tuple(map(tuple, axes.tolist())))

    @Cached
    def is_scaled(self) -> bool:
        return self.inner.is_scaled

    def scaled(self, X: FloatArray, names: Sequence[str] | None = None) -> Self:
        return replace(self, inner=self.inner.scaled(X, names))

    @Cached
    def n_features(self) -> int | None:
        """Number of columns."""
        return self.inner.n_features

    @Cached
    def _turn(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Centre, axes, their inverse, and the precision of columns."""
        center, scale, axes = map(np.array, (self.center, self.scale, self.axes))
        return center, axes, np.linalg.inv(axes), (axes.T / scale**2) @ axes

    @Cached
    def _log_det(self) -> float:
        return float(np.linalg.slogdet(self._turn[1])[1])

    @property
    def least_power(self) -> float:
        return self.inner.least_power

    def remarks(self, names: Sequence[str]) -> list[str]:
        said = self.inner.remarks(names)
        return [*said, f"{len(self.at)} columns have a covariance that all regimes share"]

    def n_stats(self, n_features: int) -> int:
        return self.inner.n_stats(n_features)

    def _row_length(self, n_features: int) -> int:
        return self.inner._row_length(n_features)

    def _prior(self, n_features: int) -> FloatArray:
        return self.inner._prior(n_features)

    def prepare(
        self, X: FloatArray, past: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray | None]:
        rows = X.copy()
        rows[:, self.at] = np.clip(self._turned(X)[0], -FARTHEST, FARTHEST)
        return self.inner.prepare(rows, past)

    def _turned(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        own, Q = np.ascontiguousarray(X[:, self.at]), len(self.at)
        out, work, logs = np.empty(own.shape), np.empty((Q + 1, Q + 1)), np.empty(len(X))
        center, axes, _, precision = self._turn
        turned(center, axes, precision, own, work, out, logs)
        return out, logs

    def log_slopes(self, X: FloatArray) -> FloatArray:
        missing = np.isnan(X[:, self.at])
        if not missing.any():
            return np.full(len(X), self._log_det)
        return np.where(missing.all(axis=1), 0.0, self._log_det - self._turned(X)[1])

    def in_units(self, view: FloatArray, n_features: int) -> FloatArray:
        out = self.inner.in_units(view, n_features)
        self._in_columns(out[:1], out[1:2])
        out[2, self.at] = 0.5  # of the square: a missing value is at its mode
        return out

    def _in_columns(self, mean: FloatArray, sd: FloatArray) -> None:
        """Turn means and standard deviations (K, D) of coordinates into those of columns."""
        center, _, back, _ = self._turn
        mean[:, self.at] = center + mean[:, self.at] @ back.T
        sd[:, self.at] = np.sqrt(sd[:, self.at] ** 2 @ (back**2).T)

    def check_rows(self, X: FloatArray, names: Sequence[str] | None = None) -> None:
        self.inner.check_rows(X, names)

    @property
    def suits_any(self) -> bool:
        return self.inner.suits_any

    def suits(self, X: FloatArray) -> NDArray[np.bool_]:
        return self.inner.suits(X)

    def sample(self, rng: Generator, stats: ArrayLike, size: int | None = None) -> FloatArray:
        rows = self.inner.sample(rng, stats, size)
        center, _, back, _ = self._turn
        rows[..., self.at] = center + rows[..., self.at] @ back.T
        return rows

    def point_estimates(self, stats: ArrayLike) -> dict[str, FloatArray]:
        found = self.inner.point_estimates(stats)
        self._in_columns(found["mean"], found["sd"])
        return found

    def to_config(self) -> dict[str, Any]:
        return super().to_config() | {"inner": self.inner.to_config()}
