"""Each part's contribution to a row's surprise, and its expected value, under all families.

``rows`` (1 + n, C) are a row and copies without one of its parts, from `Likelihood.without`. A part
is left out by its family's rule for missing values: it is integrated out. NORMAL_WISHART has no
such rule for learned rows, but a predicted row can leave out a value d: with A = scatter^-1 and r
the distances from the mean, 0 if missing, the squared distance of the rest is r'A r - (A r)_d^2 /
A_dd, and the determinant of its scatter |scatter| A_dd.
"""

import math

from streamddcrp.compilation import entry, uncounted
from streamddcrp.likelihoods.kernels import families
from streamddcrp.likelihoods.kernels.regression import packed_length
from streamddcrp.likelihoods.kernels.special import (
    LOG_2PI,
    LOG_PI,
    Array,
    log_factorial,
    log_rising,
)
from streamddcrp.numerics import digamma

MEAN, VARIANCE, USUAL = 0, 1, 2  # rows that `outlook` writes
_MANY = 128.0  # events; smaller sums are exact


@uncounted
def _usual_log(dof: float) -> float:
    """Return E (dof + 1) / 2 log(1 + T^2 / dof) for Student's T."""
    return 0.5 * (dof + 1.0) * (digamma(0.5 * dof + 0.5) - digamma(0.5 * dof))


@uncounted
def _variance(scale: float, dof: float) -> float:
    """Return the variance of Student's t, or a finite substitute if it has none."""
    return scale * dof / (dof - 2.0) if dof > 2.0 else scale


@uncounted
def _nw_slopes(
    hyper: Array, h: int, post: Array, q: int, x: Array, c: int, out: Array
) -> float:  # fmt: skip
    """Write A r to ``out[0]`` and the diagonal of A to ``out[1]``, from c on; return r'A r. O(D^2).

    r is 0 for missing values.
    """
    D = int(hyper[h])
    center, mean = h + 4, q + 6
    at, total = mean + D, 0.0
    for i in range(D):
        z, out[0, c + i], out[1, c + i] = 0.0, 0.0, 0.0
        for j in range(i + 1):
            if not math.isnan(x[c + j]):
                z += post[at + j] * ((x[c + j] - hyper[center + j]) - post[mean + j])
        for j in range(i + 1):
            out[0, c + j] += post[at + j] * z
            out[1, c + j] += post[at + j] * post[at + j]
        total += z * z
        at += i + 1
    return total


@uncounted
def _nw_each(
    hyper: Array, h: int, post: Array, q: int, rows: Array, c: int, space: Array, out: Array
) -> None:
    """Add to ``out`` (1 + n,) log densities of a row, and of others or it less one value.

    r'A r - (A r)_d^2 / A_dd does not depend on r_d, so one pass over A is enough: O((D + n) D).
    """
    D, total = int(hyper[h]), _nw_slopes(hyper, h, post, q, rows[0], c, space)
    nu, spread = post[q + 2] + 1.0 - D, post[q + 3]
    log_det = -2.0 * _log_diagonal(D, post, q + 6 + D)
    whole = post[q + 4] - 0.5 * (nu + D) * math.log1p(spread * total)
    constant = log_rising(0.5 * nu, 0.5 * (D - 1.0))
    constant -= 0.5 * ((D - 1.0) * (LOG_PI - math.log(spread)) + log_det)
    for i in range(len(out)):
        d = 0
        while d < D and rows[i, c + d] == rows[0, c + d]:
            d += 1
        if d == D:
            out[i] += whole
            continue
        if not math.isnan(rows[i, c + d]):  # a turned row: all coordinates change
            out[i] += families.predictive_of_part(
                families.NORMAL_WISHART, hyper, h, post, q, rows[i], c
            )
            continue
        slope, precision = space[0, c + d], space[1, c + d]
        rest = max(total - slope * slope / precision, 0.0)
        value = constant - 0.5 * math.log(precision)
        out[i] += value - 0.5 * (nu + D - 1.0) * math.log1p(spread * rest)


