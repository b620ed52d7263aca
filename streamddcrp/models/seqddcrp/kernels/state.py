"""Compiled leaf operations on the streaming state, used by `kernels.arrival`.

Symbols as in `docs/bound.md`: Z_im = q(customer i's parameter is atom m); a row of q(c_i) has local
links A_ij, links A_ig to groups of evicted customers (tied to the prior's proportions) and births
s_im. The bound is

    ELBO = sum_i rowterm_i + sum_m log m(T_m) + B(c),     c_m = sum_i s_im
    rowterm_i = sum_j A_ij (log p_ij - log A_ij) + sum_g A_ig (log p_ig - log A_ig)
              + sum_m s_im (log alpha - log S_i - log s_im)

with B(c) = 0 and one opener per column without recall. Columns of absent atoms, where no row in
memory may sit, hold zeros and are skipped: ``atoms.active`` lists the others.
"""

import math

import numpy as np

from streamddcrp.compilation import entry, uncounted
from streamddcrp.lanes import LANES, load, load_column, solved, store
from streamddcrp.likelihoods.kernels.families import add_rows, posterior
from streamddcrp.likelihoods.kernels.special import log_rising
from streamddcrp.models.seqddcrp.kernels import layout, vectors
from streamddcrp.models.seqddcrp.kernels.table import open_component
from streamddcrp.numerics import (
    CALLER_GIVEN,
    EXPONENTIAL,
    copy_row,
    digamma,
    log_decay,
    natural,
    padded,
    same,
    sum_first,
)

LINK_FLOOR = math.exp(-23.0)  # an option below this share of the row's best is set to zero
CALL_BACK = 0.01  # probability above which an arrival must open an absent atom to recall it
MANY = 16  # active tables, above which a row links to few of the others
SWEPT = 64  # youngest rows that a block sweeps; only moves change older ones
PURE = 1.0 - 1e-12  # share of a group at an atom above which all its members count as there
LARGEST = 1e6  # largest score for exact differences of scores in link terms


@uncounted
def _entropy_term(q, log_p):
    return q * (log_p - math.log(q)) if q > 0.0 else 0.0


@entry
def row_term(rows, r, n_groups, n_tables):
    """Link term of row ``r``: expected log prior plus entropy of q(c_r)."""
    total = vectors.entropy_terms(rows.links[r], rows.log_weight[r], r)
    for g in range(n_groups):
        total += _entropy_term(rows.group_links[r, g], rows.group_log_weight[r, g])
    for m in range(n_tables):
        total += _entropy_term(rows.births[m, r], rows.log_birth[r])
    return total


@entry
def refresh_terms(rows, counts):
    """Recompute all link terms, which evictions and other changes leave stale."""
    for r in range(counts[layout.N_ROWS]):
        rows.term[r] = row_term(rows, r, counts[layout.N_GROUPS], counts[layout.N_TABLES])


@uncounted
def decay_time(sums, t):
    """Return the link decay time."""
    return sums[layout.LAG] + sums[layout.SPEED] * t


@uncounted
def set_speed(sums, speed):
    """Continue the link decay time at another speed."""
    sums[layout.LAG] += (sums[layout.SPEED] - speed) * sums[layout.LAST_TIME]
    sums[layout.SPEED] = speed


@uncounted
def link_log_weights(config, rows, groups, counts, sums, t, given, b, share, out_local, out_group):
    """Log decay weights of an arrival at time ``t``; return log S, dropped groups included.

    ``given[b, gap - 1]`` holds them for decays evaluated outside (`CALLER_GIVEN`); one row serves
    all arrivals if distances are gaps. Leaves exp of them minus the largest in ``share``, groups
    from the next multiple of `LANES` on, and returns that largest second.
    """
    w, n_groups = counts[layout.N_ROWS], counts[layout.N_GROUPS]
    code, location, scale = config.decay_code, config.decay_location, config.decay_scale
    row, t = min(b, given.shape[0] - 1), decay_time(sums, t)
    if code == CALLER_GIVEN:
        for j in range(w):
            out_local[j] = given[row, w - j - 1]
    elif code == EXPONENTIAL:
        vectors.scaled_less(out_local, rows.t, t, 1.0 / scale, w)
    else:
        for j in range(w):
            out_local[j] = log_decay(code, location, scale, t - rows.t[j])
    if not config.tied:
        for j in range(w - config.halo):
            out_local[j] = -np.inf
    for j in range(w, padded(w)):
        out_local[j] = -np.inf
    top = max(sums[layout.LOG_ALPHA], vectors.largest(out_local, w))
    for g in range(n_groups):
        gap = counts[layout.N_SEEN] - groups.arrival[g]
        if not config.tied and gap > config.halo:
            out_group[g] = -np.inf
        elif code == CALLER_GIVEN:
            out_group[g] = given[row, gap - 1]
        else:
            out_group[g] = groups.log_mass[g] + log_decay(code, location, scale, t - groups.t[g])
        top = max(top, out_group[g])
    total = math.exp(sums[layout.LOG_ALPHA] - top)
    if sums[layout.DEAD_LOG_MASS] > -np.inf:
        dead = sums[layout.DEAD_LOG_MASS] + log_decay(
            code, location, scale, t - sums[layout.DEAD_TIME]
        )
        total += math.exp(dead - top)
    total += vectors.exp_less(share, out_local, top, w)
    for g in range(n_groups):
        share[padded(w) + g] = math.exp(out_group[g] - top)
        total += share[padded(w) + g]
    return top + math.log(total), top


