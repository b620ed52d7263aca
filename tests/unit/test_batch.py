"""Batch inference against enumeration, the paper's figures and a dense bound."""

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from streamddcrp import fit_seqddcrp
from streamddcrp.decay import Exponential, Window
from streamddcrp.errors import ConfigError, OrderError, SchemaError
from streamddcrp.likelihoods import GammaPoisson, NormalGamma, NormalWishart
from tests.oracles.enumeration import enumerate_links
from tests.oracles.links import prior_links
from tests.oracles.rank_one import fit_in_random_order

X6 = np.array([0.3, -0.2, 4.1, 0.1, 3.8, 4.4])[:, None]
PRIOR6 = NormalWishart([0.0], 0.1, [[2.0]], 3.0)
DECAYS = {
    "crp": ("none", -14.1135128151, -14.5241377484),
    "exponential": (("exponential", 2.0), -13.8389192198, -14.6103573449),
    "window": (("window", 3.0), -13.7121511048, -14.1964555742),
}


def dense_bound(fit, X, likelihood, log_prior):
    """Bound from links alone: R = (I - A)^-1, Z = R diag(s), every term by its definition."""
    q = fit.links.toarray()
    s = np.diag(q).copy()
    R = np.linalg.inv(np.eye(len(q)) - (q - np.diag(s)))
    Z = R * s
    used = q > 0
    links = (q[used] * (log_prior[used] - np.log(q[used]))).sum()
    stats = Z.T @ likelihood.suffstats(X)
    return links + likelihood.log_marginal(stats[s > 0]).sum(), Z


def regimes(rng, n, d=1):
    label = np.repeat(rng.integers(0, 3, n), rng.integers(1, 12, n))[:n]
    return rng.normal(0, 5, (3, d))[label] + rng.normal(size=(n, d))


@pytest.mark.parametrize("name", DECAYS)
@pytest.mark.parametrize("order", ["alternating", "random"])
def test_oracles_of_six_points(name, order):
    decay, evidence, converged = DECAYS[name]
    options = {"alpha": 0.5, "decay": decay, "tol": 1e-15, "seed": 0, "max_sweeps": 500}
    if order == "random":
        fit = fit_in_random_order(X6, PRIOR6, **options)
    else:
        fit = fit_seqddcrp(X6, PRIOR6, merge=False, **options)
    assert fit.bound == pytest.approx(converged, rel=1e-9)
    assert fit.bound < evidence
    assert fit.converged
    if name == "exponential":
        expected = [0.37558011, 0.61863102, 0.00000581, 0.00578306]
        np.testing.assert_allclose(fit.links.toarray()[3, :4], expected, atol=6e-9)


