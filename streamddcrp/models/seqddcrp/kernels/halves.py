"""Compare predictions: a table or its halves, two tables or one, a run moved or not.

If rows come in no order and tables overlap, the bound prefers one broad table to two that share
rows. Judged by their predictions, two are better: docs/math/predictive_moves.md. Every table is
therefore also treated as two halves with their own statistics. Every fourth block they predict rows
that neither has seen yet, and then learn them, each row by its share in either half. If rows come
in order, none of this happens.
"""

import math

from streamddcrp.compilation import entry, uncounted
from streamddcrp.likelihoods.kernels.families import (
    add_stats,
    log_marginal,
    log_predictive,
    posterior,
)
from streamddcrp.models.seqddcrp.kernels.layout import N_ROWS, N_SEEN, N_TABLES
from streamddcrp.models.seqddcrp.kernels.shadow import posteriors_of_halves
from streamddcrp.models.seqddcrp.kernels.states import regimes_last
from streamddcrp.numerics import add, copy_row, log_add_exp, scale

NEEDED = 5.0  # nats by which halves must lead
APART = 0.9  # mean probability of the likelier half above which they share few rows
FIRST, FACTOR = 256.0, 1.5  # rows at which an only table gets halves, and factor between attempts
ENOUGH = 16.0  # expected rows in the window required for halves
SETTLED = 20.0  # expected rows from which a table counts
SLIGHT = 0.02  # probability of a row at a table above which it counts there
TRIES = 4  # attempts to divide a table, starting from different rows
ROUNDS, HARD = 10, 4  # of one attempt; in the first ones, each row is at one half only
STRIDE = 7919  # a prime, so that different rows are taken each time
KEPT = 2.0  # times the memory of tables
FEWEST = 3.0  # expected rows at either half; halves with fewer are given up,
WORSE, HOPE = -3.0, 2.0  # or with a lead below the first of these nats; after
PATIENCE = 400.0  # rows, below the second


@uncounted
def come_in_no_order(config, table, counts, sums, unknown):
    """Whether no regime lasts two rows on average; a single table gives ``unknown``."""
    if config.hyper[0] == 1.0:  # single-column tables in no order reflect the shape of the noise
        return False
    n_settled = 0
    for m in range(counts[N_TABLES]):
        n_settled += table.stats[m, 0] >= SETTLED
    if not config.recall or n_settled > 1:
        return config.recall and not regimes_last(config, counts, sums)
    return unknown


@uncounted
def _share(config, scratch, x, odds, whole):
    """Return log p(x) by both halves with their weights, and the row's share in the second one.

    ``odds``: log weight of the second half, relative to the first; ``whole``: of both.
    """
    first = log_predictive(config.family, config.hyper, scratch.post, x)
    second = log_predictive(config.family, config.hyper, scratch.shadow_post, x) + odds
    both = log_add_exp(first, second)
    return both - whole, math.exp(second - both)


@uncounted
def _add(config, table, m, x, weight, share):
    """Add a row to both halves of column ``m``."""
    add_stats(config.family, config.hyper, x, weight * (1.0 - share), table.left[m])
    add_stats(config.family, config.hyper, x, weight * share, table.right[m])


