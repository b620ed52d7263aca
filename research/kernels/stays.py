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

from research.kernels.evidence_of_stays import (
    ALL,
    LADDER,
    LAST,
    MEAN,
    N_STAYS,
    ONE,
    PAIRS,
    REGIMES,
    SQUARES,
    STEPS,
    N,
    add_stay,
    evidence,
    gain_of,
    gather,
    n_past,
    place_of,
    weigh_features,
)
from streamddcrp.typing import FloatArray, IntArray

NEXT_ID, SHOWN, STAY_ROWS, STAYED, N_COUNTS = 1, 2, 3, 4, 5  # in counts, behind N_STAYS

LEAST = 16  # rows of a stay that is remembered
FIRST = 8  # rows after which a new state may join a regime, and again at each doubling
OWN = 4.6  # nats in favour of each regime: log of the concentration
HASTE = 2.0  # further nats needed before a state's first stay has ended


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
def _known(past, counts, state):
    """Return the regime of a state with remembered stays, or -1."""
    for v in range(n_past(past, counts)):
        if past.past_state[v] == state:
            return past.past_regime[v]
    return -1


@numba.njit(cache=True)
def _end_stay(past, counts, scratch):
    """Remember the present stay in place of the oldest one, and judge the regimes again."""
    known = _known(past, counts, counts[STAYED])
    v = counts[N_STAYS] % len(past.past_state)
    counts[N_STAYS] += 1
    past.past_state[v] = counts[STAYED]
    past.past_regime[v] = known if known >= 0 else counts[SHOWN]
    for i in range(LAST):
        for d in range(past.present.shape[1]):
            past.features[v, i, d] = past.present[i, d]
    n_regimes = gather(past, counts, scratch)
    _merge(past, counts, scratch, n_regimes)
    for v in range(n_past(past, counts)):
        if _is_first(past.past_state, v):
            n_regimes = _move(past, counts, scratch, past.past_state[v], n_regimes)
    _name(past, counts, scratch, n_regimes)


@numba.njit(cache=True)
def _is_first(states, v):
    """Whether no stay in an earlier place is of the same state."""
    return states[v] not in states[:v]


@numba.njit(cache=True)
def _nearest(past, counts, scratch, state):
    """Return the regime that a new state's first rows belong to, or the state for none."""
    n_regimes = gather(past, counts, scratch)
    add_stay(past.present, past.overall, scratch, scratch.regime_sums[ONE])
    for f in range(2):
        for d in range(past.present.shape[1]):
            scratch.as_one[f, d] = evidence(scratch, ALL, 1.0, ONE, f, d)
    best, regime = OWN + HASTE + gain_of(scratch, -1, 0.0, ONE, -1), state
    for r in range(n_regimes):
        gain = math.log(scratch.regime_sizes[r]) + gain_of(scratch, r, 1.0, ONE, -1)
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
                gain = gain_of(scratch, r, 1.0, q, q) + math.lgamma(sizes[r] + sizes[q])
                gain -= math.lgamma(sizes[r]) + math.lgamma(sizes[q]) + OWN
                if gain > best:
                    best, into, gone = gain, r, q
        if into < 0:
            return
        sums[into] += sums[gone]
        sums[gone] = 0.0
        sizes[into] += sizes[gone]
        sizes[gone] = 0.0
        weigh_features(scratch, n_regimes)
        for v in range(n_past(past, counts)):
            if scratch.places[v] == gone:
                scratch.places[v] = into


@numba.njit(cache=True)
def _move(past, counts, scratch, state, n_regimes):
    """Move a state to the regime that explains its stays best; return the number of places."""
    sums, sizes, places = scratch.regime_sums, scratch.regime_sizes, scratch.places
    n, here = 0.0, -1
    sums[ONE] = 0.0
    for v in range(n_past(past, counts)):
        if past.past_state[v] == state and places[v] >= 0:
            n, here = n + 1.0, places[v]
            add_stay(past.features[v], past.overall, scratch, sums[ONE])
    if here < 0 or sizes[here] <= n:
        return n_regimes
    best, to = math.lgamma(sizes[here]) - math.lgamma(sizes[here] - n), here
    for r in range(n_regimes + 1):
        if r == n_regimes:
            gain = OWN + math.lgamma(n) + gain_of(scratch, -1, 0.0, ONE, here)
        elif r != here and sizes[r] > 0.0:
            gain = gain_of(scratch, r, 1.0, ONE, here)
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
    weigh_features(scratch, max(n_regimes, to + 1))
    for v in range(n_past(past, counts)):
        if past.past_state[v] == state and places[v] >= 0:
            places[v] = to
    return max(n_regimes, to + 1)


@numba.njit(cache=True)
def _name(past, counts, scratch, n_regimes):
    """Give each regime, the largest first, the id that most of its stays had.

    If a larger one has it: the id of one of its states, or a new one.
    """
    n, sizes, places, ids = (
        n_past(past, counts),
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
                if places[v] != r or most < 0 or place_of(ids, done, old[v]) < done:
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
