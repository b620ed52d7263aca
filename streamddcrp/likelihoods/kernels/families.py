"""Compiled conjugate families, selected by an integer code.

A method's kernel calls `add_stats`, `posterior`, `log_predictive` and `expected_log_lik` and never
names a family. Each family is a set of functions with the same arguments in a neighbouring file.
They read and write from given positions on, so that families can be parts of a product. A code
without a branch raises in `n_stats` and `n_post`, and gives NaN everywhere else.

``hyper`` holds the prior; ``hyper[0]`` is always the row length. A method may change the prior in
place (empirical Bayes), except the centre, which the statistics refer to, and the scatter of
NORMAL_WISHART, whose determinant and pivots are stored with it. ``stats[0]`` is always the number
of rows. Layouts follow, in blocks of length D unless noted; [i, j] is a lower triangle packed by
rows:

======================  ===========================================  =============================
family                  hyper                                        stats
======================  ===========================================  =============================
NORMAL_WISHART          D, kappa, dof, log|scatter|, center, mean,   n, sum y, sum y y' [i, j]
                        pivots, scatter [i, j]
NORMAL_GAMMA            D, center, mean, kappa, shape, rate, h^2/12, n, count, sum y, sum (y^2 +
                        power, share                                 h^2/12), each times the power
DIRICHLET_MULTINOMIAL   D, mass of a category, total mass            n, count
GAMMA_POISSON           D, shape, rate, share                        n, -sum z log x!, count, sum x
BETA_BERNOULLI          D, a, b, share                               n, ones, zeros
REGRESSION              D P, D, P; for each of D outputs: mean (P),  n; for each output: sum v v'
                        kappa (P), shape, rate                       [i, j], v = (1, block)
PRODUCT                 D, number of parts, P - 1, Q - 1; for each   n; those of each part
                        part code, h, c, s, q; those of each part
======================  ===========================================  =============================

with y = x - center. A column of share z counts z times, including its prior. A row of REGRESSION is
a block (regressors (P - 1), output) for each output. PRODUCT concatenates the rows, statistics and
posteriors of its parts, which are not products themselves; h, c, s and q are the beginnings of a
part's prior, row, statistics and posterior.

``post[0]`` is the log marginal likelihood; the rest of ``post`` is private to this package.
Statistics that rounding moved out of their domain (a tiny negative count, a scatter that is not
positive definite) are clipped to its boundary; no family raises or returns NaN.
"""

import math

from streamddcrp.compilation import entry, inlined, uncounted
from streamddcrp.likelihoods.kernels import counts, gaussian, regression
from streamddcrp.likelihoods.kernels.special import Array
from streamddcrp.numerics import count_and_sum, padded

NORMAL_WISHART = 0
NORMAL_GAMMA = 1
DIRICHLET_MULTINOMIAL = 2
GAMMA_POISSON = 3
BETA_BERNOULLI = 4
REGRESSION = 5
PRODUCT = 6


@inlined
def part_of(family: int, hyper: Array, i: int) -> tuple[int, int, int, int, int]:
    """Code, h, c, s, q of part ``i``; a family that is not a product is its only part."""
    if family != PRODUCT:
        return family, 0, 0, 0, 0
    at = 4 + 5 * i
    return (
        int(hyper[at]), int(hyper[at + 1]), int(hyper[at + 2]), int(hyper[at + 3]),
        int(hyper[at + 4]),
    )  # fmt: skip


@inlined
def n_parts(family: int, hyper: Array) -> int:
    """Return the number of parts."""
    return int(hyper[1]) if family == PRODUCT else 1


@inlined
def unit_of(family: int, hyper: Array, d: int) -> tuple[int, int]:
    """Return the range of columns integrated together with ``d``: it, or its part."""
    start, stop = d, d + 1
    for i in range(n_parts(family, hyper)):
        code, h, c, _, _ = part_of(family, hyper, i)
        if c <= d < c + int(hyper[h]) and code not in (NORMAL_GAMMA, GAMMA_POISSON, BETA_BERNOULLI):
            start, stop = c, c + int(hyper[h])
    return start, stop


def n_stats(family: int, hyper: Array) -> int:  # called from Python only
    """Length P of the sufficient statistics. The first five need only ``hyper[0]``."""
    D = int(hyper[0])
    if family == NORMAL_WISHART:
        size = D + regression.packed_length(D)
    elif family == NORMAL_GAMMA:
        size = 3 * D
    elif family == DIRICHLET_MULTINOMIAL:
        size = D
    elif family == GAMMA_POISSON:
        size = 1 + 2 * D
    elif family == BETA_BERNOULLI:
        size = 2 * D
    elif family == REGRESSION:
        size = int(hyper[1]) * regression.packed_length(int(hyper[2]) + 1)
    elif family == PRODUCT:
        size = int(hyper[2])
    else:
        message = "n_stats: no branch for the code of this likelihood family"
        raise ValueError(message)
    return 1 + size


