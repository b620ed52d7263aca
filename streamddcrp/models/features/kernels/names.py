"""Public ids: identify the same feature in different particles.

Particles find a feature at different rows and resample its owners, so a feature is identified by
its owners. A particle's features are matched one to one with the known ones by the rows of the
window that have them (intersection over union); two features that were on in the same rows for a
whole window are distinguished by their loadings. A feature gets an id when particles of half the
weight have it, and is dead when no particle has it.
"""

import numpy as np

from streamddcrp.compilation import uncounted
from streamddcrp.contract import BIRTH, DEATH, LIVE, MERGE, record
from streamddcrp.models.features.kernels import slots
from streamddcrp.numerics import copy_row, holds

ONE = np.uint64(1)
SAME = 0.6  # above which two known features of different particles are one
LOOKS = 0.25  # weight of the loadings in this
LEAST = 0.3  # least intersection over union for a match
OWNERS = 3  # least owners of a named feature
SHIFT = 32  # bits of the name in a pair, below those of the slot
GROUP = (1 << SHIFT) - 1
_2, _4 = np.uint64(2), np.uint64(4)
_8, _16, _32 = np.uint64(8), np.uint64(16), np.uint64(32)
_FIVES, _THREES = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_FS, _BYTE = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0xFF)


@uncounted
def name_features(config, state, time):
    """Match the features of all particles; give ids to those that become live, record deaths."""
    particles, names, counts, work = state.particles, state.names, state.counts, state.scratch
    t = counts[slots.N_SEEN] - 1
    names.weight[:] = 0.0
    names.best[:] = 0.0
    n_slots = particles.n_owners.shape[1]
    for i in range(counts[slots.N_ACTIVE]):
        _columns(config, particles, i, t, work.column)
        _match(particles, names, i, n_slots, work)
        for k in range(1, n_slots):
            g = particles.name[i, k]
            if g >= 0:
                w = particles.weight[i]
                names.weight[g] += w
                if w > names.best[g]:
                    names.best[g] = w
                    names.holder[g] = i
                    names.slot[g] = k
    for g in range(len(names.label)):
        if not names.used[g]:
            continue
        if names.weight[g] == 0.0:
            if names.label[g] >= 0:
                _note(state, DEATH, g, -1, time)
            names.used[g] = False
            names.label[g] = -1
            continue
        if names.label[g] < 0 and names.weight[g] >= LIVE:
            names.label[g] = counts[slots.N_NAMED]
            counts[slots.N_NAMED] += 1
            names.born[g] = particles.first[names.holder[g], names.slot[g]]
            _note(state, BIRTH, g, -1, time)
        _column(config, particles, names.holder[g], names.slot[g], t, names.owners[g])
    _merge(state, time)
    for g in range(len(names.label)):
        if names.used[g]:
            copy_row(names.loading[g], particles.mean[names.holder[g], names.slot[g]])
    _note_final(config, particles, names, counts, t)


@uncounted
def _merge(state, time):
    """Join two names with the same owners by now, and few particles with both.

    A particle with both keeps the older one, as do sets of rows that left the window.
    """
    particles, names, counts = state.particles, state.names, state.counts
    G = len(names.label)
    for a in range(G):
        for b in range(G):
            if not (names.used[a] and names.used[b] and a != b):
                continue
            first, second = names.label[a], names.label[b]
            if first < 0 or (0 <= second < first):  # the older one stays
                continue
            if names.weight[a] + names.weight[b] > 1.0 + 1e-9:
                continue
            if _likeness(names.owners[a], names.owners[b]) <= SAME:
                continue
            if second >= 0:
                _note(state, MERGE, b, first, time)
                for place in range(len(names.history)):
                    _rename(names.history[place], second, first)
            for i in range(counts[slots.N_ACTIVE]):
                if _rename(particles.name[i], b, a):
                    names.weight[a] += particles.weight[i]
            if names.best[b] > names.best[a]:
                names.best[a] = names.best[b]
                names.holder[a] = names.holder[b]
                names.slot[a] = names.slot[b]
                copy_row(names.owners[a], names.owners[b])
            names.used[b] = False
            names.label[b] = -1


@uncounted
def _rename(row, old, new):
    """Write ``new`` for ``old``, or -1 if ``new`` is there; return whether one more has it now."""
    more = not holds(row, new)
    for k in range(len(row)):
        if row[k] == old:
            row[k] = new if more else -1
            return more
    return False


@uncounted
def _note_final(config, particles, names, counts, t):
    """Record the final features of the row that will leave the window."""
    row = t - config.order + 1
    if row < 0:
        return
    names.share[:] = 0.0
    at = row % particles.owners.shape[1]
    for i in range(counts[slots.N_ACTIVE]):
        mask = particles.owners[i, at]
        for k in range(1, particles.n_owners.shape[1]):
            g = particles.name[i, k]
            if g >= 0 and (mask >> np.uint64(k)) & ONE:
                names.share[g] += particles.weight[i]
    place, n = row % len(names.history), 0
    names.history[place] = -1
    for g in range(len(names.label)):
        if names.label[g] >= 0 and names.share[g] > 0.5 and n < names.history.shape[1]:
            names.history[place, n] = names.label[g]
            n += 1


