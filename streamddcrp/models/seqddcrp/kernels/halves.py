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
from streamddcrp.models.seqddcrp.kernels.layout import N_KEPT, N_ROWS, N_SEEN, N_TABLES
from streamddcrp.models.seqddcrp.kernels.shadow import posteriors_of_halves
from streamddcrp.models.seqddcrp.kernels.states import regimes_last
from streamddcrp.numerics import add, copy_row, log_add_exp, scale, sum_first

PAST = 512  # evicted rows that are kept, while there is only one table
NEEDED = 5.0  # nats by which halves must lead
APART = 0.9  # mean probability of the likelier half above which they share few rows
FIRST, FACTOR = 256.0, 1.5  # rows at which an only table gets halves, and factor between attempts
ENOUGH = 16.0  # expected rows required for halves; also in either one for a split
SETTLED = 20.0  # expected rows from which a table counts
SLIGHT = 0.02  # probability of a row at a table above which it counts there
MANY = 24.0  # expected rows of either age, if the older ones are to predict the newer
MARGIN = 1.0  # nats by which other halves must be likelier
EVERY = 64  # rows of a table, one of several, until other halves are looked for
AGAIN = 3  # rounds of EM that improve halves
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
def _scores(config, scratch, x, odds):
    """Return log p(x) by each half; ``odds``: log weight of the second, relative to the first."""
    first = log_predictive(config.family, config.hyper, scratch.post, x)
    return first, log_predictive(config.family, config.hyper, scratch.shadow_post, x) + odds


@uncounted
def _share(config, scratch, x, odds, whole):
    """Return log p(x) by both halves, with log weight ``whole``, and the second one's share."""
    first, second = _scores(config, scratch, x, odds)
    both = log_add_exp(first, second)
    return both - whole, math.exp(second - both)


@uncounted
def _add(config, table, m, x, weight, share):
    """Add a row to both halves of column ``m``, or to one that has all of it."""
    if share < 1.0:
        add_stats(config.family, config.hyper, x, weight * (1.0 - share), table.left[m])
    if share > 0.0:
        add_stats(config.family, config.hyper, x, weight * share, table.right[m])


@uncounted
def keep_past(config, rows, table, counts, sums, scratch, n):
    """Keep the ``n`` rows just frozen if there is only one table, so that more of it is known."""
    if not come_in_no_order(config, table, counts, sums, True) or come_in_no_order(
        config, table, counts, sums, False
    ):
        counts[N_KEPT] = 0
        return
    for r in range(n):
        if table.stats[scratch.home[r], 0] >= SETTLED:
            copy_row(rows.past[counts[N_KEPT] % PAST], rows.x[r])
            counts[N_KEPT] += 1


@uncounted
def _collect(rows, counts, scratch, m, first, past):
    """Collect the rows of column ``m`` from ``first`` on, oldest first; return how many.

    ``past``: also those that are kept.
    """
    n, kept = 0, min(counts[N_KEPT], PAST) if past else 0
    for i in range(kept):
        copy_row(scratch.mine[n], rows.past[(counts[N_KEPT] - kept + i) % PAST])
        scratch.there[n] = 1.0
        n += 1
    for r in range(first, counts[N_ROWS]):
        if rows.probs[m, r] > SLIGHT:
            copy_row(scratch.mine[n], rows.x[r])
            scratch.there[n] = rows.probs[m, r]
            n += 1
    return n


