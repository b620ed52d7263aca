"""Gibbs sampling of links with the parameters of tables carried along: for comparison."""

import numpy as np
from numpy.random import Generator

from research.kernels.parameters import AUXILIARY, PARTIAL, PER_CUSTOMER, draw_with_parameters
from streamddcrp.errors import ConfigError
from streamddcrp.models.ddcrp.candidates import Candidates
from streamddcrp.models.ddcrp.chain import Chain, Int32Array
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp.validation import whole

_VARIANTS = {"per-customer": PER_CUSTOMER, "auxiliary": AUXILIARY, "partial": PARTIAL}


class ParameterChain(Chain):
    """Links of N customers and parameters of their tables; at first all are self-linked.

    For comparison with `Chain`, whose methods it has and whose stationary distribution of links.
    Where a table's parameter is integrated out, a customer compares tables by their predictive
    density; here by the density at each table's present parameter. That is the sampler of most
    papers and the one that a model without conjugate priors needs; it mixes more slowly, the more
    so the more customers are below a link: their new table has a parameter that was drawn without
    seeing them, except in the partial variant.

    ``parameters`` says where the parameter of a new table comes from. "per-customer": every
    customer holds one, eq. 4 of Bartunov and Vetrov (2014); sequential links only. "auxiliary":
    ``n_auxiliary`` are drawn from the prior for the occasion (Neal 2000, algorithm 8). "partial":
    it is integrated out in the choice, then drawn.
    """

    def __init__(
        self, X: FloatArray, family: int, hyper: FloatArray, candidates: Candidates,
        parameters: str, n_auxiliary: int = 3,
    ) -> None:  # fmt: skip
        if parameters not in _VARIANTS:
            known = ", ".join(map(repr, _VARIANTS))
            raise ConfigError(f"parameters must be one of {known}, got {parameters!r}")
        if parameters == "per-customer" and not candidates.sequential:
            raise ConfigError(
                "parameters='per-customer' needs links to earlier customers only: elsewhere no "
                "customer opened the table; use 'auxiliary' or 'partial'"
            )
        n_auxiliary = whole("n_auxiliary", n_auxiliary, 1)
        super().__init__(X, family, hyper, candidates)
        n, p = len(X), self._state.stats.shape[1]
        self._state = self._state._replace(score=np.empty(n + n_auxiliary))
        self._variant = _VARIANTS[parameters]
        self._eta, self._holder = np.zeros((n, p)), np.arange(n)
        self._aux = np.empty((n_auxiliary, p))

    @property
    def parameters(self) -> FloatArray:
        """Parameter of each customer's table as the vector eta, shape (N, P).

        log p(rows | theta) is eta times the sum of the rows' sufficient statistics.
        """
        return np.asarray(self._eta[self._holder[self._state.slot]])

    def _run(
        self, rng: Generator, n_draws: int, thin: int, forward: bool,
        *out: Int32Array | IntArray | FloatArray,
    ) -> None:  # fmt: skip
        draw_with_parameters(
            n_draws, thin, forward, self._variant, rng, self._state, self._eta, self._holder,
            self._aux, *out,
        )  # fmt: skip