@uncounted
def refresh_weights(config, atoms, counts, sums):
    """Refresh E beta, by the urn; of a new atom also by sticks: docs/math/atoms.md (6a), (6b)."""
    K = counts[layout.N_TABLES]
    if not config.recall:
        atoms.beta[:K] = 0.0
        return
    tail = max(sums[layout.DEAD_BIRTHS], 0.0)
    for m in range(K):
        tail += max(atoms.births[m], 0.0)
    total = config.gamma + tail
    left = 1.0  # product over sticks of E(1 - v)
    for m in range(K):
        births = max(atoms.births[m], 0.0)
        tail -= births
        b = config.gamma + max(tail, 0.0)
        atoms.beta[m] = births / total
        left *= b / (1.0 + births + b)
    sums[layout.NEW_BETA] = left


@uncounted
def log_new_weight(config, atoms, counts, sums):
    """Log weight of a new atom in forecasts, docs/math/atoms.md (6a); 0 without recall. O(K)."""
    if not config.recall:
        return 0.0
    total = config.gamma + max(sums[layout.DEAD_BIRTHS], 0.0)
    for m in range(counts[layout.N_TABLES]):
        total += max(atoms.births[m], 0.0)
    return math.log(config.gamma / total)


@uncounted
def refresh_sticks(config, atoms, counts, sums):
    """As `refresh_weights`, and also refresh E log beta, docs/math/atoms.md (6)."""
    K = counts[layout.N_TABLES]
    refresh_weights(config, atoms, counts, sums)
    if not config.recall:
        atoms.log_beta[:K] = 0.0
        return
    tail = sums[layout.DEAD_BIRTHS]
    for m in range(K):
        tail += atoms.births[m]
    passed = 0.0  # sum over earlier sticks of E log(1 - v)
    for m in range(K):
        tail -= atoms.births[m]
        a = 1.0 + atoms.births[m]
        b = config.gamma + max(tail, 0.0)
        psi = digamma(a + b)
        atoms.log_beta[m] = passed + digamma(a) - psi
        passed += digamma(b) - psi
    sums[layout.NEW_LOG_BETA] = passed - math.log(1.0 + config.gamma + sums[layout.DEAD_BIRTHS])


@entry
def stick_term(gamma, births, tail):
    """Return the share of one stick in B(c): docs/math/atoms.md (5)."""
    return math.lgamma(1.0 + births) - log_rising(gamma + tail, 1.0 + births) + math.log(gamma)


@uncounted
def stick_bound(config, atoms, counts, sums):
    """B(c): expected log prior of the openings' atoms minus the divergence of the sticks."""
    if not config.recall:
        return 0.0
    total = 0.0
    tail = sums[layout.DEAD_BIRTHS]
    for m in range(counts[layout.N_TABLES] - 1, -1, -1):
        total += stick_term(config.gamma, atoms.births[m], tail)
        tail += atoms.births[m]
    return total


@uncounted
def settled_objective(config, rows, atoms, table, counts, sums):
    """Bound so far, docs/math/atoms.md (4), after `settle` and `refresh_terms`. O(W + K)."""
    total = sums[layout.FROZEN_BOUND] + stick_bound(config, atoms, counts, sums)
    for r in range(counts[layout.N_ROWS]):
        total += rows.term[r]
    for m in range(counts[layout.N_TABLES]):
        total += table.post[m, 0]
    return total


