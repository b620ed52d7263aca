"""Regimes over states: states whose stays differ no more than stays of one regime do.

A second level, whose customers are states: ``docs/math/regimes_over_states.md``, equations (1) to
(8). Their data are stays: each column's mean and its log roughness. After each stay of `LEAST` rows
the regime of its state merges with others, and the state may move, while one regime explains their
stays better than two do. O((V + R) D) a stay, for V remembered stays in R regimes.
"""

import math

from streamddcrp.compilation import entry, uncounted
from streamddcrp.models.seqddcrp.kernels.layout import FILTERED, SETTLED
from streamddcrp.models.seqddcrp.kernels.stays import (
    LAST,
    MEAN,
    N_ENDED,
    ONE,
    PAIRS,
    ROUGH,
    SQUARES,
    STAYS,
    N,
    alike,
    evidence,
    n_past,
    noise_of,
    seam_of,
    sum_stays,
    watch_jumps,
)

# counts
N_SEEN = 0  # rows
STATE = 2  # of the last row, -1 before the first
SINCE = 3  # first row of its stay
SHOWN = 4  # the regime of that stay
STAYING = 5  # regime of the last row, -1 before the first
BEGAN = 6  # first row of its stay
ENDED = 7  # row after the last remembered stay
N_COUNTS = 8
PLACES = 16  # regimes whose stays are counted


LEAST = 16  # rows of a stay that is remembered
FIRST = 8  # rows after which a new state may join a regime, and again at each doubling
OWN = 1.3  # nats in favour of two regimes over one
HASTE = 2.0  # and further ones before the first stay in a state has ended
GAP = 4  # rows between two stays that follow each other


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
    watch_jumps(past, counts[N_SEEN], n, x)
    asks = n >= FIRST and n & (n - 1) == 0 and counts[N_ENDED] > 0
    if asks and _known(past, counts, state) < 0:
        _place(past, counts, scratch)
        _weigh(past, counts, scratch, -1)
        scratch.gain[scratch.places[(counts[N_ENDED] - 1) % STAYS]] += _seam(past, counts)
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
def _known(past, counts, state):
    """Return the regime of a state with remembered stays, or -1."""
    for v in range(n_past(counts)):
        if past.state[v] == state:
            return past.regime[v]
    return -1


@uncounted
def _end_stay(past, counts, scratch):
    """Remember the present stay in place of the oldest one, and judge its state's regime again."""
    known, v = _known(past, counts, counts[STATE]), counts[N_ENDED] % STAYS
    past.seam[v], past.seam[(v + 1) % STAYS] = (
        _seam(past, counts),
        0.0,
    )  # the oldest has none before
    counts[N_ENDED], counts[ENDED] = counts[N_ENDED] + 1, counts[N_SEEN]
    past.state[v], past.rows[v] = counts[STATE], counts[N_SEEN] - counts[SINCE]
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
def _seam(past, counts):
    """Return nats for one regime of the present stay and the remembered one right before it."""
    if counts[N_ENDED] == 0 or counts[SINCE] - counts[ENDED] > GAP:
        return 0.0
    return seam_of(past, (counts[N_ENDED] - 1) % STAYS)


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
        within = noise_of(past, counts, scratch, d)
        for f in range(2):
            shared = sum_stays(past, counts, scratch, f, d, within, v)
            one = evidence(scratch, ONE, 0.0, ONE)
            whole = evidence(scratch, home, 0.0, home) if home >= 0 else 0.0
            for r in range(n):
                if scratch.sizes[r] == 0.0:
                    continue
                if r == home:
                    gain[r] += alike(whole - evidence(scratch, r, -1.0, ONE) - one, shared)
                    continue
                own = evidence(scratch, r, 0.0, r)
                gain[r] += alike(evidence(scratch, r, 1.0, ONE) - own - one, shared)
                if home >= 0:
                    join[r] += alike(evidence(scratch, r, 1.0, home) - own - whole, shared)
    for u in range(n):
        w = (u - 1) % STAYS  # the stay before
        if v < 0 or past.seam[u] == 0.0:
            continue
        at, before = scratch.places[u], scratch.places[w]
        if (at == home) != (before == home):
            join[before if at == home else at] += past.seam[u]
        mine = past.state[u] == past.state[v]
        if mine != (past.state[w] == past.state[v]):
            gain[before if mine else at] += past.seam[u]


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
        sizes[places[v]] += past.rows[v]
    while True:
        r = 0
        for q in range(1, n):
            if sizes[q] > sizes[r]:
                r = q
        if sizes[r] == 0.0:
            break
        sizes[r] = 0.0
        name = _voted(past, before, before, scratch, n, r)
        if name < 0:
            name = _voted(past, past.state, before, scratch, n, r)
        for v in range(n):
            if places[v] == r:
                scratch.named[v] = name if name >= 0 else before[v]
    for v in range(n):
        past.regime[v] = scratch.named[v]
    for v in range(n):
        if not _holds(past.regime, n, before[v]):
            _rename_stays(past, counts, before[v], past.regime[v])


@uncounted
def _voted(past, ids, before, scratch, n, r):
    """Return the free id that most rows of the regime at place ``r`` have, or -1."""
    most, found = 0.0, -1
    for v in range(n):
        if scratch.places[v] != r or _holds(scratch.named, n, ids[v]):
            continue
        votes = 0.0
        for u in range(n):
            if scratch.places[u] == r and ids[u] == ids[v]:
                votes += past.rows[u]
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