@uncounted
def _columns(config, particles, i, t, out):
    """Turn the last r rows of owners into a bit set for each feature: row u at bit u mod r."""
    owners, H, r = particles.owners[i], particles.owners.shape[1], config.order
    for k in range(particles.n_owners.shape[1]):
        out[k] = 0
    u = max(0, t - r + 1)
    at, place = u % H, u % r
    for _ in range(t - u + 1):
        mask, k = owners[at], 0
        while mask:
            if mask & ONE:
                out[k, place >> 6] |= ONE << np.uint64(place & 63)
            mask >>= ONE
            k += 1
        at = at + 1 if at + 1 < H else 0
        place = place + 1 if place + 1 < r else 0


@uncounted
def _column(config, particles, i, k, t, out):
    """Write the rows of one feature as bits, as `_columns` does."""
    owners, H, r = particles.owners[i], particles.owners.shape[1], config.order
    out[:] = 0
    for u in range(max(0, t - r + 1), t + 1):
        if (owners[u % H] >> np.uint64(k)) & ONE:
            out[(u % r) >> 6] |= ONE << np.uint64((u % r) & 63)


@uncounted
def _match(particles, names, i, n_slots, work):
    """Name features after the most similar known ones; new ones need three owners."""
    like, pair, name = work.like, work.pair, particles.name[i]
    name[1:n_slots] = -1
    n_pairs = 0
    for g in range(len(names.label)):
        if names.used[g]:
            n_own = _size(names.owners[g])
            for k in range(1, n_slots):
                n = particles.n_owners[i, k]
                if min(n, n_own) > LEAST * max(n, n_own):
                    both = _common(work.column[k], names.owners[g])
                    same = both / (n + n_own - both)
                    if same > LEAST:
                        looks = _looks(particles.mean[i, k], names.loading[g])
                        pair[n_pairs] = k << SHIFT | g
                        like[n_pairs] = same + LOOKS * looks
                        n_pairs += 1
    for has_id in (True, False):  # those with an id first, so that it lasts
        while True:
            best, best_k, best_g = 0.0, -1, -1
            for n in range(n_pairs):
                if like[n] > best:
                    g = pair[n] & GROUP
                    if (names.label[g] >= 0) == has_id:
                        best, best_k, best_g = like[n], pair[n] >> SHIFT, g
            if best_k < 0:
                break
            name[best_k] = best_g
            left = 0
            for n in range(n_pairs):
                pair[left], like[left] = pair[n], like[n]
                left += pair[n] >> SHIFT != best_k and pair[n] & GROUP != best_g
            n_pairs = left
    for k in range(1, n_slots):
        if name[k] < 0 and particles.n_owners[i, k] >= OWNERS:
            for g in range(len(names.label)):
                if not names.used[g]:
                    names.used[g] = True
                    names.label[g] = -1
                    copy_row(names.owners[g], work.column[k])
                    copy_row(names.loading[g], particles.mean[i, k])
                    name[k] = g
                    break


@uncounted
def _likeness(a, b):
    """Intersection over union of two bit sets."""
    both = _common(a, b)
    either = _size(a) + _size(b) - both
    return both / either if either > 0 else 0.0


@uncounted
def _common(a, b):
    """Size of the intersection of two bit sets."""
    both = 0
    for w in range(len(a)):
        both += _count(a[w] & b[w])
    return both


@uncounted
def _size(a):
    return _common(a, a)


@uncounted
def _looks(a, b):
    """Return 1 for equal loadings, 0 for orthogonal or opposed ones."""
    both = either = 0.0
    for d in range(len(a)):
        both += a[d] * b[d]
        either += a[d] * a[d] + b[d] * b[d]
    return max(0.0, 2.0 * both / either) if either > 0.0 else 0.0


@uncounted
def _count(x):
    x = x - ((x >> ONE) & _FIVES)
    x = (x & _THREES) + ((x >> _2) & _THREES)
    x = (x + (x >> _4)) & _FS
    x = x + (x >> _8)
    x = x + (x >> _16)
    return int((x + (x >> _32)) & _BYTE)


@uncounted
def _note(state, kind, g, into, time):
    """Record an event of a feature, with its loading."""
    names, counts = state.names, state.counts
    copy_row(names.gone[counts[slots.N_EVENTS] % len(names.gone)], names.loading[g])
    t = counts[slots.N_SEEN] - 1
    record(state.events, counts, slots.N_EVENTS, kind, names.label[g], into, t, time)
