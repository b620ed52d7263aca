"""Logistic-normal word distributions that drift: an iterated Kalman smoother, word by word.

The bound of a component's rows under chains q with means m and variances s (temporal_dpm.md, 7c) is

    sum_tw C_tw m_tw - sum_t n_t log sum_w exp(m_tw + s_tw / 2) - KL(q | prior).

At its peak q is the posterior of the prior chain under one pseudo-observation for each word and
epoch, of precision W = n_t softmax(m + s / 2) and precision times value h = W m + C - W. The
iteration mixes old and new pseudo-observations, half as many of the new whenever the bound would
fall.
"""

import math

import numpy as np

from streamddcrp.compilation import kernel
from streamddcrp.models.temporal.kernels.counts import seat_row

_HALVINGS = 12
_FIRST = 0.5  # added to counts where an iteration starts


@kernel
def _chain(
    h, W, first, start_mean, start_var, born, birth_var, drift, filtered, spread, m, s, part
):
    """Smooth the chains of all words under pseudo-observations ``h, W`` (E, V).

    ``filtered, spread, m, s`` out: filtered and smoothed moments. ``part`` (E,): log evidence of
    the pseudo-observations of each epoch less their expectation, so that its sum is -KL.
    """
    E, V = h.shape
    part[:] = 0.0
    for w in range(V):
        for e in range(E):
            if e < first:
                filtered[e, w], spread[e, w] = 0.0, birth_var
                continue
            if e == first and born:
                a, P = 0.0, birth_var
            elif e == 0:
                a, P = start_mean[w], start_var[w] + drift
            else:
                a, P = filtered[e - 1, w], spread[e - 1, w] + drift
            gain = 1.0 / (1.0 + W[e, w] * P)
            part[e] += 0.5 * (
                math.log(gain) + gain * (h[e, w] * (h[e, w] * P + 2.0 * a) - W[e, w] * a * a)
            )
            filtered[e, w], spread[e, w] = gain * (a + P * h[e, w]), gain * P
        for e in range(E - 1, -1, -1):
            m[e, w], s[e, w] = filtered[e, w], spread[e, w]
            if first <= e < E - 1:
                J = spread[e, w] / (spread[e, w] + drift)
                m[e, w] += J * (m[e + 1, w] - filtered[e, w])
                s[e, w] += J * J * (s[e + 1, w] - spread[e, w] - drift)
            part[e] -= h[e, w] * m[e, w] - 0.5 * W[e, w] * (m[e, w] * m[e, w] + s[e, w])


@kernel
def _log_sum(m, s):
    """Return log sum_w exp(m_w + s_w / 2)."""
    top = -np.inf
    for w in range(len(m)):
        top = max(top, m[w] + 0.5 * s[w])
    total = 0.0
    for w in range(len(m)):
        total += math.exp(m[w] + 0.5 * s[w] - top)
    return top + math.log(total)


@kernel
def _add_rows(C, m, s, part):
    """Add the expected log likelihood of the counts of each epoch; return the sum of it all."""
    total = 0.0
    for e in range(C.shape[0]):
        n = C[e].sum()
        if n > 0.0:
            part[e] += (C[e] * m[e]).sum() - n * _log_sum(m[e], s[e])
        total += part[e]
    return total


@kernel
def _level(m, start_mean, start_var, born, birth_var, drift):
    """Return by how much all means (V,) should move for the prior, the counts being indifferent.

    Of the first epoch. Without this the common level is slow to settle.
    """
    above, below = 0.0, 0.0
    for w in range(len(m)):
        if born:
            above -= m[w] / birth_var
            below += 1.0 / birth_var
        else:
            above += (start_mean[w] - m[w]) / (start_var[w] + drift)
            below += 1.0 / (start_var[w] + drift)
    return above / below


@kernel
def _observe(C, m, s, level, h, W):
    """Set the pseudo-observations that the counts make at given moments, ``level`` higher."""
    for e in range(C.shape[0]):
        n = C[e].sum()
        log_sum = _log_sum(m[e], s[e])
        for w in range(C.shape[1]):
            W[e, w] = n * math.exp(m[e, w] + 0.5 * s[e, w] - log_sum)
            h[e, w] = W[e, w] * (m[e, w] + level - 1.0) + C[e, w]


