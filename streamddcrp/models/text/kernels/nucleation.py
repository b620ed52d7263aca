"""Steps over vectors, and what is learned from many of them at once; see `kernels.sets`."""

import math

from streamddcrp.compilation import entry, uncounted
from streamddcrp.contract import SCORE
from streamddcrp.data.kernels.boilerplate import next_look
from streamddcrp.models.text.kernels import layout, vectors
from streamddcrp.models.text.kernels.agreement import CLEARLY, compare
from streamddcrp.models.text.kernels.background import dot, find_background, is_zero
from streamddcrp.models.text.kernels.clock import advance, learn_scales, weight_now
from streamddcrp.models.text.kernels.events import BORN, CLOSED
from streamddcrp.models.text.kernels.gaps import close_gaps
from streamddcrp.models.text.kernels.sets import (
    best_alpha,
    choose,
    dimensions,
    partition,
    prepare_sets,
)
from streamddcrp.models.text.kernels.silence import SWEEP, is_over
from streamddcrp.numerics import copy_first

FIRST_RHO, FIRST_TEMPER = 0.4, 0.25
LEAST_VECTORS, MOST_VECTORS = 40, 500  # that are clustered together
LOOSE = 2  # vectors of a table whose vectors may be gathered into others
LEAST_ALPHA, MOST_ALPHA = 1.0 / 60.0, 2.0  # of what it is by default


@uncounted
def take_vectors(window, counts, sums, background, sets, n):
    """Write the products of the ``n`` vectors of ``sets.row``, less the background."""
    b, size = sums[layout.BACKGROUND], len(window.t)
    for a in range(n):
        x = window.x[sets.row[a] % size]
        sets.u[a] = dot(x, background) if b > 0.0 else 0.0
        sets.v[a] = math.sqrt(max(1.0 - 2.0 * sets.u[a] + b, 1e-12))
    for a in range(n):
        x = window.x[sets.row[a] % size]
        for c in range(a):
            product = dot(x, window.x[sets.row[c] % size]) - sets.u[a] - sets.u[c] + b
            sets.gram[a, c] = sets.gram[c, a] = product / (sets.v[a] * sets.v[c])
        sets.gram[a, a] = 1.0


@uncounted
def choose_vectors(config, tables, window, counts, sets, all_of_them):
    """Write to ``sets.row`` the newest vectors, or those without a story of more than two."""
    n, seen = 0, counts[layout.N_SEEN]
    for i in range(max(0, seen - len(sets.row)), seen):
        k = window.table[i % len(window.table)]
        if k >= 0 and (all_of_them or (tables.size[k] <= LOOSE and tables.in_window[k] > 0)):
            sets.row[n] = i
            n += 1
    return n


@uncounted
def unit_alpha(counts, sums, n):
    """Return alpha as it is where ``n`` vectors weigh 1 each, and nothing else does."""
    return sums[layout.ALPHA] * n * sums[layout.GROWTH] / max(sums[layout.TOTAL], 1e-300)


