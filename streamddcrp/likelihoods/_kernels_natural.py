"""tmp: to be folded into _kernels."""

import numpy as np
from numba import njit
from streamddcrp.likelihoods._kernels import (
    NORMAL_GAMMA,
    NORMAL_WISHART,
    DIRICHLET_MULTINOMIAL,
    GAMMA_POISSON,
    _NW_POST,
)


@njit(cache=True)
def natural_parameters(family, hyper, post, out):
    """Fill ``out`` (P,) so that its dot product with statistics is their expected log likelihood.

    The expected log likelihood of any (soft) set of rows is linear in its statistics; ``out`` holds
    the coefficients.
    """
    D = int(hyper[0])
    out[0] = 0.0
    if family == NORMAL_GAMMA:
        for d in range(D):
            at = 1 + 8 * d
            mean, half_precision = post[at], post[at + 7]
            out[1 + d] = post[at + 6] - half_precision * mean * mean
            out[1 + D + d] = 2.0 * half_precision * mean
            out[1 + 2 * D + d] = -half_precision
    elif family == NORMAL_WISHART:
        dof = post[2]
        factor = _NW_POST + D
        out[0] = post[5]
        for i in range(D):
            out[1 + i] = 0.0
        at = 1 + D
        for i in range(D):
            for j in range(i + 1):
                precision = 0.0
                for k in range(i, D):
                    row = factor + k * (k + 1) // 2
                    precision += post[row + i] * post[row + j]
                precision *= dof
                out[at] = -0.5 * precision if i == j else -precision
                out[1 + i] += precision * post[_NW_POST + j]
                if i != j:
                    out[1 + j] += precision * post[_NW_POST + i]
                at += 1
        for i in range(D):
            out[0] -= 0.5 * out[1 + i] * post[_NW_POST + i]
    elif family == DIRICHLET_MULTINOMIAL:
        for d in range(D):
            out[1 + d] = post[2 + D + d]
    elif family == GAMMA_POISSON:
        out[1] = 1.0
        for d in range(D):
            at = 1 + 5 * d
            out[2 + d] = -post[at + 4]
            out[2 + D + d] = post[at + 3]
    else:
        for d in range(D):
            at = 1 + 4 * d
            out[1 + d] = post[at + 2]
            out[1 + D + d] = post[at + 3]