def n_post(family: int, hyper: Array) -> int:  # may be compiled, too
    """Length Q of the cached posterior."""
    D = int(hyper[0])
    if family == NORMAL_WISHART:
        size = 5 + D + regression.packed_length(D)
    elif family == NORMAL_GAMMA:
        size = 8 * D
    elif family == DIRICHLET_MULTINOMIAL:
        size = 1 + 2 * D
    elif family == GAMMA_POISSON:
        size = 5 * D
    elif family == BETA_BERNOULLI:
        size = 4 * D
    elif family == REGRESSION:
        size = int(hyper[1]) * (int(hyper[2]) + regression.packed_length(int(hyper[2])) + 5)
    elif family == PRODUCT:
        size = int(hyper[3])
    else:
        message = "n_post: no branch for the code of this likelihood family"
        raise ValueError(message)
    return 1 + size


# --- One part: the only places that choose a family's functions. They are inlined in the loops ---
# below, where the code is constant.


@inlined
def _add(
    code: int, hyper: Array, h: int, x: Array, c: int, weight: float, stats: Array, s: int
) -> None:
    if code == NORMAL_GAMMA:
        gaussian.ng_add(hyper, h, x, c, weight, stats, s)
    elif code == NORMAL_WISHART:
        gaussian.nw_add(hyper, h, x, c, weight, stats, s)
    elif code == REGRESSION:
        regression.lr_add(hyper, h, x, c, weight, stats, s)
    elif code == DIRICHLET_MULTINOMIAL:
        counts.dm_add(hyper, h, x, c, weight, stats, s)
    elif code == GAMMA_POISSON:
        counts.gp_add(hyper, h, x, c, weight, stats, s)
    elif code == BETA_BERNOULLI:
        counts.bb_add(hyper, h, x, c, weight, stats, s)
    else:
        stats[s] = math.nan


@inlined
def _posterior(code: int, hyper: Array, h: int, stats: Array, s: int, post: Array, q: int) -> None:
    if code == NORMAL_GAMMA:
        gaussian.ng_posterior(hyper, h, stats, s, post, q)
    elif code == NORMAL_WISHART:
        gaussian.nw_posterior(hyper, h, stats, s, post, q)
    elif code == REGRESSION:
        regression.lr_posterior(hyper, h, stats, s, post, q)
    elif code == DIRICHLET_MULTINOMIAL:
        counts.dm_posterior(hyper, h, stats, s, post, q)
    elif code == GAMMA_POISSON:
        counts.gp_posterior(hyper, h, stats, s, post, q)
    elif code == BETA_BERNOULLI:
        counts.bb_posterior(hyper, h, stats, s, post, q)
    else:
        post[q] = math.nan


@inlined
def predictive_of_part(
    code: int, hyper: Array, h: int, post: Array, q: int, x: Array, c: int
) -> float:  # fmt: skip
    """Log predictive density of the columns of one part."""
    if code == NORMAL_GAMMA:
        value = gaussian.ng_predictive(hyper, h, post, q, x, c)
    elif code == NORMAL_WISHART:
        value = gaussian.nw_predictive(hyper, h, post, q, x, c)
    elif code == REGRESSION:
        value = regression.lr_predictive(hyper, h, post, q, x, c)
    elif code == DIRICHLET_MULTINOMIAL:
        value = counts.dm_predictive(hyper, h, post, q, x, c)
    elif code == GAMMA_POISSON:
        value = counts.gp_predictive(hyper, h, post, q, x, c)
    elif code == BETA_BERNOULLI:
        value = counts.bb_predictive(hyper, h, post, q, x, c)
    else:
        value = math.nan
    return value


@inlined
def _expected(code: int, hyper: Array, h: int, post: Array, q: int, x: Array, c: int) -> float:
    if code == NORMAL_GAMMA:
        value = gaussian.ng_expected(hyper, h, post, q, x, c)
    elif code == NORMAL_WISHART:
        value = gaussian.nw_expected(hyper, h, post, q, x, c)
    elif code == REGRESSION:
        value = regression.lr_expected(hyper, h, post, q, x, c)
    elif code == DIRICHLET_MULTINOMIAL:
        value = counts.dm_expected(hyper, h, post, q, x, c)
    elif code == GAMMA_POISSON:
        value = counts.gp_expected(hyper, h, post, q, x, c)
    elif code == BETA_BERNOULLI:
        value = counts.bb_expected(hyper, h, post, q, x, c)
    else:
        value = math.nan
    return value


