"""Compiled alarms and change points, from the largest past scores and from runs of labels."""

import math

import numpy as np

from streamddcrp.compilation import kernel

MOST = 24  # largest scores kept of each block; at least 2 BLOCK + 2
BLOCK = 10  # most calibration rows of a block, in units of 1 / rate; the first has ..
FIRST_BLOCK = 200  # .. this many, and each of the next ones ..
LONGER = 3  # .. so many times as many as the one before, so that first rows are forgotten
TAIL = 20  # scores for fitting the tail
LEAST_ROWS = 100  # rows from which the tail is extrapolated, ..
FURTHEST = 10.0  # .. and by how much at most: to a rate below 1 / rows by this factor
QUIET_ROWS = 10  # rows below the threshold that end an alarm
WEIGHT = 0.5  # of a label as evidence: neighbours are correlated
CONCENTRATION = 2.0  # of a regime's label shares
BEGINNINGS = 256  # most remembered beginnings of the present regime
# With this many alarms beyond twice those asked for, the scores have changed;
EXTRA_ALARMS = 3  # with this many of all keys beyond those asked for, some are broken
MOST_EXCESS = 2.0  # mean excesses by which a calibration score may be too high

# counts (int64)
N_SCORES = 0  # scores seen
FORMER = 1  # calibration rows in the previous block
CURRENT = 2  # .. and in the present one
LEFT = 3  # rows below the threshold until the present alarm ends; 0: no alarm
FORMER_ALARMS = 4  # alarms that began in the former block
CURRENT_ALARMS = 5  # .. and in the present one
N_COUNTS = 6

LEAST_OF_ALL = 3000  # rows of all keys from which those are judged at a higher rate than asked
POOLED = 4.0  # factor by which blocks of all keys are shorter: few rows are in the tail
AGES = np.array([8, 64], dtype=np.int64)  # ages in rows at which a key joins the next crowd
CROWDS = 8  # after these ages, by the number 0, 1, .. 5+ of regimes that lasted
FAR = 30.0  # nats above a level at which excesses are capped
INFINITE = 1e250  # larger values are infinite, also as means of rows
STEADY = 1000  # most rows in a mean of scores
YOUNG = 4  # of fewer rows, the mean weighs each by about its number to this power less one

PLANNED, FAULT = 1, 2  # verdicts on regimes

# a key's surprising rows, and its regime that counts as new (float64)
BORN = 0  # label of that regime plus one, of an event the first; 0: none
SINCE = 1  # rows of the key since then
TOTAL = 2  # summed excess of the rows
EXCESS = 3  # excess of the regime's first score over the key's level
PEAK = 4  # largest judged value minus the level since the total was zero
# .. and, for many keys:
LASTED = 5  # its regimes that lasted for `NEWBORN` rows
CROWD = 6  # its similar keys, see `_crowd`
JUDGE = 7  # last crowd compared with, plus one; 0: none
NEWEST = 8  # highest label plus one; 0: no labels
AT = 9  # place of the last row's regime
RECENT = 10  # largest surprise, less a nat for each row since
BEST = 11  # highest excess since it joined its crowd
ZERO = 12  # key's scores when the total was last zero
LAST = 13  # excess of the last row over the level, unless it was in an alarm
RUNS = 14  # mean product of the signs of consecutive excesses
N_BORN = 15
NEWBORN = 20  # rows for which a regime is new, and of absence before a return, ..
SETTLED = 200  # .. in a key with this many rows; earlier, new ones are usual
LONG = 100.0  # rows that determine a regime's usual score; more are not summed
USUAL_EXCESS = 1.0  # nats a row neither summed nor alarmed

# a key's most recently seen regimes (float64)
NAME = 0  # label plus one; 0: a free place
ROWS = 1  # rows seen there
FIRST = 2  # excess of the first score, if the regime was new
SEEN = 3  # key's scores before the last of these rows
LEVEL = 4  # mean score of its rows
VISITS = 5  # after more than `NEWBORN` rows elsewhere
N_RARE = 6
PLACES = 16
SELDOM = 20  # a regime with less than one row in this many may be unusual

# what all keys have in common (float64)
OF_ALL = 0  # mean score
N_ALL = 1  # rows
SIGN = 2  # mean sign of excesses, ..
LAG = 3  # .. and of the product of those of consecutive rows
N_SIGNS = 4  # rows in these two; at most `FLEET_STEADY` count
N_LEVEL = 5
FLEET_STEADY = 1e5
OWN_RUNS = 50.0  # rows as which the mean of all keys counts in that of one

