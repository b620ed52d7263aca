"""Scalar entries of all particle filters, and table names: their opening customers."""

from streamddcrp.compilation import uncounted
from streamddcrp.contract import BIRTH, DEATH, LIVE, record

# counts (int64); entries of a method follow
N_SEEN = 0  # arrivals learned so far; the next one's index
FIRST = 1  # arrival index of the oldest remembered customer
MOST_TABLES = 2  # in any particle
N_NAMES = 3  # tables of any particle
N_LIVE = 4  # tables held by at least half the particle weight
N_EVENTS = 5  # events since the start; the ring holds the last ones
N_COUNTS = 6

# sums (float64)
LOG_EVIDENCE = 0


@uncounted
def name_of(i, recent, names, counts):
    """Position of the name of the table opened by customer i, or the first free one."""
    at = i % len(recent)
    if recent[at] < 0:
        g = 0
        while names.opener[g] >= 0:
            g += 1
        names.opener[g] = i
        names.last_seen[g] = -1
        names.reported[g] = False
        counts[N_NAMES] += 1
        recent[at] = g
    return recent[at]


@uncounted
def best_name(names, at_name, new, n):
    """Label of the most probable table, the oldest on ties, and its probability."""
    best, label = new, n
    for g in range(len(names.opener)):
        opener = names.opener[g]
        if at_name[g] > best or (at_name[g] == best and 0 <= opener < label and best > 0.0):
            best, label = at_name[g], opener
    return label, best


@uncounted
def refresh_names(names, events, counts, reopened, t):
    """Record births and deaths after arrival ``counts[N_SEEN] - 1``; names must be current.

    Names of customers from ``reopened`` on are kept, as their tables may reopen.
    """
    n = counts[N_SEEN]
    last = -1
    while True:  # in the order of the openers
        found = -1
        live = 0
        for g in range(len(names.opener)):
            live += names.weight[g] >= LIVE
            opener = names.opener[g]
            if opener > last and (found < 0 or opener < names.opener[found]):
                born = names.weight[g] >= LIVE and not names.reported[g]
                if born or (names.n_holders[g] == 0 and opener < reopened):
                    found = g
        counts[N_LIVE] = live
        if found < 0:
            break
        last = names.opener[found]
        if names.n_holders[found] > 0:
            names.reported[found] = True
            record(events, counts, N_EVENTS, BIRTH, last, -1, n - 1, t)
        else:
            if names.reported[found]:
                record(events, counts, N_EVENTS, DEATH, last, -1, n - 1, t)
            names.opener[found] = -1
            counts[N_NAMES] -= 1