@kernel
def _climb(
    C, first, start_mean, start_var, born, birth_var, drift, tol, n_iter, h, W, filtered, spread, m,
    s, part,
):  # fmt: skip
    """Climb the bound of one component from the pseudo-observations ``h, W``; return it."""
    E, V = C.shape
    _chain(h, W, first, start_mean, start_var, born, birth_var, drift, filtered, spread, m, s, part)
    bound = _add_rows(C, m, s, part)
    new_h, new_W, mixed_h, mixed_W = np.empty((4, E, V))
    new_filtered, new_spread, new_m, new_s = np.empty((4, E, V))
    new_part = np.empty(E)
    for _ in range(n_iter):
        level = _level(m[first], start_mean, start_var, born, birth_var, drift)
        _observe(C, m, s, level, new_h, new_W)
        step, risen = 1.0, -1.0
        for _ in range(_HALVINGS):
            mixed_h[:] = h + step * (new_h - h)
            mixed_W[:] = W + step * (new_W - W)
            _chain(
                mixed_h, mixed_W, first, start_mean, start_var, born, birth_var, drift,
                new_filtered, new_spread, new_m, new_s, new_part,
            )  # fmt: skip
            found = _add_rows(C, new_m, new_s, new_part)
            if found >= bound:
                risen = found - bound
                break
            step *= 0.5
        if risen < 0.0:
            break
        bound = found
        h[:], W[:], m[:], s[:], part[:] = mixed_h, mixed_W, new_m, new_s, new_part
        filtered[:], spread[:] = new_filtered, new_spread
        if risen < tol:
            break
    return bound


@kernel
def smooth_chains(
    counts, begins, start_mean, start_var, birth_var, drift, tol, n_iter, filtered, spread, m, s,
    log_z,
):  # fmt: skip
    """Fit every component to its expected counts (E, K, V) over a window.

    A chain begins in epoch ``begins`` (K,); at -1 before the window, at ``start`` (K, V).
    ``birth_var, drift``: variance of log weights at birth, and of their step between epochs. An
    iteration, ``n_iter`` at most, must gain ``tol`` nats for another to follow. Out: ``filtered,
    spread, m, s`` (E, K, V), filtered and smoothed moments; ``log_z`` (E, K), bound of the log
    evidence as the epochs add to it.
    """
    E, K, V = counts.shape
    h, W = np.empty((E, V)), np.empty((E, V))
    at, none = np.empty((E, V)), np.zeros((E, V))
    parts = np.empty((4, E, V))
    part = np.empty(E)
    for k in range(K):
        C = np.ascontiguousarray(counts[:, k])
        born = begins[k] >= 0
        if born:
            where = np.log(C.sum(axis=0) + _FIRST)
            where -= where.mean()
        else:
            where = start_mean[k]
        for e in range(E):
            at[e] = where
        _observe(C, at, none, 0.0, h, W)
        _climb(
            C, max(begins[k], 0), start_mean[k], start_var[k], born, birth_var, drift, tol, n_iter,
            h, W, parts[0], parts[1], parts[2], parts[3], part,
        )  # fmt: skip
        filtered[:, k], spread[:, k], m[:, k], s[:, k] = parts[0], parts[1], parts[2], parts[3]
        log_z[:, k] = part


@kernel
def log_normalisers(m, s, out):
    """Fill log sum_w exp(m_w + s_w / 2) of every component; moments (K, V), ``out`` (K,)."""
    for k in range(len(out)):
        out[k] = _log_sum(m[k], s[k])


@kernel
def logistic_expected(offsets, words, counts, m, normaliser, out):
    """Fill expected log likelihoods (N, K), to a bound, of rows at means (K, V)."""
    for i in range(out.shape[0]):
        for k in range(out.shape[1]):
            total, n = 0.0, 0.0
            for p in range(offsets[i], offsets[i + 1]):
                total += counts[p] * m[k, words[p]]
                n += counts[p]
            out[i, k] = total - n * normaliser[k]


