"""Compiled seasons: robust recursive least squares on harmonics, and the score that admits them.

A value is y_i = level + z_i' b + noise, with z_i the sines and cosines at its time. What passes a
high-pass filter has no level: with m_i and v_i the exponentially weighted means of the y and z
before row i, least squares fits y_i - m_i = (z_i - v_i)' b.
"""

import math

from streamddcrp.compilation import kernel

TAU = 2.0 * math.pi
GAINS = (0.05, 0.2, 0.8)  # of the levels that compete, from a slow one to nearly the last value
N_GAINS = 3
FAR = 9.0  # squared standardised error from which on an error counts no more
FEW = 10  # values by which a scale is a plain mean and nothing is an outlier
LOOSE = 100.0  # no coefficient becomes less certain than so many times its prior variance
LARGEST = 1e150  # values whose squares would overflow are not learned


@kernel
def fill_basis(turns, place, out_z):
    """Write sine and cosine of the harmonics at a moment.

    Parameters
    ----------
    turns : ndarray, shape (number of periods,)
        Share of each period that has passed.
    place : ndarray of int64, shape (number of periods, most harmonics)
        Where the pair of harmonic j + 1 of a period stands; -1: it is left out.
    out_z : ndarray, shape (P,)
    """
    for k in range(place.shape[0]):
        sine, cosine = math.sin(TAU * turns[k]), math.cos(TAU * turns[k])
        s, c = sine, cosine
        for j in range(place.shape[1]):
            at = place[k, j]
            if at >= 0:
                out_z[at], out_z[at + 1] = s, c
            s, c = s * cosine + c * sine, c * cosine - s * sine


@kernel
def _dot(a, b):
    total = 0.0
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total


@kernel
def shrink(coefficient, spread, scale, out):
    """Write the coefficients, each pair times the share of its power that is not noise.

    A pair b estimated with covariance S has E|b^|^2 = |b|^2 + tr S: the factor is
    max(0, 1 - tr S / |b^|^2).
    """
    for j in range(0, coefficient.shape[0], 2):
        a, b = coefficient[j], coefficient[j + 1]
        power = a * a + b * b
        noise = scale * (spread[j, j] + spread[j + 1, j + 1])
        share = 1.0 - noise / power if power > noise else 0.0
        out[j], out[j + 1] = share * a, share * b


@kernel
def _score(y, n, rate, keep, level, variance, log_weight):
    """Predict y by levels of several speeds, learn it, and return its log score.

    The mixture of `N_GAINS` exponentially weighted means by their discounted scores; an error
    counts as one of 3 deviations at most.
    """
    top = log_weight.max()
    total, mixed = 0.0, 0.0
    for k in range(N_GAINS):
        error = y - level[k]
        square = error * error
        log_p = 0.0
        if variance[k] > 0.0:
            log_p = -0.5 * min(square / variance[k], FAR) - 0.5 * math.log(variance[k])
        weight = math.exp(log_weight[k] - top)
        total += weight
        mixed += weight * math.exp(log_p)
        log_weight[k] = keep * log_weight[k] + log_p
        if n > FEW:
            square = min(square, FAR * variance[k])
        variance[k] += max(rate, 1.0 / n) * (square - variance[k])
        level[k] += max(GAINS[k], 1.0 / (n + 1.0)) * error
    return math.log(mixed / total)


