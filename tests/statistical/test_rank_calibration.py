"""Simulation-based calibration: the truth ranks anywhere among draws from the posterior."""

import math
from functools import partial

import numpy as np
import pytest

from benchmarks.calibration import DRAWS, errors, measure
from benchmarks.own_priors import ALPHA, MODELS, N
from streamddcrp import calibrate


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_truth_is_one_more_draw_from_the_posterior(name):
    assert calibrate(MODELS[name], n_rows=N, n_simulations=200, seed=5).p_value > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n"),
    {"links": 200, "counts": 200, "groups": 800, "stream": 400, "sample epoch": 200}.items(),
)
def test_a_wrong_prior_is_found(name, n):
    """Rows come from twice the alpha that the model is told; forecasts alone need more of them."""
    model, twice = MODELS[name], {"alpha": 2.0 * ALPHA}
    truth = partial(model, **twice) if isinstance(model, partial) else model.clone(twice)
    assert calibrate(model, truth, n_rows=N, n_simulations=n, seed=5).p_value < 1e-3


@pytest.mark.parametrize("stream", ["regime-2k", "r3-seq", "r3-shuf", "r5-shuf"])
def test_scores_and_labels_of_streams_are_calibrated(stream):
    """Ranks are uniform, Kolmogorov's test at 1e-3; what is said comes as often as it is said."""
    runs = [measure(stream, seed, {}) for seed in (700, 701)]
    n = np.bincount(np.concatenate([run.ranks for run in runs]), minlength=DRAWS + 1)
    far = np.abs(np.cumsum(n) / n.sum() - np.arange(1, DRAWS + 2) / (DRAWS + 1)).max()
    assert far < 1.95 / math.sqrt(n.sum())
    rows, said, right = np.sum([run.table for run in runs], axis=0).sum(axis=0)
    assert abs(said - right) / rows < 0.03
    for tables in ([run.new for run in runs], [run.change for run in runs]):
        assert errors(np.sum(tables, axis=0))[0] < 0.05
