"""The prior of links as arrays: p(c_i = j) = f(d_ij) / S_i over the W customers before i."""

import math
from dataclasses import dataclass

import numpy as np

from streamddcrp.decay import Decay
from streamddcrp.typing import FloatArray
from streamddcrp.validation import positive

_TAIL = 1e-12  # prior weight, relative to alpha, below which a link is dropped


@dataclass(frozen=True, slots=True)
class LinkPrior:
    """Banded prior of the links of N customers.

    ``log_weight``: log f of customer i - W + d at column d, one row where distances are arrival
    indices; ``log_total`` (N,): log S_i = log(alpha + sum_j f_ij).
    """

    log_weight: FloatArray
    log_total: FloatArray
    log_alpha: float


def link_prior(decay: Decay, alpha: float, n: int, t: FloatArray | None = None) -> LinkPrior:
    """Compute the link prior of ``n`` customers at times (n,) or indices.

    ``alpha``: weight of opening a table; links below 1e-12 of it are dropped.
    """
    alpha = positive("alpha", alpha)
    share = _TAIL * alpha / float(decay.weight(0.0))
    horizon = decay.horizon(min(max(share, 1e-300), 0.5))
    if t is None:
        width = max(1, math.ceil(min(n - 1, horizon)))
        log_weight = np.ascontiguousarray(decay.log_weight(np.arange(width, 0, -1.0))[None, :])
        mass = np.concatenate([[0.0], np.cumsum(np.exp(log_weight[0, ::-1]))])
        log_total = np.log(alpha + mass[np.minimum(np.arange(n), width)])
        return LinkPrior(log_weight, log_total, math.log(alpha))
    reach = np.arange(n) - np.searchsorted(t, t - horizon, side="left")
    width = int(max(reach.max(initial=1), 1))
    log_weight = np.full((n, width), -np.inf)
    for gap in range(1, width + 1):  # one column per gap: memory stays (n, W)
        log_weight[gap:, width - gap] = decay.log_weight(t[gap:] - t[:-gap])
    log_total = np.log(alpha + np.exp(log_weight).sum(axis=1))
    return LinkPrior(log_weight, log_total, math.log(alpha))
