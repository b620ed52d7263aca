"""Moves: simultaneous changes of many links, accepted only if the exact bound rises.

A single point rarely justifies its own table; a run of points does. A *look-back birth* gives the
last r arrivals to a new table opened by the first of them. A screen, exact for a table that no
other row reaches, picks r; trial sweeps and the bound decide. A *look-back return* gives them to an
existing table: sweeps never recall an absent one, so a run begun at the wrong table would stay.

Two atoms that prove to be one *merge*, including frozen history: statistics, openings and columns
add, and the bound is charged for the entropy that the rows lose.
"""

import math

from streamddcrp.compilation import entry, uncounted
from streamddcrp.contract import MERGE, SWEEP_UP, record
from streamddcrp.likelihoods.kernels.families import add_rows, log_marginal
from streamddcrp.models.seqddcrp.kernels import layout
from streamddcrp.models.seqddcrp.kernels import state as states
from streamddcrp.models.seqddcrp.kernels.groups import group_of, ties_gain, unite_groups
from streamddcrp.models.seqddcrp.kernels.halves import (
    SETTLED,
    come_in_no_order,
    gain_apart,
    gain_of_run,
)
from streamddcrp.models.seqddcrp.kernels.known import (
    REPORTED,
    UNREPORTED,
    report,
    see_rows,
    was_reported,
)
from streamddcrp.models.seqddcrp.kernels.pace import long_stats
from streamddcrp.models.seqddcrp.kernels.shadow import restart
from streamddcrp.models.seqddcrp.kernels.states import join, rename, start_filter
from streamddcrp.models.seqddcrp.kernels.sweep import sweep
from streamddcrp.models.seqddcrp.kernels.vectors import sum_exp
from streamddcrp.models.seqddcrp.kernels.visits import greet, note_birth
from streamddcrp.models.seqddcrp.kernels.window import close_column
from streamddcrp.numerics import add, copy_first

AT_A_TIME = 8  # tables whose pairs are all tried, in turn
MOVES_EVERY = 4  # blocks between splits and merges; short births are tried in each
LONG = 32  # rows
SHORTEST = 4  # arrivals; a shorter run can open a table itself
TRIAL_SWEEPS = 3
LEAST = 1e-150  # share of the prior; its square does not underflow
NOTHING = 1e-9  # share of a row's links that counts as zero
COPIES = 2.0**30  # of a run; then the evidence per copy is the largest likelihood
CRUMB = 0.05  # expected rows; an atom with fewer is an abandoned birth