@uncounted
def _log_diagonal(D: int, post: Array, at: int) -> float:
    total = 0.0
    for i in range(D):
        at += i
        total += math.log(post[at])
        at += 1
    return total


@uncounted
def _log_densities(
    family: int, hyper: Array, post: Array, rows: Array, space: Array, out: Array
) -> None:
    """Fill ``out`` (1 + n,) with log densities of a row, and of it without each part."""
    out[:] = 0.0
    for j in range(families.n_parts(family, hyper)):
        code, h, c, _, q = families.part_of(family, hyper, j)
        if code == families.NORMAL_WISHART:
            _nw_each(hyper, h, post, q, rows, c, space, out)
            continue
        for i in range(rows.shape[0]):
            out[i] += families.predictive_of_part(code, hyper, h, post, q, rows[i], c)


@entry
def explain(
    family: int, hyper: Array, whole: Array, post: Array, fresh: Array, n_tables: int,
    log_weights: Array, home: int, rows: Array, out: Array, view: Array,
) -> None:  # fmt: skip
    """Compute the surprise of rows under a mixture and under table ``home``; call `outlook`.

    ``out`` (2 + K, 1 + n), ``log_weights`` (K,), ``post`` (n_tables, Q); if K is larger, ``fresh``
    (Q,) is the posterior of a new table, the last. ``out[0]`` receives -log sum_k
    w_k p(row | k) and each part's contribution, ``out[1]`` the same of -log p(row | home), its
    first less what is expected of a row. There each column has weight 1, whatever its share and
    power: these keep redundant columns from outvoting others, but a column's own surprise is not
    diluted. ``whole`` receives ``hyper`` with these weights. Missing values of full covariances are
    imputed, see `families.fill`. O(n K) densities, O(K) for a full covariance.
    """
    for d in range(rows.shape[1]):
        view[0, d] = rows[0, d]
    filled = families.fill(family, hyper, post, rows[0], n_tables)
    for d in range(rows.shape[1]):
        if math.isnan(view[0, d]):
            for i in range(1, rows.shape[0]):
                rows[i, d] = rows[0, d]
    for k in range(n_tables):
        _log_densities(family, hyper, post[k], rows, view, out[2 + k])
    if len(out) > 2 + n_tables:
        _log_densities(family, hyper, fresh, rows, view, out[2 + n_tables])
    for i in range(len(hyper)):
        whole[i] = hyper[i]
    _untemper(family, whole)
    _log_densities(family, whole, post[home], rows, view, out[1])
    for i in range(rows.shape[0]):
        top, total = -math.inf, 0.0
        for k in range(len(out) - 2):
            value = log_weights[k] + out[2 + k, i]
            if value > top:
                total = total * math.exp(top - value) + 1.0
                top = value
            elif value > -math.inf:
                total += math.exp(value - top)
        out[0, i] = -(top + math.log(total))
        out[1, i] = -out[1, i]
    for j in range(2):
        for i in range(1, rows.shape[0]):
            out[j, i] = out[j, 0] - out[j, i]
    out[0, 0] += filled
    out[1, 0] -= outlook(family, whole, post[home], rows[0], view)


@uncounted
def _untemper(family: int, hyper: Array) -> None:
    """Give each column weight 1."""
    for i in range(families.n_parts(family, hyper)):
        code, h, _, _, _ = families.part_of(family, hyper, i)
        D = int(hyper[h])
        if code == families.NORMAL_GAMMA:
            hyper[h + 1 + 6 * D : h + 1 + 8 * D] = 1.0
        if code in (families.GAMMA_POISSON, families.BETA_BERNOULLI):
            hyper[h + 1 + 2 * D : h + 1 + 3 * D] = 1.0


