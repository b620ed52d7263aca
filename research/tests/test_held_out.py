"""Held-out densities: hand-computed numbers, ratios of evidences, enumeration of test links."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from research.held_out import held_out_log_likelihood
from research.kernels.held_out import joint_by_draws, joint_exact, mix, pass_on
from streamddcrp import fit_seqddcrp
from streamddcrp.decay import make_decay
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.likelihoods import Autoregression, GammaPoisson, NormalGamma
from streamddcrp.models.ddcrp.distances import Distances
from tests.oracles.enumeration import enumerate_links, link_vectors, tables
from tests.oracles.links import prior_links

X5 = np.array([0.3, -1.2, 0.5, 2.0, -0.9])[:, None]
NIG = NormalGamma(0.0, 0.5, 2.0, 1.0)


def known_variance(shape):
    """x ~ N(theta, 1), theta ~ N(0, 4), but for terms of the order of 1 / shape."""
    return NormalGamma(0.0, 0.25, shape, shape)


def limit(function):
    """Extrapolate to known variance."""
    return 2.0 * function(known_variance(2e5)) - function(known_variance(1e5))


def weighted(X, family, decay=("exponential", 2.0), alpha=0.7, where=None):
    """All partitions of the rows with their exact posterior probabilities."""
    log_prior = prior_links(make_decay(decay), alpha, len(X) if where is None else where)
    labels, log_joint = [], []
    for links, log_p in link_vectors(log_prior):
        label = np.array(tables(links))
        rows = [family.suffstats(X[label == k]).sum(axis=0) for k in np.unique(label)]
        labels.append(label)
        log_joint.append(log_p + family.log_marginal(rows).sum())
    log_joint = np.array(log_joint)
    return np.array(labels), np.exp(log_joint - logsumexp(log_joint))


def log_evidence(X, family, decay, alpha, where=None):
    log_prior = prior_links(make_decay(decay), alpha, len(X) if where is None else where)
    return enumerate_links(
        log_prior, lambda i: float(family.log_marginal(family.suffstats(X[i]).sum(axis=0))[0])
    ).log_evidence


@pytest.mark.parametrize(
    ("restricted", "expected"), [(False, -1.5846378603), (True, -1.4846329348)]
)
@pytest.mark.parametrize("kind", ["alone", "marginal", "joint"])
def test_the_next_row(kind, restricted, expected):
    def score(family):
        labels, weights = weighted(X5, family)
        return held_out_log_likelihood(
            labels, X5, [[1.0]], family, alpha=0.7, decay=("exponential", 2.0), kind=kind,
            restricted=restricted, weights=weights,
        )[0]  # fmt: skip

    assert limit(score) == pytest.approx(expected, abs=2e-9)


@pytest.mark.parametrize("decay", ["none", ("exponential", 2.0), ("window", 2.5)])
@pytest.mark.parametrize("clocked", [False, True])
def test_joint_is_ratio_of_evidences(decay, clocked):
    """The sum over tables, test rows seen in turn and allowed tables of their own."""
    t = np.array([0.0, 0.4, 0.4, 3.0, 3.1, 3.3])
    where = (lambda n: t[:n]) if clocked else (lambda n: n)
    X = np.vstack([X5, [[1.0]]])
    labels, weights = weighted(X[:4], NIG, decay, where=where(4))
    found = held_out_log_likelihood(
        labels, X[:4], X[4:], NIG, alpha=0.7, decay=decay, kind="joint", restricted=False,
        weights=weights, t=t if clocked else None,
    )  # fmt: skip
    evidence = [log_evidence(X[:n], NIG, decay, 0.7, where(n)) for n in (4, 5, 6)]
    assert_allclose(found, np.diff(evidence), atol=1e-10)


def test_draws_estimate_the_joint_without_bias(monkeypatch):
    from research import held_out

    labels, weights = weighted(X5, NIG)
    X_test = np.array([0.4, 2.2, -1.0, 0.1])[:, None]
    options = {"alpha": 0.7, "decay": ("exponential", 2.0), "kind": "joint", "weights": weights}
    for restricted, plug_in in product((True, False), repeat=2):
        chosen = {**options, "restricted": restricted, "plug_in": plug_in}
        exact = held_out_log_likelihood(labels, X5, X_test, NIG, **chosen)
        monkeypatch.setattr(held_out, "_SEQUENCES", 0.5)
        ratios = [
            np.exp(
                held_out_log_likelihood(
                    labels, X5, X_test, NIG, n_draws=8, seed=seed, **chosen
                ).sum()
                - exact.sum()
            )
            for seed in range(60)
        ]
        monkeypatch.undo()
        error = np.std(ratios) / np.sqrt(len(ratios))
        assert 0 < error < 0.02
        assert abs(np.mean(ratios) - 1.0) < 4 * error


def test_joint_of_three_rows_at_two_tables():
    """Densities and shares by hand; links to test rows and to tables of three and two."""
    log_lik = np.log([[0.3, 0.05, 1.0], [0.02, 0.4, 1.0], [0.25, 0.2, 1.0]])
    ptr, to, share = np.array([0, 5, 11, 18]), [], []
    for m in range(3):
        to += range(5 + m)
        share += [1.0 / (5 + m)] * (5 + m)
    links = ptr, np.array(to), np.array(share), np.zeros(3)
    mass = np.array([[3.0, 2.0, 0.0]]) / np.arange(5.0, 8.0)[:, None]
    args = NIG.family, NIG.hyper(1), np.zeros((3, 1)), *links, 5
    stats = np.zeros((2, NIG.n_stats(1)))
    out = np.empty(3)
    joint_exact(*args, mass, stats, 2, log_lik, True, out)
    assert out[2] == pytest.approx(-4.9642971132, abs=1e-10)
    rng = np.random.default_rng(0)
    ratios = np.empty(4000)
    for i in range(len(ratios)):
        joint_by_draws(*args, mass, stats, 2, log_lik, True, 1, rng, out)
        ratios[i] = np.exp(out[2] + 4.9642971132)
    assert np.std(ratios) == pytest.approx(0.11, abs=0.01)
    assert abs(ratios.mean() - 1.0) < 4 * np.std(ratios) / np.sqrt(len(ratios))
    pass_on(*links, 5, 2, mass)
    assert_allclose(mass, np.tile([0.6, 0.4, 0.0], (3, 1)), atol=1e-15)
    mix(mass, log_lik, 2, out)
    assert out.sum() == pytest.approx(-4.8393746847, abs=1e-10)


@given(seed=st.integers(0, 2**32 - 1), restricted=st.booleans(), plug_in=st.booleans())
def test_marginal_is_enumerated(seed, restricted, plug_in):
    """Sum over the links of all test rows; a row of a test row's own table is as new."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, (3, 4))
    counts, test = rng.poisson(2.0, (4, 1)) * 1.0, rng.poisson(2.0, (3, 1)) * 1.0
    family, decay = GammaPoisson(1.5, 0.8), make_decay(("logistic", 2.0))
    found = held_out_log_likelihood(
        labels, counts, test, family, alpha=0.7, decay=decay, restricted=restricted,
        plug_in=plug_in,
    )  # fmt: skip
    A = np.exp(prior_links(decay, 0.7, 7))
    if restricted:
        A[np.arange(7), np.arange(7)] = 0.0
        A[1:] /= A[1:].sum(axis=1, keepdims=True)
    density = np.zeros(3)
    for label in labels:
        stats = {k: family.suffstats(counts[label == k]).sum(axis=0) for k in set(label)}
        stats[None] = np.zeros(family.n_stats(1))
        for links in product(range(7), repeat=3):
            p = np.prod([A[4 + m, links[m]] for m in range(3)])
            if p == 0.0:
                continue
            table = []
            for m, j in enumerate(links):
                table.append(label[j] if j < 4 else None if j == 4 + m else table[j - 4])
            for m, k in enumerate(table):
                if plug_in and k is not None:
                    eta = np.log((1.5 + stats[k][-1]) / (0.8 + stats[k][0]))
                    row = family.suffstats(test[m])
                    density[m] += p * np.exp(row[1] - np.exp(eta) + row[-1] * eta) / 3
                else:
                    density[m] += p * np.exp(family.log_predictive(test[m], stats[k])[0]) / 3
    assert_allclose(found, np.log(density), rtol=1e-9)