@given(seed=st.integers(0, 2**32 - 1), scale=st.floats(0.3, 20.0))
def test_bound_is_below_the_evidence(seed, scale):
    X = regimes(np.random.default_rng(seed), 6)
    log_prior = prior_links(Exponential(scale), 0.4, 6)
    exact = enumerate_links(
        log_prior,
        lambda index: float(PRIOR6.log_marginal(PRIOR6.suffstats(X[list(index)]).sum(0))[0]),
    )
    fit = fit_seqddcrp(X, PRIOR6, alpha=0.4, decay=Exponential(scale))
    assert fit.bound <= exact.log_evidence + 1e-9


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 60),
    reach=st.integers(1, 70),
    clocked=st.booleans(),
    merge=st.booleans(),
)
def test_bound_equals_dense_bound_and_never_falls(seed, n, reach, clocked, merge):
    rng = np.random.default_rng(seed)
    X = regimes(rng, n, d=2)
    t = np.cumsum(rng.exponential(1.0, n)) if clocked else None
    decay = Exponential(6.0) * Window(float(reach))
    likelihood = NormalGamma(0.0, 0.05, 1.5, 1.0)
    fit = fit_seqddcrp(X, likelihood, alpha=0.3, decay=decay, t=t, merge=merge, max_sweeps=12)
    dense, Z = dense_bound(fit, X, likelihood, prior_links(decay, 0.3, n if t is None else t))
    assert fit.bound == pytest.approx(dense, rel=1e-10)
    # A restricted option costs at most its probability, 1e-8 a row, in nats.
    assert (np.diff(fit.bound_trace) > -1e-9 * abs(fit.bound) - 1e-8 * n).all()
    np.testing.assert_allclose(fit.links.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(fit.table_probs.toarray(), Z[:, fit.openers], atol=1e-11)
    np.testing.assert_array_equal(fit.labels, Z[:, fit.openers].argmax(1))


@given(seed=st.integers(0, 2**32 - 1))
def test_random_order_reaches_fixed_points_of_the_sweeps(seed):
    X = regimes(np.random.default_rng(seed), 25)
    options = {"alpha": 0.3, "decay": Exponential(5.0)}
    slow = fit_in_random_order(X, PRIOR6, seed=seed, tol=1e-13, max_sweeps=400, **options)
    again = fit_seqddcrp(X, PRIOR6, init=slow.links, merge=False, tol=0.0, max_sweeps=4, **options)
    assert again.bound >= slow.bound - 1e-9 * abs(slow.bound)
    if slow.converged:
        assert again.bound == pytest.approx(slow.bound, rel=1e-8)


def test_merging_finds_one_broad_table():
    X = np.random.default_rng(0).normal(0, 2.0, (200, 2))
    likelihood = NormalWishart([0.0, 0.0], 1e-7, 4 * np.eye(2), 4.0001)
    one = float(likelihood.log_marginal(likelihood.suffstats(X).sum(0))[0])
    alone = fit_seqddcrp(X, likelihood, alpha=0.1, decay="none", merge=False)
    merged = fit_seqddcrp(X, likelihood, alpha=0.1, decay="none")
    assert merged.bound >= alone.bound
    assert len(merged.openers) == 1
    # links of 199 customers to anybody cost nothing but the chance of opening a table
    opening = -np.log1p(0.1 / np.arange(1.0, 200.0)).sum()
    assert merged.bound == pytest.approx(one + opening, abs=1e-6)


def test_headline_of_the_paper(shared_data):
    table = pq.read_table(shared_data / "balley" / "balley.parquet")
    X = np.column_stack([table["x"].to_numpy(), table["y"].to_numpy()])
    likelihood = NormalWishart([0.0, 0.0], 1e-7, 4 * np.eye(2), 4.0001)
    fit = fit_seqddcrp(X, likelihood, alpha=0.1, decay="none")
    assert fit.bound == pytest.approx(-1912.302, abs=1e-3)
    assert len(fit.openers) == 5


def test_missing_values_and_counts():
    rng = np.random.default_rng(1)
    X = np.ma.masked_array(rng.poisson(3.0, (40, 2)).astype(float), rng.random((40, 2)) < 0.2)
    fit = fit_seqddcrp(X, GammaPoisson(1.0, 0.3), alpha=0.1, decay=("exponential", 5.0))
    dense, _ = dense_bound(
        fit, X.filled(np.nan), GammaPoisson(1.0, 0.3), prior_links(Exponential(5.0), 0.1, 40)
    )
    assert fit.bound == pytest.approx(dense, rel=1e-10)


def test_equal_times_and_a_single_row():
    fit = fit_seqddcrp([[1.0], [1.1], [9.0]], PRIOR6, alpha=0.5, decay=Window(2), t=[0.0, 0.0, 5.0])
    assert fit.links.toarray()[2].tolist() == [0.0, 0.0, 1.0]
    assert fit_seqddcrp([[1.0]], PRIOR6, alpha=0.5, decay="none").labels.tolist() == [0]


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"alpha": 0.0}, ConfigError, "alpha"),
        ({"max_sweeps": 0}, ConfigError, "max_sweeps"),
        ({"t": [0.0, 2.0, 1.0, 3.0, 4.0, 5.0]}, OrderError, "row 2"),
        ({"t": [0.0]}, SchemaError, "one time a row"),
        ({"X": [[0.0], [np.inf]]}, SchemaError, "row 1, column 0"),
        ({"X": [["a"]]}, SchemaError, "numbers"),
        ({"X": np.empty((0, 1))}, ConfigError, "no rows"),
        ({"init": "prior"}, ConfigError, "init"),
        ({"init": sp.csr_array(np.eye(3))}, ConfigError, "init"),
    ],
)
def test_bad_arguments_are_named(change, error, words):
    arguments = {"X": X6, "likelihood": PRIOR6, "alpha": 0.5, "decay": "none"} | change
    with pytest.raises(error, match=words):
        fit_seqddcrp(arguments.pop("X"), arguments.pop("likelihood"), **arguments)
