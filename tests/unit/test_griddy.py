"""Griddy Gibbs for alpha and the decay's parameter against enumeration (specification, O8)."""

from itertools import product

import numpy as np
import pytest

from streamddcrp.decay import make_decay
from streamddcrp.errors import ConfigError
from streamddcrp.likelihoods import NormalGamma
from streamddcrp.models.ddcrp.chain import Chain
from streamddcrp.models.ddcrp.distances import Distances
from streamddcrp.models.ddcrp.sampler import Griddy, HyperGrid, sample_ddcrp
from tests.oracles.enumeration import enumerate_links
from tests.oracles.sampling import (
    affordable,
    least_effective_size,
    total_variation,
    total_variation_bound,
)

X5 = np.array([0.3, -1.2, 0.5, 2.0, -0.9])[:, None]
NIG = NormalGamma(0.0, 0.5, 2.0, 1.0)
EXPONENTIAL = [
    [0.087180124, 0.1251343023, 0.1628757094],
    [0.0763314801, 0.1058833859, 0.1409814415],
    [0.072121654, 0.0983524724, 0.1311394304],
]
WINDOW = [[0.1043454436, 0.2170261526], [0.1112166291, 0.1986964578], [0.1321620744, 0.2365532425]]


def posterior(family, values, alphas, *, sequential):
    """p(a, alpha | x), flat prior, rows a: every vector of links at every value."""
    stats = NIG.suffstats(X5)
    log_p = np.empty((len(values), len(alphas)))
    for (i, a), (j, alpha) in product(enumerate(values), enumerate(alphas)):
        distances = Distances.by_index(5, sequential=sequential)
        log_p[i, j] = enumerate_links(
            distances.candidates((family, a), alpha).log_prior(),
            lambda m: float(NIG.log_marginal(stats[m].sum(0))[0]),
        ).log_evidence
    p = np.exp(log_p - log_p.max())
    return p / p.sum()


@pytest.mark.parametrize(
    ("family", "values", "alphas", "expected"),
    [
        ("exponential", (1.0, 2.0, 4.0), (0.3, 0.7, 1.5), EXPONENTIAL),
        ("window", (1.5, 2.5, 4.5), (0.3, 1.5), WINDOW),
        ("exponential", (1.0, 3.0), (0.3, 1.5), None),  # general
    ],
)
def test_values_are_drawn_from_their_posterior(family, values, alphas, expected):
    sequential = expected is not None
    exact = posterior(family, values, alphas, sequential=sequential)
    if sequential:
        np.testing.assert_allclose(exact, expected, atol=1e-9)
    samples = sample_ddcrp(
        X5, NIG, alpha=0.7, decay=(family, 2.0), sequential=sequential, n_sweeps=affordable(15_000),
        n_chains=1, hyper=HyperGrid(alphas, values), seed=0,
    )  # fmt: skip
    a = np.searchsorted(values, samples.decay_parameter)
    b = np.searchsorted(alphas, samples.alpha)
    cell = a * len(alphas) + b
    n_eff = least_effective_size([cell == k for k in range(exact.size)])
    assert n_eff > 0.06 * len(cell)
    counts = np.bincount(cell, minlength=exact.size)
    assert total_variation(counts, exact.ravel()) < total_variation_bound(exact.ravel(), n_eff)


