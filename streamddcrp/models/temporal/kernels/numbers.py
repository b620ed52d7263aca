"""Numeric rows: Gaussian components with drifting means, and conjugate ones that forget.

Gaussian: Kalman filter, smoother and evidence, column by column. x | phi ~ N(phi, R), phi_t ~
N(phi_{t-1}, Q), phi at birth ~ N(m0, P0), with R, Q and P0 diagonal. An epoch with n expected rows
of mean x̄ is one observation of variance R / n. NaN is a missing value and is not counted in n,
column by column.

Conjugate: a component's knowledge is a vector of sufficient statistics, S_t = rho S_{t-1} + C_t:
between epochs the posterior's natural parameters move towards the prior's, ``rho eta + (1 - rho)
eta_0`` (docs/math/temporal.md (12)). Families are those of `streamddcrp.likelihoods`, by code.
"""

import math

import numpy as np

from streamddcrp.compilation import column, inlined, inner, kernel, unchecked
from streamddcrp.likelihoods.kernels import families
from streamddcrp.models.temporal.kernels.counts import seat_row

_NONE = 1e-8  # expected rows below which an epoch has no influence
_LEAST = math.exp(-40.0)  # a share of a row that rounding would lose
_LOG_2PI = math.log(2.0 * math.pi)
NOISE, DRIFT, BIRTH = 0, 1, 2  # first axis of `scale_sums`
SEEN = 0.5  # expected rows from which an epoch counts for the scales
HALF = 0.5 - 1e-9  # of the rows: rounding must not decide the median


@kernel
def drift_stats(X, q, size, count, total, square):
    """Sum values of rows (N, D) about the mean at birth under assignments (N, K)."""
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
            gap[c] = 0.0 if missing else X[i, c]
        for k in range(q.shape[1]):
            w = q[i, k]
            if w > 0.0:
                size[k] += w
                for c in range(D):
                    count[k, c] += w * there[c]
                    total[k, c] += w * gap[c]
                    square[k, c] += w * gap[c] * gap[c]


@kernel
def kalman(stats, begins, starts, law, out):
    """Filter and smooth every component over the epochs of a window: docs/math/temporal.md (11).

    ``stats``: of `drift_stats`. A chain begins in epoch ``begins`` (K,); at -1 before the window,
    at ``starts`` (K, D). ``law``: P0, Q, R. ``out`` (E, K, D): filtered and smoothed moments about
    m0 and ``lagged``, covariances with the epoch before; ``log_z`` (E, K): log evidence of each
    epoch's rows given those before.
    """
    count, total, square = stats.n_values, stats.total, stats.square
    filtered_mean, filtered_var, mean, var = out.filtered_mean, out.filtered_var, out.mean, out.var
    lagged, log_z = out.lagged, out.log_z
    birth_var, drift, noise = law
    E, K, D = total.shape
    for k in range(K):
        first = max(begins[k], 0)
        log_z[:, k] = 0.0
        for c in range(D):
            R = noise[c]
            for e in range(E):
                if e < first:
                    filtered_mean[e, k, c], filtered_var[e, k, c] = 0.0, birth_var[c]
                    continue
                if e == first and begins[k] >= 0:
                    m, P = 0.0, birth_var[c]
                elif e == 0:
                    m, P = starts.mean[k, c], starts.var[k, c] + drift[c]
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
def _expected_of_present(x, mean, var, noise):
    """Return E log N(x | phi, R) of the present values of ``x`` (D,)."""
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
                out[i, k] = _expected_of_present(X[i], mean[k], var[k], noise)


@kernel
def drift_near(mean, var, noise, most, close):
    """Mark pairs of components closer than ``most``, squared in predictive units, in ``close``."""
    K, D = mean.shape
    for a in range(K):
        for b in range(a + 1, K):
            gap = 0.0
            for c in range(D):
                wide = noise[c] + 0.5 * (var[a, c] + var[b, c])
                gap += (mean[a, c] - mean[b, c]) ** 2 / wide
            close[a, b] = gap < most


@inlined
def _predicted(n, total, mean, var, noise):
    """Mean and variance of the next value after ``n`` values of sum ``total``."""
    whole = n * var + noise
    return mean + var / whole * (total - n * mean), noise * (var / whole) + noise


@kernel
def drift_predictive(x, count, total, mean, var, noise):
    """Log p(x) at a component predicted as N(mean, var), after ``count`` further values."""
    out = 0.0
    for c in range(len(x)):
        if not math.isnan(x[c]):
            m, V = _predicted(count[c], total[c], mean[c], var[c], noise[c])
            gap = x[c] - m
            out -= 0.5 * (_LOG_2PI + math.log(V) + gap * gap / V)
    return out


