"""How fast tables forget: by `memory`, or faster if their levels move.

A table that remembers `memory` rows lags by `memory` v if its level moves by v a row. The rows that
leave the window are therefore also kept by a second memory, of a quarter of the rows. Before rows
are evicted they are predicted from both, and the difference of the log densities is summed for each
table. If its level stays, a lead of 5 nats ever occurs with probability at most e^-5, apart from
the limit below. From then on the table forgets faster, and the second memory is the long one, until
that leads by 5 nats. Both are weights of rows, so the bound stays exact.

The quarter refers to independent rows: if tau rows count as one, the short memory holds tau times
as many, up to `memory`. An apparently moving level is then slow noise.

With few rows, tables are harder to tell apart. Faster-forgetting tables are therefore merged only
if the long memory agrees; if atoms are known to die, all tables keep the long one.
"""

from streamddcrp.compilation import uncounted
from streamddcrp.likelihoods.kernels.families import add_rows
from streamddcrp.models.seqddcrp.kernels import visits
from streamddcrp.models.seqddcrp.kernels.layout import N_ACTIVE
from streamddcrp.numerics import add, copy_row, scale


@uncounted
def remember(config, rows, atoms, table, scratch, m, n):
    """Add the ``n`` rows to be evicted to the second memory of column ``m``; compare both."""
    family, hyper, stats = config.family, config.hyper, scratch.stats
    stats[:] = 0.0
    add_rows(family, hyper, rows.x, scratch.columns, rows.probs[m], 0, n, stats)
    frozen, other = table.frozen[m], table.other[m]
    if stats[0] > 0.0 and min(frozen[0], other[0]) >= visits.FEWEST and frozen[0] != other[0]:
        gain = _evidence(config, other, scratch) - _evidence(config, frozen, scratch)
        lead = atoms.pace_lead[m] + (gain if atoms.is_fast[m] == 0 else -gain)
        atoms.pace_lead[m] = min(max(lead, -visits.MOST), visits.MOST)
    add(other, 1.0, stats)


@uncounted
def _evidence(config, known, scratch):
    """Log density of the rows in ``scratch.stats``, given the known ones."""
    copy_row(scratch.rest, known)
    return visits.log_density(config, scratch, scratch.stats)


@uncounted
def forget(config, atoms, table, counts, sums):
    """Switch to the memory that leads, and limit the memory of evicted rows."""
    mortal = visits.are_mortal(config, counts, sums)
    for at in range(counts[N_ACTIVE]):
        m = atoms.active[at]
        lead, is_fast = atoms.pace_lead[m], atoms.is_fast[m] == 1
        if (lead < -visits.NEEDED or mortal) if is_fast else (lead > visits.NEEDED and not mortal):
            atoms.is_fast[m] = 0 if is_fast else 1
            start_other(config, atoms, table, m)
        n, most = table.frozen[m, 0], visits.held(config, atoms, m)
        if n > most:
            visits.retain(atoms, table, m, most / n)
        _cap_other(config, atoms, table, m)


@uncounted
def start_other(config, atoms, table, m):
    """Start the second memory of column ``m`` from what the table remembers."""
    copy_row(table.other[m], table.frozen[m])
    _cap_other(config, atoms, table, m)


@uncounted
def _cap_other(config, atoms, table, m):
    n, most = table.other[m, 0], config.memory if atoms.is_fast[m] == 1 else config.recent
    if n > most:
        scale(table.other[m], most / n)


@uncounted
def long_stats(atoms, table, m, out):
    """Write the statistics of column ``m`` under the long memory to ``out``."""
    copy_row(out, table.stats[m])
    if atoms.is_fast[m] == 1:
        add(out, -1.0, table.frozen[m])
        add(out, 1.0, table.other[m])