@entry
def outlook(family: int, hyper: Array, post: Array, x: Array, out: Array) -> float:
    """Return one table's expected surprise of a new row (C,), and fill in its expectations.

    ``out`` (3, C) receives each column's predictive mean and variance, and its value's expected
    surprise given the others; NaN for columns that are not outputs. Word counts assume the row's
    number of words.
    """
    out[:] = math.nan
    total = 0.0
    for i in range(families.n_parts(family, hyper)):
        code, h, c, _, q = families.part_of(family, hyper, i)
        if code == families.NORMAL_GAMMA:
            total += _ng_outlook(hyper, h, post, q, x, c, out)
        elif code == families.NORMAL_WISHART:
            total += _nw_outlook(hyper, h, post, q, x, c, out)
        elif code == families.REGRESSION:
            total += _lr_outlook(hyper, h, post, q, x, c, out)
        elif code == families.DIRICHLET_MULTINOMIAL:
            total += _dm_outlook(hyper, h, post, q, x, c, out)
        elif code == families.GAMMA_POISSON:
            total += _gp_outlook(hyper, h, post, q, x, c, out)
        elif code == families.BETA_BERNOULLI:
            total += _bb_outlook(hyper, h, post, q, x, c, out)
        else:
            total = math.nan
    return total


@entry
def most_apart(
    mean: Array, sd: Array, before: Array, spread: Array, least: float, at: Array, apart: Array
) -> int:  # fmt: skip
    """Fill ``at, apart`` (n,) with columns (D,) in which two tables differ, and the nats.

    These are the columns of at least ``least`` nats, the largest first; returns their number. The
    measure is the symmetric Kullback-Leibler divergence of Gaussians of these means m and variances
    v: (v / v' + v' / v - 2 + (m - m')^2 (1 / v + 1 / v')) / 2.
    """
    n = 0
    for d in range(len(mean)):
        one, two, value = sd[d] * sd[d], spread[d] * spread[d], 0.0
        if one > 0.0 and two > 0.0:
            away = (mean[d] - before[d]) ** 2
            value = 0.5 * (one / two + two / one - 2.0 + away * (1.0 / one + 1.0 / two))
        if not least <= value < math.inf or (n == len(at) and value <= apart[n - 1]):
            continue
        n = min(n + 1, len(at))
        i = n - 1
        while i > 0 and apart[i - 1] < value:
            at[i], apart[i] = at[i - 1], apart[i - 1]
            i -= 1
        at[i], apart[i] = d, value
    return n


@uncounted
def _ng_outlook(hyper: Array, h: int, post: Array, q: int, x: Array, c: int, out: Array) -> float:
    D = int(hyper[h])
    total = 0.0
    for d in range(D):
        at = q + 1 + 8 * d
        dof = 2.0 * post[at + 2]
        weight = hyper[h + 1 + 6 * D + d] * hyper[h + 1 + 7 * D + d]
        out[MEAN, c + d] = hyper[h + 1 + d] + post[at]
        out[VARIANCE, c + d] = _variance(1.0 / (post[at + 5] * dof), dof)
        out[USUAL, c + d] = weight * (_usual_log(dof) - post[at + 4])
        total += 0.0 if math.isnan(x[c + d]) else out[USUAL, c + d]
    return total


@uncounted
def _nw_outlook(hyper: Array, h: int, post: Array, q: int, x: Array, c: int, out: Array) -> float:
    D = int(hyper[h])
    root, dof, spread = q + 6 + D, post[q + 2], post[q + 3]
    nu = dof + 1.0 - D
    psis = digamma(0.5 * dof + 0.5)
    usual = 0.5 * (dof + 1.0) * (psis - digamma(0.5 * dof)) - log_rising(0.5 * dof, 0.5)
    usual += 0.5 * (LOG_PI - math.log(spread))
    for d in range(D):
        out[USUAL, c + d] = 0.0
    for j in range(D):  # column j of L, from L^-1 by substitution: the scatter is L L'
        for i in range(j, D):
            row = root + packed_length(i)
            value = 1.0 if i == j else 0.0
            for k in range(j, i):
                value -= post[row + k] * out[MEAN, c + k]
            out[MEAN, c + i] = value / post[row + i]
            out[USUAL, c + i] += out[MEAN, c + i] * out[MEAN, c + i]
    total = _nw_slopes(hyper, h, post, q, x, c, out)
    for d in range(D):
        slope, precision = out[0, c + d], out[1, c + d]
        out[MEAN, c + d] = hyper[h + 4 + d] + post[q + 6 + d]
        out[VARIANCE, c + d] = _variance(out[USUAL, c + d] / (spread * nu), nu)
        rest = max(total - slope * slope / precision, 0.0)
        out[USUAL, c + d] = usual + 0.5 * (math.log1p(spread * rest) - math.log(precision))
    return 0.5 * (dof + 1.0) * (psis - digamma(0.5 * nu)) - post[q + 4]


