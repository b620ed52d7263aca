"""Compiled window maintenance: eviction into groups, dropped groups, retired tables.

The order in `evict` matters: a row is mixed again before it is frozen, because earlier evictions
may have moved the group means it links to.
"""

import math

import numpy as np

from streamddcrp.compilation import uncounted
from streamddcrp.contract import DEATH, record
from streamddcrp.likelihoods.kernels.families import add_rows
from streamddcrp.models.seqddcrp.kernels.halves import come_in_no_order, keep_past
from streamddcrp.models.seqddcrp.kernels.known import dismiss, was_reported
from streamddcrp.models.seqddcrp.kernels.layout import (
    DEAD_BIRTHS,
    DEAD_LOG_MASS,
    DEAD_TIME,
    FROZEN_BOUND,
    FROZEN_OPENINGS,
    FROZEN_RATE,
    LOG_ALPHA,
    N_ACTIVE,
    N_EVENTS,
    N_GROUPS,
    N_ROWS,
    N_SEEN,
    N_TABLES,
)
from streamddcrp.models.seqddcrp.kernels.pace import remember
from streamddcrp.models.seqddcrp.kernels.shadow import compare_sides, take_side
from streamddcrp.models.seqddcrp.kernels.state import (
    PURE,
    mix_row,
    refresh_sticks,
    row_term,
    stick_term,
)
from streamddcrp.models.seqddcrp.kernels.states import close_state
from streamddcrp.models.seqddcrp.kernels.table import close_component, close_gap
from streamddcrp.models.seqddcrp.kernels.vectors import shift
from streamddcrp.models.seqddcrp.kernels.visits import are_mortal, is_replaced
from streamddcrp.numerics import copy_first, copy_row, log_add_exp, log_decay

GOLDEN = 0.6180339887498949
UNREACHABLE = 1e-12  # probability below which a table counts as unreachable for a row
NEGLIGIBLE_MASS = 1e-7  # weight, relative to alpha or 1, below which a tied group is dropped
IDLE_LINK = 1e-9  # a link weaker than this does not keep a group
MOST_GROWTH = 30.0  # of a group's log mass in a step, beyond which a sum would lose digits


@uncounted
def _join_group(config, rows, groups, counts, sides, r):
    """Add evicted row ``r`` to its likeliest atom's group, docs/math/links.md (8), or a new one.

    Returns the group and the growth of its log mass; infinity for a new one.
    """
    n_groups, K = counts[N_GROUPS], counts[N_TABLES]
    best = -1
    if config.tied:
        best = 0
        for m in range(1, K):
            if rows.probs[m, r] > rows.probs[best, r]:
                best = m
        for g in range(n_groups):
            if groups.atom[g] == best:
                lasting = groups.log_mass[g] + log_decay(
                    config.decay_code, config.decay_location, config.decay_scale,
                    rows.t[r] - groups.t[g],
                )  # fmt: skip
                mass = log_add_exp(lasting, 0.0)
                old, new = math.exp(lasting - mass), math.exp(-mass)
                for m in range(K):
                    groups.probs[g, m] = old * groups.probs[g, m] + new * rows.probs[m, r]
                    groups.shadow[g, m] = old * groups.shadow[g, m] + new * sides[m, r]
                groups.log_mass[g] = mass
                return g, mass - lasting
    groups.atom[n_groups] = best
    groups.log_mass[n_groups] = 0.0
    for m in range(K):
        groups.probs[n_groups, m] = rows.probs[m, r]
        groups.shadow[n_groups, m] = sides[m, r]
    for i in range(counts[N_ROWS]):
        rows.group_links[i, n_groups] = 0.0
        rows.group_log_weight[i, n_groups] = -np.inf
    counts[N_GROUPS] += 1
    return n_groups, np.inf


@uncounted
def evict(config, rows, groups, atoms, table, counts, sums, scratch, n):
    """Freeze the ``n`` oldest rows."""
    family, hyper, columns = config.family, config.hyper, scratch.columns
    if config.recall:
        scratch.sides[: counts[N_TABLES], :n] = 0.0
        for at in range(counts[N_ACTIVE]):
            m = atoms.active[at]
            compare_sides(config, rows, atoms, table, scratch, m, n, scratch.sides[m])
    drawn = come_in_no_order(config, table, counts, sums, False)
    for r in range(n):
        _freeze(config, rows, groups, atoms, table, counts, sums, scratch, r, n, drawn)
    keep_past(config, rows, table, counts, sums, scratch, n)
    _pass_all_on(rows, counts, scratch, n)
    for at in range(counts[N_ACTIVE]):
        m = atoms.active[at]
        if config.memory < np.inf:
            remember(config, rows, atoms, table, scratch, m, n)
        add_rows(family, hyper, rows.x, columns, rows.probs[m], 0, n, table.frozen[m])
        if config.recall:
            add_rows(family, hyper, rows.x, columns, scratch.sides[m], 0, n, table.shadow[m])


