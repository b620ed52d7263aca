"""Independent Gaussian features, each with unknown mean and precision."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from streamddcrp.likelihoods.base import ConjugateFamily
from streamddcrp.likelihoods.kernels import families
from streamddcrp.likelihoods.parameters import columns, common_width
from streamddcrp.likelihoods.registry import family
from streamddcrp.likelihoods.scale import TABLE_VARIANCE, column_means, column_variances
from streamddcrp.typing import FloatArray


@family("normal_gamma")
@dataclass(frozen=True)
class NormalGamma(ConjugateFamily):
    """Gaussian features with a Normal-Gamma prior, independent of each other.

    For each feature, precision ~ Gamma(shape, rate) and mu ~ N(mean, 1 / (kappa precision)).
    Missing values are integrated out. O(D) time and memory a row and table.

    Parameters
    ----------
    mean : float or sequence of float, length D
        Prior mean. Sums are taken about it, so it should lie near the data. From rows: the columns'
        means.
    kappa : float or sequence of float, default 0.05
        Weight of the prior mean, in rows.
    shape, rate : float or sequence of float
        Prior of the precision; its expectation is shape / rate. From rows: a rate such that tables
        are expected to be narrow, 5 % of a column's variance.

    Examples
    --------
    >>> family = NormalGamma(0.0, 0.5, 2.0, 1.0)
    >>> stats = family.suffstats([[0.3], [-1.2], [0.5], [2.0], [-0.9]]).sum(axis=0)
    >>> float(family.log_marginal(stats)[0])
    -9.85152041
    """

    mean: Any = None
    kappa: Any = 0.05
    shape: Any = 1.5
    rate: Any = None

    family: ClassVar[int] = families.NORMAL_GAMMA
    _from_rows: ClassVar[tuple[str, ...]] = ("mean", "rate")
    _spread: ClassVar[str | None] = "rate"
    _support: ClassVar[str] = "numbers between -1e100 and 1e100"

    def __post_init__(self) -> None:
        for name in ("mean", "kappa", "shape", "rate"):
            self._check_columns(name, positive=name != "mean")
        common_width("NormalGamma", **vars(self))

    @property
    def n_features(self) -> int | None:
        """Number of features the parameters are for, None if all are single numbers."""
        return common_width("NormalGamma", **vars(self))

    def _scale(self, X: FloatArray) -> dict[str, Any]:
        rate = np.multiply(self.shape, TABLE_VARIANCE * column_variances(X))
        return {"mean": column_means(X), "rate": rate}

    def _prior(self, n_features: int) -> FloatArray:
        center = columns(self.mean, n_features)
        rest = [columns(v, n_features) for v in (self.kappa, self.shape, self.rate)]
        return np.concatenate([center, center, *rest])

    def _in_support(self, X: FloatArray) -> Any:
        return np.abs(X) <= 1e100  # beyond, squares overflow

    def sample(self, rng: Generator, stats: ArrayLike, size: int | None = None) -> FloatArray:
        """Draw mean and precision from the posterior, then rows given them.

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
        D, hyper, post = self._posteriors(stats)
        mean, kappa, shape, rate = post[0, 1:].reshape(D, 8)[:, :4].T
        precision = rng.gamma(shape, 1.0 / rate)
        mu = hyper[1 : 1 + D] + rng.normal(mean, 1.0 / np.sqrt(kappa * precision))
        sd = 1.0 / np.sqrt(precision)
        return rng.normal(mu, sd, size=(D,) if size is None else (size, D))

    def point_estimates(self, stats: ArrayLike) -> dict[str, FloatArray]:
        """Return the posterior mean of each feature, and its standard deviation E[precision]^-1/2.

        Parameters
        ----------
        stats : array_like of float, shape (K, P)

        Returns
        -------
        dict of str to ndarray of float64, shape (K, D)
            ``mean`` and ``sd``.
        """
        D, hyper, post = self._posteriors(stats)
        cells = post[:, 1:].reshape(-1, D, 8)
        mean = hyper[1 : 1 + D] + cells[:, :, 0]
        return {"mean": mean, "sd": np.sqrt(cells[:, :, 3] / cells[:, :, 2])}
