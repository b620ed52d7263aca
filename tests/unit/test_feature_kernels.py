"""Steps of the particles of TimeVaryingIBP that streams seldom come to, each by definition."""

from types import SimpleNamespace

import numpy as np
import pytest

from streamddcrp import TimeVaryingIBP
from streamddcrp.models.features.kernels.names import _merge
from streamddcrp.models.features.kernels.slots import N_ACTIVE, ROUNDING, SHAPE, rescale
from tests.oracles.plain import plain


def test_features_that_are_merged_leave_no_name_twice():
    """One particle has both, one the younger alone, one the older alone."""
    model = TimeVaryingIBP(window=12, n_particles=8, moves=3, warmup=20)
    model.learn_many(np.random.default_rng(0).normal(size=(40, 4)))
    state = model._engine.state
    particles, names, counts = state.particles, state.names, state.counts
    counts[N_ACTIVE] = 3
    particles.name[:], particles.weight[:3] = -1, (0.2, 0.3, 0.1)
    particles.name[0, 1:3], particles.name[1, 2], particles.name[2, 1] = (1, 0), 1, 0
    names.used[:], names.label[:] = False, -1
    names.used[:2], names.label[:2] = True, (4, 6)
    names.weight[:2], names.best[:2], names.holder[:2], names.slot[:2] = (
        (0.3, 0.5), (0.2, 0.3), (0, 1), (2, 2)
    )  # fmt: skip
    names.owners[:2] = 0b111
    names.history[:] = -1
    names.history[:3, :3] = [[4, 6, 9], [6, 9, -1], [4, -1, -1]]
    plain(_merge)(state, 39.0)
    assert names.used[:2].tolist() == [True, False]
    assert particles.name[:3, 1:3].tolist() == [[-1, 0], [-1, 0], [0, -1]]
    assert names.weight[0] == pytest.approx(0.6)
    assert (names.best[0], names.holder[0], names.slot[0]) == (0.3, 1, 2)
    assert names.history[:3, :3].tolist() == [[4, -1, 9], [4, 9, -1], [4, -1, -1]]


@pytest.mark.parametrize(("square", "left"), [(1.0, 2.5), (1e9, 3.0 * ROUNDING)])
def test_a_rate_stays_positive_when_a_scale_is_resampled(square, left):
    """It loses delta ||mean||^2 / (2 (1 + delta cov)); more than all of it is rounding."""
    particles = SimpleNamespace(
        n_owners=np.array([[1, 2]]), scale=np.array([[0, 1]]), rate=np.array([3.0]),
        cov=np.zeros((1, 2, 2)), mean=np.array([[[0.0], [np.sqrt(square)]]]),
    )  # fmt: skip
    config = SimpleNamespace(ratios=np.array([1.0, 2.0]), seed=0)
    work = SimpleNamespace(
        slots=np.zeros(2, np.int64), lean=np.zeros(2), v=np.zeros(2), e=np.zeros(1)
    )
    sums = np.zeros(SHAPE + 1)
    sums[SHAPE] = 4.0
    first = plain(rescale, draw_log=lambda *_: 0)
    first(config, particles, sums, work, 0, 5, 0)
    assert particles.scale.tolist() == [[0, 0]]
    assert particles.rate[0] == pytest.approx(left)
