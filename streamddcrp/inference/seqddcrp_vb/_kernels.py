"""Compiled leaf operations on the streaming state; `_kernels_step` strings them together.

Symbols as in `docs/bound.md`: Z_im = q(customer i's parameter is atom m); a row of q(c_i) has local
links A_ij, links A_ig to groups of evicted customers (tied to the prior's proportions) and births
s_im. The bound is

    ELBO = sum_i rowterm_i + sum_m log m(T_m) + B(c),     c_m = sum_i s_im
    rowterm_i = sum_j A_ij (log p_ij - log A_ij) + sum_g A_ig (log p_ig - log A_ig)
              + sum_m s_im (log alpha - log S_i - log s_im)

with B(c) = 0 and one opener a column when there is no recall.
"""

import math

import numpy as np
from numba import njit

from streamddcrp._numerics import CALLER_GIVEN, digamma, log_decay
from streamddcrp.components._kernels import open_component
from streamddcrp.inference.seqddcrp_vb._kernels_layout import (
    DEAD_BIRTHS,
    DEAD_LOG_MASS,
    DEAD_TIME,
    FROZEN_BOUND,
    N_EVENTS,
    N_GROUPS,
    N_ROWS,
    N_SEEN,
    N_TABLES,
    NEW_BETA,
    NEW_LOG_BETA,
    NEXT_ID,
)
from streamddcrp.likelihoods._kernels import add_stats, expected_log_lik, log_rising, posterior

__all__ = [
    "close_last_column",
    "forward",
    "link_log_weights",
    "mix_row",
    "objective",
    "open_column",
    "record",
    "refresh_sticks",
    "refresh_totals",
    "row_term",
    "settle",
    "stick_bound",
    "stick_term",
    "sweep",
]

LINK_FLOOR = math.exp(-23.0)  # an option below this share of the row's best is set to zero
BIRTH_FLOOR = 1e-8  # in sweeps, a birth below this is set to zero


@njit(cache=True)
def _entropy_term(q, log_p):
    return q * (log_p - math.log(q)) if q > 0.0 else 0.0


@njit(cache=True)
def row_term(rows, r, n_groups, n_tables):
    """Link term of row ``r``: expected log prior plus entropy of q(c_r)."""
    total = 0.0
    for j in range(r):
        total += _entropy_term(rows.links[r, j], rows.log_weight[r, j])
    for g in range(n_groups):
        total += _entropy_term(rows.group_links[r, g], rows.group_log_weight[r, g])
    for m in range(n_tables):
        total += _entropy_term(rows.births[r, m], rows.log_birth[r])
    return total


@njit(cache=True)
def record(events, counts, kind, label, into, index, t):
    """Append an event to the ring; ``into`` is the id of the table it merged into, or -1."""
    at = counts[N_EVENTS] % events.kind.shape[0]
    events.kind[at] = kind
    events.label[at] = label
    events.into[at] = into
    events.arrival[at] = index
    events.t[at] = t
    counts[N_EVENTS] += 1


@njit(cache=True)
def link_log_weights(config, rows, groups, counts, sums, t, given, b, out_local, out_group):
    """Log decay weights of an arrival at time ``t``; return log S, dropped groups included.

    ``given[b, gap - 1]`` holds them for decays evaluated outside (`CALLER_GIVEN`); one row serves
    all arrivals where distances are gaps.
    """
    w, n_groups = counts[N_ROWS], counts[N_GROUPS]
    code, location, scale = config.decay_code, config.decay_location, config.decay_scale
    row = min(b, given.shape[0] - 1)
    top = config.log_alpha
    for j in range(w):
        if not config.tied and w - j > config.halo:
            out_local[j] = -np.inf
        elif code == CALLER_GIVEN:
            out_local[j] = given[row, w - j - 1]
        else:
            out_local[j] = log_decay(code, location, scale, t - rows.t[j])
        top = max(top, out_local[j])
    for g in range(n_groups):
        gap = counts[N_SEEN] - groups.arrival[g]
        if not config.tied and gap > config.halo:
            out_group[g] = -np.inf
        elif code == CALLER_GIVEN:
            out_group[g] = given[row, gap - 1]
        else:
            out_group[g] = groups.log_mass[g] + log_decay(code, location, scale, t - groups.t[g])
        top = max(top, out_group[g])
    total = math.exp(config.log_alpha - top)
    if sums[DEAD_LOG_MASS] > -np.inf:
        dead = sums[DEAD_LOG_MASS] + log_decay(code, location, scale, t - sums[DEAD_TIME])
        total += math.exp(dead - top)
    for j in range(w):
        total += math.exp(out_local[j] - top)
    for g in range(n_groups):
        total += math.exp(out_group[g] - top)
    return top + math.log(total)