@uncounted
def _seed(config, rows, table, counts, scratch, m, turn):
    """Seed each half of column ``m`` with one row: any one, and the least similar one."""
    w, family, hyper = counts[N_ROWS], config.family, config.hyper
    n, one = 0, 0
    for r in range(w):
        n += rows.probs[m, r] > 0.5
    left = (counts[N_SEEN] // 8 + turn) * STRIDE % n
    for r in range(w):
        if rows.probs[m, r] > 0.5:
            if left == 0:
                one = r
            left -= 1
    scratch.stats[:] = 0.0
    add_stats(family, hyper, rows.x[one], ENOUGH, scratch.stats)
    posterior(family, hyper, scratch.stats, scratch.post)
    least, other = math.inf, one
    for r in range(w):
        if rows.probs[m, r] > 0.5:
            score = log_predictive(family, hyper, scratch.post, rows.x[r])
            if score < least:
                least, other = score, r
    table.left[m], table.right[m] = 0.0, 0.0
    _add(config, table, m, rows.x[one], 1.0, 0.0)
    _add(config, table, m, rows.x[other], 1.0, 1.0)


@uncounted
def _divide(config, rows, table, counts, scratch, m, turn):
    """Divide the window rows of column ``m`` by EM; return the log likelihood."""
    _seed(config, rows, table, counts, scratch, m, turn)
    fit = 0.0
    for n_round in range(ROUNDS):
        odds, fit = posteriors_of_halves(config, table, scratch, m), 0.0
        whole = math.log1p(math.exp(odds))
        table.left[m], table.right[m] = 0.0, 0.0
        for r in range(counts[N_ROWS]):
            z = rows.probs[m, r]
            if z > SLIGHT:
                log_p, share = _share(config, scratch, rows.x[r], odds, whole)
                if n_round < HARD:
                    share = 1.0 if share > 0.5 else 0.0
                fit += z * log_p
                _add(config, table, m, rows.x[r], z, share)
    return fit


@uncounted
def has_enough(rows, counts, m):
    """Whether the window holds enough of column ``m`` to divide it."""
    n = 0.0
    for r in range(counts[N_ROWS]):
        n += rows.probs[m, r] if rows.probs[m, r] > 0.5 else 0.0
    return n >= ENOUGH


@uncounted
def is_due(atoms, m, n_new):
    """Whether the only column, with ``n_new`` more rows, is due for division."""
    before, now = atoms.n_rows[m] - n_new, atoms.n_rows[m]
    if before < FIRST:
        return now >= FIRST
    least = math.log(before / FIRST) / math.log(FACTOR)
    return math.log(now / FIRST) / math.log(FACTOR) >= math.floor(least) + 1.0


@uncounted
def are_apart(atoms, m, known):
    """Whether the halves of column ``m`` predict better by enough, and share few rows.

    The latter is required unless rows are known to come in no order: noise of another shape than a
    table's is not two clusters.
    """
    return atoms.lead[m] > NEEDED and (known or atoms.told[m] > APART * atoms.foretold[m])


@uncounted
def start_halves(config, rows, table, counts, scratch, m):
    """Give column ``m`` halves, the likeliest of several attempts. O(W P)."""
    best = -math.inf
    for turn in range(TRIES):
        fit = _divide(config, rows, table, counts, scratch, m, turn)
        if fit > best:
            best = fit
            copy_row(scratch.taken[0], table.left[m])
            copy_row(scratch.taken[1], table.right[m])
    copy_row(table.left[m], scratch.taken[0])
    copy_row(table.right[m], scratch.taken[1])


@entry
def follow_halves(config, rows, atoms, table, counts, scratch, m, first):
    """Let the halves of column ``m`` predict rows from ``first`` on, (1), then learn them.

    Returns whether they are worth keeping.
    """
    odds = posteriors_of_halves(config, table, scratch, m)
    both = math.log1p(math.exp(odds))
    copy_row(scratch.stats, table.left[m])
    add(scratch.stats, 1.0, table.right[m])
    posterior(config.family, config.hyper, scratch.stats, scratch.whole_post)
    for r in range(first, counts[N_ROWS]):
        z = rows.probs[m, r]
        if z > SLIGHT:
            log_p, share = _share(config, scratch, rows.x[r], odds, both)
            whole = log_predictive(config.family, config.hyper, scratch.whole_post, rows.x[r])
            atoms.lead[m] += z * (log_p - whole)
            atoms.foretold[m] += z
            atoms.told[m] += z * max(share, 1.0 - share)
            _add(config, table, m, rows.x[r], z, share)
    n, most = table.left[m, 0] + table.right[m, 0], KEPT * config.memory
    if n > most:
        scale(table.left[m], most / n)
        scale(table.right[m], most / n)
    least = WORSE if atoms.foretold[m] < PATIENCE else HOPE
    return atoms.lead[m] > least and min(table.left[m, 0], table.right[m, 0]) >= FEWEST


@entry
def gain_apart(config, rows, table, counts, scratch, m, l):
    """Return the nats by which two columns predict the window better than one, (2). O(W P)."""
    w, family, hyper = counts[N_ROWS], config.family, config.hyper
    n_m, n_l, gain = 0.5, 0.5, 0.0
    for r in range(w):
        n_m += rows.probs[m, r]
        n_l += rows.probs[l, r]
    odds = math.log(n_l) - math.log(n_m)
    whole = math.log1p(math.exp(odds))
    for r in range(w):
        a, b = rows.probs[m, r], rows.probs[l, r]
        if a + b > SLIGHT:
            copy_row(scratch.stats, table.stats[m])
            add_stats(family, hyper, rows.x[r], -a, scratch.stats)
            posterior(family, hyper, scratch.stats, scratch.post)
            copy_row(scratch.rest, table.stats[l])
            add_stats(family, hyper, rows.x[r], -b, scratch.rest)
            posterior(family, hyper, scratch.rest, scratch.shadow_post)
            apart, _ = _share(config, scratch, rows.x[r], odds, whole)
            add(scratch.stats, 1.0, scratch.rest)
            posterior(family, hyper, scratch.stats, scratch.post)
            gain += (a + b) * (apart - log_predictive(family, hyper, scratch.post, rows.x[r]))
    return gain


@entry
def gain_of_run(config, rows, table, counts, scratch, start, into):
    """Return the nats by which a run is likelier at a column than on arrival, (3)."""
    family, hyper, stats = config.family, config.hyper, scratch.stats
    stats[:] = 0.0
    gain = 0.0
    if into < counts[N_TABLES]:
        copy_row(stats, table.stats[into])
        for r in range(start, counts[N_ROWS]):
            add_stats(family, hyper, rows.x[r], -rows.probs[into, r], stats)
        gain -= log_marginal(family, hyper, stats, scratch.post)
    for r in range(start, counts[N_ROWS]):
        add_stats(family, hyper, rows.x[r], 1.0, stats)
        gain += rows.surprise[r]
    return gain + log_marginal(family, hyper, stats, scratch.post)
