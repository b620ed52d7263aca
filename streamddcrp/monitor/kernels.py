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
WEIGHT = 0.5  # of a row's label as evidence: neighbours follow each other
CONCENTRATION = 2.0  # of the shares that the labels of a regime have
BEGINNINGS = 256  # at most, where the present regime may have begun
# With this many alarms beyond twice those asked for, the scores have changed;
EXTRA_ALARMS = 3  # with this many of all keys beyond those asked for, some are broken
MOST_EXCESS = 2.0  # most mean excesses by which a score in the calibration may be too high

# counts (int64)
N_SCORES = 0  # scores seen
FORMER = 1  # calibration rows in the block before
CURRENT = 2  # .. and in the present one
LEFT = 3  # rows below the threshold that the present alarm needs to end; 0: there is none
FORMER_ALARMS = 4  # alarms that began in the former block
CURRENT_ALARMS = 5  # .. and in the present one
N_COUNTS = 6

POOLED = 4.0  # by so much shorter are blocks of all keys: the tail is of few of their rows
AGES = np.array([8, 64], dtype=np.int64)  # rows after which a key is of the next crowd
CROWDS = 8  # after these ages they are of keys with 0, 1, .. and at least 5 regimes that lasted
FAR = 30.0  # nats above a level that count
INFINITE = 1e250  # what stands for infinity is more, as a mean of rows, too
STEADY = 1000  # rows of a key that its level is a mean of; ten times as many for that of all keys

PLANNED, FAULT = 1, 2  # verdicts of regimes

# of the rows of a key that surprise more than usual, and of its regime that is news (float64)
BORN = 0  # the label of that regime and one more; 0: there is none
SINCE = 1  # rows of the key since
TOTAL = 2  # what the rows together surprise more than is usual
EXCESS = 3  # of the first score of the regime over the level of the key
PEAK = 4  # the most that was judged since the total was last zero, less the level
# .. and, of one of many keys:
LASTED = 5  # its regimes that have lasted for `NEWBORN` rows
CROWD = 6  # whom it is like, see `_crowd`
JUDGE = 7  # the crowd whose scores its own were last compared with, and one more; 0: none
NEWEST = 8  # the highest label seen and one more; 0: it has no labels
AT = 9  # place of the regime of the last row
RECENT = 10  # the most that a row surprised, less a nat for each row since
BEST = 11  # the highest excess since it is like them
ZERO = 12  # scores of the key when the total was last zero
N_BORN = 13
NEWBORN = 20  # rows for which a regime is new, and it must be away for more to come back, ..
SETTLED = 200  # .. to a key with this many rows: before, new ones are usual
LONG = 100.0  # rows that tell what is usual in a regime; more do not add up
USUAL_EXCESS = 1.0  # nats a row that neither add up nor raise an alarm

# of the regimes of a key that were there last (float64)
NAME = 0  # label and one more; 0: a free place
ROWS = 1  # rows seen there
FIRST = 2  # excess of the first score, where it was news
SEEN = 3  # scores of the key before the last of these rows
LEVEL = 4  # mean score of its rows
VISITS = 5  # after more than `NEWBORN` rows elsewhere
N_RARE = 6
PLACES = 16
SELDOM = 20  # a regime with less than one row in this many may not be usual

# pace (float64)
PERIOD = 0  # seconds in which one alarm may begin; 0: the rate is given
INTERVAL = 1  # mean time between rows
LAST = 2  # time of the last row
N_TIMES = 3  # rows timed
N_PACE = 4


@kernel
def mean_of(recent, counts, score):
    """Mean of ``score`` and the last k - 1 before it, or as many as there are; ``recent`` (k,)."""
    n = min(counts[N_SCORES], recent.shape[0] - 1)
    total = score
    for back in range(1, n + 1):
        total += recent[(counts[N_SCORES] - back) % recent.shape[0]]
    return total / (n + 1)


