"""Which atoms are known as regimes, and which hold only outliers.

A row that no table explains opens one, and so does an outlier. Only later rows show which it was;
earlier atoms give the prior probability of each. The rows seen at each atom on arrival are
therefore counted.

- An atom has *lasted* once it has 32 rows, or four rows a visit.
- It has *failed* if it has not lasted and none of the last 32 arrivals was seen there. A *stray*
atom has also failed: it has less than a twentieth of all rows and less than two a visit, in a
stream whose atoms have four or more.
- An atom is known from its n-th row on if, among earlier atoms that had n rows, fewer failed than
lasted. The count of lasted ones starts at two, so without outliers the first row suffices. An atom
that has lasted is known.

Labels name known atoms only. None of this affects the bound or what is learned.
"""

from streamddcrp.compilation import uncounted
from streamddcrp.contract import BIRTH, record
from streamddcrp.models.seqddcrp.kernels import layout as at

LASTING = 32  # rows
AHEAD = 2  # atoms that count as having lasted before any has
FEWEST_VISITS = 3
RUN = 2  # rows a visit, of an atom
LONG_RUN = 4  # and of all atoms
RARE = 20  # one row of so many
# Values of ``atoms.reported``; a stray atom's is lower by 2.
UNREPORTED, REPORTED = 0, 1
STRAY = 2


@uncounted
def has_lasted(atoms, m):
    """Whether column ``m`` counts as a regime by its rows."""
    rows = atoms.n_rows[m]
    return rows >= LASTING or (rows > 0 and rows >= LONG_RUN * atoms.n_visits[m])


@uncounted
def is_known(atoms, counts, m, more):
    """Whether column ``m`` would be known with ``more`` rows seen there."""
    enough = counts[at.ENOUGH] == 1 or atoms.n_rows[m] + more >= counts[at.ENOUGH]
    return atoms.reported[m] >= UNREPORTED and (enough or has_lasted(atoms, m))


@uncounted
def was_reported(atoms, m):
    """Whether users have been shown column ``m``."""
    return atoms.reported[m] in (REPORTED, REPORTED - STRAY)


@uncounted
def report(atoms, table, events, counts, m, arrival, t):
    """Report column ``m`` to users, with an event, if it is known."""
    if atoms.reported[m] == UNREPORTED and is_known(atoms, counts, m, 0):
        atoms.reported[m] = REPORTED
        record(events, counts, at.N_EVENTS, BIRTH, table.ids[m], -1, arrival, t)


@uncounted
def see(atoms, table, counts, m):
    """Count the arrival, which was seen at column ``m``."""
    stays = 0 <= table.last_seen[m] == counts[at.N_SEEN] - 1
    atoms.n_rows[m] += 1
    atoms.n_visits[m] += 0 if stays else 1


@uncounted
def see_rows(atoms, marked, w, m):
    """Count the marked rows of the window, now given to column ``m``."""
    for r in range(w):
        if marked[r] > 0.0:
            atoms.n_rows[m] += 1
            atoms.n_visits[m] += 1 if r == 0 or marked[r - 1] == 0.0 else 0


@uncounted
def _is_away(atoms, table, counts, m):
    return atoms.n_rows[m] > 0 and counts[at.N_SEEN] - table.last_seen[m] > LASTING


@uncounted
def dismiss(atoms, counts, m):
    """Record the verdict on column ``m`` before its removal."""
    if atoms.reported[m] >= UNREPORTED and has_lasted(atoms, m):
        counts[at.N_LASTED] += 1
    elif atoms.n_rows[m] > 0:
        counts[at.FAILED + min(atoms.n_rows[m], LASTING - 1)] += 1


@uncounted
def judge(atoms, table, counts):
    """Find stray atoms, and the rows needed to be known. O(K), at most O(32 K)."""
    rows, visits = 0, 0
    for m in range(counts[at.N_TABLES]):
        rows += atoms.n_rows[m]
        visits += atoms.n_visits[m]
    counts[at.RUNS_LAST] = rows >= LONG_RUN * visits
    lasted, failed = AHEAD + counts[at.N_LASTED], 0
    for n in range(1, LASTING):
        failed += counts[at.FAILED + n]
    for m in range(counts[at.N_TABLES]):
        visits = atoms.n_visits[m]
        singly = visits >= FEWEST_VISITS and atoms.n_rows[m] < RUN * visits
        is_stray = counts[at.RUNS_LAST] and singly and RARE * atoms.n_rows[m] < rows
        if is_stray != (atoms.reported[m] < UNREPORTED):
            atoms.reported[m] += -STRAY if is_stray else STRAY
        if not is_stray and has_lasted(atoms, m):
            lasted += 1
        elif is_stray or _is_away(atoms, table, counts, m):
            failed += 1
    n = 1
    while n < LASTING and failed >= lasted:
        failed -= counts[at.FAILED + n]
        for m in range(counts[at.N_TABLES]):
            if (
                atoms.n_rows[m] == n
                and atoms.reported[m] >= UNREPORTED
                and not has_lasted(atoms, m)
            ):
                failed -= 1 if _is_away(atoms, table, counts, m) else 0
        n += 1
    counts[at.ENOUGH] = n
