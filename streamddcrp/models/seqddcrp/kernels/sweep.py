"""Sweeps: exact coordinate ascent over the links of the rows in the window."""

import numpy as np

from streamddcrp.compilation import entry, uncounted
from streamddcrp.lanes import LANES
from streamddcrp.likelihoods.kernels.families import expected_log_liks_of_rows
from streamddcrp.models.seqddcrp.kernels import state as states
from streamddcrp.models.seqddcrp.kernels import vectors
from streamddcrp.models.seqddcrp.kernels.layout import N_ACTIVE, N_GROUPS, N_ROWS, N_SEEN, N_TABLES
from streamddcrp.numerics import padded

BIRTH_FLOOR = 1e-8  # in sweeps, a birth below this is set to zero


@uncounted
def _push(received, links, gain, atoms, counts, start, i):
    """Add the message of row ``i`` to rows from ``start`` on: docs/math/links.md (3)."""
    if counts[N_ACTIVE] > states.MANY:
        for j in range(start, i):
            if links[j] > 0.0:
                for at in range(counts[N_ACTIVE]):
                    m = atoms.active[at]
                    received[m, j] += links[j] * gain[m]
        return
    for at in range(counts[N_ACTIVE]):
        m = atoms.active[at]
        vectors.add_scaled(received[m], gain[m], links, start // LANES * LANES, i)


@entry
def sweep(config, rows, groups, atoms, table, counts, scratch, start):
    """Exact coordinate ascent, docs/math/atoms.md (3), from row ``start`` on, youngest first.

    G_i = l_i + sum_{s>i} A_si G_s;
    log A_ij = log p_ij + G_i.Z_j;  log A_ig = log p_ig + G_i.Zbar_g;
    log s_im = log alpha - log S_i + E log beta_m + G_im,
    the last for active columns. O(L (L + G + K) K). The caller then runs `settle`.
    """
    w, n_groups, n_active = counts[N_ROWS], counts[N_GROUPS], counts[N_ACTIVE]
    first = counts[N_SEEN] - w
    received, message, share = scratch.received, scratch.message, scratch.share
    gain, few = scratch.weight, False  # whether most rows sit at one of many tables
    if n_active > states.MANY:
        few = 2 * vectors.find_sole(scratch.sole, rows.probs, atoms.active, n_active, w) > w
    for at in range(n_active):
        m = atoms.active[at]
        expected_log_liks_of_rows(
            config.family, config.hyper, table.post[m], rows.x, scratch.columns, start, w,
            received[m],
        )  # fmt: skip
        scratch.own[m] = 0.0 if states.is_away(config, table, counts, m) else 1.0
    for i in range(w - 1, start - 1, -1):
        for at in range(n_active):
            m = atoms.active[at]
            gain[m] = received[m, i]
        # the options of a row: links to customers, to groups from `tied` on, births from `own` on
        tied = padded(i)
        own = tied + padded(n_groups)
        end = own + padded(n_active)
        log_weight, links = rows.log_weight[i], rows.links[i]
        if few:
            vectors.weigh_few(message, gain, rows.probs, atoms.active, n_active, scratch.sole, i)
        else:
            vectors.weigh_columns(message, gain, rows.probs, atoms.active, n_active, i)
        states.weigh_groups(message, tied, gain, groups, atoms, counts)
        top = vectors.add_scores(share, message, log_weight, i)
        for g in range(n_groups):
            share[tied + g] = rows.group_log_weight[i, g] + message[tied + g]
            top = max(top, share[tied + g])
        for at in range(n_active):
            m = atoms.active[at]
            message[own + at] = gain[m] + atoms.log_beta[m]
            if config.recall:  # the sum avoids an unpredictable branch
                possible = rows.births[m, i] + scratch.own[m] > 0.0
            else:
                possible = rows.births[m, i] > 0.0 and atoms.opener[m] == first + i
            share[own + at] = rows.log_birth[i] + message[own + at] if possible else -np.inf
            top = max(top, share[own + at])
        vectors.rest_of_options(share, message, tied + n_groups, own)
        vectors.rest_of_options(share, message, own + n_active, end)
        total, mean = vectors.exp_and_sum(share, message, 0, own, top, states.LINK_FLOOR)
        opening, mean_opening = vectors.exp_and_sum(share, message, own, end, top, BIRTH_FLOOR)
        total += opening
        scale = 1.0 / total
        # log q = score - log Z and score = log p + message, so the row's term is log Z - E message
        rows.term[i] = top - (mean + mean_opening) * scale
        scratch.work[i] = total
        vectors.scaled_less(links, share, 0.0, scale, i)
        for g in range(n_groups):
            rows.group_links[i, g] = scale * share[tied + g]
        for at in range(n_active):
            rows.births[atoms.active[at], i] = scale * share[own + at]
        _push(received, links, gain, atoms, counts, start, i)
        if abs(top) > states.LARGEST:
            rows.term[i] = states.row_term(rows, i, n_groups, counts[N_TABLES])
            scratch.work[i] = 1.0
    vectors.add_logs(rows.term, scratch.work, start, w)
