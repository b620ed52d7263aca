"""Rows of groups at tables, and which of them there are.

``own`` (P, G, K) counts the rows of each group at each table, and nearly all of it is zero. The
cells that are not are listed, particle by particle and in order, so that a row costs what there is
instead of groups times tables. A cell's number is ``TABLES`` times that of its group, and its
table.
"""

from streamddcrp.compilation import kernel, uncounted

TABLES = 1 << 24
_WORDS = 4  # in a row, that are copied in the time that a cell takes


@uncounted
def most_cells(cells):
    """Cells of the particle that has the most."""
    most = 0
    for p in range(len(cells.n)):
        most = max(most, cells.n[p])
    return most


@uncounted
def _place(cells, p, cell):
    """Place of a cell, or of the first after it."""
    a, z = 0, cells.n[p]
    while a < z:
        middle = (a + z) // 2
        if cells.cell[p, middle] < cell:
            a = middle + 1
        else:
            z = middle
    return a


@uncounted
def add_to(own, cells, p, g, k):
    """Add a row of a group to a table; the caller has seen to it that there is room for a cell."""
    if own[p, g, k] == 0:
        at = _place(cells, p, TABLES * g + k)
        for c in range(cells.n[p], at, -1):
            cells.cell[p, c] = cells.cell[p, c - 1]
        cells.cell[p, at] = TABLES * g + k
        cells.n[p] += 1
    own[p, g, k] += 1


@uncounted
def take_from(own, cells, p, g, k):
    """Take a row of a group out of a table."""
    own[p, g, k] -= 1
    if own[p, g, k] == 0:
        cells.n[p] -= 1
        for c in range(_place(cells, p, TABLES * g + k), cells.n[p]):
            cells.cell[p, c] = cells.cell[p, c + 1]


@uncounted
def copy_cells(own, cells, p, to, n_groups):
    """Copy a particle's rows of groups to the place of another, whole or cell by cell."""
    n, K = cells.n[p], own.shape[2]
    if n_groups * K < _WORDS * (n + cells.n[to]):
        for g in range(n_groups):
            for k in range(K):
                own[to, g, k] = own[p, g, k]
    else:
        for c in range(cells.n[to]):
            own[to, cells.cell[to, c] // TABLES, cells.cell[to, c] % TABLES] = 0
        for c in range(n):
            g, k = cells.cell[p, c] // TABLES, cells.cell[p, c] % TABLES
            own[to, g, k] = own[p, g, k]
    for c in range(n):
        cells.cell[to, c] = cells.cell[p, c]
    cells.n[to] = n


@kernel
def list_cells(own, cell, n):
    """List the cells of all particles; ``cell`` (P, R) and ``n`` (P,) out."""
    for p in range(own.shape[0]):
        n[p] = 0
        for g in range(own.shape[1]):
            for k in range(own.shape[2]):
                if own[p, g, k] > 0:
                    cell[p, n[p]] = TABLES * g + k
                    n[p] += 1