def test_posterior_of_the_grid_with_irregular_times():
    """Rows of links that share no weights, against sums over all links, at a state."""
    t = np.array([0.0, 0.7, 0.9, 3.1, 3.2])
    distances, alphas, widths = Distances.by_time(t), (0.3, 1.5), (1.0, 2.0, 8.0)
    general = Distances.by_time(t, sequential=False)
    decay = make_decay(("exponential", 2.0))
    chain = Chain(NIG.prepare(X5)[0], NIG.family, NIG.hyper(1), distances.candidates(decay, 0.7))
    rng, n_tables = np.random.default_rng(3), set()
    for _ in range(30):
        chain.sweep(rng)
        links, labels = chain.links, chain.labels
        same = (labels[:, None] == labels) & np.tri(5, k=-1, dtype=bool)
        for where in (distances, general):  # given the tables, and given the links
            expected = np.empty((2, 3))
            for (a, alpha), (b, width) in product(enumerate(alphas), enumerate(widths)):
                candidates = where.candidates(("exponential", width), alpha)
                log_p = candidates.log_prior()
                own = links == np.arange(5)
                within = np.where(same, np.exp(log_p), 0.0).sum(axis=1)
                given = log_p[np.arange(5), links]
                chosen = np.log(within, where=~own, out=given.copy())
                expected[a, b] = (given if where is general else chosen).sum()
            grid = Griddy(HyperGrid(alphas, widths), where, decay, 0.7)
            found = grid.log_probs(chain)
            np.testing.assert_allclose(
                found - found[0, 0], expected - expected[0, 0], rtol=1e-10, atol=1e-10
            )
        n_tables.add(chain.n_tables)
    assert len(n_tables) > 2


def test_the_chain_starts_at_the_grid_values_nearest_to_those_given():
    grid, distances = HyperGrid((0.2, 0.9, 4.0), (1.0, 3.0, 9.0)), Distances.by_index(5)
    candidates, alpha, scale = Griddy(grid, distances, make_decay(("exponential", 2.5)), 1.1).start
    assert (alpha, scale, candidates.alpha) == (0.9, 3.0, 0.9)
    expected = distances.candidates(("exponential", 3.0), 0.9)
    np.testing.assert_allclose(candidates.log_prior(), expected.log_prior(), rtol=1e-12)


def test_log_joint_is_at_the_values_of_the_draw():
    samples = sample_ddcrp(
        X5, NIG, alpha=0.7, decay=("logistic", 2.0), n_sweeps=50, n_chains=2, hyper="both", seed=1
    )
    stats = NIG.suffstats(X5)
    assert set(np.unique(samples.alpha)) <= set(0.7 * 2.0 ** np.arange(-4, 5))
    for s in range(len(samples)):
        decay = make_decay(("logistic", samples.decay_parameter[s]))
        log_prior = Distances.by_index(5).candidates(decay, samples.alpha[s]).log_prior()
        tables = [samples.labels[s] == k for k in set(samples.labels[s].tolist())]
        marginal = NIG.log_marginal(np.array([stats[m].sum(0) for m in tables])).sum()
        log_joint = log_prior[np.arange(5), samples.links[s]].sum() + marginal
        assert samples.log_joint[s] == pytest.approx(log_joint, rel=1e-12)


def test_a_window_given_its_links_never_shrinks_below_the_longest():
    samples = sample_ddcrp(
        X5, NIG, alpha=0.7, decay=("window", 4.5), n_sweeps=500, n_chains=1, sequential=False,
        hyper=HyperGrid(decay=(1.5, 2.5, 4.5)), seed=2,
    )  # fmt: skip
    longest = np.abs(np.arange(5) - samples.links).max(axis=1)
    assert (longest < samples.decay_parameter).all()
    assert len(np.unique(samples.decay_parameter)) == 3


@pytest.mark.parametrize(
    ("hyper", "options", "words"),
    [
        ("scale", {}, "hyper"),
        ("both", {"decay": "none"}, "no positive parameter"),
        (HyperGrid(decay=(1.0, 2.0)), {"decay": lambda d: 1.0 / (1.0 + d)}, "no parameter"),
        (HyperGrid(decay=(-1.0, 2.0)), {}, "scale"),
    ],
)
def test_bad_grids_are_named(hyper, options, words):
    arguments = {"alpha": 0.5, "decay": ("exponential", 2.0), "n_sweeps": 1} | options
    with pytest.raises(ConfigError, match=words):
        sample_ddcrp(X5, NIG, hyper=hyper, **arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "needs values"),
        ({"alpha": ()}, "alpha has no values"),
        ({"alpha": (0.0,)}, "alpha"),
        ({"decay": (float("nan"),)}, "decay"),
    ],
)
def test_bad_grid_values_are_named(arguments, words):
    with pytest.raises(ConfigError, match=words):
        HyperGrid(**arguments)
