"""Moves: changes of many links at once, each made only if the exact bound rises.

One point seldom pays for a table of its own, a run of points does. A *look-back birth* gives the
last r arrivals to a new table opened by the first of them. A screen, exact for a table that nobody
else reaches, picks r; trial sweeps and the bound decide.

Two atoms that turn out to be one *merge*, frozen history included: statistics, openings and
columns add, and the bound is charged for the entropy that the rows lose.
"""

import math

from numba import njit

from streamddcrp._numerics import log_add_exp, log_decay
from streamddcrp.inference.seqddcrp_vb._kernels import (
    close_last_column,
    objective,
    open_column,
    record,
    row_term,
    settle,
    stick_bound,
    stick_term,
    sweep,
)
from streamddcrp.inference.seqddcrp_vb._kernels_layout import (
    BIRTH,
    DEAD_BIRTHS,
    FROZEN_BOUND,
    MERGE,
    N_GROUPS,
    N_ROWS,
    N_SEEN,
    N_TABLES,
    NEW_LOG_BETA,
    SWEEP_UP,
)
from streamddcrp.inference.seqddcrp_vb._kernels_window import (
    close_column,
    overlap_entropy,
    remove_group,
)
from streamddcrp.likelihoods._kernels import add_stats, posterior

__all__ = ["look_back", "merge"]

SHORTEST = 4  # arrivals; a shorter run can open a table on arrival
TRIAL_SWEEPS = 3
KNOWN = 20.0  # expected rows from which a table is known well enough to be merged
CRUMB = 0.05  # expected rows; an atom with fewer is a birth that came to nothing


@njit(cache=True)
def _gain(config, rows, table, counts, sums, scratch, start):
    """Estimate the bound's gain if rows ``start`` onward move to a new table; -inf if barred."""
    w, n_groups, K = counts[N_ROWS], counts[N_GROUPS], counts[N_TABLES]
    family, hyper, stats = config.family, config.hyper, scratch.stats
    gain = rows.log_birth[start] + sums[NEW_LOG_BETA]
    for i in range(start, w):
        gain -= row_term(rows, i, n_groups, K)
        if i > start:
            mass = math.exp(rows.log_birth[i] - 1.0) if config.recall else 0.0
            for j in range(start, i):
                mass += math.exp(rows.log_weight[i, j])
            if mass == 0.0:
                return -math.inf
            gain += math.log(mass)
    stats[:] = 0.0
    for i in range(start, w):
        add_stats(family, hyper, rows.x[i], 1.0, stats)
    posterior(family, hyper, stats, scratch.post)
    gain += scratch.post[0]
    for m in range(K):
        taken = 0.0
        for i in range(start, w):
            taken += rows.probs[i, m]
        if taken > 1e-6:
            stats[:] = table.stats[m]
            for i in range(start, w):
                if rows.probs[i, m] > 0.0:
                    add_stats(family, hyper, rows.x[i], -rows.probs[i, m], stats)
            posterior(family, hyper, stats, scratch.post)
            gain += scratch.post[0] - table.post[m, 0]
    return gain


@njit(cache=True)
def _move(rows, counts, start):
    """Let rows ``start`` onward share the last column, linked among themselves as in the prior."""
    w, n_groups, K = counts[N_ROWS], counts[N_GROUPS], counts[N_TABLES]
    for i in range(start, w):
        for g in range(n_groups):
            rows.group_links[i, g] = 0.0
        for m in range(K):
            rows.births[i, m] = 0.0
        total = 0.0
        for j in range(i):
            rows.links[i, j] = math.exp(rows.log_weight[i, j]) if j >= start else 0.0
            total += rows.links[i, j]
        if total > 0.0:
            for j in range(start, i):
                rows.links[i, j] /= total
        else:
            rows.births[i, K - 1] = 1.0


