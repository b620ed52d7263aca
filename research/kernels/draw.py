"""Compiled parameters of a table, drawn from its posterior or put at its posterior mean.

A parameter theta is written as the vector eta (P,) for which log p(rows | theta) = eta . stats, in
the layout of `natural_parameters`, which is the mean of the draws' eta. The posterior mean of theta
is another thing: its eta belongs to a density, the mean eta does not.

The terms of eta . stats cancel where rows lie many standard deviations from the centre.
"""

import math

from streamddcrp.compilation import kernel
from streamddcrp.likelihoods.kernels import families
from streamddcrp.likelihoods.kernels.regression import packed_length
from streamddcrp.likelihoods.kernels.special import LOG_2PI

_LEAST = -1e300  # instead of -inf, which times a count of zero is NaN


@kernel
def draw_parameters(family, hyper, stats, post, rng, out):
    """Draw theta given ``stats`` (P,) and ``post`` (Q,); write its eta to ``out`` (P,)."""
    out[0] = 0.0
    for i in range(families.n_parts(family, hyper)):
        code, h, _, s, q = families.part_of(family, hyper, i)
        out[s] = 0.0
        if code == families.NORMAL_GAMMA:
            _ng_draw(hyper, h, post, q, rng, out, s)
        elif code == families.NORMAL_WISHART:
            _nw_draw(hyper, h, post, q, rng, out, s)
        elif code == families.REGRESSION:
            _lr_draw(hyper, h, post, q, rng, out, s)
        elif code == families.DIRICHLET_MULTINOMIAL:
            _dm_draw(hyper, h, post, q, rng, out, s)
        elif code == families.GAMMA_POISSON:
            _gp_draw(hyper, h, post, q, rng, out, s)
        elif code == families.BETA_BERNOULLI:
            _bb_draw(hyper, h, stats, s, rng, out)
        else:
            out[s] = math.nan


@kernel
def mean_parameters(family, hyper, post, out):
    """Write the eta of the posterior mean of theta to ``out`` (P,); precisions are averaged."""
    out[0] = 0.0
    for i in range(families.n_parts(family, hyper)):
        code, h, _, s, q = families.part_of(family, hyper, i)
        out[s] = 0.0
        if code == families.NORMAL_GAMMA:
            _ng_mean(hyper, h, post, q, out, s)
        elif code == families.NORMAL_WISHART:
            _nw_mean(hyper, h, post, q, out, s)
        elif code == families.REGRESSION:
            _lr_mean(hyper, h, post, q, out, s)
        elif code == families.DIRICHLET_MULTINOMIAL:
            _dm_mean(hyper, h, post, q, out, s)
        elif code == families.GAMMA_POISSON:
            _gp_mean(hyper, h, post, q, out, s)
        elif code == families.BETA_BERNOULLI:
            _bb_mean(hyper, h, post, q, out, s)
        else:
            out[s] = math.nan


@kernel
def _log_gamma_draw(rng, shape):
    """Log of a Gamma(shape, 1) variable, also where that itself would be zero."""
    if shape >= 1.0:
        return math.log(rng.standard_gamma(shape))
    lift = math.log(1.0 - rng.random()) / shape  # U^(1/shape) G(shape + 1) ~ G(shape)
    return max(math.log(rng.standard_gamma(shape + 1.0)) + lift, _LEAST)


# --- Normal-Gamma: precision ~ Gamma(shape, rate), mu ~ N(mean, 1 / (kappa precision)) ------------


@kernel
def _ng_write(D, d, mu, precision, out, s):
    out[s + 1 + d] = 0.5 * (math.log(precision) - LOG_2PI - precision * mu * mu)
    out[s + 1 + D + d] = precision * mu
    out[s + 1 + 2 * D + d] = -0.5 * precision


@kernel
def _ng_draw(hyper, h, post, q, rng, out, s):
    D = int(hyper[h])
    for d in range(D):
        at = q + 1 + 8 * d
        precision = rng.standard_gamma(post[at + 2]) / post[at + 3]
        precision = max(precision, 1e-300)
        mu = post[at] + rng.standard_normal() / math.sqrt(post[at + 1] * precision)
        _ng_write(D, d, mu, precision, out, s)


