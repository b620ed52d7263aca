"""Independent counts of events with unknown intensity."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from streamddcrp.likelihoods.base import ConjugateFamily
from streamddcrp.likelihoods.kernels import families
from streamddcrp.likelihoods.parameters import columns, common_width
from streamddcrp.likelihoods.registry import family
from streamddcrp.likelihoods.scale import column_means
from streamddcrp.typing import FloatArray


@family("gamma_poisson")
@dataclass(frozen=True)
class GammaPoisson(ConjugateFamily):
    """Poisson counts with a Gamma prior, independent of each other.

    For each feature, intensity ~ Gamma(shape, rate), so its prior mean is shape / rate. Missing
    values are integrated out. O(D) time and memory a row and table.

    Parameters
    ----------
    shape, rate : float or sequence of float, length D
        From rows: a rate such that prior means are the columns' means.

    Examples
    --------
    >>> family = GammaPoisson(1.5, 0.8)
    >>> stats = family.suffstats([[2.0], [0.0], [3.0], [7.0], [1.0]]).sum(axis=0)
    >>> float(family.log_marginal(stats)[0])
    -12.85017506
    """

    shape: Any = 1.0
    rate: Any = None

    family: ClassVar[int] = families.GAMMA_POISSON
    _from_rows: ClassVar[tuple[str, ...]] = ("rate",)
    _support: ClassVar[str] = "counts (whole numbers from 0 to 2**53)"

    def __post_init__(self) -> None:
        for name in ("shape", "rate"):
            self._check_columns(name)
        common_width("GammaPoisson", **vars(self))

    @property
    def n_features(self) -> int | None:
        """Number of features the parameters are for, None if all are single numbers."""
        return common_width("GammaPoisson", **vars(self))

    def _scale(self, X: FloatArray) -> dict[str, Any]:
        # a column of zeros: half an event in all
        means = np.maximum(column_means(X), 0.5 / len(X))
        return {"rate": np.divide(self.shape, means)}

    def _prior(self, n_features: int) -> FloatArray:
        return np.concatenate([columns(self.shape, n_features), columns(self.rate, n_features)])

    def _in_support(self, X: FloatArray) -> Any:
        return (X >= 0.0) & (X <= 2.0**53) & (np.floor(X) == X)

    def sample(self, rng: Generator, stats: ArrayLike, size: int | None = None) -> FloatArray:
        """Draw intensities from the posterior, then rows of counts given them.

        Parameters
        ----------
        rng : numpy.random.Generator
        stats : array_like of float, shape (P,)
        size : int, optional
            Number of rows; None for a single one.

        Returns
        -------
        ndarray of float64, shape (D,) or (size, D)
        """
        D, _, post = self._posteriors(stats)
        cells = post[0, 1:].reshape(D, 5)
        shape, expected = cells[:, 0], cells[:, 4]
        intensity = rng.gamma(shape, expected / shape)
        return rng.poisson(intensity, size=(D,) if size is None else (size, D)).astype(np.float64)

    def point_estimates(self, stats: ArrayLike) -> dict[str, FloatArray]:
        """Return the posterior mean of each intensity.

        Parameters
        ----------
        stats : array_like of float, shape (K, P)

        Returns
        -------
        dict of str to ndarray of float64, shape (K, D)
            ``mean``.
        """
        D, _, post = self._posteriors(stats)
        return {"mean": np.ascontiguousarray(post[:, 1:].reshape(-1, D, 5)[:, :, 4])}
