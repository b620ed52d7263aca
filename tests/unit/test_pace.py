"""Tables whose level moves on forget faster."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from streamddcrp import SeqDDCRP
from streamddcrp.decay import Exponential
from streamddcrp.likelihoods import NormalGamma
from streamddcrp.models.seqddcrp.kernels import pace
from streamddcrp.models.seqddcrp.kernels.layout import (
    FOLLOWED,
    N_ACTIVE,
    N_ROWS,
    N_TABLES,
    REDRAWN,
    RETURN_LEAD,
)
from tests.oracles.plain import plain
from tests.properties.test_stream_bound import engine
from tests.unit.test_visits import FAMILY, evidence, regimes

MEMORY = 40.0


def one_table(frozen, other):
    """Return the engine with one active table that remembers these rows by its two memories."""
    config, state = engine(FAMILY, Exponential(1.0), memory=MEMORY)
    state.counts[[N_ACTIVE, N_TABLES]] = 1
    state.table.frozen[0], state.table.other[0] = frozen, other
    return config, state


@pytest.mark.parametrize("is_fast", [0, 1])
def test_the_lead_is_the_difference_of_log_densities(is_fast):
    rng = np.random.default_rng(0)
    x, rows = rng.normal(size=(30, 1)), rng.normal(0.7, 1.0, (8, 1))
    long, short = FAMILY.suffstats(x).sum(0), FAMILY.suffstats(x[20:] + 0.7).sum(0)
    config, state = one_table(*((short, long) if is_fast else (long, short)))
    state.rows.x[:8], state.rows.probs[0, :8] = rows, 1.0
    state.scratch.columns[:, :8] = rows.T
    state.counts[N_ROWS], state.atoms.is_fast[0] = 8, is_fast
    before = state.table.other[0].copy()
    plain(pace.remember)(config, state.rows, state.atoms, state.table, state.scratch, 0, 8)
    evicted = FAMILY.suffstats(rows).sum(0)
    expected = evidence(short, evicted) - evidence(long, evicted)
    assert expected > 0.0
    assert state.atoms.pace_lead[0] == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(state.table.other[0], before + evicted, rtol=1e-12)


@pytest.mark.parametrize("mortal", [False, True])
@pytest.mark.parametrize(("is_fast", "lead"), [(0, 4.9), (0, 5.1), (1, -4.9), (1, -5.1)])
def test_the_memory_that_leads_is_kept(is_fast, lead, mortal):
    """The rest is capped; where clusters die, the long one is kept whatever leads."""
    stats = np.full(4, 60.0)
    config, state = one_table(stats, stats)
    state.atoms.is_fast[0], state.atoms.pace_lead[0] = is_fast, lead
    state.table.shadow[0], state.atoms.side_terms[0] = 30.0, 3.0
    if mortal:
        state.sums[[RETURN_LEAD, REDRAWN, FOLLOWED]] = -20.0, 1e6, 1e6
    plain(pace.forget)(config, state.atoms, state.table, state.counts, state.sums)
    fast = (lead > 5.0 if is_fast == 0 else lead > -5.0) and not mortal
    long, short = MEMORY, MEMORY / 4.0
    assert state.atoms.is_fast[0] == fast
    assert state.table.frozen[0] == pytest.approx(short if fast else long)
    assert state.table.other[0] == pytest.approx(long if fast else short)
    assert state.table.shadow[0] == pytest.approx(0.5 * (short if fast else long))
    assert state.atoms.side_terms[0] == pytest.approx(3.0 * (short if fast else long) / 60.0)


@pytest.mark.parametrize("speed", [0.0, 0.002])
def test_clusters_that_move_keep_their_ids(speed):
    """Two clusters 6 deviations apart, each on its way to where the other one was."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, 8_000)
    level = 4.2 * label + speed * np.arange(8_000)
    model = SeqDDCRP(columns={"0": "level", "1": "level"})  # a law of drift would do it, too
    found = model.step_many(level[:, None] + rng.normal(size=(8_000, 2)))["label"].to_numpy()
    assert adjusted_rand_score(label[1_000:], found[1_000:]) > 0.95
    fast = model._stream.state.atoms.is_fast[:2]
    assert (fast == (speed > 0.0)).all()


def test_regimes_on_a_trend_keep_their_ids():
    """Two take turns and move on; the third comes back after 1,000 rows, .5 deviations off."""
    label, X = regimes(0.5)
    found = SeqDDCRP().step_many(X)["label"].to_numpy()
    assert adjusted_rand_score(label, found) > 0.99


def test_of_an_infinite_memory_there_is_no_shorter_one():
    model = SeqDDCRP(likelihood=NormalGamma(0.0, 0.05, 1.5, 0.5), memory=np.inf)
    model.learn_many(np.arange(1_000)[:, None] / 50.0)
    assert not model._stream.state.atoms.is_fast.any()
