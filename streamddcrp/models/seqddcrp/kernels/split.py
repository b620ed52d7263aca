"""Split an atom from its shadow, frozen history included, if the bound rises."""

from streamddcrp.compilation import uncounted
from streamddcrp.contract import SPLIT, record
from streamddcrp.likelihoods.kernels.families import log_marginal
from streamddcrp.models.seqddcrp.kernels.groups import unite_groups
from streamddcrp.models.seqddcrp.kernels.known import REPORTED
from streamddcrp.models.seqddcrp.kernels.layout import (
    N_ACTIVE,
    N_EVENTS,
    N_GROUPS,
    N_ROWS,
    N_SEEN,
    N_TABLES,
)
from streamddcrp.models.seqddcrp.kernels.moves import TRIAL_SWEEPS, keep_links, put_links_back
from streamddcrp.models.seqddcrp.kernels.settled import start_filter
from streamddcrp.models.seqddcrp.kernels.shadow import choose_sides, restart, start_shadow
from streamddcrp.models.seqddcrp.kernels.state import (
    PURE,
    close_last_column,
    open_column,
    refresh_terms,
    settle,
    settled_objective,
    stick_bound,
)
from streamddcrp.models.seqddcrp.kernels.sweep import sweep
from streamddcrp.numerics import add, copy_row

FEWEST = 6.0  # expected rows on both sides
GROWTH = 1.25  # of a shadow, until a split that failed is tried again
WEARY = 100.0  # expected rows of a shadow that did not pay; another seed is tried


@uncounted
def _split_gain(config, atoms, table, counts, sums, scratch, m):
    """Gain of the bound by the split of what column ``m`` has frozen."""
    K = counts[N_TABLES]
    family, hyper, stats, post = config.family, config.hyper, scratch.stats, scratch.post
    gain = log_marginal(family, hyper, table.shadow[m], post)
    for p in range(len(stats)):
        stats[p] = table.frozen[m, p] - table.shadow[m, p]
    gain += log_marginal(family, hyper, stats, post)
    gain -= log_marginal(family, hyper, table.frozen[m], post)
    moved, all_births = atoms.shadow_births[m], atoms.births[m]
    gain -= stick_bound(config, atoms, counts, sums)
    atoms.births[m] -= moved
    atoms.births[K] = moved
    counts[N_TABLES] += 1
    gain += stick_bound(config, atoms, counts, sums)
    counts[N_TABLES] -= 1
    atoms.births[m] = all_births
    return gain


@uncounted
def _part(config, rows, groups, atoms, table, counts, scratch, m):
    """Give the shadow of column ``m`` a column of its own, the last; nothing is recomputed."""
    K = counts[N_TABLES]
    open_column(rows, groups, atoms, table, counts, table.born[m])
    sides = scratch.work
    choose_sides(config, rows, atoms, table, scratch, m, counts[N_ROWS], 0.0, sides)
    for r in range(counts[N_ROWS]):
        if sides[r] > 0.0:
            rows.births[K, r] = rows.births[m, r]
            rows.births[m, r] = 0.0
    copy_row(scratch.kept_frozen, table.frozen[m])
    copy_row(table.frozen[K], table.shadow[m])
    add(table.frozen[m], -1.0, table.shadow[m])
    atoms.frozen_births[K] = atoms.shadow_births[m]
    atoms.frozen_births[m] = max(atoms.frozen_births[m] - atoms.shadow_births[m], 0.0)
    for g in range(counts[N_GROUPS]):
        scratch.kept_column[g] = groups.probs[g, m]
        groups.probs[g, K] = groups.shadow[g, m]
        groups.probs[g, m] = max(groups.probs[g, m] - groups.shadow[g, m], 0.0)


