"""Evidence that stays share a level and regimes are one: features, variances, levels.

``docs/math/regimes_over_states.md``, (1) to (5), (7), (8). `kernels.regimes` judges by it.
"""

import math

from streamddcrp.compilation import uncounted

N_ENDED = 1  # in counts: stays that were remembered
STAYS = 128  # remembered

# of a column in a stay or, the first three, in all rows; LAST: of the present stay
MEAN, N, SQUARES, ROUGH, PAIRS, LAST = 0, 1, 2, 3, 4, 5

SHARED = 0.2  # probability that two regimes have one level in a column
LADDER = 7  # variances between stays: 0.01, 0.1, .. 10^4 times that within
SMALLEST = 0.01
DECADE = 1.0  # nats by which the prior prefers a tenth of the variance
WIDEST = 2.0  # of the variance of all rows: no stays of a regime vary more
TOO_WIDE = 1e-6  # prior weight beyond it
EXCLUDED = -10.0  # log weight below which a variance is ruled out
ALIKE = 10.0  # rows worth one independent row: neighbours in time are alike
ROUGHNESS = 0.2  # unit of the ladder for log roughness
SMOOTH = 1e-3  # least roughness, as a share of the variance of all rows
TINY = 1e-200

PART, NEAR = 8, 32  # rows of a mean, and of the four means by which a place is judged for a jump
LATE = 8  # rows by which a change of state may be shown too late
OFTEN, CALM = 4, 40  # rows between those that tell a column's usual bend, from this one of a stay
FEW, CAP, LONG = 8.0, 25.0, 256.0  # bends until they are known; times the usual one; remembered
JUMP = 12.0  # squared bend, over the usual one, that shows a jump; up to half of it: none
ROUGHER = 16.0  # squared deviations by which two stays differ in log roughness
EACH, MOST = 1.0, 4.0  # nats for one regime by each column that does not jump; by all

PRECISION, WEIGHTED, SQUARED, LOGS = 0, 1, 2, 3  # sums over stays
ONE, ALL = STAYS, STAYS + 1  # places of the sums of one state, and of all stays


@uncounted
def n_past(counts):
    return min(counts[N_ENDED], STAYS)


@uncounted
def _least(overall, d):
    """Return the least roughness of a column."""
    return SMOOTH * overall[SQUARES, d] / max(overall[N, d], 1.0) + TINY


@uncounted
def noise_of(past, counts, scratch, d):
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
def sum_stays(past, counts, scratch, f, d, within, v):
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
def evidence(scratch, i, sign, j):
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
def alike(lead, shared):
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
    """Return the log evidence of stays at one level; the last one has precision ``p``."""
    return -0.5 * (max(Q - Y * Y / (1.0 + P), 0.0) + math.log(1.0 + P) - math.log(p))


# -- seams -----------------------------------------------------------------------------------------


@uncounted
def watch_jumps(past, i, n, x):
    """Note the bends of the last rows, row ``i`` the n-th of its stay: the largest at its start."""
    at_start, calm = LATE < n <= NEAR // 2 + LATE // 2, n >= CALM and i % OFTEN == 0
    for d in range(len(x)):
        past.near[i % NEAR, d] = x[d]
        past.jumps[d] = 0.0 if n == 1 else past.jumps[d]
        bend = _bend(past.near, i, d) ** 2 if i >= NEAR and (at_start or calm) else math.nan
        if math.isnan(bend):
            continue
        if at_start:
            past.jumps[d] = max(past.jumps[d], bend)
            continue
        usual, seen = past.bends[0, d], min(past.bends[1, d] + 1.0, LONG)
        most = CAP * usual if seen > FEW else math.inf
        past.bends[0, d] += (min(bend, most) - usual) / seen
        past.bends[1, d] = seen


@uncounted
def _bend(near, i, d):
    """Return how far a column jumps amid the last rows, less its slope before and after, (7)."""
    total, weights = 0.0, (0.5, -1.5, 1.5, -0.5)
    for part in range(4):
        mean, known = 0.0, 0
        for k in range(PART):
            x = near[(i + 1 + PART * part + k) % NEAR, d]
            if not math.isnan(x):
                known += 1
                mean += (x - mean) / known
        if known == 0:
            return math.nan
        total += weights[part] * mean
    return total


@uncounted
def seam_of(past, v):
    """Return nats for one regime of the present stay and stay ``v`` before it, (8)."""
    before, here, jump, known = past.features[v], past.present, 0.0, False
    for d in range(here.shape[1]):
        least = _least(past.overall, d)
        m, n = before[PAIRS, d], here[PAIRS, d]
        if m >= 3.0 and n >= 3.0:
            ratio = math.log((before[ROUGH, d] + least) / (here[ROUGH, d] + least))
            if ratio * ratio > ROUGHER * (0.1 + 4.0 / (m - 1.0) + 4.0 / (n - 1.0)):
                return 0.0
        if past.bends[1, d] >= FEW and past.jumps[d] > 0.0:
            known = True
            jump = max(jump, past.jumps[d] / max(past.bends[0, d], SMOOTH * least))
    share = min(max(2.0 - 2.0 * jump / JUMP, 0.0), 1.0) if known else 0.0
    return share * min(EACH * here.shape[1], MOST)