@uncounted
def _screen(config, rows, atoms, table, counts, sums, scratch):
    """Find the best run to move, docs/math/atoms.md (7); return length (0: none) and column.

    Tries runs of 4, 8, 16, .. rows, then all lengths near the best. Long ones can wait for every
    fourth block. The column after the last is a new table.
    """
    K = counts[layout.N_TABLES]
    others = 0 if counts[layout.N_GROUPS] > 0 else 1  # rows that must remain
    longest = min(config.look_back, counts[layout.N_ROWS] - others)
    if counts[layout.N_BLOCKS] % MOVES_EVERY > 0:
        longest = min(longest, LONG)
    begin = 0 if config.recall else K
    near, into = _best_run(
        config, rows, atoms, table, counts, sums, scratch, SHORTEST, longest, True, begin, K + 1
    )
    if near == 0:
        return 0, K
    first, last = max(near // 2 + 1, 2), min(2 * near - 1, longest)
    return _best_run(
        config, rows, atoms, table, counts, sums, scratch, first, last, False, into, into + 1
    )


@uncounted
def _largest_log_lik(config, scratch):
    """Return the maximised log likelihood of ``scratch.stats``: log m(c T) / c, many copies c."""
    for p in range(len(scratch.rest)):
        scratch.rest[p] = COPIES * scratch.stats[p]
    return log_marginal(config.family, config.hyper, scratch.rest, scratch.post) / COPIES


@uncounted
def _best_run(
    config, rows, atoms, table, counts, sums, scratch, shortest, longest, doubling, begin, end
):  # fmt: skip
    """Return the length of the best run, ``shortest`` to ``longest`` rows; 0 without a gain.

    Also returns its column, from ``begin`` to ``end`` - 1; K is a new one. For each run Q, in one
    pass from the youngest row to the oldest:

        Delta(Q) = sum_Q -rowterm + log alpha - log S_o + sum_{i in Q, i > o} log((sum_{j in Q, j<i}
                   f_ij + alpha / e) / S_i) + g_new + log m(T_Q) + sum_k [log m(T_k - T_Qk) -
                   log m(T_k)],

    and for a column l < K, with E log beta_l in place of g_new, log m(T_l - T_Ql + T_Q) - log m(T_l
    - T_Ql) in place of log m(T_Q). No table gives Q more than its maximised likelihood, so if that
    gains nothing the tables are not evaluated.
    """
    w, family, hyper = counts[layout.N_ROWS], config.family, config.hyper
    K, lost = counts[layout.N_TABLES], scratch.own
    for m in range(K):
        scratch.taken[m], lost[m] = 0.0, 0.0
    for i in range(max(w - longest, 0), w):
        scratch.local[i] = math.exp(rows.log_birth[i] - 1.0) if config.recall else 0.0
    highest = sums[layout.NEW_LOG_BETA]
    for k in range(begin, K):
        highest = max(highest, atoms.log_beta[k])
    best, length, into = 0.0, 0, K
    terms = 0.0
    last, r = w, shortest  # earlier rows have not been added yet
    while r <= longest:
        o = w - r
        for i in range(o, last):
            terms -= rows.term[i]
        gain, product = terms + rows.log_birth[o], 1.0
        for i in range(o + 1, w):
            scratch.local[i] += sum_exp(rows.log_weight[i], o, min(i, last))
            product *= max(scratch.local[i], LEAST)
            if product < LEAST:
                gain += math.log(product)
                product = 1.0
        gain += math.log(product)
        scratch.stats[:] = 0.0
        for at in range(counts[layout.N_ACTIVE]):
            m = atoms.active[at]
            add_rows(
                family, hyper, rows.x, scratch.columns, rows.probs[m], o, last, scratch.taken[m]
            )
            for p in range(len(scratch.stats)):
                scratch.stats[p] += scratch.taken[m, p]
            if scratch.taken[m, 0] > 1e-6:
                for p in range(len(scratch.rest)):
                    scratch.rest[p] = table.stats[m, p] - scratch.taken[m, p]
                left = log_marginal(family, hyper, scratch.rest, scratch.post)
                lost[m] = left - table.post[m, 0]
                gain += lost[m]
        last, length_here = o, r
        r = 2 * r if doubling else r + 1
        if gain + highest + _largest_log_lik(config, scratch) <= best:
            continue
        for k in range(begin, end):
            if k == K:
                new = log_marginal(family, hyper, scratch.stats, scratch.post)
                there = sums[layout.NEW_LOG_BETA] + new
            elif table.stats[k, 0] >= SHORTEST:
                for p in range(len(scratch.rest)):
                    left = table.stats[k, p] - scratch.taken[k, p]
                    scratch.rest[p] = left + scratch.stats[p]
                more = log_marginal(family, hyper, scratch.rest, scratch.post)
                there = atoms.log_beta[k] + more - table.post[k, 0] - lost[k]
            else:
                continue
            if gain + there > best:
                best, length, into = gain + there, length_here, k
    return length, into


@uncounted
def _move(rows, counts, moved, m, into):
    """Let the rows in ``moved`` share column ``into``, linked by the prior to each other.

    The others lose only their links to the moved; a row left without links opens at ``m``.
    """
    w, n_groups, K = counts[layout.N_ROWS], counts[layout.N_GROUPS], counts[layout.N_TABLES]
    for i in range(w):
        total = 0.0
        if moved[i] > 0.0:
            rows.group_links[i, :n_groups] = 0.0
            rows.births[:K, i] = 0.0
            for j in range(i):
                rows.links[i, j] = math.exp(rows.log_weight[i, j]) if moved[j] > 0.0 else 0.0
                total += rows.links[i, j]
            if total == 0.0:
                rows.births[into, i] = 1.0
                continue
        else:
            lost = 0.0
            for j in range(i):
                if moved[j] > 0.0:
                    lost += rows.links[i, j]
                    rows.links[i, j] = 0.0
            if lost == 0.0:
                continue
            total = 1.0 - lost
            if total < NOTHING:
                rows.links[i, :i] = 0.0
                rows.group_links[i, :n_groups] = 0.0
                rows.births[:K, i] = 0.0
                rows.births[m, i] = 1.0
                continue
            for g in range(n_groups):
                rows.group_links[i, g] /= total
            for k in range(K):
                rows.births[k, i] /= total
        for j in range(i):
            rows.links[i, j] /= total


@uncounted
def keep_links(rows, counts, scratch):
    """Copy the links of the window before a move."""
    w, n_groups, K = counts[layout.N_ROWS], counts[layout.N_GROUPS], counts[layout.N_TABLES]
    for i in range(w):
        copy_first(scratch.kept_links[i], rows.links[i], i)
        copy_first(scratch.kept_group_links[i], rows.group_links[i], n_groups)
    for m in range(K):
        copy_first(scratch.kept_births[m], rows.births[m], w)
    copy_first(scratch.kept_term, rows.term, w)


@uncounted
def put_links_back(rows, counts, scratch):
    """Undo a rejected move; the caller then runs `settle`."""
    w, n_groups, K = counts[layout.N_ROWS], counts[layout.N_GROUPS], counts[layout.N_TABLES]
    for i in range(w):
        copy_first(rows.links[i], scratch.kept_links[i], i)
        copy_first(rows.group_links[i], scratch.kept_group_links[i], n_groups)
    for m in range(K):
        copy_first(rows.births[m], scratch.kept_births[m], w)
    copy_first(rows.term, scratch.kept_term, w)


@uncounted
def try_move(config, rows, groups, atoms, table, events, counts, sums, scratch, m, into):
    """Give the rows marked in ``scratch.moved`` to column ``into``; undo it unless the bound rises.

    The column after the last is a new table. Three sweeps. Other rows that could only follow the
    moved ones open at column ``m``.
    """
    K, n_active, last = counts[layout.N_TABLES], counts[layout.N_ACTIVE], counts[layout.N_SEEN] - 1
    states.refresh_terms(rows, counts)
    before = states.settled_objective(config, rows, atoms, table, counts, sums)
    keep_links(rows, counts, scratch)
    start = 0
    while scratch.moved[start] == 0.0:
        start += 1
    opener = counts[layout.N_SEEN] - counts[layout.N_ROWS] + start
    if into == K:
        states.open_column(rows, groups, atoms, table, counts, opener)
    else:
        states.activate(atoms, counts, into)
    _move(rows, counts, scratch.moved, m, into)
    states.settle(config, rows, groups, atoms, table, counts, sums, scratch, 0)
    for _ in range(TRIAL_SWEEPS):
        sweep(config, rows, groups, atoms, table, counts, scratch, 0)
        states.settle(config, rows, groups, atoms, table, counts, sums, scratch, 0)
    if states.settled_objective(config, rows, atoms, table, counts, sums) > before:
        greet(config, groups, atoms, table, events, counts, sums, scratch, into, opener)
        table.last_seen[into] = last
        start_filter(rows, atoms, counts)
        seen = atoms.n_rows[into]
        see_rows(atoms, scratch.moved, counts[layout.N_ROWS], into)
        note_birth(config, atoms, table, counts, sums, into, seen)
        report(atoms, table, events, counts, into, opener, sums[layout.LAST_TIME])
        return True
    if into == K:
        states.close_last_column(counts)
    put_links_back(rows, counts, scratch)
    states.settle(config, rows, groups, atoms, table, counts, sums, scratch, 0)
    counts[layout.N_ACTIVE] = n_active
    return False


@uncounted
def look_back(config, rows, groups, atoms, table, events, counts, sums, scratch):
    """Try one look-back birth or return. O(r (r + K P)) for the screen; a trial: three sweeps."""
    if config.max_tables <= counts[layout.N_TABLES] or config.look_back < SHORTEST:
        return
    length, into = _screen(config, rows, atoms, table, counts, sums, scratch)
    if length == 0:
        return
    start = counts[layout.N_ROWS] - length
    if (
        come_in_no_order(config, table, counts, sums, False)
        and gain_of_run(config, rows, table, counts, scratch, start, into) < 0.0
    ):
        return
    scratch.moved[:start] = 0.0
    scratch.moved[start : counts[layout.N_ROWS]] = 1.0
    m = atoms.active[0]  # the moved rows are the last, so no row loses all links
    try_move(config, rows, groups, atoms, table, events, counts, sums, scratch, m, into)


@entry
def overlap_entropy(a, b):
    """Entropy lost by making two options one: docs/math/atoms.md (9)."""
    if a <= 0.0 or b <= 0.0:
        return 0.0
    return (a + b) * math.log(a + b) - a * math.log(a) - b * math.log(b)


@uncounted
def _long_gain(config, atoms, table, scratch, m, l):
    """Return the tables' gain from the merge of ``m`` and ``l`` under the long memory."""
    family, hyper, stats = config.family, config.hyper, scratch.stats
    long_stats(atoms, table, m, stats)
    gain = -log_marginal(family, hyper, stats, scratch.post)
    long_stats(atoms, table, l, scratch.rest)
    gain -= log_marginal(family, hyper, scratch.rest, scratch.post)
    add(stats, 1.0, scratch.rest)
    return gain + log_marginal(family, hyper, stats, scratch.post)


@uncounted
def _weigh_sticks(config, atoms, counts, sums, scratch):
    """Store the openings after each stick in ``share``, cumulative terms in ``message``."""
    K, term = counts[layout.N_TABLES], states.stick_term
    tail, before = scratch.share, scratch.message
    tail[K], before[0] = sums[layout.DEAD_BIRTHS], 0.0
    for k in range(K - 1, -1, -1):
        tail[k] = tail[k + 1] + atoms.births[k]
    for k in range(K):
        before[k + 1] = before[k] + term(config.gamma, atoms.births[k], tail[k + 1])


@uncounted
def _gain_of_sticks(config, atoms, scratch, m, l):
    """Return B(c') - B(c) for openings of ``l`` given to ``m``, docs/math/atoms.md (8)."""
    births, tail, before = atoms.births, scratch.share, scratch.message
    gain = before[m] - before[l + 1]
    for k in range(m, l):
        own = births[m] + births[l] if k == m else births[k]
        gain += states.stick_term(config.gamma, own, max(tail[k + 1] - births[l], 0.0))
    return gain


@uncounted
def _merge_gain(config, rows, groups, atoms, table, counts, scratch, m, l, least):
    """Return the gain of a merge, docs/math/atoms.md (8); rough if not more than ``least``."""
    gain = 0.0
    if table.stats[m, 0] > 0.0 and table.stats[l, 0] > 0.0:  # an empty one adds exactly nothing
        for p in range(len(scratch.stats)):
            scratch.stats[p] = table.stats[m, p] + table.stats[l, p]
        both = log_marginal(config.family, config.hyper, scratch.stats, scratch.post)
        gain = both - table.post[m, 0] - table.post[l, 0]
    if gain + scratch.message[m] - scratch.message[l + 1] <= least:  # sticks cannot add more
        return gain
    sticks = _gain_of_sticks(config, atoms, scratch, m, l)
    if gain + sticks > least and atoms.is_fast[m] + atoms.is_fast[l] > 0:
        gain = min(gain, _long_gain(config, atoms, table, scratch, m, l))
    gain += sticks
    if gain <= least:  # later terms are losses
        return gain
    for i in range(counts[layout.N_ROWS]):
        gain -= overlap_entropy(rows.births[m, i], rows.births[l, i])
    g, h = group_of(config, groups, counts, m), group_of(config, groups, counts, l)
    if g >= 0 and h >= 0 and gain >= least:
        gain += ties_gain(rows, counts, g, h)
    return gain


@uncounted
def _is_due(config, table, counts, m):
    """Whether column ``m`` was seen since the last merges were tried, and it is its turn."""
    K = counts[layout.N_TABLES]
    away = counts[layout.N_SEEN] - table.last_seen[m]
    first = (counts[layout.N_BLOCKS] // MOVES_EVERY) * AT_A_TIME % K
    turn = (m - first + K) % K < AT_A_TIME
    return table.last_seen[m] >= 0 and away <= MOVES_EVERY * config.sweep_every and turn


@uncounted
def _best_pair(config, rows, groups, atoms, table, counts, sums, scratch):
    """Return the pair of atoms whose merge gains most, or -1.

    An empty atom is also merged at zero gain, as after the last stick in use. If rows come in no
    order, a pair that predicts them better separately stays separate.
    """
    K, due = counts[layout.N_TABLES], scratch.own
    best, m, l = -math.inf, -1, -1
    no_order = come_in_no_order(config, table, counts, sums, True)
    _weigh_sticks(config, atoms, counts, sums, scratch)
    for a in range(K):
        due[a] = _is_due(config, table, counts, a)
    for a in range(K):
        a_is_crumb = table.stats[a, 0] < CRUMB
        for b in range(a + 1, K):
            known = min(table.stats[a, 0], table.stats[b, 0]) >= SETTLED
            is_crumb = a_is_crumb or table.stats[b, 0] < CRUMB
            if not is_crumb and not (known and due[a] + due[b] > 0.0):
                continue
            least = max(best, 0.0)
            gain = _merge_gain(config, rows, groups, atoms, table, counts, scratch, a, b, least)
            empty = table.stats[b, 0] == 0.0 and atoms.births[b] == 0.0
            if gain <= best or (gain <= 0.0 and not empty):
                continue
            if known and no_order and gain_apart(config, rows, table, counts, scratch, a, b) > 0.0:
                continue
            best, m, l = gain, a, b
    return m, l


@uncounted
def merge(config, rows, groups, atoms, table, events, counts, sums, scratch, now):
    """Merge the best pair of atoms, one of them due or almost empty, if the bound rises.

    Empty atoms are also merged if it is unchanged: otherwise they accumulate and hide pairs that
    lose by the data and gain by the sticks.

    Delta = log m(T_m + T_l) - log m(T_m) - log m(T_l) + B(c') - B(c) - sum_window h(s_im, s_il).
    Evicted rows lose nothing: each has opened at most one atom. The older column stays, under the
    id of the larger one. O(K P) for each atom due. The caller recomputes dependent quantities.
    """
    if not config.recall:
        return False
    m, l = _best_pair(config, rows, groups, atoms, table, counts, sums, scratch)
    if m < 0:
        return False
    atoms.births[m] += atoms.births[l]
    atoms.births[l] = 0.0
    _join(config, rows, groups, atoms, table, events, counts, sums, m, l, now)
    return True


@uncounted
def _join(config, rows, groups, atoms, table, events, counts, sums, m, l, now):
    """Add column ``l`` to column ``m`` and remove it."""
    first, second = table.ids[m], table.ids[l]
    reported_m, reported_l = was_reported(atoms, m), was_reported(atoms, l)
    larger = table.stats[l, 0] > table.stats[m, 0]
    if (reported_l and not reported_m) or (
        reported_l == reported_m and larger
    ):  # the fewest rows get another id
        first, second = second, first
        table.ids[m] = first
        table.born[m] = table.born[l]
    if counts[layout.REGIME] == second:
        counts[layout.REGIME] = first
    rename(atoms, counts, second, first)
    kind = MERGE if reported_m and reported_l else SWEEP_UP
    record(events, counts, layout.N_EVENTS, kind, second, first, counts[layout.N_SEEN] - 1, now)
    table.last_seen[m] = max(table.last_seen[m], table.last_seen[l])
    join(atoms, m, l)
    atoms.n_rows[m] += atoms.n_rows[l]
    atoms.n_visits[m] += atoms.n_visits[l]
    atoms.reported[m] = REPORTED if reported_m or reported_l else UNREPORTED
    add(table.frozen[m], 1.0, table.frozen[l])
    add(table.other[m], 1.0, table.other[l])
    atoms.frozen_births[m] += atoms.frozen_births[l]
    for r in range(counts[layout.N_ROWS]):
        rows.births[m, r] += rows.births[l, r]
        rows.probs[m, r] += rows.probs[l, r]
    for g in range(counts[layout.N_GROUPS]):
        groups.probs[g, m] += groups.probs[g, l]
        groups.probs[g, l] = 0.0
    g, h = group_of(config, groups, counts, m), group_of(config, groups, counts, l)
    if g >= 0 and h >= 0:
        unite_groups(config, rows, groups, counts, g, h)
    elif h >= 0:
        groups.atom[h] = m
    restart(groups, atoms, table, events, counts, m, now)
    close_column(rows, groups, atoms, table, counts, l)
    states.activate(atoms, counts, m)
    states.refresh_terms(rows, counts)
