"""Compiled leaf operations on the streaming state; `kernels.arrival` strings them together.

Symbols as in `docs/bound.md`: Z_im = q(customer i's parameter is atom m); a row of q(c_i) has local
links A_ij, links A_ig to groups of evicted customers (tied to the prior's proportions) and births
s_im. The bound is

    ELBO = sum_i rowterm_i + sum_m log m(T_m) + B(c),     c_m = sum_i s_im
    rowterm_i = sum_j A_ij (log p_ij - log A_ij) + sum_g A_ig (log p_ig - log A_ig)
              + sum_m s_im (log alpha - log S_i - log s_im)

with B(c) = 0 and one opener a column when there is no recall. Columns where no row in memory may
sit, those of absent atoms, hold zeros and are skipped: ``atoms.active`` lists the others.
"""

import math

import numpy as np

from streamddcrp.compilation import entry, uncounted
from streamddcrp.likelihoods.kernels.families import add_rows, expected_log_liks_of_rows, posterior
from streamddcrp.likelihoods.kernels.special import log_rising
from streamddcrp.models.seqddcrp.kernels.layout import (
    DEAD_BIRTHS,
    DEAD_LOG_MASS,
    DEAD_TIME,
    FROZEN_BOUND,
    LOG_ALPHA,
    N_ACTIVE,
    N_GROUPS,
    N_ROWS,
    N_SEEN,
    N_TABLES,
    NEW_BETA,
    NEW_LOG_BETA,
    NEXT_ID,
)
from streamddcrp.models.seqddcrp.kernels.table import open_component
from streamddcrp.models.seqddcrp.kernels.vectors import (
    add_scaled,
    dot_four,
    share_out,
    weigh_columns,
)
from streamddcrp.numerics import (
    CALLER_GIVEN,
    EXPONENTIAL,
    copy_row,
    digamma,
    dot,
    exp_all,
    floor_and_sum,
    largest,
    log_decay,
)

LINK_FLOOR = math.exp(-23.0)  # an option below this share of the row's best is set to zero
BIRTH_FLOOR = 1e-8  # in sweeps, a birth below this is set to zero
CALL_BACK = 0.01  # probability with which an arrival must open an atom that is away to call it back
SWEPT = 64  # youngest rows that a block sweeps; older ones change with moves only
PURE = 1.0 - 1e-12  # share of a group at an atom from which all its members are there
UNSURE = 1e-4  # share of a row at other tables up to which its table is as good as certain
LOG_UNSURE = math.log(UNSURE)
DOUBTFUL = 0.01  # and beyond which it is in doubt
YOUNG = 4  # blocks
MANY = 16  # active tables
LARGEST = 1e6  # score up to which a link term is a difference of scores without loss


@uncounted
def _entropy_term(q, log_p):
    return q * (log_p - math.log(q)) if q > 0.0 else 0.0


@entry
def row_term(rows, r, n_groups, n_tables):
    """Link term of row ``r``: expected log prior plus entropy of q(c_r)."""
    total = 0.0
    for j in range(r):
        total += _entropy_term(rows.links[r, j], rows.log_weight[r, j])
    for g in range(n_groups):
        total += _entropy_term(rows.group_links[r, g], rows.group_log_weight[r, g])
    for m in range(n_tables):
        total += _entropy_term(rows.births[m, r], rows.log_birth[r])
    return total


@entry
def refresh_terms(rows, counts):
    """Recompute all link terms: an eviction and other changes of links keep no account of them."""
    for r in range(counts[N_ROWS]):
        rows.term[r] = row_term(rows, r, counts[N_GROUPS], counts[N_TABLES])