@uncounted
def _home(rows, counts, r, drawn):
    """Return the column at which row ``r`` is frozen: its likeliest, or one ``drawn`` from Z.

    If tables that share rows each took the nearest ones, they would look too narrow. Draws follow
    the golden section, which makes them even and reproducible.
    """
    K, k = counts[N_TABLES], 0
    for m in range(1, K):
        if rows.probs[m, r] > rows.probs[k, r]:
            k = m
    left = (counts[N_SEEN] - counts[N_ROWS] + r) * GOLDEN % 1.0
    for m in range(K):
        left -= rows.probs[m, r]
        if drawn and left < 0.0:
            return m
    return k


@uncounted
def _harden(rows, groups, counts, r, k):
    """Restrict q of row ``r``, about to be frozen, to paths that lead to atom ``k``.

    Rows after a frozen row inherit its Z, and no later evidence reaches it. A share of a few per
    cent at another atom would be passed on throughout the run, against all evidence, and corrupt
    the statistics of an absent atom.
    """
    n_groups, K = counts[N_GROUPS], counts[N_TABLES]
    total = rows.births[k, r]
    for g in range(n_groups):
        if groups.probs[g, k] > PURE:
            total += rows.group_links[r, g]
    for m in range(K):
        rows.births[m, r] = rows.births[m, r] / total if m == k and total > 0.0 else 0.0
        rows.probs[m, r] = 1.0 if m == k else 0.0
    if total == 0.0:
        rows.births[k, r] = 1.0
    for g in range(n_groups):
        kept = total > 0.0 and groups.probs[g, k] > PURE
        rows.group_links[r, g] = rows.group_links[r, g] / total if kept else 0.0


@uncounted
def _freeze(config, rows, groups, atoms, table, counts, sums, scratch, r, n, drawn):
    """Freeze row ``r`` of ``n``, whose links reach only groups; links to it go to its group."""
    w, K = counts[N_ROWS], counts[N_TABLES]
    mix_row(rows, groups, atoms, counts, r)  # group means may have changed
    k = scratch.home[r] = _home(rows, counts, r, drawn)
    _harden(rows, groups, counts, r, k)
    term = row_term(rows, r, counts[N_GROUPS], K)
    if config.recall:
        take_side(rows, groups, atoms, table, counts, scratch, r, k, term)
    sums[FROZEN_RATE] += rows.rate[r]
    sums[FROZEN_BOUND] += term
    for m in range(K):
        s = rows.births[m, r]
        sums[FROZEN_OPENINGS] += s
        atoms.frozen_births[m] += s
    g, growth = _join_group(config, rows, groups, counts, scratch.sides, r)
    groups.t[g] = rows.t[r]
    groups.arrival[g] = counts[N_SEEN] - w + r
    scratch.joined[r] = g
    scratch.growth[r] = growth
    for i in range(r + 1, n):
        _pass_on(rows, scratch, i, r)


@uncounted
def _pass_on(rows, scratch, i, r):
    """Turn row ``i``'s link to row ``r``, which joined a group, into a link to the group."""
    g, growth = scratch.joined[r], scratch.growth[r]
    rows.group_links[i, g] += rows.links[i, r]
    if growth < MOST_GROWTH:  # equal for all, under decays that keep proportions
        rows.group_log_weight[i, g] += growth
    else:
        more = log_add_exp(rows.group_log_weight[i, g], rows.log_weight[i, r])
        rows.group_log_weight[i, g] = more
    rows.links[i, r], rows.log_weight[i, r] = 0.0, -np.inf


