"""Compiled laws of columns: level, drift and jumps, as a filter of some hypotheses.

docs/math/column_laws.md derives what follows; the numbers in brackets are its equations. All
variances are in units of that of the noise.
"""

import math

from streamddcrp.compilation import kernel

HYPOTHESES = 4  # that are kept of a column, by how it may have jumped
LEVELS = 6  # that a column remembers
SLOTS = HYPOTHESES + 1 + LEVELS  # and those of a row: a jump to a new level, or to one of these
NEVER = -1e300  # log weight of an empty slot
OUTLIERS = 0.01  # share of rows that say nothing of the column ..
FAR = 100.0  # .. and their variance
KEEP = 0.999  # of what is known of the noise, with each value
FIRST_ROWS = 250.0  # in which one jump is expected before any has been seen
RECALLED = 0.02  # variance by which a level may have moved when it returns
LARGEST = 1e6  # factor by which the variance of a jump may grow
FURTHEST = 9.0  # squared size of a jump, over its variance, up to which it is Gaussian
ITS_TIME = 3  # rows for which a new level is kept after an outlier, if not given up
SETTLED = 10  # values by which a level is one to be remembered
LOST = 40  # outliers in succession by which a level is lost
SURE = -0.1  # log weight of the hypothesis, from which a level is remembered
NEAR, ABOUT = 3.0, 0.5  # deviations of a level, and of the noise, within which it is one known
LEAST = -20.0  # log weight below which a hypothesis is given up
NEAREST = 2.0  # squared deviations from the best hypothesis below which no jump is looked for


@kernel
def _move_on(law, d, state):
    """Let a row pass [2]."""
    phi, q, trend = law[d, 0], law[d, 1], law[d, 4]
    for k in range(HYPOTHESES):
        if state.log_w[d, k] > NEVER:
            guess = state.guess[d, k]
            guess[0] *= phi
            guess[2] = phi * phi * guess[2] + q
            guess[3] *= phi
            guess[1] += trend * guess[0]
            guess[4] += trend * (2.0 * guess[3] + guess[2])
            guess[3] += trend * guess[2]


@kernel
def _foreseen(law, d, emits, state):
    """Return what is subtracted from the next value, once `_move_on` has let the row pass [8]."""
    drift, level = 0.0, 0.0
    for k in range(HYPOTHESES):
        if state.log_w[d, k] > NEVER:
            p = math.exp(state.log_w[d, k])
            drift += p * (1.0 - law[d, 4]) * state.guess[d, k, 0]
            level += p * state.guess[d, k, 1]
    if emits == 2:
        return drift
    return drift + level - law[d, 3] if emits == 1 else 0.0


@kernel
def _best(log_w):
    best = 0
    for k in range(HYPOTHESES):
        if log_w[k] > log_w[best]:
            best = k
    return best


@kernel
def _spread(trend, guess):
    """Return the variance of a value about what a hypothesis foresees."""
    return 1.0 + max(guess[4] + (1.0 - trend) * (guess[2] + 2.0 * guess[3]), 0.0)


@kernel
def _branch(y, law, d, jumps, state):
    """Write hypotheses that the best one jumps in this row [4], if it is far; return slots."""
    log_w, guess, label = state.log_w[d], state.guess[d], state.label[d]
    n_levels, best, jump, trend = state.n_levels[d], _best(log_w), law[d, 2], law[d, 4]
    chance = (1.0 + state.jumps[d]) / (FIRST_ROWS + state.n[d])
    error = y - (1.0 - trend) * guess[best, 0] - guess[best, 1]
    spread = _spread(trend, guess[best])
    near = error * error * state.noise[d, 0] < NEAREST * spread * state.noise[d, 1]
    lost = state.lost[d] >= LOST
    if near or not (jumps or lost):
        for k in range(HYPOTHESES):
            if log_w[k] > NEVER and jumps:
                log_w[k] += math.log1p(-chance)
        return HYPOTHESES
    log_jump, log_stay = math.log(chance), math.log1p(-chance)
    size = jump / (1.0 - law[d, 0]) ** 2 if trend else jump  # of a jump of the level
    square = error * error * state.noise[d, 0] / state.noise[d, 1]
    beyond = min(max(square / (FURTHEST * size), 1.0), LARGEST)
    half = math.log(2.0) if n_levels > 0 else 0.0
    for c in range(-1, n_levels):
        k = HYPOTHESES + 1 + c
        if c >= 0 and c == label[best]:
            log_w[k] = NEVER
            continue
        for j in range(5):
            guess[k, j] = guess[best, j]
        label[k], state.age[d, k] = c, 0
        if c < 0:
            guess[k, 2] += trend * jump
            guess[k, 3] += trend * jump
            guess[k, 4] += trend * jump
            log_w[k] = log_jump - half
            if lost or trend == 0.0:  # a jump of any size, of density 1 / size^3 at last
                guess[k, 4] += beyond * size
                log_w[k] -= math.log(beyond)
        else:
            guess[k, 1], guess[k, 3] = state.level[d, c, 0], 0.0
            guess[k, 4] = state.level[d, c, 1] + RECALLED
            log_w[k] = log_jump - half - math.log(n_levels)
    for k in range(HYPOTHESES):
        if log_w[k] > NEVER:
            log_w[k] += log_stay
    return HYPOTHESES + 1 + n_levels