# --- One table ------------------------------------------------------------------------------------


@entry
def add_stats(family: int, hyper: Array, x: Array, weight: float, stats: Array) -> None:
    """Add ``weight`` times the statistics of row ``x`` (D,) to ``stats`` (P,), in place."""
    if family == PRODUCT:
        stats[0] += weight
    for i in range(n_parts(family, hyper)):
        code, h, c, s, _ = part_of(family, hyper, i)
        stats[s] += weight
        _add(code, hyper, h, x, c, weight, stats, s)


@entry
def posterior(family: int, hyper: Array, stats: Array, post: Array) -> None:
    """Fill ``post`` (Q,) from ``stats`` (P,); ``post[0]`` is the log marginal likelihood."""
    total = 0.0
    for i in range(n_parts(family, hyper)):
        code, h, _, s, q = part_of(family, hyper, i)
        _posterior(code, hyper, h, stats, s, post, q)
        total += post[q]
    post[0] = total


@entry
def log_marginal(family: int, hyper: Array, stats: Array, post: Array) -> float:
    """As `posterior` for the log marginal alone; ``post`` (Q,) is work space."""
    if family == NORMAL_GAMMA:
        return gaussian.ng_marginal(hyper, 0, stats, 0)
    if family == NORMAL_WISHART:
        return gaussian.nw_marginal(hyper, 0, stats, 0, post, 0)
    posterior(family, hyper, stats, post)
    return post[0]


@entry
def log_predictive(family: int, hyper: Array, post: Array, x: Array) -> float:
    """Log density of row ``x`` (D,) with the parameter integrated out."""
    total = 0.0
    for i in range(n_parts(family, hyper)):
        code, h, c, _, q = part_of(family, hyper, i)
        total += predictive_of_part(code, hyper, h, post, q, x, c)
    return total


@entry
def expected_log_lik(family: int, hyper: Array, post: Array, x: Array) -> float:
    """Posterior expectation of the log density of row ``x`` (D,)."""
    total = 0.0
    for i in range(n_parts(family, hyper)):
        code, h, c, _, q = part_of(family, hyper, i)
        total += _expected(code, hyper, h, post, q, x, c)
    return total


@entry
def natural_parameters(family: int, hyper: Array, post: Array, out: Array) -> None:
    """Fill ``out`` (P,), whose dot product with statistics is their expected log likelihood.

    The terms cancel if a table is many standard deviations from the centre; `expected_log_lik` of a
    single row has no such loss.
    """
    out[0] = 0.0
    for i in range(n_parts(family, hyper)):
        code, h, _, s, q = part_of(family, hyper, i)
        out[s] = 0.0
        if code == NORMAL_GAMMA:
            gaussian.ng_natural(hyper, h, post, q, out, s)
        elif code == NORMAL_WISHART:
            gaussian.nw_natural(hyper, h, post, q, out, s)
        elif code == REGRESSION:
            regression.lr_natural(hyper, h, post, q, out, s)
        elif code == DIRICHLET_MULTINOMIAL:
            counts.dm_natural(hyper, h, post, q, out, s)
        elif code == GAMMA_POISSON:
            counts.gp_natural(hyper, h, post, q, out, s)
        elif code == BETA_BERNOULLI:
            counts.bb_natural(hyper, h, post, q, out, s)
        else:
            out[s] = math.nan


# --- All tables in one call: a third of the cost of one call for each table -----------------------


@uncounted
def exchange(family: int, hyper: Array, stats: Array, post: Array, old: Array, new: Array) -> float:
    """Replace row ``old`` by ``new`` in a cluster; return the log density gained by that."""
    add_stats(family, hyper, old, -1.0, stats)
    posterior(family, hyper, stats, post)
    gain = log_predictive(family, hyper, post, new) - log_predictive(family, hyper, post, old)
    add_stats(family, hyper, new, 1.0, stats)
    posterior(family, hyper, stats, post)
    return gain


@entry
def stats_of_rows(family: int, hyper: Array, X: Array, out: Array) -> None:
    """Write the statistics of each row of ``X`` (N, D) into ``out`` (N, P)."""
    out[:] = 0.0
    for i in range(X.shape[0]):
        add_stats(family, hyper, X[i], 1.0, out[i])


