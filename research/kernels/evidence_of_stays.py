"""The evidence that stays belong to one regime; derivation in `research.kernels.stays`."""

import math

import numba

N_STAYS = 0  # in counts: stays so far; the arrays hold the last ones
LADDER = (0.01, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4)  # variance between stays, in units of that within
DECADE = 1.0  # nats by which the prior prefers a tenth of the variance
WIDEST = 2.0  # of the variance of all rows: no stays of a regime vary more
ALIKE = 10.0  # rows worth one independent row: neighbours in time are alike
ROUGHNESS = 0.2  # unit of LADDER for log roughness
SMOOTH = 1e-3  # least roughness, as a share of the variance of all rows
TINY = 1e-200
ROUNDS = 3  # of learning the shared prior
REGIMES = 32  # told apart at once, the latest ones
ONE, ALL = REGIMES, REGIMES + 1  # places of the sums of one state, and of all stays
MEAN, N, STEPS, PAIRS, LAST = 0, 1, 2, 3, 4  # of a column in the present stay
SQUARES = 2  # and in all rows
PRECISION, WEIGHTED, SQUARED, LOGS = 0, 1, 2, 3  # sums over stays


@numba.njit(cache=True)
def n_past(past, counts):
    return min(counts[N_STAYS], len(past.past_state))


@numba.njit(cache=True)
def gather(past, counts, scratch):
    """Set up scales, sums by regime and the shared prior; return the number of regimes.

    Stays of further regimes, the oldest ones, are left out.
    """
    ids, sums, places, n_regimes = scratch.regime_ids, scratch.regime_sums, scratch.places, 0
    _scale(past, counts, scratch)
    sums[:] = 0.0
    scratch.regime_sizes[:] = 0.0
    n = n_past(past, counts)
    for back in range(1, n + 1):
        v = (counts[N_STAYS] - back) % n
        r = place_of(ids, n_regimes, past.past_regime[v])
        if r == n_regimes:
            places[v] = -1
            if n_regimes == REGIMES - 1:  # the last place is for a state that moves out
                continue
            ids[r] = past.past_regime[v]
            n_regimes += 1
        places[v] = r
        scratch.regime_sizes[r] += 1.0
        add_stay(past.features[v], past.overall, scratch, sums[r])
        add_stay(past.features[v], past.overall, scratch, sums[ALL])
    _share(scratch, n_regimes)
    weigh_features(scratch, n_regimes)
    return n_regimes


@numba.njit(cache=True)
def weigh_features(scratch, n_regimes):
    """Set log evidences of each feature: regimes with own levels, or one level."""
    for f in range(2):
        for d in range(scratch.regime_scale.shape[1]):
            scratch.apart[f, d] = 0.0
            for r in range(n_regimes):
                scratch.apart[f, d] += evidence(scratch, r, 0.0, r, f, d)
            scratch.as_one[f, d] = evidence(scratch, ALL, 0.0, ALL, f, d)


@numba.njit(cache=True)
def place_of(ids, n_regimes, regime):
    for r in range(n_regimes):
        if ids[r] == regime:
            return r
    return n_regimes


@numba.njit(cache=True)
def _least(overall, d):
    """Return the least roughness of a column."""
    return SMOOTH * overall[SQUARES, d] / max(overall[N, d], 1.0) + TINY


@numba.njit(cache=True)
def _scale(past, counts, scratch):
    """Set centre, variance, noise and unit of all features: rows of ``regime_scale``."""
    D = past.present.shape[1]
    for d in range(D):
        least, spread = (
            _least(past.overall, d),
            past.overall[SQUARES, d] / max(past.overall[N, d], 1.0),
        )
        for f in range(2):
            n, mean, squares = 0.0, 0.0, 0.0
            for v in range(n_past(past, counts)):
                stay = past.features[v]
                if stay[N, d] > 0.0 if f == 0 else stay[PAIRS, d] >= 3.0:
                    y = stay[MEAN, d] if f == 0 else _log_roughness(stay, d, least)
                    scratch.regime_sorted[int(n)] = y
                    n += 1.0
                    off = y - mean
                    mean += off / n
                    squares += off * (y - mean)
            scale = scratch.regime_scale[f, d]
            scale[0] = mean
            scale[1] = max(squares / max(n, 1.0), (spread + TINY) if f == 0 else 1.0)
            if f == 1:
                within = math.exp(_median(scratch.regime_sorted, int(n))) if n > 0.0 else spread
                within += TINY
                scratch.regime_scale[0, d, 2] = ALIKE * within / scratch.regime_scale[0, d, 1]
                scratch.regime_scale[0, d, 3] = within / scratch.regime_scale[0, d, 1]
                scale[2], scale[3] = ALIKE * 2.0 / scale[1], ROUGHNESS / scale[1]


