"""Predictive density of held-out rows, given samples of a partition or a variational posterior.

Test rows come after the training rows and link to them, and to test rows before them. Given the
partition of the training rows, test row m sits at table k with probability rho_mk: with the link
probabilities of test rows split into A_tt (to test rows) and A_tr (to tables),

    rho = (I - A_tt)^-1 A_tr.

================  ==================================================================================
kind              log density of row m
================  ==================================================================================
``"marginal"``    log E_z sum_k rho_mk p(x_m | theta_k): test rows do not see each other
``"alone"``       the same, as though m were the first row after the training rows
``"joint"``       log p(x_m | x, test rows before m); the sum over m is the log of the joint density
                  E_z sum_c p(c) prod_m p(x_m | theta_c(m)), eq. 7 of Bartunov and Vetrov (2014)
================  ==================================================================================

Densities, not their logs, are averaged over samples. A variational posterior has one "sample", with
the expected shares of tables: sum_j A_mj q(z_j = k). For the first two kinds that is its predictive
density, exactly; for the joint density the tables of different training rows are taken to be
independent.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from research.kernels import held_out as kernels
from streamddcrp.arguments import checked, generator
from streamddcrp.data import as_observations
from streamddcrp.decay import Decay, make_decay
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.likelihoods import Likelihood, make_likelihood
from streamddcrp.likelihoods.kernels.families import n_post
from streamddcrp.models.ddcrp.candidates import checked_alpha
from streamddcrp.models.ddcrp.distances import Distances
from streamddcrp.partitions.samples import as_samples, as_weights
from streamddcrp.typing import ArrayLike, FloatArray, IntArray
from streamddcrp.validation import choice, whole

_KINDS = ("marginal", "alone", "joint")
_SEQUENCES = 4096  # with at most so many ways to seat all test rows, the joint density is summed
_LIGHT = 1e-15  # links lighter than this share of their row are left out


@checked
def held_out_log_likelihood(
    posterior: Any,
    X: ArrayLike,
    X_test: ArrayLike,
    likelihood: Likelihood | tuple[Any, ...] | str,
    *,
    alpha: float,
    decay: object,
    distances: Distances | None = None,
    t: ArrayLike | None = None,
    kind: str = "marginal",
    restricted: bool = True,
    plug_in: bool = False,
    weights: ArrayLike | None = None,
    n_draws: int = 32,
    seed: int | None = 0,
) -> FloatArray:
    """Return the log predictive density of each held-out row.

    Parameters
    ----------
    posterior : array_like of int, shape (S, N), DDCRPSamples or SeqDDCRPFit
        Sampled labels of the training rows, or the variational posterior.
    X : array_like of float, shape (N, D)
        Training rows. A masked array marks missing values, here and below.
    X_test : array_like of float, shape (M, D)
    likelihood : Likelihood, tuple or str
        The one of the fit. What it lacks is taken from ``X``.
    alpha, decay
        Of the links of the test rows; the training rows' own do not matter any more.
    distances : Distances, optional
        Of the training rows and then the test rows, N + M customers. A test row may link to rows
        before it only, whatever their distances. Default: differences of arrival indices.
    t : array_like, shape (N + M,), optional
        Instead: times of training rows and test rows, not falling.
    kind : {"marginal", "alone", "joint"}, default "marginal"
        What a row's density is given; see the module. The mean of ``"marginal"`` is the score per
        point, the sum of ``"joint"`` the log density of all test rows. For ``"alone"`` without
        distances or times each test row is customer N.
    restricted : bool, default True
        Whether test rows may only join tables: alpha counts as 0 for them.
    plug_in : bool, default False
        Take the posterior mean of a table's parameter instead of integrating it out. Tables that
        test rows open are integrated in any case.
    weights : array_like of float, shape (S,), optional
        Weights of the samples, up to a factor. Default: equal.
    n_draws : int, default 32
        For ``"joint"``: draws for each sample, where there are more than 4096 ways to seat the test
        rows. The estimate of the density is unbiased; draws are exact where test rows link to
        training rows only and parameters are plugged in.
    seed : int, optional
        For these draws.

    Returns
    -------
    ndarray of float64, shape (M,)

    Raises
    ------
    ConfigError
        An option is out of range.
    SchemaError
        Data and posterior do not fit each other, or a restricted row has no one to link to.

    Notes
    -----
    O(M (N + M)) for the links and O(S (N P + M K (P + M))) for the densities, K the tables in reach
    of test rows; ``"joint"`` O(S n_draws M (M + K + P)). Memory: links of test rows heavier than
    1e-15 of their row.

    Examples
    --------
    >>> from streamddcrp.likelihoods import NormalGamma
    >>> X, family = [[0.1], [4.2], [-0.2]], NormalGamma(0.0, 0.1, 2.0, 1.0)
    >>> held_out_log_likelihood(
    ...     [[0, 1, 0], [0, 1, 1]], X, [[0.0], [4.0]], family, alpha=0.5, decay="none"
    ... )
    array([-1.2318, -2.4275])
    """
    choice("kind", kind, _KINDS)
    n_draws = whole("n_draws", n_draws, 1)
    data = _Data(X, X_test, likelihood)
    alpha = checked_alpha(alpha)
    alone = kind == "alone"
    where = _distances(distances, t, data.n, data.m, alone=alone)
    own = 0.0 if restricted else alpha
    links = _TestLinks(data, where, make_decay(decay), own, alone=alone)
    if hasattr(posterior, "table_probs"):  # a SeqDDCRPFit
        if weights is not None:
            raise ConfigError("weights are of samples; a variational posterior has none")
        samples: Any = _Soft(posterior, data, links)
    else:
        samples = _Hard(getattr(posterior, "labels", posterior), weights, data, links)
    rng = generator(seed)
    out = np.full(data.m, -np.inf)
    log_density = np.empty(data.m)
    for s, weight in enumerate(samples.weights):
        if weight > 0.0:
            n_tables = samples.seat(s)
            _score(data, links, samples, n_tables, kind, plug_in, n_draws, rng, log_density)
            np.logaddexp(out, np.log(weight) + log_density, out=out)
    return np.diff(out, prepend=0.0) if kind == "joint" else out


def _score(
    data: "_Data", links: "_TestLinks", samples: Any, n_tables: int, kind: str, plug_in: bool,
    n_draws: int, rng: np.random.Generator, out: FloatArray,
) -> None:  # fmt: skip
    """Write the log density of test rows under one sample to ``out`` (M,)."""
    rows = data.family, data.hyper, data.test
    stats, mass = samples.stats, samples.mass
    log_lik = np.empty((data.m, n_tables + 1))
    kernels.table_densities(
        *rows, stats, n_tables, plug_in, np.empty((n_tables + 1, data.n_post)),
        np.empty((n_tables, stats.shape[1])), np.empty(stats.shape[1]), log_lik,
    )  # fmt: skip
    if kind == "joint":
        common = *rows, *links.arrays, data.n, mass, stats, n_tables, log_lik, plug_in
        opened = data.m if links.opens.any() else 0
        if data.m * np.log(n_tables + opened) <= np.log(_SEQUENCES):
            kernels.joint_exact(*common, out)
        else:
            kernels.joint_by_draws(*common, n_draws, rng, out)
        return
    kernels.pass_on(*links.arrays, data.n, n_tables, mass)
    kernels.mix(mass, log_lik, n_tables, out)


class _Data:
    """Training and test rows as the kernels read them."""

    def __init__(self, X: ArrayLike, X_test: ArrayLike, likelihood: Any) -> None:
        train, test = as_observations(X), as_observations(X_test)
        if train.shape[1] != test.shape[1]:
            raise SchemaError(
                f"X_test must have as many columns as X; got shapes {test.shape} and {train.shape}"
            )
        family = make_likelihood(likelihood)
        for rows in train, test:
            family.check_rows(rows)
        family = family.scaled(train)
        n_features = train.shape[1]
        self.family, self.hyper = family.family, family.hyper(n_features)
        train, past = family.prepare(train)
        self.train = np.ascontiguousarray(train)
        self.test = np.ascontiguousarray(family.prepare(test, past)[0])
        self.n, self.m = len(train), len(test)
        self.n_stats = family.n_stats(n_features)
        self.n_post = int(n_post(self.family, self.hyper))


def _distances(
    distances: Distances | None, t: ArrayLike | None, n: int, m: int, *, alone: bool
) -> Distances | None:
    """Return the distances of all rows, None where every test row is customer N."""
    if distances is not None and t is not None:
        raise ConfigError("give distances or t, not both")
    if t is not None:
        distances = Distances.by_time(t)
    if distances is None:
        return None if alone else Distances.by_index(n + m)
    if distances.n != n + m:
        raise SchemaError(
            f"distances must be of the {n} training rows and then the {m} test rows, {n + m} "
            f"customers; got {distances.n}"
        )
    return distances


class _TestLinks:
    """Link probabilities of test rows, sparse by rows, and of opening a table."""

    def __init__(
        self, data: _Data, distances: Distances | None, decay: Decay, alpha: float, *, alone: bool
    ) -> None:
        log_alpha = np.log(alpha) if alpha > 0.0 else -np.inf
        self.opens = np.zeros(data.m)
        to, share = [], []
        for m in range(data.m):
            i = data.n + m
            j = np.arange(data.n if alone else i)
            gap = data.n - j if distances is None else distances.between(np.full(len(j), i), j)
            log_weight = decay.log_weight(gap)
            top = max(float(log_weight.max()), log_alpha)
            if top == -np.inf:
                raise SchemaError(
                    f"test row {m}: no earlier row to link to at these distances under {decay!r}; "
                    "let it open a table (restricted=False), or choose a wider decay",
                    row=m,
                )
            weight = np.exp(log_weight - top)
            kept = weight > _LIGHT
            self.opens[m] = np.exp(log_alpha - top)
            total = weight[kept].sum() + self.opens[m]
            self.opens[m] /= total
            to.append(j[kept])
            share.append(weight[kept] / total)
        self.to, self.share = np.concatenate(to), np.concatenate(share)
        self.ptr = np.concatenate([[0], np.cumsum([len(row) for row in to])])
        self.to_train = self.to < data.n

    @property
    def arrays(self) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
        return self.ptr, self.to, self.share, self.opens


class _Hard:
    """Sampled partitions, seated one by one."""

    def __init__(
        self, labels: Any, weights: ArrayLike | None, data: _Data, links: _TestLinks
    ) -> None:
        self._tables, n_tables = as_samples(labels)
        if self._tables.shape[1] != data.n:
            raise SchemaError(
                f"labels are of {self._tables.shape[1]} customers, X has {data.n} rows"
            )
        self.weights = as_weights(weights, len(self._tables))
        self._data, self._links = data, links
        self._reached = np.zeros(data.n, np.bool_)
        self._reached[links.to[links.to_train]] = True
        self._slot = np.empty(data.n, np.int64)
        most = int(n_tables.max())
        self.stats = np.empty((most, data.n_stats))
        self.mass = np.empty((data.m, most + 1))

    def seat(self, s: int) -> int:
        data, links = self._data, self._links
        return int(
            kernels.seat(
                data.family, data.hyper, data.train, self._tables[s], self._reached, links.ptr,
                links.to, links.share, self._slot, self.stats, self.mass,
            )
        )  # fmt: skip


class _Soft:
    """A variational posterior, whose shares of tables are expectations."""

    weights = np.ones(1)

    def __init__(self, fit: Any, data: _Data, links: _TestLinks) -> None:
        n, K = fit.table_probs.shape
        if n != data.n or fit.stats.shape != (K, data.n_stats):
            raise SchemaError(
                f"the fit is of {n} customers with statistics {fit.stats.shape}; X has {data.n} "
                f"rows, and this likelihood {data.n_stats} statistics per table"
            )
        row = np.repeat(np.arange(data.m), np.diff(links.ptr))[links.to_train]
        shape = (data.m, n)
        entries = links.share[links.to_train], (row, links.to[links.to_train])
        self.stats = np.ascontiguousarray(fit.stats)
        self.mass = np.zeros((data.m, K + 1))
        self.mass[:, :K] = (sp.csr_array(entries, shape=shape) @ fit.table_probs).toarray()

    def seat(self, s: int) -> int:
        return len(self.stats)