@uncounted
def link_log_weights(
    config, rows, groups, counts, sums, t, given, b, work, share, out_local, out_group
):
    """Log decay weights of an arrival at time ``t``; return log S, dropped groups included.

    ``given[b, gap - 1]`` holds them for decays evaluated outside (`CALLER_GIVEN`); one row serves
    all arrivals where distances are gaps. Leaves exp of the local ones less their largest, which is
    the second thing returned, in ``share``.
    """
    w, n_groups = counts[N_ROWS], counts[N_GROUPS]
    code, location, scale = config.decay_code, config.decay_location, config.decay_scale
    row = min(b, given.shape[0] - 1)
    if code == CALLER_GIVEN:
        for j in range(w):
            out_local[j] = given[row, w - j - 1]
    elif code == EXPONENTIAL:
        for j in range(w):
            out_local[j] = (rows.t[j] - t) / scale
    else:
        for j in range(w):
            out_local[j] = log_decay(code, location, scale, t - rows.t[j])
    if not config.tied:
        for j in range(w - config.halo):
            out_local[j] = -np.inf
    top = max(sums[LOG_ALPHA], largest(out_local, w))
    for g in range(n_groups):
        gap = counts[N_SEEN] - groups.arrival[g]
        if not config.tied and gap > config.halo:
            out_group[g] = -np.inf
        elif code == CALLER_GIVEN:
            out_group[g] = given[row, gap - 1]
        else:
            out_group[g] = groups.log_mass[g] + log_decay(code, location, scale, t - groups.t[g])
        top = max(top, out_group[g])
    total = math.exp(sums[LOG_ALPHA] - top)
    if sums[DEAD_LOG_MASS] > -np.inf:
        dead = sums[DEAD_LOG_MASS] + log_decay(code, location, scale, t - sums[DEAD_TIME])
        total += math.exp(dead - top)
    for j in range(w):
        share[j] = out_local[j] - top
    exp_all(share, w, work)
    for j in range(w):
        total += share[j]
    for g in range(n_groups):
        total += math.exp(out_group[g] - top)
    return top + math.log(total), top


@uncounted
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


@entry
def stick_term(gamma, births, tail):
    """Return the share of one stick in B(c)."""
    return math.lgamma(1.0 + births) - log_rising(gamma + tail, 1.0 + births) + math.log(gamma)


@uncounted
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


@uncounted
def settled_objective(config, rows, atoms, table, counts, sums):
    """Bound on the log evidence so far, after `settle` and `refresh_terms`. O(W + K)."""
    total = sums[FROZEN_BOUND] + stick_bound(config, atoms, counts, sums)
    for r in range(counts[N_ROWS]):
        total += rows.term[r]
    for m in range(counts[N_TABLES]):
        total += table.post[m, 0]
    return total


@entry
def objective(config, rows, atoms, table, counts, sums, scratch):
    """Do `settled_objective` at any time: neither posteriors nor link terms are all up to date."""
    total = settled_objective(config, rows, atoms, table, counts, sums)
    for r in range(counts[N_ROWS]):
        total += row_term(rows, r, counts[N_GROUPS], counts[N_TABLES]) - rows.term[r]
    for m in range(counts[N_TABLES]):
        posterior(config.family, config.hyper, table.stats[m], scratch.post)
        total += scratch.post[0] - table.post[m, 0]
    return total


@uncounted
def mix_row(rows, groups, atoms, counts, r):
    """Z_r = s_r + sum_g A_rg Zbar_g + sum_j A_rj Z_j."""
    active, n_active, links, probs = atoms.active, counts[N_ACTIVE], rows.links[r], rows.probs
    at = 0
    while at + 4 <= n_active:
        a, b, c, d = active[at], active[at + 1], active[at + 2], active[at + 3]
        probs[a, r], probs[b, r], probs[c, r], probs[d, r] = dot_four(
            links, probs[a], probs[b], probs[c], probs[d], r
        )
        at += 4
    for rest in range(at, n_active):
        probs[active[rest], r] = dot(links, probs[active[rest]], r)
    for at in range(n_active):
        probs[active[at], r] += rows.births[active[at], r]
    for g in range(counts[N_GROUPS]):
        link = rows.group_links[r, g]
        if link > 0.0 and is_pure(groups, g):
            probs[groups.atom[g], r] += link
        elif link > 0.0:
            for at in range(n_active):
                probs[active[at], r] += link * groups.probs[g, active[at]]


@uncounted
def is_pure(groups, g):
    """Whether all members of group ``g`` are at its atom: not while that is being split."""
    return groups.atom[g] >= 0 and groups.probs[g, groups.atom[g]] > PURE


@uncounted
def weigh_groups(out, start, weights, groups, atoms, counts):
    """out[start + g] = sum_m weights[m] Zbar_gm."""
    for g in range(counts[N_GROUPS]):
        if is_pure(groups, g):
            out[start + g] = weights[groups.atom[g]]
            continue
        out[start + g] = 0.0
        for at in range(counts[N_ACTIVE]):
            m = atoms.active[at]
            out[start + g] += weights[m] * groups.probs[g, m]