# pace (float64)
PERIOD = 0  # seconds for one alarm; 0: the rate is given
INTERVAL = 1  # mean time between rows
LAST_TIME = 2  # time of the last row
N_TIMES = 3  # rows timed
N_PACE = 4


@kernel
def mean_of(recent, counts, score):
    """Mean of ``score`` and up to k - 1 scores before it; ``recent`` (k,)."""
    n = min(counts[N_SCORES], recent.shape[0] - 1)
    total = score
    for back in range(1, n + 1):
        total += recent[(counts[N_SCORES] - back) % recent.shape[0]]
    return total / (n + 1)


@kernel
def threshold(rate, top, counts, pooled, nats, largest):
    """Return the threshold of the next row, and the mean excess of the largest scores.

    With m calibration rows it is the k-th largest of them, k = floor(rate (m + 1)). If k = 0, an
    exponential tail is fitted to the J largest: with e their mean excess over the J-th, x_J,

        P(x > x_J + a e) = J / m (1 + a / (J - 1))^-(J - 1),

    the predictive law of a new excess. So it is where rows of many keys are ``pooled``, some of
    which may be broken. No row enters there above the threshold, as rate (m + 1) of them should: of
    an exponential law cut off so, e is the total excess by as many rows less. Of scores in
    ``nats`` e is at least `USUAL_EXCESS`. ``largest`` (MOST,) is work space.
    """
    m = counts[FORMER] + counts[CURRENT]
    a = b = 0
    for q in range(MOST):  # merges the two blocks
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
def _calibrate(rate, top, counts, value, pooled):
    """Add an excess to the calibration; begin a new block if the present one is long enough."""
    if value > top[1, MOST - 1]:
        at = MOST - 1
        while at > 0 and top[1, at - 1] < value:
            top[1, at] = top[1, at - 1]
            at -= 1
        top[1, at] = value
    counts[CURRENT] += 1
    if rate == 0.0:
        return
    least = max(FIRST_BLOCK, 1.0 / (FURTHEST * rate), LONGER * counts[FORMER])
    if counts[CURRENT] >= min(least, BLOCK / (rate * (POOLED if pooled else 1.0))):
        top[0] = top[1]
        top[1] = -np.inf
        counts[FORMER] = counts[CURRENT]
        counts[CURRENT] = 0
        counts[FORMER_ALARMS] = counts[CURRENT_ALARMS]
        counts[CURRENT_ALARMS] = 0


@kernel
def rate_at(pace, t):
    """Take a row's time; return the rate of one alarm per period, 0 if unknown."""
    if pace[N_TIMES] > 0.0:
        n = min(pace[N_TIMES], 10.0 * STEADY)
        pace[INTERVAL] += (max(t - pace[LAST_TIME], 0.0) - pace[INTERVAL]) / n
    pace[LAST_TIME] = max(t, pace[LAST_TIME]) if pace[N_TIMES] > 0.0 else t
    pace[N_TIMES] += 1.0
    return min(pace[INTERVAL] / pace[PERIOD], 0.49) if pace[N_TIMES] > LEAST_ROWS else 0.0


@kernel
def usual_of(own, fleet, who):
    """Return the expected score of a key's next row, before it is seen.

    With many keys, it is higher after a surprising row if those come in runs.
    """
    return _level_of(own, fleet, who) + _carried(own.born[who], fleet.level)


@kernel
def _level_of(own, fleet, who):
    """Return the usual score of a key.

    With labels it is the mean over the last row's regime once that has `LONG` rows; before, it is
    blended with the mean over all rows of the key. The latter includes the mean of all keys as one
    extra row.
    """
    born, rare, n = own.born[who], own.rare[who], min(own.counts[who, N_SCORES], STEADY)
    level = (fleet.level[OF_ALL] + n * own.level[who]) / (n + 1.0)
    if born[NEWEST] == 0.0:
        return level if fleet.top.shape[0] > 0 else 0.0
    at = int(born[AT])
    rows = min(rare[at, ROWS], LONG)
    return ((LONG - rows) * level + rows * rare[at, LEVEL]) / LONG