@njit(cache=True)
def look_back(config, rows, groups, atoms, table, events, counts, sums, scratch):
    """Try one look-back birth; return whether it was made.

    O(r K P) for the screen; a trial costs three sweeps.
    """
    w, n_groups, K = counts[N_ROWS], counts[N_GROUPS], counts[N_TABLES]
    if config.max_tables <= K:
        return False
    best, start = 0.0, -1
    r = SHORTEST
    while r <= min(config.look_back, w - 1):
        gain = _gain(config, rows, table, counts, sums, scratch, w - r)
        if gain > best:
            best, start = gain, w - r
        r *= 2
    if start < 0:
        return False
    before = objective(config, rows, atoms, table, counts, sums, scratch)
    scratch.kept_links[:w, :w] = rows.links[:w, :w]
    scratch.kept_group_links[:w, :n_groups] = rows.group_links[:w, :n_groups]
    scratch.kept_births[:w, :K] = rows.births[:w, :K]
    opener = counts[N_SEEN] - w + start
    open_column(rows, groups, atoms, table, counts, opener, w)
    _move(rows, counts, start)
    settle(config, rows, groups, atoms, table, counts, sums)
    for _ in range(TRIAL_SWEEPS):
        sweep(config, rows, groups, atoms, table, counts, scratch)
        settle(config, rows, groups, atoms, table, counts, sums)
    if objective(config, rows, atoms, table, counts, sums, scratch) > before:
        table.last_seen[K] = counts[N_SEEN] - 1
        record(events, counts, BIRTH, table.ids[K], -1, opener, rows.t[start])
        return True
    close_last_column(counts)
    rows.links[:w, :w] = scratch.kept_links[:w, :w]
    rows.group_links[:w, :n_groups] = scratch.kept_group_links[:w, :n_groups]
    rows.births[:w, :K] = scratch.kept_births[:w, :K]
    settle(config, rows, groups, atoms, table, counts, sums)
    return False


@njit(cache=True)
def _ties_gain(rows, counts, g, h):
    """Change of the rows' link terms if groups ``g`` and ``h`` become one tie; never positive."""
    gain = 0.0
    for i in range(counts[N_ROWS]):
        a, b = rows.group_links[i, g], rows.group_links[i, h]
        if a + b > 0.0:
            whole = log_add_exp(rows.group_log_weight[i, g], rows.group_log_weight[i, h])
            gain += (a + b) * (whole - math.log(a + b))
            if a > 0.0:
                gain -= a * (rows.group_log_weight[i, g] - math.log(a))
            if b > 0.0:
                gain -= b * (rows.group_log_weight[i, h] - math.log(b))
    return gain


@njit(cache=True)
def _group_of(config, groups, counts, m):
    if config.tied:
        for g in range(counts[N_GROUPS]):
            if groups.atom[g] == m:
                return g
    return -1


@njit(cache=True)
def _unite_groups(config, rows, groups, counts, g, h):
    """Make group ``h`` part of group ``g``: one tie, decay masses and mean rows added."""
    code, location, scale = config.decay_code, config.decay_location, config.decay_scale
    last = max(groups.t[g], groups.t[h])
    mass_g = groups.log_mass[g] + log_decay(code, location, scale, last - groups.t[g])
    mass_h = groups.log_mass[h] + log_decay(code, location, scale, last - groups.t[h])
    mass = log_add_exp(mass_g, mass_h)
    for m in range(counts[N_TABLES]):
        groups.probs[g, m] = (
            math.exp(mass_g - mass) * groups.probs[g, m]
            + math.exp(mass_h - mass) * groups.probs[h, m]
        )
    groups.log_mass[g] = mass
    groups.t[g] = last
    groups.arrival[g] = max(groups.arrival[g], groups.arrival[h])
    for i in range(counts[N_ROWS]):
        rows.group_links[i, g] += rows.group_links[i, h]
        rows.group_log_weight[i, g] = log_add_exp(
            rows.group_log_weight[i, g], rows.group_log_weight[i, h]
        )
        rows.group_links[i, h] = 0.0
    remove_group(rows, groups, counts, h)


