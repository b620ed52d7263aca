"""How far links reach back, chosen by the first rows."""

import math

import numpy as np
import pytest
from scipy.signal import lfilter

from streamddcrp import SeqDDCRP
from streamddcrp.decay import Exponential
from streamddcrp.errors import CheckpointError
from streamddcrp.likelihoods.columns import column_powers
from streamddcrp.models.seqddcrp.config import PRESETS

MEANS = np.array([[-4.0, 0.0], [4.0, 0.0], [0.0, 5.0], [0.0, -5.0]])


def rows(run, n=512, seed=0):
    """Rows of four clusters; each run of ``run`` rows is of one."""
    rng = np.random.default_rng(seed)
    kind = np.repeat(rng.integers(0, 4, -(-n // run)), run)[:n]
    return MEANS[kind] + rng.normal(size=(n, 2))


def reach(model):
    return model._stream.decay.scale


@pytest.mark.parametrize(("run", "wanted"), [(40, 1.0), (1, 32.0)])
def test_it_follows_how_long_regimes_last(run, wanted):
    model = SeqDDCRP(decay="auto")
    model.learn_many(rows(run))
    assert reach(model) == wanted
    again = SeqDDCRP(decay=("exponential", 8.0))
    again.learn_many(rows(run))
    assert again._stream.decay == Exponential(8.0)  # given: not chosen
    given = SeqDDCRP(decay="auto", likelihood=("normal_gamma", 0.0, 0.05, 1.5, 1.0))
    given.learn_many(rows(run))
    assert reach(given) == PRESETS["process"].reaches[0]  # no warm-up


@pytest.mark.parametrize("scale", [1.0, 8.0, 32.0])
def test_tables_open_as_often_whatever_the_reach(scale):
    """After many rows, S = alpha + sum_d f(d): alpha / (S - alpha) is the chance expected."""
    decay = Exponential(scale)
    recipe = SeqDDCRP(decay=decay)._recipe
    config = recipe.config(np.ones(1), 0, decay, clocked=False, opening=0.1)
    mass = sum(math.exp(-d / scale) for d in range(1, 5000))
    beyond = math.exp(-64.0 / scale)  # share of the mass that is more than 64 rows back
    assert 0.1 * (1.0 - beyond) <= config.alpha / mass * (1.0 + 1e-12)
    assert config.alpha / mass <= 0.1 * (1.0 + 1e-12)


def test_it_is_not_shorter_than_the_memory_of_the_noise():
    rng = np.random.default_rng(0)
    noise = lfilter([1.0], [1.0, -0.9], rng.normal(size=(512, 1)), axis=0)
    level = np.repeat([0.0, 30.0, 0.0, 30.0], 128)[:, None]
    assert column_powers((level + noise)[:256])[0] < 1.0
    model = SeqDDCRP(decay="auto")
    model.learn_many(level + noise)
    assert reach(model) > 1.0


def test_a_restored_model_keeps_it():
    X = rows(40)
    model = SeqDDCRP(decay="auto")
    model.learn_many(X[:400])
    again = SeqDDCRP.from_bytes(model.to_bytes())
    assert reach(again) == reach(model) == 1.0
    np.testing.assert_array_equal(
        again.step_many(X[400:])["label"], model.step_many(X[400:])["label"]
    )


@pytest.mark.parametrize("value", [None, "1", 0.0, -1.0, float("nan"), 3.0])
def test_a_forged_one_is_refused(value):
    model = SeqDDCRP(decay="auto")
    model.learn_many(rows(40, 300))
    arrays, meta = model._state()
    meta["stream"]["reach"] = value
    with pytest.raises(CheckpointError, match="reach"):
        SeqDDCRP(decay="auto")._recipe.resume(arrays, meta["stream"], None, 2)