@column
def _seat_terms(weight, count, total, mean, var, noise, centre, spread):
    """Mean and variance (D,) of a component's next row; return the constant of its density."""
    out = math.log(weight)
    for c in range(len(noise)):
        centre[c], spread[c] = _predicted(count[c], total[c], mean[c], var[c], noise[c])
        out -= 0.5 * (_LOG_2PI + math.log(spread[c]))
    return out


@unchecked
def seat_drift(law, X, start, K, a0, log_new, arrays, out):
    """Assign rows one by one with `seat_row`.

    ``law``: P0, Q and R (D,). ``start, K``: first row, and components; ``a0,
    log_new``: pseudo-count of a slot, log weight of all unused ones. ``arrays`` (C, ..), updated:
    ``past, size`` of `seat_row`; values of this epoch so far and their sums, (C, D); predicted
    moments (C, D). ``out``: q (N, C), scores (N,), chances (N, 2), see `seat_row`. Returns rows
    done and components; less than all rows where there is no room for one component more.
    """
    birth_var, _, noise = law
    past, size, count, total, mean, var = arrays
    q, scores, chances = out
    N, D = X.shape
    C = size.shape[0]
    zeros = np.zeros(D)
    base, centre, spread = np.empty(C), np.empty((C, D)), np.empty((C, D))
    for k in range(K):
        base[k] = _seat_terms(
            a0 + past[k] + size[k], count[k], total[k], mean[k], var[k], noise, centre[k], spread[k]
        )
    for i in range(start, N):
        if K == C:
            return i, K
        new = log_new + drift_predictive(X[i], zeros, zeros, zeros, birth_var, noise)
        for k in range(K):
            s = base[k]
            for c in range(D):
                gap = X[i, c] - centre[k, c]
                s -= 0.5 * gap * gap / spread[k, c]
            if math.isnan(s):
                s = math.log(a0 + past[k] + size[k])
                s += _expected_of_present(X[i], centre[k], zeros, spread[k])
            q[i, k] = s
        mean[K], var[K], count[K], total[K] = 0.0, birth_var, 0.0, 0.0  # may be opened
        K = seat_row(
            q[i], new, new != log_new, K, -np.inf, _LEAST, past, size, scores[i : i + 1], chances[i]
        )
        for k in range(K):
            if q[i, k] == 0.0:
                continue
            for c in range(D):
                if not math.isnan(X[i, c]):
                    count[k, c] += q[i, k]
                    total[k, c] += q[i, k] * X[i, c]
            base[k] = _seat_terms(
                a0 + past[k] + size[k], count[k], total[k], mean[k], var[k], noise, centre[k],
                spread[k],
            )  # fmt: skip
    return N, K


@kernel
def scale_sums(stats, smoothed, begins, out):
    """Sum the squares of rows about their means, of steps and of means at birth, for the scales.

    The noise of an epoch is the median of the components' variances, weighted by values: the
    variance of a component that holds two must not count as noise. No step leads into the first
    epoch. ``stats``: of `drift_stats`; ``smoothed``: of `kalman`. ``out`` (3, E, 2, D): by NOISE,
    DRIFT, BIRTH the number and the squares.
    """
    size, n_values, total, square = stats.size, stats.n_values, stats.total, stats.square
    mean, var, lagged = smoothed.mean, smoothed.var, smoothed.lagged
    E, K, D = total.shape
    out[:] = 0.0
    value = np.empty(K)
    for e in range(E):
        for c in range(D):
            there = 0.0
            for k in range(K):
                n, m = n_values[e, k, c], mean[e, k, c]
                value[k] = np.inf
                if n > SEEN:
                    about = square[e, k, c] - 2.0 * total[e, k, c] * m
                    value[k] = max(about + n * (m * m + var[e, k, c]), 0.0) / n
                    there += n
                if begins[k] == e:
                    out[BIRTH, e, 0, c] += 1.0
                    out[BIRTH, e, 1, c] += m * m + var[e, k, c]
                if begins[k] < e and size[e, k] > SEEN and e > 0 and size[e - 1, k] > SEEN:
                    step = (m - mean[e - 1, k, c]) ** 2 + var[e, k, c] + var[e - 1, k, c]
                    out[DRIFT, e, 0, c] += 1.0
                    out[DRIFT, e, 1, c] += max(step - 2.0 * lagged[e, k, c], 0.0)
            reached = 0.0
            for k in np.argsort(value):
                if value[k] == np.inf:
                    break
                reached += n_values[e, k, c]
                if reached >= HALF * there:
                    out[NOISE, e, 0, c] = there
                    out[NOISE, e, 1, c] = there * value[k]
                    break


