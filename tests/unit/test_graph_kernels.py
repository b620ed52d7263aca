"""Steps of the graph and the feature samplers by themselves, against enumeration and algebra."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from streamddcrp import TimeVaryingIBP
from streamddcrp.data.graphs import from_parents
from streamddcrp.models.features.kernels.arrival import _impute
from streamddcrp.models.features.kernels.slots import N_SUMS, SHAPE
from streamddcrp.models.graph.config import _discount
from streamddcrp.models.graph.kernels.revise import _prior_terms
from tests.oracles import graph_crp as oracle
from tests.oracles.plain import plain

LAWS = [{}, {"discount": 0.4}, {"n_clusters": 2}, {"n_clusters": 3}]
LAWS += [{"n_clusters": k, "whole_graph": True} for k in (2, 4)]


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize(("n", "r"), [(5, 1), (4, 2), (7, 2), (5, 3), (7, 3)])
def test_prior_of_an_item_given_the_others_is_that_of_the_enumeration(n, r, law):
    """Log prior of every table that item i may join, against that of a table of its own."""
    alpha, lag, compared = 0.7, r, 0
    R = r + lag + 1
    parents = oracle.window(n, r)
    graph = from_parents(parents)
    whole = "whole_graph" in law
    options = {name: value for name, value in law.items() if name != "whole_graph"}

    def log_prior(labels):
        prior = oracle.log_combination if law else oracle.log_prior
        prior = oracle.log_whole if whole else prior
        return prior(labels, parents, graph.cliques, graph.separators, alpha, **options)

    discount, most = _discount(law.get("discount", 0.0), law.get("n_clusters"), alpha)
    config = SimpleNamespace(
        r=r, alpha=alpha, discount=discount, n_clusters=most, whole_graph=whole
    )
    terms = plain(_prior_terms)
    for labels in oracle.partitions(n):
        if log_prior(labels) == -math.inf:
            continue
        K = max(labels) + 1
        ring = np.zeros((1, R), np.int32)
        for i in range(max(n - R, 0), n):
            ring[0, i % R] = labels[i]
        particles = SimpleNamespace(label=ring, n_tables=np.array([K]))
        for i in range(n - lag, n):
            log_count, opens = np.zeros(K), np.zeros(K, int)
            scratch = SimpleNamespace(near=np.zeros(K, int), log_count=log_count, opens=opens)
            others = [label for j, label in enumerate(labels) if j != i]
            n_tables = len(set(others))
            fresh = terms(config, particles, 0, i, n, n_tables, scratch)
            near_i = oracle.edges(parents)
            torn = not whole and any(
                not oracle.is_connected([j for j in range(n) if j != i and labels[j] == k], near_i)
                for k in set(others)
            )
            if torn:  # the table is torn without i, which then stays
                continue
            old = log_prior(labels)
            weights = log_count + (0.0 if law else opens * math.log(alpha))
            own = fresh + (0.0 if law else math.log(alpha))
            was = weights[labels[i]] if labels[i] in others else own
            for k in range(K + 1):
                there = log_prior((*labels[:i], k, *labels[i + 1 :]))
                if k == K or k in others:
                    found = (own if k == K else weights[k]) - was
                    # what was torn or not allowed has no weight
                    if there > -math.inf or (law and k == K):
                        assert found == pytest.approx(there - old, rel=1e-10, abs=1e-10)
                        compared += 1
    assert compared > 10


@pytest.mark.parametrize("known", [True, False])
def test_what_is_missing_is_drawn_from_its_law_given_the_rest(known):
    """N(fit, s / precision), or a Student t: precision ~ Gamma given the residuals of the rest."""
    rng = np.random.default_rng(0)
    K, D, on = 5, 4, np.array([0, 2, 3])
    half = rng.normal(size=(K, K))
    cov, mean, x = half @ half.T, rng.normal(size=(K, D)), rng.normal(size=D)
    seen = np.array([1.0, 0.0, 1.0, 0.0])
    sums = np.zeros(N_SUMS)
    sums[SHAPE] = 0.0 if known else 3.5
    z, g, rate, shapes = rng.normal(size=D), 2.75, 1.25, []

    def gamma(shape, *_):
        shapes.append(shape)
        return g

    work = SimpleNamespace(filled=np.where(seen > 0.0, x, 99.0), on=on)
    draw = plain(_impute, normal=lambda _seed, _t, _i, _what, d: z[d], gamma=gamma)
    particles = SimpleNamespace(cov=[cov], mean=[mean], rate=[rate])
    state = SimpleNamespace(particles=particles, sums=sums, scratch=work)
    draw(SimpleNamespace(seed=0), state, 0, 7, seen, 2, len(on))
    fit = mean[on].sum(axis=0)
    s = 1.0 + cov[np.ix_(on, on)].sum()  # noise and loadings, in units of the noise's variance
    variance = rate
    if not known:  # conjugate: shape + n / 2, rate + sum of squares / (2 s)
        variance = (rate + ((x - fit)[seen > 0.0] ** 2).sum() / (2.0 * s)) / g
        assert shapes == [3.5 + 1.0]
    expected = np.where(seen > 0.0, x, fit + z * np.sqrt(variance * s))
    np.testing.assert_allclose(work.filled, expected, rtol=1e-12)


def test_gaps_are_filled_from_what_is_on_by_the_other_columns():
    """Errors are the noise of .3 and what is not known of the loadings yet.

    Loadings of about n rows add .3^2 K / n; twice that, and the deviation of the mean of 40
    squares, allow 1.6 times the noise. The column itself spreads by almost three times the noise.
    """
    rng = np.random.default_rng(4)
    first = np.arange(120)[:, None] < 60
    Z = rng.random((120, 3)) < np.where(first, [0.5, 0.5, 0.0], [0.0, 0.5, 0.5])
    X = Z @ (3.0 * rng.normal(size=(3, 4))) + 0.3 * rng.normal(size=(120, 4))
    model = TimeVaryingIBP(window=12, n_particles=8, moves=3, warmup=20, missing=True)
    errors = []
    for i, x in enumerate(X):
        if i >= 80:
            filled = model.reconstruct_one(dict(enumerate(x.tolist())) | {1: None})
            errors.append(filled[1] - x[1])
        model.learn_many(x[None])
    assert np.sqrt(np.mean(np.square(errors))) < 1.6 * 0.3 < 0.6 * X[80:, 1].std()
