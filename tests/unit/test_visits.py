"""Whether levels wander while their regimes are away, what a visitor then keeps; who returns."""

import numpy as np
import pytest

from streamddcrp import SeqDDCRP
from streamddcrp.contract import FADE
from streamddcrp.decay import Exponential
from streamddcrp.likelihoods import NormalGamma
from streamddcrp.models.seqddcrp.kernels import visits
from streamddcrp.models.seqddcrp.kernels.known import LASTING
from streamddcrp.models.seqddcrp.kernels.layout import (
    FOLLOWED,
    N_ACTIVE,
    N_EVENTS,
    N_ROWS,
    N_SEEN,
    N_TABLES,
    REDRAWN,
    RETURN_LEAD,
    WANDER_LEAD,
)
from streamddcrp.models.seqddcrp.kernels.window import retire
from tests.oracles.plain import plain
from tests.properties.test_stream_bound import engine

MEMORY, AWAY = 250.0, 700
FAMILY = NormalGamma(0.0, 0.05, 1.5, 0.5)
STEP = AWAY / MEMORY**2


def evidence(stats, rows):
    """Log density of the rows after what is remembered."""
    return float(np.diff(FAMILY.log_marginal(np.stack([stats, stats + rows])))[0])


@pytest.mark.parametrize("offset", [0.0, 0.8])
@pytest.mark.parametrize("faded", [False, True])
def test_a_visit_is_judged_by_its_density_given_all_and_given_what_is_left(faded, offset):
    rng = np.random.default_rng(0)
    config, state = engine(FAMILY, Exponential(1.0), memory=MEMORY)
    x, y = rng.normal(size=(180, 1)), rng.normal(size=(60, 1))
    rest = FAMILY.suffstats(x - x.mean()).sum(0)
    rows = FAMILY.suffstats(y - y.mean() + offset).sum(0)
    left = rest / (1.0 + 180.0 * STEP)
    state.table.frozen[0] = (left if faded else rest) + rows
    state.table.shadow[0] = rows
    state.atoms.visiting[0] = -AWAY if faded else AWAY
    rest_of_state = (state.table, state.counts, state.sums, state.scratch)
    plain(visits._judge)(config, state.atoms, *rest_of_state, 0)
    lead = state.sums[WANDER_LEAD]
    assert lead == pytest.approx(evidence(left, rows) - evidence(rest, rows), rel=1e-9)
    assert (lead > 0.0) == (offset > 0.0)
    alone = evidence(np.zeros_like(rows), rows)
    ratio = np.exp(max(evidence(left, rows), evidence(rest, rows)) - alone)
    returns = np.log((config.gamma + ratio) / (config.gamma + 1.0))
    assert state.sums[RETURN_LEAD] == pytest.approx(returns, rel=1e-9)


@pytest.mark.parametrize(("lead", "n"), [(4.9, 180.0), (5.1, 180.0), (5.1, 40.0), (5.1, 20.0)])
def test_a_visitor_keeps_what_the_walk_leaves(lead, n):
    config, state = engine(FAMILY, Exponential(1.0), memory=MEMORY)
    table, counts = state.table, state.counts
    table.frozen[0], table.shadow[0] = n, 0.25 * n
    state.atoms.visiting[0], state.atoms.side_terms[0] = AWAY, 2.0
    state.sums[WANDER_LEAD] = lead
    counts[[N_ACTIVE, N_SEEN]] = 1, 900
    rest = (table, state.events, counts, state.sums)
    plain(visits.fade)(config, state.atoms, *rest, 0.0)
    kept = n if lead < 5.0 else max(1.0 / (1.0 / n + STEP), min(n, 32.0))
    assert table.frozen[0] == pytest.approx(kept)
    assert table.shadow[0] == pytest.approx(0.25 * kept)
    assert state.atoms.side_terms[0] == pytest.approx(2.0 * kept / n)
    plain(visits.fade)(config, state.atoms, *rest, 0.0)
    assert table.frozen[0, 0] == pytest.approx(kept)  # once a visit