@uncounted
def _lr_outlook(hyper: Array, h: int, post: Array, q: int, x: Array, c: int, out: Array) -> float:
    D, P = int(hyper[h + 1]), int(hyper[h + 2])
    triangle = packed_length(P)
    total = 0.0
    for d in range(D):
        w, first = q + 1 + d * (P + triangle + 5), c + d * P
        mean, spread, root = post[w], 0.0, w + P
        for i in range(P):
            z = post[root]
            for j in range(1, i + 1):
                z += post[root + j] * x[first + j - 1]
            spread += z * z
            root += i + 1
            mean += 0.0 if i == 0 else post[w + i] * x[first + i - 1]
        at, last = w + P + triangle, first + P - 1
        dof = 2.0 * post[at + 1] - 1.0
        out[MEAN, last] = mean
        out[VARIANCE, last] = _variance((1.0 + spread) / (post[at + 2] * dof), dof)
        out[USUAL, last] = _usual_log(dof) - post[at] + 0.5 * math.log1p(spread)
        known = not math.isnan(x[last]) and not math.isnan(mean)
        total += out[USUAL, last] if known else 0.0
    return total


@uncounted
def _dm_outlook(hyper: Array, h: int, post: Array, q: int, x: Array, c: int, out: Array) -> float:
    D, mass = int(hyper[h]), post[q + 1]
    tokens, each, known = 0.0, 0.0, 0.0
    for d in range(D):
        tokens += x[c + d] if x[c + d] > 0.0 else 0.0
        share = post[q + 2 + d] / mass
        each -= share * math.log(share)
        known += share
    each /= known  # for an open vocabulary, the words seen
    for d in range(D):
        share = post[q + 2 + d] / mass
        out[MEAN, c + d] = tokens * share
        out[VARIANCE, c + d] = tokens * share * (1.0 - share) * (mass + tokens) / (mass + 1.0)
        out[USUAL, c + d] = each * x[c + d] if x[c + d] > 0.0 else 0.0
    return each * tokens


@uncounted
def _gp_outlook(hyper: Array, h: int, post: Array, q: int, x: Array, c: int, out: Array) -> float:
    D = int(hyper[h])
    total = 0.0
    for d in range(D):
        at = q + 1 + 5 * d
        shape, mean = post[at], post[at + 4]
        variance = mean * (1.0 + mean / shape)
        most = math.ceil(mean + 12.0 * math.sqrt(variance))
        usual = 0.5 * (LOG_2PI + 1.0 + math.log(variance))  # many events are nearly Gaussian
        if most <= _MANY:
            usual = 0.0
            for k in range(int(most) + 1):
                value = post[at + 1]
                if k > 0:
                    value += log_rising(shape, float(k)) - log_factorial(float(k))
                    value -= k * post[at + 2]
                usual -= math.exp(value) * value
        out[MEAN, c + d], out[VARIANCE, c + d] = mean, variance
        out[USUAL, c + d] = hyper[h + 1 + 2 * D + d] * usual
        total += 0.0 if math.isnan(x[c + d]) else out[USUAL, c + d]
    return total


@uncounted
def _bb_outlook(hyper: Array, h: int, post: Array, q: int, x: Array, c: int, out: Array) -> float:
    D = int(hyper[h])
    total = 0.0
    for d in range(D):
        at = q + 1 + 4 * d
        one, zero = math.exp(post[at]), math.exp(post[at + 1])
        out[MEAN, c + d], out[VARIANCE, c + d] = one, one * zero
        out[USUAL, c + d] = -hyper[h + 1 + 2 * D + d] * (one * post[at] + zero * post[at + 1])
        total += 0.0 if math.isnan(x[c + d]) else out[USUAL, c + d]
    return total
