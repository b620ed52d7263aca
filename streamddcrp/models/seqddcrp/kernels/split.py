"""Split an atom from its shadow, frozen history included, if the bound rises."""

import math

from streamddcrp.compilation import uncounted
from streamddcrp.contract import FORGET, SPLIT, SWAP, record
from streamddcrp.likelihoods.kernels.families import log_marginal
from streamddcrp.models.seqddcrp.kernels import halves, moves, state
from streamddcrp.models.seqddcrp.kernels.groups import group_of
from streamddcrp.models.seqddcrp.kernels.known import REPORTED
from streamddcrp.models.seqddcrp.kernels.layout import (
    FOLLOWED,
    FROZEN_BOUND,
    FROZEN_OPENINGS,
    N_ACTIVE,
    N_EVENTS,
    N_GROUPS,
    N_ROWS,
    N_SEEN,
    N_TABLES,
    REDRAWN,
)
from streamddcrp.models.seqddcrp.kernels.pace import start_other
from streamddcrp.models.seqddcrp.kernels.shadow import compare_sides, restart, start_shadow
from streamddcrp.models.seqddcrp.kernels.states import part, start_filter
from streamddcrp.models.seqddcrp.kernels.sweep import sweep
from streamddcrp.models.seqddcrp.kernels.visits import end_visit, note_run
from streamddcrp.numerics import add, copy_row

FEWEST = 6.0  # expected rows on both sides
GROWTH = 1.25  # of a shadow before a failed split is tried again
UNSURE = 8.0  # weight in rows of the assumption on their order, after a split
WEARY = 100.0  # rows of a shadow that failed, or is nearly all; another seed is tried


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
    gain += atoms.side_terms[m] - atoms.side_sticks[m]
    all_births = atoms.births[m]
    gain -= state.stick_bound(config, atoms, counts, sums)
    atoms.births[m] += atoms.rest_births[m] - atoms.frozen_births[m]
    atoms.births[K] = atoms.shadow_births[m]
    counts[N_TABLES] += 1
    gain += state.stick_bound(config, atoms, counts, sums)
    counts[N_TABLES] -= 1
    atoms.births[m] = all_births
    return gain


@uncounted
def _part(config, rows, groups, atoms, table, counts, scratch, m):
    """Give the shadow of column ``m`` its own column, the last; nothing is recomputed."""
    K, w, n_groups, gains = counts[N_TABLES], counts[N_ROWS], counts[N_GROUPS], scratch.work
    state.open_column(rows, groups, atoms, table, counts, table.born[m])
    compare_sides(config, rows, atoms, table, scratch, m, w, gains)
    copy_row(scratch.kept_frozen, table.frozen[m])
    copy_row(table.frozen[K], table.shadow[m])
    add(table.frozen[m], -1.0, table.shadow[m])
    atoms.frozen_births[K] = atoms.shadow_births[m]
    atoms.frozen_births[m] = atoms.rest_births[m]
    for g in range(n_groups):
        scratch.kept_column[g] = groups.probs[g, m]
        if groups.shadow[g, m] > state.PURE:
            groups.probs[g, m], groups.probs[g, K] = 0.0, 1.0
            groups.atom[g] = K if config.tied else -1
        elif groups.shadow[g, m] > 1.0 - state.PURE:
            _divide_group(rows, groups, counts, g, m, K)
    for i in range(w):
        scratch.moved[i] = 1.0 if gains[i] > 0.0 else 0.0
    for i in range(w):
        _choose_links(rows, groups, counts, scratch.moved, i, m, K)


@uncounted
def _divide_group(rows, groups, counts, g, m, K):
    """Divide group ``g``: its members at the shadow, now at column ``K``, and the others."""
    h, share = counts[N_GROUPS], groups.shadow[g, m]
    groups.atom[h], groups.t[h], groups.arrival[h] = K, groups.t[g], groups.arrival[g]
    groups.log_mass[h] = groups.log_mass[g] + math.log(share)
    groups.log_mass[g] += math.log1p(-share)
    groups.probs[h, :K], groups.probs[h, K], groups.shadow[h, : K + 1] = 0.0, 1.0, 0.0
    for i in range(counts[N_ROWS]):
        rows.group_log_weight[i, h] = rows.group_log_weight[i, g] + math.log(share)
        rows.group_log_weight[i, g] += math.log1p(-share)
        rows.group_links[i, g] *= 1.0 - share
    counts[N_GROUPS] += 1


