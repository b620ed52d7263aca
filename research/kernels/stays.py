"""Regimes over states, a trial: states whose stays differ no more than stays of one regime do.

Where the level of a column differs from visit to visit (weather, a tank, a queue), each visit opens
tables of its own, though the other columns say that it is the same regime. So states are the
customers here, and their data are their *stays*: each column's mean, and its log roughness, half
the mean squared step. With y a feature of stay v of regime g, in units of the variance of all rows,

    y_v ~ N(mu_g, b_g + s_v),  mu_g ~ N(0, 1),  b_g ~ w on a ladder in units of the noise within,

s_v = 10 W / n_v for a mean and 20 / (n_v - 1) for a log roughness (rows are alike, so ten count as
one), and w learned from all regimes. Both are summed over in closed form, so a set of stays has an
evidence E_g. A feature either tells regimes or not: its evidence is the mean of exp(sum_g E_g) and
of exp(E) with all stays as one. A regime costs exp(-OWN), its size counts as in a CRP. After each
stay of 16 rows regimes merge, and states move, while that raises the evidence. O((V + R^2) D) for V
stays in R regimes.
"""

import math
from typing import NamedTuple

import numba
import numpy as np

from streamddcrp.typing import FloatArray, IntArray

N_STAYS, NEXT_ID, SHOWN, STAY_ROWS, STAYED, N_COUNTS = 0, 1, 2, 3, 4, 5

LADDER = (0.01, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4)  # variance between stays, in units of that within
DECADE = 1.0  # nats by which the prior prefers a tenth of the variance
WIDEST = 2.0  # of the variance of all rows: no stays of a regime vary more
LEAST = 16  # rows of a stay that is remembered
FIRST = 8  # rows after which a new state may join a regime, and again at each doubling
OWN = 4.6  # nats in favour of each regime: log of the concentration
HASTE = 2.0  # further nats needed before a state's first stay has ended
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
def regime_of(past, counts, scratch, state, x):
    """Learn a row in a state, and return its regime."""
    if state != counts[STAYED]:
        if counts[STAY_ROWS] >= LEAST:
            _end_stay(past, counts, scratch)
        counts[STAYED], counts[STAY_ROWS] = state, 0
        past.present[:] = 0.0
        past.present[LAST] = math.nan
        known = _known(past, counts, state)
        counts[SHOWN] = known if known >= 0 else state
    counts[STAY_ROWS] += 1
    _learn(past.present, past.overall, x)
    n = counts[STAY_ROWS]
    asks = n >= FIRST and n & (n - 1) == 0 and counts[N_STAYS] > 0
    if asks and _known(past, counts, state) < 0:
        counts[SHOWN] = _nearest(past, counts, scratch, state)
    return counts[SHOWN]


@numba.njit(cache=True)
def _learn(present, overall, x):
    for d in range(len(x)):
        if math.isnan(x[d]):
            present[LAST, d] = math.nan
            continue
        overall[N, d] += 1.0
        off = x[d] - overall[MEAN, d]
        overall[MEAN, d] += off / overall[N, d]
        overall[SQUARES, d] += off * (x[d] - overall[MEAN, d])
        present[N, d] += 1.0
        present[MEAN, d] += (x[d] - present[MEAN, d]) / present[N, d]
        if not math.isnan(present[LAST, d]):
            present[STEPS, d] += 0.5 * (x[d] - present[LAST, d]) ** 2
            present[PAIRS, d] += 1.0
        present[LAST, d] = x[d]


@numba.njit(cache=True)
def _n_past(past, counts):
    return min(counts[N_STAYS], len(past.past_state))


@numba.njit(cache=True)
def _known(past, counts, state):
    """Return the regime of a state with remembered stays, or -1."""
    for v in range(_n_past(past, counts)):
        if past.past_state[v] == state:
            return past.past_regime[v]
    return -1


@numba.njit(cache=True)
def _end_stay(past, counts, scratch):
    """Remember the present stay in place of the oldest one, and judge the regimes anew."""
    known = _known(past, counts, counts[STAYED])
    v = counts[N_STAYS] % len(past.past_state)
    counts[N_STAYS] += 1
    past.past_state[v] = counts[STAYED]
    past.past_regime[v] = known if known >= 0 else counts[SHOWN]
    for i in range(LAST):
        for d in range(past.present.shape[1]):
            past.features[v, i, d] = past.present[i, d]
    n_regimes = _gather(past, counts, scratch)
    _merge(past, counts, scratch, n_regimes)
    for v in range(_n_past(past, counts)):
        if _is_first(past.past_state, v):
            n_regimes = _move(past, counts, scratch, past.past_state[v], n_regimes)
    _name(past, counts, scratch, n_regimes)


