"""Compiled seasons: a filter of level and harmonics, and the score that admits them.

A value is y_i = x_i' b + r_i. x_i holds 1 and the sines and cosines at its time; b holds a level
and their coefficients; the noise r_i = rho r_(i-1) + e_i is autocorrelated. The level wanders
slowly, and in any row it may jump, with a small probability: a row that looks like a jump says
little of the season. Otherwise the step between two regimes, which is larger than the cycle that is
looked for, would be taken for a part of it. A row is a row of all columns: where some of them jump,
the others are likely to, as regimes begin in many columns at once.
"""

import math

from streamddcrp.compilation import kernel

TAU = 2.0 * math.pi
GAINS = (0.05, 0.2, 0.8)  # of the levels that compete, from a slow one to nearly the last value
N_GAINS = 3
FAR = 9.0  # squared standardised error from which on an error counts no more
CLEARLY = 0.6  # share of the other's error by which the filter without jumps must be nearer
FEW = 10  # values by which a scale is a plain mean and nothing is an outlier
RULED_OUT = -23.0  # log odds of a jump below which there was none: e^-23 is 1e-10
CERTAIN = 500.0  # largest log odds of a jump against none, before the prior
LARGEST_JUMP = 1e100  # variance of a jump, in units of the noise
LOOSE = 100.0  # no coefficient becomes less certain than so many times its prior variance
LARGEST = 1e150  # values whose squares would overflow are not learned


@kernel
def fill_basis(turns, place, out_z):
    """Write 1, and sine and cosine of the harmonics at a moment, to ``out_z`` (Q,).

    ``turns``: share of each period that has passed; ``place`` (periods, harmonics): where the pair
    of harmonic j + 1 stands, -1 where it is left out.
    """
    out_z[0] = 1.0
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
def _copy(a, out):
    # not out[:] = a, nor rows[j] *= x: numba takes seconds to compile their error message
    for j in range(a.shape[0]):
        out[j] = a[j]


@kernel
def shrink(coefficient, spread, scale, out):
    """Write the coefficients, each pair times the share of its power that is not noise.

    The level is left out: 0.

    A pair b estimated with covariance S has E|b^|^2 = |b|^2 + tr S: the factor is
    max(0, 1 - tr S / |b^|^2).
    """
    out[0] = 0.0
    for j in range(1, coefficient.shape[0], 2):
        a, b = coefficient[j], coefficient[j + 1]
        power = a * a + b * b
        noise = scale * (spread[j, j] + spread[j + 1, j + 1])
        share = 1.0 - noise / power if power > noise else 0.0
        out[j], out[j + 1] = share * a, share * b


@kernel
def _score(y, n, age, rate, keep, level, variance, log_weight):
    """Predict y by levels of several speeds, learn it, and return its log score.

    The mixture of `N_GAINS` exponentially weighted means by their discounted scores; an error
    counts as one of 3 deviations at most. The means begin again after a jump, ``age`` values ago;
    the first value after it says where they are, and nothing of their errors.
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
        if age > 0:
            variance[k] += max(rate, 1.0 / n) * (square - variance[k])
        level[k] += max(GAINS[k], 1.0 / (age + 1.0)) * error
    return math.log(mixed / total)


@kernel
def _foresee(setting, prior, d, y, z, state, u, gain):
    """Return the error e of a value and q = u' S u; write u, and S u to ``gain``."""
    Q, coefficient, spread = z.shape[0], state.coefficient[d], state.spread[d]
    rho = state.correlation[d]
    error = y - rho * state.last[d]
    for j in range(Q):
        u[j] = z[j] - rho * state.last_z[d, j]
        error -= u[j] * coefficient[j]
    spread[0, 0] += setting.wander
    gain[:] = 0.0
    for i in range(Q):  # S is symmetric; by rows, so that the inner loop runs on vectors
        row, factor = spread[i], u[i]
        for j in range(Q):
            gain[j] += row[j] * factor
    q = _dot(gain, u)
    if not q >= 0.0:  # rounding has spoiled the covariance: start over
        spread[:] = 0.0
        q = 0.0
        for j in range(Q):
            spread[j, j] = prior[j]
            gain[j] = prior[j] * u[j]
            q += gain[j] * u[j]
    return error, q


@kernel
def _jump(setting, square, scale):
    """Return the variance of a jump by an error, J: the larger, the less of it is a season."""
    return min(max(setting.jump, square / scale), LARGEST_JUMP)


@kernel
def _log_odds(setting, d, error, q, state):
    """Return the log odds of a jump against none by one value, without the prior.

    With scale s^2 and a jump of variance J s^2 the value has the density N(e; 0, s^2 (1 + q + J))
    or N(e; 0, s^2 (1 + q)). -inf where the scale is not known yet.
    """
    scale, square = state.scale[d], error * error
    if state.n[d] <= FEW or not scale > 0.0:
        return -math.inf
    jump = _jump(setting, square, scale)
    less = jump / ((1.0 + q) * (1.0 + q + jump))
    return min(0.5 * (less * square / scale - math.log1p(jump / (1.0 + q))), CERTAIN)