@uncounted
def activate(atoms, counts, m):
    """Put column ``m`` among those that somebody in memory may sit at."""
    for at in range(counts[N_ACTIVE]):
        if atoms.active[at] == m:
            return
    atoms.active[counts[N_ACTIVE]] = m
    counts[N_ACTIVE] += 1


@uncounted
def refresh_active(rows, groups, atoms, counts):
    """List the columns where some row in memory may sit."""
    n_active = 0
    for m in range(counts[N_TABLES]):
        used = False
        for r in range(counts[N_ROWS] - 1, -1, -1):
            if rows.probs[m, r] > 0.0 or rows.births[m, r] > 0.0:
                used = True
                break
        if not used:
            for g in range(counts[N_GROUPS]):
                used = used or groups.atom[g] == m or groups.probs[g, m] > 0.0
        if used:
            atoms.active[n_active] = m
            n_active += 1
    counts[N_ACTIVE] = n_active


@uncounted
def open_column(rows, groups, atoms, table, counts, opener):
    """Open a column for the arrival ``opener``, empty as yet."""
    K = counts[N_TABLES]
    open_component(table, K, counts[NEXT_ID], opener)
    atoms.opener[K] = opener
    atoms.births[K] = 0.0
    atoms.frozen_births[K] = 0.0
    atoms.shadow_births[K] = 0.0
    atoms.failed_at[K] = 0.0
    atoms.visiting[K] = 0
    atoms.n_rows[K] = 0
    atoms.n_visits[K] = 0
    atoms.reported[K] = 0
    atoms.settled_at[K] = -1
    rows.births[K] = 0.0
    rows.probs[K] = 0.0
    for g in range(counts[N_GROUPS]):
        groups.probs[g, K] = 0.0
        groups.shadow[g, K] = 0.0
    counts[N_TABLES] += 1
    counts[NEXT_ID] += 1
    activate(atoms, counts, K)


@uncounted
def close_last_column(counts):
    """Undo the last `open_column`; no row may sit there any more."""
    counts[N_TABLES] -= 1
    counts[NEXT_ID] -= 1
    counts[N_ACTIVE] -= 1  # it was the last to be put there


@entry
def forward(rows, groups, atoms, counts, first):
    """Recompute the Z rows of the window from row ``first`` on, oldest first."""
    for r in range(first, counts[N_ROWS]):
        mix_row(rows, groups, atoms, counts, r)


@entry
def refresh_totals(config, rows, atoms, table, counts, sums):
    """Statistics, posteriors and sticks from frozen parts plus the window, recomputed."""
    w = counts[N_ROWS]
    for at in range(counts[N_ACTIVE]):
        m = atoms.active[at]
        copy_row(table.stats[m], table.frozen[m])
        add_rows(config.family, config.hyper, rows.x, rows.probs[m], 0, w, table.stats[m])
        births = atoms.frozen_births[m]
        for r in range(w):
            births += rows.births[m, r]
        atoms.births[m] = births
        posterior(config.family, config.hyper, table.stats[m], table.post[m])
    refresh_sticks(config, atoms, counts, sums)


@uncounted
def settle(config, rows, groups, atoms, table, counts, sums, first):
    """Recompute what follows from the links: Z from row ``first`` on, statistics and all else."""
    forward(rows, groups, atoms, counts, first)
    refresh_totals(config, rows, atoms, table, counts, sums)


@uncounted
def lately(config):
    """Rows after which a table that was not seen is away, and comes back with a return."""
    return min(config.window, SWEPT)


@uncounted
def is_away(config, table, counts, m):
    """Whether no row of late was seen at column ``m``.

    Without a limit an atom that no row is most probable at, a broad one between others say, would
    take a little of every row for ever.
    """
    return counts[N_SEEN] - max(table.last_seen[m], table.born[m]) > lately(config)


@uncounted
def _is_due(config, rows, atoms, counts, gain, i):
    """Whether row ``i`` is swept in this block: not if its table is as good as certain.

    ``gain`` holds G_i. A row at one table with 1 - `UNSURE` is due again when G_i gives another one
    more than `UNSURE` of the odds. The others are due less and less often as they grow old.
    """
    k = atoms.active[0]
    for at in range(1, counts[N_ACTIVE]):
        if rows.probs[atoms.active[at], i] > rows.probs[k, i]:
            k = atoms.active[at]
    age = (counts[N_ROWS] - 1 - i) // config.sweep_every
    if 1.0 - rows.probs[k, i] > UNSURE:
        return age % 2 == 1 or (age < YOUNG and 1.0 - rows.probs[k, i] > DOUBTFUL)
    for at in range(counts[N_ACTIVE]):
        m = atoms.active[at]
        if m != k and gain[m] - gain[k] > LOG_UNSURE:
            return True
    return False


