"""Counts of categories, such as the words of a document."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.likelihoods.base import ConjugateFamily
from streamddcrp.likelihoods.kernels import families
from streamddcrp.likelihoods.parameters import scalar_parameter
from streamddcrp.likelihoods.registry import family
from streamddcrp.typing import FloatArray

NOMINAL_VOCABULARY = 2**20


@family("dirichlet_multinomial")
@dataclass(frozen=True)
class DirichletMultinomial(ConjugateFamily):
    """Counts of categories with a symmetric Dirichlet prior.

    A row holds how often each category occurs; its probability is that of the sequence of tokens,
    without multinomial coefficient. A missing value counts as 0. O(D) time and memory a row and
    table; columns without tokens cost one comparison.

    Parameters
    ----------
    concentration : float
        Prior mass of each category. With an open vocabulary: of all categories together.
    n_categories : int, optional
        Number of categories, which is the number of columns. None for an open vocabulary: the mass
        is spread evenly over 2**20 words, of which only those seen need a column. Columns may then
        be added at any time, and no number changes.

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
            message = (
                "DirichletMultinomial: n_categories must be a whole number above 0, or None for "
                f"an open vocabulary; got {number!r}"
            )
            raise ConfigError(message)
        object.__setattr__(self, "n_categories", int(number))

    @property
    def n_features(self) -> int | None:
        """Number of categories, None for an open vocabulary."""
        return self.n_categories

    def _prior(self, n_features: int) -> FloatArray:
        if self.n_categories is not None:
            return np.array([self.concentration, self.concentration * self.n_categories])
        if n_features > NOMINAL_VOCABULARY:
            message = (
                f"DirichletMultinomial: an open vocabulary has room for {NOMINAL_VOCABULARY} "
                f"columns, the data have {n_features}; hash the words into fewer columns"
            )
            raise SchemaError(message)
        return np.array([self.concentration / NOMINAL_VOCABULARY, self.concentration])

    def _in_support(self, X: FloatArray) -> Any:
        return (X >= 0.0) & (X <= 2.0**53) & (np.floor(X) == X)

    def sample(
        self, rng: Generator, stats: ArrayLike, size: int | None = None, *, n_tokens: int = 1
    ) -> FloatArray:
        """Draw category probabilities from the posterior, then rows of counts given them.

        Parameters
        ----------
        rng : numpy.random.Generator
        stats : array_like of float, shape (P,)
            With an open vocabulary, rows are drawn given that all words are among its columns.
        size : int, optional
            Number of rows; None for a single one.
        n_tokens : int
            Number of tokens in each row; the family does not model it.

        Returns
        -------
        ndarray of float64, shape (D,) or (size, D)
        """
        D, _, post = self._posteriors(stats)
        if D == 0:
            message = "cannot draw rows without columns; give stats with at least one category"
            raise SchemaError(message)
        # log Gamma(c) draws as log Gamma(c + 1) + log U / c: masses may be far below 1e-3
        mass = post[0, 2 : 2 + D]
        logs = np.log(rng.gamma(mass + 1.0)) + np.log1p(-rng.random(D)) / mass
        theta = np.exp(logs - logs.max())
        return rng.multinomial(n_tokens, theta / theta.sum(), size=size).astype(np.float64)

    def point_estimates(self, stats: ArrayLike) -> dict[str, FloatArray]:
        """Return the predictive probability of each category.

        Parameters
        ----------
        stats : array_like of float, shape (K, P)

        Returns
        -------
        dict of str to ndarray of float64, shape (K, D)
            ``probability``.
        """
        D, _, post = self._posteriors(stats)
        return {"probability": post[:, 2 : 2 + D] / post[:, 1:2]}
