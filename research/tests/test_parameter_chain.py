"""Chains that carry parameters: their links follow the posterior that enumeration gives."""

import numpy as np
import pytest

from research.parameter_chain import ParameterChain
from streamddcrp.errors import ConfigError
from streamddcrp.likelihoods import DirichletMultinomial, NormalGamma, NormalWishart
from streamddcrp.models.ddcrp.distances import Distances
from streamddcrp.partitions import labels_of_links
from tests.oracles.enumeration import enumerate_links
from tests.oracles.sampling import (
    effective_size,
    exact_links,
    least_effective_size,
    total_variation,
    total_variation_bound,
)

X5 = np.array([0.3, -1.2, 0.5, 2.0, -0.9])[:, None]
NIG = NormalGamma(0.0, 0.5, 2.0, 1.0)
KNOWN = NormalGamma(0.0, 0.25, 1e7, 1e7)  # precision 1 as good as known
VARIANTS = [("per-customer", 1), ("auxiliary", 1), ("auxiliary", 3), ("partial", 1)]


def log_marginal_of(family, X):
    stats = family.suffstats(X)
    return lambda i: float(family.log_marginal(stats[list(i)].sum(axis=0))[0])


def run(family, X, candidates, variant, n_draws, seed=0):
    rng = np.random.default_rng(seed)
    chain = ParameterChain(X, family.family, family.hyper(X.shape[1]), candidates, *variant)
    chain.sweep(rng, 50)
    n = len(X)
    links, labels = np.empty((n_draws, n), np.int32), np.empty((n_draws, n), np.int32)
    n_tables, log_joint = np.empty(n_draws, np.int64), np.empty(n_draws)
    chain.draw(rng, 1, links, labels, n_tables, log_joint)
    return chain, links, labels, n_tables, log_joint


def check_expected_n_tables(candidates, X, variant, known):
    exact = enumerate_links(candidates.log_prior(), log_marginal_of(KNOWN, X)).expected_n_tables
    assert exact == pytest.approx(known, abs=6e-6)
    *_, n_tables, _ = run(KNOWN, X, candidates, variant, 60_000)
    error = n_tables.std() / np.sqrt(effective_size(n_tables))
    assert error < 0.02
    assert abs(n_tables.mean() - exact) < 4 * error


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_number_of_tables_sequential(variant):
    candidates = Distances.by_index(5).candidates(("exponential", 2.0), 0.7)
    check_expected_n_tables(candidates, X5, variant, 2.68518)


@pytest.mark.parametrize("variant", VARIANTS[1:], ids=str)
def test_number_of_tables_general(variant):
    candidates = Distances.by_index(4, sequential=False).candidates(("exponential", 2.0), 0.7)
    check_expected_n_tables(candidates, X5[:4], variant, 1.83491)


def check_links(family, X, candidates, variant, n_draws=40_000):
    place, probs = exact_links(candidates.log_prior(), log_marginal_of(family, X))
    _, links, labels, n_tables, log_joint = run(family, X, candidates, variant, n_draws)
    n = len(X)
    traces = [links[:, i] == j for i in range(n) for j in range(n)]
    n_eff = least_effective_size([log_joint, n_tables, *traces])
    assert n_eff > 0.01 * n_draws
    counts = np.bincount([place[tuple(row)] for row in links.tolist()], minlength=len(probs))
    assert total_variation(counts, probs) < total_variation_bound(probs, n_eff)
    np.testing.assert_array_equal(labels, labels_of_links(links))


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_links_sequential(variant):
    candidates = Distances.by_index(5).candidates(("exponential", 2.0), 0.7)
    check_links(NIG, X5, candidates, variant)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_links_at_irregular_times(variant):
    """Another layout of candidates, and categories."""
    candidates = Distances.by_time([0, 0.4, 0.4, 3, 3.1]).candidates(("logistic", 1.5), 0.7)
    check_links(DirichletMultinomial(0.5, 3), np.eye(3)[[0, 1, 0, 2, 0]], candidates, variant)


@pytest.mark.parametrize("variant", VARIANTS[1:], ids=str)
def test_links_general(variant):
    candidates = Distances.by_index(4, sequential=False).candidates(("exponential", 2.0), 0.7)
    check_links(NIG, X5[:4], candidates, variant)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_state_stays_consistent(variant):
    """Many tables come and go; parameters belong to tables, joints to the links."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 2)) + 6.0 * (np.arange(60) // 20 % 2)[:, None]
    family = NormalWishart([3.0, 3.0], 0.1, np.eye(2), 4.0)
    candidates = Distances.by_index(60).candidates(("exponential", 5.0), 0.5)
    chain, links, _, n_tables, log_joint = run(family, X, candidates, variant, 300)
    label, log_prior = chain.labels, candidates.log_prior()
    assert chain.n_tables == n_tables[-1] == len(set(label))
    expected = sum(log_prior[i, links[-1, i]] for i in range(60))
    for k in set(label):
        expected += log_marginal_of(family, X)(np.flatnonzero(label == k))
        assert (chain.parameters[label == k] == chain.parameters[k]).all()
    assert chain.log_joint == pytest.approx(expected, abs=1e-8)
    assert log_joint[-1] == pytest.approx(expected, abs=1e-8)
    fit = (chain.parameters * family.suffstats(X)).sum(axis=1)  # log p(x_i | theta)
    assert -6.0 < fit.mean() < -1.5  # entropy of two unit Gaussians: 2.84


def test_parameters_given_one_table_are_from_its_posterior():
    """Two customers, bound to each other as good as surely: mean eta by its closed form."""
    from streamddcrp.likelihoods.kernels import families

    candidates = Distances.by_index(2).candidates("none", 1e-9)
    hyper = NIG.hyper(1)
    chain = ParameterChain(X5[:2], NIG.family, hyper, candidates, "per-customer")
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(4000):
        chain.sweep(rng)
        if chain.n_tables == 1:
            drawn.append(chain.parameters[0])
    post, expected = np.empty(int(families.n_post(NIG.family, hyper))), np.empty(4)
    stats = NIG.suffstats(X5[:2]).sum(axis=0)
    families.posterior(NIG.family, hyper, stats, post)
    families.natural_parameters(NIG.family, hyper, post, expected)
    error = np.std(drawn, axis=0) / np.sqrt(len(drawn))
    assert len(drawn) > 3000
    assert (np.abs(np.mean(drawn, axis=0) - expected) <= 4 * error).all()


def test_refusals():
    candidates = Distances.by_index(5, sequential=False).candidates("none", 1.0)
    args = X5, NIG.family, NIG.hyper(1), candidates
    with pytest.raises(ConfigError, match="parameters must be one of"):
        ParameterChain(*args, "all")
    with pytest.raises(ConfigError, match="earlier customers"):
        ParameterChain(*args, "per-customer")
    with pytest.raises(ConfigError, match="n_auxiliary"):
        ParameterChain(*args, "auxiliary", 0)
