"""Compiled births, deaths and look-up of components."""

from streamddcrp.compilation import kernel, uncounted
from streamddcrp.models.seqddcrp.kernels.layout import N_TABLES
from streamddcrp.numerics import copy_row


@uncounted
def column_of(table, counts, label):
    """Return the column of the table with id ``label``, or -1."""
    for m in range(counts[N_TABLES]):
        if table.ids[m] == label:
            return m
    return -1


@kernel
def open_component(table, n_live, new_id, index):
    """Put an empty component into row ``n_live``; the caller counts it."""
    table.ids[n_live] = new_id
    table.born[n_live] = index
    table.last_seen[n_live] = -1  # no row has been seen there yet
    table.stats[n_live] = 0.0
    table.frozen[n_live] = 0.0
    table.shadow[n_live] = 0.0
    table.other[n_live] = 0.0
    table.undivided[n_live] = 0.0
    table.left[n_live] = 0.0
    table.right[n_live] = 0.0
    table.post[n_live] = 0.0


@kernel
def close_gap(values, m, n):
    """Remove entry ``m`` of the first ``n`` of a vector, keeping the order of the others."""
    for k in range(m, n - 1):
        values[k] = values[k + 1]


@kernel
def close_component(table, m, n_live):
    """Remove row ``m`` of ``n_live``, keeping the order of birth of the others."""
    close_gap(table.ids, m, n_live)
    close_gap(table.born, m, n_live)
    close_gap(table.last_seen, m, n_live)
    for k in range(m, n_live - 1):
        copy_row(table.stats[k], table.stats[k + 1])
        copy_row(table.frozen[k], table.frozen[k + 1])
        copy_row(table.shadow[k], table.shadow[k + 1])
        copy_row(table.other[k], table.other[k + 1])
        copy_row(table.undivided[k], table.undivided[k + 1])
        copy_row(table.left[k], table.left[k + 1])
        copy_row(table.right[k], table.right[k + 1])
        copy_row(table.post[k], table.post[k + 1])