@numba.njit(cache=True)
def _median(values, n):
    """Return the middle one of the first ``n`` values, which are sorted. O(n^2)."""
    for i in range(1, n):
        y, j = values[i], i
        while j > 0 and values[j - 1] > y:
            values[j] = values[j - 1]
            j -= 1
        values[j] = y
    return values[n // 2]


@numba.njit(cache=True)
def _log_roughness(past, d, least):
    return math.log(past[STEPS, d] / past[PAIRS, d] + least)


@numba.njit(cache=True)
def add_stay(past, overall, scratch, sums):
    """Add a stay to the sums (2, D, B, 4), for each variance between stays."""
    for d in range(past.shape[1]):
        for f in range(2):
            centre, variance, noise, unit = scratch.regime_scale[f, d]
            if f == 0:
                if past[N, d] == 0.0:
                    continue
                y, noise = past[MEAN, d], noise / past[N, d]
            else:
                if past[PAIRS, d] < 3.0:
                    continue
                y = _log_roughness(past, d, _least(overall, d))
                noise /= past[PAIRS, d] - 1.0
            y = (y - centre) / math.sqrt(variance)
            for b in range(len(LADDER)):
                precision = 1.0 / (LADDER[b] * unit + noise)
                sums[f, d, b, PRECISION] += precision
                sums[f, d, b, WEIGHTED] += precision * y
                sums[f, d, b, SQUARED] += precision * y * y
                sums[f, d, b, LOGS] -= math.log(precision)


@numba.njit(cache=True)
def _log_marginals(sums, i, sign, j, f, d, out):
    """Write log marginals of a feature of place ``i``, with or without those of ``j``."""
    for b in range(len(LADDER)):
        a, c = sums[i, f, d, b], sums[j, f, d, b]
        precision = 1.0 + max(a[PRECISION] + sign * c[PRECISION], 0.0)
        weighted = a[WEIGHTED] + sign * c[WEIGHTED]
        rest = a[SQUARED] + sign * c[SQUARED] - weighted * weighted / precision
        out[b] = -0.5 * (a[LOGS] + sign * c[LOGS] + max(rest, 0.0) + math.log(precision))


@numba.njit(cache=True)
def evidence(scratch, i, sign, j, f, d):
    """Return the log evidence of a feature at place ``i``, with or without stays of ``j``."""
    out, top, mass = scratch.regime_work, -math.inf, 0.0
    _log_marginals(scratch.regime_sums, i, sign, j, f, d, out)
    for b in range(len(LADDER)):
        out[b] += scratch.regime_prior[f, d, b]
        top = max(top, out[b])
    for b in range(len(LADDER)):
        mass += math.exp(out[b] - top)
    return top + math.log(mass)


@numba.njit(cache=True)
def _either(a, b):
    """Return log((e^a + e^b) / 2)."""
    return max(a, b) + math.log1p(math.exp(-abs(a - b))) - math.log(2.0)


@numba.njit(cache=True)
def gain_of(scratch, r, sign, j, here):
    """Nats gained if place ``r`` takes ``j`` from ``here``; -1: a new or no place."""
    total = 0.0
    for f in range(2):
        for d in range(scratch.regime_scale.shape[1]):
            if r >= 0:
                more = evidence(scratch, r, sign, j, f, d) - evidence(scratch, r, 0.0, r, f, d)
            else:
                more = evidence(scratch, j, 0.0, j, f, d)
            if here >= 0 and here != j:
                more += evidence(scratch, here, -1.0, j, f, d)
            if here >= 0:
                more -= evidence(scratch, here, 0.0, here, f, d)
            apart, as_one = scratch.apart[f, d], scratch.as_one[f, d]
            total += _either(as_one, apart + more) - _either(as_one, apart)
    return total


@numba.njit(cache=True)
def _share(scratch, n_regimes):
    """Learn the prior of the variances that all regimes share, as log weights."""
    out, prior = scratch.regime_work, scratch.regime_prior
    for f in range(2):
        for d in range(scratch.regime_scale.shape[1]):
            unit = scratch.regime_scale[f, d, 3]
            for turn in range(ROUNDS + 1):
                mass = scratch.regime_mass
                total = 0.0
                for b in range(len(LADDER)):
                    mass[b] = math.exp(-DECADE * b)
                    if LADDER[b] * unit > WIDEST:
                        mass[b] *= 1e-6
                    total += mass[b]
                for b in range(len(LADDER)):
                    mass[b] /= total
                for r in range(n_regimes if turn > 0 else 0):
                    if scratch.regime_sizes[r] < 2.0:
                        continue
                    _log_marginals(scratch.regime_sums, r, 0.0, r, f, d, out)
                    top, total = -math.inf, 0.0
                    for b in range(len(LADDER)):
                        out[b] += prior[f, d, b]
                        top = max(top, out[b])
                    for b in range(len(LADDER)):
                        out[b] = math.exp(out[b] - top)
                        total += out[b]
                    for b in range(len(LADDER)):
                        mass[b] += out[b] / total
                total = 0.0
                for b in range(len(LADDER)):
                    total += mass[b]
                for b in range(len(LADDER)):
                    prior[f, d, b] = math.log(mass[b] / total)