@numba.njit(cache=True)
def _is_first(states, v):
    """Whether no stay in an earlier place is of the same state."""
    return states[v] not in states[:v]


# -- the evidence of stays -----------------------------------------------------------------------


@numba.njit(cache=True)
def _gather(past, counts, scratch):
    """Set up scales, sums by regime and the shared prior; return the number of regimes.

    Stays of further regimes, the oldest ones, are left out.
    """
    ids, sums, places, n_regimes = scratch.regime_ids, scratch.regime_sums, scratch.places, 0
    _scale(past, counts, scratch)
    sums[:] = 0.0
    scratch.regime_sizes[:] = 0.0
    n = _n_past(past, counts)
    for back in range(1, n + 1):
        v = (counts[N_STAYS] - back) % n
        r = _place(ids, n_regimes, past.past_regime[v])
        if r == n_regimes:
            places[v] = -1
            if n_regimes == REGIMES - 1:  # the last place is for a state that moves out
                continue
            ids[r] = past.past_regime[v]
            n_regimes += 1
        places[v] = r
        scratch.regime_sizes[r] += 1.0
        _add(past.features[v], past.overall, scratch, sums[r])
        _add(past.features[v], past.overall, scratch, sums[ALL])
    _share(scratch, n_regimes)
    _weigh_features(scratch, n_regimes)
    return n_regimes


@numba.njit(cache=True)
def _weigh_features(scratch, n_regimes):
    """Set log evidences of each feature: regimes with own levels, or one level."""
    for f in range(2):
        for d in range(scratch.regime_scale.shape[1]):
            scratch.apart[f, d] = 0.0
            for r in range(n_regimes):
                scratch.apart[f, d] += _evidence(scratch, r, 0.0, r, f, d)
            scratch.as_one[f, d] = _evidence(scratch, ALL, 0.0, ALL, f, d)


@numba.njit(cache=True)
def _place(ids, n_regimes, regime):
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
            for v in range(_n_past(past, counts)):
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
def _add(past, overall, scratch, sums):
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
def _evidence(scratch, i, sign, j, f, d):
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
def _gain(scratch, r, sign, j, here):
    """Nats gained if place ``r`` takes ``j`` from ``here``; -1: a new or no place."""
    total = 0.0
    for f in range(2):
        for d in range(scratch.regime_scale.shape[1]):
            if r >= 0:
                more = _evidence(scratch, r, sign, j, f, d) - _evidence(scratch, r, 0.0, r, f, d)
            else:
                more = _evidence(scratch, j, 0.0, j, f, d)
            if here >= 0 and here != j:
                more += _evidence(scratch, here, -1.0, j, f, d)
            if here >= 0:
                more -= _evidence(scratch, here, 0.0, here, f, d)
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


# -- which states share a regime -----------------------------------------------------------------


@numba.njit(cache=True)
def _nearest(past, counts, scratch, state):
    """Return the regime that a new state's first rows belong to, or the state for none."""
    n_regimes = _gather(past, counts, scratch)
    _add(past.present, past.overall, scratch, scratch.regime_sums[ONE])
    for f in range(2):
        for d in range(past.present.shape[1]):
            scratch.as_one[f, d] = _evidence(scratch, ALL, 1.0, ONE, f, d)
    best, regime = OWN + HASTE + _gain(scratch, -1, 0.0, ONE, -1), state
    for r in range(n_regimes):
        gain = math.log(scratch.regime_sizes[r]) + _gain(scratch, r, 1.0, ONE, -1)
        if gain > best:
            best, regime = gain, scratch.regime_ids[r]
    return regime


@numba.njit(cache=True)
def _merge(past, counts, scratch, n_regimes):
    """Merge regimes while that raises the evidence."""
    sums, sizes = scratch.regime_sums, scratch.regime_sizes
    while True:
        best, into, gone = 0.0, -1, -1
        for r in range(n_regimes):
            for q in range(r):
                if sizes[r] <= 0.0 or sizes[q] <= 0.0:
                    continue
                gain = _gain(scratch, r, 1.0, q, q) + math.lgamma(sizes[r] + sizes[q])
                gain -= math.lgamma(sizes[r]) + math.lgamma(sizes[q]) + OWN
                if gain > best:
                    best, into, gone = gain, r, q
        if into < 0:
            return
        sums[into] += sums[gone]
        sums[gone] = 0.0
        sizes[into] += sizes[gone]
        sizes[gone] = 0.0
        _weigh_features(scratch, n_regimes)
        for v in range(_n_past(past, counts)):
            if scratch.places[v] == gone:
                scratch.places[v] = into


