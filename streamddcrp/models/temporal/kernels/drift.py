"""Gaussian components whose means drift: Kalman filter, smoother and evidence, column by column.

x | phi ~ N(phi, R), phi_t ~ N(phi_{t-1}, Q), phi at birth ~ N(m0, P0), with R, Q and P0 diagonal.
An epoch with n expected rows of mean x̄ is one observation of variance R / n. A value that is NaN
is missing: it is left out of n, column by column.
"""

import math

import numpy as np

from streamddcrp.compilation import inner, kernel

_NONE = 1e-8  # expected rows below which an epoch says nothing
_NOTHING = -40.0  # log of a share of a row that rounding would lose
_HELD = 0.5  # decayed rows from which a component was there in the past
_LOG_2PI = math.log(2.0 * math.pi)


@kernel
def drift_stats(X, centre, q, size, count, total, square):
    """Add up rows (N, D) about ``centre`` (D,) under assignments (N, K).

    Out: ``size`` (K,) expected rows; ``count``, ``total``, ``square`` (K, D): how many values there
    are, their sums and squares.
    """
    size[:] = 0.0
    count[:] = 0.0
    total[:] = 0.0
    square[:] = 0.0
    D = X.shape[1]
    gap, there = np.empty(D), np.empty(D)
    for i in range(X.shape[0]):
        for c in range(D):
            missing = math.isnan(X[i, c])
            there[c] = 0.0 if missing else 1.0
            gap[c] = 0.0 if missing else X[i, c] - centre[c]
        for k in range(q.shape[1]):
            w = q[i, k]
            if w > 0.0:
                size[k] += w
                for c in range(D):
                    count[k, c] += w * there[c]
                    total[k, c] += w * gap[c]
                    square[k, c] += w * gap[c] * gap[c]


@kernel
def two_means(x, w):
    """Part weighted numbers (N,) in two by their means; return these, or NaN if all are one.

    Numbers that weigh a tenth at most do not say where the search begins.
    """
    low, high = np.inf, -np.inf
    n = 0
    for i in range(len(x)):
        if w[i] > 0.1:
            low, high = min(low, x[i]), max(high, x[i])
            n += 1
    if n < 2:
        return np.nan, np.nan
    for _ in range(20):
        cut = 0.5 * (low + high)
        below, above, sum_below, sum_above = 0.0, 0.0, 0.0, 0.0
        for i in range(len(x)):
            if x[i] > cut:
                above += w[i]
                sum_above += w[i] * x[i]
            else:
                below += w[i]
                sum_below += w[i] * x[i]
        if above <= 0.0 or below <= 0.0:
            return np.nan, np.nan
        was = cut
        low, high = sum_below / below, sum_above / above
        if 0.5 * (low + high) == was:
            break
    return low, high


@kernel
def kalman(
    count, total, square, begins, start_mean, start_var, birth_mean, birth_var, drift, noise,
    filtered_mean, filtered_var, mean, var, lagged, log_z,
):  # fmt: skip
    """Filter and smooth every component over the epochs of a window.

    Parameters
    ----------
    count, total, square : ndarray, shape (E, K, D)
        Expected numbers of values, their sums and squares.
    begins : ndarray of int64, shape (K,)
        Epoch of the window in which the chain begins; -1: before, at ``start`` (K, D).
    birth_mean, birth_var, drift, noise : ndarray, shape (D,)
        m0, P0, Q, R.
    filtered_mean, filtered_var, mean, var, lagged : ndarray, shape (E, K, D)
        Out: filtered and smoothed moments, covariance with the epoch before.
    log_z : ndarray, shape (E, K)
        Out: log evidence of each epoch's rows given those before.
    """
    E, K, D = total.shape
    for k in range(K):
        first = max(begins[k], 0)
        log_z[:, k] = 0.0
        for c in range(D):
            R = noise[c]
            for e in range(E):
                if e < first:
                    filtered_mean[e, k, c], filtered_var[e, k, c] = birth_mean[c], birth_var[c]
                    continue
                if e == first and begins[k] >= 0:
                    m, P = birth_mean[c], birth_var[c]
                elif e == 0:
                    m, P = start_mean[k, c], start_var[k, c] + drift[c]
                else:
                    m, P = filtered_mean[e - 1, k, c], filtered_var[e - 1, k, c] + drift[c]
                n = count[e, k, c]
                if n > _NONE:
                    centre = total[e, k, c] / n
                    V = P + R / n
                    gain = P / V
                    gap = centre - m
                    scatter = max(0.0, square[e, k, c] - n * centre * centre)
                    log_z[e, k] -= 0.5 * (
                        n * _LOG_2PI + math.log(n) + math.log(V) + gap * gap / V
                        + (n - 1.0) * math.log(R) + scatter / R
                    )  # fmt: skip
                    m += gain * gap
                    P = R / n * gain
                filtered_mean[e, k, c], filtered_var[e, k, c] = m, P
            for e in range(E - 1, -1, -1):
                m, P = filtered_mean[e, k, c], filtered_var[e, k, c]
                if e < E - 1 and e >= first:
                    ahead = P + drift[c]
                    J = P / ahead
                    lagged[e + 1, k, c] = var[e + 1, k, c] * J
                    m += J * (mean[e + 1, k, c] - m)
                    P += J * J * (var[e + 1, k, c] - ahead)
                mean[e, k, c], var[e, k, c] = m, P
            lagged[: first + 1, k, c] = 0.0


