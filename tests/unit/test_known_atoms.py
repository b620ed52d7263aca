"""Atoms that are known, and outliers: the rule against its slow twin, and on whole streams."""

import numpy as np
import pyarrow as pa
import pytest

from streamddcrp import SeqDDCRP
from streamddcrp.contract import empty_events
from streamddcrp.models.seqddcrp.kernels import known
from streamddcrp.models.seqddcrp.kernels.layout import (
    ENOUGH,
    FAILED,
    N_COUNTS,
    N_LASTED,
    N_SEEN,
    N_TABLES,
)
from streamddcrp.models.seqddcrp.state import MIXED, Atoms, ComponentTable
from streamddcrp.records import empty
from tests.oracles.known_atoms import LASTING, KnownAtoms
from tests.oracles.plain import plain

BLOCK = 8
LENGTHS = {"K": 80, "A": 80, "P": 1, "Q": 1, **MIXED}


def outlying(rng, n, share, dwell):
    """Atoms of arrivals: three regimes in runs, and outliers, a third of them at one atom."""
    atoms, regime, fresh = [], 0, 3
    for _ in range(n):
        regime = int(rng.integers(3)) if rng.random() < 1.0 / dwell else regime
        if rng.random() >= share:
            atoms.append(regime)
        elif rng.random() < 1.0 / 3.0:
            atoms.append(3)
        else:
            fresh += 1
            atoms.append(fresh)
    return atoms


@pytest.mark.parametrize(("share", "dwell"), [(0.0, 20.0), (0.05, 50.0), (0.3, 1.0), (0.15, 5.0)])
def test_the_rule_is_that_of_the_twin(share, dwell):
    twin = KnownAtoms()
    atoms, table = empty(Atoms, LENGTHS), empty(ComponentTable, LENGTHS)
    counts, events, columns = np.zeros(N_COUNTS, np.int64), empty_events(), {}
    counts[ENOUGH] = 1
    names = "see", "report", "judge", "dismiss"
    see, report, judge, dismiss = (plain(getattr(known, name)) for name in names)
    rng, needed = np.random.default_rng(3), set()
    for i, atom in enumerate(outlying(rng, 400, share, dwell)):
        if atom not in columns:
            columns[atom] = m = int(counts[N_TABLES])
            table.last_seen[m] = -1
            counts[N_TABLES] += 1
        m = columns[atom]
        see(atoms, table, counts, m)
        report(atoms, table, events, counts, m, i, 0.0)
        table.last_seen[m] = i
        counts[N_SEEN] += 1
        twin.see(atom)
        if i % BLOCK == BLOCK - 1:
            judge(atoms, table, counts)
            twin.judge()
            assert counts[ENOUGH] == twin.enough
            needed.add(twin.enough)
        for each, m in columns.items():
            assert atoms.n_visits[m] == twin.visits(each)
            assert (atoms.reported[m] < known.UNREPORTED) == (each in twin.strays)
            assert bool(plain(known.was_reported)(atoms, m)) == (each in twin.known)
    assert len(needed) == 1 if share == 0.0 else len(needed) > 1
    for each in [a for a in columns if a > 3][:5]:
        dismiss(atoms, counts, columns[each])
        atoms.n_rows[columns[each]] = atoms.n_visits[columns[each]] = 0  # as if it were not there
        atoms.reported[columns[each]] = known.UNREPORTED
        twin.remove(each)
    judge(atoms, table, counts)
    twin.judge()
    assert counts[ENOUGH] == twin.enough
    assert counts[FAILED + 1 : FAILED + LASTING].sum() + counts[N_LASTED] == len(twin.removed)


def spiked(seed, share):
    """Two regimes in runs of 300 rows, and far outliers, each elsewhere; and where these are."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1, 0, 1, 0, 1], 300)
    X = rng.normal(np.column_stack([8.0 * y, -8.0 * y]), 1.0)
    odd = rng.random(len(y)) < share
    X[odd] += rng.choice([-1.0, 1.0], (odd.sum(), 2)) * rng.uniform(30.0, 300.0, (odd.sum(), 2))
    return X, y, odd


@pytest.mark.parametrize("seed", range(3))
def test_outliers_are_marked_and_keep_the_regime(seed):
    X, y, odd = spiked(seed, 0.03)
    model = SeqDDCRP()
    out = model.step_many(X)
    label, marked = (out[name].to_numpy(zero_copy_only=False) for name in ("label", "outlier"))
    late = np.arange(len(y)) >= 700  # what outliers are like is known by then
    assert marked[late & odd].mean() > 0.85
    assert marked[late & ~odd].mean() < 0.01
    assert len(np.unique(label[late])) <= 4
    assert (np.diff(label[late]) != 0).sum() <= 3 + 2 * 3
    assert len(np.unique(model.recent_labels())) == 1
    assert model.n_tables == model.summary().num_rows == 2
    events = model.events()
    reported = {event.label for event in events if event.kind in {"birth", "split"}}
    assert set(np.unique(label[late])) <= reported
    assert {event.label for event in events} <= reported


def test_short_regimes_that_never_return_are_no_outliers():
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(60), 15)
    X = rng.uniform(-60.0, 60.0, (60, 2))[y] + rng.normal(size=(len(y), 2))
    out = SeqDDCRP(recall=False).step_many(X)
    assert out["outlier"].to_numpy(zero_copy_only=False).mean() < 0.01


def test_without_outliers_no_row_is_marked():
    X, _, _ = spiked(0, 0.0)
    out = SeqDDCRP().step_many(X)
    assert out.schema.field("outlier").type == pa.bool_()
    assert not out["outlier"].to_numpy(zero_copy_only=False).any()
