"""Regimes over states: states whose stays differ no more than stays of one regime do.

A second level, whose customers are states: ``docs/math/regimes_over_states.md``, equations (1) to
(6). Their data are stays: each column's mean and its log roughness. After each stay of `LEAST` rows
the regime of its state merges with others, and the state may move, while one regime explains their
stays better than two do. O((V + R) D) a stay, for V remembered stays in R regimes.
"""

import math

from streamddcrp.compilation import entry, uncounted
from streamddcrp.models.seqddcrp.kernels.layout import FILTERED, SETTLED

# counts
N_SEEN = 0  # rows
N_ENDED = 1  # stays that were remembered
STATE = 2  # of the last row, -1 before the first
SINCE = 3  # first row of its stay
SHOWN = 4  # the regime of that stay
STAYING = 5  # regime of the last row, -1 before the first
BEGAN = 6  # first row of its stay
N_COUNTS = 7
STAYS = 128  # remembered
PLACES = 16  # regimes whose stays are counted

# of a column in a stay or, the first three, in all rows; LAST: of the present stay
MEAN, N, SQUARES, ROUGH, PAIRS, LAST = 0, 1, 2, 3, 4, 5

LEAST = 16  # rows of a stay that is remembered
FIRST = 8  # rows after which a new state may join a regime, and again at each doubling
OWN = 1.3  # nats in favour of two regimes over one
HASTE = 2.0  # and further ones before the first stay in a state has ended
SHARED = 0.2  # probability that two regimes have one level in a column
LADDER = 7  # variances between stays: 0.01, 0.1, .. 10^4 times that within
SMALLEST = 0.01
DECADE = 1.0  # nats by which the prior prefers a tenth of the variance
WIDEST = 2.0  # of the variance of all rows: no stays of a regime vary more
TOO_WIDE = 1e-6  # prior weight beyond it
EXCLUDED = -10.0  # log weight below which a variance is none of the column's
ALIKE = 10.0  # rows worth one independent row: neighbours in time are alike
ROUGHNESS = 0.2  # unit of the ladder for log roughness
SMOOTH = 1e-3  # least roughness, as a share of the variance of all rows
TINY = 1e-200

PRECISION, WEIGHTED, SQUARED, LOGS = 0, 1, 2, 3  # sums over stays
ONE, ALL = STAYS, STAYS + 1  # places of the sums of one state, and of all stays


@entry
def step_regimes(past, counts, scratch, rows, out):
    """Learn rows (N, D) whose states are in ``out``, and write their regimes there."""
    for i in range(len(rows)):
        state = int(out[i, FILTERED])
        regime = _regime_of(past, counts, scratch, state, rows[i]) if rows.shape[1] else state
        _count_stay(past, counts, regime)
        out[i, SETTLED] = regime
        counts[N_SEEN] += 1


@uncounted
def _regime_of(past, counts, scratch, state, x):
    """Learn a row in a state, and return its regime."""
    if state != counts[STATE]:
        if counts[N_SEEN] - counts[SINCE] >= LEAST and counts[STATE] >= 0:
            _end_stay(past, counts, scratch)
        counts[STATE], counts[SINCE] = state, counts[N_SEEN]
        past.present[:] = 0.0
        past.present[LAST] = math.nan
        known = _known(past, counts, state)
        counts[SHOWN] = known if known >= 0 else state
    _learn(past.present, past.overall, x)
    n = counts[N_SEEN] - counts[SINCE] + 1
    asks = n >= FIRST and n & (n - 1) == 0 and counts[N_ENDED] > 0
    if asks and _known(past, counts, state) < 0:
        _place(past, counts, scratch)
        _weigh(past, counts, scratch, -1)
        best, counts[SHOWN] = OWN + HASTE, state
        for r in range(n_past(counts)):
            if scratch.sizes[r] > 0.0:
                gain = scratch.gain[r] + math.log(scratch.sizes[r])
                if gain > best:
                    best, counts[SHOWN] = gain, past.regime[r]
    return counts[SHOWN]