@entry
def objective(config, rows, atoms, table, counts, sums, scratch):
    """As `settled_objective`, when posteriors or link terms may be stale."""
    total = settled_objective(config, rows, atoms, table, counts, sums)
    for r in range(counts[layout.N_ROWS]):
        total += row_term(rows, r, counts[layout.N_GROUPS], counts[layout.N_TABLES]) - rows.term[r]
    for m in range(counts[layout.N_TABLES]):
        posterior(config.family, config.hyper, table.stats[m], scratch.post)
        total += scratch.post[0] - table.post[m, 0]
    return total


@uncounted
def mix_row(rows, groups, atoms, counts, r):
    """docs/math/atoms.md (2): Z_r = s_r + sum_g A_rg Zbar_g + sum_j A_rj Z_j."""
    active, n_active, links, probs = (
        atoms.active,
        counts[layout.N_ACTIVE],
        rows.links[r],
        rows.probs,
    )
    last = n_active - 1
    if n_active > MANY:
        vectors.mix_few(probs, links, active, n_active, r)
    else:
        for at in range(0, n_active, 4):  # after the last one, repeat it
            a, b = natural(active[at]), natural(active[min(at + 1, last)])
            c, d = natural(active[min(at + 2, last)]), natural(active[min(at + 3, last)])
            probs[a, r], probs[b, r], probs[c, r], probs[d, r] = vectors.dot_four(
                links, probs[a], probs[b], probs[c], probs[d], r
            )
    for at in range(n_active):
        probs[active[at], r] += rows.births[active[at], r]
    for g in range(counts[layout.N_GROUPS]):
        link = rows.group_links[r, g]
        if is_pure(groups, g):  # tested first, since it is predictable
            probs[groups.atom[g], r] += link
        elif link > 0.0:
            for at in range(n_active):
                probs[active[at], r] += link * groups.probs[g, active[at]]


@uncounted
def _mix_block(rows, groups, atoms, counts, corner, r):
    """As `mix_row` for `LANES` rows from ``r``, a multiple of it: older rows' messages first."""
    active, n_active, probs = atoms.active, counts[layout.N_ACTIVE], rows.probs
    for at in range(n_active):
        m = natural(active[at])
        store(probs[m], r, load(rows.births[m], r))
    for g in range(counts[layout.N_GROUPS]):
        links = load_column(rows.group_links, r, g)
        if is_pure(groups, g):
            m = natural(groups.atom[g])
            store(probs[m], r, load(probs[m], r) + links)
            continue
        for at in range(n_active):
            m = natural(active[at])
            store(probs[m], r, load(probs[m], r) + groups.probs[g, m] * links)
    for j in range(LANES):
        store(corner[j], 0, load_column(rows.links, r, r + j))
    for at in range(n_active):
        m = natural(active[at])
        given = load(probs[m], r) + vectors.dot_rows(rows.links, r, probs[m], r)
        store(probs[m], r, solved(given, corner))


@uncounted
def is_pure(groups, g):
    """Whether group ``g`` belongs to an atom with all its members there: no single row."""
    return groups.atom[g] >= 0 and groups.probs[g, groups.atom[g]] > PURE


@uncounted
def weigh_groups(out, start, weights, groups, atoms, counts):
    """out[start + g] = sum_m weights[m] Zbar_gm."""
    for g in range(counts[layout.N_GROUPS]):
        if is_pure(groups, g):
            out[start + g] = weights[groups.atom[g]]
            continue
        out[start + g] = 0.0
        for at in range(counts[layout.N_ACTIVE]):
            m = atoms.active[at]
            out[start + g] += weights[m] * groups.probs[g, m]


@uncounted
def activate(atoms, counts, m):
    """Add column ``m`` to those where a customer in memory may sit."""
    for at in range(counts[layout.N_ACTIVE]):
        if atoms.active[at] == m:
            return
    atoms.active[counts[layout.N_ACTIVE]] = m
    counts[layout.N_ACTIVE] += 1


@uncounted
def refresh_active(rows, groups, atoms, counts):
    """List the columns where some row in memory may sit."""
    n_active = 0
    for m in range(counts[layout.N_TABLES]):
        w = counts[layout.N_ROWS]
        used = w > 0 and rows.probs[m, w - 1] > 0.0  # the usual case
        used = used or vectors.largest(rows.probs[m], w) > 0.0
        used = used or vectors.largest(rows.births[m], w) > 0.0
        if not used:
            for g in range(counts[layout.N_GROUPS]):
                used = used or groups.atom[g] == m or groups.probs[g, m] > 0.0
        if used:
            atoms.active[n_active] = m
            n_active += 1
    counts[layout.N_ACTIVE] = n_active


