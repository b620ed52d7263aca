"""Standard errors of evidences: against enumeration, and how often intervals hold the truth."""

import math
from collections import Counter

import numpy as np
import pytest

from streamddcrp import (
    DDCRPSampler,
    GraphCRP,
    GroupDP,
    SeqDDCRP,
    TemporalDPM,
    TimeVaryingIBP,
    estimate_evidence,
    similarity_matrix,
)
from streamddcrp.data.graphs import from_parents
from streamddcrp.errors import ConfigError
from tests.oracles import graph_crp as oracle
from tests.unit.test_ddcrp_filter import ALPHA, NIG, X, enumerated
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


@pytest.mark.parametrize("rejuvenate", [0, 3])
def test_the_number_of_tables_is_that_of_the_enumeration(rejuvenate):
    decay = ("exponential", 2.0)
    model = DDCRPSampler(
        likelihood=NIG, alpha=ALPHA, decay=decay, n_particles=4000, rejuvenate=rejuvenate, warmup=1
    )
    assert model.n_tables_probs.tolist() == [1.0]
    model.learn_many(X)
    truth = np.r_[0.0, enumerated(decay).n_tables_probs]
    np.testing.assert_allclose(model.n_tables_probs, truth[: len(model.n_tables_probs)], atol=0.03)
    again = DDCRPSampler.from_bytes(model.to_bytes())
    np.testing.assert_array_equal(again.n_tables_probs, model.n_tables_probs)


@pytest.mark.parametrize("decay", [("exponential", 2.0), "none"])
def test_the_gap_of_the_bound(decay):
    truth = enumerated(decay)
    model = SeqDDCRP(
        likelihood=NIG, alpha=ALPHA, decay=decay, recall=False, learn_prior=False, memory=math.inf
    )
    found = estimate_evidence(model, X)
    assert model.n_seen == 0
    model.learn_many(X)
    assert found.bound == model.bound < truth.log_evidence
    assert found.log_evidence == pytest.approx(truth.log_evidence, abs=4.0 * found.error)
    assert found.gap == pytest.approx(truth.log_evidence - model.bound, abs=4.0 * found.error)
    np.testing.assert_allclose(found.n_tables_probs, np.r_[0.0, truth.n_tables_probs], atol=0.06)


def test_refusals():
    with pytest.raises(ConfigError, match="recall=False, learn_prior=False"):
        estimate_evidence(SeqDDCRP(), X)
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
    lagged = DDCRPSampler(likelihood=NIG, n_particles=5, rejuvenate=3, warmup=1)
    lagged.learn_many(X)
    assert lagged.partitions(4).shape == (4, 2)  # of those that the next row may change, too
