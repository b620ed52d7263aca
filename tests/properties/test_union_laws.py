"""The log marginal likelihoods of merged and split tables are those of their statistics."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamddcrp.likelihoods import (
    BetaBernoulli,
    DirichletMultinomial,
    GammaPoisson,
    NormalGamma,
    NormalWishart,
)
from streamddcrp.likelihoods.kernels.families import n_post
from streamddcrp.likelihoods.kernels.union import log_marginal, log_union, log_without

FAMILIES = [
    DirichletMultinomial(0.3, 4),
    DirichletMultinomial(2.0),
    GammaPoisson(1.0, 0.5),
    BetaBernoulli(0.5, 2.0),
    NormalGamma(0.0, 0.1, 1.5, 1.0),
    NormalWishart(np.zeros(4), 0.1, np.eye(4), 6.0),
]


@pytest.mark.parametrize("family", FAMILIES, ids=str)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(0, 6), m=st.integers(0, 6))
def test_union_and_difference(family, seed, n, m):
    rng = np.random.default_rng(seed)
    X = rng.binomial(1, 0.4, (n + m, 4)) * 1.0
    if not isinstance(family, BetaBernoulli):
        X *= rng.integers(1, 30, (n + m, 4))
    rows = family.suffstats(X) if n + m else np.zeros((0, family.n_stats(4)))
    a, b = rows[:n].sum(0), rows[n:].sum(0)
    exact_a, exact_both = family.log_marginal([a, a + b])
    code, hyper = family.family, family.hyper(4)
    work, post = np.empty(len(a)), np.empty(n_post(code, hyper))
    close = {"rel": 1e-11, "abs": 1e-9}
    assert log_marginal(code, hyper, a, post) == pytest.approx(exact_a, **close)
    both = log_union(code, hyper, a, exact_a, b, work, post)
    assert both == pytest.approx(exact_both, **close)
    assert log_without(code, hyper, a, exact_both, b, post) == pytest.approx(exact_a, **close)
