"""How an event's regime differs from others, and when it began, noted while rows are known.

The first rows of a regime characterise it; later rows also show its consequences and a controller's
corrections. It is compared with the regime that was seen last before it, or that it was part of. A
returning regime is also compared with its own rows that have left the window. After each block,
events are noted whose regime has 3 rows, until it has 8; by then another table may own them.
"""

import math

from streamddcrp.compilation import entry, uncounted
from streamddcrp.contract import BIRTH, RETURN, SPLIT
from streamddcrp.likelihoods.kernels.families import add_stats, log_marginal, posterior
from streamddcrp.likelihoods.kernels.parts import outlook
from streamddcrp.models.seqddcrp.kernels.known import LASTING
from streamddcrp.models.seqddcrp.kernels.layout import N_EVENTS, N_ROWS, N_SEEN, N_TABLES
from streamddcrp.models.seqddcrp.kernels.path import home_of
from streamddcrp.models.seqddcrp.kernels.table import column_of
from streamddcrp.numerics import copy_row

FEWEST, FIRST = 3, 8  # rows that a regime needs, and most rows for its reasons
NUMBER, WRITTEN, USED = 0, 1, 2  # of `scratch.told`: number of event and note, first rows used
OPEN, NOTES = 0, 1  # of `scratch.noted`: first event that may still be noted; notes so far
AWAY = 4  # rows elsewhere that end a stay
NATS = 30.0  # by which a position is too improbable, relative to the best
LEVEL = 0.95


@entry
def before(rows, atoms, table, counts, label, index):
    """Return the last column seen before row ``index``, or -1 without another one.

    Only columns with at least three rows by then count; if the previous row has left the window,
    the column seen last.
    """
    found = -1
    for m in range(counts[N_TABLES]):
        is_other = table.ids[m] != label and atoms.n_rows[m] >= FEWEST and table.born[m] < index
        if is_other and (found < 0 or table.last_seen[m] > table.last_seen[found]):
            found = m
    if found < 0:
        return -1
    for r in range(min(index - counts[N_SEEN] + counts[N_ROWS], counts[N_ROWS]) - 1, -1, -1):
        home = home_of(rows, counts[N_TABLES], r)
        known = table.ids[home] != label and atoms.n_rows[home] >= FEWEST
        if known and table.born[home] < index:
            return home
    return found


