"""How the regime of an event differs from others, noted while its rows are in the window.

The first rows of a regime say what it is like; what a change drives, or a controller makes good,
comes later. It is compared with the regime that was seen last before it, or that it was part of. A
regime that returned is also compared with its own rows that have left the window. After each block,
events are noted whose regime has 3 rows, until it has 8; by then another table may have taken them.
"""

import math

from streamddcrp.compilation import entry, uncounted
from streamddcrp.contract import BIRTH, RETURN, SPLIT
from streamddcrp.likelihoods.kernels.families import add_stats, posterior
from streamddcrp.likelihoods.kernels.parts import outlook
from streamddcrp.models.seqddcrp.kernels.layout import N_EVENTS, N_ROWS, N_SEEN, N_TABLES
from streamddcrp.models.seqddcrp.kernels.table import column_of

FEWEST, FIRST = 3, 8  # rows that a regime needs, and those that its reasons are taken from
NUMBER, WRITTEN, USED = 0, 1, 2  # of `scratch.told`: number of event and note, first rows used
OPEN, NOTES = 0, 1  # of `scratch.noted`: first event that may still be noted; notes so far


@entry
def before(rows, atoms, table, counts, label, index):
    """Return the column that was seen last before row ``index``; -1 where there was no other one.

    Of those of at least three rows that were there by then; where the row before has left the
    window, the one seen last.
    """
    found = -1
    for m in range(counts[N_TABLES]):
        is_other = table.ids[m] != label and atoms.n_rows[m] >= FEWEST and table.born[m] < index
        if is_other and (found < 0 or table.last_seen[m] > table.last_seen[found]):
            found = m
    if found < 0:
        return -1
    for r in range(min(index - counts[N_SEEN] + counts[N_ROWS], counts[N_ROWS]) - 1, -1, -1):
        home = 0
        for m in range(counts[N_TABLES]):
            if rows.probs[m, r] > rows.probs[home, r]:
                home = m
        known = table.ids[home] != label and atoms.n_rows[home] >= FEWEST
        if known and table.born[home] < index:
            return home
    return found


@entry
def compare(config, rows, atoms, table, counts, scratch, label, into, index, least, out):
    """Say what regime ``label``, which began at row ``index``, is like, and what others are.

    ``out`` (3, 3, C): what `outlook` says of it by its first rows, of the regime ``into`` or, if
    that is -1, of the one before, and of its own rows that have left the window; NaN where there is
    none. Return how many first rows the window has, up to 8, or 8 where it has left the window; 0,
    with ``out`` as before, where they are less than ``least``, or the regime is gone.
    """
    one, w, used = column_of(table, counts, label), counts[N_ROWS], 0
    family, hyper, at = config.family, config.hyper, index - counts[N_SEEN] + w
    if one < 0 or w == 0:
        return 0
    if at >= 0:
        scratch.stats[:] = 0.0
        for r in range(at, w):
            if rows.probs[one, r] > 0.5 and used < FIRST:
                add_stats(family, hyper, rows.x[r], 1.0, scratch.stats)
                used += 1
        if used < least:  # its rows may be another's by now
            return 0
        posterior(family, hyper, scratch.stats, scratch.post)
    out[:] = math.nan
    outlook(family, hyper, scratch.post if at >= 0 else table.post[one], rows.x[w - 1], out[0])
    other = column_of(table, counts, into)
    if into < 0:
        other = before(rows, atoms, table, counts, label, index)
    if other >= 0:
        outlook(family, hyper, table.post[other], rows.x[w - 1], out[1])
    if at >= 0 and table.frozen[one, 0] >= 1.0:
        posterior(family, hyper, table.frozen[one], scratch.post)
        outlook(family, hyper, scratch.post, rows.x[w - 1], out[2])
    return used if at >= 0 else FIRST


@uncounted
def _place(told, number):
    """Return where an event was noted, else where the oldest note is."""
    oldest = 0
    for place in range(len(told)):
        if told[place, NUMBER] == number:
            return place
        if told[place, WRITTEN] < told[oldest, WRITTEN]:
            oldest = place
    return oldest


@uncounted
def note(config, rows, atoms, table, events, counts, scratch):
    """Note what `compare` says of the regimes of new events."""
    room, noted, told = len(events.kind), scratch.noted, scratch.told
    noted[OPEN] = max(noted[OPEN], counts[N_EVENTS] - room)
    for number in range(noted[OPEN], counts[N_EVENTS]):
        i, used = number % room, 0
        is_open = events.kind[i] in (BIRTH, RETURN, SPLIT)
        is_open = is_open and counts[N_SEEN] - events.arrival[i] <= counts[N_ROWS]
        if is_open:
            place, known = _place(told, number), 0
            if told[place, NUMBER] == number:
                known = told[place, USED]
            used = compare(
                config, rows, atoms, table, counts, scratch, events.label[i], events.into[i],
                events.arrival[i], max(known + 1, FEWEST), scratch.views[place],
            )  # fmt: skip
            if used > 0:
                noted[NOTES] += 1
                told[place, NUMBER], told[place, WRITTEN] = number, noted[NOTES]
                told[place, USED] = used
        if number == noted[OPEN] and (not is_open or used == FIRST):
            noted[OPEN] += 1
