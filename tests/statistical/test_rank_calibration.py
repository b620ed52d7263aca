"""Simulation-based calibration: the truth ranks anywhere among draws from the posterior."""

import math
from functools import partial

import numpy as np
import pytest

from benchmarks.calibration import DRAWS, errors, measure
from streamddcrp import (
    DDCRPSampler,
    GraphCRP,
    GroupDP,
    SeqDDCRP,
    TemporalDPM,
    TimeVaryingIBP,
    calibrate,
    sample_ddcrp,
    sample_graph_crp,
    sample_graph_ibp,
    sample_group_dp,
    sample_temporal_dpm,
)
from streamddcrp.decay import Exponential, Window
from streamddcrp.likelihoods import DirichletMultinomial, GammaPoisson, NormalWishart

N, ALPHA, REACH = 10, 0.8, 3.0
PLAIN = {"likelihood": ("normal_gamma", 0.0, 0.1, 4.0, 3.0), "alpha": ALPHA}
PARTICLES = {"n_particles": 200, "warmup": 1}
EXPONENTIAL = {"decay": ("exponential", REACH), **PLAIN}
FIXED = {"learn_prior": False, "memory": math.inf}
KITE = [[], [0], [0, 1], [1, 2], [1, 2], [3], [3, 5], [5, 6], [5, 6], [8]]
MODELS = {
    "links": DDCRPSampler(decay=Exponential(REACH) * Window(N + 2.0), **PARTICLES, **PLAIN),
    "recall": DDCRPSampler(gamma=1.5, **PARTICLES, **EXPONENTIAL),
    "graph": GraphCRP(window=4, **PARTICLES, **PLAIN | {"alpha": ("gamma", 2.0, 2.0)}),
    "counts": GraphCRP(window=N, **PARTICLES, **PLAIN | {"likelihood": GammaPoisson(3.0, 0.2)}),
    "groups": GroupDP(n_shared=3, **PARTICLES, **PLAIN),
    "layers": GroupDP(n_shared=(3, 2), **PARTICLES, **PLAIN),
    "epoch": TemporalDPM(decay=("exponential", 1.0), warmup=1, **PLAIN),
    "features": TimeVaryingIBP(
        window=N + 1, alpha=ALPHA, sigma_x=0.6, sigma_y=1.5, baseline=False, moves=5, **PARTICLES
    ),
    "stream": SeqDDCRP(recall=False, **FIXED, **EXPONENTIAL),
    "stream recall": SeqDDCRP(**FIXED, **EXPONENTIAL),
    "sample links": partial(sample_ddcrp, hyper="both", **EXPONENTIAL),
    "sample cycles": partial(
        sample_ddcrp,
        sequential=False,
        **EXPONENTIAL | {"likelihood": NormalWishart([0.0, 1.0], 0.1, np.eye(2).tolist(), 5.0)},
    ),
    "sample words": partial(
        sample_graph_crp, parents=KITE, likelihood=DirichletMultinomial(0.3, 4)
    ),
    "sample groups": partial(sample_group_dp, n_shared=3, **PLAIN),
    "sample epoch": partial(sample_temporal_dpm, learn_scales=False, **EXPONENTIAL),
    "sample features": partial(sample_graph_ibp, graph=KITE),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_truth_is_one_more_draw_from_the_posterior(name):
    assert calibrate(MODELS[name], n_rows=N, n_simulations=200, seed=5).p_value > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["links", "counts", "groups", "stream", "sample groups"])
def test_a_wrong_prior_is_found(name):
    """Rows come from twice the alpha that the model is told."""
    model, twice = MODELS[name], {"alpha": 2.0 * ALPHA}
    truth = partial(model, **twice) if isinstance(model, partial) else model.clone(twice)
    assert calibrate(model, truth, n_rows=N, n_simulations=200, seed=5).p_value < 1e-3


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