@kernel
def _carried(born, level):
    """Return how much of a key's last excess is expected again.

    With m the mean sign of excesses and q that of the product of consecutive ones, the correlation
    of signs is r = (q - m^2) / (1 - m^2). A Gaussian process with such an r has the correlation
    sin(pi r / 2), whatever its scale, and no single row weighs much.
    """
    square = min(level[SIGN] ** 2, 0.9)
    r = (born[RUNS] - square) / (1.0 - square)
    return math.sin(0.5 * math.pi * min(max(r, 0.0), 1.0)) * born[LAST]


@kernel
def _follow_runs(born, level, n, excess):
    """Update the signs of excesses: those of all keys, and of a key with ``n`` rows."""
    if n > NEWBORN:  # before, its level is not known well
        sign = 1.0 if excess > 0.0 else -1.0
        both = sign if born[LAST] > 0.0 else -sign
        level[N_SIGNS] += 1.0
        gain = 1.0 / min(level[N_SIGNS] + STEADY, FLEET_STEADY)
        level[SIGN] += gain * (sign - level[SIGN])
        level[LAG] += gain * (both - level[LAG])
        born[RUNS] += (both - born[RUNS]) / min(OWN_RUNS + n, STEADY)
    else:
        born[RUNS] = level[LAG]
    born[LAST] = excess


@kernel
def _crowd(own, who):
    """Return the crowd of a key: keys of its age or, later, with as many regimes.

    It is constant while rows are summed, that is until a new regime is usual.
    """
    if own.born[who, TOTAL] > 0.0:
        return int(own.born[who, CROWD])
    crowd = np.searchsorted(AGES, own.counts[who, N_SCORES], side="right")
    if crowd == len(AGES):
        crowd = min(crowd + int(own.born[who, LASTED]), CROWDS - 1)
    return crowd


@kernel
def limit_of(rate, own, fleet, who, largest):
    """Return the allowed excess of a key's next row, the room above, its maximum, its judge.

    A key with fewer than 1 / rate rows is judged by the excesses of its crowd, or of an earlier
    crowd while those are too few; its row must also exceed its own maximum. While all are too few
    for the rate, a key that has settled is judged at the lowest that they allow. The judge
    is -1 if nothing is known yet, or if the key is judged by itself.
    """
    nats = own.born[who, NEWEST] > 0.0
    limit, excess = threshold(rate, own.top[who], own.counts[who], False, nats, largest)
    room, best, judge, highest = MOST_EXCESS * excess, largest[0], -1, largest[0]
    m = own.counts[who, FORMER] + own.counts[who, CURRENT]
    if fleet.top.shape[0] > 0 and int(rate * (m + 1) + 1e-9) == 0:
        born, at = own.born[who], _crowd(own, who)
        if born[LASTED] > 1.0:  # all rows of a key with one regime are alike
            highest = born[BEST] if at == born[CROWD] else 0.0
        for crowd in range(at, -1, -1):
            pooled, _ = threshold(rate, fleet.top[crowd], fleet.counts[crowd], True, nats, largest)
            if pooled < np.inf:
                limit, room, judge = max(pooled, highest), 0.0, crowd
                break
        # the rate is lower than any that can be told yet: take the lowest
        if judge < 0 and own.counts[who, N_SCORES] >= SETTLED:
            most = LEAST_OF_ALL - 1
            for crowd in range(at, len(AGES) - 1, -1):  # not the young
                rows = fleet.counts[crowd, FORMER] + fleet.counts[crowd, CURRENT]
                if rows > most:
                    most, judge = rows, crowd
            if judge >= 0:
                top, counts, least = fleet.top[judge], fleet.counts[judge], (1.0 + 1e-9) / FURTHEST
                pooled, _ = threshold(least / (most + 1), top, counts, True, nats, largest)
                limit, room = max(pooled, highest), 0.0
    if nats:
        limit = max(limit, USUAL_EXCESS)
    return limit, room, best, judge


@kernel
def _follow(level, at, value, n):
    """Update a mean of ``n`` rows, which forgets the first ones.

    A far larger value hardly raises it, an infinite one not at all.
    """
    rise = value - level[at]
    if abs(rise) < INFINITE:
        level[at] += (min(rise, FAR) if n > 1 else rise) / min((n + YOUNG - 1) / YOUNG, STEADY)


@kernel
def _begun(counts):
    return counts[FORMER_ALARMS] + counts[CURRENT_ALARMS]


