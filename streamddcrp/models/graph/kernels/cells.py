"""A sparse matrix of counts for each particle: items at tables, by row.

The rows are groups, or nodes with auxiliary items. Only positive counts are stored, in order. The
number of a cell is ``TABLES`` times its row plus its table.
"""

from streamddcrp.compilation import inner, uncounted
from streamddcrp.numerics import copy_first

_BITS = 24
TABLES = 1 << _BITS


@inner
def row_of(cell):
    return cell >> _BITS


@inner
def table_of(cell):
    return cell & (TABLES - 1)


@uncounted
def most_cells(cells):
    """Cells of the particle that has the most."""
    most = 0
    for p in range(len(cells.n)):
        most = max(most, cells.n[p])
    return most


@uncounted
def place_of(cells, p, cell):
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
def table_at(cells, p, c, row):
    """Table of the cell at a place, or ``TABLES`` at the end of the row."""
    if c < cells.n[p] and cells.cell[p, c] < TABLES * (row + 1):
        return cells.cell[p, c] - TABLES * row
    return TABLES


@uncounted
def row_total(cells, p, row):
    """Items of a row."""
    found, c = 0, place_of(cells, p, TABLES * row)
    while table_at(cells, p, c, row) < TABLES:
        found += cells.items[p, c]
        c += 1
    return found


@uncounted
def spread(cells, p, row, K, out):
    """Write the counts of a row at the first K tables."""
    out[:K] = 0
    c = place_of(cells, p, TABLES * row)
    k = table_at(cells, p, c, row)
    while k < TABLES:
        out[k] = cells.items[p, c]
        c += 1
        k = table_at(cells, p, c, row)


@uncounted
def add_to(cells, p, row, k, count):
    """Add items to a table; the caller ensures room for a cell."""
    cell = TABLES * row + k
    at = place_of(cells, p, cell)
    if at == cells.n[p] or cells.cell[p, at] != cell:
        for c in range(cells.n[p], at, -1):
            cells.cell[p, c] = cells.cell[p, c - 1]
            cells.items[p, c] = cells.items[p, c - 1]
        cells.cell[p, at], cells.items[p, at] = cell, 0
        cells.n[p] += 1
    cells.items[p, at] += count


@uncounted
def _close(cells, p, at):
    cells.n[p] -= 1
    for c in range(at, cells.n[p]):
        cells.cell[p, c] = cells.cell[p, c + 1]
        cells.items[p, c] = cells.items[p, c + 1]


@uncounted
def take_from(cells, p, row, k):
    """Remove one item, which must exist, from a table."""
    at = place_of(cells, p, TABLES * row + k)
    cells.items[p, at] -= 1
    if cells.items[p, at] == 0:
        _close(cells, p, at)


@uncounted
def copy_cells(cells, p, to):
    """Copy a particle's cells to the place of another."""
    n = cells.n[p]
    copy_first(cells.cell[to], cells.cell[p], n)
    copy_first(cells.items[to], cells.items[p], n)
    cells.n[to] = n


@uncounted
def drop_table(cells, p, k):
    """Remove all items from a table."""
    kept = 0
    for c in range(cells.n[p]):
        if table_of(cells.cell[p, c]) != k:
            cells.cell[p, kept], cells.items[p, kept] = cells.cell[p, c], cells.items[p, c]
            kept += 1
    cells.n[p] = kept


@uncounted
def drop_row(cells, p, row):
    """Remove a row; later rows move up."""
    kept = place_of(cells, p, TABLES * row)
    for c in range(place_of(cells, p, TABLES * (row + 1)), cells.n[p]):
        cells.cell[p, kept], cells.items[p, kept] = cells.cell[p, c] - TABLES, cells.items[p, c]
        kept += 1
    cells.n[p] = kept


@uncounted
def join_first(cells, p, row):
    """Add a later row's items to the first row."""
    at = place_of(cells, p, TABLES * row)
    k = table_at(cells, p, at, row)
    while k < TABLES:
        count = cells.items[p, at]
        _close(cells, p, at)
        add_to(cells, p, 0, k, count)
        at = place_of(cells, p, TABLES * row)
        k = table_at(cells, p, at, row)