def test_without_decay_tables_count_by_size():
    labels = np.array([[0, 0, 2, 2, 2]])
    table = [NIG.suffstats(X5[labels[0] == k]).sum(axis=0) for k in (0, 2)]
    X_test = np.linspace(-3.0, 3.0, 6)[:, None]
    found = held_out_log_likelihood(labels, X5, X_test, NIG, alpha=0.7, decay="none")
    for x, value in zip(X_test, found, strict=True):
        density = np.exp(NIG.log_predictive(x, table))
        assert value == pytest.approx(np.log(0.4 * density[0] + 0.6 * density[1]), rel=1e-12)


# --- A variational posterior by the same measure --------------------------------------------------


@pytest.mark.parametrize("kind", ["marginal", "alone", "joint"])
@pytest.mark.parametrize("restricted", [True, False])
def test_a_variational_posterior_without_doubt_is_a_sample(kind, restricted):
    rng = np.random.default_rng(3)
    truth = np.repeat([0, 1, 0], 30)
    X = rng.normal(40.0 * truth[:, None], 1.0, (90, 2))
    X_test = rng.normal(40.0 * np.array([1, 0, 0])[:, None], 1.0, (3, 2))
    options = {"alpha": 0.3, "decay": "none", "kind": kind, "restricted": restricted}
    fit = fit_seqddcrp(X, NormalGamma(), alpha=0.3, decay="none")
    assert_allclose(fit.table_probs.sum(axis=1), 1.0)
    soft = held_out_log_likelihood(fit, X, X_test, NormalGamma(), **options)
    hard = held_out_log_likelihood(fit.labels[None], X, X_test, NormalGamma(), **options)
    assert_allclose(soft, hard, atol=1e-6)


