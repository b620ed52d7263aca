"""Compiled empirical-Bayes step of the base measure, in place."""

from numba import njit

from streamddcrp.likelihoods._kernels import NORMAL_GAMMA

__all__ = ["learn_prior"]

PSEUDO_TABLES = 2.0  # weight of the start values, in tables
ENOUGH = 4.0  # expected rows from which a table tells about the others
LEAST_RATE = 0.02  # of the rate at the start: one degenerate table must not take the prior along


@njit(cache=True)
def learn_prior(family, hyper, start, post, sizes, n_tables):
    """Move the base measure towards the tables at hand; return whether it moved."""
    if family != NORMAL_GAMMA:
        return False
    D = int(hyper[0])
    K = 0
    for m in range(n_tables):
        K += sizes[m] > ENOUGH
    if K == 0:
        return False
    st = PSEUDO_TABLES
    for d in range(D):
        center = hyper[1 + d]
        mean0 = start[1 + D + d]
        shape0, rate0 = start[1 + 3 * D + d], start[1 + 4 * D + d]
        own = st * shape0 / rate0
        precision = own
        weighted = own * mean0
        for m in range(n_tables):
            if sizes[m] > ENOUGH:
                lam = post[m, 1 + 8 * d + 2] / post[m, 1 + 8 * d + 3]
                precision += lam
                weighted += lam * (center + post[m, 1 + 8 * d])
        hyper[1 + 4 * D + d] = max(shape0 * (K + st) / precision, LEAST_RATE * rate0)
        hyper[1 + D + d] = weighted / precision
    spread = st / start[1 + 2 * D]
    for m in range(n_tables):
        if sizes[m] > ENOUGH:
            for d in range(D):
                at = 1 + 8 * d
                gap = hyper[1 + d] + post[m, at] - hyper[1 + D + d]
                lam = post[m, at + 2] / post[m, at + 3]
                spread += (lam * gap * gap + 1.0 / post[m, at + 1]) / D
    for d in range(D):
        hyper[1 + 2 * D + d] = (K + st) / spread
    return True
