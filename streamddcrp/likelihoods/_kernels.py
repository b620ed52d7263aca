"""Compiled conjugate families behind one dispatcher that selects by an integer code.

A method's kernel calls `add_stats`, `posterior`, `log_predictive` and `expected_log_lik` and never
names a family. Each family is a set of functions with the same arguments, in a file beside this.

``hyper`` holds the prior, ``hyper[0]`` always the length of a row. A method may move the prior in
place (empirical Bayes), but not the centre, to which the statistics refer, nor the scatter of
NORMAL_WISHART, whose determinant and pivots are stored with it. ``stats[0]`` is always the number
of rows. Layouts, each block of length D unless said otherwise; [i, j] stands for a lower triangle
packed by rows:

======================  ===========================================  =============================
family                  hyper                                        stats
======================  ===========================================  =============================
NORMAL_WISHART          D, kappa, dof, log|scatter|, center, mean,   n, sum y, sum y y' [i, j]
                        pivots, scatter [i, j]
NORMAL_GAMMA            D, center, mean, kappa, shape, rate          n, count, sum y, sum y^2
DIRICHLET_MULTINOMIAL   D, mass of a category, total mass            n, count
GAMMA_POISSON           D, shape, rate                               n, -sum log x!, count, sum x
BETA_BERNOULLI          D, a, b                                      n, ones, zeros
REGRESSION              D P, D, P; for each of D outputs: mean (P),  n; for each output: sum v v'
                        kappa (P), shape, rate                       [i, j], v = (1, block)
======================  ===========================================  =============================

with y = x - center. A row of REGRESSION is a block (regressors (P - 1), output) for each output.
``post[0]`` is the log marginal likelihood; the rest of ``post`` is private to this package.
Statistics that rounding left outside their domain (a tiny negative count, a scatter that is not
positive definite) are clipped to its border; nothing here raises or returns NaN.
"""

from numba import njit

from streamddcrp.likelihoods._kernels_counts import (
    bb_add,
    bb_expected,
    bb_natural,
    bb_posterior,
    bb_predictive,
    dm_add,
    dm_expected,
    dm_natural,
    dm_posterior,
    dm_predictive,
    gp_add,
    gp_expected,
    gp_natural,
    gp_posterior,
    gp_predictive,
)
from streamddcrp.likelihoods._kernels_gaussian import (
    ng_add,
    ng_expected,
    ng_natural,
    ng_posterior,
    ng_predictive,
    nw_add,
    nw_expected,
    nw_natural,
    nw_posterior,
    nw_predictive,
)
from streamddcrp.likelihoods._kernels_regression import (
    lr_add,
    lr_expected,
    lr_natural,
    lr_posterior,
    lr_predictive,
    packed_length,
)
from streamddcrp.likelihoods._kernels_special import Array, log_rising

__all__ = [
    "BETA_BERNOULLI",
    "DIRICHLET_MULTINOMIAL",
    "GAMMA_POISSON",
    "NORMAL_GAMMA",
    "NORMAL_WISHART",
    "REGRESSION",
    "add_stats",
    "expected_log_lik",
    "expected_log_liks",
    "log_predictive",
    "log_predictives",
    "log_rising",
    "n_post",
    "n_stats",
    "natural_parameters",
    "posterior",
    "posteriors",
    "stats_of_rows",
    "table_scores",
]

NORMAL_WISHART = 0
NORMAL_GAMMA = 1
DIRICHLET_MULTINOMIAL = 2
GAMMA_POISSON = 3
BETA_BERNOULLI = 4
REGRESSION = 5


@njit(cache=True)
def n_stats(family: int, hyper: Array) -> int:
    """Length P of the sufficient statistics. All but REGRESSION need only ``hyper[0]``."""
    D = int(hyper[0])
    if family == NORMAL_WISHART:
        return 1 + D + packed_length(D)
    if family == NORMAL_GAMMA:
        return 1 + 3 * D
    if family == DIRICHLET_MULTINOMIAL:
        return 1 + D
    if family == GAMMA_POISSON:
        return 2 + 2 * D
    if family == BETA_BERNOULLI:
        return 1 + 2 * D
    outputs, P = int(hyper[1]), int(hyper[2])
    return 1 + outputs * packed_length(P + 1)


