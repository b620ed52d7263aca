"""Compiled empirical Bayes: a step of the base measure, docs/math/atoms.md (11).

With E_m the expectation under the posterior of table m, the step maximises

    sum_m E_m log p(theta_m | prior) + PSEUDO_TABLES tables with the initial prior

over the rate of each output, then the prior mean of each coefficient, then one factor of the
weights kappa that all outputs share, the shape held fixed. With precision_m = shape_m / rate_m,

    rate  = shape (K + st) / (sum_m precision_m + st shape / rate_start)
    mean  = (sum_m precision_m mean_m + st precision_start mean_start) / (sum of these weights)
    kappa = kappa_start (K + st) / (average over outputs of
            sum_m kappa_start (precision_m (mean_m - mean)^2 + 1 / kappa_m) + st).

In a regression 1 / kappa_m is the coefficient's variance in units of the noise variance, and each
coefficient has its own factor.
"""

from streamddcrp.compilation import kernel
from streamddcrp.likelihoods.kernels.families import NORMAL_GAMMA, REGRESSION, n_parts, part_of
from streamddcrp.likelihoods.kernels.regression import packed_length
from streamddcrp.likelihoods.kernels.special import Array

PSEUDO_TABLES = 2.0
ENOUGH = 4.0  # expected rows above which a table counts
LEAST_RATE = 0.02  # relative to the start: a table without spread would pull the prior along
LEAST_KAPPA = 1e-30
LARGEST = 1e60  # coefficients are unbounded if regressors almost vanish


@kernel
def _move_mean(
    start_mean: float, start_precision: float, post: Array, mean: int, half: int, sizes: Array,
    n_tables: int,
) -> tuple[float, float]:  # fmt: skip
    """Return the weighted mean of the tables' entries ``mean``, and the sum of weights."""
    weight = PSEUDO_TABLES * start_precision
    total = weight * start_mean
    for m in range(n_tables):
        if sizes[m] > ENOUGH:
            weight += 2.0 * post[m, half]
            total += 2.0 * post[m, half] * post[m, mean]
    return total / weight, weight


@kernel
def _learn_normal_gamma(
    hyper: Array, start: Array, h: int, post: Array, q: int, sizes: Array, n_tables: int,
    n_counted: float,
) -> None:  # fmt: skip
    D = int(hyper[h])
    center = h + 1
    mean, kappa, shape, rate = center + D, center + 2 * D, center + 3 * D, center + 4 * D
    spread = D * PSEUDO_TABLES
    for d in range(D):
        at = q + 1 + 8 * d
        value, weight = _move_mean(
            start[mean + d] - start[center + d], start[shape + d] / start[rate + d], post, at,
            at + 7, sizes, n_tables,
        )  # fmt: skip
        hyper[mean + d] = start[center + d] + value
        least = LEAST_RATE * start[rate + d]
        hyper[rate + d] = max(start[shape + d] * n_counted / weight, least)
        for m in range(n_tables):
            if sizes[m] > ENOUGH:
                gap = post[m, at] - value
                square = 2.0 * post[m, at + 7] * gap * gap + 1.0 / post[m, at + 1]
                spread += start[kappa + d] * square
    factor = max(D * n_counted / spread, LEAST_KAPPA)
    for d in range(D):
        hyper[kappa + d] = factor * start[kappa + d]


@kernel
def _learn_regression(
    hyper: Array, start: Array, h: int, post: Array, q: int, sizes: Array, n_tables: int,
    n_counted: float,
) -> None:  # fmt: skip
    D, P = int(hyper[h + 1]), int(hyper[h + 2])
    length = P + packed_length(P) + 5
    for i in range(P):
        spread = D * PSEUDO_TABLES
        for d in range(D):
            mean, at = h + 3 + d * (2 * P + 2) + i, q + 1 + d * length
            kappa, shape = mean + P, mean + 2 * P - i
            half = at + length - 1
            value, weight = _move_mean(
                start[mean], start[shape] / start[shape + 1], post, at + i, half, sizes, n_tables
            )
            if not abs(value) < LARGEST:
                continue
            hyper[mean] = value
            least = LEAST_RATE * start[shape + 1]  # the weight is the same for every i
            hyper[shape + 1] = max(start[shape] * n_counted / weight, least)
            for m in range(n_tables):
                if sizes[m] > ENOUGH:
                    gap = post[m, at + i] - value
                    square = 2.0 * post[m, half] * gap * gap
                    for j in range(i, P):
                        root = post[m, at + P + packed_length(j) + i]
                        square += root * root
                    spread += start[kappa] * square
        factor = max(D * n_counted / spread, LEAST_KAPPA)
        for d in range(D):
            kappa = h + 3 + d * (2 * P + 2) + P + i
            hyper[kappa] = factor * start[kappa]


@kernel
def learn_prior(
    family: int, hyper: Array, start: Array, post: Array, sizes: Array, n_tables: int
) -> bool:
    """Update the base measure in place in ``hyper`` (H,); return whether it changed. O(K Q).

    ``start`` (H,) is the initial base measure, ``post`` (K, Q) the posteriors of the first tables
    under ``hyper``, ``sizes`` (K,) their expected rows. Families and parts other than NORMAL_GAMMA
    and REGRESSION do not change. Results computed under the old ``hyper`` are stale afterwards.
    """
    n_counted = PSEUDO_TABLES
    for m in range(n_tables):
        if sizes[m] > ENOUGH:
            n_counted += 1.0
    if n_counted == PSEUDO_TABLES:
        return False
    moved = False
    for i in range(n_parts(family, hyper)):
        code, h, _, _, q = part_of(family, hyper, i)
        if code == NORMAL_GAMMA:
            _learn_normal_gamma(hyper, start, h, post, q, sizes, n_tables, n_counted)
            moved = True
        elif code == REGRESSION:
            _learn_regression(hyper, start, h, post, q, sizes, n_tables, n_counted)
            moved = True
    return moved
