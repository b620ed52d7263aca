"""The shadow of an atom: a second half that it may later be split into, frozen history included.

The links of evicted rows fix who sits together, but a row that opened a table chose its atom on its
own. So an atom may be taken for two, tied to one parameter: every evicted opening is given to one
of them, what links to it follows, and the statistics of the second one, the shadow, are kept apart.
Taking the tie away is then a change of model that needs no data, and its bound is exact. Any choice
of sides is valid; a good one makes the split worth while. An opening goes to the half under which
it is the more probable; the first one after a new start is the seed, so the shadow grows about a
place in a broad table.
"""

from streamddcrp.compilation import uncounted
from streamddcrp.contract import RESTART, record
from streamddcrp.likelihoods.kernels.families import add_stats, log_predictive, posterior
from streamddcrp.models.seqddcrp.kernels.layout import N_ACTIVE, N_EVENTS, N_GROUPS, N_SEEN
from streamddcrp.models.seqddcrp.kernels.state import lately

FAINT = 0.01  # an opening less probable than this is not worth the choice of a side
VISIT = 2.0  # times as long an absence makes a return a visit


@uncounted
def start_shadow(groups, atoms, table, counts, m):
    """Empty the shadow of column ``m``."""
    table.shadow[m] = 0.0
    atoms.shadow_births[m] = 0.0
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
def greet(config, groups, atoms, table, events, counts, m, arrival, now):
    """Let the shadow of an atom that comes back after long be what it gets from now on.

    The usual test of a split then asks whether this visit should have been an atom of its own.
    """
    last = table.last_seen[m]
    if config.recall and last >= 0 and arrival - last > VISIT * lately(config):
        restart(groups, atoms, table, events, counts, m, now)
        atoms.visiting[m] = 1


@uncounted
def _posteriors_of_halves(config, table, scratch, m):
    """Leave the posteriors of the shadow of column ``m`` and of the rest in ``scratch``."""
    family, hyper = config.family, config.hyper
    for p in range(len(scratch.rest)):
        scratch.rest[p] = table.frozen[m, p] - table.shadow[m, p]
    posterior(family, hyper, scratch.rest, scratch.post)
    posterior(family, hyper, table.shadow[m], scratch.shadow_post)


@uncounted
def choose_sides(config, rows, atoms, table, scratch, m, n_rows, least, sides):
    """Say which of the first rows' openings of column ``m`` go to its shadow: those closer to it.

    While a visit lasts, all of them do. Fills ``sides`` with 0 and 1; openings of at most ``least``
    stay.
    """
    family, hyper = config.family, config.hyper
    shadow_is_empty = table.shadow[m, 0] <= 0.0
    ready = False
    for r in range(n_rows):
        sides[r] = 0.0
        if rows.births[m, r] <= least:
            continue
        if atoms.visiting[m]:
            sides[r] = 1.0
            continue
        if not ready:
            _posteriors_of_halves(config, table, scratch, m)
            ready = True
            if shadow_is_empty:
                sides[r] = 1.0  # the seed
                scratch.stats[:] = 0.0
                add_stats(family, hyper, rows.x[r], 1.0, scratch.stats)
                posterior(family, hyper, scratch.stats, scratch.shadow_post)
                continue
        closer = log_predictive(family, hyper, scratch.shadow_post, rows.x[r])
        if closer > log_predictive(family, hyper, scratch.post, rows.x[r]):
            sides[r] = 1.0


@uncounted
def follow_shadow(rows, groups, atoms, counts, scratch, r):
    """Find the part of evicted row ``r`` that sits at the atoms' shadows.

    Zb_rm = sum_g A_rg Zb_gm + s_rm [m's opening goes to the shadow] <= Z_rm.
    """
    for at in range(counts[N_ACTIVE]):
        m = atoms.active[at]
        share = scratch.sides[m, r] * rows.births[m, r]
        atoms.shadow_births[m] += share
        for g in range(counts[N_GROUPS]):
            share += rows.group_links[r, g] * groups.shadow[g, m]
        scratch.shadow[m, r] = min(share, rows.probs[m, r])