@uncounted
def open_column(rows, groups, atoms, table, counts, opener):
    """Open a column for the arrival ``opener``, initially empty."""
    K = counts[layout.N_TABLES]
    open_component(table, K, counts[layout.NEXT_ID], opener)
    atoms.opener[K] = opener
    atoms.births[K] = 0.0
    atoms.frozen_births[K] = 0.0
    atoms.shadow_births[K] = 0.0
    atoms.rest_births[K] = 0.0
    atoms.side_terms[K] = 0.0
    atoms.side_sticks[K] = 0.0
    atoms.lead[K], atoms.foretold[K], atoms.told[K] = 0.0, 0.0, 0.0
    atoms.failed_at[K] = 0.0
    atoms.visiting[K], atoms.missed[K] = 0, 0.0
    atoms.pace_lead[K], atoms.is_fast[K] = 0.0, 0
    atoms.n_rows[K] = 0
    atoms.n_visits[K] = 0
    atoms.reported[K] = 0
    atoms.settled_at[K], atoms.alone[K] = -1, 0
    for s in range(len(atoms.mix)):
        atoms.mix[s, K] = 0.0
    rows.births[K] = 0.0
    rows.probs[K] = 0.0
    for g in range(counts[layout.N_GROUPS]):
        groups.probs[g, K] = 0.0
        groups.shadow[g, K] = 0.0
    counts[layout.N_TABLES] += 1
    counts[layout.NEXT_ID] += 1
    activate(atoms, counts, K)


@uncounted
def close_last_column(counts):
    """Undo the last `open_column`; no row may sit there any more."""
    counts[layout.N_TABLES] -= 1
    counts[layout.NEXT_ID] -= 1
    counts[layout.N_ACTIVE] -= 1  # it was added last


@entry
def forward(rows, groups, atoms, counts, scratch, first):
    """Recompute the Z rows of the window from row ``first`` on, oldest first."""
    w = counts[layout.N_ROWS]
    if counts[layout.N_ACTIVE] > MANY:
        for r in range(first, w):
            mix_row(rows, groups, atoms, counts, r)
        return
    for r in range(first // LANES * LANES, w, LANES):
        _mix_block(rows, groups, atoms, counts, scratch.corner, r)
    for at in range(counts[layout.N_ACTIVE]):
        for r in range(w, padded(w)):
            rows.probs[atoms.active[at], r] = 0.0


@entry
def refresh_totals(config, rows, atoms, table, counts, sums, scratch):
    """Recompute statistics, posteriors and sticks from frozen parts plus the window."""
    w, old = counts[layout.N_ROWS], scratch.rest
    for at in range(counts[layout.N_ACTIVE]):
        m = atoms.active[at]
        copy_row(old, table.stats[m])
        copy_row(table.stats[m], table.frozen[m])
        add_rows(
            config.family, config.hyper, rows.x, scratch.columns, rows.probs[m], 0, w,
            table.stats[m],
        )  # fmt: skip
        atoms.births[m] = atoms.frozen_births[m] + sum_first(rows.births[m], w)
        if scratch.stale[m] > 0.0 or not same(old, table.stats[m]):
            posterior(config.family, config.hyper, table.stats[m], table.post[m])
            scratch.stale[m] = 0.0
    refresh_sticks(config, atoms, counts, sums)


@uncounted
def settle(config, rows, groups, atoms, table, counts, sums, scratch, first):
    """Recompute everything that depends on links: Z from row ``first``, statistics and so on."""
    forward(rows, groups, atoms, counts, scratch, first)
    refresh_totals(config, rows, atoms, table, counts, sums, scratch)


@uncounted
def lately(config):
    """Rows without a sighting after which a table is away, and its next visit a return."""
    return min(config.window, SWEPT)


@uncounted
def is_away(config, table, counts, m):
    """Whether no recent row was seen at column ``m``.

    Without a limit an atom that is never the most probable, for example a broad one between others,
    would take a small share of every row for ever.
    """
    return counts[layout.N_SEEN] - max(table.last_seen[m], table.born[m]) > lately(config)