@uncounted
def _choose_links(rows, groups, counts, moved, i, m, K):
    """Restrict the links of row ``i`` to its side: column ``K`` if it is moved, else the rest.

    Links to ``K`` are the prior's, others are unchanged; a row left without links opens at ``m``.
    """
    n_groups, links, group_links = counts[N_GROUPS], rows.links[i], rows.group_links[i]
    total = 0.0
    for j in range(i):
        if moved[i] > 0.0:
            links[j] = math.exp(rows.log_weight[i, j]) if moved[j] > 0.0 else 0.0
        elif moved[j] > 0.0:
            links[j] = 0.0
        total += links[j]
    for g in range(n_groups):
        there = groups.probs[g, K] > state.PURE
        if moved[i] > 0.0:
            group_links[g] = math.exp(rows.group_log_weight[i, g]) if there else 0.0
        elif there:
            group_links[g] = 0.0
        total += group_links[g]
    for k in range(K):
        if moved[i] > 0.0:
            rows.births[k, i] = 0.0
        total += rows.births[k, i]
    if moved[i] > 0.0:
        rows.births[K, i] = math.exp(rows.log_birth[i] - 1.0)
        total += rows.births[K, i]
    elif total < moves.NOTHING:
        links[:i], group_links[:n_groups], rows.births[:K, i] = 0.0, 0.0, 0.0
        rows.births[m, i], total = 1.0, 1.0
    for j in range(i):
        links[j] /= total
    for g in range(n_groups):
        group_links[g] /= total
    for k in range(K + 1):
        rows.births[k, i] /= total


@uncounted
def _try(config, rows, groups, atoms, table, events, counts, sums, scratch, m, now):
    """Split column ``m`` from its shadow; undo it if neither the bound nor halves favour it."""
    known = halves.come_in_no_order(config, table, counts, sums, False)
    proven = halves.are_apart(atoms, m, known)
    K, n_groups, g = counts[N_TABLES], counts[N_GROUPS], group_of(config, groups, counts, m)
    state.refresh_terms(rows, counts)
    before = state.settled_objective(config, rows, atoms, table, counts, sums)
    moves.keep_links(rows, counts, scratch)
    openings, frozen, mass = atoms.frozen_births[m], sums[FROZEN_BOUND], 0.0
    if g >= 0:
        mass = groups.log_mass[g]
        for i in range(counts[N_ROWS]):
            scratch.kept_weight[i] = rows.group_log_weight[i, g]
    sums[FROZEN_BOUND] += atoms.side_terms[m] - atoms.side_sticks[m]
    _part(config, rows, groups, atoms, table, counts, scratch, m)
    if proven and config.memory < math.inf:
        add(table.frozen[m], -1.0, table.undivided[m])
        if table.frozen[m, 0] < moves.NOTHING:
            table.frozen[m] = 0.0
    state.settle(config, rows, groups, atoms, table, counts, sums, scratch, 0)
    for _ in range(moves.TRIAL_SWEEPS):
        sweep(config, rows, groups, atoms, table, counts, scratch, 0)
        state.settle(config, rows, groups, atoms, table, counts, sums, scratch, 0)
    lasts = proven and min(table.stats[K, 0], table.stats[m, 0]) > FEWEST
    if not lasts and state.settled_objective(config, rows, atoms, table, counts, sums) <= before:
        state.close_last_column(counts)
        sums[FROZEN_BOUND] = frozen
        counts[N_GROUPS] = n_groups
        copy_row(table.frozen[m], scratch.kept_frozen)
        atoms.frozen_births[m] = openings
        for h in range(n_groups):
            groups.probs[h, m] = scratch.kept_column[h]
        if g >= 0:
            groups.atom[g], groups.log_mass[g] = m, mass
            for i in range(counts[N_ROWS]):
                rows.group_log_weight[i, g] = scratch.kept_weight[i]
        moves.put_links_back(rows, counts, scratch)
        state.settle(config, rows, groups, atoms, table, counts, sums, scratch, 0)
        return False
    sums[FROZEN_OPENINGS] += max(atoms.frozen_births[K] + atoms.frozen_births[m] - openings, 0.0)
    table.last_seen[K] = counts[N_SEEN] - 1
    start_filter(rows, atoms, counts)
    share = table.stats[K, 0] / (table.stats[K, 0] + table.stats[m, 0])
    atoms.n_rows[K] = int(share * atoms.n_rows[m])
    atoms.n_visits[K] = int(share * atoms.n_visits[m])
    atoms.n_rows[m] -= atoms.n_rows[K]
    atoms.n_visits[m] -= atoms.n_visits[K]
    atoms.reported[K] = REPORTED
    part(atoms, table, counts, m, K, share)
    new, old = table.ids[K], table.ids[m]
    if proven:
        record(events, counts, N_EVENTS, FORGET, old, -1, counts[N_SEEN] - 1, now)
        if not known:
            sums[REDRAWN] = sums[FOLLOWED] = UNSURE
    record(events, counts, N_EVENTS, SPLIT, new, old, counts[N_SEEN] - 1, now)
    if table.stats[K, 0] > table.stats[m, 0]:
        table.ids[K], table.ids[m] = old, new
        atoms.reported[K], atoms.reported[m] = atoms.reported[m], atoms.reported[K]
        record(events, counts, N_EVENTS, SWAP, new, old, counts[N_SEEN] - 1, now)
    if atoms.visiting[m] != 0:
        note_run(config, atoms, table, counts, sums, m, -math.inf)
    start_shadow(groups, atoms, table, counts, m)
    start_shadow(groups, atoms, table, counts, K)
    atoms.is_fast[K] = atoms.is_fast[m]
    start_other(config, atoms, table, m)
    start_other(config, atoms, table, K)
    return True