def test_a_variational_posterior_mixes_expected_shares():
    X = np.random.default_rng(4).normal(0.0, 1.5, (12, 1))
    fit = fit_seqddcrp(X, NIG, alpha=0.7, decay=("exponential", 2.0))
    x = np.array([0.7])
    A = np.exp(prior_links(make_decay(("exponential", 2.0)), 0.7, 13))[12]
    expected = A[:12] @ fit.table_probs.toarray() @ np.exp(NIG.log_predictive(x, fit.stats))
    expected += A[12] * np.exp(NIG.log_predictive(x, np.zeros_like(fit.stats[0]))[0])
    found = held_out_log_likelihood(
        fit, X, x[None], NIG, alpha=0.7, decay=("exponential", 2.0), restricted=False
    )
    assert found[0] == pytest.approx(np.log(expected), rel=1e-10)


# --- Options, data, refusals ----------------------------------------------------------------------


def test_test_rows_follow_the_training_rows():
    """An autoregression takes the lags of the first test row from the training rows."""
    X = np.cumsum(np.random.default_rng(0).normal(size=(20, 1)), axis=0)
    family = Autoregression(1, 0.0, 1.0, rate=1.0)
    found = held_out_log_likelihood(
        np.zeros((1, 15), int), X[:15], X[15:], family, alpha=1.0, decay="none"
    )
    stats = family.suffstats(X[:15]).sum(axis=0)
    expected = [family.log_predictive(X[i], stats, X[i - 1 : i])[0] for i in range(15, 20)]
    assert_allclose(found, expected)


def test_missing_values_pass_when_masked():
    X = np.ma.masked_invalid([[0.3, np.nan], [1.0, 2.0]])
    found = held_out_log_likelihood([[0, 0]], X, X[:1], NormalGamma(0.0, 1.0, 2.0, 1.0), alpha=1.0,
                                    decay="none")  # fmt: skip
    assert np.isfinite(found).all()


def test_far_tables_do_not_underflow():
    """Densities below e^-745, and links across e^-1000."""
    t = [0.0, 1.0, 2001.0, 2002.0]
    found = held_out_log_likelihood(
        [[0, 0]], [[0.0], [1.0]], [[1e4], [1e4]], known_variance(1e7), alpha=1.0,
        decay=("exponential", 2.0), t=t, kind="joint",
    )  # fmt: skip
    assert np.isfinite(found).all()
    assert found[0] < -745.0


def refuse(**change):
    data = {"posterior": [[0, 0]], "X": [[0.1], [0.2]], "X_test": [[0.5]]}
    options = {"alpha": 1.0, "decay": ("window", 3), "likelihood": NIG, **data, **change}
    return held_out_log_likelihood(**options)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"kind": "mean"}, ConfigError, "kind"),
        ({"alpha": 0.0}, ConfigError, "alpha"),
        ({"n_draws": 0}, ConfigError, "n_draws"),
        ({"posterior": [[0, 0, 1]]}, SchemaError, "labels are of 3 customers, X has 2 rows"),
        ({"X_test": [[0.5, 1.0]]}, SchemaError, "as many columns"),
        ({"X_test": np.empty((0, 1))}, ConfigError, "no rows"),
        ({"X_test": [[np.inf]]}, SchemaError, "not finite"),
        ({"weights": [1.0, 2.0]}, SchemaError, "weights"),
        ({"t": [0.0, 1.0, 7.0]}, SchemaError, "test row 0: no earlier row to link to"),
        ({"t": [0.0, 1.0]}, SchemaError, "3 customers"),
        ({"t": [0.0, 1.0, 2.0], "distances": Distances.by_index(3)}, ConfigError, "not both"),
    ],
)
def test_refusals(change, error, message):
    with pytest.raises(error, match=message):
        refuse(**change)


def test_a_foreign_fit_is_refused():
    fit = fit_seqddcrp(X5, NIG, alpha=0.7, decay="none")
    with pytest.raises(SchemaError, match="the fit is of 5 customers"):
        refuse(posterior=fit)
    with pytest.raises(ConfigError, match="weights are of samples"):
        refuse(posterior=fit, weights=[1.0])