@njit(cache=True)
def _merge_gain(config, rows, groups, atoms, table, counts, scratch, m, l):
    """Return what the bound gains by merging atoms ``m`` and ``l``, but for the sticks."""
    scratch.stats[:] = table.stats[m] + table.stats[l]
    posterior(config.family, config.hyper, scratch.stats, scratch.post)
    gain = scratch.post[0] - table.post[m, 0] - table.post[l, 0] - atoms.overlap[m, l]
    for i in range(counts[N_ROWS]):
        gain -= overlap_entropy(rows.births[i, m], rows.births[i, l])
    g, h = _group_of(config, groups, counts, m), _group_of(config, groups, counts, l)
    if g >= 0 and h >= 0:
        gain += _ties_gain(rows, counts, g, h)
    return gain


@njit(cache=True)
def merge(config, rows, groups, atoms, table, events, counts, sums, scratch, now):
    """Merge the best pair of atoms, one of them at hand or all but empty, if the bound rises.

    Delta = log m(T_m + T_l) - log m(T_m) - log m(T_l) + B(c') - B(c) - E_ml - sum_window h(s_im,
    s_il), with E_ml the overlap of the evicted rows. The older column stays, under the id of
    the larger one. O(K P) for each atom at hand. The caller recomputes what follows.
    """
    K = counts[N_TABLES]
    if not config.recall:
        return False
    best, m, l = -math.inf, -1, -1
    for a in range(K):
        here = counts[N_SEEN] - table.last_seen[a] <= config.sweep_every
        if table.stats[a, 0] >= CRUMB and not (here and table.last_seen[a] >= 0):
            continue
        for b in range(K):
            known = min(table.stats[a, 0], table.stats[b, 0]) >= KNOWN
            if b != a and (known or table.stats[a, 0] < CRUMB):
                gain = _merge_gain(
                    config, rows, groups, atoms, table, counts, scratch, min(a, b), max(a, b)
                )
                if gain > best:
                    best, m, l = gain, min(a, b), max(a, b)
    if m < 0:
        return False
    before = stick_bound(config, atoms, counts, sums)
    kept, moved = atoms.births[m], atoms.births[l]
    atoms.births[m], atoms.births[l] = kept + moved, 0.0
    # an empty stick l leaves the bound when it goes; its term is that of no openings
    tail = sums[DEAD_BIRTHS]
    for k in range(l + 1, K):
        tail += atoms.births[k]
    after = stick_bound(config, atoms, counts, sums) - stick_term(config.gamma, 0.0, tail)
    if best + after - before <= 0.0:
        atoms.births[m], atoms.births[l] = kept, moved
        return False
    _join(config, rows, groups, atoms, table, events, counts, sums, m, l, now)
    return True


@njit(cache=True)
def _join(config, rows, groups, atoms, table, events, counts, sums, m, l, now):
    """Add column ``l`` to column ``m`` and remove it."""
    K = counts[N_TABLES]
    first, second = table.ids[m], table.ids[l]
    seen_m, seen_l = table.last_seen[m], table.last_seen[l]
    if table.stats[l, 0] > table.stats[m, 0]:  # the fewest rows get another id
        first, second = second, first
        table.ids[m] = first
        table.born[m] = table.born[l]
    kind = MERGE if seen_m >= 0 and seen_l >= 0 else SWEEP_UP
    record(events, counts, kind, second, first, counts[N_SEEN] - 1, now)
    table.last_seen[m] = max(seen_m, seen_l)
    sums[FROZEN_BOUND] -= atoms.overlap[m, l]
    for k in range(K):
        atoms.overlap[m, k] += atoms.overlap[l, k]
        atoms.overlap[k, m] = atoms.overlap[m, k]
    atoms.overlap[m, m] = 0.0
    table.stats[m] += table.stats[l]
    table.frozen[m] += table.frozen[l]
    atoms.frozen_births[m] += atoms.frozen_births[l]
    for r in range(counts[N_ROWS]):
        rows.births[r, m] += rows.births[r, l]
        rows.probs[r, m] += rows.probs[r, l]
    for g in range(counts[N_GROUPS]):
        groups.probs[g, m] += groups.probs[g, l]
        groups.probs[g, l] = 0.0
    g, h = _group_of(config, groups, counts, m), _group_of(config, groups, counts, l)
    if g >= 0 and h >= 0:
        _unite_groups(config, rows, groups, counts, g, h)
    elif h >= 0:
        groups.atom[h] = m
    close_column(rows, groups, atoms, table, counts, l)
