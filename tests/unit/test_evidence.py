"""Standard errors of evidences: against enumeration, and how often intervals hold the truth."""

import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import kstest

from streamddcrp import (
    DDCRPSampler,
    GraphCRP,
    GroupDP,
    SeqDDCRP,
    TemporalDPM,
    TimeVaryingIBP,
    count_regimes,
    estimate_evidence,
    similarity_matrix,
)
from streamddcrp.data.graphs import from_parents
from streamddcrp.decay import make_decay
from streamddcrp.errors import ConfigError
from streamddcrp.likelihoods import NormalGamma
from tests.oracles import graph_crp as oracle
from tests.oracles.enumeration import enumerate_recall
from tests.unit.test_ddcrp_filter import ALPHA, NIG, X, enumerated, log_marginal
from tests.unit.test_graph_crp import LOG_Z, PRIOR
from tests.unit.test_graph_crp import X as ITEMS
from tests.unit.test_graph_crp_prior import canonical

LEVEL = 0.95
CASES = {
    "ddcrp": (
        DDCRPSampler(
            likelihood=NIG, alpha=ALPHA, decay=("exponential", 2.0), n_particles=4, warmup=1
        ),
        X,
        -8.9725801090,
    ),
    "graph": (
        GraphCRP(likelihood=PRIOR, window=2, alpha=0.8, n_particles=4),
        ITEMS,
        LOG_Z["window"],
    ),
}


def test_the_truth_is_that_of_the_enumeration():
    truth = enumerated(("exponential", 2.0)).log_evidence
    assert truth == pytest.approx(CASES["ddcrp"][2], abs=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_intervals_hold_the_enumerated_evidence(name):
    """Within four binomial standard errors of 95 % of 300; errors are the spread of estimates."""
    model, rows, truth = CASES[name]
    found = [estimate_evidence(model, rows, seed=seed) for seed in range(300)]
    hits = np.mean([low < truth < high for low, high in (one.interval(LEVEL) for one in found)])
    assert abs(hits - LEVEL) < 4.0 * math.sqrt(LEVEL * (1.0 - LEVEL) / len(found))
    values = np.array([one.log_evidence for one in found])
    spread, errors = values.std(ddof=1), np.sqrt(np.mean([one.error**2 for one in found]))
    # a standard deviation of n values is off by 1 / sqrt(2 n) of itself, errors of ten runs by more
    assert spread == pytest.approx(errors, rel=4.0 / math.sqrt(len(found)))


def test_every_particle_model_has_one():
    rows = np.random.default_rng(0).normal(size=(30, 2))
    rows[15:] += 6.0
    for model, side in (
        (DDCRPSampler(n_particles=3, warmup=10), {"t": np.arange(30.0)}),
        (GraphCRP(n_particles=3, warmup=10), {}),
        (GroupDP(n_particles=3, warmup=10), {"group": list("ab" * 15)}),
        (TimeVaryingIBP(n_particles=3, warmup=10), {}),
    ):
        found, again = (estimate_evidence(model, rows, n_runs=3, **side) for _ in range(2))
        np.testing.assert_array_equal(found.runs, again.runs)
        assert model.n_seen == 0
        assert 0.0 < found.error < 2.0
        low, high = found.interval()
        assert low < found.log_evidence < high


def test_the_number_of_tables_is_that_of_the_enumeration():
    decay = ("exponential", 2.0)
    model = DDCRPSampler(likelihood=NIG, alpha=ALPHA, decay=decay, n_particles=4000, warmup=1)
    assert model.n_tables_probs.tolist() == [1.0]
    model.learn_many(X)
    truth = np.r_[0.0, enumerated(decay).n_tables_probs]
    np.testing.assert_allclose(model.n_tables_probs, truth[: len(model.n_tables_probs)], atol=0.03)
    again = DDCRPSampler.from_bytes(model.to_bytes())
    np.testing.assert_array_equal(again.n_tables_probs, model.n_tables_probs)


@pytest.mark.parametrize("gamma", [math.inf, 0.4])
@pytest.mark.parametrize("decay", [("exponential", 2.0), "none", ("window", 2)])
def test_the_gap_of_the_bound(decay, gamma):
    if gamma < math.inf:
        weight = make_decay(decay).weight(np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0))))
        log_z, n_tables = enumerate_recall(weight, ALPHA, gamma, log_marginal(NIG, X))
    else:
        truth = enumerated(decay)
        log_z, n_tables = truth.log_evidence, np.r_[0.0, truth.n_tables_probs]
    model = SeqDDCRP(
        likelihood=NIG, alpha=ALPHA, decay=decay, gamma=gamma, recall=gamma < math.inf,
        learn_prior=False, memory=math.inf,
    )  # fmt: skip
    found = estimate_evidence(model, X)
    assert model.n_seen == 0
    model.learn_many(X)
    assert found.bound == model.bound < log_z
    assert found.log_evidence == pytest.approx(log_z, abs=4.0 * found.error)
    assert found.gap == pytest.approx(log_z - model.bound, abs=4.0 * found.error)
    # of 1,000 particles: five standard errors of a share near one half, half of them effective
    for p, near in ((found.n_tables_probs, 0.06), (count_regimes(model, least=1), 0.11)):
        np.testing.assert_allclose(p, n_tables[: len(p)], atol=near)