@kernel
def threshold(rate, top, counts, pooled, nats, largest):
    """Return the threshold of the next row, and the mean excess of the largest scores.

    With m calibration rows it is the k-th largest of them, k = floor(rate (m + 1)). Where k = 0, an
    exponential tail is put through the J largest: with e their mean excess over the J-th, x_J,

        P(x > x_J + a e) = J / m (1 + a / (J - 1))^-(J - 1),

    the predictive law of a new excess. So it is where rows of many keys are ``pooled``, some of
    which may be broken. No row enters there above the threshold, as rate (m + 1) of them should: of
    an exponential law cut off so, e is the total excess by as many rows less. Of scores in
    ``nats`` e is at least `USUAL_EXCESS`. ``largest`` (MOST,) is work space.
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
    cut = rate * (m + 1) * pooled
    excess = 0.0
    for q in range(J - 1):
        excess += (largest[q] - largest[J - 1]) / (J - 1 - cut)
    if nats:
        excess = max(excess, USUAL_EXCESS)
    k = int(rate * (m + 1) + 1e-9)
    if k > 0 and not pooled:
        return largest[min(k, MOST) - 1], excess
    if m < LEAST_ROWS or FURTHEST * rate * (m + 1) < 1.0:
        return np.inf, excess
    spread = (J - 1) * ((J / (rate * (m + 1))) ** (1.0 / (J - 1)) - 1.0)
    return largest[J - 1] + spread * excess, excess


@kernel
def _calibrate(rate, top, counts, value):
    """Enter an excess among the calibration rows; after ``BLOCK / rate`` rows begin a new block."""
    if value > top[1, MOST - 1]:
        at = MOST - 1
        while at > 0 and top[1, at - 1] < value:
            top[1, at] = top[1, at - 1]
            at -= 1
        top[1, at] = value
    counts[CURRENT] += 1
    if rate > 0.0 and counts[CURRENT] >= BLOCK / rate:
        top[0] = top[1]
        top[1] = -np.inf
        counts[FORMER] = counts[CURRENT]
        counts[CURRENT] = 0
        counts[FORMER_ALARMS] = counts[CURRENT_ALARMS]
        counts[CURRENT_ALARMS] = 0


@kernel
def rate_at(pace, t):
    """Take the time of a row; return the rate at which one alarm begins in a period, 0: unknown."""
    if pace[N_TIMES] > 0.0:
        n = min(pace[N_TIMES], 10.0 * STEADY)
        pace[INTERVAL] += (max(t - pace[LAST], 0.0) - pace[INTERVAL]) / n
    pace[LAST] = max(t, pace[LAST]) if pace[N_TIMES] > 0.0 else t
    pace[N_TIMES] += 1.0
    return min(pace[INTERVAL] / pace[PERIOD], 0.49) if pace[N_TIMES] > LEAST_ROWS else 0.0


@kernel
def usual_of(own, fleet, who):
    """Return the score that is expected of a key's next row, before anything is known of it.

    With labels it is the mean of the rows of the regime that the last row was in, once these are
    `LONG`; before, the mean of all rows of the key in part. That has the mean of all keys as one
    row more.
    """
    born, rare, n = own.born[who], own.rare[who], min(own.counts[who, N_SCORES], STEADY)
    level = (fleet.level[0] + n * own.level[who]) / (n + 1.0)
    if born[NEWEST] == 0.0:
        return level if fleet.top.shape[0] > 0 else 0.0
    at = int(born[AT])
    rows = min(rare[at, ROWS], LONG)
    return ((LONG - rows) * level + rows * rare[at, LEVEL]) / LONG


@kernel
def _crowd(own, who):
    """Return which keys a key is like: those of its age, later those with as many regimes.

    It stays as it is while rows add up, so until a new regime is usual.
    """
    if own.born[who, TOTAL] > 0.0:
        return int(own.born[who, CROWD])
    crowd = np.searchsorted(AGES, own.counts[who, N_SCORES], side="right")
    if crowd == len(AGES):
        crowd = min(crowd + int(own.born[who, LASTED]), CROWDS - 1)
    return crowd


@kernel
def limit_of(rate, own, fleet, who, largest):
    """Return the most excess of a key's next row, the room above, its highest one, and its judge.

    A key with fewer than 1 / rate rows is judged by the excesses of all keys of its crowd, or by
    those of an earlier one, as long as these are too few. Its own must also be its highest. The
    judge is -1 where all keys have too few rows, or where the key is judged by itself.
    """
    nats = own.born[who, NEWEST] > 0.0
    limit, excess = threshold(rate, own.top[who], own.counts[who], False, nats, largest)
    room, best, judge, highest = MOST_EXCESS * excess, largest[0], -1, largest[0]
    m = own.counts[who, FORMER] + own.counts[who, CURRENT]
    if fleet.top.shape[0] > 0 and int(rate * (m + 1) + 1e-9) == 0:
        born, at = own.born[who], _crowd(own, who)
        if born[LASTED] > 1.0:  # of a key of one regime all rows are alike
            highest = born[BEST] if at == born[CROWD] else 0.0
        for crowd in range(at, -1, -1):
            pooled, _ = threshold(rate, fleet.top[crowd], fleet.counts[crowd], True, nats, largest)
            if pooled < np.inf:
                limit, room, judge = max(pooled, highest), 0.0, crowd
                break
    if nats:
        limit = max(limit, USUAL_EXCESS)
    return limit, room, best, judge


@kernel
def _follow(level, at, value, n):
    """Take a value into a mean of ``n``; one far above it hardly lifts it, an infinite one not."""
    rise = value - level[at]
    if abs(rise) < INFINITE:
        level[at] += (min(rise, FAR) if n > 1 else rise) / n


@kernel
def _begun(counts):
    return counts[FORMER_ALARMS] + counts[CURRENT_ALARMS]


@kernel
def _place(rare, label):
    """Return the place of a label, and whether it had one; else that of who is away longest."""
    oldest = 0
    for r in range(PLACES):
        if rare[r, NAME] == label + 1:
            return r, True
        if rare[r, NAME] == 0.0:
            return r, False
        if rare[r, SEEN] < rare[oldest, SEEN]:
            oldest = r
    return oldest, False


@kernel
def _note(rate, born, rare, n, label, excess, pooled):
    """Note whether a row begins a regime that is new, or is back and not usual; return if it is so.

    To a model that knows a failure it is no surprise, and no more welcome. A regime is usual once
    it came more often than alarms were asked for, by `EXTRA_ALARMS`. Of one born before the first
    was due nothing says that it is seldom: it begins with as many visits and one more.
    """
    born[SINCE] += 1.0
    excess = born[RECENT] = max(excess, born[RECENT] - USUAL_EXCESS)
    at, known = _place(rare, label)
    new = label + 1 > born[NEWEST]
    if not known:
        rare[at] = 0.0
        rare[at, NAME], rare[at, SEEN] = label + 1, n
        rare[at, VISITS] = 1.0 if pooled or rate * n >= 1.0 else EXTRA_ALARMS + 1.0
    if new:
        rare[at, FIRST] = 0.0 if pooled or n < SETTLED else excess
        if pooled and born[BORN] == 0.0:  # the first regime of a key is no news
            excess, born[SINCE] = 0.0, NEWBORN
        elif pooled and born[SINCE] < NEWBORN:  # another one of what is going on
            excess = max(excess, born[EXCESS])
        else:
            born[SINCE] = 0.0 if pooled or n >= SETTLED else NEWBORN
        born[BORN], born[EXCESS], born[NEWEST] = label + 1, excess, label + 1
    elif n - rare[at, SEEN] > NEWBORN:
        seldom = rare[at, VISITS] <= EXTRA_ALARMS + rate * n and SELDOM * rare[at, ROWS] < n
        if seldom and rare[at, FIRST] > 0.0:
            born[BORN], born[EXCESS], born[SINCE] = label + 1, rare[at, FIRST], 0.0
        rare[at, VISITS] += 1.0
    rare[at, ROWS] += 1.0
    rare[at, SEEN] = n
    born[LASTED] += pooled and rare[at, ROWS] == NEWBORN
    born[AT] = at
    news = label + 1 == born[BORN] or (pooled and rare[at, ROWS] <= NEWBORN)
    return news and born[SINCE] < NEWBORN


@kernel
def _added_up(rate, born, rare, n, label, score, usual, pooled):
    """Return a score and the excesses of the rows before it, by Page's rule.

    With e the excess of a row over what was expected, at most `FAR`, the total of the rows is
    T = max(T + e - k, 0), where k is `USUAL_EXCESS`. Were a new regime not new, each of its rows
    would have surprised as its first did: so e is that of the first, if it is higher. A regime
    that comes back is as new as at first until it is usual. ``n``: how many scores of the key there
    were. Of a key of many a new regime that began no alarm was usual, and its rows are forgotten.
    """
    if _note(rate, born, rare, n, label, score - usual, pooled):
        score = max(score, usual + born[EXCESS])
    if pooled and born[SINCE] == NEWBORN:  # it was usual
        born[TOTAL] = 0.0
    before = born[TOTAL]
    born[TOTAL] = max(before + min(score - usual, FAR) - USUAL_EXCESS, 0.0)
    return score + before


@kernel
def step_alarm(rate, pace, own, fleet, largest, codes, t, scores, labels, verdicts, out):
    """Judge each score (N,), then learn it.

    ``pace``: with its period the rate follows from times ``t``. ``own``, of K keys: ``recent`` (K,
    k), rings of scores; ``top`` (K, 2, MOST), largest excesses of the former and present block,
    falling; ``counts``, ``level``, ``born``, ``rare``. ``fleet``: ``top``, ``counts`` of each crowd
    of keys; ``level`` (2,): mean and rows; without crowds each key is judged by itself. ``labels``,
    ``verdicts`` (N,) or empty: regimes: a PLANNED row raises no alarm, one of a FAULT always does;
    neither enters the calibration.
    """
    k, pooled = own.recent.shape[1], fleet.top.shape[0] > 0
    for i in range(scores.shape[0]):
        who = codes[i]
        recent, top, counts = own.recent[who], own.top[who], own.counts[who]
        born, rare = own.born[who], own.rare[who]
        if pace[PERIOD] > 0.0:
            rate = rate_at(pace, t[i])
        usual = usual_of(own, fleet, who)
        limit, room, best, judge = limit_of(rate, own, fleet, who, largest)
        if born[JUDGE] != judge + 1:  # what adds up is judged by one crowd
            born[JUDGE] = judge + 1
            born[TOTAL] = born[PEAK] = 0.0
        out.threshold[i] = usual + limit
        out.score[i] = np.nan
        out.alarm[i] = out.began[i] = out.ended[i] = False
        if math.isnan(scores[i]):
            continue
        crowd = _crowd(own, who)
        if crowd != born[CROWD]:
            born[CROWD], born[BEST] = crowd, 0.0
        mean = mean_of(recent, counts, scores[i])
        judged = mean
        if len(labels):
            judged = _added_up(rate, born, rare, counts[N_SCORES], labels[i], mean, usual, pooled)
        out.score[i] = judged
        recent[counts[N_SCORES] % k] = scores[i]
        counts[N_SCORES] += 1
        if counts[N_SCORES] < k:
            continue
        m = counts[FORMER] + counts[CURRENT]
        known = limit < np.inf
        cap = np.inf  # of an excess
        if m >= TAIL or (pooled and known):
            cap = (limit if known else best) + room
        if len(labels):
            at = int(born[AT])
            _follow(rare[at], LEVEL, mean, min(rare[at, ROWS], STEADY))
        verdict = verdicts[i] if len(verdicts) else 0
        above = verdict == FAULT or (judged - usual > limit and verdict != PLANNED)
        out.alarm[i] = above
        if above or verdict > 0:
            born[TOTAL] = 0.0
        if above and pooled and born[SINCE] < NEWBORN:  # so it is, whenever it comes back
            for r in range(PLACES):
                if rare[r, NAME] == born[BORN]:
                    rare[r, FIRST] = max(born[EXCESS], 0.0)
        differ = _begun(counts) > EXTRA_ALARMS + 2.0 * rate * m
        # before there is a threshold, an event that is far above all counts once, too
        odd = above or (not known and mean - usual > cap)
        if not known and (odd or counts[LEFT] > 0):
            born[TOTAL] = 0.0
        if counts[LEFT] > 0 and (known or not differ):
            counts[LEFT] = max(k, QUIET_ROWS) if above else counts[LEFT] - 1
            out.ended[i] = counts[LEFT] == 0 and known
            if not known:
                _calibrate(rate, top, counts, -np.inf)  # a row more, and no higher score
            continue
        out.began[i] = above
        counts[LEFT] = max(k, QUIET_ROWS) if odd else 0
        if verdict > 0:
            continue
        if pooled:
            fleet.level[1] += fleet.level[1] < 10.0 * STEADY
            _follow(fleet.level, 0, min(mean, usual + cap), fleet.level[1])
        if pooled or len(labels):
            _follow(own.level, who, min(mean, usual + cap), min(counts[N_SCORES], STEADY))
        excess = judged - usual
        if born[PEAK] > 0.0:
            excess = max(excess, born[PEAK])
        n = counts[N_SCORES]
        if n - born[ZERO] >= LONG:
            born[TOTAL] = 0.0
        if born[TOTAL] == 0.0:
            born[ZERO] = n
        if born[TOTAL] > 0.0:  # of rows that add up the highest is calibrated on
            born[PEAK] = excess
            continue
        born[PEAK] = 0.0
        if pooled:
            seen = fleet.counts[crowd]
            wanted = EXTRA_ALARMS + rate * (seen[FORMER] + seen[CURRENT])
            if not above or _begun(seen) <= wanted:  # of many at once the first are enough
                seen[CURRENT_ALARMS] += above
                _calibrate(POOLED * rate, fleet.top[crowd], seen, min(excess, cap))
            born[BEST] = max(born[BEST], min(excess, cap))
        if differ:
            cap = np.inf
        counts[CURRENT_ALARMS] += odd
        _calibrate(rate, top, counts, min(excess, cap))


@kernel
def mark_changes(codes, starts, n_codes, hold, cost, out_change):
    """Mark where the segments of the most probable segmentation of labels begin.

    With V(0) = 0 and E the log evidence of a segment, the runs before boundary e have at best

        V(e) = max over b <= e - hold of V(b) + E(b, e) - cost [b > 0].

    E adds up run by run. A run of fewer than ``hold`` rows adds -cost - log(n_codes) at least: then
    it is a visit, which teaches nothing. Only boundaries b of the largest V(b) + E(b, e) are kept.
    ``codes`` (R,): labels of runs, below ``n_codes``; ``starts`` (R + 1,): their first rows,
    and the end; ``cost``: of a change, in nats; ``out_change`` (R,): whether a segment begins with
    the run.
    """
    n_runs, n_rows = len(codes), starts[-1]
    label = np.empty(n_rows + 1)  # log Gamma of a label's share of a segment, by its rows
    whole = np.empty(n_rows + 1)
    for n in range(n_rows + 1):
        label[n] = math.lgamma(WEIGHT * n + CONCENTRATION / n_codes)
        whole[n] = math.lgamma(WEIGHT * n + CONCENTRATION)
    rows = np.zeros((BEGINNINGS, n_codes), dtype=np.int32)  # of each label, without visits
    total = np.zeros(BEGINNINGS, dtype=np.int64)
    begin = np.zeros(BEGINNINGS, dtype=np.int64)  # run
    score = np.zeros(BEGINNINGS)
    visit = -cost - math.log(n_codes)
    come_from = np.zeros(n_runs + 1, dtype=np.int64)
    n_kept, value = 1, 0.0
    for r in range(n_runs):
        if r > 0 and value > -np.inf:
            at = n_kept
            if n_kept < BEGINNINGS:
                n_kept += 1
            else:
                at = int(score.argmin())
            begin[at], score[at] = r, value - cost
            rows[at], total[at] = 0, 0
        code, length = codes[r], starts[r + 1] - starts[r]
        value = -np.inf
        for c in range(n_kept):
            n, before = rows[c, code], total[c]
            gain = label[n + length] - label[n] - whole[before + length] + whole[before]
            if length < hold and gain < visit:
                gain = visit
            else:
                rows[c, code], total[c] = n + length, before + length
            score[c] += gain
            if starts[r + 1] - starts[begin[c]] >= hold and score[c] > value:
                value, come_from[r + 1] = score[c], begin[c]
    out_change[:] = False
    r = come_from[n_runs]
    while r > 0:
        out_change[r] = True
        r = come_from[r]


@kernel
def nearest(values, n_known, length, out_square):
    """How like the first ``n_known`` values each later stretch is, as a mean squared distance.

    ``out_square[i]`` is the least one between the ``length`` values up to ``n_known + i`` and as
    many in a row of the known ones, none of them shared; ``n_known`` is at least twice ``length``.
    """
    n = values.shape[0]
    out_square[:] = math.inf
    for lag in range(length, n - length + 1):
        begin, end = max(n_known, lag + length - 1), min(n, n_known + lag)
        total = 0.0
        for t in range(begin - length + 1, end):
            total += (values[t] - values[t - lag]) ** 2
            if t >= begin:
                out_square[t - n_known] = min(out_square[t - n_known], total)
                gone = t - length + 1
                total = max(total - (values[gone] - values[gone - lag]) ** 2, 0.0)
    for i in range(out_square.shape[0]):
        out_square[i] /= length