@uncounted
def _pass_all_on(rows, counts, scratch, n):
    """As `_pass_on` for links of remaining rows to the first ``n``; `shift_rows` drops these.

    From the last row with an individual weight on, groups grow by their sum at once.
    """
    grown, common = scratch.group, 0
    grown[: counts[N_GROUPS]] = 0.0
    for r in range(n):
        if scratch.growth[r] >= MOST_GROWTH:
            common = r + 1
    for r in range(common, n):
        grown[scratch.joined[r]] += scratch.growth[r]
    for i in range(n, counts[N_ROWS]):
        for r in range(common):
            _pass_on(rows, scratch, i, r)
    for r in range(common, n):
        g = scratch.joined[r]
        for i in range(n, counts[N_ROWS]):
            rows.group_links[i, g] += rows.links[i, r]
    for g in range(counts[N_GROUPS]):
        if grown[g] != 0.0:
            for i in range(n, counts[N_ROWS]):
                rows.group_log_weight[i, g] += grown[g]


@uncounted
def shift_rows(rows, atoms, scratch, counts, n):
    """Forget the ``n`` oldest rows."""
    w, n_groups = counts[N_ROWS] - n, counts[N_GROUPS]
    shift(rows.t, rows.t, n, w)
    shift(rows.log_birth, rows.log_birth, n, w)
    shift(rows.rate, rows.rate, n, w)
    shift(rows.term, rows.term, n, w)
    shift(rows.surprise, rows.surprise, n, w)
    for i in range(w):
        copy_row(rows.x[i], rows.x[i + n])
        shift(rows.links[i], rows.links[i + n], n, i)
        shift(rows.log_weight[i], rows.log_weight[i + n], n, i)
        copy_first(rows.group_links[i], rows.group_links[i + n], n_groups)
        copy_first(rows.group_log_weight[i], rows.group_log_weight[i + n], n_groups)
    for at in range(counts[N_ACTIVE]):  # the others hold zeros
        m = atoms.active[at]
        shift(rows.births[m], rows.births[m], n, w)
        shift(rows.probs[m], rows.probs[m], n, w)
        rows.births[m, w : w + n] = 0.0
        rows.probs[m, w : w + n] = 0.0
    for d in range(scratch.columns.shape[0]):
        shift(scratch.columns[d], scratch.columns[d], n, w)
    counts[N_ROWS] = w


@uncounted
def remove_group(rows, groups, counts, g):
    """Drop group ``g``, keeping the others' order; rows that linked to it renormalise."""
    n_groups, K = counts[N_GROUPS], counts[N_TABLES]
    for i in range(counts[N_ROWS]):
        lost = rows.group_links[i, g]
        close_gap(rows.group_links[i], g, n_groups)
        close_gap(rows.group_log_weight[i], g, n_groups)
        rows.group_links[i, n_groups - 1] = 0.0
        rows.group_log_weight[i, n_groups - 1] = -np.inf
        if lost > 0.0:
            for j in range(i):
                rows.links[i, j] /= 1.0 - lost
            for h in range(n_groups - 1):
                rows.group_links[i, h] /= 1.0 - lost
            for m in range(K):
                rows.births[m, i] /= 1.0 - lost
    close_gap(groups.log_mass, g, n_groups)
    close_gap(groups.t, g, n_groups)
    close_gap(groups.arrival, g, n_groups)
    close_gap(groups.atom, g, n_groups)
    for h in range(g, n_groups - 1):
        for m in range(K):
            groups.probs[h, m] = groups.probs[h + 1, m]
            groups.shadow[h, m] = groups.shadow[h + 1, m]
    counts[N_GROUPS] -= 1


@uncounted
def drop_groups(config, rows, groups, counts, sums, now):
    """Drop groups that no row can link to; return whether any link was cut.

    A tied group is dropped when its decay mass is negligible and no row in the window links to it;
    its mass stays in S. A single customer is dropped when it is out of every row's reach.
    """
    cut = False
    code, location, scale = config.decay_code, config.decay_location, config.decay_scale
    oldest = counts[N_SEEN] - counts[N_ROWS]
    for g in range(counts[N_GROUPS] - 1, -1, -1):
        if not config.tied:
            if oldest - groups.arrival[g] > config.halo:  # so no row links to it
                remove_group(rows, groups, counts, g)
            continue
        mass = groups.log_mass[g] + log_decay(code, location, scale, now - groups.t[g])
        if mass > math.log(NEGLIGIBLE_MASS) + min(0.0, sums[LOG_ALPHA]):
            continue
        strongest = 0.0
        for i in range(counts[N_ROWS]):
            strongest = max(strongest, rows.group_links[i, g])
        if strongest < IDLE_LINK:
            cut = cut or strongest > 0.0
            dead = sums[DEAD_LOG_MASS]
            if dead > -np.inf:
                dead += log_decay(code, location, scale, now - sums[DEAD_TIME])
            sums[DEAD_LOG_MASS] = log_add_exp(dead, mass)
            sums[DEAD_TIME] = now
            remove_group(rows, groups, counts, g)
    return cut


