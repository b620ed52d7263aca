"""Rows that are sums of features and noise: the likelihood of the Indian buffet process."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.likelihoods._parameters import scalar_parameter
from streamddcrp.typing import FloatArray

__all__ = ["LinearGaussian"]

RATIOS = (1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0)


@dataclass(frozen=True)
class LinearGaussian:
    """Linear-Gaussian features: ``X = Z Y + E``, collapsed over the loadings ``Y``.

    ``E`` is N(0, sigma_x^2) and ``Y`` (K, D) is N(0, sigma_y^2); Z (N, K) says which row has which
    feature. Only the ratio sigma_x^2 / sigma_y^2 enters the posterior of the loadings; a noise
    variance that is not known is integrated out under InvGamma(shape, rate), and for the ratio
    there is a grid.

    Parameters
    ----------
    sigma_x : float, optional
        Standard deviation of the noise. None: unknown.
    sigma_y : float, optional
        Standard deviation of the loadings. Where ``sigma_x`` is unknown it is, too.
    noise_shape, noise_rate : float
        Prior of an unknown noise variance.
    ratio : float or sequence of float
        sigma_x^2 / sigma_y^2 where they are unknown: one value, or values that are equally probable
        before the data, for each feature by itself.

    Notes
    -----
    A row costs O(K^2 + K D) (`streamddcrp.likelihoods._kernels_linear_gaussian`); the functions
    of this class are plain linear algebra over all rows at once.

    References
    ----------
    Griffiths and Ghahramani, "The Indian buffet process", JMLR 2011, section 5.

    Examples
    --------
    >>> family = LinearGaussian(0.5, 1.0)
    >>> Z, X = [[1, 0], [1, 1], [0, 1]], [[1.1], [0.2], [-0.9]]
    >>> family.log_marginal(Z, X)
    -3.22
    >>> family.loadings(Z, X)[0].round(2).tolist()
    [[0.92], [-0.72]]
    """

    sigma_x: float | None = None
    sigma_y: float | None = None
    noise_shape: float = 2.0
    noise_rate: float = 0.5
    ratio: Any = RATIOS

    def __post_init__(self) -> None:
        if (self.sigma_x is None) != (self.sigma_y is None):
            message = (
                "LinearGaussian: give both sigma_x and sigma_y, or neither, and then noise_shape, "
                "noise_rate and ratio"
            )
            raise ConfigError(message)
        for name in ("sigma_x", "sigma_y", "noise_shape", "noise_rate"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, scalar_parameter("LinearGaussian", name, value))
        given = self.ratio if isinstance(self.ratio, list | tuple) else (self.ratio,)
        checked = tuple(scalar_parameter("LinearGaussian", "ratio", value) for value in given)
        if not checked or len(set(checked)) < len(checked):
            message = f"LinearGaussian: ratio must be different positive numbers, got {self.ratio}"
            raise ConfigError(message)
        object.__setattr__(self, "ratio", checked)

    @property
    def known(self) -> bool:
        """Whether the noise is known."""
        return self.sigma_x is not None

    @property
    def shape(self) -> float:
        """Shape of the noise variance's prior; 0 where it is known."""
        return 0.0 if self.known else self.noise_shape

    @property
    def rate(self) -> float:
        """Rate of the noise variance's prior, or the variance itself where it is known."""
        return self.noise_rate if self.sigma_x is None else self.sigma_x**2

    @property
    def ratios(self) -> tuple[float, ...]:
        """Values of sigma_x^2 / sigma_y^2."""
        if self.sigma_x is not None and self.sigma_y is not None:
            return ((self.sigma_x / self.sigma_y) ** 2,)
        return self.ratio  # type: ignore[no-any-return]

    def log_marginal(self, Z: ArrayLike, X: ArrayLike) -> float:
        """Log density of all rows given their features, loadings and noise integrated out.

        Parameters
        ----------
        Z : array_like of shape (N, K)
        X : array_like of shape (N, D)
        """
        Z, X = self._checked(Z, X)
        logs = [self._log_marginal(Z, X, ratio) for ratio in self.ratios]
        return float(np.logaddexp.reduce(logs) - math.log(len(logs)))

    def loadings(self, Z: ArrayLike, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Posterior mean (K, D) and standard deviation (K, D) of the loadings.

        Of several ratios the one with the largest marginal likelihood.
        """
        Z, X = self._checked(Z, X)
        ratio = max(self.ratios, key=lambda value: self._log_marginal(Z, X, value))
        precision = Z.T @ Z + ratio * np.eye(Z.shape[1])
        cov = np.linalg.inv(precision)
        mean = cov @ (Z.T @ X)
        noise = self.rate
        if not self.known:
            rate = self.rate + 0.5 * self._residual(Z, X, ratio)
            noise = rate / (self.shape + 0.5 * X.size - 1.0)
        deviation = np.sqrt(noise * np.diag(cov))[:, None]
        return mean, np.broadcast_to(deviation, mean.shape).copy()

    def to_config(self) -> dict[str, Any]:
        """Return the parameters as JSON values."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in vars(self).items()}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "LinearGaussian":
        """Rebuild from `to_config`."""
        return cls(**config)

    @staticmethod
    def _checked(Z: ArrayLike, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        features, rows = np.asarray(Z, dtype=np.float64), np.asarray(X, dtype=np.float64)
        if features.ndim != 2 or rows.ndim != 2 or len(features) != len(rows):
            message = f"expected Z (N, K) and X (N, D), got {features.shape} and {rows.shape}"
            raise SchemaError(message)
        return features, rows

    @staticmethod
    def _residual(Z: FloatArray, X: FloatArray, ratio: float) -> float:
        """Tr X' (I - Z (Z'Z + ratio I)^-1 Z') X, as a sum of squares."""
        mean = np.linalg.solve(Z.T @ Z + ratio * np.eye(Z.shape[1]), Z.T @ X)
        return float(((X - Z @ mean) ** 2).sum() + ratio * (mean**2).sum())

    def _log_marginal(self, Z: FloatArray, X: FloatArray, ratio: float) -> float:
        (N, D), K = X.shape, Z.shape[1]
        sign_log_det = np.linalg.slogdet(Z.T @ Z + ratio * np.eye(K))[1]
        log_det = float(sign_log_det) - K * math.log(ratio)
        residual = self._residual(Z, X, ratio)
        if self.known:
            constant = -0.5 * N * D * math.log(2.0 * math.pi * self.rate)
            return constant - 0.5 * D * log_det - residual / (2.0 * self.rate)
        a, b = self.shape, self.rate
        return (
            math.lgamma(a + 0.5 * N * D) - math.lgamma(a) - 0.5 * N * D * math.log(2.0 * math.pi)
            - 0.5 * D * log_det + a * math.log(b)
            - (a + 0.5 * N * D) * math.log(b + 0.5 * residual)
        )  # fmt: skip