@uncounted
def _learn(present, overall, x):
    for d in range(len(x)):
        if math.isnan(x[d]):
            present[LAST, d] = math.nan
            continue
        for sums in (overall, present):
            sums[N, d] += 1.0
            off = x[d] - sums[MEAN, d]
            sums[MEAN, d] += off / sums[N, d]
            sums[SQUARES, d] += off * (x[d] - sums[MEAN, d])
        if not math.isnan(present[LAST, d]):
            present[PAIRS, d] += 1.0
            half = 0.5 * (x[d] - present[LAST, d]) ** 2
            present[ROUGH, d] += (half - present[ROUGH, d]) / present[PAIRS, d]
        present[LAST, d] = x[d]


@uncounted
def n_past(counts):
    return min(counts[N_ENDED], STAYS)


@uncounted
def _known(past, counts, state):
    """Return the regime of a state with remembered stays, or -1."""
    for v in range(n_past(counts)):
        if past.state[v] == state:
            return past.regime[v]
    return -1


@uncounted
def _end_stay(past, counts, scratch):
    """Remember the present stay in place of the oldest one, and judge its state's regime again."""
    known = _known(past, counts, counts[STATE])
    v = counts[N_ENDED] % STAYS
    counts[N_ENDED] += 1
    past.state[v] = counts[STATE]
    past.regime[v] = known if known >= 0 else counts[SHOWN]
    for i in range(LAST):
        for d in range(past.present.shape[1]):
            past.features[v, i, d] = past.present[i, d]
    _place(past, counts, scratch)
    _weigh(past, counts, scratch, v)
    while _merge(counts, scratch, v):
        _weigh(past, counts, scratch, v)
    _move(past, counts, scratch, v)
    _name(past, counts, scratch)


# -- evidence --------------------------------------------------------------------------------------


@uncounted
def _place(past, counts, scratch):
    """Give each regime the place of its first stay."""
    for v in range(n_past(counts)):
        u = 0
        while past.regime[u] != past.regime[v]:
            u += 1
        scratch.places[v] = u


@uncounted
def _weigh(past, counts, scratch, v):
    """Write to ``gain`` by how many nats regimes explain a state's stays as their own, (5).

    The state is that of stay ``v``, or of the present stay for -1. Of its own regime, the other
    states count. ``join`` gets the gain of merging its regime with each.
    """
    n, gain, join = n_past(counts), scratch.gain, scratch.join
    for r in range(n):
        scratch.sizes[r] = gain[r] = join[r] = 0.0
    for u in range(n):  # count states
        if not _holds(past.state, u, past.state[u]):
            scratch.sizes[scratch.places[u]] += 1.0
    home = scratch.places[v] if v >= 0 else -1
    for d in range(past.present.shape[1]):
        within = _noise(past, counts, scratch, d)
        for f in range(2):
            shared = _sum_stays(past, counts, scratch, f, d, within, v)
            one = _evidence(scratch, ONE, 0.0, ONE)
            whole = _evidence(scratch, home, 0.0, home) if home >= 0 else 0.0
            for r in range(n):
                if scratch.sizes[r] == 0.0:
                    continue
                if r == home:
                    gain[r] += _alike(whole - _evidence(scratch, r, -1.0, ONE) - one, shared)
                    continue
                own = _evidence(scratch, r, 0.0, r)
                gain[r] += _alike(_evidence(scratch, r, 1.0, ONE) - own - one, shared)
                if home >= 0:
                    join[r] += _alike(_evidence(scratch, r, 1.0, home) - own - whole, shared)


@uncounted
def _least(overall, d):
    """Return the least roughness of a column."""
    return SMOOTH * overall[SQUARES, d] / max(overall[N, d], 1.0) + TINY