@inner
def _of_what_is_there(x, mean, var, noise):
    """Return E log N(x | phi, R) of the values of ``x`` (D,) that are not missing."""
    out = 0.0
    for c in range(len(x)):
        gap = x[c] - mean[c]
        if not math.isnan(gap):
            out -= 0.5 * (_LOG_2PI + math.log(noise[c]) + (gap * gap + var[c]) / noise[c])
    return out


@kernel
def drift_expected(X, mean, var, noise, begins, epoch, out):
    """E log N(x | phi, R) for rows (N, D) at smoothed moments (K, D); -inf before birth."""
    N, D = X.shape
    K = mean.shape[0]
    flat = 0.0
    for c in range(D):
        flat -= 0.5 * (_LOG_2PI + math.log(noise[c]))
    for k in range(K):
        if begins[k] > epoch:
            out[:, k] = -np.inf
            continue
        base = flat
        for c in range(D):
            base -= 0.5 * var[k, c] / noise[c]
        for i in range(N):
            total = 0.0
            for c in range(D):
                gap = X[i, c] - mean[k, c]
                total += gap * gap / noise[c]
            out[i, k] = base - 0.5 * total
            if math.isnan(total):
                out[i, k] = _of_what_is_there(X[i], mean[k], var[k], noise)


@kernel
def part_in_two(
    rounds, X, first, own, a0, kappa, before, begins, start_mean, start_var, birth_mean, birth_var,
    drift, noise, shared, filtered_mean, filtered_var, mean, var, lagged, log_z,
):  # fmt: skip
    """Share the rows of a component between two that it may be, smoothing them in between.

    Parameters
    ----------
    rounds : int
    X : ndarray, shape (N, D)
        Rows of the component in all epochs of the window.
    first : ndarray of int64, shape (E + 1,)
        First row of every epoch, and N.
    own : ndarray, shape (N, 1)
        What the component has of each row.
    a0 : float
    kappa : ndarray, shape (W,)
    before : ndarray, shape (W, 2)
        Expected rows of the epochs before the window.
    begins, start_mean, .., noise, filtered_mean, .., log_z
        As in `kalman`, for two components.
    shared : ndarray, shape (N, 2)
        What the two have (updated).
    """
    E, W, D = len(first) - 1, len(kappa), X.shape[1]
    size = np.empty((E, 2))
    count, total, square = np.empty((3, E, 2, D))
    log_weight = np.empty(2)
    for r in range(rounds + 1):
        for e in range(E):
            drift_stats(
                X[first[e] : first[e + 1]], birth_mean, shared[first[e] : first[e + 1]], size[e],
                count[e], total[e], square[e],
            )  # fmt: skip
        kalman(
            count, total, square, begins, start_mean, start_var, np.zeros(D), birth_var, drift,
            noise, filtered_mean, filtered_var, mean, var, lagged, log_z,
        )  # fmt: skip
        if r == rounds:
            return
        for e in range(max(begins[0], 0), E):
            for k in range(2):
                weight = a0 + size[e, k]
                for d in range(W):
                    weight += kappa[d] * (size[e - 1 - d, k] if d < e else before[W + e - 1 - d, k])
                log_weight[k] = math.log(weight)
                for c in range(D):
                    log_weight[k] -= 0.5 * var[e, k, c] / noise[c]
            if begins[1] > e:
                log_weight[1] = -np.inf
            for i in range(first[e], first[e + 1]):
                gain = log_weight[1] - log_weight[0]
                for c in range(D):
                    x = X[i, c] - birth_mean[c]
                    near, far = x - mean[e, 0, c], x - mean[e, 1, c]
                    if math.isnan(x):
                        gain += 0.5 * (var[e, 1, c] - var[e, 0, c]) / noise[c]
                    else:
                        gain += 0.5 * (near * near - far * far) / noise[c]
                if gain > 0.0:
                    leaves = 1.0 / (1.0 + math.exp(-gain))
                    stays = math.exp(-gain) * leaves
                else:
                    stays = 1.0 / (1.0 + math.exp(gain))
                    leaves = math.exp(gain) * stays
                shared[i, 0], shared[i, 1] = own[i, 0] * stays, own[i, 0] * leaves


