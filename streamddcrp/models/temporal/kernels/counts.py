"""Counts of the recurrent CRP under independent soft assignments, and their expectations.

The count of a component in an epoch is a sum of independent Bernoullis, and the decayed past a
weighted sum of such counts. Three additive moments, docs/math/temporal.md (5), describe a count:
mean, variance and the log probability of zero. ``MEAN, VAR, LOG_ZERO`` are their places in the last
axis of every array of moments here.

Expectations E f(X) condition on the newest epoch in X that has any row ("zero-corrected"). Given
that, they are second-order about the mean of X: one row of that epoch is certain, and the rest of X
weighs less. They are exact for hard assignments, and for at most one uncertain row beside certain
ones that weigh less; accurate to a few hundredths of a nat for nearly empty components, where a
plain expansion is off by tens. A log probability of zero of -inf makes every epoch certain and the
expansion plain, E f(X) = f(E X) + f''(E X) Var X / 2, as in Ahmed and Xing; epochs with a mean
below 1e-12 still have no row.
"""

import math

import numpy as np

from streamddcrp.compilation import column, inlined, kernel, unchecked
from streamddcrp.numerics import digamma

MEAN, VAR, LOG_ZERO = 0, 1, 2
_VALUE = 2  # index of E f(X) after mean and variance of the settled past
_TINY = 1e-12
_SURE = 1e-10  # a probability is kept this far from one in log(1 - q)
_CERTAIN = -37.0  # log probability of zero from which that of a row rounds to one
_SILENT = 1e-9  # expected items below which a later epoch has no influence
_LARGE = 1e5  # counts above which a difference of log gammas uses its series
_HELD = 0.5  # decayed rows from which a component was present in the past


@kernel
def trigamma(x):
    """Trigamma function for x > 0: recurrence up to 10, then the asymptotic series."""
    if x < 0.0:  # the recurrence would practically never end
        return np.nan
    shift = 0.0
    while x < 10.0:
        shift += 1.0 / (x * x)
        x += 1.0
    inv = 1.0 / x
    inv2 = inv * inv
    series = inv2 * (
        1.0 / 6.0
        - inv2 * (1.0 / 30.0 - inv2 * (1.0 / 42.0 - inv2 * (1.0 / 30.0 - inv2 * (5.0 / 66.0))))
    )
    return shift + inv * (1.0 + series + 0.5 * inv)


@kernel
def log_gamma_step(y, step):
    if y > _LARGE:
        return step * digamma(y) + 0.5 * step * step * trigamma(y)
    return math.lgamma(y + step) - math.lgamma(y)


@inlined
def _given_any(mean, var, log_zero):
    """Probability of any row, and mean and variance of their number in that case."""
    w = -math.expm1(log_zero)
    if w < _TINY or mean < _TINY:
        return 0.0, 0.0, 0.0
    y = mean / w
    return w, y, max(0.0, (var + mean * mean) / w - y * y)


@inlined
def _given_any_other(count, own):
    """`_given_any` of the moments ``count`` (3,) without a row of share ``own``."""
    mean, var, log_zero = count[MEAN] - own, count[VAR] - own * (1.0 - own), count[LOG_ZERO]
    if own > 0.0:
        log_zero -= math.log1p(-min(own, 1.0 - _SURE))
    return _given_any(max(0.0, mean), max(0.0, var), min(0.0, log_zero))


@inlined
def _is_sure(count):
    return count[MEAN] >= _TINY and count[LOG_ZERO] < _CERTAIN


@kernel
def _about(a0, step, mean, var):
    """E f(X) to second order about the mean of X.

    f(x) = log Gamma(a0 + x + step) - log Gamma(a0 + x), with a step of one log(a0 + x); with none,
    log Gamma(a0 + x) - log Gamma(a0).
    """
    z = a0 + mean
    if step == 0.0:
        return math.lgamma(z) - math.lgamma(a0) + 0.5 * trigamma(z) * var
    return log_gamma_step(z, step) + 0.5 * (trigamma(z + step) - trigamma(z)) * var