@kernel
def _learn(setting, d, y, z, state, u, gain):
    """Learn one value by weighted least squares on what passes the high-pass filter.

    With e the error, s^2 the scale and q = u' S u, the weight is w = min(1, c s (1 + q)^1/2 / |e|),
    and the gain S u / (l / w + q); S becomes (S - S u u' S / (l / w + q)) / l.
    """
    P, n = z.shape[0], state.n[d]
    coefficient, spread = state.coefficient[d], state.spread[d]
    error = y - state.slow[d]
    for j in range(P):
        u[j] = z[j] - state.slow_z[d, j]
        error -= u[j] * coefficient[j]
    q = 0.0
    for j in range(P):
        gain[j] = _dot(spread[j], u)
        q += gain[j] * u[j]
    if not q >= 0.0:  # rounding has spoiled the covariance: begin anew
        spread[:] = 0.0
        for j in range(P):
            spread[j, j] = setting.prior
            gain[j] = setting.prior * u[j]
        q = setting.prior * _dot(u, u)
    weight, limit = 1.0, setting.huber * math.sqrt(state.scale[d] * (1.0 + q))
    if n > FEW and abs(error) > limit:
        weight = limit / abs(error)
    if weight > 0.0:
        forget = 1.0 - setting.forget
        room = 1.0 / (forget / weight + q)
        for j in range(P):
            coefficient[j] += gain[j] * (room * error)
            for i in range(P):
                spread[j, i] = (spread[j, i] - gain[j] * gain[i] * room) / forget
        for j in range(P):
            if spread[j, j] > LOOSE * setting.prior:
                share = math.sqrt(LOOSE * setting.prior / spread[j, j])
                spread[j] *= share
                spread[:, j] *= share
    square = error * error / (1.0 + q)
    if n > FEW:
        square = min(square, FAR * state.scale[d])
    state.scale[d] += max(setting.rate, 1.0 / n) * (square - state.scale[d])
    pace = max(setting.filter, 1.0 / (n + 1.0))
    state.slow[d] += pace * (y - state.slow[d])
    for j in range(P):
        state.slow_z[d, j] += pace * u[j]


@kernel
def _judge(setting, d, y, z, state):
    """Add to the lead of "level + season" over "level" by what each predicted for a value.

    The season on trial is that of one to two of the shortest periods ago: what only follows the
    last rows, as a stochastic cycle makes the present season do, does not count.
    """
    n, trial = state.n[d], y - _dot(z, state.judged[d])
    raw, net = state.levels[d, 0], state.levels[d, 1]
    log_raw = _score(y, n, setting.rate, setting.keep, raw[0], raw[1], raw[2])
    log_net = _score(trial, n, setting.rate, setting.keep, net[0], net[1], net[2])
    if n >= setting.first:
        lead = state.lead[d] + log_net - log_raw
        state.lead[d] = min(max(lead, -setting.most), setting.most)
    if n % setting.lag == 0:
        state.judged[d] = state.pending[d]
        shrink(state.coefficient[d], state.spread[d], state.scale[d], state.pending[d])


@kernel
def step_seasons(setting, place, state, space, X, turns, out):
    """Subtract the season from each row as the rows before it have it, then learn the row.

    Parameters
    ----------
    setting, state : `Setting`, `State`
    place : ndarray of int64
        As for `fill_basis`.
    space : ndarray, shape (4, P)
        Work space.
    X, out : ndarray, shape (N, D)
        NaN: missing; nothing is learned of it.
    turns : ndarray, shape (N, number of periods)
    """
    z, u, gain, b = space[0], space[1], space[2], space[3]
    for i in range(X.shape[0]):
        fill_basis(turns[i], place, z)
        for d in range(X.shape[1]):
            y = X[i, d]
            out[i, d] = y
            if state.lead[d] > setting.needed:
                shrink(state.coefficient[d], state.spread[d], state.scale[d], b)
                out[i, d] = y - _dot(z, b)
            if not abs(y) < LARGEST:
                continue
            if state.n[d] == 0:
                state.slow[d] = y
                state.slow_z[d] = z
                state.levels[d, :, 0] = y
            else:
                _judge(setting, d, y, z, state)
                _learn(setting, d, y, z, state, u, gain)
            state.n[d] += 1


@kernel
def seasons_at(setting, place, state, space, turns, out):
    """Write the seasons in use at other times, (N, D); 0 where none is. Learns nothing."""
    z, b = space[0], space[3]
    for d in range(out.shape[1]):
        out[:, d] = 0.0
        if state.lead[d] > setting.needed:
            shrink(state.coefficient[d], state.spread[d], state.scale[d], b)
            for i in range(out.shape[0]):
                fill_basis(turns[i], place, z)
                out[i, d] = _dot(z, b)