@kernel
def drift_predictive(x, count, total, mean, var, noise):
    """Log p(x) at a component predicted as N(mean, var) that has since taken ``count`` values."""
    out = 0.0
    for c in range(len(x)):
        if math.isnan(x[c]):
            continue
        m, P = mean[c], var[c]
        n = count[c]
        if n > _NONE:
            gain = P / (P + noise[c] / n)
            m += gain * (total[c] / n - m)
            P = noise[c] / n * gain
        V = P + noise[c]
        gap = x[c] - m
        out -= 0.5 * (_LOG_2PI + math.log(V) + gap * gap / V)
    return out


@kernel
def _seat_terms(weight, count, total, mean, var, noise, centre, spread):
    """Mean and variance (D,) of the next row of a component; return what does not depend on it."""
    out = math.log(weight)
    for c in range(len(noise)):
        m, P = mean[c], var[c]
        n = count[c]
        if n > _NONE:
            gain = P / (P + noise[c] / n)
            m += gain * (total[c] / n - m)
            P = noise[c] / n * gain
        centre[c], spread[c] = m, P + noise[c]
        out -= 0.5 * (_LOG_2PI + math.log(spread[c]))
    return out


@kernel
def seat_at_drift(
    X, start, K, a0, log_new, past, size, count, total, mean, var, birth_mean, birth_var, noise, q,
    scores, chances,
):  # fmt: skip
    """Seat rows one after the other; open a component where a new one is the likeliest.

    Parameters
    ----------
    X : ndarray, shape (N, D)
    start, K : int
        First row to be seated, and the number of components.
    a0, log_new : float
        Pseudo-count of a slot, log weight of all unused slots.
    past : ndarray, shape (C,)
        Decayed past counts.
    size, count, total : ndarray, shapes (C,), (C, D) and (C, D)
        Expected rows of this epoch so far, their values and the sums of these (updated).
    mean, var : ndarray, shape (C, D)
        Predicted moments of this epoch.
    q : ndarray, shape (N, C)
        Out: assignments.
    scores : ndarray, shape (N,)
        Out: -log predictive density, but for the log of the total weight.
    chances : ndarray, shape (N, 2)
        Out: probability of a new component, and of one that the past hardly holds.

    Returns
    -------
    done, K : int
        ``done`` is less than N where a component was wanted and there is no room for it.
    """
    N, D = X.shape
    C = size.shape[0]
    zeros = np.zeros(D)
    base, centre, spread = np.empty(C), np.empty((C, D)), np.empty((C, D))
    for k in range(K):
        base[k] = _seat_terms(
            a0 + past[k] + size[k], count[k], total[k], mean[k], var[k], noise, centre[k], spread[k]
        )
    for i in range(start, N):
        new = log_new + drift_predictive(X[i], zeros, zeros, birth_mean, birth_var, noise)
        top = new
        for k in range(K):
            s = base[k]
            for c in range(D):
                gap = X[i, c] - centre[k, c]
                s -= 0.5 * gap * gap / spread[k, c]
            if math.isnan(s):
                s = math.log(a0 + past[k] + size[k])
                s += _of_what_is_there(X[i], centre[k], zeros, spread[k])
            q[i, k] = s
            top = max(top, s)
        if top == new and K == C:
            return i, K
        mass, young = 0.0, 0.0
        for k in range(K):
            part = math.exp(q[i, k] - top)
            mass += part
            if past[k] < _HELD:
                young += part
        part = math.exp(new - top)
        scores[i] = -(top + math.log(mass + part))
        chances[i, 0] = part / (mass + part)
        chances[i, 1] = (young + part) / (mass + part)
        if top == new:
            q[i, :K] = 0.0
            mean[K], var[K] = birth_mean, birth_var
            past[K] = 0.0
            size[K] = 0.0
            count[K] = 0.0
            total[K] = 0.0
            q[i, K] = 1.0
            K += 1
        else:
            for k in range(K):
                q[i, k] = math.exp(q[i, k] - top) / mass if q[i, k] - top > _NOTHING else 0.0
        for k in range(K):
            if q[i, k] == 0.0:
                continue
            size[k] += q[i, k]
            for c in range(D):
                if not math.isnan(X[i, c]):
                    count[k, c] += q[i, k]
                    total[k, c] += q[i, k] * X[i, c]
            base[k] = _seat_terms(
                a0 + past[k] + size[k], count[k], total[k], mean[k], var[k], noise, centre[k],
                spread[k],
            )  # fmt: skip
    return N, K
