"""Visits: how much of an atom still holds when it returns after a long absence.

A level may have wandered while its regime was away. Under the random walk implied by a memory of
`memory` rows, the level's variance grows by 1 / memory^2 a row, in units of a row's variance. After
an absence of a rows, an atom of n rows is therefore worth

    n_a = 1 / (1 / n + a / memory^2),

but at least `LEAST` rows, for its spread. Whether levels wander is learned: when a visit ends, it
is predicted from all n rows and from n_a, and the differences of the log densities are summed. If
levels do not wander, a lead of 5 nats ever occurs with probability at most e^-5.

An atom may also never return. If clusters die and others are born, each absent atom would absorb
the next one born nearby. If atoms return, a run at none of the present atoms is at one of the k
absent ones or at a new one, in proportion 1 to gamma; if they die, it is at a new one. The log of

    (gamma + p(rows | atom) / p(rows | new)) / (gamma + k)

is summed over visits that end and new atoms that last. From -5 nats on, absent atoms are retired if
rows come in no order; if regimes last, an absence is weak evidence.
"""

import math

from streamddcrp.compilation import uncounted
from streamddcrp.contract import FADE, record
from streamddcrp.likelihoods.kernels.families import log_marginal, log_predictives_in_lanes
from streamddcrp.models.seqddcrp.kernels.halves import come_in_no_order
from streamddcrp.models.seqddcrp.kernels.known import LASTING, has_lasted
from streamddcrp.models.seqddcrp.kernels.layout import (
    LAST_TIME,
    N_ACTIVE,
    N_EVENTS,
    N_ROWS,
    N_SEEN,
    N_TABLES,
    RETURN_LEAD,
    WANDER_LEAD,
)
from streamddcrp.models.seqddcrp.kernels.run import home
from streamddcrp.models.seqddcrp.kernels.shadow import restart
from streamddcrp.models.seqddcrp.kernels.state import lately
from streamddcrp.models.seqddcrp.kernels.states import regimes_last
from streamddcrp.numerics import add, log_add_exp, scale

VISIT = 2.0  # multiple of an absence that makes a return a visit
LEAST = 32.0  # least rows of an atom kept after an absence
NEEDED = 5.0  # nats by which the exception must lead
MOST = 20.0  # largest remembered lead in nats, either way
REPLACED = 4.0  # missed rows, relative to a table's memory, that replace an absent one
UNLIKELY = 700.0  # nats
FEWEST = 6.0  # expected rows, known or predicted, required for a judgement


@uncounted
def held(config, atoms, m):
    """Return the number of evicted rows that column ``m`` remembers; see `kernels.pace`."""
    return config.recent if atoms.is_fast[m] == 1 else config.memory


@uncounted
def greet(config, groups, atoms, table, events, counts, sums, scratch, m, arrival):
    """Collect all further rows of an atom that returns after long in its shadow.

    The usual split test then decides whether this visit should have been a new atom.
    """
    last = table.last_seen[m]
    if config.recall and last >= 0 and arrival - last > VISIT * lately(config):
        now = sums[LAST_TIME]
        end_visit(config, groups, atoms, table, events, counts, sums, scratch, m, now)
        atoms.visiting[m] = arrival - last


@uncounted
def end_visit(config, groups, atoms, table, events, counts, sums, scratch, m, now):
    """Restart the shadow of column ``m``; if it was a visit, learn from it."""
    if atoms.visiting[m] != 0:
        _judge(config, atoms, table, counts, sums, scratch, m)
    restart(groups, atoms, table, events, counts, m, now)


@uncounted
def _move_on(atoms, counts):
    """Whether the levels of most atoms that lasted move while present."""
    most = 0
    for m in range(counts[N_TABLES]):
        if has_lasted(atoms, m):
            most += 1 if atoms.is_fast[m] == 1 else -1
    return most > 0


@uncounted
def fade(config, atoms, table, events, counts, sums, now):
    """Forget outdated parts of atoms that returned since the last block."""
    if sums[WANDER_LEAD] <= NEEDED and not _move_on(atoms, counts):
        return
    for at in range(counts[N_ACTIVE]):
        m = atoms.active[at]
        away, n = atoms.visiting[m], table.frozen[m, 0]
        if away > 0 and n > LEAST:
            share = _left(config, n, away) / n
            retain(atoms, table, m, share)
            scale(table.other[m], share)
            atoms.visiting[m] = -away
            record(events, counts, N_EVENTS, FADE, table.ids[m], away, counts[N_SEEN] - 1, now)


