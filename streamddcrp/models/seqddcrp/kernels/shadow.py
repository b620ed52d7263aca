"""The shadow of an atom: a half into which it may be split, frozen history included.

An atom can be regarded as two, tied to one parameter: every evicted row is assigned to one of them,
and the statistics of the second one, the shadow, are kept separately. A row links only to rows of
its own half, or opens it; the cost in its link term is summed. Removing the tie is then a change of
model that needs no data, and its bound is exact. Any choice of halves is valid; a good one makes
the split worthwhile. A row goes to the half under which it is more probable, given the members in
memory; the first one after a restart is the seed, so the shadow grows around one place in a broad
table.
"""

import math

from streamddcrp.compilation import uncounted
from streamddcrp.contract import RESTART, record
from streamddcrp.likelihoods.kernels.families import add_stats, log_predictive, posterior
from streamddcrp.models.seqddcrp.kernels.layout import N_ACTIVE, N_EVENTS, N_GROUPS, N_SEEN
from streamddcrp.models.seqddcrp.kernels.state import PURE
from streamddcrp.numerics import copy_row

YOUNG = 12.0  # rows: fewer give no shadow; at this size, the links' shares count half


@uncounted
def start_shadow(groups, atoms, table, counts, m):
    """Empty the shadow of column ``m``."""
    table.shadow[m] = 0.0
    copy_row(table.undivided[m], table.frozen[m])
    table.left[m], table.right[m] = 0.0, 0.0
    atoms.lead[m], atoms.foretold[m], atoms.told[m] = 0.0, 0.0, 0.0
    atoms.shadow_births[m] = 0.0
    atoms.rest_births[m] = atoms.frozen_births[m]
    atoms.side_terms[m] = 0.0
    atoms.side_sticks[m] = 0.0
    atoms.failed_at[m] = 0.0
    atoms.visiting[m] = 0
    for g in range(counts[N_GROUPS]):
        groups.shadow[g, m] = 0.0


@uncounted
def restart(groups, atoms, table, events, counts, m, now):
    """Start the shadow of column ``m`` again, with an event."""
    record(events, counts, N_EVENTS, RESTART, table.ids[m], -1, counts[N_SEEN] - 1, now)
    start_shadow(groups, atoms, table, counts, m)


@uncounted
def posteriors_of_halves(config, table, scratch, m):
    """Leave posteriors of ``m``'s halves, shadow and rest; return log(w_1 / w_0)."""
    family, hyper = config.family, config.hyper
    if table.left[m, 0] > 0.0:
        posterior(family, hyper, table.left[m], scratch.post)
        posterior(family, hyper, table.right[m], scratch.shadow_post)
        return math.log(table.right[m, 0] + 0.5) - math.log(table.left[m, 0] + 0.5)
    for p in range(len(scratch.rest)):
        scratch.rest[p] = table.frozen[m, p] - table.shadow[m, p]
    posterior(family, hyper, scratch.rest, scratch.post)
    posterior(family, hyper, table.shadow[m], scratch.shadow_post)
    return 0.0


@uncounted
def compare_sides(config, rows, atoms, table, scratch, m, n_rows, gains):
    """Compute the nats by which the first rows at column ``m`` suit its shadow better.

    During a visit, all of them belong to the shadow. Rows at other columns get -inf.
    """
    family, hyper = config.family, config.hyper
    ready, odds = False, 0.0
    gains[:n_rows] = -math.inf
    for r in range(n_rows):
        if rows.probs[m, r] <= 0.5:
            continue
        if atoms.visiting[m] != 0:
            gains[r] = math.inf
            continue
        if not ready:
            odds = posteriors_of_halves(config, table, scratch, m)
            ready = True
            if table.left[m, 0] == 0.0 and table.shadow[m, 0] <= 0.0:
                if table.frozen[m, 0] < YOUNG:
                    return
                gains[r] = math.inf  # the seed
                scratch.stats[:] = 0.0
                add_stats(family, hyper, rows.x[r], 1.0, scratch.stats)
                posterior(family, hyper, scratch.stats, scratch.shadow_post)
                continue
        gains[r] = odds + log_predictive(family, hyper, scratch.shadow_post, rows.x[r])
        gains[r] -= log_predictive(family, hyper, scratch.post, rows.x[r])


@uncounted
def take_side(rows, groups, atoms, table, counts, scratch, r, k, term):
    """Give evicted row ``r``, at column ``k``, to the shadow or to the rest.

    Half h has the prior mass M_h = sum_g p_rg z_gh + b_h: z_gh is the share of group g's decay mass
    in h, b_h = alpha / S_r exp(E log beta_k) w_h the weight of an opening, w_h the half's share of
    the openings. The row then opens with probability s' = b_h / M_h, and its link term is log M_h -
    s' (E log beta_k + log w_h). Its sum is kept in two parts: the sticks' payments for openings
    fade as openings do, the rest as statistics do. ``term`` is that of the whole atom.
    """
    gain = scratch.sides[k, r]
    for at in range(counts[N_ACTIVE]):
        scratch.sides[atoms.active[at], r] = 0.0
    opening, stick = rows.births[k, r], atoms.log_beta[k]
    birth = math.exp(rows.log_birth[r] + stick)
    share = (atoms.shadow_births[k] + 1.0) / (atoms.shadow_births[k] + atoms.rest_births[k] + 2.0)
    in_shadow, in_rest, divided = birth * share, birth * (1.0 - share), False
    for g in range(counts[N_GROUPS]):
        if groups.probs[g, k] > PURE:
            mass, part = math.exp(rows.group_log_weight[r, g]), groups.shadow[g, k]
            in_shadow += mass * part
            in_rest += mass * (1.0 - part)
            divided = divided or mass * part > 0.0
    known = table.shadow[k, 0] / (table.shadow[k, 0] + YOUNG) if table.left[k, 0] == 0.0 else 0.0
    to_shadow = gain + known * math.log(in_shadow / in_rest) > 0.0
    scratch.opened[r] = opening
    if to_shadow or divided:
        mass = in_shadow if to_shadow else in_rest
        share = share if to_shadow else 1.0 - share
        scratch.opened[r] = birth * share / mass
        paid = scratch.opened[r] * (stick + math.log(share)) - opening * stick
        atoms.side_terms[k] += math.log(mass) - opening * stick - term
        atoms.side_sticks[k] += paid
        scratch.paid[r] = paid
    if to_shadow:
        atoms.shadow_births[k] += scratch.opened[r]
        scratch.sides[k, r] = 1.0
    else:
        atoms.rest_births[k] += scratch.opened[r]
