"""What predicts rows better: a table or its halves, two tables or one, a run apart or where it was.

Where rows come in no order and tables overlap, the bound prefers one broad table to two that share
rows. Judged by what they predict, two are better: docs/math/predictive_moves.md. Every table is
also taken for two halves with statistics of their own. Every fourth block they predict the rows
that have come since, which neither has seen, and learn them, each row by its share in either half.
Where rows come in order, nothing of this is done.
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
APART = 0.9  # mean probability of the likelier half from which they share few rows
FIRST, FACTOR = 256.0, 1.5  # rows at which the only table has halves, and from then to the next
ENOUGH = 16.0  # expected rows in the window from which a table has halves
SETTLED = 20.0  # expected rows from which a table counts
SLIGHT = 0.02  # probability of a row at a table from which it counts there
TRIES = 4  # of dividing a table, about other rows each time
ROUNDS, HARD = 10, 4  # of one; in the first ones, each row is at one half only
STRIDE = 7919  # a prime, so that other rows are taken each time
KEPT = 2.0  # times as many rows are remembered by halves as by tables
FEWEST = 3.0  # expected rows at either half; with fewer, halves are given up,
WORSE, HOPE = -3.0, 2.0  # or with a lead of less than the first of these nats; after
PATIENCE = 400.0  # rows, than the second


@uncounted
def come_in_no_order(config, table, counts, sums, unknown):
    """Whether no regime lasts for two rows on average; with one table only, it is ``unknown``."""
    if config.hyper[0] == 1.0:  # tables of one column in no order are the shape of its noise
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

    ``odds``: log weight of the second half, of the first it is 0; ``whole``: that of both.
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
    """Let each half of column ``m`` be one row of it: any one, and the one least like it."""
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
    """Divide what the window holds of column ``m`` as EM does; return its log likelihood."""
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
    """Whether the only column, with ``n_new`` more rows, is to be divided now."""
    before, now = atoms.n_rows[m] - n_new, atoms.n_rows[m]
    if before < FIRST:
        return now >= FIRST
    least = math.log(before / FIRST) / math.log(FACTOR)
    return math.log(now / FIRST) / math.log(FACTOR) >= math.floor(least) + 1.0


@uncounted
def are_apart(atoms, m, known):
    """Whether the halves of column ``m`` predict better by enough; and share few rows.

    The latter where it is not known that rows come in no order: noise of a shape that tables do not
    have is no two clusters.
    """
    return atoms.lead[m] > NEEDED and (known or atoms.told[m] > APART * atoms.foretold[m])


@uncounted
def start_halves(config, rows, table, counts, scratch, m):
    """Let column ``m`` have halves: the likeliest of some. O(W P)."""
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
    """Let the halves of column ``m`` predict rows from ``first`` on, (1), and learn them.

    Return whether they are worth keeping.
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
    """Return by how many nats two columns predict the window better than one, (2). O(W P)."""
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
    """Return by how many nats a run is likelier at a column than it was as it arrived, (3)."""
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