@entry
def posteriors(family: int, hyper: Array, stats: Array, n_tables: int, post: Array) -> None:
    """Apply `posterior` to the first tables; ``stats`` (K, P), ``post`` (K, Q)."""
    for k in range(n_tables):
        posterior(family, hyper, stats[k], post[k])


@entry
def log_predictives(
    family: int, hyper: Array, post: Array, x: Array, n_tables: int, out: Array
) -> None:
    """Apply `log_predictive` to the first tables; ``post`` (K, Q), ``out`` (K,)."""
    out[:n_tables] = 0.0
    for i in range(n_parts(family, hyper)):
        code, h, c, _, q = part_of(family, hyper, i)
        for k in range(n_tables):
            out[k] += predictive_of_part(code, hyper, h, post[k], q, x, c)


@entry
def fill(family: int, hyper: Array, post: Array, x: Array, n_tables: int) -> float:
    """Impute missing values of ``x`` (D,) in full covariances; return their log density."""
    said = 0.0
    for i in range(n_parts(family, hyper)):
        code, h, c, _, q = part_of(family, hyper, i)
        if code == NORMAL_WISHART:
            for d in range(c, c + int(hyper[h])):
                if math.isnan(x[d]):
                    said += gaussian.nw_fill(hyper, h, post, q, n_tables, x, c)
                    break
    return said


@uncounted
def log_predictives_in_lanes(
    family: int, hyper: Array, post: Array, x: Array, n_tables: int, out: Array
) -> None:
    """Apply `log_predictives`, with ``post`` and ``out`` padded to a multiple of `LANES`."""
    out[: padded(n_tables)] = 0.0
    for i in range(n_parts(family, hyper)):
        code, h, c, _, q = part_of(family, hyper, i)
        if code == NORMAL_GAMMA:
            gaussian.ng_predictives(hyper, h, post, q, x, c, n_tables, out)
            continue
        for k in range(n_tables):
            out[k] += predictive_of_part(code, hyper, h, post[k], q, x, c)


@entry
def expected_log_liks(
    family: int, hyper: Array, post: Array, x: Array, n_tables: int, out: Array
) -> None:
    """Apply `expected_log_lik` to the first tables; ``post`` (K, Q), ``out`` (K,)."""
    out[:n_tables] = 0.0
    for i in range(n_parts(family, hyper)):
        code, h, c, _, q = part_of(family, hyper, i)
        for k in range(n_tables):
            out[k] += _expected(code, hyper, h, post[k], q, x, c)


# --- All window rows at one table; ``columns`` (D, N) is X transposed ----------------------------


@entry
def add_rows(
    family: int, hyper: Array, X: Array, columns: Array, weights: Array, start: int, stop: int,
    stats: Array,
) -> None:  # fmt: skip
    """Apply `add_stats` to rows ``start`` to ``stop`` of ``X`` (N, D), ``weights`` (N,)."""
    n_rows, total = count_and_sum(weights, start, stop)
    if n_rows == 0:
        return
    if family == PRODUCT:
        stats[0] += total
    for i in range(n_parts(family, hyper)):
        code, h, c, s, _ = part_of(family, hyper, i)
        stats[s] += total
        if code == NORMAL_GAMMA and 8 * n_rows > stop - start:  # fewer: one by one
            gaussian.ng_add_rows(hyper, h, columns, c, weights, start, stop, stats, s)
            continue
        if code == NORMAL_WISHART and 8 * n_rows > stop - start:
            gaussian.nw_add_rows(hyper, h, X, columns, c, weights, start, stop, stats, s)
            continue
        for r in range(start, stop):
            if weights[r] != 0.0:
                _add(code, hyper, h, X[r], c, weights[r], stats, s)


@entry
def expected_log_liks_of_rows(
    family: int, hyper: Array, post: Array, X: Array, columns: Array, start: int, stop: int,
    out: Array,
) -> None:  # fmt: skip
    """Apply `expected_log_lik` to rows ``start`` to ``stop`` of ``X`` (N, D); ``out`` (N,)."""
    out[start:stop] = 0.0
    for i in range(n_parts(family, hyper)):
        code, h, c, _, q = part_of(family, hyper, i)
        if code == NORMAL_GAMMA:
            gaussian.ng_expected_of_rows(hyper, h, post, q, columns, c, start, stop, out)
            continue
        if code == NORMAL_WISHART:
            gaussian.nw_expected_of_rows(hyper, h, post, q, X, columns, c, start, stop, out)
            continue
        for r in range(start, stop):
            out[r] += _expected(code, hyper, h, post, q, X[r], c)