@njit(cache=True)
def n_post(family: int, hyper: Array) -> int:
    """Length Q of the cached posterior."""
    D = int(hyper[0])
    if family == NORMAL_WISHART:
        return 6 + D + packed_length(D)
    if family == NORMAL_GAMMA:
        return 1 + 8 * D
    if family == DIRICHLET_MULTINOMIAL:
        return 2 + 2 * D
    if family == GAMMA_POISSON:
        return 1 + 5 * D
    if family == BETA_BERNOULLI:
        return 1 + 4 * D
    outputs, P = int(hyper[1]), int(hyper[2])
    return 1 + outputs * (P + packed_length(P) + 5)


@njit(cache=True)
def add_stats(family: int, hyper: Array, x: Array, weight: float, stats: Array) -> None:
    """Add ``weight`` times the statistics of row ``x`` (D,) to ``stats`` (P,), in place."""
    stats[0] += weight
    if family == NORMAL_GAMMA:
        ng_add(hyper, x, weight, stats)
    elif family == NORMAL_WISHART:
        nw_add(hyper, x, weight, stats)
    elif family == REGRESSION:
        lr_add(hyper, x, weight, stats)
    elif family == DIRICHLET_MULTINOMIAL:
        dm_add(hyper, x, weight, stats)
    elif family == GAMMA_POISSON:
        gp_add(hyper, x, weight, stats)
    else:
        bb_add(hyper, x, weight, stats)


@njit(cache=True)
def posterior(family: int, hyper: Array, stats: Array, post: Array) -> None:
    """Fill ``post`` (Q,) from ``stats`` (P,); ``post[0]`` is the log marginal likelihood."""
    if family == NORMAL_GAMMA:
        ng_posterior(hyper, stats, post)
    elif family == NORMAL_WISHART:
        nw_posterior(hyper, stats, post)
    elif family == REGRESSION:
        lr_posterior(hyper, stats, post)
    elif family == DIRICHLET_MULTINOMIAL:
        dm_posterior(hyper, stats, post)
    elif family == GAMMA_POISSON:
        gp_posterior(hyper, stats, post)
    else:
        bb_posterior(hyper, stats, post)


@njit(cache=True)
def log_predictive(family: int, hyper: Array, post: Array, x: Array) -> float:
    """Log density of row ``x`` (D,) with the parameter integrated out."""
    if family == NORMAL_GAMMA:
        return ng_predictive(hyper, post, x)
    if family == NORMAL_WISHART:
        return nw_predictive(hyper, post, x)
    if family == REGRESSION:
        return lr_predictive(hyper, post, x)
    if family == DIRICHLET_MULTINOMIAL:
        return dm_predictive(hyper, post, x)
    if family == GAMMA_POISSON:
        return gp_predictive(hyper, post, x)
    return bb_predictive(hyper, post, x)


@njit(cache=True)
def expected_log_lik(family: int, hyper: Array, post: Array, x: Array) -> float:
    """Posterior expectation of the log density of row ``x`` (D,)."""
    if family == NORMAL_GAMMA:
        return ng_expected(hyper, post, x)
    if family == NORMAL_WISHART:
        return nw_expected(hyper, post, x)
    if family == REGRESSION:
        return lr_expected(hyper, post, x)
    if family == DIRICHLET_MULTINOMIAL:
        return dm_expected(hyper, post, x)
    if family == GAMMA_POISSON:
        return gp_expected(hyper, post, x)
    return bb_expected(hyper, post, x)