@uncounted
def _reachable(rows, groups, counts, m):
    """Whether a customer in memory may sit at column ``m``."""
    for r in range(counts[N_ROWS]):
        if rows.probs[m, r] > UNREACHABLE or rows.births[m, r] > UNREACHABLE:
            return True
    for g in range(counts[N_GROUPS]):
        if groups.atom[g] == m or groups.probs[g, m] > UNREACHABLE:
            return True
    return False


@uncounted
def _least_missed(rows, groups, table, counts):
    """Return the unreachable column with the fewest customers for its absence, or -1."""
    chosen, least = -1, np.inf
    for m in range(counts[N_TABLES]):
        if not _reachable(rows, groups, counts, m):
            away = counts[N_SEEN] - max(table.last_seen[m], table.born[m])
            if table.stats[m, 0] / away < least:
                chosen, least = m, table.stats[m, 0] / away
    return chosen


@uncounted
def _let_go(config, rows, groups, atoms, table, events, counts, sums, now, m):
    """Retire column ``m`` exactly: its terms go to the frozen bound, openings to the dead."""
    dismiss(atoms, counts, m)
    if was_reported(atoms, m):
        record(events, counts, N_EVENTS, DEATH, table.ids[m], -1, counts[N_SEEN] - 1, now)
    sums[FROZEN_BOUND] += table.post[m, 0]
    if config.recall:
        sums[FROZEN_BOUND] += stick_term(config.gamma, atoms.births[m], sums[DEAD_BIRTHS])
        sums[DEAD_BIRTHS] += atoms.births[m]
    close_column(rows, groups, atoms, table, counts, m)
    refresh_sticks(config, atoms, counts, sums)


@uncounted
def close_column(rows, groups, atoms, table, counts, m):
    """Remove column ``m``, keeping the others' order."""
    K = counts[N_TABLES]
    w = counts[N_ROWS]
    for k in range(m, K - 1):
        copy_first(rows.births[k], rows.births[k + 1], w)
        copy_first(rows.probs[k], rows.probs[k + 1], w)
    for g in range(counts[N_GROUPS]):
        close_gap(groups.probs[g], m, K)
        close_gap(groups.shadow[g], m, K)
        if groups.atom[g] > m:
            groups.atom[g] -= 1
    close_gap(atoms.opener, m, K)
    close_gap(atoms.births, m, K)
    close_gap(atoms.frozen_births, m, K)
    close_gap(atoms.shadow_births, m, K)
    close_gap(atoms.rest_births, m, K)
    close_gap(atoms.side_terms, m, K)
    close_gap(atoms.side_sticks, m, K)
    close_gap(atoms.lead, m, K)
    close_gap(atoms.foretold, m, K)
    close_gap(atoms.told, m, K)
    close_gap(atoms.failed_at, m, K)
    close_gap(atoms.visiting, m, K)
    close_gap(atoms.missed, m, K)
    close_gap(atoms.pace_lead, m, K)
    close_gap(atoms.is_fast, m, K)
    close_gap(atoms.n_rows, m, K)
    close_gap(atoms.n_visits, m, K)
    close_gap(atoms.reported, m, K)
    close_state(atoms, m, K)
    close_component(table, m, K)
    counts[N_TABLES] -= 1
    left = 0
    for at in range(counts[N_ACTIVE]):
        k = atoms.active[at]
        if k != m:
            atoms.active[left] = k - (k > m)
            left += 1
    counts[N_ACTIVE] = left


@uncounted
def retire(config, rows, groups, atoms, table, events, counts, sums, now):
    """Retire tables that no row in memory can reach.

    Without recall, all of them. With recall an absent atom may return, so only enough are retired
    for a block of births: those with the fewest customers for their absence. All are retired if
    atoms are known not to return, or their rows go to others.
    """
    for m in range(counts[N_TABLES] - 1, -1, -1):
        if is_replaced(config, atoms, m) and not _reachable(rows, groups, counts, m):
            _let_go(config, rows, groups, atoms, table, events, counts, sums, now, m)
    room = 0
    if config.recall and not are_mortal(config, counts, sums):
        room = max(config.max_tables - config.sweep_every, config.max_tables // 2)
    while counts[N_TABLES] > room:
        m = _least_missed(rows, groups, table, counts)
        if m < 0:
            break
        _let_go(config, rows, groups, atoms, table, events, counts, sums, now, m)