@kernel
def _weigh(y, trend, d, slots, state, seen):
    """Weigh the hypotheses by a value; return its log density [5]."""
    a, b, log_w, guess = state.noise[d, 0], state.noise[d, 1], state.log_w[d], state.guess[d]
    constant = math.lgamma(a + 0.5) - math.lgamma(a) - 0.5 * math.log(2.0 * math.pi * a)
    beyond = math.log(OUTLIERS) - 0.5 * math.log(2.0 * math.pi * FAR)
    within, top = math.log1p(-OUTLIERS) + constant, NEVER
    for k in range(slots):
        if log_w[k] <= NEVER:
            continue
        spread = _spread(trend, guess[k])
        error, variance = y - (1.0 - trend) * guess[k, 0] - guess[k, 1], spread * b / a
        square, log_sd = min(error * error / variance, -NEVER), 0.5 * math.log(variance)
        log_in = within - log_sd - (a + 0.5) * math.log1p(square / (2.0 * a))
        log_out = beyond - log_sd - 0.5 * square / FAR
        most = max(log_in, log_out)
        log_p = most + math.log(math.exp(log_in - most) + math.exp(log_out - most))
        seen[k, 0], seen[k, 1], seen[k, 2] = math.exp(log_in - log_p), error, spread
        log_w[k] += log_p
        top = max(top, log_w[k])
    total = 0.0
    for k in range(slots):
        if log_w[k] > NEVER:
            total += math.exp(log_w[k] - top)
    log_density = top + math.log(total)
    for k in range(slots):
        if log_w[k] > NEVER:
            log_w[k] -= log_density
    return log_density


@kernel
def _update(trend, least, d, slots, state, seen):
    """Learn a value in each hypothesis [3], and what it says of the noise [6]."""
    log_w, guess, certain, square, jumped = state.log_w[d], state.guess[d], 0.0, 0.0, 0.0
    for k in range(slots):
        if log_w[k] <= NEVER:
            continue
        p, inlier, error, spread = math.exp(log_w[k]), seen[k, 0], seen[k, 1], seen[k, 2]
        certain += p * inlier
        square += p * inlier * error * error / spread
        if k >= HYPOTHESES:
            jumped += p
        if inlier > 0.5:
            own = 1.0 - trend
            drift, level = own * guess[k, 2] + guess[k, 3], own * guess[k, 3] + guess[k, 4]
            guess[k, 0] += drift * error / spread
            guess[k, 1] += level * error / spread
            guess[k, 2] -= drift * drift / spread
            guess[k, 3] -= drift * level / spread
            guess[k, 4] -= level * level / spread
    state.noise[d, 0] = KEEP * state.noise[d, 0] + 0.5 * certain
    state.noise[d, 1] = max(KEEP * state.noise[d, 1] + 0.5 * square, least * state.noise[d, 0])
    state.lost[d] = 0 if certain > 0.5 else state.lost[d] + 1
    state.jumps[d] += jumped
    state.n[d] += 1


