"""Probability that the present run of rows has left its regime."""

import numpy as np

from streamddcrp.compilation import uncounted
from streamddcrp.models.seqddcrp.kernels import layout
from streamddcrp.models.seqddcrp.kernels.table import column_of
from streamddcrp.models.seqddcrp.kernels.vectors import dot_rest

RUN = 2  # rows that make a run


@uncounted
def change_of_run(rows, groups, atoms, table, counts):
    """Probability under q that none of the last rows sits where the previous run did.

    The links of different rows are independent under q, so along the run u_i = q(i is not at k |
    none of the earlier ones is) = sum of its links into the run, of its links and ties to others
    not at k, and of its openings with other atoms; the result is their product. Above one half, the
    run's table is the present regime.
    """
    w, n_groups = counts[layout.N_ROWS], counts[layout.N_GROUPS]
    k = column_of(table, counts, counts[layout.REGIME])
    if k < 0:
        counts[layout.REGIME] = table.ids[home(rows, atoms, counts, w - 1)]
        return np.nan if counts[layout.N_SEEN] == 1 else 0.0
    if w < RUN:
        return 0.0
    start = w - RUN
    changed = 1.0
    for i in range(start, w):
        elsewhere = dot_rest(rows.links[i], rows.probs[k], start)
        for j in range(start, i):
            elsewhere += rows.links[i, j]
        for g in range(n_groups):
            elsewhere += rows.group_links[i, g] * (1.0 - groups.probs[g, k])
        for at in range(counts[layout.N_ACTIVE]):
            m = atoms.active[at]
            if m != k:
                elsewhere += rows.births[m, i]
        changed *= max(elsewhere, 0.0)  # rounding may give a table slightly more than 1
        if changed < 1e-12:
            break
    if changed > 0.5:
        counts[layout.REGIME] = table.ids[home(rows, atoms, counts, w - 1)]
    return min(changed, 1.0)


@uncounted
def home(rows, atoms, counts, r):
    """Most probable column of row ``r``."""
    best = atoms.active[0]
    for at in range(counts[layout.N_ACTIVE]):
        if rows.probs[atoms.active[at], r] > rows.probs[best, r]:
            best = atoms.active[at]
    return best
