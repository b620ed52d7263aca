"""Rows that are sums of features and noise: the likelihood of the Indian buffet process."""

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.likelihoods.columns import scalar_parameter
from streamddcrp.typing import FloatArray

_MOST_TERMS = 4096
RATIOS = (1e-4, 1e-3, 0.01, 0.1, 1.0)  # smaller loadings would be lost in the noise


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
    A row costs O(K^2 + K D) (`streamddcrp.likelihoods.kernels.linear_gaussian`); the functions
    of this class are plain linear algebra over all rows at once.

    References
    ----------
    Griffiths and Ghahramani, "The Indian buffet process", JMLR 2011, section 5.

    Examples
    --------
    >>> family = LinearGaussian(0.5, 1.0)
    >>> Z, X = [[1, 0], [1, 1], [0, 1]], [[1.1], [0.2], [-0.9]]
    >>> family.log_marginal(Z, X)
    -3.574
    >>> family.loadings(Z, X)[0].round(2).tolist()
    [[0.89], [-0.71]]
    """

    sigma_x: float | None = None
    sigma_y: float | None = None
    noise_shape: float = 2.0
    noise_rate: float = 0.5
    ratio: Any = RATIOS

    def __post_init__(self) -> None:
        if (self.sigma_x is None) != (self.sigma_y is None):
            raise ConfigError(
                "LinearGaussian: give both sigma_x and sigma_y, or neither, and then noise_shape, "
                "noise_rate and ratio"
            )
        for name in ("sigma_x", "sigma_y", "noise_shape", "noise_rate"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, scalar_parameter("LinearGaussian", name, value))
        given = self.ratio if isinstance(self.ratio, list | tuple) else (self.ratio,)
        checked = tuple(scalar_parameter("LinearGaussian", "ratio", value) for value in given)
        if not checked or len(set(checked)) < len(checked):
            raise ConfigError(
                f"LinearGaussian: ratio must be different positive numbers, got {self.ratio}"
            )
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

        With a grid of ratios, each feature has its own: a sum over G^K terms, at most 4,096.

        Parameters
        ----------
        Z : array_like of shape (N, K)
        X : array_like of shape (N, D)
        """
        Z, X = self._checked(Z, X)
        n_terms = len(self.ratios) ** Z.shape[1]
        if n_terms > _MOST_TERMS:
            raise ConfigError(
                f"{n_terms} ways to give {Z.shape[1]} features their ratios; fix the ratio"
            )
        every = product(self.ratios, repeat=Z.shape[1])
        logs = [self.log_density(Z, X, np.array(ratio)) for ratio in every]
        return float(np.logaddexp.reduce(logs) - math.log(n_terms))

    def loadings(self, Z: ArrayLike, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Posterior mean (K, D) and standard deviation (K, D) of the loadings.

        Of several ratios the one with the largest marginal likelihood, for all features.
        """
        Z, X = self._checked(Z, X)
        K = Z.shape[1]
        ratio = max(
            (np.full(K, value) for value in self.ratios),
            key=lambda values: self.log_density(Z, X, values),
        )
        precision = Z.T @ Z + np.diag(ratio)
        cov = np.linalg.inv(precision)
        mean = cov @ (Z.T @ X)
        noise = self.rate
        if not self.known:
            rate = self.rate + 0.5 * self._residual(Z, X, ratio)
            noise = rate / (self.shape + 0.5 * X.size - 1.0)
        deviation = np.sqrt(noise * np.diag(cov))[:, None]
        return mean, np.broadcast_to(deviation, mean.shape).copy()

    @staticmethod
    def _checked(Z: ArrayLike, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        features, rows = np.asarray(Z, dtype=np.float64), np.asarray(X, dtype=np.float64)
        if features.ndim != 2 or rows.ndim != 2 or len(features) != len(rows):
            raise SchemaError(
                f"expected Z (N, K) and X (N, D), got {features.shape} and {rows.shape}"
            )
        return features, rows

    @staticmethod
    def _residual(Z: FloatArray, X: FloatArray, ratio: FloatArray) -> float:
        """Return tr X' (I - Z (Z'Z + diag ratio)^-1 Z') X, as a sum of squares."""
        mean = np.linalg.solve(Z.T @ Z + np.diag(ratio), Z.T @ X)
        return float(((X - Z @ mean) ** 2).sum() + (ratio @ mean**2).sum())

    def log_density(self, Z: FloatArray, X: FloatArray, ratio: FloatArray) -> float:
        """Log density of all rows where each feature has its ratio (K,), as `log_marginal`."""
        N, D = X.shape
        log_det = float(np.linalg.slogdet(Z.T @ Z + np.diag(ratio))[1]) - float(np.log(ratio).sum())
        residual = self._residual(Z, X, ratio)
        if self.known:
            constant = -0.5 * N * D * math.log(2.0 * math.pi * self.rate)
            return float(constant - 0.5 * D * log_det - residual / (2.0 * self.rate))
        a, b = self.shape, self.rate
        return float(
            math.lgamma(a + 0.5 * N * D) - math.lgamma(a) - 0.5 * N * D * math.log(2.0 * math.pi)
            - 0.5 * D * log_det + a * math.log(b)
            - (a + 0.5 * N * D) * math.log(b + 0.5 * residual)
        )  # fmt: skip