@uncounted
def _most_promising(config, groups, atoms, table, events, counts, sums, scratch, now):
    """Return the column with the largest gain from a split, or -1; restart losing shadows."""
    best, chosen = 0.0, -1
    for at in range(counts[N_ACTIVE]):
        m = atoms.active[at]
        n = table.shadow[m, 0]
        rest = table.frozen[m, 0] - n
        if n > WEARY and rest < FEWEST and table.left[m, 0] == 0.0:
            end_visit(config, groups, atoms, table, events, counts, sums, scratch, m, now)
        if min(n, rest) < FEWEST or n < GROWTH * atoms.failed_at[m]:
            continue
        gain = _split_gain(config, atoms, table, counts, sums, scratch, m)
        if gain > best:
            best, chosen = gain, m
        elif n > WEARY and gain <= 0.0 and table.left[m, 0] == 0.0:
            end_visit(config, groups, atoms, table, events, counts, sums, scratch, m, now)
    return chosen


@uncounted
def _can_part(table, m):
    """Whether both halves of column ``m`` have enough rows that a split does not forget."""
    n, part = table.left[m, 0] + table.right[m, 0], min(table.left[m, 0], table.right[m, 0])
    return part / n * (table.stats[m, 0] - table.undivided[m, 0]) > halves.ENOUGH


@uncounted
def _follow_all(config, rows, groups, atoms, table, events, counts, sums, scratch, now):
    """Update the halves of all columns; return one whose halves lead by enough, or -1.

    They are found again from time to time: EM may have led to poor ones, or the table has changed.
    """
    no_order = halves.come_in_no_order(config, table, counts, sums, True)
    known = halves.come_in_no_order(config, table, counts, sums, False)
    n_new, chosen = moves.MOVES_EVERY * config.sweep_every, -1
    first = max(counts[N_ROWS] - n_new, 0)
    for at in range(counts[N_ACTIVE]):
        m = atoms.active[at]
        failed = table.left[m, 0] > 0.0 and not (
            no_order and halves.follow_halves(config, rows, atoms, table, counts, scratch, m, first)
        )
        if failed:
            restart(groups, atoms, table, events, counts, m, now)
        due = halves.is_due(atoms, m, n_new)
        if known:
            due = table.left[m, 0] == 0.0 or halves.has_turn(rows, atoms, counts, m, first)
        if (
            due
            and no_order
            and atoms.visiting[m] == 0
            and halves.find_halves(config, rows, table, counts, scratch, m, known)
        ):
            if not failed:
                restart(groups, atoms, table, events, counts, m, now)
            if not halves.start_halves(config, rows, atoms, table, counts, scratch, m, known):
                start_shadow(groups, atoms, table, counts, m)
        if table.left[m, 0] > 0.0 and halves.are_apart(atoms, m, known) and _can_part(table, m):
            chosen = m if chosen < 0 or atoms.lead[m] > atoms.lead[chosen] else chosen
    return chosen


@uncounted
def split(config, rows, groups, atoms, table, events, counts, sums, scratch, now):
    """Try to split the column with the most promising shadow; restart failed shadows."""
    if not config.recall or counts[N_TABLES] >= config.max_tables:
        return
    m = _follow_all(config, rows, groups, atoms, table, events, counts, sums, scratch, now)
    if m >= 0:
        if not _try(config, rows, groups, atoms, table, events, counts, sums, scratch, m, now):
            restart(groups, atoms, table, events, counts, m, now)
        return
    m = _most_promising(config, groups, atoms, table, events, counts, sums, scratch, now)
    if m < 0:
        return
    if not _try(config, rows, groups, atoms, table, events, counts, sums, scratch, m, now):
        atoms.failed_at[m] = table.shadow[m, 0]
        if table.shadow[m, 0] > WEARY and table.left[m, 0] == 0.0:
            end_visit(config, groups, atoms, table, events, counts, sums, scratch, m, now)