@inlined
def _with_epoch(a0, step, count, weight, decides, past):
    """Mean, variance and E f(X) of a past with the next epoch's ``count``, if it ``decides``."""
    mean, var, value = past
    if decides:
        w, y, v = _given_any(count[MEAN], count[VAR], count[LOG_ZERO])
        if w > 0.0:
            given = _about(a0, step, mean + weight * y, var + weight * weight * v)
            value += w * (given - value)
    return mean + weight * count[MEAN], var + weight * weight * count[VAR], value


@kernel
def expected_past(a0, step, before, now, kappa, e, k, later):
    """Mean and variance of the decayed past X, and E f(X): docs/math/temporal.md (7).

    X covers the epochs before ``e``, with their weights ``later`` epochs after it; ``before`` (W,
    K, 3), ``now`` (E, K, 3), ``kappa`` (W,): those of `decay_moments`.
    """
    W = len(kappa)
    sure = W
    for j in range(W - later):
        count = now[e - 1 - j, k] if j < e else before[W + e - 1 - j, k]
        if kappa[later + j] > 0.0 and _is_sure(count):
            sure = j
            break
    past = 0.0, 0.0, _about(a0, step, 0.0, 0.0)
    for j in range(W - later - 1, -1, -1):
        count = now[e - 1 - j, k] if j < e else before[W + e - 1 - j, k]
        weight = kappa[later + j]
        if weight == 0.0 or count[MEAN] == 0.0:
            continue
        past = _with_epoch(a0, step, count, weight, j <= sure, past)
    return past


@inlined
def add_row(moments, k, q, sign, step):
    """Add a Bernoulli(q) with weight ``step`` to component ``k``, or (``sign`` -1) remove it."""
    moments[k, MEAN] += sign * step * q
    moments[k, VAR] += sign * step * step * q * (1.0 - q)
    moments[k, LOG_ZERO] += sign * math.log1p(-min(q, 1.0 - _SURE))


@kernel
def moments_of_rows(q, out):
    """Moments of the counts of an epoch; ``q`` (N, K), ``out`` (K, 3)."""
    out[:] = 0.0
    for i in range(q.shape[0]):
        for k in range(q.shape[1]):
            if q[i, k] > 0.0:
                add_row(out, k, q[i, k], 1.0, 1.0)


@kernel
def decay_moments(before, now, kappa, out):
    """Moments (E + 1, K, 3) of the decayed past of every epoch of a window and of the next."""
    W, K = before.shape[:2]
    out[:] = 0.0
    for e in range(out.shape[0]):
        for d in range(W):
            s = e - 1 - d
            if kappa[d] == 0.0:
                continue
            for k in range(K):
                part = now[s, k] if s >= 0 else before[W + s, k]
                out[e, k, MEAN] += kappa[d] * part[MEAN]
                out[e, k, VAR] += kappa[d] * kappa[d] * part[VAR]
                out[e, k, LOG_ZERO] += part[LOG_ZERO]


@kernel
def add_entropies(q, out):
    """Add -q log q of all rows to each component; ``q`` (N, K), ``out`` (K,)."""
    for i in range(q.shape[0]):
        for k in range(q.shape[1]):
            if 0.0 < q[i, k] < 1.0:
                out[k] -= q[i, k] * math.log(q[i, k])


@kernel
def add_shares(q, rows, takers, shares, moments, entropy):
    """Update components' moments and entropies by additional shares of rows.

    ``q`` (N, K): assignments; component ``takers[j]`` gains share ``shares[i, j]`` of row
    ``rows[i]``. ``moments`` (T, 3) of the counts of the takers, ``entropy`` (T,): updated.
    """
    for i in range(len(rows)):
        for j in range(len(takers)):
            if shares[i, j] > 0.0:
                old = q[rows[i], takers[j]]
                new = old + shares[i, j]
                if old > 0.0:
                    add_row(moments, j, old, -1.0, 1.0)
                    if old < 1.0:
                        entropy[j] += old * math.log(old)
                add_row(moments, j, new, 1.0, 1.0)
                if new < 1.0:
                    entropy[j] -= new * math.log(new)


