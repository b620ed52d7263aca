"""The sampler against all link vectors of small data: total variation, evidences, moments."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp

from streamddcrp.likelihoods import DirichletMultinomial, GammaPoisson, NormalGamma
from streamddcrp.models.ddcrp.chain import Chain
from streamddcrp.models.ddcrp.distances import Distances
from tests.oracles.enumeration import enumerate_links
from tests.oracles.sampling import (
    COMPILED,
    affordable,
    exact_links,
    least_effective_size,
    total_variation,
    total_variation_bound,
)

ALPHA = 0.7
X5 = np.array([0.3, -1.2, 0.5, 2.0, -0.9])[:, None]
NIG = NormalGamma(0.0, 0.5, 2.0, 1.0)
KNOWN = NormalGamma(0.0, 0.25, 1e7, 1e7)  # precision 1 as good as known
FAMILIES = {
    "nig": (NIG, X5),
    "gkv": (KNOWN, X5),
    "dirichlet": (DirichletMultinomial(0.5, 3), np.eye(3)[[0, 1, 0, 2, 0]]),
    "poisson": (GammaPoisson(1.5, 0.8), np.array([2.0, 0, 3, 7, 1])[:, None]),
}
WORDS = np.array([[3.0, 0, 1], [2, 1, 0], [0, 2, 2], [0, 3, 1], [1, 0, 4]])
EDGES = np.array([(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)])
GRAPH = sp.coo_array((np.ones(5), EDGES.T), (5, 5))

# decay, sequential, family: log evidence, expected number of tables (specification, O3 and O4)
CASES = {
    (("exponential", 2.0), True, "nig"): (-8.9725801090, 3.0657676637),
    (("exponential", 2.0), False, "nig"): (-9.3261348598, 2.3228961843),
    (("exponential", 2.0), True, "gkv"): (-9.2993107204, 2.6851760918),
    (("exponential", 2.0), False, "gkv"): (-9.3507906512, 2.0018523967),
    (("window", 3.0), True, "dirichlet"): (-5.9400029336, 2.4556171207),
    (("window", 3.0), True, "poisson"): (-11.9347078622, 2.6875960810),
    (("window", 3.0), True, "gkv"): (-9.4117296016, 2.1907044675),
    (("window", 3.0), False, "dirichlet"): (-6.1617366678, 1.9545881771),
    (("window", 3.0), False, "poisson"): (-12.2918920127, 2.0921513432),
    (("window", 3.0), False, "gkv"): (-9.4646822981, 1.6920160154),
    (("logistic", 1.5), True, "dirichlet"): (-5.9288233192, 2.9049890773),
    (("logistic", 1.5), True, "poisson"): (-11.5794603546, 3.1316283457),
    (("logistic", 1.5), True, "gkv"): (-9.3257077003, 2.6906155114),
    (("logistic", 1.5), False, "dirichlet"): (-6.1499698538, 2.2275673102),
    (("logistic", 1.5), False, "poisson"): (-11.9718441645, 2.4568481806),
    (("logistic", 1.5), False, "gkv"): (-9.3811914868, 2.0214825931),
    (("linear_window", 3.0), True, "dirichlet"): (-5.9680788906, 2.9949709092),
    (("linear_window", 3.0), True, "poisson"): (-11.6376894001, 3.2560017325),
    (("linear_window", 3.0), True, "gkv"): (-9.4373756717, 2.7848903363),
    (("linear_window", 3.0), False, "dirichlet"): (-6.1758331374, 2.3835624796),
    (("linear_window", 3.0), False, "poisson"): (-11.9877823905, 2.6232279258),
    (("linear_window", 3.0), False, "gkv"): (-9.5059458041, 2.1777421916),
    ("none", True, "dirichlet"): (-5.9617405313, 2.2759259051),
    ("none", True, "poisson"): (-11.8004609147, 2.4651223147),
    ("none", True, "gkv"): (-9.2264096854, 2.0635317150),
    ("none", False, "dirichlet"): (-6.2142612287, 1.6813036991),
    ("none", False, "poisson"): (-12.2271381043, 1.8458755054),
    ("none", False, "gkv"): (-9.2839042178, 1.5169398276),
}


def log_marginal_of(family, X):
    stats = family.suffstats(X)

    @cache
    def of_members(members):
        return float(family.log_marginal(stats[list(members)].sum(0))[0])

    return lambda members: of_members(tuple(members))


def run(family, X, candidates, n_draws, seed=0):
    """Draws of one chain after each sweep: links, labels, number of tables, log joint."""
    rng = np.random.default_rng(seed)
    chain = Chain(X, family.family, family.hyper(X.shape[1]), candidates)
    chain.sweep(rng, 100)
    n = len(X)
    out = (
        np.empty((n_draws, n), np.int32), np.empty((n_draws, n), np.int32),
        np.empty(n_draws, np.int64), np.empty(n_draws),
    )  # fmt: skip
    chain.draw(rng, 1, *out)
    return out


def check_against_enumeration(family, X, candidates, n_draws=60_000):
    n, n_draws = len(X), affordable(n_draws)
    log_marginal = log_marginal_of(family, X)
    place, probs = exact_links(candidates.log_prior(), log_marginal)
    links, _, n_tables, log_joint = run(family, X, candidates, n_draws)
    traces = [links[:, i] == j for i in range(n) for j in range(n)]
    n_eff = least_effective_size([log_joint, n_tables, *traces])
    assert n_eff > 0.02 * n_draws
    counts = np.bincount([place[tuple(row)] for row in links.tolist()], minlength=len(probs))
    assert total_variation(counts, probs) < total_variation_bound(probs, n_eff)
    return enumerate_links(candidates.log_prior(), log_marginal)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_evidence_of_the_specification(case):
    decay, sequential, name = case
    family, X = FAMILIES[name]
    candidates = Distances.by_index(5, sequential=sequential).candidates(decay, ALPHA)
    exact = enumerate_links(candidates.log_prior(), log_marginal_of(family, X))
    evidence, n_tables = CASES[case]
    assert exact.log_evidence == pytest.approx(evidence, abs=2e-7 if name == "gkv" else 1e-9)
    assert exact.expected_n_tables == pytest.approx(n_tables, abs=2e-7 if name == "gkv" else 1e-9)


@pytest.mark.parametrize("case", [c for c in CASES if c[2] != "gkv"], ids=str)
def test_link_frequencies_are_those_of_the_posterior(case):
    decay, sequential, name = case
    candidates = Distances.by_index(5, sequential=sequential).candidates(decay, ALPHA)
    check_against_enumeration(*FAMILIES[name], candidates)


@pytest.mark.parametrize(
    ("family", "X", "width", "evidence", "n_tables"),
    [
        (DirichletMultinomial(0.5, 3), WORDS, 2.0, -22.4093972459, 3.0634165169),
        (DirichletMultinomial(0.5, 3), WORDS, 3.0, -23.3247132721, 2.6005585863),
        (NIG, X5, 2.0, -9.3759306271, 2.7520851028),
    ],
)
def test_network(family, X, width, evidence, n_tables):
    candidates = Distances.by_hops(GRAPH).candidates(("window", width), 1.0)
    exact = check_against_enumeration(family, X, candidates, 100_000)
    assert exact.log_evidence == pytest.approx(evidence, abs=1e-9)
    assert exact.expected_n_tables == pytest.approx(n_tables, abs=1e-9)


def test_irregular_times():
    t = [0.0, 0.4, 0.4, 3.0, 3.1]
    candidates = Distances.by_time(t).candidates(("exponential", 1.5), ALPHA)
    exact = enumerate_links(candidates.log_prior(), log_marginal_of(KNOWN, X5))
    assert exact.log_evidence == pytest.approx(-9.3100520382, abs=2e-7)
    assert exact.expected_n_tables == pytest.approx(2.7059084169, abs=2e-7)
    check_against_enumeration(NIG, X5, candidates)


def test_six_customers_with_an_asymmetric_matrix():
    rng = np.random.default_rng(3)
    D = rng.uniform(0.0, 3.0, (6, 6))
    D[rng.random((6, 6)) < 0.6] = np.inf
    X = rng.normal(size=(6, 2)) * 2.0
    candidates = Distances.by_matrix(D).candidates(("exponential", 1.0), 0.4)
    check_against_enumeration(NormalGamma(0.0, 0.2, 1.5, 1.0), X, candidates, 100_000)


@pytest.mark.skipif(not COMPILED, reason="50,000 sweeps are slow when not compiled")
def test_moments_of_the_general_posterior():
    candidates = Distances.by_index(5, sequential=False).candidates(("exponential", 2.0), ALPHA)
    links, labels, n_tables, _ = run(KNOWN, X5, candidates, 50_000)
    row = [0.289116098, 0.3104326037, 0.2096358636, 0.1144292348, 0.0763861999]
    together = [1, 0.689604498, 0.6686124715, 0.5277327495, 0.5550896472]
    counts = [0.3018052949, 0.4407097898, 0.2139475291, 0.040901996, 0.0026353902]
    np.testing.assert_allclose(np.bincount(links[:, 0], minlength=5) / 5e4, row, atol=0.01)
    np.testing.assert_allclose((labels == labels[:, :1]).mean(0), together, atol=0.01)
    np.testing.assert_allclose(np.bincount(n_tables)[1:] / 5e4, counts, atol=0.01)


@pytest.mark.parametrize(
    ("n", "alpha", "n_tables"), [(4, 0.7, 1.8602131543), (5, 1.3, 2.5067653855)]
)
def test_without_data_and_decay_partitions_follow_ewens(n, alpha, n_tables):
    """p(z) = alpha^K prod Gamma(n_k) Gamma(alpha) / Gamma(alpha + N)."""
    candidates = Distances.by_index(n).candidates("none", alpha)
    empty = np.ma.masked_all((n, 1)).filled(np.nan)
    n_draws = affordable(60_000)
    _, labels, counts, _ = run(NIG, empty, candidates, n_draws)
    found, freq = np.unique(labels, axis=0, return_counts=True)
    gamma = np.cumprod([1.0, 1.0, *range(2, n)])  # Gamma(1), Gamma(2), ...
    rising = np.prod(alpha + np.arange(n))
    sizes = [np.unique(row, return_counts=True)[1] for row in found]
    probs = np.array([alpha ** len(s) * np.prod(gamma[s - 1]) / rising for s in sizes])
    assert probs.sum() == pytest.approx(1.0)
    pairs = [labels[:, i] == labels[:, j] for i in range(n) for j in range(i)]
    n_eff = least_effective_size([counts, *pairs])
    assert total_variation(freq, probs) < total_variation_bound(probs, n_eff)
    exact = sum(p * len(s) for p, s in zip(probs, sizes, strict=True))
    assert exact == pytest.approx(n_tables, abs=1e-9)