@kernel
def _prune(d, slots, state):
    """Keep the most probable hypotheses [7]; after an outlier a new level has its time."""
    log_w, guess, label, age = state.log_w[d], state.guess[d], state.label[d], state.age[d]
    best, lost = _best(log_w), state.lost[d] > 0
    for k in range(HYPOTHESES, slots):
        low, ripe = -1, False  # the least probable; after an outlier no new level before its time
        for i in range(HYPOTHESES):
            had = lost and i != best and (label[i] >= 0 or age[i] >= ITS_TIME or log_w[i] <= NEVER)
            if low < 0 or (had and not ripe) or (had == ripe and log_w[i] < log_w[low]):
                low, ripe = i, had
        if log_w[k] > log_w[low] or (ripe and k == HYPOTHESES):
            for j in range(5):
                guess[low, j] = guess[k, j]
            log_w[low], label[low], age[low] = log_w[k], label[k], age[k]
        log_w[k] = NEVER
    total = 0.0
    for k in range(HYPOTHESES):
        if log_w[k] > NEVER:
            total += math.exp(log_w[k])
    for k in range(HYPOTHESES):
        if log_w[k] > NEVER:
            log_w[k] -= math.log(total)
            age[k] += 1
            if log_w[k] < LEAST:
                log_w[k] = NEVER


@kernel
def _remember(d, state):
    """Remember the level of the most probable hypothesis, once it has lasted."""
    best = _best(state.log_w[d])
    if state.age[d, best] < SETTLED or state.log_w[d, best] < SURE:
        return
    guess, level, label = state.guess[d, best], state.level[d], state.label[d]
    if label[best] < 0:
        noise, found = math.sqrt(state.noise[d, 1] / state.noise[d, 0]), -1
        for c in range(state.n_levels[d]):
            reach = (NEAR * math.sqrt(level[c, 1] + guess[4]) + ABOUT) * noise
            if abs(level[c, 0] - guess[1]) < reach:
                found = c
        if found < 0 and state.n_levels[d] < LEVELS:
            found = state.n_levels[d]
            state.n_levels[d] += 1
        elif found < 0:
            found = 0
            for c in range(LEVELS):
                if state.last[d, c] < state.last[d, found]:
                    found = c
            for k in range(HYPOTHESES):
                if label[k] == found:
                    label[k] = -1
        label[best] = found
    found = label[best]
    level[found, 0], level[found, 1] = guess[1], guess[4]
    state.last[d, found] = state.n[d]


@kernel
def step_laws(law, kind, state, seen, X, out, score):
    """Subtract from each value of ``X`` (N, D) what its column's law foresees, then learn it.

    ``law`` (D, 6): phi, q, variance of a jump, center, whether it is a trend, and the least noise.
    ``kind`` (D, 2): whether the level may jump; whether drift and level are subtracted. ``seen``
    (SLOTS, 3): work space. NaN is missing. ``score`` (D,): the log densities are added.
    """
    for i in range(X.shape[0]):
        for d in range(X.shape[1]):
            y = X[i, d]
            if state.n[d] < 0:  # a column without a law
                out[i, d] = y
                continue
            _move_on(law, d, state)
            shift = _foreseen(law, d, kind[d, 1], state)
            out[i, d] = y if shift == 0.0 else y - shift
            if not math.isfinite(y):
                continue
            slots = _branch(y, law, d, kind[d, 0], state)
            score[d] += _weigh(y, law[d, 4], d, slots, state, seen)
            _update(law[d, 4], law[d, 5], d, slots, state, seen)
            _prune(d, slots, state)
            if kind[d, 0] and law[d, 4] == 0.0:
                _remember(d, state)


@kernel
def shift_laws(law, kind, state, out):
    """Write what is subtracted from the next row, (D,); learns nothing."""
    for d in range(out.shape[0]):
        drift, level = 0.0, 0.0
        for k in range(HYPOTHESES):
            if state.n[d] >= 0 and state.log_w[d, k] > NEVER:
                p, guess = math.exp(state.log_w[d, k]), state.guess[d, k]
                moved = guess[0] * law[d, 0]
                drift += p * (1.0 - law[d, 4]) * moved
                level += p * (guess[1] + law[d, 4] * moved)
        out[d] = drift + level - law[d, 3] if kind[d, 1] == 1 else 0.0
