"""Simulation-based calibration: the truth ranks anywhere among draws from the posterior.

Rows are drawn from the model itself, so what they were drawn with is one more draw from the
posterior given them. Its rank among others is uniform; equal values are put in order at random.
"""

import math

import numpy as np
import pytest
from scipy.stats import chisquare

from benchmarks.calibration import measure
from streamddcrp import DDCRPSampler, GraphCRP, SeqDDCRP
from streamddcrp.likelihoods import NormalGamma

FAMILY = NormalGamma(0.0, 0.1, 4.0, 3.0)
NONE = np.zeros(FAMILY.n_stats(1))
N, ALPHA, REACH = 10, 0.8, 3.0
DRAWS, SETS = 19, 400
PLAIN = {"likelihood": FAMILY, "alpha": ALPHA}
PARTICLES = {"n_particles": 200, "warmup": 1}
MODELS = {
    "links": DDCRPSampler(decay=("exponential", REACH), rejuvenate=N + 1, **PARTICLES, **PLAIN),
    "graph": GraphCRP(window=N + 1, **PARTICLES, **PLAIN),
    "stream": SeqDDCRP(
        decay=("exponential", REACH), recall=False, learn_prior=False, memory=math.inf, **PLAIN
    ),
}


def drawn(rng, reach):
    """Return rows, their tables, by links that fall off with the gap, and one row more."""
    labels = np.arange(N)
    for i in range(1, N):
        weight = np.append(np.exp(-np.arange(i, 0, -1.0) / reach), ALPHA)
        links = rng.choice(i + 1, p=weight / weight.sum())
        labels[i] = labels[links]
    at_table = {k: FAMILY.sample(rng, NONE, size=N + 1) for k in np.unique(labels)}
    X = np.array([at_table[k][i] for i, k in enumerate(labels)])
    return X, labels, at_table[labels[-1]][N, 0]


def functions(labels, after):
    """Of a partition, and of another row of the last one's table."""
    together = labels[:, None] == labels
    return [after, len(np.unique(labels)), together.sum(), together[-1].sum()]


def posterior(model, X, rng):
    """Return the functions of draws from the posterior."""
    rows = FAMILY.suffstats(X)
    if isinstance(model, SeqDDCRP):
        state = model._stream.state
        p = state.rows.probs[: state.n_tables, N - 1]
        tables = rng.choice(len(p), DRAWS, p=p / p.sum())
        return [[FAMILY.sample(rng, state.table.stats[k])[0]] for k in tables]
    draws = model.partitions(DRAWS, seed=int(rng.integers(1 << 30)))
    assert draws.shape == (DRAWS, N)
    return [
        functions(labels, FAMILY.sample(rng, rows[labels == labels[-1]].sum(axis=0))[0])
        for labels in draws
    ]


def ranks(name):
    """Return the rank of the truth in each set of rows, for each function."""
    rng, found = np.random.default_rng(5), []
    for seed in range(SETS):
        X, labels, after = drawn(rng, math.inf if name == "graph" else REACH)
        more = {} if name == "stream" else {"seed": seed}
        model = MODELS[name].clone(more)
        model.learn_many(X)
        draws = np.array(posterior(model, X, rng))
        truth = np.array(functions(labels, after))[: draws.shape[1]]
        above = (draws < truth).sum(axis=0)
        found.append(above + rng.integers(0, (draws == truth).sum(axis=0) + 1))
    return np.array(found)


@pytest.mark.parametrize("name", MODELS)
def test_the_truth_is_one_more_draw_from_the_posterior(name):
    for of_function in ranks(name).T:
        bins = np.bincount(of_function // 2, minlength=(DRAWS + 1) // 2)
        assert chisquare(bins).pvalue > 1e-3


@pytest.mark.parametrize("stream", ["regime-2k", "r3-seq", "r3-shuf", "r5-shuf"])
def test_scores_and_labels_of_streams_are_calibrated(stream):
    """Ranks are uniform, Kolmogorov's test at 1e-3; labels are right as often as they say."""
    runs = [measure(stream, seed, {}) for seed in (700, 701)]
    n = np.bincount(np.concatenate([run.ranks for run in runs]), minlength=DRAWS + 1)
    far = np.abs(np.cumsum(n) / n.sum() - np.arange(1, DRAWS + 2) / (DRAWS + 1)).max()
    assert far < 1.95 / math.sqrt(n.sum())
    rows, said, right = np.sum([run.table for run in runs], axis=0).sum(axis=0)
    assert abs(said - right) / rows < 0.03