@uncounted
def _try(config, rows, groups, atoms, table, events, counts, sums, scratch, m, now):
    """Part column ``m`` from its shadow; undo it unless the bound rises."""
    K = counts[N_TABLES]
    refresh_terms(rows, counts)
    before = settled_objective(config, rows, atoms, table, counts, sums)
    keep_links(rows, counts, scratch)
    openings = atoms.frozen_births[m]
    _part(config, rows, groups, atoms, table, counts, scratch, m)
    settle(config, rows, groups, atoms, table, counts, sums, scratch, 0)
    for _ in range(TRIAL_SWEEPS):
        sweep(config, rows, groups, atoms, table, counts, scratch, 0)
        settle(config, rows, groups, atoms, table, counts, sums, scratch, 0)
    if settled_objective(config, rows, atoms, table, counts, sums) <= before:
        close_last_column(counts)
        put_links_back(rows, counts, scratch)
        copy_row(table.frozen[m], scratch.kept_frozen)
        atoms.frozen_births[m] = openings
        for g in range(counts[N_GROUPS]):
            groups.probs[g, m] = scratch.kept_column[g]
        settle(config, rows, groups, atoms, table, counts, sums, scratch, 0)
        return False
    _sort_groups(config, rows, groups, atoms, table, counts, sums, scratch, K)
    table.last_seen[K] = counts[N_SEEN] - 1
    start_filter(rows, atoms, counts)
    share = table.stats[K, 0] / (table.stats[K, 0] + table.stats[m, 0])
    atoms.n_rows[K] = int(share * atoms.n_rows[m])
    atoms.n_visits[K] = int(share * atoms.n_visits[m])
    atoms.n_rows[m] -= atoms.n_rows[K]
    atoms.n_visits[m] -= atoms.n_visits[K]
    atoms.reported[K] = REPORTED
    atoms.settled_at[K] = atoms.settled_at[m]
    record(events, counts, N_EVENTS, SPLIT, table.ids[K], table.ids[m], counts[N_SEEN] - 1, now)
    start_shadow(groups, atoms, table, counts, m)
    start_shadow(groups, atoms, table, counts, K)
    return True


@uncounted
def _sort_groups(config, rows, groups, atoms, table, counts, sums, scratch, K):
    """Let groups whose members went to the new column ``K`` follow it.

    A group with members on both sides is joined by none from now on, and fades; of such there is
    one at most.
    """
    if not config.tied:
        return
    mixed = -1
    for g in range(counts[N_GROUPS]):
        if groups.atom[g] < 0:
            mixed = g
    for g in range(counts[N_GROUPS]):
        if groups.probs[g, K] > 0.0 and groups.atom[g] >= 0:
            groups.atom[g] = K if groups.probs[g, K] > PURE else -1
            if groups.atom[g] < 0 <= mixed:
                unite_groups(config, rows, groups, counts, min(g, mixed), max(g, mixed))
                refresh_terms(rows, counts)
                settle(config, rows, groups, atoms, table, counts, sums, scratch, 0)
            break  # all of them were in the group of the old column


@uncounted
def _most_promising(config, groups, atoms, table, events, counts, sums, scratch, now):
    """Return the column whose split by its shadow gains most, or -1; restart shadows that lost."""
    best, chosen = 0.0, -1
    for at in range(counts[N_ACTIVE]):
        m = atoms.active[at]
        n = table.shadow[m, 0]
        if min(n, table.frozen[m, 0] - n) < FEWEST or n < GROWTH * atoms.failed_at[m]:
            continue
        gain = _split_gain(config, atoms, table, counts, sums, scratch, m)
        if gain > best:
            best, chosen = gain, m
        elif n > WEARY and gain <= 0.0:
            restart(groups, atoms, table, events, counts, m, now)
    return chosen


@uncounted
def split(config, rows, groups, atoms, table, events, counts, sums, scratch, now):
    """Try to split the column whose shadow promises most; give up shadows that did not pay."""
    if not config.recall or counts[N_TABLES] >= config.max_tables:
        return
    m = _most_promising(config, groups, atoms, table, events, counts, sums, scratch, now)
    if m < 0:
        return
    if not _try(config, rows, groups, atoms, table, events, counts, sums, scratch, m, now):
        atoms.failed_at[m] = table.shadow[m, 0]
        if table.shadow[m, 0] > WEARY:
            restart(groups, atoms, table, events, counts, m, now)
