"""The HDP that `GroupDP` is compared with: its prior, and its posterior for two rows."""

import math

import numpy as np
import pytest

from research.benchmarks.hdp import HDP
from streamddcrp.likelihoods import NormalGamma

PRIOR = NormalGamma(0.0, 0.5, 2.0, 1.0)
S = 2_000


def run(X, group, **known):
    """Labels (S, N) and both concentrations (S, 2) of a chain."""
    chain, labels, values = HDP(X, np.array(group), PRIOR, 3, **known), [], []
    for _ in range(S):
        chain.sweep()
        labels.append(chain.label)
        values.append((chain.alpha, chain.gamma))
    return np.array(labels), np.array(values)


def close(found, exact):
    """Whether a mean over the chain is exact but for four errors of blocks."""
    error = found.reshape(100, -1).mean(axis=1).std(ddof=1) / 10
    return found.mean() == pytest.approx(exact, abs=4 * error)


def test_prior_without_data():
    labels, _ = run(np.full((3, 1), np.nan), [0, 0, 1], alpha=0.8, gamma=1.5)
    assert close(labels[:, 0] == labels[:, 2], 1 / 2.5)
    assert close(labels[:, 0] == labels[:, 1], 1 / 1.8 + 0.8 / 1.8 / 2.5)


def test_concentrations_keep_their_prior_without_data():
    _, values = run(np.full((4, 1), np.nan), [0, 0, 1, 1])
    for column in values.T:  # Gamma(1, 1)
        assert close(column, 1.0)
        assert close(np.minimum(column, 2.0), 1.0 - math.exp(-2.0))


def test_two_rows_of_two_groups():
    X = np.array([[0.3], [-0.4]])
    labels, _ = run(X, [0, 1], alpha=0.8, gamma=1.5)
    one, two = PRIOR.suffstats(X)
    alone, other, both = np.exp(PRIOR.log_marginal([one, two, one + two]))
    together = both / (both + 1.5 * alone * other)
    assert close(labels[:, 0] == labels[:, 1], together)