def regimes(slope):
    """Return three regimes of six columns on a trend; the third is away for 1,000 rows."""
    rng = np.random.default_rng(4)
    order = [0, 1, 2, 0, 1, 2, *([0, 1] * 5), 2, *([0, 1] * 5), 2]
    label = np.repeat(order, 100)
    trend = slope * np.arange(len(label))[:, None] * rng.choice([-1.0, 1.0], 6) / 1000.0
    return label, 8.0 * label[:, None] + trend + rng.normal(size=(len(label), 6))


@pytest.mark.parametrize("slope", [0.0, 0.3])
def test_whether_levels_wander_is_learned(slope):
    label, X = regimes(slope)
    model = SeqDDCRP()
    found = model.step_many(X)["label"].to_numpy()
    state = model._stream.state
    assert (state.sums[WANDER_LEAD] > visits.NEEDED) == (slope > 0.0)
    n_events = int(state.counts[N_EVENTS])
    assert n_events < len(state.events.kind)
    assert (FADE in state.events.kind[:n_events]) == (slope > 0.0)
    for k in range(3):
        ids, n_rows = np.unique(found[label == k], return_counts=True)
        assert n_rows.max() > 0.95 * n_rows.sum(), dict(zip(ids, n_rows, strict=True))


@pytest.mark.parametrize("before", [20, 31, 32])
def test_a_birth_speaks_against_returns_once_it_has_lasted(before):
    """Of five atoms two are absent: the third is so since too little, the fourth was an outlier."""
    config, state = engine(FAMILY, Exponential(1.0))
    state.counts[[N_TABLES, N_SEEN]] = 5, 1000
    state.table.last_seen[:5] = 0, 700, 1000 - 2 * config.window, 0, 999
    state.atoms.n_rows[:5] = LASTING, LASTING, LASTING, 1, before + 1
    state.atoms.n_visits[:5] = 1
    rest = (state.table, state.counts, state.sums)
    plain(visits.note_birth)(config, state.atoms, *rest, 4, before)
    expected = np.log(config.gamma / (config.gamma + 2.0)) if before == LASTING - 1 else 0.0
    assert state.sums[RETURN_LEAD] == pytest.approx(expected)


@pytest.mark.parametrize(("lead", "rho", "left"), [(-5.1, 0.6, 1), (-4.9, 0.6, 2), (-5.1, 0.4, 2)])
def test_absent_atoms_are_retired_where_they_do_not_return(lead, rho, left):
    config, state = engine(FAMILY, Exponential(1.0))
    rows, groups, atoms, table = state.rows, state.groups, state.atoms, state.table
    counts = state.counts
    counts[[N_TABLES, N_SEEN, N_ACTIVE, N_ROWS]] = 2, 1000, 1, 1
    rows.probs[1, 0], atoms.active[0] = 1.0, 1
    table.ids[:2] = 0, 1
    state.sums[[RETURN_LEAD, REDRAWN, FOLLOWED]] = lead, rho, 1.0
    plain(retire)(config, rows, groups, atoms, table, state.events, counts, state.sums, 1000.0)
    assert table.ids[: counts[N_TABLES]].tolist() == [0, 1][-left:]


@pytest.mark.parametrize("die", [False, True])
def test_whether_atoms_return_is_learned(die):
    """Three clusters at a time; every 300 rows one is replaced, by one of seven or by a new one.

    At the end there is one where the first has been.
    """
    rng = np.random.default_rng(1)
    places = 8.0 * rng.permutation(np.stack(np.meshgrid(*[np.arange(7.0)] * 2), -1).reshape(-1, 2))
    spells, present = [], [0, 1, 2]
    for spell in range(36):
        spells.append(rng.choice(present, 300))
        absent = [k for k in range(1, 7) if k not in present]
        present[spell % 3] = spell + 3 if die else rng.choice(absent)
    spells.append(rng.choice([0, present[1]], 300))
    label = np.concatenate(spells)
    model = SeqDDCRP()
    found = model.step_many(places[label] + rng.normal(size=(len(label), 2)))["label"].to_numpy()
    lead = model._stream.state.sums[RETURN_LEAD]
    assert (lead < -visits.NEEDED) if die else (lead > visits.NEEDED)
    rows = np.flatnonzero(label == 0)
    first, last = rows[rows < 300][-20:], rows[-20:]
    before, after = (np.bincount(found[rows]).argmax() for rows in (first, last))
    assert (before == after) != die