@uncounted
def _seed(config, table, counts, scratch, m, stop, turn):
    """Seed each half of column ``m`` with one row: any one, and the least similar or another."""
    family, hyper, x, z = config.family, config.hyper, scratch.mine, scratch.there
    n, one = 0, 0
    for i in range(stop):
        n += z[i] > 0.5
    left = (counts[N_SEEN] // 8 + turn) * STRIDE % n
    for i in range(stop):
        if z[i] > 0.5:
            if left == 0:
                one = i
            left -= 1
    scratch.stats[:] = 0.0
    add_stats(family, hyper, x[one], ENOUGH, scratch.stats)
    posterior(family, hyper, scratch.stats, scratch.post)
    least, other, far = math.inf, one, (one + (turn + 1) * STRIDE) % stop
    for i in range(stop):
        if z[i] > 0.5:
            if turn % 2 == 1:
                score = float(abs(i - far))
            else:
                score = log_predictive(family, hyper, scratch.post, x[i])
            if score < least:
                least, other = score, i
    table.left[m], table.right[m] = 0.0, 0.0
    _add(config, table, m, x[one], 1.0, 0.0)
    _add(config, table, m, x[other], 1.0, 1.0)


@uncounted
def _improve(config, table, scratch, m, stop, hard):
    """Divide rows of column ``m`` by its halves.

    Returns the log likelihood, 0 if ``hard``, and whether the halves share few of these rows.
    """
    odds, fit, n, apart = posteriors_of_halves(config, table, scratch, m), 0.0, 0.0, 0.0
    whole = math.log1p(math.exp(odds))
    table.left[m], table.right[m] = 0.0, 0.0
    for i in range(stop):
        z = scratch.there[i]
        if hard:
            first, second = _scores(config, scratch, scratch.mine[i], odds)
            share = 1.0 if second > first else 0.0
        else:
            log_p, share = _share(config, scratch, scratch.mine[i], odds, whole)
            fit += z * log_p
            n += z
            apart += z * max(share, 1.0 - share)
        _add(config, table, m, scratch.mine[i], z, share)
    return fit, apart > APART * n


@uncounted
def is_due(atoms, m, n_new):
    """Whether the only column, with ``n_new`` more rows, is due for division."""
    before, now = atoms.n_rows[m] - n_new, atoms.n_rows[m]
    if before < FIRST:
        return now >= FIRST
    least = math.log(before / FIRST) / math.log(FACTOR)
    return math.log(now / FIRST) / math.log(FACTOR) >= math.floor(least) + 1.0


@uncounted
def has_turn(rows, atoms, counts, m, first):
    """Whether halves of column ``m`` are to be looked for, with the rows from ``first`` on."""
    n_new = 0
    for r in range(first, counts[N_ROWS]):
        n_new += rows.probs[m, r] > 0.5
    return atoms.n_rows[m] % EVERY < n_new


@uncounted
def are_apart(atoms, m, known):
    """Whether the halves of column ``m`` predict better by enough, and share few rows.

    The latter is required unless rows are known to come in no order: noise of another shape than a
    table's is not two clusters.
    """
    return atoms.lead[m] > NEEDED and (known or atoms.told[m] > APART * atoms.foretold[m])


@uncounted
def _older(scratch, n):
    """Return how many of ``n`` collected rows are their older third; all if these are few."""
    total, so_far = sum_first(scratch.there, n), 0.0
    if total < 2.0 * MANY:
        return n
    for i in range(n):
        so_far += scratch.there[i]
        if so_far >= total / 3.0:
            return i + 1
    return n


@uncounted
def find_halves(config, rows, table, counts, scratch, m, known):
    """Find a likelier division of column ``m`` than its halves; return whether there is one.

    It is the likeliest of several, by EM: of the window's rows, or, if it is the only column, of
    the older third of these and the rows that are kept. Its halves must share few rows, too.
    O((W + R) P).
    """
    n, best, found = _collect(rows, counts, scratch, m, 0, not known), -math.inf, False
    stop, enough, taken = n if known else _older(scratch, n), 0.0, scratch.taken
    for i in range(stop):
        enough += scratch.there[i] if scratch.there[i] > 0.5 else 0.0
    if enough < ENOUGH:
        return False
    copy_row(taken[2], table.left[m])
    copy_row(taken[3], table.right[m])
    if table.left[m, 0] > 0.0:
        for _ in range(AGAIN):
            best = _improve(config, table, scratch, m, stop, False)[0] + MARGIN
    for turn in range(TRIES if known else 2 * TRIES):
        fit, apart = 0.0, False
        _seed(config, table, counts, scratch, m, stop, turn)
        for n_round in range(ROUNDS):
            fit, apart = _improve(config, table, scratch, m, stop, n_round < HARD)
        if fit > best and (apart or known):
            best, found = fit, True
            copy_row(taken[0], table.left[m])
            copy_row(taken[1], table.right[m])
    copy_row(table.left[m], taken[2])
    copy_row(table.right[m], taken[3])
    return found


@uncounted
def start_halves(config, rows, atoms, table, counts, scratch, m, known):
    """Give column ``m`` the halves found; those of the only column predict its newer rows.

    Returns whether they are worth keeping.
    """
    copy_row(table.left[m], scratch.taken[0])
    copy_row(table.right[m], scratch.taken[1])
    n = _collect(rows, counts, scratch, m, 0, not known)
    stop = n if known else _older(scratch, n)
    if stop == n:
        return True
    _predict(config, atoms, table, scratch, m, stop, n)
    for _ in range(AGAIN):
        _improve(config, table, scratch, m, n, False)
    return atoms.lead[m] > WORSE and min(table.left[m, 0], table.right[m, 0]) >= FEWEST


@uncounted
def _predict(config, atoms, table, scratch, m, first, stop):
    """Let the halves of column ``m`` predict collected rows, (1), then learn them."""
    odds = posteriors_of_halves(config, table, scratch, m)
    both = math.log1p(math.exp(odds))
    copy_row(scratch.stats, table.left[m])
    add(scratch.stats, 1.0, table.right[m])
    posterior(config.family, config.hyper, scratch.stats, scratch.whole_post)
    for i in range(first, stop):
        x, z = scratch.mine[i], scratch.there[i]
        log_p, share = _share(config, scratch, x, odds, both)
        whole = log_predictive(config.family, config.hyper, scratch.whole_post, x)
        atoms.lead[m] += z * (log_p - whole)
        atoms.foretold[m] += z
        atoms.told[m] += z * max(share, 1.0 - share)
        _add(config, table, m, x, z, share)


@entry
def follow_halves(config, rows, atoms, table, counts, scratch, m, first):
    """Let the halves of column ``m`` predict rows of the window from ``first`` on.

    Returns whether they are worth keeping.
    """
    n = _collect(rows, counts, scratch, m, first, False)
    _predict(config, atoms, table, scratch, m, 0, n)
    size, most = table.left[m, 0] + table.right[m, 0], KEPT * config.memory
    if size > most:
        scale(table.left[m], most / size)
        scale(table.right[m], most / size)
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
