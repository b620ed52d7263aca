"""Independent yes/no features."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from streamddcrp.likelihoods.base import ConjugateFamily
from streamddcrp.likelihoods.kernels import families
from streamddcrp.likelihoods.parameters import columns, common_width
from streamddcrp.likelihoods.registry import family
from streamddcrp.typing import FloatArray


@family("beta_bernoulli")
@dataclass(frozen=True)
class BetaBernoulli(ConjugateFamily):
    """Features that are 0 or 1 with a Beta prior, independent of each other.

    For each feature, p(x = 1) ~ Beta(a, b). Missing values are integrated out. O(D) time and memory
    a row and table.

    Parameters
    ----------
    a, b : float or sequence of float, length D, default 0.5

    Examples
    --------
    >>> family = BetaBernoulli(1.0, 1.0)
    >>> stats = family.suffstats([[1.0], [1.0], [0.0]]).sum(axis=0)
    >>> float(np.exp(family.log_predictive([1.0], stats)[0]))  # (2 + 1) / (3 + 2)
    0.6
    """

    a: Any = 0.5
    b: Any = 0.5

    family: ClassVar[int] = families.BETA_BERNOULLI
    _support: ClassVar[str] = "0 or 1"

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            self._check_columns(name)
        common_width("BetaBernoulli", **vars(self))

    @property
    def n_features(self) -> int | None:
        """Number of features the parameters are for, None if both are single numbers."""
        return common_width("BetaBernoulli", **vars(self))

    def _prior(self, n_features: int) -> FloatArray:
        return np.concatenate([columns(self.a, n_features), columns(self.b, n_features)])

    def _in_support(self, X: FloatArray) -> Any:
        return (X == 0.0) | (X == 1.0)

    def sample(self, rng: Generator, stats: ArrayLike, size: int | None = None) -> FloatArray:
        """Draw probabilities from the posterior, then rows of zeros and ones given them.

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
        D, hyper, _ = self._posteriors(stats)
        ones, zeros = np.maximum(np.asarray(stats, dtype=np.float64)[1:].reshape(2, D), 0.0)
        p = rng.beta(hyper[1 : 1 + D] + ones, hyper[1 + D :] + zeros)
        uniforms = rng.random((D,) if size is None else (size, D))
        return np.asarray(uniforms < p, dtype=np.float64)

    def point_estimates(self, stats: ArrayLike) -> dict[str, FloatArray]:
        """Return the posterior mean of each probability of a one.

        Parameters
        ----------
        stats : array_like of float, shape (K, P)

        Returns
        -------
        dict of str to ndarray of float64, shape (K, D)
            ``probability``.
        """
        D, _, post = self._posteriors(stats)
        return {"probability": np.exp(post[:, 1:].reshape(-1, D, 4)[:, :, 0])}
