"""Families of counts: events, categories, binary values."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import ArrayLike

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.likelihoods.base import Likelihood
from streamddcrp.likelihoods.columns import column_means, scalar_parameter
from streamddcrp.likelihoods.kernels import families
from streamddcrp.likelihoods.registry import family
from streamddcrp.typing import FloatArray, IntArray

NOMINAL_VOCABULARY = 2**20


@family("gamma_poisson")
@dataclass(frozen=True)
class GammaPoisson(Likelihood):
    """Independent Poisson counts with a Gamma prior.

    For each feature, intensity ~ Gamma(shape, rate), with prior mean shape / rate. Missing values
    are integrated out. For fractions, such as a rate among flags, the Gamma function replaces the
    factorial. O(D) time and memory per row and table. Point estimates: ``mean``, the posterior mean
    of each intensity.

    Parameters
    ----------
    shape, rate : float or sequence of float, length D
        From rows: a rate for which prior means equal the columns' means.
    share : float or sequence of float, default 1
        Weight of a column, including its prior: below 1 for redundant columns.

    Examples
    --------
    >>> family = GammaPoisson(1.5, 0.8)
    >>> stats = family.suffstats([[2.0], [0.0], [3.0], [7.0], [1.0]]).sum(axis=0)
    >>> float(family.log_marginal(stats)[0])
    -12.85017506
    """

    shape: Any = 1.0
    rate: Any = None
    share: Any = 1.0

    family: ClassVar[int] = families.GAMMA_POISSON
    _support: ClassVar[str] = "counts (numbers from 0 to 2**53)"
    _columns: ClassVar[tuple[str, ...]] = ("shape", "rate", "share")
    _from_rows: ClassVar[tuple[str, ...]] = ("rate",)

    def _in_support(self, X: FloatArray) -> Any:
        return (X >= 0.0) & (X <= 2.0**53)

    def _scale(self, X: FloatArray) -> dict[str, Any]:
        # a column of zeros counts as half an event in all
        means = np.maximum(column_means(X), 0.5 / len(X))
        return {"rate": np.divide(self.shape, means)}

    def sample(self, rng: Generator, stats: ArrayLike, size: int | None = None) -> FloatArray:
        D, _, post = self._posteriors(stats)
        cells = post[0, 1:].reshape(D, 5)
        shape, expected = cells[:, 0], cells[:, 4]
        intensity = rng.gamma(shape, expected / shape)
        return rng.poisson(intensity, size=(D,) if size is None else (size, D)).astype(np.float64)

    def point_estimates(self, stats: ArrayLike) -> dict[str, FloatArray]:
        D, _, post = self._posteriors(stats)
        return {"mean": np.ascontiguousarray(post[:, 1:].reshape(-1, D, 5)[:, :, 4])}

    def _quantiles(self, stats: ArrayLike, p: FloatArray) -> dict[str, FloatArray]:
        D, _, post = self._posteriors(stats)
        cells = post[:, 1:].reshape(-1, D, 5, 1)
        shape, expected = cells[:, :, 0], cells[:, :, 4]
        return {"mean": scipy.special.gammaincinv(shape, p) * expected / shape}


@family("dirichlet_multinomial")
@dataclass(frozen=True)
class DirichletMultinomial(Likelihood):
    """Counts of categories with a symmetric Dirichlet prior.

    A row holds each category's count; its probability is that of the token sequence, without
    multinomial coefficient. A missing value counts as 0. O(D) time and memory per row and table;
    columns without tokens cost one comparison. Point estimates: ``probability``, each category's
    predictive probability.

    Parameters
    ----------
    concentration : float
        Prior mass of each category; with an open vocabulary, total mass of all categories.
    n_categories : int, optional
        Number of categories, equal to that of columns. None for an open vocabulary: the mass is
        spread over 2**20 words, and only those seen need a column; columns may be added at any time
        without changing any result.

    Examples
    --------
    >>> family = DirichletMultinomial(0.5, 3)
    >>> stats = family.suffstats([[2, 0, 0], [0, 1, 1], [1, 0, 0]]).sum(axis=0)
    >>> float(family.log_marginal(stats)[0])
    -6.54102999
    """

    concentration: Any
    n_categories: int | None = None

    family: ClassVar[int] = families.DIRICHLET_MULTINOMIAL
    _support: ClassVar[str] = "counts (whole numbers from 0 to 2**53)"

    def __post_init__(self) -> None:
        mass = scalar_parameter("DirichletMultinomial", "concentration", self.concentration)
        object.__setattr__(self, "concentration", mass)
        number: Any = self.n_categories
        if number is None:
            return
        if not isinstance(number, int | np.integer) or isinstance(number, bool) or number < 1:
            raise ConfigError(
                "DirichletMultinomial: n_categories must be a whole number above 0, or None for "
                f"an open vocabulary; got {number!r}"
            )
        object.__setattr__(self, "n_categories", int(number))

    @property
    def n_features(self) -> int | None:
        """Number of categories, None for an open vocabulary."""
        return self.n_categories

    def explains(self, x: FloatArray) -> IntArray:
        return np.flatnonzero(x > 0.0)

    def _in_support(self, X: FloatArray) -> Any:
        return (X >= 0.0) & (X <= 2.0**53) & (np.floor(X) == X)

    def _prior(self, n_features: int) -> FloatArray:
        if self.n_categories is not None:
            return np.array([self.concentration, self.concentration * self.n_categories])
        if n_features > NOMINAL_VOCABULARY:
            raise SchemaError(
                f"DirichletMultinomial: an open vocabulary has room for {NOMINAL_VOCABULARY} "
                f"columns, the data have {n_features}; hash the words into fewer columns"
            )
        return np.array([self.concentration / NOMINAL_VOCABULARY, self.concentration])

    def sample(
        self, rng: Generator, stats: ArrayLike, size: int | None = None, *, n_tokens: int = 1
    ) -> FloatArray:
        """Draw category probabilities given ``stats`` (P,), then counts (D,) or rows (size, D).

        Each row has ``n_tokens`` tokens; the family does not model their number. With an open
        vocabulary, all words are among the columns.
        """
        D, _, post = self._posteriors(stats)
        if D == 0:
            raise SchemaError(
                "cannot draw rows without columns; give stats with at least one category"
            )
        # log Gamma(c) draws as log Gamma(c + 1) + log U / c: masses may be far below 1e-3
        mass = post[0, 2 : 2 + D]
        logs = np.log(rng.gamma(mass + 1.0)) + np.log1p(-rng.random(D)) / mass
        theta = np.exp(logs - logs.max())
        return rng.multinomial(n_tokens, theta / theta.sum(), size=size).astype(np.float64)

    def point_estimates(self, stats: ArrayLike) -> dict[str, FloatArray]:
        D, _, post = self._posteriors(stats)
        return {"probability": post[:, 2 : 2 + D] / post[:, 1:2]}

    def _quantiles(self, stats: ArrayLike, p: FloatArray) -> dict[str, FloatArray]:
        D, _, post = self._posteriors(stats)
        mass = post[:, 2 : 2 + D, None]
        return {"probability": scipy.special.betaincinv(mass, post[:, 1, None, None] - mass, p)}


@family("beta_bernoulli")
@dataclass(frozen=True)
class BetaBernoulli(Likelihood):
    """Independent binary features with a Beta prior.

    For each feature, p(x = 1) ~ Beta(a, b). Missing values are integrated out. O(D) time and memory
    per row and table. Point estimates: ``probability``, the posterior mean of p(x = 1).

    Parameters
    ----------
    a, b : float or sequence of float, length D, default 0.5
    share : float or sequence of float, default 1
        Weight of a column, including its prior: below 1 for redundant columns.

    Examples
    --------
    >>> family = BetaBernoulli(1.0, 1.0)
    >>> stats = family.suffstats([[1.0], [1.0], [0.0]]).sum(axis=0)
    >>> float(np.exp(family.log_predictive([1.0], stats)[0]))  # (2 + 1) / (3 + 2)
    0.6
    """

    a: Any = 0.5
    b: Any = 0.5
    share: Any = 1.0

    family: ClassVar[int] = families.BETA_BERNOULLI
    _columns: ClassVar[tuple[str, ...]] = ("a", "b", "share")
    _support: ClassVar[str] = "0 or 1"

    def _in_support(self, X: FloatArray) -> Any:
        return (X == 0.0) | (X == 1.0)

    def sample(self, rng: Generator, stats: ArrayLike, size: int | None = None) -> FloatArray:
        D, hyper, _ = self._posteriors(stats)
        ones, zeros = np.maximum(np.asarray(stats, dtype=np.float64)[1:].reshape(2, D), 0.0)
        p = rng.beta(hyper[1 : 1 + D] + ones, hyper[1 + D : 1 + 2 * D] + zeros)
        uniforms = rng.random((D,) if size is None else (size, D))
        return np.asarray(uniforms < p, dtype=np.float64)

    def point_estimates(self, stats: ArrayLike) -> dict[str, FloatArray]:
        D, _, post = self._posteriors(stats)
        return {"probability": np.exp(post[:, 1:].reshape(-1, D, 4)[:, :, 0])}

    def _quantiles(self, stats: ArrayLike, p: FloatArray) -> dict[str, FloatArray]:
        D, hyper, _ = self._posteriors(stats)
        counts = np.maximum(np.atleast_2d(np.asarray(stats, np.float64))[:, 1:, None], 0.0)
        prior = hyper[1 : 1 + 2 * D, None]
        return {
            "probability": scipy.special.betaincinv(
                prior[:D] + counts[:, :D], prior[D:] + counts[:, D:], p
            )
        }