@uncounted
def _push(received, links, gain, atoms, counts, start, i):
    """Add what row ``i`` sends along its links to what rows from ``start`` on receive."""
    if counts[N_ACTIVE] > MANY:  # a row links to few others then
        for j in range(start, i):
            if links[j] > 0.0:
                for at in range(counts[N_ACTIVE]):
                    m = atoms.active[at]
                    received[m, j] += links[j] * gain[m]
        return
    for at in range(counts[N_ACTIVE]):
        m = atoms.active[at]
        add_scaled(received[m], gain[m], links, start, i)


@entry
def sweep(config, rows, groups, atoms, table, counts, scratch, start):
    """Do `ascend` with every row from ``start`` on."""
    ascend(config, rows, groups, atoms, table, counts, scratch, start, 0)


@uncounted
def ascend(config, rows, groups, atoms, table, counts, scratch, start, only_due):
    """Exact coordinate ascent over the rows from ``start`` on, youngest first, all else fixed.

    G_i = l_i + sum_{s>i} A_si G_s;
    log A_ij = log p_ij + G_i.Z_j;  log A_ig = log p_ig + G_i.Zbar_g;
    log s_im = log alpha - log S_i + E log beta_m + G_im,
    the last for active columns. O(L (L + G + K) K). Return the oldest row that has changed; the
    caller then runs `settle` from there.

    Parameters
    ----------
    only_due : int
        1: rows that are not due (`_is_due`) keep their links.
    """
    w, n_groups, n_active = counts[N_ROWS], counts[N_GROUPS], counts[N_ACTIVE]
    first, oldest = counts[N_SEEN] - w, w
    received, message, share = scratch.received, scratch.message, scratch.share
    gain = scratch.weight
    for at in range(n_active):
        m = atoms.active[at]
        expected_log_liks_of_rows(
            config.family, config.hyper, table.post[m], rows.x, start, w, received[m]
        )
        scratch.own[m] = is_away(config, table, counts, m)
    for i in range(w - 1, start - 1, -1):
        for at in range(n_active):
            m = atoms.active[at]
            gain[m] = received[m, i]
        if only_due and not _is_due(config, rows, atoms, counts, gain, i):
            _push(received, rows.links[i], gain, atoms, counts, start, i)
            continue
        oldest = i
        # the options of a row: links to customers, to groups from `tied` on, births from `own` on
        tied, own, end = i, i + n_groups, i + n_groups + n_active
        log_weight, links = rows.log_weight[i], rows.links[i]
        for at in range(n_active):
            m = atoms.active[at]
            message[own + at] = gain[m] + atoms.log_beta[m]
        weigh_columns(message, gain, rows.probs, atoms.active, n_active, i)
        weigh_groups(message, tied, gain, groups, atoms, counts)
        for j in range(i):
            share[j] = log_weight[j] + message[j]
        for g in range(n_groups):
            share[tied + g] = rows.group_log_weight[i, g] + message[tied + g]
        for at in range(n_active):
            m = atoms.active[at]
            possible = rows.births[m, i] > 0.0
            if config.recall:
                possible = possible or scratch.own[m] == 0.0
            else:
                possible = possible and atoms.opener[m] == first + i
            share[own + at] = rows.log_birth[i] + message[own + at] if possible else -np.inf
        top = largest(share, end)
        for j in range(end):
            share[j] -= top
        exp_all(share, end, scratch.work)
        total = floor_and_sum(share, 0, own, LINK_FLOOR)
        total += floor_and_sum(share, own, end, BIRTH_FLOOR)
        # log q = score - log Z and score = log p + message, so the row's term is log Z - E message
        rows.term[i] = top + math.log(total) - share_out(share, total, message, end, links, i)
        for g in range(n_groups):
            rows.group_links[i, g] = share[tied + g]
        for at in range(n_active):
            rows.births[atoms.active[at], i] = share[own + at]
        _push(received, links, gain, atoms, counts, start, i)
        if abs(top) > LARGEST:
            rows.term[i] = row_term(rows, i, n_groups, counts[N_TABLES])
    return oldest