@kernel
def share_jumps(chance, odds):
    """Turn the log odds (D,) of a jump in each column into its probability, by all of them.

    In a row there is a jump with probability ``chance``: with one half it is in a single column,
    each as likely, and with one half in any set of columns that is not empty, each as likely. With
    B_d the odds, these have the densities (over that of no jump) sum_d B_d / n and
    (prod_d (1 + B_d) - 1) / (2^n - 1), for n columns that may jump. One column has p = c B / (1 - c
    + c B).
    """
    n, top = 0, -math.inf
    for d in range(odds.shape[0]):
        if odds[d] > -math.inf:
            n += 1
            top = max(top, odds[d])
    single, log_all = 0.0, 0.0
    for d in range(odds.shape[0]):
        if odds[d] > -math.inf:
            single += math.exp(odds[d] - top)
            log_all += max(odds[d], 0.0) + math.log1p(math.exp(-abs(odds[d])))
    if n == 0:
        odds[:] = 0.0
        return
    some = -math.expm1(-log_all)  # share of the product that is not that of the empty set
    one = top + math.log(single / n)
    any_set = log_all + math.log(some) - n * math.log(2.0) - math.log1p(-(0.5**n))
    high = max(one, any_set)
    weight_one, weight_set = math.exp(one - high), math.exp(any_set - high)
    total = high + math.log(0.5 * (weight_one + weight_set)) + math.log(chance / (1.0 - chance))
    p = 1.0 / (1.0 + math.exp(-total)) if total > RULED_OUT else 0.0
    p /= weight_one + weight_set
    for d in range(odds.shape[0]):
        if odds[d] > -math.inf:
            share = weight_one * math.exp(odds[d] - top) / single
            share += weight_set / ((1.0 + math.exp(-odds[d])) * some)
            odds[d] = min(p * share, 1.0)
        else:
            odds[d] = 0.0


@kernel
def _learn(setting, prior, d, error, q, p, y, z, state, u, gain):
    """Learn one value by Kalman filters with and without a jump; collapse them into one.

    ``u`` and ``gain`` are from `_foresee`. Mean and covariance of the coefficients become those of
    the mixture of both posteriors, a jump having the probability p.
    """
    Q, n = z.shape[0], state.n[d]
    coefficient, spread, scale = state.coefficient[d], state.spread[d], state.scale[d]
    square = error * error
    jump = _jump(setting, square, scale) if p > 0.0 else 0.0
    stay, leap = 1.0 / (1.0 + q), 1.0 / (1.0 + q + jump)
    apart = p * (1.0 - p) * square / scale if 0.0 < p < 1.0 else 0.0
    keep = 1.0 - setting.forget
    for j in range(Q):
        landing = gain[j] + jump if j == 0 else gain[j]  # covariance of b_j and e after a jump
        moved = landing * leap - gain[j] * stay
        coefficient[j] += error * (gain[j] * stay + p * moved)
        u[j] = moved
    drop, lift = (1.0 - p) * stay + p * leap, 1.0 / keep
    for j in range(1, Q):
        row, g, moved = spread[j], gain[j], u[j]
        if apart > 0.0:
            for i in range(1, Q):
                row[i] += apart * (moved * u[i])
        for i in range(1, Q):
            row[i] = (row[i] - drop * (g * gain[i])) * lift
    first = gain[0]
    for j in range(1, Q):
        fall = gain[j] * ((1.0 - p) * stay * first + p * leap * (first + jump))
        value = (spread[j, 0] - fall + apart * u[j] * u[0]) / math.sqrt(keep)
        spread[j, 0] = spread[0, j] = value
    rise = leap * (jump * (1.0 + q - 2.0 * first) - first * first)  # J - (S_0 u + J)^2 leap
    spread[0, 0] += p * rise - (1.0 - p) * stay * first * first + apart * u[0] * u[0]
    for j in range(Q):
        if spread[j, j] > LOOSE * prior[j]:
            share = math.sqrt(LOOSE * prior[j] / spread[j, j])
            for i in range(Q):
                spread[j, i] *= share
            for i in range(Q):
                spread[i, j] *= share
    square /= 1.0 + q
    if n > FEW:
        square = min(square, FAR * scale)
    state.scale[d] += (1.0 - p) * max(setting.rate, 1.0 / n) * (square - scale)
    _correlate(setting, d, n, y - _dot(z, coefficient), p, state)
    state.last[d] = y
    _copy(z, state.last_z[d])


@kernel
def better(state, d):
    """Return which filter's season column d is subtracted: that with jumps, or D + d.

    A step that comes every week is a jump to the one, week after week, and a season to the other.
    So it is not the next value that decides, which both predict, but how far values lie from the
    mean of the last period without their season.
    """
    D = state.lead.shape[0]
    return d if CLEARLY * state.miss[d] <= state.miss[D + d] else D + d


@kernel
def write_season(state, d, out):
    """Write the coefficients (Q,) of the season that is subtracted from column d."""
    k = better(state, d)
    shrink(state.coefficient[k], state.spread[k], state.scale[k], out)


