"""Prior odds of a feature at every row of the window, against the product over all rows."""

import math

import numpy as np
import pytest

from streamddcrp.likelihoods.kernels.linear_gaussian import log_all
from streamddcrp.models.features.kernels.histories import history_odds, log_alone
from streamddcrp.models.features.state import make_config
from tests.oracles.plain import plain


class Particles:
    """What `history_odds` reads of one particle with one feature, in slot 1."""

    def __init__(self, has, r):
        self.owners = np.zeros((1, 2 * r + 1), np.uint64)
        for u, one in enumerate(has):  # later rows write over those that are out of reach
            self.owners[0, u % (2 * r + 1)] = np.uint64(2 * one)
        self.n_owners = np.array([[0, has[-r:].sum()]])
        self.first = np.array([[0, int(np.flatnonzero(has)[0])]])


def log_prior(has, r):
    """Log probability of a feature's owners; -inf where it died on the way and came back."""
    total = 0.0
    first = np.flatnonzero(has)[0] if has.any() else len(has)
    for u in range(first, len(has)):
        q, m = min(u, r) + 1, int(has[max(u - r, 0) : u].sum())
        if u == first:
            total -= math.log(q)
        elif has[u]:
            total += math.log(m / q) if m else -math.inf
        elif m:
            total += math.log((q - m) / q)
    return total


def config_of(r):
    return make_config(window=r, alpha=1.0, n_particles=1, moves=1, seed=0, ratios=(1.0,))


@pytest.mark.parametrize("r", [2, 3, 5, 8])
def test_odds_are_those_of_all_rows_with_and_without_one(r):
    rng = np.random.default_rng(r)
    n_checked = 0
    for _ in range(200):
        t = int(rng.integers(0, 4 * r))
        has = rng.random(t + 1) < rng.choice([0.2, 0.5, 0.8])
        start = max(t + 1 - r, 0)
        if not has[start:].any() or log_prior(has, r) == -math.inf:
            continue  # a dead feature, or one that cannot be
        odds = np.empty(r)
        plain(history_odds)(config_of(r), Particles(has, r), 0, t, 1, odds)
        for row in range(start, t + 1):
            without, with_it = has.copy(), has.copy()
            without[row], with_it[row] = False, True
            if not without[start:].any():
                continue  # the row alone keeps it alive: it is not asked for
            a, b = log_prior(without, r), log_prior(with_it, r)
            found = odds[row - start]
            n_checked += 1
            if math.inf in (-a, -b):
                assert found == (math.inf if a == -math.inf else -math.inf)
            else:  # up to 2 r sums of logs below log(r + 2)
                assert found == pytest.approx(b - a, abs=1e-13 * r)
    assert n_checked > 50


@pytest.mark.parametrize("r", [1, 2, 7])
def test_a_feature_of_one_row_alone(r):
    for t in range(4 * r):
        for row in range(max(t + 1 - r, 0), t + 1):
            p = 1.0 / (min(row, r) + 1.0)
            for u in range(row + 1, min(row + r, t) + 1):
                p *= 1.0 - 1.0 / (min(u, r) + 1.0)
            found = plain(log_alone)(config_of(r), t, row)
            assert found == pytest.approx(math.log(p), abs=1e-14 * (r + 1))


def test_logs_of_all_are_those_of_each():
    rng = np.random.default_rng(0)
    x = np.concatenate([
        np.exp(rng.uniform(-600.0, 600.0, 4000)), rng.uniform(0.5, 2.0, 4000),
        [1.0, math.sqrt(0.5), math.sqrt(2.0), np.nextafter(1.0, 0.0), np.nextafter(1.0, 2.0)],
        [np.finfo(float).tiny, np.finfo(float).max],
    ])  # fmt: skip
    expected, found = np.log(x), x.copy()
    log_all(found, len(x), np.empty(len(x)))
    np.testing.assert_allclose(found, expected, rtol=3e-16, atol=0.0)
