"""Moves: changes of many links at once, each kept only if the exact bound rises.

One point seldom pays for a table of its own, a run of points does. A *look-back birth* gives the
last r arrivals to a new table opened by the first of them. A screen, exact for a table that nobody
else reaches, picks r; trial sweeps and the bound decide.
"""

import math

from numba import njit

from streamddcrp.inference.seqddcrp_vb._kernels import (
    close_last_column,
    forward,
    objective,
    open_column,
    record,
    refresh_totals,
    row_term,
    sweep,
)
from streamddcrp.inference.seqddcrp_vb._kernels_layout import (
    BIRTH,
    N_GROUPS,
    N_ROWS,
    N_SEEN,
    N_TABLES,
    NEW_LOG_BETA,
)
from streamddcrp.likelihoods._kernels import add_stats, posterior

__all__ = ["look_back"]

SHORTEST = 4  # arrivals; a shorter run can open a table on arrival
TRIAL_SWEEPS = 3


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
    forward(rows, groups, counts)
    refresh_totals(config, rows, atoms, table, counts, sums)
    for _ in range(TRIAL_SWEEPS):
        sweep(config, rows, groups, atoms, table, counts, scratch)
        forward(rows, groups, counts)
        refresh_totals(config, rows, atoms, table, counts, sums)
    if objective(config, rows, atoms, table, counts, sums, scratch) > before:
        table.last_seen[K] = counts[N_SEEN] - 1
        record(events, counts, BIRTH, table.ids[K], opener, rows.t[start])
        return True
    close_last_column(counts)
    rows.links[:w, :w] = scratch.kept_links[:w, :w]
    rows.group_links[:w, :n_groups] = scratch.kept_group_links[:w, :n_groups]
    rows.births[:w, :K] = scratch.kept_births[:w, :K]
    forward(rows, groups, counts)
    refresh_totals(config, rows, atoms, table, counts, sums)
    return False