@njit(cache=True)
def natural_parameters(family: int, hyper: Array, post: Array, out: Array) -> None:
    """Fill ``out`` (P,): its dot product with statistics is their expected log likelihood.

    The terms cancel where a table lies many standard deviations from the centre; for a single row
    `expected_log_lik` has no such loss.
    """
    out[0] = 0.0
    if family == NORMAL_GAMMA:
        ng_natural(hyper, post, out)
    elif family == NORMAL_WISHART:
        nw_natural(hyper, post, out)
    elif family == REGRESSION:
        lr_natural(hyper, post, out)
    elif family == DIRICHLET_MULTINOMIAL:
        dm_natural(hyper, post, out)
    elif family == GAMMA_POISSON:
        gp_natural(hyper, post, out)
    else:
        bb_natural(hyper, post, out)


# --- All tables in one call: a third of the cost of one call for each table -----------------------


@njit(cache=True)
def stats_of_rows(family: int, hyper: Array, X: Array, out: Array) -> None:
    """Write the statistics of each row of ``X`` (N, D) into ``out`` (N, P)."""
    out[:] = 0.0
    for i in range(X.shape[0]):
        add_stats(family, hyper, X[i], 1.0, out[i])


@njit(cache=True)
def posteriors(family: int, hyper: Array, stats: Array, n_tables: int, post: Array) -> None:
    """Do `posterior` for the first tables; ``stats`` (K, P), ``post`` (K, Q)."""
    for k in range(n_tables):
        posterior(family, hyper, stats[k], post[k])


@njit(cache=True)
def log_predictives(
    family: int, hyper: Array, post: Array, x: Array, n_tables: int, out: Array
) -> None:
    """Do `log_predictive` for the first tables; ``post`` (K, Q), ``out`` (K,)."""
    if family == NORMAL_GAMMA:
        for k in range(n_tables):
            out[k] = ng_predictive(hyper, post[k], x)
    elif family == NORMAL_WISHART:
        for k in range(n_tables):
            out[k] = nw_predictive(hyper, post[k], x)
    elif family == REGRESSION:
        for k in range(n_tables):
            out[k] = lr_predictive(hyper, post[k], x)
    elif family == DIRICHLET_MULTINOMIAL:
        for k in range(n_tables):
            out[k] = dm_predictive(hyper, post[k], x)
    elif family == GAMMA_POISSON:
        for k in range(n_tables):
            out[k] = gp_predictive(hyper, post[k], x)
    else:
        for k in range(n_tables):
            out[k] = bb_predictive(hyper, post[k], x)


@njit(cache=True)
def expected_log_liks(
    family: int, hyper: Array, post: Array, x: Array, n_tables: int, out: Array
) -> None:
    """Do `expected_log_lik` for the first tables; ``post`` (K, Q), ``out`` (K,)."""
    if family == NORMAL_GAMMA:
        for k in range(n_tables):
            out[k] = ng_expected(hyper, post[k], x)
    elif family == NORMAL_WISHART:
        for k in range(n_tables):
            out[k] = nw_expected(hyper, post[k], x)
    elif family == REGRESSION:
        for k in range(n_tables):
            out[k] = lr_expected(hyper, post[k], x)
    elif family == DIRICHLET_MULTINOMIAL:
        for k in range(n_tables):
            out[k] = dm_expected(hyper, post[k], x)
    elif family == GAMMA_POISSON:
        for k in range(n_tables):
            out[k] = gp_expected(hyper, post[k], x)
    else:
        for k in range(n_tables):
            out[k] = bb_expected(hyper, post[k], x)


@njit(cache=True)
def table_scores(
    family: int, hyper: Array, x: Array, stats: Array, expected: bool, post: Array, out: Array
) -> None:
    """Score ``x`` at each row of ``stats`` by `expected_log_lik`, else by `log_predictive`.

    For callers that keep no posteriors: ``post`` (Q,) is work space, ``out`` (K,).
    """
    for k in range(stats.shape[0]):
        posterior(family, hyper, stats[k], post)
        if expected:
            out[k] = expected_log_lik(family, hyper, post, x)
        else:
            out[k] = log_predictive(family, hyper, post, x)
