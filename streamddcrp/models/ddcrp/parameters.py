"""A Markov chain over links and the parameters of tables, for comparison with the collapsed one.

Where a table's parameter is integrated out, a customer compares tables by their predictive density;
here by the density at each table's present parameter. That is the sampler of most papers and the
one that a model without conjugate priors needs; it mixes more slowly, the more so the more
customers hang on a link: their new table has a parameter that was drawn without seeing them, except
in the partial variant.
"""

import numpy as np
from numpy.random import Generator

from streamddcrp.errors import ConfigError
from streamddcrp.models.ddcrp.candidates import Candidates
from streamddcrp.models.ddcrp.chain import Chain, Int32Array
from streamddcrp.models.ddcrp.kernels.parameters import (
    AUXILIARY,
    PARTIAL,
    PER_CUSTOMER,
    draw_with_parameters,
)
from streamddcrp.typing import FloatArray, IntArray

_COLLAPSED = "collapsed"
_VARIANTS = {"per-customer": PER_CUSTOMER, "auxiliary": AUXILIARY, "partial": PARTIAL}


class ParameterChain(Chain):
    """Links of N customers and parameters of their tables; starts with everybody self-linked.

    Its links have the same stationary distribution as those of `Chain`, whose methods it has.

    Parameters
    ----------
    X : ndarray of float64, shape (N, D)
        Rows as the kernels read them (`Likelihood.prepare`); not copied.
    family : int
        Code of the likelihood.
    hyper : ndarray of float64
        Its prior (`Likelihood.hyper`).
    candidates : Candidates
    parameters : {"per-customer", "auxiliary", "partial"}
        Where the parameter of a new table comes from. ``"per-customer"``: every customer holds one,
        eq. 4 of Bartunov and Vetrov (2014); sequential links only. ``"auxiliary"``: some are drawn
        from the prior for the occasion (Neal 2000, algorithm 8). ``"partial"``: it is integrated
        out in the choice, then drawn.
    n_auxiliary : int, default 3
        How many are drawn for the occasion.

    Examples
    --------
    >>> import numpy as np
    >>> from streamddcrp import Distances
    >>> from streamddcrp.likelihoods import NormalGamma
    >>> X = np.array([[0.3], [-0.2], [4.1], [0.1], [3.8], [4.4]])
    >>> family = NormalGamma(0.0, 0.1, 1.5, 1.0)
    >>> candidates = Distances.by_index(6).candidates("none", alpha=0.5)
    >>> chain = ParameterChain(X, family.family, family.hyper(1), candidates, "partial")
    >>> chain.sweep(np.random.default_rng(2), 50)
    >>> chain.labels
    array([0, 0, 2, 0, 2, 2])
    """

    def __init__(
        self,
        X: FloatArray,
        family: int,
        hyper: FloatArray,
        candidates: Candidates,
        parameters: str,
        n_auxiliary: int = 3,
    ) -> None:
        if parameters not in _VARIANTS:
            known = ", ".join(map(repr, (_COLLAPSED, *_VARIANTS)))
            message = f"parameters must be one of {known}, got {parameters!r}"
            raise ConfigError(message)
        if parameters == "per-customer" and not candidates.sequential:
            message = (
                "parameters='per-customer' needs links to earlier customers only: elsewhere a "
                "table has nobody who opened it; use 'auxiliary' or 'partial'"
            )
            raise ConfigError(message)
        if isinstance(n_auxiliary, bool) or n_auxiliary < 1:
            message = f"n_auxiliary must be a whole number >= 1, got {n_auxiliary!r}"
            raise ConfigError(message)
        super().__init__(X, family, hyper, candidates)
        self._variant = _VARIANTS[parameters]
        p = self._stats.shape[1]
        self._eta, self._holder = np.zeros((len(X), p)), np.arange(len(X))
        self._aux = np.empty((n_auxiliary, p))
        self._score = np.empty(len(X) + n_auxiliary)

    @property
    def parameters(self) -> FloatArray:
        """Parameter of each customer's table as the vector eta, shape (N, P).

        log p(rows | theta) is eta times the sum of the rows' sufficient statistics.
        """
        return np.asarray(self._eta[self._holder[self._slot]])

    def _run(
        self,
        rng: Generator,
        n_draws: int,
        thin: int,
        in_order: bool,
        *out: Int32Array | IntArray | FloatArray,
    ) -> None:
        stack, stamp, mass, touched, _, _, moved, work = self._work
        draw_with_parameters(
            n_draws, thin, in_order, self._variant, rng, not self._candidates.sequential,
            *self._choice, self._log_row, *self._rows, self._links, self._kids, self._slot,
            self._stats, self._marginal, self._free, stack, stamp, mass, touched, self._score,
            moved, work, self._post, self._order, self._age, self._eta, self._holder, self._aux,
            *out,
        )  # fmt: skip


def make_chain(
    X: FloatArray, family: int, hyper: FloatArray, candidates: Candidates, parameters: str
) -> Chain:
    """Return a `Chain` if ``parameters`` are "collapsed", else a `ParameterChain`."""
    if parameters == _COLLAPSED:
        return Chain(X, family, hyper, candidates)
    return ParameterChain(X, family, hyper, candidates, parameters)
