"""The settled state: the regime that rows are in, without rows that only look otherwise.

The label of a row is the most probable table, given that links reach some rows back: an odd row, or
one between two tables that are near each other, changes it, and the next one changes it back. The
state is that of a hidden Markov model which stays, or draws a table again with probability rho,
filtered forward:

    F(k) ~ p(x | rows of table k) [(1 - rho) F'(k) + rho beta_k],

once its most probable table has been the same for two rows running. So no state lasts for one row
only, whatever the rows are. rho is learned as EM does it on the way: the share of rows that drew
again under F, over the last 500 rows. Where it is a half or more, a regime does not last for two
rows on average, and the state is the label. (That few rows open a table does not say that regimes
last: links reach back, past rows of other tables.) A row that is marked as an outlier says nothing.
Without recall F is the probability of the labels. O(K) a row; nothing of it enters the bound or
what is learned.
"""

import math

from streamddcrp.compilation import uncounted
from streamddcrp.contract import LABEL, P_NEW, RETURN, record
from streamddcrp.models.seqddcrp.kernels.known import REPORTED, is_known
from streamddcrp.models.seqddcrp.kernels.layout import (
    ENOUGH,
    FOLLOWED,
    LIKELY,
    N_EVENTS,
    N_ROWS,
    N_SEEN,
    N_TABLES,
    NEW_BETA,
    NEXT_ID,
    OUTLIER,
    REDRAWN,
    RUNS_LAST,
    SETTLED,
    STATE,
)
from streamddcrp.models.seqddcrp.kernels.state import lately

LEAST_WEIGHT = 1e-6  # of a table for a new run
RUNNING = 2  # rows that a state needs to show itself
MEMORY = 500.0  # rows over which the evidence on rho fades
LEAST_RATE = 1e-6


@uncounted
def switch_rate(sums):
    """Return rho, the probability that a row draws its table again."""
    return min(max(sums[REDRAWN] / sums[FOLLOWED], LEAST_RATE), 1.0 - LEAST_RATE)


@uncounted
def regimes_last(config, counts, sums):
    """Whether a regime lasts for two rows and more on average."""
    return RUNNING * switch_rate(sums) < 1.0 if config.recall else counts[RUNS_LAST] == 1


@uncounted
def follow(config, atoms, table, counts, sums, scratch, out):
    """Write the state of the row that `predict` has just weighed to ``out``, and remember it.

    The weight of a new table is left behind those of the live ones, where one may be opened.
    """
    atoms.filtered[counts[N_TABLES]] = 0.0  # it is not stored: an outlier may open a table there
    if out[OUTLIER] == 0.0:
        if config.recall:
            _filter(atoms, table, counts, sums, scratch)
        else:
            for m in range(counts[N_TABLES]):
                atoms.filtered[m] = scratch.weight[m]
            atoms.filtered[counts[N_TABLES]] = out[P_NEW]
        best = 0
        for m in range(1, counts[N_TABLES] + 1):
            if atoms.filtered[m] > atoms.filtered[best]:
                best = m
        likely = table.ids[best] if best < counts[N_TABLES] else counts[NEXT_ID]
        if likely == counts[LIKELY]:
            counts[STATE] = likely
        counts[LIKELY] = likely
    if counts[STATE] < 0 or not regimes_last(config, counts, sums):
        counts[STATE] = counts[LIKELY] = int(out[LABEL])
    out[SETTLED] = counts[STATE]


@uncounted
def _filter(atoms, table, counts, sums, scratch):
    """Take the filter one row on; ``scratch.own`` holds the log densities of the row.

    A table that is not known, or that has not been reported to users, has no weight.
    """
    K, filtered, log_density = counts[N_TABLES], atoms.filtered, scratch.own
    rho = switch_rate(sums)
    is_new_known = counts[ENOUGH] == 1
    before, top = 0.0, scratch.log_new[0] if is_new_known else -math.inf
    for m in range(K):
        before += filtered[m]
        if atoms.reported[m] != REPORTED or not is_known(atoms, counts, m, 0):
            log_density[m] = -math.inf
        top = max(top, log_density[m])
    stays = (1.0 - rho) / before if before > 0.0 else 0.0
    redrawn, total = 0.0, 0.0
    for m in range(K):
        density = math.exp(log_density[m] - top) if log_density[m] > -math.inf else 0.0
        again = rho * max(atoms.beta[m], LEAST_WEIGHT) * density
        filtered[m] = stays * filtered[m] * density + again
        redrawn += again
        total += filtered[m]
    if is_new_known:
        filtered[K] = rho * max(sums[NEW_BETA], LEAST_WEIGHT) * math.exp(scratch.log_new[0] - top)
        redrawn += filtered[K]
        total += filtered[K]
    if total > 0.0:
        keep = 1.0 - 1.0 / MEMORY
        sums[REDRAWN] = keep * sums[REDRAWN] + redrawn / total
        sums[FOLLOWED] = keep * sums[FOLLOWED] + 1.0


@uncounted
def note_return(config, atoms, table, events, counts, t):
    """Report it if the arrival has brought the state back to an atom that was away. O(K)."""
    arrival = counts[N_SEEN] - 1
    for m in range(counts[N_TABLES]):
        if table.ids[m] == counts[STATE]:
            last = max(atoms.settled_at[m], table.born[m])
            if arrival - last > lately(config) and atoms.reported[m] == REPORTED:
                record(events, counts, N_EVENTS, RETURN, table.ids[m], -1, arrival, t)
            atoms.settled_at[m] = arrival


@uncounted
def start_filter(rows, atoms, counts):
    """Start over at q of the last row: a move has given rows to another table."""
    for m in range(counts[N_TABLES]):
        atoms.filtered[m] = max(rows.probs[m, counts[N_ROWS] - 1], 0.0)