@uncounted
def _noise(past, counts, scratch, d):
    """Return a column's variance within stays: their median roughness."""
    least, n, y = _least(past.overall, d), 0, scratch.y
    for v in range(n_past(counts)):
        if past.features[v, PAIRS, d] < 3.0:
            continue
        rough, j = past.features[v, ROUGH, d] + least, n
        while j > 0 and y[j - 1] > rough:
            y[j] = y[j - 1]
            j -= 1
        y[j] = rough
        n += 1
    return y[n // 2] if n > 0 else past.overall[SQUARES, d] / max(past.overall[N, d], 1.0) + TINY


@uncounted
def _sum_stays(past, counts, scratch, f, d, within, v):
    """Sum a feature's stays by regime, those of the state of stay ``v`` also at `ONE`, (1)."""
    n, y, noise, sums = n_past(counts), scratch.y, scratch.noise, scratch.sums
    least, seen, mean, squares = _least(past.overall, d), 0.0, 0.0, 0.0
    for u in range(n + 1):
        stay = past.features[u] if u < n else past.present
        noise[u] = 0.0
        if f == 0 and stay[N, d] > 0.0:
            own = stay[SQUARES, d] / stay[N, d]
            slow = 2.0 * own / (stay[ROUGH, d] + least) / stay[N, d]
            y[u], noise[u] = stay[MEAN, d], max(ALIKE * within / stay[N, d], own * min(slow, 1.0))
        elif f == 1 and stay[PAIRS, d] >= 3.0:
            y[u], noise[u] = math.log(stay[ROUGH, d] + least), ALIKE * 2.0 / (stay[PAIRS, d] - 1.0)
        if u < n and noise[u] > 0.0:
            seen += 1.0
            off = y[u] - mean
            mean += off / seen
            squares += off * (y[u] - mean)
    floor = past.overall[SQUARES, d] / max(past.overall[N, d], 1.0) + TINY if f == 0 else 1.0
    variance = max(squares / max(seen, 1.0), floor)
    unit = (within if f == 0 else ROUGHNESS) / variance
    sums[:] = 0.0
    for u in range(n + 1):
        if noise[u] == 0.0:
            continue
        value = y[u] = (y[u] - mean) / math.sqrt(variance)
        spread = noise[u] = noise[u] / variance
        if u < n:
            _add(sums[scratch.places[u]], value, spread, unit)
            _add(sums[ALL], value, spread, unit)
        mine = u == n if v < 0 else u < n and past.state[u] == past.state[v]
        if mine:
            _add(sums[ONE], value, spread, unit)
    return _learn_levels(scratch, n, unit)


@uncounted
def _add(sums, y, noise, unit):
    """Add a stay's feature, for each variance between stays."""
    between = SMALLEST * unit
    for b in range(LADDER):
        precision = 1.0 / (between + noise + TINY)
        sums[b, PRECISION] += precision
        sums[b, WEIGHTED] += precision * y
        sums[b, SQUARED] += precision * y * y
        sums[b, LOGS] -= math.log(precision)
        between *= 10.0


@uncounted
def _evidence(scratch, i, sign, j):
    """Return the log evidence of the stays at place ``i``, with or without those at ``j``, (2)."""
    out, top, mass = scratch.work, -math.inf, 0.0
    for b in range(LADDER):
        a, c = scratch.sums[i, b], scratch.sums[j, b]
        precision = 1.0 + max(a[PRECISION] + sign * c[PRECISION], 0.0)
        weighted = a[WEIGHTED] + sign * c[WEIGHTED]
        rest = a[SQUARED] + sign * c[SQUARED] - weighted * weighted / precision
        out[b] = -0.5 * (a[LOGS] + sign * c[LOGS] + max(rest, 0.0) + math.log(precision))
        out[b] += scratch.prior[b]
        top = max(top, out[b])
    for b in range(LADDER):
        mass += math.exp(out[b] - top)
    return top + math.log(mass)


@uncounted
def _alike(lead, shared):
    """Return nats for one regime over two, which share a level with this probability, (5)."""
    if shared == 1.0:
        return 0.0
    if lead > 0.0:
        return -math.log(shared + (1.0 - shared) * math.exp(-lead))
    return lead - math.log(1.0 - shared + shared * math.exp(lead))


@uncounted
def _learn_levels(scratch, n, unit):
    """Learn the variance between stays of one level from the column alone: log weights, (3).

    In order of value, a stay joins the level before it if one level explains both better. Returns
    the probability that two regimes share a level, (4).
    """
    y, noise, order, prior = scratch.y, scratch.noise, scratch.order, scratch.prior
    as_one, whole = scratch.work, 0.0
    seen, top, mass, between = 0, -math.inf, 0.0, SMALLEST * unit
    for v in range(n):
        if noise[v] == 0.0:
            continue
        j = seen
        while j > 0 and y[order[j - 1]] > y[v]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = v
        seen += 1
    for b in range(LADDER):
        prior[b] = -DECADE * b + (math.log(TOO_WIDE) if between > WIDEST else 0.0)
        size, P, Y, Q = 0.0, 0.0, 0.0, 0.0
        sums, logs, as_one[b] = scratch.sums[ALL, b], 0.0, prior[b] + math.lgamma(max(seen, 1.0))
        for i in range(seen):
            v = order[i]
            p = 1.0 / (between + noise[v] + TINY)
            logs += math.log(p)
            alone = _log_level(p, p * y[v], p * y[v] * y[v], p)
            if size > 0.0:
                both = _log_level(P + p, Y + p * y[v], Q + p * y[v] * y[v], p)
                lead = both - _log_level(P, Y, Q, 1.0) - alone + math.log(size)
                if lead > 0.0:
                    prior[b] += lead + alone
                    size, P, Y, Q = size + 1.0, P + p, Y + p * y[v], Q + p * y[v] * y[v]
                    continue
            prior[b] += alone
            size, P, Y, Q = 1.0, p, p * y[v], p * y[v] * y[v]
        P, Y, Q = sums[PRECISION], sums[WEIGHTED], sums[SQUARED]
        as_one[b] += _log_level(P, Y, Q, 1.0) + 0.5 * logs
        top = max(top, prior[b], as_one[b])
        between *= 10.0
    for b in range(LADDER):
        mass += math.exp(prior[b] - top)
        whole += math.exp(as_one[b] - top)
    for b in range(LADDER):
        prior[b] -= top + math.log(mass)
        if prior[b] < EXCLUDED:
            prior[b] = -math.inf
    return 1.0 - (1.0 - SHARED) * (1.0 - whole / mass) if mass > whole else 1.0


@uncounted
def _log_level(P, Y, Q, p):
    """Return the log evidence of stays at one level, of which the last one has precision ``p``."""
    return -0.5 * (max(Q - Y * Y / (1.0 + P), 0.0) + math.log(1.0 + P) - math.log(p))


# -- moves and names -------------------------------------------------------------------------------


@uncounted
def _merge(counts, scratch, v):
    """Merge the regime of stay ``v`` with another if that gains, (6)."""
    sizes, places, best, gone = scratch.sizes, scratch.places, 0.0, -1
    home = places[v]
    for r in range(n_past(counts)):
        if r == home or sizes[r] == 0.0:
            continue
        gain = scratch.join[r] - OWN + math.lgamma(sizes[home] + sizes[r])
        gain -= math.lgamma(sizes[home]) + math.lgamma(sizes[r])
        if gain > best:
            best, gone = gain, r
    for u in range(n_past(counts)):
        if gone >= 0 and places[u] == gone:
            places[u] = home
    return gone >= 0


@uncounted
def _move(past, counts, scratch, v):
    """Move the state of stay ``v`` to the regime that explains its stays best, (6)."""
    n, sizes, places = n_past(counts), scratch.sizes, scratch.places
    home, free = places[v], -1
    for u in range(n):
        if sizes[u] == 0.0:
            free = u
    if sizes[home] == 1.0:  # it is the regime
        return
    sizes[home] -= 1.0
    best, to = OWN, free
    for r in range(n):
        if sizes[r] > 0.0:
            gain = scratch.gain[r] + math.log(sizes[r])
            if gain >= best:
                best, to = gain, r
    for u in range(n):
        if past.state[u] == past.state[v]:
            places[u] = to


@uncounted
def _name(past, counts, scratch):
    """Give each regime, the largest first, the id that most of its stays had.

    If a larger regime has it: the id of one of its states, if free. Stays counted under an id that
    is gone go to the new one.
    """
    n, sizes, places, before = n_past(counts), scratch.sizes, scratch.places, scratch.before
    for r in range(n):
        before[r], sizes[r] = past.regime[r], 0.0
        scratch.named[r] = -1
    for v in range(n):
        sizes[places[v]] += 1.0
    while True:
        r = 0
        for q in range(1, n):
            if sizes[q] > sizes[r]:
                r = q
        if sizes[r] == 0.0:
            break
        sizes[r] = 0.0
        name = _voted(before, before, scratch, n, r)
        if name < 0:
            name = _voted(past.state, before, scratch, n, r)
        for v in range(n):
            if places[v] == r:
                scratch.named[v] = name if name >= 0 else before[v]
    for v in range(n):
        past.regime[v] = scratch.named[v]
    for v in range(n):
        if not _holds(past.regime, n, before[v]):
            _rename_stays(past, counts, before[v], past.regime[v])


@uncounted
def _voted(ids, before, scratch, n, r):
    """Return the free id that most stays of the regime at place ``r`` have, or -1."""
    most, found = 0, -1
    for v in range(n):
        if scratch.places[v] != r or _holds(scratch.named, n, ids[v]):
            continue
        votes = 0
        for u in range(n):
            votes += scratch.places[u] == r and ids[u] == ids[v]
        if votes > most:
            most, found = votes, ids[v]
    return found


@uncounted
def _holds(ids, n, label):
    held = False
    for v in range(n):
        held = held or ids[v] == label
    return held


# -- stays counted for users -----------------------------------------------------------------------


@uncounted
def _place_of(past, label):
    """Return the index of a regime's counted stays, or -1."""
    for i in range(PLACES):
        if past.stay_ids[i] == label:
            return i
    return -1


@uncounted
def _forget_place(past, i):
    past.stay_ids[i] = -1
    past.stays[i, :] = 0.0
    for j in range(PLACES):
        past.successors[i, j] = past.successors[j, i] = 0.0


@uncounted
def _taken_place(past, label, kept):
    """Return the index of a regime, or of the one with fewest stays to replace."""
    place = _place_of(past, label)
    if place >= 0:
        return place
    for i in range(PLACES):
        better = place < 0 or (
            past.stay_ids[place] >= 0
            and (past.stay_ids[i] < 0 or past.stays[i, 0] < past.stays[place, 0])
        )
        if i != kept and better:
            place = i
    _forget_place(past, place)
    past.stay_ids[place] = label
    return place


@uncounted
def _count_stay(past, counts, label):
    """Count the stay that the row ended, if any: number, rows, successor."""
    if label == counts[STAYING]:
        return
    if counts[STAYING] >= 0:
        here = _taken_place(past, counts[STAYING], -1)
        past.stays[here, 0] += 1.0
        past.stays[here, 1] += counts[N_SEEN] - counts[BEGAN]
        past.successors[here, _taken_place(past, label, here)] += 1.0
    counts[STAYING], counts[BEGAN] = label, counts[N_SEEN]


@uncounted
def _rename_stays(past, counts, old, new):
    """Count stays under ``old`` as those of ``new``."""
    if counts[STAYING] == old:
        counts[STAYING] = new
    a, b = _place_of(past, old), _place_of(past, new)
    if a < 0 or old == new:
        return
    if b < 0:
        past.stay_ids[a] = new
        return
    for i in range(past.stays.shape[1]):
        past.stays[b, i] += past.stays[a, i]
    for i in range(PLACES):
        past.successors[b, i] += past.successors[a, i]
    for i in range(PLACES):
        past.successors[i, b] += past.successors[i, a]
    past.successors[b, b] = 0.0
    _forget_place(past, a)
