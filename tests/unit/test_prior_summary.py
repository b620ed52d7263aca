"""Prior moments against enumeration, dense inverses and hand-computed numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from streamddcrp.decay import make_decay
from streamddcrp.errors import ConfigError
from streamddcrp.models.ddcrp import prior as module
from streamddcrp.models.ddcrp.distances import Distances
from streamddcrp.models.ddcrp.kernels.moments import measure
from streamddcrp.models.ddcrp.prior import alpha_for, prior_summary
from streamddcrp.partitions import labels_of_links
from tests.oracles.enumeration import enumerate_links, link_vectors, tables
from tests.oracles.links import prior_links

DECAYS = [
    "none", ("window", 3), ("exponential", 2.0), ("logistic", 1.5), ("linear_window", 4.0),
]  # fmt: skip


def dense(log_prior):
    """Moments from R = (I - A + diag A)^-1."""
    A = np.exp(log_prior)
    own = np.diag(A)
    R = np.linalg.inv(np.eye(len(A)) - A + np.diag(own))
    return own, R


def test_five_customers_all_digits():
    summary = prior_summary(0.7, ("exponential", 2.0), 5)
    assert summary.expected_n_tables == pytest.approx(2.6670661802, abs=1e-10)
    probs = [0, 0.1117869296, 0.3333709881, 0.3592828013, 0.1671075347, 0.0284517464]
    assert_allclose(summary.n_tables_probs, probs, atol=1e-10)
    rows = [2.4703108265, 2.6683859072, 2.7009178568, 2.6300429655, 2.4696714552]
    assert summary.mean_own_table_size == pytest.approx(np.mean(rows), abs=1e-10)
    assert summary.new_table_rate == pytest.approx(0.3443398205, abs=1e-10)
    own, R = dense(prior_links(make_decay(("exponential", 2.0)), 0.7, 5))
    by_root = [2.4703108265, 1.0391766976, 0.6672090849, 0.4789635704, 0.3443398205]
    assert_allclose(own * R.sum(axis=0), by_root, atol=1e-10)  # the twin itself
    assert summary.mean_table_size == pytest.approx(sum(by_root) / own.sum(), abs=1e-9)
    assert not summary.errors


@pytest.mark.parametrize("decay", DECAYS)
@given(seed=st.integers(0, 2**32 - 1), clocked=st.booleans(), alpha=st.floats(0.01, 10.0))
def test_sequential_is_dense(decay, seed, clocked, alpha):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 30))
    where = np.cumsum(rng.exponential(1.0, n)) if clocked else n
    summary = prior_summary(alpha, decay, where)
    own, R = dense(prior_links(make_decay(decay), alpha, where))
    assert summary.expected_n_tables == pytest.approx(own.sum(), rel=1e-9)
    assert summary.sd_n_tables == pytest.approx(np.sqrt((own * (1 - own)).sum()), abs=1e-6)
    assert summary.mean_subtree_size == pytest.approx(R.sum() / n, rel=1e-9)
    assert summary.n_tables_probs.sum() == pytest.approx(1.0, abs=1e-12)
    assert summary.n_tables_probs @ np.arange(n + 1) == pytest.approx(own.sum(), rel=1e-9)
    # n^2 / E K <= E sum n_k^2, by Cauchy-Schwarz and Jensen
    assert summary.mean_table_size <= summary.mean_own_table_size * (1 + 1e-9) <= n * (1 + 2e-9)


@pytest.mark.parametrize("decay", DECAYS)
def test_shared_tables_by_enumeration(decay):
    log_prior = prior_links(make_decay(decay), 0.7, 6)
    exact = enumerate_links(log_prior, lambda _: 0.0)
    summary = prior_summary(0.7, decay, 6)
    assert summary.mean_own_table_size == pytest.approx(exact.together.sum() / 6, abs=1e-9)
    assert_allclose(summary.n_tables_probs[1:], exact.n_tables_probs, atol=1e-10)


@pytest.mark.parametrize(
    ("decay", "alpha", "size"), [(("window", 11), 2.0, 6.0), (("exponential", 5.0), 1.0, 5.516656)]
)
def test_far_from_the_start_three_sizes_are_one(decay, alpha, size):
    assert alpha_for(decay, table_size=size) == pytest.approx(alpha, abs=1e-6)
    summary = prior_summary(alpha, decay, 20_000, n_draws=20)
    assert 1.0 / summary.new_table_rate == pytest.approx(size, abs=1e-5)
    assert summary.mean_table_size == pytest.approx(size, rel=1e-3)  # the start: 1e-3 of them
    assert summary.mean_subtree_size == pytest.approx(size, rel=3e-3)
    assert list(summary.errors) == ["mean_own_table_size"]
    assert "simulated" in str(summary)


@pytest.mark.parametrize("decay", [("window", 4), ("exponential", 3.0)])
def test_simulated_size_agrees_with_exact(decay, monkeypatch):
    exact = prior_summary(1.0, decay, 300)
    monkeypatch.setattr(module, "_DENSE", 0)
    simulated = prior_summary(1.0, decay, 300, n_draws=2000)
    error = simulated.errors["mean_own_table_size"]
    assert 0 < error < 0.02 * exact.mean_own_table_size
    assert abs(simulated.mean_own_table_size - exact.mean_own_table_size) < 4 * error


def test_logistic_mass():
    total = 7.500531
    assert alpha_for(("logistic", 8.0), table_size=2.0) == pytest.approx(total, abs=1e-6)


@pytest.mark.parametrize("decay", DECAYS)
@given(alpha=st.floats(1e-6, 1e4), n=st.integers(2, 40), clocked=st.booleans())
def test_alpha_is_found_again(decay, alpha, n, clocked):
    where = np.linspace(0.0, 0.5 * n, n) if clocked else n
    expected = prior_summary(alpha, decay, where).expected_n_tables
    found = alpha_for(decay, where, n_tables=expected)
    if 1.0 + 1e-4 < expected < n - 1e-4:
        assert found == pytest.approx(alpha, rel=1e-6)
        assert alpha_for(decay, where, table_size=n / expected) == pytest.approx(found, rel=1e-6)


# --- The general process --------------------------------------------------------------------------


def test_general_process_of_four():
    distances = Distances.by_index(4, sequential=False)
    summary = prior_summary(0.7, ("exponential", 2.0), distances, n_draws=20_000)
    probs = np.array([0.4043164828, 0.4438697412, 0.138996901, 0.012816875])
    assert abs(summary.expected_n_tables - 1.7603141682) < 4 * summary.errors["expected_n_tables"]
    assert_allclose(summary.n_tables_probs[1:], probs, atol=4 * np.sqrt(0.25 / 20_000), rtol=0)
    log_prior = distances.candidates(("exponential", 2.0), 0.7).log_prior()
    exact = enumerate_links(log_prior, lambda _: 0.0)
    gap = summary.mean_own_table_size - exact.together.sum() / 4
    assert abs(gap) < 4 * summary.errors["mean_own_table_size"]
    below = sum(np.exp(p) * np.mean(hanging(c)) for c, p in link_vectors(log_prior))
    gap = summary.mean_subtree_size - below
    assert abs(gap) < 4 * summary.errors["mean_subtree_size"]


def hanging(links):
    """For each customer, how many reach it."""
    out = np.zeros(len(links), int)
    for i in range(len(links)):
        seen, at = set(), i
        while at not in seen:
            seen.add(at)
            at = links[at]
        out[list(seen)] += 1
    return out


@given(st.integers(0, 2**32 - 1))
def test_subtrees_of_any_links(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 15))
    links = rng.integers(0, n, (3, n))
    table, out = labels_of_links(links), np.empty((3, 3))
    measure(links, table, out)
    for row, c in zip(out, links.tolist(), strict=True):
        _, sizes = np.unique(tables(tuple(c)), return_counts=True)
        assert_allclose(row, [len(sizes), (sizes**2).sum() / n, hanging(c).mean()])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: prior_summary(0.0, "none", 3), "alpha"),
        (lambda: prior_summary(1.0, "none", 0), "number of customers"),
        (lambda: prior_summary(1.0, "none", 3, n_draws=1), "n_draws"),
        (lambda: alpha_for("none", 5), "n_tables or table_size"),
        (lambda: alpha_for("none", 5, n_tables=2.0, table_size=2.0), "n_tables or table_size"),
        (lambda: alpha_for("none", 5, n_tables=5.0), "between 1 and 5"),
        (lambda: alpha_for("none", 5, table_size=5.0), "between 1 and 5"),
        (lambda: alpha_for("none", table_size=5.0), "number of customers"),
        (lambda: alpha_for(("window", 4), n_tables=5.0), "number of customers"),
        (lambda: alpha_for(("window", 4), table_size=1.0), "more than 1"),
        (lambda: alpha_for(("window", 4), 5, table_size=0), "more than 1"),
        (
            lambda: alpha_for("none", Distances.by_index(4, sequential=False), n_tables=2.0),
            "earlier customers",
        ),
    ],
)
def test_refusals(wrong, message):
    with pytest.raises(ConfigError, match=message):
        wrong()
