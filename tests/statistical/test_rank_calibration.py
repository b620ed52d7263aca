"""Simulation-based calibration: the truth ranks anywhere among draws from the posterior.

Rows are drawn from the model itself, so what they were drawn with is one more draw from the
posterior given them. Its rank among others is uniform; equal values are put in order at random.
So is the place of the next row in its forecast, the integral of exp(-score) up to it.
"""

import math

import numpy as np
import pytest
from scipy.stats import chisquare

from benchmarks.calibration import errors, measure
from streamddcrp import DDCRPSampler, GraphCRP, GroupDP, SeqDDCRP, TemporalDPM, TimeVaryingIBP
from streamddcrp.decay import Exponential, Window
from streamddcrp.estimator.particle_model import PartitionModel
from streamddcrp.likelihoods import NormalGamma
from tests.unit.test_evidence import recalled

FAMILY = NormalGamma(0.0, 0.1, 4.0, 3.0)
NONE = np.zeros(FAMILY.n_stats(1))
N, ALPHA, REACH = 10, 0.8, 3.0
DRAWS, SETS = 19, 400
PLAIN = {"likelihood": FAMILY, "alpha": ALPHA}
PARTICLES = {"n_particles": 200, "warmup": 1}
EXPONENTIAL = {"decay": ("exponential", REACH), **PLAIN}
NOISE, LOADING = 0.6, 1.5  # standard deviations, where rows are sums of features
MODELS = {
    "links": DDCRPSampler(decay=Exponential(REACH) * Window(N + 2.0), **PARTICLES, **PLAIN),
    "graph": GraphCRP(window=N + 1, **PARTICLES, **PLAIN),
    "groups": GroupDP(n_shared=3, **PARTICLES, **PLAIN),
    "recall": DDCRPSampler(gamma=1.5, **PARTICLES, **EXPONENTIAL),
    "epoch": TemporalDPM(decay=("exponential", 1.0), warmup=1, **PLAIN),
    "features": TimeVaryingIBP(
        window=N + 1,
        alpha=ALPHA,
        sigma_x=NOISE,
        sigma_y=LOADING,
        baseline=False,
        moves=5,
        **PARTICLES,
    ),
    "stream": SeqDDCRP(recall=False, learn_prior=False, memory=math.inf, **EXPONENTIAL),
}
GRID = np.sinh(np.linspace(-4.8, 4.8, 161))


def tables(rng, weights):
    """Return tables (n,): item i joins that of j < i by ``weights[i][j]``, a new one by alpha."""
    labels = np.arange(len(weights))
    for i, seen in enumerate(weights):
        weight = np.append(seen[:i], ALPHA)
        labels[i] = labels[rng.choice(i + 1, p=weight / weight.sum())]
    return labels


def drawn(rng, name):
    """Return N rows, their tables, and one row more."""
    index = np.arange(N + 1)
    if name == "features":
        on = features(rng)
        x = on @ rng.normal(0.0, LOADING, on.shape[1]) + rng.normal(0.0, NOISE, N + 1)
        return x[:N, None], index[:N], x[N]
    if name == "recall":
        X, labels = recalled(rng, N + 1, 1, FAMILY, ALPHA, 1.5, REACH)
        return X[:N], labels[:N], X[N, 0]
    if name == "groups":  # three items before them that all rows see, and the rows of their group
        sees = np.ones((N + 4, N + 4))
        sees[3:, 3:] = index[:, None] % 2 == index % 2
    else:
        gap = np.abs(index[:, None] - index)
        sees = np.exp(-gap / REACH) if name in {"links", "stream"} else np.ones((N + 1, N + 1))
    labels = tables(rng, sees)[-N - 1 :]
    at_table = {k: FAMILY.sample(rng, NONE, size=N + 1) for k in np.unique(labels)}
    X = np.array([at_table[k][i] for i, k in enumerate(labels)])
    return X[:N], labels[:N], X[N, 0]


def features(rng):
    """Return which features (N + 1, K) of an Indian buffet are on in each row."""
    on = np.zeros((N + 1, 0))
    for i in range(N + 1):
        on[i] = rng.random(on.shape[1]) < on.sum(axis=0) / (i + 1)
        new = np.zeros((N + 1, rng.poisson(ALPHA / (i + 1))))
        new[i] = 1.0
        on = np.hstack([on, new])
    return on


def functions(labels):
    """Of a partition: how many tables, pairs together, rows at the last one's table."""
    together = labels[:, None] == labels
    return [len(np.unique(labels)), together.sum(), together[-1].sum()]


def ranks(name):
    """Return ranks, 0 to `DRAWS`, of the truth in each set of rows, for each function."""
    rng, found = np.random.default_rng(5), []
    for seed in range(SETS):
        X, labels, after = drawn(rng, name)
        side = {"group": (np.arange(N) % 2).tolist()} if name == "groups" else {}
        one = {"group": N % 2} if side else {}
        seeds = {} if name in {"stream", "epoch"} else {"seed": seed}
        model = MODELS[name].clone(seeds)
        for row in X if name == "epoch" else ():  # one by one they join the open epoch
            model.learn_one({0: row[0]})
        if name != "epoch":
            model.learn_many(X, **side)
        density = [math.exp(-model.score_one({0: x}, **one)) for x in GRID]
        below = np.append(0.0, np.cumsum(np.diff(GRID) * np.convolve(density, [0.5, 0.5], "valid")))
        assert below[-1] == pytest.approx(1.0, abs=0.04)  # features are drawn, and thinned
        mine = [int((DRAWS + 1) * np.interp(after, GRID, below / (below[-1] + 1e-9)))]
        if isinstance(model, PartitionModel) and name != "recall":  # whose particles keep no rows
            draws = model.partitions(DRAWS, seed=seed)
            assert draws.shape == (DRAWS, N)
            values, truth = np.array([functions(row) for row in draws]), functions(labels)
            ties = rng.integers(0, (values == truth).sum(axis=0) + 1)
            mine += ((values < truth).sum(axis=0) + ties).tolist()
        found.append(mine)
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_truth_is_one_more_draw_from_the_posterior(name):
    for of_function in ranks(name).T:
        bins = np.bincount(of_function // 2, minlength=(DRAWS + 1) // 2)
        assert chisquare(bins).pvalue > 1e-3


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
