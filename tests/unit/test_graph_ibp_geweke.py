"""Geweke's test of the Gibbs sampler: rows and features drawn in turn keep the prior."""

from functools import partial

import numpy as np
import pytest

from streamddcrp.data.graphs import from_parents
from streamddcrp.likelihoods import LinearGaussian
from streamddcrp.models.features.graph_ibp import (
    _combine,
    _merge_or_split,
    _rate,
    flat,
    move_features,
)
from streamddcrp.models.features.kernels.graph_ibp import sweep
from tests.oracles.feature_histories import intensities, window

ALPHA, RATIO, D, MOST = 1.2, 0.3, 2, 64
KITE = [[], [0], [0, 1], [1, 2], [1, 2], [3]]


def drawn_rows(Z, shape, rate, rng):
    """Rows given the features; noise and loadings from their priors."""
    variance = rate / rng.gamma(shape) if shape > 0.0 else rate
    loadings = np.sqrt(variance / RATIO) * rng.normal(size=(Z.shape[1], D))
    return Z @ loadings + np.sqrt(variance) * rng.normal(size=(len(Z), D))


def statistics(Z, X):
    shared = Z.astype(float) @ Z.T
    size = Z.sum(axis=0)
    return [
        Z.shape[1], Z.sum(), shared[0, 1], shared[1, 3], (size == 1).sum(), (size > 2).sum(),
        (size**2).sum(), np.log((X**2).sum()), np.log1p((X[0] - X[1]) ** 2).sum(),
        np.log1p((X[2] * X[3]).sum() ** 2),
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("parents", [KITE, window(5, 2)], ids=["kite", "window"])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("moves", [True, False])
def test_geweke(parents, known, moves):
    family = LinearGaussian(0.5, 0.5 / RATIO**0.5) if known else LinearGaussian(
        noise_shape=3.0, noise_rate=1.5, ratio=RATIO
    )  # fmt: skip
    shape, rate = family.shape, family.rate
    graph, N, rng = from_parents(parents), len(parents), np.random.default_rng(0)
    histories = intensities(parents)
    rates = ALPHA * np.array(list(histories.values()))
    columns = np.array([np.isin(np.arange(N), h) for h in histories]).T

    def prior():
        return np.repeat(columns, rng.poisson(rates), axis=1)

    n = 20_000
    forward = []
    for _ in range(n):
        Z = prior()
        forward.append(statistics(Z, drawn_rows(Z, shape, rate, rng)))
    arrays, Z, turns = flat(graph), prior(), []
    X = drawn_rows(Z, shape, rate, rng)
    for number in range(n):
        room = np.zeros((N, MOST), np.bool_)
        room[:, : Z.shape[1]] = Z
        n_owners = room.sum(axis=0)
        sweep(X, room, n_owners, arrays, (ALPHA, 0.0), (RATIO, shape, rate), 0, number)
        Z = room[:, n_owners > 0]
        if moves:
            density = partial(log_likelihood, family, X)
            rate_of = partial(_rate, graph, ALPHA)
            Z = move_features(Z, rate_of, (_combine, _merge_or_split), density, rng)
        X = drawn_rows(Z, shape, rate, rng)
        turns.append(statistics(Z, X))
    forward, turns = np.array(forward), np.array(turns)
    batches = turns.reshape(50, n // 50, -1).mean(axis=1)
    error = np.sqrt(forward.var(axis=0) / n + batches.var(axis=0, ddof=1) / 50)
    # of 80 values a true sampler has one beyond 4.5 in fewer than one of 200 runs (t with 49)
    assert (np.abs(forward.mean(axis=0) - turns.mean(axis=0)) < 4.5 * error).all()


def log_likelihood(family, X, Z):
    return family.log_density(Z.astype(float), X, np.full(Z.shape[1], RATIO))