@kernel
def _place(rare, label):
    """Return a label's place, and whether it had one; else the least recently seen's."""
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
    """Note whether a row begins a regime that is new or unusual; return this.

    A failure is unwelcome even if the model knows it. A regime is usual once it came more often
    than the alarms asked for, by `EXTRA_ALARMS`. For one born before the first alarm was due there
    is no evidence that it is rare: it starts with that many visits plus one.
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
        if pooled and born[BORN] == 0.0:  # a key's first regime is not news
            excess, born[SINCE], born[BORN] = 0.0, NEWBORN, label + 1
        elif pooled and born[SINCE] < NEWBORN:  # part of the present event
            excess = max(excess, born[EXCESS])
        else:
            born[SINCE], born[BORN] = 0.0 if pooled or n >= SETTLED else NEWBORN, label + 1
        born[EXCESS], born[NEWEST] = excess, label + 1
    elif n - rare[at, SEEN] > NEWBORN:
        seldom = rare[at, VISITS] <= EXTRA_ALARMS + rate * n and SELDOM * rare[at, ROWS] < n
        if seldom and rare[at, FIRST] > 0.0:
            born[BORN], born[EXCESS], born[SINCE] = label + 1, rare[at, FIRST], 0.0
        rare[at, VISITS] += 1.0
    rare[at, ROWS] += 1.0
    rare[at, SEEN] = n
    born[LASTED] += pooled and rare[at, ROWS] == NEWBORN
    born[AT] = at
    return _is_news(born, rare[at], pooled) and born[SINCE] < NEWBORN


@kernel
def _is_news(born, rare, pooled):
    """Whether a regime is the one that counts as new, or began after it, in the same event."""
    later = rare[NAME] > born[BORN] and rare[ROWS] <= NEWBORN
    return rare[NAME] == born[BORN] or (pooled and later)


@kernel
def _added_up(rate, born, rare, n, label, excess, pooled):
    """Return a row's excess plus those of earlier rows, by Page's rule.

    With e a row's excess over its expected score, at most `FAR`, the total is T = max(T + e - k,
    0), where k is `USUAL_EXCESS`. Rows of a new regime would all have surprised like its first one
    if the model had not adapted, so e is at least that row's excess. A regime that returns counts
    as new until it is usual. ``n`` is the number of the key's scores. With many keys, a new regime
    that raised no alarm was usual, and its rows are forgotten.
    """
    if _note(rate, born, rare, n, label, excess, pooled):
        excess = max(excess, born[EXCESS])
    if pooled and born[SINCE] == NEWBORN:  # it was usual
        born[TOTAL] = 0.0
    before = born[TOTAL]
    born[TOTAL] = max(before + min(excess, FAR) - USUAL_EXCESS, 0.0)
    return before + excess


@kernel
def step_alarm(rate, pace, own, fleet, largest, codes, t, scores, labels, verdicts, out):
    """Judge each score (N,), then learn it.

    ``pace``: with a period, the rate follows from times ``t``. ``own``, for K keys: ``recent`` (K,
    k), rings of scores; ``top`` (K, 2, MOST), largest excesses of the former and present block,
    decreasing; ``counts``, ``level``, ``born``, ``rare``. ``fleet``: ``top``, ``counts`` of each
    crowd of keys; ``level`` (2,): mean and rows; without crowds each key is judged by itself.
    ``labels``, ``verdicts`` (N,) or empty, describe regimes: a PLANNED row raises no alarm, a FAULT
    row always does; neither enters the calibration.
    """
    k, pooled = own.recent.shape[1], fleet.top.shape[0] > 0
    for i in range(scores.shape[0]):
        who = codes[i]
        recent, top, counts = own.recent[who], own.top[who], own.counts[who]
        born, rare = own.born[who], own.rare[who]
        if pace[PERIOD] > 0.0:
            rate = rate_at(pace, t[i])
        carried = _carried(born, fleet.level)
        usual = _level_of(own, fleet, who) + carried
        limit, room, best, judge = limit_of(rate, own, fleet, who, largest)
        if born[JUDGE] != judge + 1:  # one crowd must judge a sum
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
        excess = mean - usual
        if len(labels):
            excess = _added_up(rate, born, rare, counts[N_SCORES], labels[i], excess, pooled)
        out.score[i] = usual + excess if len(labels) else mean
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
            _follow(rare[at], LEVEL, mean, rare[at, ROWS])
        verdict = verdicts[i] if len(verdicts) else 0
        above = verdict == FAULT or (excess > limit and verdict != PLANNED)
        out.alarm[i] = above
        if above or verdict > 0:
            born[TOTAL] = 0.0
        if above and pooled and born[SINCE] < NEWBORN:  # remains so when it returns
            for r in range(PLACES):
                if _is_news(born, rare[r], pooled):
                    rare[r, FIRST] = max(born[EXCESS], 0.0)
        differ = _begun(counts) > EXTRA_ALARMS + 2.0 * rate * m
        # before there is a threshold, an event far above all others counts once, too
        odd = above or (not known and mean - usual > cap)
        if not known and (odd or counts[LEFT] > 0):
            born[TOTAL] = 0.0
        last, born[LAST] = born[LAST], 0.0
        if counts[LEFT] > 0 and (known or not differ):
            counts[LEFT] = max(k, QUIET_ROWS) if above else counts[LEFT] - 1
            out.ended[i] = counts[LEFT] == 0 and known
            if not known:
                _calibrate(rate, top, counts, -np.inf, False)  # one more row, but no higher score
            continue
        out.began[i] = above
        counts[LEFT] = max(k, QUIET_ROWS) if odd else 0
        if verdict > 0:
            continue
        if pooled:
            fleet.level[N_ALL] += 1.0
            _follow(fleet.level, OF_ALL, min(mean, usual + cap), fleet.level[N_ALL])
            if len(labels):
                born[LAST] = last
                _follow_runs(born, fleet.level, counts[N_SCORES], min(mean - usual + carried, FAR))
        if pooled or len(labels):
            _follow(own.level, who, min(mean, usual + cap), counts[N_SCORES])
        if born[PEAK] > 0.0:
            excess = max(excess, born[PEAK])
        n = counts[N_SCORES]
        if n - born[ZERO] >= LONG:
            born[TOTAL] = 0.0
        if born[TOTAL] == 0.0:
            born[ZERO] = n
        if born[TOTAL] > 0.0:  # the highest of summed rows is calibrated
            born[PEAK] = excess
            continue
        born[PEAK] = 0.0
        if pooled:
            seen = fleet.counts[crowd]
            wanted = EXTRA_ALARMS + rate * (seen[FORMER] + seen[CURRENT])
            if not above or _begun(seen) <= wanted:  # of many at once the first are enough
                seen[CURRENT_ALARMS] += above
                _calibrate(rate, fleet.top[crowd], seen, min(excess, cap), True)
            born[BEST] = max(born[BEST], min(excess, cap))
        if differ:
            cap = np.inf
        counts[CURRENT_ALARMS] += odd
        _calibrate(rate, top, counts, min(excess, cap), False)


@kernel
def mark_changes(codes, starts, n_codes, hold, cost, out_change):
    """Mark the beginnings of segments in the most probable segmentation of labels.

    With V(0) = 0 and E a segment's log evidence, the best value for runs before boundary e is

        V(e) = max over b <= e - hold of V(b) + E(b, e) - cost [b > 0].

    E is computed run by run. A run of fewer than ``hold`` rows costs at most cost + log(n_codes),
    as a visit that does not change the shares. Only boundaries b with the largest V(b) + E(b, e)
    are kept. ``codes`` (R,): labels of runs, below ``n_codes``; ``starts`` (R + 1,): their first
    rows, and the end; ``cost``: of a change, in nats; ``out_change`` (R,): whether a segment begins
    with the run.
    """
    n_runs, n_rows = len(codes), starts[-1]
    label = np.empty(n_rows + 1)  # log Gamma of a label's share of a segment, by rows
    whole = np.empty(n_rows + 1)
    for n in range(n_rows + 1):
        label[n] = math.lgamma(WEIGHT * n + CONCENTRATION / n_codes)
        whole[n] = math.lgamma(WEIGHT * n + CONCENTRATION)
    rows = np.zeros((BEGINNINGS, n_codes), dtype=np.int32)  # by label, without visits
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
    """Return how well each later stretch matches the first ``n_known`` values, as squared distance.

    ``out_square[i]`` is the least mean between the ``length`` values up to ``n_known + i`` and any
    disjoint stretch of known values; ``n_known`` is at least twice ``length``.
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
