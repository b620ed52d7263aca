"""Soft statistics: what tables predict from where rows come in no order and tables overlap.

Z counts a row where those that link to it are, so a table that shares rows with others looks
narrower than it is. So each table of some rows also counts every
row by the probability it had there before it was learned, and predicts from that:
docs/math/predictive_moves.md (2). Links, moves and ids are by the statistics of the bound. Tables
that forget faster, as their levels move, have none.
"""

from streamddcrp.compilation import uncounted
from streamddcrp.likelihoods.kernels.families import add_stats, posterior
from streamddcrp.models.seqddcrp.kernels import layout
from streamddcrp.models.seqddcrp.kernels.halves import come_in_no_order
from streamddcrp.numerics import copy_row

ENOUGH = 40.0  # expected rows from which a table has soft statistics; they begin with its own
SLIGHT = 1e-3  # probability of a row from which it counts


@uncounted
def fill_soft_posts(table, counts):
    """Let tables without soft statistics predict from their own."""
    for m in range(counts[layout.N_TABLES]):
        if table.soft[m, 0] == 0.0:
            copy_row(table.soft_post[m], table.post[m])


@uncounted
def learn_softly(config, table, counts, x, probs):
    """Let all tables learn a row by its probabilities before it was learned; O(K P)."""
    if counts[layout.IS_SOFT] == 0:
        return
    for m in range(counts[layout.N_TABLES]):
        if table.soft[m, 0] > 0.0 and probs[m] > SLIGHT:
            add_stats(config.family, config.hyper, x, probs[m], table.soft[m])


@uncounted
def refresh_soft(config, atoms, table, counts, sums):
    """Say whether tables predict from soft statistics up to the next block; O(K P)."""
    counts[layout.IS_SOFT] = come_in_no_order(config, table, counts, sums, False)
    for m in range(counts[layout.N_TABLES]):
        if counts[layout.IS_SOFT] == 0 or atoms.is_fast[m] == 1:
            table.soft[m] = 0.0
        elif table.soft[m, 0] > 0.0 or table.stats[m, 0] >= ENOUGH:
            if table.soft[m, 0] == 0.0:
                copy_row(table.soft[m], table.stats[m])
            posterior(config.family, config.hyper, table.soft[m], table.soft_post[m])
