"""The compiled way of one arrival: predict, link, seat; every few arrivals evict, sweep, retire."""

import math

import numpy as np
from numba import njit

from streamddcrp.inference.seqddcrp_vb._kernels import (
    LINK_FLOOR,
    link_log_weights,
    mix_row,
    open_column,
    record,
    refresh_sticks,
    settle,
    sweep,
)
from streamddcrp.inference.seqddcrp_vb._kernels_layout import (
    BIRTH,
    LABEL,
    LABEL_PROB,
    LAST_TIME,
    LIVE,
    LIVE_TABLES,
    N_FORBIDDEN,
    N_GROUPS,
    N_ROWS,
    N_SEEN,
    N_TABLES,
    NEW_BETA,
    NEW_LOG_BETA,
    NEXT_ID,
    P_CHANGE,
    P_NEW,
    RETURN,
    SCORE,
    SINCE_BLOCK,
)
from streamddcrp.inference.seqddcrp_vb._kernels_moves import look_back, merge
from streamddcrp.inference.seqddcrp_vb._kernels_window import (
    drop_groups,
    evict,
    retire,
    shift_rows,
)
from streamddcrp.likelihoods._kernels import (
    add_stats,
    expected_log_lik,
    log_predictive,
    posterior,
)

__all__ = ["predict", "step_rows"]

STALE = 1e-4  # an arrival less probable than this at a table waits for the block's refresh


@njit(cache=True)
def predict(config, rows, groups, atoms, table, counts, sums, scratch, x, t, given, b, out):
    """Predict a row at time ``t``; leaves log weights of its links in ``scratch``; return log S.

    p(x) = sum_m pi_m p(x | m) + pi_new m(x), with pi the prior of the links pushed through Z.
    ``out`` : label, its probability, -log p(x), probability of a new table, of a change, live
    tables.
    """
    w, n_groups, K = counts[N_ROWS], counts[N_GROUPS], counts[N_TABLES]
    log_total = link_log_weights(
        config, rows, groups, counts, sums, t, given, b, scratch.local, scratch.group
    )
    weight = scratch.weight
    opening = math.exp(config.log_alpha - log_total)
    for m in range(K):
        weight[m] = opening * atoms.beta[m]
    for j in range(w):
        p = math.exp(scratch.local[j] - log_total)
        if p > 0.0:
            for m in range(K):
                weight[m] += p * rows.probs[j, m]
    for g in range(n_groups):
        p = math.exp(scratch.group[g] - log_total)
        if p > 0.0:
            for m in range(K):
                weight[m] += p * groups.probs[g, m]
    new = config.log_alpha - log_total + math.log(sums[NEW_BETA])
    new += log_predictive(config.family, config.hyper, scratch.prior_post, x)
    top = new
    for m in range(K):
        if weight[m] > 0.0:
            weight[m] = math.log(weight[m]) + log_predictive(
                config.family, config.hyper, table.post[m], x
            )
        else:
            weight[m] = -np.inf
        top = max(top, weight[m])
    p_new = math.exp(new - top)
    total = p_new
    best, label = p_new, counts[NEXT_ID]
    same = 0.0
    live = 0
    for m in range(K):
        weight[m] = math.exp(weight[m] - top)
        total += weight[m]
        if weight[m] > best:
            best, label = weight[m], table.ids[m]
        if w > 0:
            same += weight[m] * rows.probs[w - 1, m]
        if table.stats[m, 0] >= LIVE:
            live += 1
    for m in range(K):
        weight[m] /= total
    out[LABEL] = label
    out[LABEL_PROB] = best / total
    out[SCORE] = -(top + math.log(total))
    out[P_NEW] = p_new / total
    out[P_CHANGE] = max(0.0, 1.0 - same / total) if w > 0 else np.nan
    out[LIVE_TABLES] = live
    return log_total