@njit(cache=True)
def refresh_sticks(config, atoms, counts, sums):
    """Refresh E log beta and E beta under q(v_m) = Beta(1 + c_m, gamma + c_{>m})."""
    K = counts[N_TABLES]
    if not config.recall:
        for m in range(K):
            atoms.log_beta[m] = 0.0
            atoms.beta[m] = 0.0
        return
    tail = sums[DEAD_BIRTHS]
    for m in range(K):
        tail += atoms.births[m]
    passed = 0.0  # sum over earlier sticks of E log(1 - v)
    left = 1.0  # product of their E(1 - v)
    for m in range(K):
        tail -= atoms.births[m]
        a = 1.0 + atoms.births[m]
        b = config.gamma + max(tail, 0.0)
        psi = digamma(a + b)
        atoms.log_beta[m] = passed + digamma(a) - psi
        atoms.beta[m] = left * a / (a + b)
        passed += digamma(b) - psi
        left *= b / (a + b)
    sums[NEW_LOG_BETA] = passed - math.log(1.0 + config.gamma + sums[DEAD_BIRTHS])
    sums[NEW_BETA] = left


@njit(cache=True)
def stick_term(gamma, births, tail):
    """Return the share of one stick in B(c)."""
    return math.lgamma(1.0 + births) - log_rising(gamma + tail, 1.0 + births) + math.log(gamma)


@njit(cache=True)
def stick_bound(config, atoms, counts, sums):
    """B(c): expected log prior of the openings' atoms minus the divergence of the sticks."""
    if not config.recall:
        return 0.0
    total = 0.0
    tail = sums[DEAD_BIRTHS]
    for m in range(counts[N_TABLES] - 1, -1, -1):
        total += stick_term(config.gamma, atoms.births[m], tail)
        tail += atoms.births[m]
    return total


@njit(cache=True)
def objective(config, rows, atoms, table, counts, sums, scratch):
    """Bound on the log evidence of everything learned so far. O(L (L + G + K) + K)."""
    total = sums[FROZEN_BOUND] + stick_bound(config, atoms, counts, sums)
    for r in range(counts[N_ROWS]):
        total += row_term(rows, r, counts[N_GROUPS], counts[N_TABLES])
    for m in range(counts[N_TABLES]):
        posterior(config.family, config.hyper, table.stats[m], scratch.post)
        total += scratch.post[0]
    return total


@njit(cache=True)
def mix_row(rows, groups, r, n_groups, n_tables):
    """Z_r = s_r + sum_g A_rg Zbar_g + sum_j A_rj Z_j."""
    for m in range(n_tables):
        rows.probs[r, m] = rows.births[r, m]
    for g in range(n_groups):
        a = rows.group_links[r, g]
        if a > 0.0:
            for m in range(n_tables):
                rows.probs[r, m] += a * groups.probs[g, m]
    for j in range(r):
        a = rows.links[r, j]
        if a > 0.0:
            for m in range(n_tables):
                rows.probs[r, m] += a * rows.probs[j, m]


@njit(cache=True)
def open_column(rows, groups, atoms, table, counts, opener, n_rows):
    """Open a column for the arrival ``opener``, empty for the first ``n_rows`` rows."""
    K = counts[N_TABLES]
    open_component(table, K, counts[NEXT_ID], opener)
    atoms.opener[K] = opener
    atoms.births[K] = 0.0
    atoms.frozen_births[K] = 0.0
    for m in range(K + 1):
        atoms.overlap[K, m] = 0.0
        atoms.overlap[m, K] = 0.0
    for r in range(n_rows):
        rows.births[r, K] = 0.0
        rows.probs[r, K] = 0.0
    for g in range(counts[N_GROUPS]):
        groups.probs[g, K] = 0.0
    counts[N_TABLES] += 1
    counts[NEXT_ID] += 1