@kernel
def _compare(setting, d, y, z, state, b):
    """Learn how far a value lies from the slow mean less its season, by the filter ``d``."""
    shrink(state.coefficient[d], state.spread[d], state.scale[d], b)
    n, net = state.n[d], y - _dot(z, b)
    error = net - state.slow[d]
    rate = max(setting.rate, 1.0 / (n + 1.0))
    state.slow[d] += rate * error
    state.miss[d] += rate * (abs(error) - state.miss[d])


@kernel
def _correlate(setting, d, n, residual, p, state):
    """Learn the correlation of successive residuals, one of 3 deviations counting as the most."""
    before, variance = state.residual[d], state.moments[d, 0]
    if n > FEW:
        most = math.sqrt(FAR * variance)
        residual = min(max(residual, -most), most)
    rate = (1.0 - p) * max(setting.rate, 1.0 / n)
    state.moments[d, 0] += rate * (residual * residual - variance)
    state.moments[d, 1] += rate * (residual * before - state.moments[d, 1])
    state.residual[d] = residual
    if n > FEW and state.moments[d, 0] > 0.0:
        rho = state.moments[d, 1] / state.moments[d, 0]
        state.correlation[d] = min(max(rho, 0.0), setting.highest)


@kernel
def _judge(setting, d, y, z, state):
    """Add to the lead of "level + season" over "level"; return the value less the season on trial.

    The season on trial is that of one to two times `Setting.lag` ago: what only follows the last
    rows, as a stochastic cycle makes the present season do, does not count. Where another season
    comes on trial, the levels of what is left move by as much as the season does now.
    """
    n, trial = state.n[d], y - _dot(z, state.judged[d])
    raw, net = state.levels[d, 0], state.levels[d, 1]
    age = state.age[d]
    log_raw = _score(y, n, age, setting.rate, setting.keep, raw[0], raw[1], raw[2])
    log_net = _score(trial, n, age, setting.rate, setting.keep, net[0], net[1], net[2])
    if n >= setting.first:
        lead = state.lead[d] + log_net - log_raw
        state.lead[d] = min(max(lead, -setting.most), setting.most)
    if n % setting.lag == 0:
        moved = _dot(z, state.judged[d]) - _dot(z, state.pending[d])
        for k in range(N_GAINS):
            net[0, k] += moved
        _copy(state.pending[d], state.judged[d])
        write_season(state, d, state.pending[d])
    return trial


@kernel
def step_seasons(setting, place, prior, state, space, foreseen, X, turns, out, trial):
    """Subtract from each row of ``X`` (N, D) the season known before it, then learn the row.

    Each harmonic is subtracted times the share of its power that is not noise. ``place``: as for
    `fill_basis`; ``prior`` (Q,): variances of the coefficients before the first value, in units of
    the noise; ``space`` (2 + 2 D, Q): work space; ``foreseen`` (3, D): error, its variance,
    probability of a jump. NaN is missing, and not learned. ``turns``: (N, periods). ``trial`` (N,
    D) becomes the rows less the season on trial, where it is judged.
    """
    D, z, b = X.shape[1], space[0], space[1]
    errors, spreads, jumps = foreseen[0], foreseen[1], foreseen[2]
    for i in range(X.shape[0]):
        fill_basis(turns[i], place, z)
        for d in range(D):
            y = X[i, d]
            write_season(state, d, b)
            out[i, d] = trial[i, d] = y - _dot(z, b)
            jumps[d] = -math.inf
            if abs(y) < LARGEST and state.n[d] > 0:
                u, gain = space[2 + 2 * d], space[3 + 2 * d]
                errors[d], spreads[d] = _foresee(setting, prior, d, y, z, state, u, gain)
                jumps[d] = _log_odds(setting, d, errors[d], spreads[d], state)
        share_jumps(setting.chance, jumps)
        for d in range(D):
            y, without = X[i, d], D + d
            if not abs(y) < LARGEST:
                continue
            if state.n[d] == 0:
                state.levels[d, 0, 0] = state.levels[d, 1, 0] = trial[i, d] = y
                for k in (d, without):
                    state.coefficient[k, 0] = state.last[k] = state.slow[k] = y
                    _copy(z, state.last_z[k])
            else:
                if setting.judges:
                    trial[i, d] = _judge(setting, d, y, z, state)
                for k in (d, without):
                    _compare(setting, k, y, z, state, b)
                u, gain, p = space[2 + 2 * d], space[3 + 2 * d], jumps[d]
                _learn(setting, prior, d, errors[d], spreads[d], p, y, z, state, u, gain)
                error, q = _foresee(setting, prior, without, y, z, state, u, gain)
                _learn(setting, prior, without, error, q, 0.0, y, z, state, u, gain)
            state.age[d] = 0 if jumps[d] > 0.5 else state.age[d] + 1
            state.n[d] += 1
            state.n[without] += 1


@kernel
def seasons_at(place, state, space, turns, out):
    """Write the seasons at other times, (N, D). Learns nothing."""
    z, b = space[0], space[1]
    for d in range(out.shape[1]):
        write_season(state, d, b)
        for i in range(out.shape[0]):
            fill_basis(turns[i], place, z)
            out[i, d] = _dot(z, b)