@entry
def compare(config, rows, atoms, table, counts, scratch, label, into, index, least, out):
    """Describe regime ``label``, which began at row ``index``, and others.

    ``out`` (3, 3, C): the `outlook` of its first rows, of the regime ``into`` or, if that is -1, of
    the previous one, and of its own rows that have left the window; NaN if missing. Returns the
    number of first rows in the window, up to 8, or 8 if it has left the window; 0, with ``out``
    unchanged, if they are fewer than ``least`` or the regime no longer exists.
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
        if used < least:  # another table may own its rows now
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
def _end_of_stay(rows, n_tables, w, home, start, step):
    """Return the last row of a stay in a column from row ``start``, in direction ``step``.

    `AWAY` rows elsewhere end it; otherwise the window does, at -1 or w - 1.
    """
    last, r = start, start
    while abs(r - last) < AWAY:
        r += step
        if not 0 <= r < w:
            return w - 1 if step > 0 else -1
        if home_of(rows, n_tables, r) == home:
            last = r
    return last


@uncounted
def _most_before(rows, n_tables, first):
    """Return the column of most of the rows before ``first`` that ended a stay."""
    best, most = 0, 0
    for r in range(first - AWAY, first):
        home, n = home_of(rows, n_tables, r), 0
        for i in range(first - AWAY, first):
            n += home_of(rows, n_tables, i) == home
        if n > most or (n == most and home < best):
            best, most = home, n
    return best


@entry
def shortest(p, level, out):
    """Write the ends of the shortest interval that holds a share of ``p`` (n,).

    Of equally short intervals, the one that holds most.
    """
    total, held, end, most = 0.0, 0.0, 0, 0.0
    for c in range(len(p)):
        total += p[c]
    out[0], out[1] = 0, len(p)
    for start in range(len(p)):
        while held < level * total and end < len(p):
            held += p[end]
            end += 1
        if held < level * total:
            break
        shorter = out[1] - out[0] - (end - 1 - start)
        if shorter > 0 or (shorter == 0 and held > most):
            out[0], out[1], most = start, end - 1, held
        held -= p[start]


@entry
def began(config, rows, atoms, table, counts, scratch, label, index, out):
    """Write the arrivals between which a regime's first row lies with probability .95.

    ``index``: a row near its beginning. -1 if that, or all before it, has left the window, the
    regime now has no row there, or the regime had been there for 32 rows. Equation (10) of
    ``docs/math/states_over_tables.md``; O(W K) and the marginals of positions near the best one.
    """
    family, hyper, K, w = config.family, config.hyper, counts[N_TABLES], counts[N_ROWS]
    one, past = column_of(table, counts, label), counts[N_SEEN] - w
    told, at = index - past, -1
    out[:] = -1
    for r in range(w if one >= 0 and 0 <= told < w else 0):
        if home_of(rows, K, r) == one and (at < 0 or abs(r - told) < abs(at - told)):
            at = r
    first = _end_of_stay(rows, K, w, one, at, -1) if at >= 0 else -1
    if first < 0:
        return
    two, end = _most_before(rows, K, first), _end_of_stay(rows, K, w, one, at, 1) + 1
    start = max(_end_of_stay(rows, K, w, two, first - 1, -1), 0)
    ours, theirs, p = scratch.taken[0], scratch.taken[1], scratch.work
    lowest, top = first, -math.inf
    for step in (-1, 1):  # from its first most probable row, while that is uncertain
        copy_row(ours, table.stats[one])
        copy_row(theirs, table.stats[two])
        for r in range(start, first):
            _give(family, hyper, rows.x[r], rows.probs[one, r], ours, theirs)
        for r in range(first, end):
            _give(family, hyper, rows.x[r], -rows.probs[two, r], ours, theirs)
        c, last = first, first
        while start <= c < end and abs(c - last) < AWAY:
            p[c] = log_marginal(family, hyper, ours, scratch.post)
            p[c] += log_marginal(family, hyper, theirs, scratch.post)
            top = max(top, p[c])
            last = c if p[c] > top - NATS else last
            r = c if step > 0 else c - 1
            if r >= 0:
                weight = rows.probs[one, r] + rows.probs[two, r]
                _give(family, hyper, rows.x[r], step * weight, ours, theirs)
            c += step
        lowest = min(lowest, c + 1)
    for i in range(lowest, c):
        p[i] = math.exp(p[i] - top)
    shortest(p[lowest:c], LEVEL, out)
    for i in range(2):
        out[i] += past + lowest
    if out[1] < index - LASTING:
        out[:] = -1


@uncounted
def _give(family, hyper, x, weight, stats, other):
    if abs(weight) > 0.0:
        add_stats(family, hyper, x, -weight, stats)
        add_stats(family, hyper, x, weight, other)


@uncounted
def _place(told, number):
    """Return the place of an event's note, or else of the oldest note."""
    oldest = 0
    for place in range(len(told)):
        if told[place, NUMBER] == number:
            return place
        if told[place, WRITTEN] < told[oldest, WRITTEN]:
            oldest = place
    return oldest


@uncounted
def note(config, rows, atoms, table, events, counts, scratch):
    """Note the results of `compare` and `began` for new events' regimes."""
    room, noted, told = len(events.kind), scratch.noted, scratch.told
    noted[OPEN] = max(noted[OPEN], counts[N_EVENTS] - room)
    for number in range(noted[OPEN], counts[N_EVENTS]):
        i, known, used = number % room, 0, 0
        is_open = events.kind[i] in (BIRTH, RETURN, SPLIT)
        is_open = is_open and counts[N_SEEN] - events.arrival[i] <= counts[N_ROWS]
        if is_open:
            place = _place(told, number)
            if told[place, NUMBER] == number:
                known = told[place, USED]
            if known < FIRST:
                used = compare(
                    config, rows, atoms, table, counts, scratch, events.label[i], events.into[i],
                    events.arrival[i], max(known + 1, FEWEST), scratch.views[place],
                )  # fmt: skip
            if used > 0:
                noted[NOTES] += 1
                told[place, NUMBER], told[place, WRITTEN] = number, noted[NOTES]
                told[place, USED] = used
            # reasons of an event are not stored, but its times are: they are noted once
            if used > 0 and (FIRST + 1) * number + used > events.noted[i]:
                events.noted[i] = (FIRST + 1) * number + used
                began(
                    config, rows, atoms, table, counts, scratch,
                    events.label[i] if events.into[i] < 0 else -1, events.arrival[i],
                    scratch.spans[i],
                )  # fmt: skip
                events.earliest[i] = events.latest[i] = math.nan
        done = (FIRST + 1) * number + FIRST
        if number == noted[OPEN] and (
            not is_open or max(known, used) == FIRST or events.noted[i] == done
        ):
            noted[OPEN] += 1
            events.noted[i] = done