@kernel
def _ng_mean(hyper, h, post, q, out, s):
    D = int(hyper[h])
    for d in range(D):
        at = q + 1 + 8 * d
        _ng_write(D, d, post[at], post[at + 2] / post[at + 3], out, s)


# --- Normal-Wishart: Lambda = H'H with H lower triangular, stored where Lambda will be ------------
# post: log marginal, kappa, dof, three constants, mean about the centre (D), then F, lower
# triangular, with F'F the inverse of the scatter.

_NW_POST = 6


@kernel
def _nw_write(D, out, s):
    """Turn mu, in the linear entries, and H, in the quadratic ones, into eta."""
    linear, packed = s + 1, s + 1 + D
    constant = -0.5 * D * LOG_2PI
    for i in range(D - 1, -1, -1):  # mu becomes H mu, from the last entry on
        row = packed + packed_length(i)
        total = 0.0
        for j in range(i + 1):
            total += out[row + j] * out[linear + j]
        out[linear + i] = total
        constant += math.log(out[row + i]) - 0.5 * total * total
    out[s] = constant
    for i in range(D):  # H mu becomes H'H mu, from the first
        total = 0.0
        for k in range(i, D):
            total += out[packed + packed_length(k) + i] * out[linear + k]
        out[linear + i] = total
    for i in range(D):  # row i of H'H reads rows from i on: those before are no longer needed
        row = packed + packed_length(i)
        for j in range(i + 1):
            total = 0.0
            for k in range(i, D):
                at = packed + packed_length(k)
                total += out[at + i] * out[at + j]
            out[row + j] = -0.5 * total if i == j else -total


@kernel
def _nw_draw(hyper, h, post, q, rng, out, s):
    # Bartlett: T T' ~ W(1, dof) with T triangular, T_ii^2 ~ chi^2 of falling degrees of freedom,
    # and H = T F. Then mu = mean + H^-1 z / sqrt(kappa).
    D = int(hyper[h])
    linear, packed = s + 1, s + 1 + D
    kappa, dof = post[q + 1], post[q + 2]
    mean, factor = q + _NW_POST, q + _NW_POST + D
    for i in range(D):
        for j in range(i):
            out[linear + j] = rng.standard_normal()
        square = 2.0 * rng.standard_gamma(0.5 * (dof - (D - 1 - i)))
        out[linear + i] = math.sqrt(max(square, 1e-300))
        for j in range(i + 1):
            total = 0.0
            for k in range(j, i + 1):
                total += out[linear + k] * post[factor + packed_length(k) + j]
            out[packed + packed_length(i) + j] = total
    for i in range(D):
        row = packed + packed_length(i)
        total = rng.standard_normal()
        for j in range(i):
            total -= out[row + j] * out[linear + j]
        out[linear + i] = total / out[row + i]
    for i in range(D):
        out[linear + i] = post[mean + i] + out[linear + i] / math.sqrt(kappa)
    _nw_write(D, out, s)


@kernel
def _nw_mean(hyper, h, post, q, out, s):
    D = int(hyper[h])
    root = math.sqrt(post[q + 2])
    for i in range(D):
        out[s + 1 + i] = post[q + _NW_POST + i]
    for i in range(packed_length(D)):
        out[s + 1 + D + i] = root * post[q + _NW_POST + D + i]
    _nw_write(D, out, s)


# --- Regression: precision ~ Gamma(shape, rate), w ~ N(mean, (precision L L')^-1) -----------------
# post: for each output w (P), L^-1 (packed), constant, shape + 1/2, 1 / (2 rate), two more.


