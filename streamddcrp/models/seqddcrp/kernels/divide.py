"""Divide a table: some of its rows in the window, in any positions, move to a new table.

If rows of many clusters come in any order, no run of them is of one kind, so a look-back birth
finds nothing; and if they came before their tables existed, the shadow of their broad table has
mixed them. A column's rows in the window are therefore divided in two, as by k-means but by
likelihood: the least probable row is the seed of the new table, and each row goes to the table
where it is more probable, three times over. A screen and then the bound decide.
"""

import math

from streamddcrp.compilation import entry, uncounted
from streamddcrp.likelihoods.kernels import families
from streamddcrp.models.seqddcrp.kernels import layout as at
from streamddcrp.models.seqddcrp.kernels.moves import MOVES_EVERY, NOTHING, SHORTEST, try_move
from streamddcrp.models.seqddcrp.kernels.vectors import dot_one
from streamddcrp.numerics import copy_row

ROUNDS = 3


@uncounted
def _mark(config, rows, table, counts, scratch, m):
    """Mark the rows to leave column ``m`` in ``scratch.moved``; return their number."""
    w, family, hyper, moved = counts[at.N_ROWS], config.family, config.hyper, scratch.moved
    probs, weights = rows.probs[m], scratch.work
    least, seed = math.inf, w
    for r in range(w):
        moved[r] = 0.0
        if probs[r] > 0.5:
            score = families.log_predictive(family, hyper, table.post[m], rows.x[r])
            if score < least:
                least, seed = score, r
    if seed == w:
        return 0
    moved[seed] = 1.0
    n_moved = 1
    for _ in range(ROUNDS):
        for r in range(w):
            weights[r] = moved[r] * probs[r]
        scratch.stats[:] = 0.0
        families.add_rows(family, hyper, rows.x, scratch.columns, weights, 0, w, scratch.stats)
        for p in range(len(scratch.rest)):
            scratch.rest[p] = table.stats[m, p] - scratch.stats[p]
        families.posterior(family, hyper, scratch.stats, scratch.shadow_post)
        families.posterior(family, hyper, scratch.rest, scratch.post)
        n_moved = 0
        for r in range(w):
            moved[r] = 0.0
            if probs[r] > 0.5:
                there = families.log_predictive(family, hyper, scratch.shadow_post, rows.x[r])
                if there > families.log_predictive(family, hyper, scratch.post, rows.x[r]):
                    moved[r] = 1.0
                    n_moved += 1
    return n_moved


@uncounted
def _gain(config, rows, atoms, table, counts, sums, scratch, m):
    """Gain of the bound from giving the marked rows to a new table, before any sweep.

    sum_moved (-rowterm) + log alpha - log S_o + g_new + sum_{moved i > o} log sum_{moved j < i}
    p_ij + sum_others log(share of their links that stays) + log m(T_new) + log m(T_m - T_new)
    - log m(T_m), except for the moved rows' parts at other tables.
    """
    w, family, hyper, moved = counts[at.N_ROWS], config.family, config.hyper, scratch.moved
    gain = sums[at.NEW_LOG_BETA]
    scratch.stats[:] = 0.0
    copy_row(scratch.rest, table.stats[m])
    for i in range(w):
        linked = 0.0
        if moved[i] > 0.0:
            for j in range(i):
                if moved[j] > 0.0:
                    linked += math.exp(rows.log_weight[i, j])
            gain += (math.log(linked) if linked > 0.0 else rows.log_birth[i]) - rows.term[i]
            families.add_stats(family, hyper, rows.x[i], 1.0, scratch.stats)
            families.add_stats(family, hyper, rows.x[i], -rows.probs[m, i], scratch.rest)
        else:
            linked = dot_one(moved, rows.links[i], i)
            if linked < 1.0 - NOTHING:
                gain += math.log1p(-linked)
            elif config.recall:
                gain += rows.log_birth[i] + atoms.log_beta[m] - rows.term[i]
            else:
                return -math.inf
    gain += families.log_marginal(family, hyper, scratch.stats, scratch.post)
    return (
        gain + families.log_marginal(family, hyper, scratch.rest, scratch.post) - table.post[m, 0]
    )


@entry
def divide(config, rows, groups, atoms, table, events, counts, sums, scratch):
    """Try to divide one column, in turn. O(W P + W^2); a trial: three sweeps."""
    if config.max_tables <= counts[at.N_TABLES] or config.look_back < SHORTEST:
        return
    m = atoms.active[(counts[at.N_BLOCKS] // MOVES_EVERY) % counts[at.N_ACTIVE]]
    if _mark(config, rows, table, counts, scratch, m) < SHORTEST:
        return
    if _gain(config, rows, atoms, table, counts, sums, scratch, m) > 0.0:
        K = counts[at.N_TABLES]
        try_move(config, rows, groups, atoms, table, events, counts, sums, scratch, m, K)