@kernel
def moments_of_pairs(columns, a, b, out, entropy):
    """Moments (P, 3) of pairs of ``columns`` (K, N) as one; add their entropies."""
    out[:] = 0.0
    for p in range(len(a)):
        one, other = columns[a[p]], columns[b[p]]
        for i in range(len(one)):
            share = min(one[i] + other[i], 1.0)
            if share > 0.0:
                add_row(out, p, share, 1.0, 1.0)
                if share < 1.0:
                    entropy[p] -= share * math.log(share)


@column
def _own_removed(a0, count, older, own):
    """E log(a0 + X) of a component, without a row's ``own`` part in the epoch's ``count``."""
    w, y, v = _given_any_other(count, own)
    value = older[_VALUE]
    if w > 0.0:
        z = a0 + older[MEAN] + y
        value += w * (math.log(z) - 0.5 * (older[VAR] + v) / (z * z) - value)
    return value


@kernel
def _look_ahead(a0, kappa, now, older, e, k, d, own):
    """E f(X' + m) - E f(X'), docs/math/temporal.md (4): a row's effect on counts d epochs later.

    f is the step of `_about` by the row's weight there.
    """
    step, sure = kappa[d - 1], e
    for s in range(e + d - 1, e, -1):
        if _is_sure(now[s, k]):
            sure = s
            break
    mean, var, value = older[d, k, MEAN], older[d, k, VAR], older[d, k, _VALUE]
    if sure == e:
        w, y, v = _given_any_other(now[e, k], own)
        if w > 0.0:
            value += w * (_about(a0, step, mean + step * y, var + step * step * v) - value)
    mean += step * max(0.0, now[e, k, MEAN] - own)
    var += step * step * max(0.0, now[e, k, VAR] - own * (1.0 - own))
    past = mean, var, value
    for s in range(e + 1, e + d):
        past = _with_epoch(a0, step, now[s, k], kappa[e + d - s - 1], s >= sure, past)
    mean, var, value = past
    count = now[e + d, k]
    w, y, v = _given_any(count[MEAN], count[VAR], count[LOG_ZERO])
    return w * (_about(a0, step, mean + y, var + v) - value) if w > 0.0 else 0.0


@inlined
def _look_ahead_all(a0, kappa, now, older, e, k, own):
    """Look-ahead of a row of component k over all later epochs."""
    total = 0.0
    for d in range(1, len(older)):
        if now[e + d, k, MEAN] > _SILENT:
            total += _look_ahead(a0, kappa, now, older, e, k, d, own)
    return total


