"""The enumeration oracle reproduces the printed exact numbers."""

import numpy as np
import pytest

from streamddcrp.decay import Exponential, LinearWindow, Logistic, NoDecay, Window
from streamddcrp.reachability import LaplacianInverse
from tests.oracles.enumeration import enumerate_links, normal_wishart_log_marginal, tables
from tests.oracles.links import prior_links

X = np.array([0.3, -0.2, 4.1, 0.1, 3.8, 4.4])
DECAYS = {"crp": NoDecay(), "exponential": Exponential(2.0), "window": Window(3.0)}


def log_marginal(members):
    return normal_wishart_log_marginal(
        X[members][:, None], np.zeros(1), 0.1, np.array([[2.0]]), 3.0
    )


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([0], -2.0052690601),
        ([2], -3.132374916),
        ([0, 1, 3], -3.8447123415),
        ([2, 4, 5], -5.5907847284),
    ],
)
def test_log_marginal_of_a_table(members, expected):
    assert log_marginal(members) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("decay", "log_evidence", "n_tables", "prior_n_tables"),
    [
        ("crp", -14.1135128151, 2.2683335962, 1.8782106782),
        ("exponential", -13.8389192198, 2.6328591208, 2.6194226372),
        ("window", -13.7121511048, 2.3718102637, 2.1333333333),
    ],
)
def test_evidence_and_numbers_of_tables(decay, log_evidence, n_tables, prior_n_tables):
    exact = enumerate_links(prior_links(DECAYS[decay], 0.5, 6), log_marginal)
    assert exact.log_evidence == pytest.approx(log_evidence, abs=1e-9)
    assert exact.expected_n_tables == pytest.approx(n_tables, abs=1e-9)
    assert exact.prior_expected_n_tables == pytest.approx(prior_n_tables, abs=1e-9)
    assert exact.n_configurations == {"crp": 720, "exponential": 720, "window": 162}[decay]
    np.testing.assert_allclose(exact.links.sum(axis=1), 1.0, rtol=1e-12)
    assert exact.n_tables_probs @ np.arange(1, 7) == pytest.approx(exact.expected_n_tables)


@pytest.mark.parametrize(
    ("decay", "expected"),
    [
        ("crp", [0.01497016, 0.01205703, 0.46593072, 0.01330679, 0.46009778, 0.03363752]),
        ("exponential", [0.00197066, 0.00289997, 0.24587751, 0.01346982, 0.65600139, 0.07978066]),
    ],
)
def test_links_of_the_last_customer(decay, expected):
    exact = enumerate_links(prior_links(DECAYS[decay], 0.5, 6), log_marginal)
    np.testing.assert_allclose(exact.links[-1], expected, rtol=0, atol=0.6e-8)  # 8 digits printed


def test_prior_numbers_of_tables_oracle_o2():
    exact = enumerate_links(prior_links(Exponential(2), 0.7, 5), lambda members: 0.0)
    probs = [0.1117869296, 0.3333709881, 0.3592828013, 0.1671075347, 0.0284517464]
    np.testing.assert_allclose(exact.prior_n_tables_probs, probs, rtol=0, atol=1e-9)
    assert exact.log_evidence == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(
        exact.together[0],
        [1, 0.4642299476, 0.387867427, 0.3315683536, 0.2866450984],
        rtol=0,
        atol=1e-9,
    )


@pytest.mark.parametrize(
    ("decay", "log_evidence", "n_tables"),
    [
        (Exponential(2.0), -9.2993107204, 2.6851760918),
        (Window(3.0), -9.4117296016, 2.1907044675),
        (Logistic(1.5), -9.3257077003, 2.6906155114),
        (LinearWindow(3.0), -9.4373756717, 2.7848903363),
        (NoDecay(), -9.2264096854, 2.0635317150),
    ],
)
def test_gaussians_of_known_variance_oracles_o3_o4(decay, log_evidence, n_tables):
    """x ~ N(theta, 1), theta ~ N(0, 4): an integral of another kind over the same links."""
    x = np.array([0.3, -1.2, 0.5, 2.0, -0.9])

    def known_variance(members):
        covariance = np.eye(len(members)) + 4.0
        return -0.5 * (
            x[members] @ np.linalg.solve(covariance, x[members])
            + np.linalg.slogdet(2 * np.pi * covariance)[1]
        )

    exact = enumerate_links(prior_links(decay, 0.7, 5), known_variance)
    assert exact.log_evidence == pytest.approx(log_evidence, abs=1e-9)
    assert exact.expected_n_tables == pytest.approx(n_tables, abs=1e-9)


def test_general_links_oracle_o2():
    """Links in both directions: cycles are tables, too."""
    distance = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    weights = Exponential(2).weight(distance)
    np.fill_diagonal(weights, 0.7)
    log_prior = np.log(weights / weights.sum(axis=1, keepdims=True))
    exact = enumerate_links(log_prior, lambda members: 0.0)
    assert exact.n_configurations == 256
    assert exact.prior_expected_n_tables == pytest.approx(1.7603141682, abs=1e-9)
    probs = [0.4043164828, 0.4438697412, 0.138996901, 0.012816875]
    np.testing.assert_allclose(exact.prior_n_tables_probs, probs, rtol=0, atol=1e-9)


@pytest.mark.parametrize("decay", DECAYS.values(), ids=DECAYS)
def test_reachability_gives_the_prior_moments(decay):
    log_prior = prior_links(decay, 0.5, 6)
    exact = enumerate_links(log_prior, lambda members: 0.0)
    inverse = LaplacianInverse.from_links(np.exp(log_prior))
    assert inverse.expected_n_tables() == pytest.approx(exact.expected_n_tables, rel=1e-12)
    Z = inverse.table_probabilities()
    np.testing.assert_allclose(Z[:, 0], exact.together[:, 0], rtol=1e-12)


def test_tables_are_connected_components():
    assert tables((0, 0, 2, 1, 2)) == [0, 0, 2, 0, 2]
    assert tables((1, 0, 3, 2)) == [0, 0, 2, 2]
    assert tables((3, 1, 1, 3)) == [0, 1, 1, 0]