@njit(cache=True)
def _seat(
    config, rows, groups, atoms, table, events, counts, sums, scratch, log_total, x, t
):  # fmt: skip
    """Set q(c) of the arrival by its scores, open a table if it wants one, add its statistics."""
    w, n_groups, K = counts[N_ROWS], counts[N_GROUPS], counts[N_TABLES]
    family, hyper = config.family, config.hyper
    local, tied, own, lik = scratch.local, scratch.group, scratch.own, scratch.weight
    rows.t[w] = t
    rows.x[w] = x
    rows.log_birth[w] = config.log_alpha - log_total
    for m in range(K):
        lik[m] = expected_log_lik(family, hyper, table.post[m], x)
    top = -np.inf
    for j in range(w):
        local[j] -= log_total
        rows.log_weight[w, j] = local[j]
        if local[j] > -np.inf:
            for m in range(K):
                local[j] += lik[m] * rows.probs[j, m]
            top = max(top, local[j])
    for g in range(n_groups):
        tied[g] -= log_total
        rows.group_log_weight[w, g] = tied[g]
        if tied[g] > -np.inf:
            for m in range(K):
                tied[g] += lik[m] * groups.probs[g, m]
            top = max(top, tied[g])
    for m in range(K):
        own[m] = -np.inf
        if config.recall:
            own[m] = rows.log_birth[w] + atoms.log_beta[m] + lik[m]
        top = max(top, own[m])
    # An untouched prior's E log p is hopeless; opening jointly with q(theta) gives log m(x).
    new = (
        rows.log_birth[w]
        + sums[NEW_LOG_BETA]
        + log_predictive(family, hyper, scratch.prior_post, x)
    )
    if config.max_tables <= K and top > -np.inf:
        counts[N_FORBIDDEN] += new > top
        new = -np.inf
    old_top = top
    top = max(top, new)
    total = 0.0
    for j in range(w):
        local[j] = math.exp(local[j] - top)
        total += local[j]
    for g in range(n_groups):
        tied[g] = math.exp(tied[g] - top)
        total += tied[g]
    for m in range(K):
        own[m] = math.exp(own[m] - top)
        total += own[m]
    opened = math.exp(new - top)
    if opened < config.birth_threshold * (total + opened):
        opened = 0.0
    floor = LINK_FLOOR * (1.0 if opened > 0.0 else math.exp(old_top - top))
    total = opened
    for j in range(w):
        local[j] = local[j] if local[j] >= floor else 0.0
        total += local[j]
    for g in range(n_groups):
        tied[g] = tied[g] if tied[g] >= floor else 0.0
        total += tied[g]
    for m in range(K):
        own[m] = own[m] if own[m] >= floor else 0.0
        total += own[m]
    for j in range(w):
        rows.links[w, j] = local[j] / total
    for g in range(n_groups):
        rows.group_links[w, g] = tied[g] / total
    for m in range(K):
        rows.births[w, m] = own[m] / total
    if opened > 0.0:
        open_column(rows, groups, atoms, table, counts, counts[N_SEEN], w + 1)
        rows.births[w, K] = opened / total
        K += 1
    mix_row(rows, groups, w, n_groups, K)
    best = 0
    for m in range(K):
        z = rows.probs[w, m]
        atoms.births[m] += rows.births[w, m]
        if z > 0.0:
            add_stats(family, hyper, x, z, table.stats[m])
            if z > STALE or (opened > 0.0 and m == K - 1):
                posterior(family, hyper, table.stats[m], table.post[m])
        if z > rows.probs[w, best]:
            best = m
    refresh_sticks(config, atoms, counts, sums)
    if table.last_seen[best] < 0:
        record(events, counts, BIRTH, table.ids[best], -1, counts[N_SEEN], t)
    elif counts[N_SEEN] - table.last_seen[best] > config.window:
        record(events, counts, RETURN, table.ids[best], -1, counts[N_SEEN], t)
    table.last_seen[best] = counts[N_SEEN]
    counts[N_ROWS] += 1
    counts[N_SEEN] += 1
    counts[SINCE_BLOCK] += 1
    sums[LAST_TIME] = t


@njit(cache=True)
def _block(config, rows, groups, atoms, table, events, counts, sums, scratch):
    """Evict down to the window, sweep, try moves, drop groups, retire tables out of reach."""
    now = sums[LAST_TIME]
    excess = max(0, counts[N_ROWS] - config.window)
    for r in range(excess):
        evict(config, rows, groups, atoms, table, counts, sums, r)
    shift_rows(rows, counts, excess)
    settle(config, rows, groups, atoms, table, counts, sums)
    for _ in range(config.n_sweeps):
        sweep(config, rows, groups, atoms, table, counts, scratch)
        settle(config, rows, groups, atoms, table, counts, sums)
    look_back(config, rows, groups, atoms, table, events, counts, sums, scratch)
    merged = merge(config, rows, groups, atoms, table, events, counts, sums, scratch, now)
    if drop_groups(config, rows, groups, counts, sums, now) or merged:
        settle(config, rows, groups, atoms, table, counts, sums)
    retire(config, rows, groups, atoms, table, events, counts, sums, now)
    counts[SINCE_BLOCK] = 0


@njit(cache=True)
def step_rows(
    config, rows, groups, atoms, table, events, counts, sums, scratch, X, t, given, start, out
):  # fmt: skip
    """Predict and learn rows ``start`` onward; stop early when a column has to be made room for.

    Returns
    -------
    int : the first row not yet learned; less than N when the capacity for tables is used up
    """
    for b in range(start, X.shape[0]):
        if counts[N_TABLES] + 2 > table.ids.shape[0]:  # one on arrival, one by a move
            return b
        log_total = predict(
            config, rows, groups, atoms, table, counts, sums, scratch, X[b], t[b], given, b, out[b]
        )
        _seat(
            config, rows, groups, atoms, table, events, counts, sums, scratch, log_total, X[b], t[b]
        )  # fmt: skip
        if counts[SINCE_BLOCK] >= config.sweep_every:
            _block(config, rows, groups, atoms, table, events, counts, sums, scratch)
    return X.shape[0]