@njit(cache=True)
def close_last_column(counts):
    """Undo the last `open_column`; nobody may sit there any more."""
    counts[N_TABLES] -= 1
    counts[NEXT_ID] -= 1


@njit(cache=True)
def forward(rows, groups, counts):
    """Recompute the Z rows of the window, oldest first."""
    for r in range(counts[N_ROWS]):
        mix_row(rows, groups, r, counts[N_GROUPS], counts[N_TABLES])


@njit(cache=True)
def refresh_totals(config, rows, atoms, table, counts, sums):
    """Statistics, posteriors and sticks from frozen parts plus the window, recomputed."""
    w, K = counts[N_ROWS], counts[N_TABLES]
    for m in range(K):
        table.stats[m] = table.frozen[m]
        atoms.births[m] = atoms.frozen_births[m]
        for r in range(w):
            atoms.births[m] += rows.births[r, m]
            if rows.probs[r, m] > 0.0:
                add_stats(config.family, config.hyper, rows.x[r], rows.probs[r, m], table.stats[m])
        posterior(config.family, config.hyper, table.stats[m], table.post[m])
    refresh_sticks(config, atoms, counts, sums)


@njit(cache=True)
def settle(config, rows, groups, atoms, table, counts, sums):
    """Recompute from the links all that follows from them: Z, statistics, posteriors, sticks."""
    forward(rows, groups, counts)
    refresh_totals(config, rows, atoms, table, counts, sums)


@njit(cache=True)
def sweep(config, rows, groups, atoms, table, counts, scratch):
    """Exact coordinate ascent over the window's rows, youngest first, all else fixed.

    G_i = l_i + sum_{s>i} A_si G_s;
    log A_ij = log p_ij + G_i.Z_j;  log A_ig = log p_ig + G_i.Zbar_g;
    log s_im = log alpha - log S_i + E log beta_m + G_im. O(L (L + G + K) K). The caller then runs
    `settle`.
    """
    w, n_groups, K = counts[N_ROWS], counts[N_GROUPS], counts[N_TABLES]
    first = counts[N_SEEN] - w
    received, local, tied = scratch.received, scratch.local, scratch.group
    for i in range(w - 1, -1, -1):
        for m in range(K):
            received[i, m] = expected_log_lik(config.family, config.hyper, table.post[m], rows.x[i])
        for s in range(i + 1, w):
            a = rows.links[s, i]
            if a > 0.0:
                for m in range(K):
                    received[i, m] += a * received[s, m]
        top = -np.inf
        for j in range(i):
            local[j] = rows.log_weight[i, j]
            if local[j] > -np.inf:
                for m in range(K):
                    local[j] += received[i, m] * rows.probs[j, m]
                top = max(top, local[j])
        for g in range(n_groups):
            tied[g] = rows.group_log_weight[i, g]
            if tied[g] > -np.inf:
                for m in range(K):
                    tied[g] += received[i, m] * groups.probs[g, m]
                top = max(top, tied[g])
        for m in range(K):
            own = -np.inf
            if config.recall or (atoms.opener[m] == first + i and rows.births[i, m] > 0.0):
                own = rows.log_birth[i] + atoms.log_beta[m] + received[i, m]
            scratch.own[m] = own
            top = max(top, own)
        total = 0.0
        for j in range(i):
            local[j] = _floored(local[j] - top, LINK_FLOOR)
            total += local[j]
        for g in range(n_groups):
            tied[g] = _floored(tied[g] - top, LINK_FLOOR)
            total += tied[g]
        for m in range(K):
            scratch.own[m] = _floored(scratch.own[m] - top, BIRTH_FLOOR)
            total += scratch.own[m]
        for j in range(i):
            rows.links[i, j] = local[j] / total
        for g in range(n_groups):
            rows.group_links[i, g] = tied[g] / total
        for m in range(K):
            rows.births[i, m] = scratch.own[m] / total


@njit(cache=True)
def _floored(log_share, floor):
    share = math.exp(log_share)
    return share if share >= floor else 0.0
