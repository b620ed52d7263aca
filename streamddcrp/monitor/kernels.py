"""Compiled alarms and change points: thresholds from the largest past scores; runs of labels."""

import math

import numpy as np

from streamddcrp.compilation import kernel

MOST = 24  # largest scores kept of each block; at least 2 BLOCK + 2
BLOCK = 10  # length of a block of calibration rows, in units of 1 / rate
TAIL = 20  # scores that the extrapolation is fitted to
LEAST_ROWS = 100  # rows from which the tail is extrapolated, ..
FURTHEST = 10.0  # .. and by how much at most: a rate below 1 / rows by this factor
QUIET_ROWS = 10  # rows below the threshold that end an alarm
MOST_EXCESS = 2.0  # a score enters the calibration at most so many mean excesses too high

# counts (int64)
N_SCORES = 0  # scores seen
FORMER = 1  # calibration rows in the block before
CURRENT = 2  # .. and in the present one
LEFT = 3  # rows below the threshold that the present alarm needs to end; 0: there is none
N_COUNTS = 4


@kernel
def mean_of(recent, counts, score):
    """Mean of ``score`` and the last k - 1 before it, or as many as there are; ``recent`` (k,)."""
    n = min(counts[N_SCORES], recent.shape[0] - 1)
    total = score
    for back in range(1, n + 1):
        total += recent[(counts[N_SCORES] - back) % recent.shape[0]]
    return total / (n + 1)


@kernel
def threshold(rate, top, counts, largest):
    """Return the threshold of the next row, and the mean excess of the largest scores.

    With m calibration rows it is the k-th largest of them, k = floor(rate (m + 1)). Where k = 0, an
    exponential tail is put through the J largest: with e their mean excess over the J-th, x_J,

        P(x > x_J + a e) = J / m (1 + a / (J - 1))^-(J - 1),

    the predictive law of a new excess. ``largest`` (MOST,) is work space.
    """
    m = counts[FORMER] + counts[CURRENT]
    a = b = 0
    for q in range(MOST):  # merge the two blocks
        if b == MOST or (a < MOST and top[0, a] >= top[1, b]):
            largest[q] = top[0, a]
            a += 1
        else:
            largest[q] = top[1, b]
            b += 1
    J = min(TAIL, m)
    excess = 0.0
    for q in range(J - 1):
        excess += (largest[q] - largest[J - 1]) / (J - 1)
    k = int(rate * (m + 1) + 1e-9)
    if k > 0:
        return largest[k - 1], excess
    if m < LEAST_ROWS or FURTHEST * rate * (m + 1) < 1.0:
        return np.inf, excess
    spread = (J - 1) * ((J / (rate * (m + 1))) ** (1.0 / (J - 1)) - 1.0)
    return largest[J - 1] + spread * excess, excess


@kernel
def _calibrate(rate, top, counts, value):
    """Enter a score among the calibration rows; after ``BLOCK / rate`` rows begin a new block."""
    if value > top[1, MOST - 1]:
        at = MOST - 1
        while at > 0 and top[1, at - 1] < value:
            top[1, at] = top[1, at - 1]
            at -= 1
        top[1, at] = value
    counts[CURRENT] += 1
    if counts[CURRENT] >= BLOCK / rate:
        top[0] = top[1]
        top[1] = -np.inf
        counts[FORMER] = counts[CURRENT]
        counts[CURRENT] = 0


@kernel
def step_alarm(
    rate, recent, top, counts, largest, scores, out_mean, out_threshold, out_alarm
):  # fmt: skip
    """Judge each score, then learn it.

    Parameters
    ----------
    recent : ndarray, shape (k,)
        Ring of the last scores.
    top : ndarray, shape (2, MOST)
        Largest scores of the former and of the present block, falling.
    scores, out_mean, out_threshold : ndarray, shape (N,)
    out_alarm : ndarray of bool, shape (N,)
    """
    k = recent.shape[0]
    for i in range(scores.shape[0]):
        limit, excess = threshold(rate, top, counts, largest)
        cap = np.inf
        if counts[FORMER] + counts[CURRENT] >= TAIL:
            cap = (limit if limit < np.inf else largest[0]) + MOST_EXCESS * excess
        out_threshold[i] = limit
        out_mean[i] = np.nan
        out_alarm[i] = False
        if math.isnan(scores[i]):
            continue
        mean = mean_of(recent, counts, scores[i])
        out_mean[i] = mean
        recent[counts[N_SCORES] % k] = scores[i]
        counts[N_SCORES] += 1
        if counts[N_SCORES] < k:
            continue
        above = mean > limit
        out_alarm[i] = above
        if counts[LEFT] == 0:
            _calibrate(rate, top, counts, min(mean, cap))
            if above:
                counts[LEFT] = max(k, QUIET_ROWS)
        else:
            counts[LEFT] = max(k, QUIET_ROWS) if above else counts[LEFT] - 1


@kernel
def mark_changes(codes, n_codes, hold, share, out_change):
    """Mark the rows at which a regime begins that has next to no label in common with the last.

    Parameters
    ----------
    codes : ndarray of int64, shape (N,)
        Labels as numbers below ``n_codes``.
    """
    out_change[:] = False
    counts = np.zeros(n_codes, dtype=np.int64)  # of the regime's rows, the last ``hold`` aside
    first = hold
    for i in range(hold, len(codes)):
        known = i - hold + 1 - first
        if known > 0:
            counts[codes[i - hold]] += 1
        if known < hold:
            continue
        familiar = False
        for j in range(i - hold + 1, i + 1):
            familiar = familiar or (counts[codes[j]] > 0 and counts[codes[j]] >= share * known)
        if not familiar:
            first = i - hold + 1
            out_change[first] = True
            counts[:] = 0
