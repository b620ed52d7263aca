"""How far the past counts, learned from the counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamddcrp.errors import ConfigError
from streamddcrp.models.temporal.batch import whole_window as whole
from streamddcrp.models.temporal.emissions.drift import GaussianDrift
from streamddcrp.models.temporal.engine import KERNELS, Engine
from streamddcrp.models.temporal.window import Settings, count_settings
from tests.oracles import temporal

LAW = GaussianDrift.known(*(np.full(1, value) for value in (0.0, 1e6, 0.01, 1.0)))


@given(st.integers(0, 10**6))
def test_gains_are_the_log_joint_where_assignments_are_hard(seed):
    rng = np.random.default_rng(seed)
    c = [rng.integers(0, 3, n).tolist() for n in rng.integers(0, 5, 9)]
    resp = [np.eye(3)[labels].reshape(-1, 3) for labels in c]
    settings = Settings(0.7, (0.5,), slots=20, learn_decay=True)
    settings = Engine(settings, LAW).settings
    rows = [np.zeros((len(q), 1)) for q in resp]
    engine = whole(settings, LAW, rows, resp, np.arange(3), np.zeros(3, np.int64))
    gains = engine.kernel_gains()
    for g, kappa in enumerate(KERNELS):
        expected = temporal.log_joint(c, 20, 0.7, kappa.tolist())
        assert gains[:, g].sum() == pytest.approx(expected, abs=1e-8)
    # of a window, given the moments of what has left it
    short = Engine(settings._replace(lag=1), LAW)
    short.rows, short.resp, short.epoch = rows[-2:], resp[-2:], 8
    short.ids, short.born = np.arange(3), np.zeros(3, np.int64)
    short.before = engine.moments(resp)[-9:-2][-KERNELS.shape[1] :]
    short.sizes = [len(q) for q in resp[:-2]][-KERNELS.shape[1] :]
    assert short.kernel_gains() == pytest.approx(gains[-2:], abs=1e-8)


@pytest.mark.parametrize(("stays", "width"), [(True, 7), (False, 1)])
def test_clusters_that_stay_are_remembered_for_longer(stays, width):
    """Ten that stay, of which an epoch shows a few, or new ones in every epoch."""
    rng = np.random.default_rng(0)
    engine = Engine(Settings(1.0, (0.37,), lag=1, learn_alpha=True, learn_decay=True), LAW)
    for t in range(30):
        place = rng.integers(0, 10, 20) if stays else rng.integers(0, 5, 20) + 5 * t
        engine.learn(200.0 * place[:, None] + rng.normal(size=(20, 1)))
    assert engine.settings.width == width
    assert len(engine.settings.past_weights) == KERNELS.shape[1]
    if stays:
        assert engine.next_id <= 12  # at first the past is short


def test_what_is_given_is_not_learned():
    learned = count_settings(None, None, None)
    assert learned["learn_alpha"]
    assert learned["learn_decay"]
    assert learned["past_weights"] == pytest.approx(np.exp([-1.0, -2.0, -3.0]))
    for given_ in ((2.0, ("exponential", 2.0), None), (2.0, None, 3), (2.0, ("window", 9.0), 2)):
        counts = count_settings(*given_)
        assert not counts["learn_alpha"]
        assert not counts["learn_decay"]
        engine = Engine(Settings(**counts, lag=1), LAW)
        for _ in range(4):
            engine.learn(np.zeros((5, 1)))
        assert engine.settings.past_weights == counts["past_weights"]
        assert engine.settings.alpha == 2.0
    for alpha in (0.0, -1.0, np.inf, np.nan, True):
        with pytest.raises(ConfigError, match="alpha"):
            count_settings(alpha, None, None)
