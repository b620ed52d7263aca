"""Sweeps: exact coordinate ascent over the links of the rows in the window."""

import math

import numpy as np

from streamddcrp.compilation import entry, uncounted
from streamddcrp.likelihoods.kernels.families import expected_log_liks_of_rows
from streamddcrp.models.seqddcrp.kernels.layout import N_ACTIVE, N_GROUPS, N_ROWS, N_SEEN, N_TABLES
from streamddcrp.models.seqddcrp.kernels.state import (
    LARGEST,
    LINK_FLOOR,
    MANY,
    is_away,
    row_term,
    weigh_groups,
)
from streamddcrp.models.seqddcrp.kernels.vectors import (
    add_scaled,
    find_sole,
    share_out,
    weigh_columns,
    weigh_few,
)
from streamddcrp.numerics import exp_all, floor_and_sum, largest

BIRTH_FLOOR = 1e-8  # in sweeps, a birth below this is set to zero


@uncounted
def _push(received, links, gain, atoms, counts, start, i):
    """Add what row ``i`` sends along its links to what rows from ``start`` on receive."""
    if counts[N_ACTIVE] > MANY:
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
    """Exact coordinate ascent over the rows from ``start`` on, youngest first, all else fixed.

    G_i = l_i + sum_{s>i} A_si G_s;
    log A_ij = log p_ij + G_i.Z_j;  log A_ig = log p_ig + G_i.Zbar_g;
    log s_im = log alpha - log S_i + E log beta_m + G_im,
    the last for active columns. O(L (L + G + K) K). The caller then runs `settle`.
    """
    w, n_groups, n_active = counts[N_ROWS], counts[N_GROUPS], counts[N_ACTIVE]
    first = counts[N_SEEN] - w
    received, message, share = scratch.received, scratch.message, scratch.share
    gain, few = scratch.weight, False  # whether most rows sit at one of many tables
    if n_active > MANY:
        few = 2 * find_sole(scratch.sole, rows.probs, atoms.active, n_active, w) > w
    for at in range(n_active):
        m = atoms.active[at]
        expected_log_liks_of_rows(
            config.family, config.hyper, table.post[m], rows.x, scratch.columns, start, w,
            received[m],
        )  # fmt: skip
        scratch.own[m] = is_away(config, table, counts, m)
    for i in range(w - 1, start - 1, -1):
        for at in range(n_active):
            m = atoms.active[at]
            gain[m] = received[m, i]
        # the options of a row: links to customers, to groups from `tied` on, births from `own` on
        tied, own, end = i, i + n_groups, i + n_groups + n_active
        log_weight, links = rows.log_weight[i], rows.links[i]
        for at in range(n_active):
            m = atoms.active[at]
            message[own + at] = gain[m] + atoms.log_beta[m]
        if few:
            weigh_few(message, gain, rows.probs, atoms.active, n_active, scratch.sole, i)
        else:
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