@kernel
def _lr_write(P, to, precision, out):
    """Turn w, in the last entries of a block, into eta of the block."""
    last = to + packed_length(P)
    for i in range(P):
        for j in range(i + 1):
            entry = -precision * out[last + i] * out[last + j]
            out[to + packed_length(i) + j] = 0.5 * entry if i == j else entry
    out[to] += 0.5 * (math.log(precision) - LOG_2PI)
    for i in range(P):
        out[last + i] *= precision
    out[last + P] = -0.5 * precision


@kernel
def _lr_draw(hyper, h, post, q, rng, out, s):
    P = int(hyper[h + 2])
    triangle = packed_length(P)
    for d in range(int(hyper[h + 1])):
        w = q + 1 + d * (P + triangle + 5)
        root, at = w + P, w + P + triangle
        to = s + 1 + d * packed_length(P + 1)
        last = to + triangle
        precision = 2.0 * post[at + 2] * rng.standard_gamma(post[at + 1] - 0.5)
        precision = max(precision, 1e-300)
        spread = 1.0 / math.sqrt(precision)
        for i in range(P):
            out[last + i] = post[w + i]
        for k in range(P):
            z = spread * rng.standard_normal()
            for i in range(k + 1):
                out[last + i] += z * post[root + packed_length(k) + i]
        _lr_write(P, to, precision, out)


@kernel
def _lr_mean(hyper, h, post, q, out, s):
    P = int(hyper[h + 2])
    triangle = packed_length(P)
    for d in range(int(hyper[h + 1])):
        w = q + 1 + d * (P + triangle + 5)
        to = s + 1 + d * packed_length(P + 1)
        for i in range(P):
            out[to + triangle + i] = post[w + i]
        precision = 2.0 * post[w + P + triangle + 4]
        _lr_write(P, to, precision, out)


# --- Counts ---------------------------------------------------------------------------------------


@kernel
def _dm_draw(hyper, h, post, q, rng, out, s):
    D = int(hyper[h])
    top = _LEAST
    for d in range(D):
        out[s + 1 + d] = _log_gamma_draw(rng, post[q + 2 + d])
        top = max(top, out[s + 1 + d])
    total = 0.0
    for d in range(D):
        total += math.exp(out[s + 1 + d] - top)
    top += math.log(total)
    for d in range(D):
        out[s + 1 + d] -= top


@kernel
def _dm_mean(hyper, h, post, q, out, s):
    for d in range(int(hyper[h])):
        out[s + 1 + d] = math.log(post[q + 2 + d] / post[q + 1])


@kernel
def _gp_draw(hyper, h, post, q, rng, out, s):
    D = int(hyper[h])
    out[s + 1] = 1.0
    for d in range(D):
        at = q + 1 + 5 * d  # shape, .., .., .., shape / rate
        log_rate = math.log(post[at]) - math.log(post[at + 4])
        log_intensity = _log_gamma_draw(rng, post[at]) - log_rate
        out[s + 2 + d] = -math.exp(log_intensity)
        out[s + 2 + D + d] = log_intensity


@kernel
def _gp_mean(hyper, h, post, q, out, s):
    D = int(hyper[h])
    out[s + 1] = 1.0
    for d in range(D):
        intensity = post[q + 1 + 5 * d + 4]
        out[s + 2 + d] = -intensity
        out[s + 2 + D + d] = math.log(intensity)


@kernel
def _bb_draw(hyper, h, stats, s, rng, out):
    D = int(hyper[h])
    for d in range(D):
        ones = _log_gamma_draw(rng, hyper[h + 1 + d] + max(stats[s + 1 + d], 0.0))
        zeros = _log_gamma_draw(rng, hyper[h + 1 + D + d] + max(stats[s + 1 + D + d], 0.0))
        top = max(ones, zeros)
        total = top + math.log1p(math.exp(min(ones, zeros) - top))
        out[s + 1 + d] = ones - total
        out[s + 1 + D + d] = zeros - total


@kernel
def _bb_mean(hyper, h, post, q, out, s):
    D = int(hyper[h])
    for d in range(D):
        out[s + 1 + d] = post[q + 1 + 4 * d]
        out[s + 1 + D + d] = post[q + 1 + 4 * d + 1]