@numba.njit(cache=True)
def _move(past, counts, scratch, state, n_regimes):
    """Move a state to the regime that explains its stays best; return the number of places."""
    sums, sizes, places = scratch.regime_sums, scratch.regime_sizes, scratch.places
    n, here = 0.0, -1
    sums[ONE] = 0.0
    for v in range(_n_past(past, counts)):
        if past.past_state[v] == state and places[v] >= 0:
            n, here = n + 1.0, places[v]
            _add(past.features[v], past.overall, scratch, sums[ONE])
    if here < 0 or sizes[here] <= n:
        return n_regimes
    best, to = math.lgamma(sizes[here]) - math.lgamma(sizes[here] - n), here
    for r in range(n_regimes + 1):
        if r == n_regimes:
            gain = OWN + math.lgamma(n) + _gain(scratch, -1, 0.0, ONE, here)
        elif r != here and sizes[r] > 0.0:
            gain = _gain(scratch, r, 1.0, ONE, here)
            gain += math.lgamma(sizes[r] + n) - math.lgamma(sizes[r])
        else:
            continue
        if gain > best and r < REGIMES:
            best, to = gain, r
    if to == here:
        return n_regimes
    sums[here] -= sums[ONE]
    sizes[here] -= n
    sums[to] += sums[ONE]
    sizes[to] += n
    _weigh_features(scratch, max(n_regimes, to + 1))
    for v in range(_n_past(past, counts)):
        if past.past_state[v] == state and places[v] >= 0:
            places[v] = to
    return max(n_regimes, to + 1)


@numba.njit(cache=True)
def _name(past, counts, scratch, n_regimes):
    """Give each regime, the largest first, the id that most of its stays had.

    If a larger one has it: the id of one of its states, or a new one.
    """
    n, sizes, places, ids = (
        _n_past(past, counts),
        scratch.regime_sizes,
        scratch.places,
        scratch.named,
    )
    for done in range(n_regimes):
        r = 0
        for q in range(1, n_regimes):
            if sizes[q] > sizes[r]:
                r = q
        if sizes[r] <= 0.0:
            break
        most, sizes[r], ids[done] = 0, 0.0, -1
        for old in (past.past_regime, past.past_state):
            for v in range(n):
                if places[v] != r or most < 0 or _place(ids, done, old[v]) < done:
                    continue
                votes = 0
                for u in range(n):
                    votes += places[u] == r and old[u] == old[v]
                if votes > most:
                    most, ids[done] = votes, old[v]
            if ids[done] >= 0:
                most = -1
        if ids[done] < 0:
            ids[done] = counts[NEXT_ID]
            counts[NEXT_ID] += 1
        scratch.order[r] = done
    for v in range(n):
        if places[v] >= 0:
            past.past_regime[v] = ids[scratch.order[places[v]]]


class Past(NamedTuple):
    """The last V stays, the present one, and all rows."""

    past_state: IntArray
    past_regime: IntArray
    features: FloatArray  # (V, 4, D)
    present: FloatArray  # (5, D)
    overall: FloatArray  # (3, D)


class Scratch(NamedTuple):
    """Work space."""

    regime_ids: IntArray
    regime_sums: FloatArray
    regime_sizes: FloatArray
    regime_scale: FloatArray
    regime_prior: FloatArray
    regime_work: FloatArray
    regime_mass: FloatArray
    regime_sorted: FloatArray
    places: IntArray
    order: IntArray
    named: IntArray
    apart: FloatArray
    as_one: FloatArray


def regimes_of(X: FloatArray, states: IntArray) -> IntArray:
    """Return the regime of each row of ``X`` (N, D), given its state (N,), on arrival."""
    D, B = X.shape[1], len(LADDER)
    V = max(16, min(128, 4096 // D))
    past = Past(
        np.full(V, -1), np.full(V, -1), np.zeros((V, 4, D)), np.zeros((5, D)), np.zeros((3, D))
    )
    scratch = Scratch(
        np.zeros(REGIMES, np.int64), np.zeros((REGIMES + 2, 2, D, B, 4)), np.zeros(REGIMES),
        np.zeros((2, D, 4)), np.zeros((2, D, B)), np.zeros(B), np.zeros(B), np.zeros(V),
        np.zeros(V, np.int64), np.zeros(REGIMES, np.int64), np.zeros(REGIMES, np.int64),
        np.zeros((2, D)), np.zeros((2, D)),
    )  # fmt: skip
    counts = np.zeros(N_COUNTS, np.int64)
    counts[[STAYED, SHOWN]], counts[NEXT_ID] = -1, states.max() + 1
    out = np.zeros(len(states), np.int64)
    _follow(past, counts, scratch, states, np.ascontiguousarray(X), out)
    return out


@numba.njit(cache=True)
def _follow(past, counts, scratch, states, X, out):
    for i in range(len(states)):
        out[i] = regime_of(past, counts, scratch, states[i], X[i])
