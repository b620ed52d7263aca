"""Whether levels wander while their regimes are away, and what a visitor then keeps."""

import numpy as np
import pytest

from streamddcrp import SeqDDCRP
from streamddcrp.contract import FADE
from streamddcrp.decay import Exponential
from streamddcrp.likelihoods import NormalGamma
from streamddcrp.models.seqddcrp.kernels import visits
from streamddcrp.models.seqddcrp.kernels.layout import N_EVENTS, WANDER_LEAD
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
    plain(visits._judge)(config, state.atoms, state.table, state.sums, state.scratch, 0)
    lead = state.sums[WANDER_LEAD]
    assert lead == pytest.approx(evidence(left, rows) - evidence(rest, rows), rel=1e-9)
    assert (lead > 0.0) == (offset > 0.0)


@pytest.mark.parametrize(("lead", "n"), [(4.9, 180.0), (5.1, 180.0), (5.1, 40.0), (5.1, 20.0)])
def test_a_visitor_keeps_what_the_walk_leaves(lead, n):
    config, state = engine(FAMILY, Exponential(1.0), memory=MEMORY)
    table, counts = state.table, state.counts
    table.frozen[0], table.shadow[0] = n, 0.25 * n
    state.atoms.visiting[0], state.atoms.side_terms[0] = AWAY, 2.0
    state.sums[WANDER_LEAD] = lead
    counts[[visits.N_ACTIVE, visits.N_SEEN]] = 1, 900
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


@pytest.mark.parametrize("slope", [0.0, 0.5])
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