@uncounted
def learn(config, tables, window, counts, sums, background, sets):
    """Learn temper, rho and alpha from the newest vectors."""
    n = choose_vectors(config, tables, window, counts, sets, True)
    if n < LEAST_VECTORS or (config.temper > 0.0 and len(config.rho) == 1 and not config.learned):
        return
    copy_first(sets.kept, sets.row, n)
    for a in range(n // 2):  # two halves, of every other vector
        sets.row[a], sets.row[n // 2 + a] = sets.kept[2 * a], sets.kept[2 * a + 1]
    take_vectors(window, counts, sums, background, sets, n)
    D = float(window.x.shape[1])
    if config.temper == 0.0:
        sums[vectors.TEMPER] = dimensions(sets, n, D) / D
    usual = unit_alpha(counts, sums, n)
    least, most = usual, usual
    if config.learned:
        least, most = LEAST_ALPHA * usual, MOST_ALPHA * usual
    half, alpha = 0.5 * D * sums[vectors.TEMPER], usual * sums[vectors.FACTOR]
    rho, alpha = choose(config.rho, sets, n, half, alpha, least, most)
    copy_first(sets.z, sets.best, n)
    G, P = len(config.rho) * len(config.parts), len(config.parts)
    if G > 1 and counts[layout.N_SEEN] >= len(sets.row):  # halves of fewer have too little
        found, now = sums[vectors.FOUND - G : vectors.FOUND], 0
        while config.rho[now] != rho:
            now += 1
        best = compare(config.rho, config.parts, sets, n, half, alpha, least, most, found)
        if found[best] <= found[now * P] + CLEARLY / math.sqrt(n // 2):
            best = now * P
        rho, part = config.rho[best // P], config.parts[best % P]
        half *= part
        sums[vectors.TEMPER] *= part
        prepare_sets(sets, n, half, rho)
        _, alpha = partition(sets, n, alpha, least, most)
    sums[vectors.RHO] = rho
    if config.learned:
        if config.joined:
            alpha = best_alpha(n, close_gaps(sets, n), alpha, least, most)
        sums[vectors.FACTOR] = alpha / usual
    for k in range(counts[layout.N_SLOTS]):
        if tables.size[k] > 0:
            vectors.set_joint(tables, sums, k)


@uncounted
def gather_loose(config, tables, window, events, counts, sums, background, scratch, sets):
    """Make stories of vectors without one that are likelier together; all, if none is final."""
    seen = counts[layout.N_SEEN]
    n = choose_vectors(config, tables, window, counts, sets, seen <= config.ages[-1])
    if n < LEAST_VECTORS // 4:
        return
    take_vectors(window, counts, sums, background, sets, n)
    alpha = unit_alpha(counts, sums, n) * sums[vectors.FACTOR]
    prepare_sets(sets, n, 0.5 * window.x.shape[1] * sums[vectors.TEMPER], sums[vectors.RHO])
    partition(sets, n, alpha, alpha, alpha)
    if config.joined:
        close_gaps(sets, n)
    copy_first(sets.best, sets.z, n)
    scratch.taken[:] = 0
    for a in range(n):
        if sets.best[a] >= 0:
            seat_set(config, tables, window, events, counts, sums, background, scratch, sets, n, a)


@uncounted
def seat_set(config, tables, window, events, counts, sums, background, scratch, sets, n, a):
    """Put the set of vector ``a`` into the free table with most of it, or a new one."""
    which, target, most, size = sets.best[a], -1, 0, len(window.table)
    for c in range(a, n):
        if sets.best[c] == which:
            k, same = window.table[sets.row[c] % size], 0
            for e in range(c, n):
                same += sets.best[e] == which and window.table[sets.row[e] % size] == k
            if same > most and scratch.taken[k] == 0:
                target, most = k, same
    for c in range(a, n):
        if sets.best[c] != which:
            continue
        i, sets.best[c] = sets.row[c], -1
        if target < 0 or window.table[i % size] != target:
            if tables.masses.shape[0] > 0:
                window.weight[i % size] = weight_now(window.weights, sums, i % size)
            target = vectors.move(
                config, tables, window, events, counts, sums, background, i, target
            )
        scratch.taken[target] = 1


@uncounted
def look(config, tables, window, events, counts, sums, background, odds):
    """Look for a background. Where there is one now, assign again all labels that are not final."""
    known = sums[layout.BACKGROUND]
    b = find_background(tables, window, counts, known, background)
    if b == 0.0 and known == 0.0:
        return
    seen = counts[layout.N_SEEN]
    first = max(0, seen - config.ages[-1]) if known == 0.0 else seen
    for i in range(first, seen):
        at = i % len(window.table)
        k = window.table[at]
        if k >= 0:
            if tables.size[k] == 1 and tables.reported[k] >= BORN and not tables.closed[k]:
                vectors.note(tables, window, events, counts, sums, k, CLOSED, -1)
            vectors.add(tables, window, counts, sums, background, k, at, -1.0)
    sums[layout.BACKGROUND] = b
    for k in range(counts[layout.N_SLOTS]):
        if tables.size[k] > 0:
            tables.toward[k] = dot(tables.total[k], background)
            vectors.set_joint(tables, sums, k)
    for i in range(first, seen):
        at = i % len(window.table)
        if window.table[at] >= 0:
            if tables.masses.shape[0] > 0:
                window.weight[at] = weight_now(window.weights, sums, at)
            vectors.log_odds(config, tables, counts, sums, background, window.x[at], -1, 0.0, odds)
            k = vectors.best_slot(tables, counts, odds)
            vectors.seat(config, tables, window, events, counts, sums, background, i, k)


@entry
def step_vectors(
    config, tables, window, events, counts, sums, background, scratch, sets, X, t, done, out
):
    """Predict and learn unit vectors ``done`` .. N - 1; return how many are done."""
    n_ages, size, learned = len(config.ages), len(window.table), tables.masses.shape[0] > 0
    odds, between = scratch.odds, max(config.ages[-1] // 4, LEAST_VECTORS)
    for row in range(done, len(X)):
        i, x = counts[layout.N_SEEN], X[row]
        room = n_ages + 1
        if i + 1 >= counts[layout.NEXT_LOOK] or (i + 1) % between == 0:
            room += min(i + 1, config.ages[-1])  # to assign all again
        if counts[layout.N_SLOTS] + room > len(tables.id):
            return row
        at = i % size
        advance(config, tables, window, counts, sums, t[row])
        window.weight[at], window.t[at], window.table[at] = sums[layout.GROWTH], t[row], -1
        G = window.weights.shape[1]
        for g in range(G):
            window.weights[at, g] = sums[layout.N_SUMS + layout.GROWTHS * G + g]
        counts[layout.NEWEST] = i
        for d in range(len(x)):
            window.x[at, d] = x[d]
        if is_zero(x):
            vectors.describe_zero(config, tables, counts, sums, odds, out[row])
        else:
            vectors.log_odds(config, tables, counts, sums, background, x, -1, 0.0, odds)
            k = vectors.describe(config, tables, counts, sums, background, x, odds, out[row])
            sums[layout.SURPRISE] += out[row, SCORE]
            if k >= 0 and learned:
                learn_scales(tables, sums, k)
            vectors.seat(config, tables, window, events, counts, sums, background, i, k)
        for r in range(n_ages):
            j = i - config.ages[r]
            if j < 0:
                break
            at, last = j % size, r == n_ages - 1
            old = window.table[at]
            if old < 0:
                out[row, layout.FINAL_LABEL] = -1.0 if last else math.nan
                continue
            if learned:
                window.weight[at] = weight_now(window.weights, sums, at)
            y, weight = window.x[at], window.weight[at]
            vectors.log_odds(config, tables, counts, sums, background, y, old, weight, odds)
            k = vectors.best_slot(tables, counts, odds)
            if k < 0 and tables.size[old] == 1:
                k = old
            if k != old:
                vectors.move(config, tables, window, events, counts, sums, background, j, k)
            if last:
                k = window.table[at]
                out[row, layout.FINAL_LABEL] = tables.id[k]
                tables.in_window[k] -= 1
        if (i + 1) % SWEEP == 0:
            least = config.retire * sums[layout.ALPHA] / config.alpha * sums[layout.GROWTH]
            for k in range(counts[layout.N_SLOTS]):
                if tables.size[k] == 0:
                    continue
                gone = tables.mass[k] < least and tables.in_window[k] == 0
                last = gone and tables.reported[k] >= BORN and not tables.closed[k]
                if is_over(config, tables, counts, sums, k) or last:
                    vectors.note(tables, window, events, counts, sums, k, CLOSED, -1)
                if gone:
                    vectors.free(tables, counts, sums, k)
        counts[layout.N_SEEN] = i + 1
        if i + 1 >= counts[layout.NEXT_LOOK]:
            look(config, tables, window, events, counts, sums, background, odds)
            learn(config, tables, window, counts, sums, background, sets)
            gather_loose(config, tables, window, events, counts, sums, background, scratch, sets)
            counts[layout.NEXT_LOOK] = next_look(i + 1)
            if i + 1 < config.ages[-1]:  # the last look before a label is final
                counts[layout.NEXT_LOOK] = min(counts[layout.NEXT_LOOK], config.ages[-1])
        elif (i + 1) % between == 0:
            gather_loose(config, tables, window, events, counts, sums, background, scratch, sets)
    return len(X)