@pytest.mark.parametrize("gamma", [0.7, 3.0])
def test_a_forecast_weighs_atoms_by_the_urn(gamma):
    """The density of the next row is the ratio of two evidences, where openings are certain."""
    prior, weight = NormalGamma(0.0, 1e-3, 20.0, 2.0), np.tril(np.tri(7) - np.tri(7, k=-2), -1)
    rows = np.array([0.0, 50.0, 0.1, -60.0, 50.2, 90.0])[:, None]

    def log_evidence(X):
        n = len(X)
        return enumerate_recall(weight[:n, :n], ALPHA, gamma, log_marginal(prior, X))[0]

    model = SeqDDCRP(
        likelihood=prior, alpha=ALPHA, decay=("window", 2), gamma=gamma, learn_prior=False,
        memory=math.inf,
    )  # fmt: skip
    model.learn_many(rows)
    for x, near in ((-60.0, 1e-9), (300.0, 1e-9), (0.05, 0.03)):  # an old atom, a new one
        truth = log_evidence(rows) - log_evidence(np.append(rows, [[x]], axis=0))
        assert model.score_one({0: x}) == pytest.approx(truth, abs=near)


def test_the_number_of_regimes_is_right_as_often_as_it_says():
    """Of streams of the model: ranks of the true number are uniform, and the best one as sure."""
    rng, ranks, said, right = np.random.default_rng(3), [], [], []
    prior = NormalGamma(0.0, 0.1, 4.0, 3.0)
    options = {"alpha": 0.3, "gamma": 2.0, "decay": ("exponential", 8.0)}
    for _ in range(80):
        X, truth = recalled(rng, 120, 2, prior, 0.3, 2.0, 8.0)
        model = SeqDDCRP(likelihood=prior, learn_prior=False, memory=math.inf, **options)
        model.learn_many(X)
        p = np.append(count_regimes(model, least=3), np.zeros(20))
        assert p.sum() == pytest.approx(1.0)
        n = int((np.bincount(truth) >= 3).sum())
        ranks.append(p[:n].sum() + rng.random() * p[n])
        said.append(p.max())
        right.append(p.argmax() == n)
    assert kstest(ranks, "uniform").pvalue > 1e-3
    spread = math.sqrt(np.mean(np.multiply(said, np.subtract(1.0, said))) / len(said))
    assert abs(np.mean(said) - np.mean(right)) < 3.0 * spread
    assert np.mean(said) < 0.95  # clusters overlap: nobody can be sure


def recalled(rng, n, d, prior, alpha, gamma, reach):
    """Draw rows (n, d) and their tables from the model with recall."""
    none, mass = np.zeros(prior.n_stats(d)), np.zeros(0)
    openings, labels, rows = [], [], []
    for _ in range(n):
        mass = mass * math.exp(-1.0 / reach)
        if rng.random() * (alpha + mass.sum()) < alpha:
            share = np.array([*openings, gamma])
            k = int(rng.choice(len(share), p=share / share.sum()))
            if k == len(openings):
                openings.append(0)
                rows.append(prior.sample(rng, none, size=n))
                mass = np.append(mass, 0.0)
            openings[k] += 1
        else:
            k = int(rng.choice(len(mass), p=mass / mass.sum()))
        mass[k] += 1.0
        labels.append(k)
    return np.array([rows[k][i] for i, k in enumerate(labels)]), np.array(labels)


def test_refusals():
    with pytest.raises(ConfigError, match="learn_prior=False"):
        estimate_evidence(SeqDDCRP(), X)
    with pytest.raises(ConfigError, match="SeqDDCRP, got GraphCRP"):
        count_regimes(GraphCRP())
    assert count_regimes(SeqDDCRP()).tolist() == [1.0]
    with pytest.raises(ConfigError, match="no particles"):
        estimate_evidence(TemporalDPM(), X)
    with pytest.raises(ConfigError, match="n_runs"):
        estimate_evidence(GraphCRP(), X, n_runs=1)
    with pytest.raises(ConfigError, match="level"):
        estimate_evidence(CASES["graph"][0], ITEMS, n_runs=2).interval(1.0)


def test_partitions_of_particles_follow_the_posterior():
    """Of `GraphCRP` all partitions fit; of the filter 4,000 particles leave an error of 1 %."""
    n_draws = 20_000
    model = GraphCRP(likelihood=PRIOR, window=6, alpha=0.8, n_particles=400)
    assert model.partitions(3).shape == (3, 0)
    model.learn_many(ITEMS)
    drawn = model.partitions(n_draws, seed=1)
    np.testing.assert_array_equal(drawn, model.partitions(n_draws, seed=1))
    graph = from_parents(oracle.window(6, 6))
    found, p, _ = oracle.posterior(
        ITEMS, oracle.window(6, 6), graph.cliques, graph.separators, 0.8, PRIOR
    )
    seen = Counter(canonical(row) for row in drawn.tolist())
    error = np.sqrt(p * (1.0 - p) / n_draws)
    shares = np.array([seen[partition] / n_draws for partition in found])
    assert (np.abs(shares - p) < 5.0 * error + 1e-12).all()
    decay = ("window", 9)
    model = DDCRPSampler(likelihood=NIG, alpha=ALPHA, decay=decay, n_particles=4000, warmup=1)
    model.learn_many(X)
    together = similarity_matrix(model.partitions(n_draws))
    np.testing.assert_allclose(together, enumerated(decay).together, atol=0.03)