@kernel
def conjugate_stats(family, hyper, X, q, out):
    """Sum the statistics of rows (N, D) under assignments (N, K) into ``out`` (K, P)."""
    out[:] = 0.0
    row = np.empty(out.shape[1])
    for i in range(X.shape[0]):
        row[:] = 0.0
        families.add_stats(family, hyper, X[i], 1.0, row)
        for k in range(q.shape[1]):
            if q[i, k] > 0.0:
                for p in range(len(row)):
                    out[k, p] += q[i, k] * row[p]


@kernel
def conjugate_evidence(family, hyper, stats, starts, rho, post, out):
    """Log evidence (E, K) of each epoch's rows, ``stats`` (E, K, P), given faded ones before."""
    faded = np.empty(stats.shape[2])
    for k in range(stats.shape[1]):
        faded[:] = starts[k]
        for e in range(stats.shape[0]):
            faded *= rho
            out[e, k] = 0.0
            if stats[e, k, 0] > _NONE:
                families.posterior(family, hyper, faded, post)
                out[e, k] = -post[0]
                faded += stats[e, k]
                families.posterior(family, hyper, faded, post)
                out[e, k] += post[0]


@kernel
def conjugate_expected(family, hyper, X, stats, begins, epoch, post, out):
    """Fill expected log likelihoods (N, K) of rows at ``stats`` (K, P), -inf before birth."""
    K = stats.shape[0]
    families.posteriors(family, hyper, stats, K, post)
    for i in range(X.shape[0]):
        families.expected_log_liks(family, hyper, post, X[i], K, out[i])
    for k in range(K):
        if begins[k] > epoch:
            out[:, k] = -np.inf


@kernel
def seat_conjugate(law, X, start, K, a0, log_new, arrays, out):
    """Assign rows one by one with `seat_row`, as `seat_drift` does."""
    family, hyper, prior, least = law
    past, size, stats, post, log_weight = arrays
    q, scores, chances = out
    N, C = X.shape[0], len(size)
    for k in range(K):
        log_weight[k] = math.log(a0 + past[k] + size[k])  # the same bits as below
    for i in range(start, N):
        if K == C:
            return i, K
        new = log_new + families.log_predictive(family, hyper, prior, X[i])
        families.log_predictives(family, hyper, post, X[i], K, q[i])
        for k in range(K):
            q[i, k] += log_weight[k]
        stats[K] = 0.0  # of the component that may be opened
        K = seat_row(
            q[i], new, new != log_new, K, -np.inf, least, past, size, scores[i : i + 1], chances[i]
        )
        for k in range(K):
            if q[i, k] > 0.0:
                log_weight[k] = math.log(a0 + past[k] + size[k])
                families.add_stats(family, hyper, X[i], q[i, k], stats[k])
                families.posterior(family, hyper, stats[k], post[k])
    return N, K


@kernel
def conjugate_unions(family, hyper, stats, slack, post, close):
    """Mark pairs that may be one component: counts may make up for the evidence they lose."""
    K = stats.shape[0]
    log_m = np.empty(K)
    for k in range(K):
        families.posterior(family, hyper, stats[k], post)
        log_m[k] = post[0] + math.lgamma(stats[k, 0] + _NONE)
    both = np.empty(stats.shape[1])
    for a in range(K):
        for b in range(a + 1, K):
            both[:] = stats[a] + stats[b]
            families.posterior(family, hyper, both, post)
            gain = post[0] + math.lgamma(both[0] + _NONE) - log_m[a] - log_m[b]
            close[a, b] = gain > -slack


@kernel
def conjugate_gains(family, hyper, stats, starts, rhos, post, out):
    """Add the log evidence of an epoch's rows for each rate of forgetting to ``out`` (G,)."""
    work = np.empty(stats.shape[1])
    for k in range(stats.shape[0]):
        if stats[k, 0] > _NONE and starts[k, 0] > _NONE:
            for g in range(len(rhos)):
                work[:] = rhos[g] * starts[k]
                families.posterior(family, hyper, work, post)
                out[g] -= post[0]
                work += stats[k]
                families.posterior(family, hyper, work, post)
                out[g] += post[0]