@uncounted
def retain(atoms, table, m, share):
    """Keep a share of what column ``m`` remembers of evicted rows."""
    scale(table.frozen[m], share)
    scale(table.shadow[m], share)
    scale(table.undivided[m], share)
    atoms.side_terms[m] *= share


@uncounted
def _left(config, n, away):
    return max(n / (1.0 + n * away / config.memory**2), min(n, LEAST))


@uncounted
def _judge(config, atoms, table, counts, sums, scratch, m):
    """Sum the evidence of a visit for wandering levels and for returning atoms."""
    away, rows = atoms.visiting[m], table.shadow[m, 0]
    n = table.frozen[m, 0] - rows
    if min(n, rows) < FEWEST:
        return
    if away > 0:
        before, after = n, _left(config, n, away)
    else:  # already forgotten
        before, after = config.memory, n
        if n * -away < config.memory**2:
            before = min(n / (1.0 + n * away / config.memory**2), config.memory)
    wandered = _evidence(config, table, scratch, m, after / n)
    stayed = _evidence(config, table, scratch, m, before / n)
    sums[WANDER_LEAD] = min(max(sums[WANDER_LEAD] + wandered - stayed, -MOST), MOST)
    alone = log_marginal(config.family, config.hyper, table.shadow[m], scratch.post)
    note_run(config, atoms, table, counts, sums, m, max(wandered, stayed) - alone)


@uncounted
def note_run(config, atoms, table, counts, sums, m, gain):
    """Sum the evidence of a run at absent column ``m`` for returning atoms.

    ``gain`` is the number of nats by which its rows are more probable under the earlier atom than
    under a new one; -inf if the atom is new.
    """
    absent = 1 if atoms.visiting[m] != 0 else 0
    for k in range(counts[N_TABLES]):
        away = counts[N_SEEN] - table.last_seen[k] > VISIT * lately(config)
        absent += 1 if k != m and away and has_lasted(atoms, k) else 0
    lead = sums[RETURN_LEAD] + log_add_exp(math.log(config.gamma), gain)
    lead -= math.log(config.gamma + absent)
    sums[RETURN_LEAD] = min(max(lead, -MOST), MOST)


@uncounted
def note_birth(config, atoms, table, counts, sums, m, before):
    """Call `note_run` for a new atom once it lasts; it had ``before`` rows before the last."""
    if config.recall and before < LASTING <= atoms.n_rows[m]:
        note_run(config, atoms, table, counts, sums, m, -math.inf)


@uncounted
def are_mortal(config, counts, sums):
    """Whether an absent atom will not return."""
    return sums[RETURN_LEAD] < -NEEDED and not regimes_last(config, counts, sums)


@uncounted
def miss(config, rows, atoms, table, counts, sums, scratch):
    """Count a missed row for absent atoms, if the block's last row, as a sample, is not theirs.

    If rows come in no order and suit an absent atom, but go to another, the absent one is by now
    half of that one: an equally large atom would have had p(x | atom) / (p(x | atom) + p(x |
    other)) of each row.
    """
    if not come_in_no_order(config, table, counts, sums, False):
        return
    x, best = rows.x[counts[N_ROWS] - 1], home(rows, atoms, counts, counts[N_ROWS] - 1)
    log_predictives_in_lanes(
        config.family, config.hyper, table.post, x, counts[N_TABLES], scratch.own
    )
    for m in range(counts[N_TABLES]):
        if counts[N_SEEN] - table.last_seen[m] <= config.window:
            atoms.missed[m] = 0.0
        else:
            odds = min(scratch.own[best] - scratch.own[m], UNLIKELY)
            atoms.missed[m] += config.sweep_every / (1.0 + math.exp(odds))


@uncounted
def is_replaced(config, atoms, m):
    """Whether the rows of column ``m`` have long gone to another one."""
    return atoms.missed[m] > REPLACED * config.memory


@uncounted
def _evidence(config, table, scratch, m, share):
    """Log density of the shadow's rows, given a share of the others."""
    for p in range(len(scratch.rest)):
        scratch.rest[p] = share * (table.frozen[m, p] - table.shadow[m, p])
    return log_density(config, scratch, table.shadow[m])


@uncounted
def log_density(config, scratch, rows):
    """Log density of rows by their statistics, given those in ``scratch.rest``; adds them there."""
    family, hyper, rest = config.family, config.hyper, scratch.rest
    before = log_marginal(family, hyper, rest, scratch.post)
    add(rest, 1.0, rows)
    return log_marginal(family, hyper, rest, scratch.post) - before