@unchecked
def sweep_epoch(q, ell, e, now, before, kappa, a0, stale, least, score):
    """Coordinate ascent, docs/math/temporal.md (4), over the rows of epoch ``e`` in their order.

    ``q`` (N, K): assignments (updated); ``ell`` (N, K): expected log likelihoods. Moments: ``now``
    (E, K, 3) of the window's counts (updated), ``before`` (W, K, 3). A count's messages are
    recomputed when its mean has moved by a fraction ``stale`` (0: for each row). A share below
    ``least`` times that of the likeliest component counts as zero.
    """
    N, K = q.shape
    nothing = math.log(least) if least > 0.0 else -np.inf
    older = np.empty((1 + min(np.count_nonzero(kappa), len(now) - 1 - e), K, 3))
    for d in range(len(older)):
        for k in range(K):
            step = 1.0 if d == 0 else kappa[d - 1]
            older[d, k] = expected_past(a0, step, before, now, kappa, e, k, d)
    most = np.zeros(K)
    for i in range(N):
        for k in range(K):
            most[k] = max(most[k], q[i, k])
    without, slope = np.zeros(K), np.zeros(K)
    seen, base = np.full(K, -1.0), np.empty(K)
    moved, n_moved = np.arange(K), K  # components with changed counts since the last row
    for i in range(N):
        if stale > 0.0:
            for k in moved[:n_moved]:
                if seen[k] < 0.0 or abs(now[e, k, MEAN] - seen[k]) > stale * seen[k]:
                    seen[k] = now[e, k, MEAN]
                    without[k] = _look_ahead_all(a0, kappa, now, older, e, k, 0.0)
                    slope[k] = 0.0
                    if most[k] > _TINY:
                        full = _look_ahead_all(a0, kappa, now, older, e, k, most[k])
                        slope[k] = (full - without[k]) / most[k]
                    base[k] = without[k] + _own_removed(a0, now[e, k], older[0, k], 0.0)
        top = -np.inf
        for k in range(K):
            own = q[i, k]
            if own == 0.0 and stale > 0.0:
                s = base[k]
            else:
                s = _own_removed(a0, now[e, k], older[0, k], own)
                if stale > 0.0:
                    s += without[k] + slope[k] * own
                else:
                    s += _look_ahead_all(a0, kappa, now, older, e, k, own)
            score[k] = ell[i, k] + s
            top = max(top, score[k])
        total = 0.0
        for k in range(K):
            score[k] = math.exp(score[k] - top) if score[k] - top > nothing else 0.0
            total += score[k]
        n_moved = 0
        for k in range(K):
            if score[k] == 0.0 and q[i, k] == 0.0:
                continue
            new, old = score[k] / total, q[i, k]
            if new == old:
                continue
            moved[n_moved] = k
            n_moved += 1
            now[e, k, MEAN] += new - old
            now[e, k, VAR] += new * (1.0 - new) - old * (1.0 - old)
            now[e, k, LOG_ZERO] += math.log1p(-min(new, 1.0 - _SURE))
            now[e, k, LOG_ZERO] -= math.log1p(-min(old, 1.0 - _SURE))
            q[i, k] = new
            most[k] = max(most[k], new)
    moments_of_rows(q, now[e])


@kernel
def count_terms(before, now, kappa, a0, out):
    """E log Gamma(a0 + X' + m) - E log Gamma(a0 + X') by moments as of `decay_moments`, (E, K)."""
    for k in range(now.shape[1]):
        for e in range(now.shape[0]):
            count = now[e, k]
            w, y, v = _given_any(count[MEAN], count[VAR], count[LOG_ZERO])
            out[e, k] = 0.0
            if w > 0.0:
                mean, var, value = expected_past(a0, 0.0, before, now, kappa, e, k, 0)
                out[e, k] = w * (_about(a0, 0.0, mean + y, var + v) - value)


@kernel
def terms_of_kernels(before, now, kernels, a0, out):
    """Fill `count_terms` (G, E, K) under each of the weights ``kernels`` (G, W)."""
    for g in range(len(kernels)):
        count_terms(before, now, kernels[g], a0, out[g])


@column
def seat_row(q, log_new, says, K, negligible, least, past, size, scores, chances):
    """Assign a row of the open epoch, docs/math/temporal.md (14), or open a component for it.

    Every kernel that seats rows ends each row here, and needs room for one more component. ``q``
    (C,): log weights plus log predictives of the K components, then the assignment; ``log_new``:
    the same for a new one. A row without values or words (``says`` false) opens only the first.
    ``past, size`` (C,): decayed past counts, and expected rows so far (updated). Out: ``scores``
    (1,), -log predictive density up to the log of the total weight; ``chances`` (2,), of a new
    component, and of one with hardly any past. Returns K, or K + 1 if column K was opened.
    """
    best = -np.inf
    for k in range(K):
        best = max(best, q[k])
    top = max(log_new, best)
    opens = top == log_new and (says or K == 0)
    if not opens:
        least *= math.exp(best - top)
    mass, young, kept = 0.0, 0.0, 0.0
    for k in range(K):
        part = math.exp(q[k] - top) if q[k] - top > negligible else 0.0
        mass += part
        if past[k] < _HELD:
            young += part
        q[k] = part if part > least else 0.0
        kept += q[k]
    part = math.exp(log_new - top)
    scores[0] = -(top + math.log(mass + part))
    chances[0] = part / (mass + part)
    chances[1] = (young + part) / (mass + part)
    if opens:
        q[:K], q[K] = 0.0, 1.0
        past[K], size[K] = 0.0, 1.0
        return K + 1
    for k in range(K):
        q[k] /= kept
        size[k] += q[k]
    return K