@kernel
def prior_evidence(counts, V, birth_var, n_iter):
    """Bound the log evidence of one row, of which ``counts`` are not zero, under the law at birth.

    All words that are not in the row share their moments, so that the cost is the row's length.
    """
    n, d = counts.sum(), len(counts)
    if n == 0.0:
        return 0.0
    rest = float(V - d)
    m, s = np.log(counts + _FIRST), np.full(d, 0.0)
    m0, s0 = math.log(_FIRST), 0.0
    centre = (m.sum() + rest * m0) / V
    m -= centre
    m0 -= centre
    best = -np.inf
    h, W = np.zeros(d), np.zeros(d)
    h0, W0, step = 0.0, 0.0, 1.0
    for it in range(n_iter):
        total = rest * math.exp(m0 + 0.5 * s0)
        for j in range(d):
            total += math.exp(m[j] + 0.5 * s[j])
        bound = -n * math.log(total)
        for j in range(d):
            bound += counts[j] * m[j]
            bound -= 0.5 * (
                (m[j] * m[j] + s[j]) / birth_var - 1.0 - math.log(max(s[j], 1e-300) / birth_var)
            )
        bound -= (
            0.5 * rest
            * ((m0 * m0 + s0) / birth_var - 1.0 - math.log(max(s0, 1e-300) / birth_var))
        )  # fmt: skip
        if it > 0:
            if bound < best:
                step *= 0.5
            best = max(best, bound)
        share = 1.0 if it == 0 else step
        p0 = n * math.exp(m0 + 0.5 * s0) / total
        W0 += share * (p0 - W0)
        h0 += share * (p0 * m0 - p0 - h0)
        for j in range(d):
            p = n * math.exp(m[j] + 0.5 * s[j]) / total
            W[j] += share * (p - W[j])
            h[j] += share * (p * m[j] + counts[j] - p - h[j])
        s0 = 1.0 / (1.0 / birth_var + W0)
        m0 = s0 * h0
        for j in range(d):
            s[j] = 1.0 / (1.0 / birth_var + W[j])
            m[j] = s[j] * h[j]
    return best


@kernel
def seat_logistic(
    offsets, words, counts, start, K, a0, log_new, least, birth_var, drift, tol, n_iter, past, size,
    total, mean, var, m, s, h, W, normaliser, q, scores, chances,
):  # fmt: skip
    """Assign rows one after the other, each by `seat_row`; as `seat_drift` does.

    ``normaliser`` (C,), ``total, mean, var, m, s, h, W`` (C, V): of the components, counts of this
    epoch so far, predicted moments, and moments and pseudo-observations now.
    """
    N, C, V = len(scores), m.shape[0], m.shape[1]
    parts, part = np.empty((4, 1, V)), np.empty(1)
    for i in range(start, N):
        if C == K:
            return i, K
        begin, end = offsets[i], offsets[i + 1]
        n = counts[begin:end].sum()
        new = log_new + prior_evidence(counts[begin:end], V, birth_var, n_iter)
        for k in range(K):
            q[i, k] = math.log(a0 + past[k] + size[k]) - n * normaliser[k]
            for p in range(begin, end):
                q[i, k] += counts[p] * m[k, words[p]]
        mean[K], var[K], total[K], h[K], W[K] = 0.0, birth_var, 0.0, 0.0, 0.0  # may be opened
        K = seat_row(
            q[i], new, n > 0.0, K, -np.inf, least, past, size, scores[i : i + 1], chances[i]
        )
        for k in range(K):
            if q[i, k] == 0.0:
                continue
            for p in range(begin, end):
                total[k, words[p]] += q[i, k] * counts[p]
            _climb(
                total[k : k + 1], 0, mean[k], var[k] - drift, False, birth_var, drift, tol, n_iter,
                h[k : k + 1], W[k : k + 1], parts[0], parts[1], parts[2], parts[3], part,
            )  # fmt: skip
            m[k], s[k] = parts[2, 0], parts[3, 0]
            normaliser[k] = _log_sum(m[k], s[k])
    return N, K
