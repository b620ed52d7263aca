"""The shadow of an atom: a second half that it may later be split into, frozen history included.

The links of evicted rows fix who sits together, but a row that opened a table chose its atom on its
own. So an atom may be taken for two, tied to one parameter: every evicted opening is given to one
of them, what links to it follows, and the statistics of the second one, the shadow, are kept apart.
Taking the tie away is then a change of model that needs no data, and its bound is exact. Any choice
of sides is valid; a good one makes the split worth while. An opening goes to the half under which
it is the more probable; the first one after a new start is the seed, so the shadow grows about a
place in a broad table.
"""

from numba import njit

from streamddcrp.inference.seqddcrp_vb._kernels_layout import N_ACTIVE, N_GROUPS
from streamddcrp.likelihoods._kernels import add_stats, log_predictive, posterior

__all__ = ["closer_to_shadow", "follow_shadow", "start_shadow"]

FAINT = 0.01  # an opening less probable than this is not worth the choice of a side


@njit(cache=True)
def start_shadow(groups, atoms, table, counts, m):
    """Begin the shadow of column ``m`` anew, empty."""
    table.shadow[m] = 0.0
    atoms.shadow_births[m] = 0.0
    for g in range(counts[N_GROUPS]):
        groups.shadow[g, m] = 0.0


@njit(cache=True)
def closer_to_shadow(config, table, scratch, m, x):
    """Whether row ``x`` is more probable under the shadow of column ``m`` than under the rest."""
    family, hyper, frozen, shadow = config.family, config.hyper, table.frozen[m], table.shadow[m]
    if shadow[0] <= 0.0:
        return True
    scratch.stats[:] = frozen - shadow
    if scratch.stats[0] <= 0.0:
        return False
    posterior(family, hyper, scratch.stats, scratch.post)
    rest = log_predictive(family, hyper, scratch.post, x)
    posterior(family, hyper, shadow, scratch.post)
    return log_predictive(family, hyper, scratch.post, x) > rest


@njit(cache=True)
def follow_shadow(config, rows, groups, atoms, table, counts, scratch, r):
    """Choose sides for the openings of evicted row ``r``; leave its shares in ``scratch.shadow``.

    Zb_rm = sum_g A_rg Zb_gm + s_rm [m's opening goes to the shadow] <= Z_rm.
    """
    x = rows.x[r]
    for at in range(counts[N_ACTIVE]):
        m = atoms.active[at]
        share = 0.0
        for g in range(counts[N_GROUPS]):
            share += rows.group_links[r, g] * groups.shadow[g, m]
        s = rows.births[m, r]
        scratch.sides[m, r] = 0.0
        if s > FAINT and closer_to_shadow(config, table, scratch, m, x):
            scratch.sides[m, r] = 1.0
            atoms.shadow_births[m] += s
            share += s
        scratch.shadow[m] = min(share, rows.probs[m, r])
        if scratch.shadow[m] > 0.0:
            add_stats(config.family, config.hyper, x, scratch.shadow[m], table.shadow[m])
