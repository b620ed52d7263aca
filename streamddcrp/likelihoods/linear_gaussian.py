"""Rows that are sums of features and noise: likelihood of the Indian buffet process."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamddcrp.errors import ConfigError
from streamddcrp.likelihoods.columns import scalar_parameter
from streamddcrp.typing import FloatArray

RATIOS = (1e-4, 1e-3, 0.01, 0.1, 1.0)  # smaller loadings vanish in the noise
# A loading's variance 1 / ratio is rounded by 2^-52 / ratio; a row that is taken out divides by as
# little as the ratio. At 1e-6 the error of that is 2e-4, at 1e-8 all of it.
LEAST_RATIO = 0.999e-6


@dataclass(frozen=True)
class LinearGaussian:
    """Linear-Gaussian features: ``X = Z Y + E``, collapsed over the loadings ``Y``.

    ``E`` is N(0, sigma_x^2) and ``Y`` (K, D) is N(0, sigma_y^2); Z (N, K) says which row has which
    feature. Only the ratio sigma_x^2 / sigma_y^2 enters the posterior of the loadings. An unknown
    noise variance is integrated out under InvGamma(shape, rate), and the ratio has a grid prior.
    Griffiths and Ghahramani, "The Indian buffet process", JMLR 2011, section 5.

    Parameters
    ----------
    sigma_x, sigma_y : float, optional
        Standard deviations of the noise and of the loadings; neither if they are unknown. At most
        1 to 1000.
    noise_shape, noise_rate : float
        Prior of an unknown noise variance.
    ratio : float or sequence of float
        sigma_x^2 / sigma_y^2 if they are unknown: one value, or several that are equally probable a
        priori for each feature.

    Examples
    --------
    >>> family = LinearGaussian(0.5, 1.0)
    >>> Z, X = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]), np.array([[1.1], [0.2], [-0.9]])
    >>> family.log_density(Z, X, np.array(2 * family.ratios))
    -3.574
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
        if min(self.ratios) < LEAST_RATIO:
            raise ConfigError(
                "LinearGaussian: sigma_y must be at most 1000 times sigma_x, and ratio at least "
                f"1e-6, since rounding hides smaller noise; got a ratio of {min(self.ratios):.3g}: "
                "give a larger sigma_x or a smaller sigma_y"
            )

    @property
    def known(self) -> bool:
        """Whether the noise is known."""
        return self.sigma_x is not None

    @property
    def shape(self) -> float:
        """Shape of the noise variance's prior; 0 if the variance is known."""
        return 0.0 if self.known else self.noise_shape

    @property
    def rate(self) -> float:
        """Rate of the noise variance's prior, or the variance itself if known."""
        return self.noise_rate if self.sigma_x is None else self.sigma_x**2

    @property
    def ratios(self) -> tuple[float, ...]:
        """Values of sigma_x^2 / sigma_y^2."""
        if self.sigma_x is not None and self.sigma_y is not None:
            return ((self.sigma_x / self.sigma_y) ** 2,)
        return self.ratio  # type: ignore[no-any-return]

    @staticmethod
    def _residual(Z: FloatArray, X: FloatArray, ratio: FloatArray) -> float:
        """Return tr X' (I - Z (Z'Z + diag ratio)^-1 Z') X, as a sum of squares."""
        mean = np.linalg.solve(Z.T @ Z + np.diag(ratio), Z.T @ X)
        return float(((X - Z @ mean) ** 2).sum() + (ratio @ mean**2).sum())

    def log_density(self, Z: FloatArray, X: FloatArray, ratio: FloatArray) -> float:
        """Log density of rows (N, D) given their features (N, K), each with its ratio (K,).

        Loadings and noise are integrated out.
        """
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
