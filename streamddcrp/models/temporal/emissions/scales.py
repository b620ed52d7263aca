"""First guesses of the scales of drifting Gaussians, from the rows of one epoch."""

from dataclasses import replace
from typing import Any

import numpy as np

from streamddcrp.likelihoods.columns import column_means
from streamddcrp.models.temporal.emissions.conjugate import ConjugateDecay
from streamddcrp.models.temporal.emissions.drift import GaussianDrift
from streamddcrp.typing import FloatArray, IntArray

_CLUSTERS = (1, 2, 4, 8, 16)
_EACH = 4  # rows that a cluster must have on average
_FEW = 32  # rows below which shares of the variance are tried, too
_SPREADS = (0.03, 0.01, 0.003)  # of the first rows' variance: noise where clusters are many
_BROAD = 0.1  # one more, where the rows are few
_FACTORS = (0.04, 0.2, 1.0, 5.0)  # of the variance that a family expects within a cluster
_DRIFT = 0.05  # of the noise
_RUNS, _ROUNDS = 3, 20  # of k-means


def guesses(X: FloatArray) -> list[GaussianDrift]:
    """Return emissions for rows (N, D) that differ in their noise: within 1, 2, 4, .. clusters.

    Each column has the noise that it shows within clusters, so that one that tells nothing of them
    keeps all of its variance. The better guess shows on the rows that follow; see `best_start`.
    """
    out = []
    for k in _CLUSTERS:
        if k == 1 or k * _EACH <= len(X):
            law = GaussianDrift.scaled(X, 1.0)
            share = _within(X, k)
            noise, drift = share * law.noise, _DRIFT * share * law.noise
            out.append(replace(law, noise=noise, noise_guess=noise, drift=drift, drift_guess=drift))
    spreads = _SPREADS if len(X) >= _FEW else (_BROAD, *_SPREADS)
    return out + [GaussianDrift.scaled(X, spread) for spread in spreads]


def spreads(family: Any, n_features: int) -> list[ConjugateDecay]:
    """Return emissions of a family, all its parameters known, that differ in what is within."""
    return [ConjugateDecay(family.spread_by(factor), n_features) for factor in _FACTORS]


def _within(X: FloatArray, k: int) -> FloatArray:
    """Share of the variance of each column within k clusters, at least a millionth, (D,)."""
    X = np.where(np.isnan(X), column_means(X), X)
    sd = X.std(axis=0)
    Z = (X - X.mean(axis=0)) / np.where(sd > 0.0, sd, 1.0)
    rng = np.random.default_rng(0)
    best, least = np.ones(Z.shape[1]), np.inf
    for _ in range(_RUNS if k > 1 else 0):
        square = ((Z - _clustered(Z, k, rng)) ** 2).sum(axis=0)
        if square.sum() < least:
            least, best = float(square.sum()), square / (len(Z) - k)
    return np.where(sd > 0.0, np.clip(best, 1e-6, 1.0), 1.0)


def _clustered(Z: FloatArray, k: int, rng: np.random.Generator) -> FloatArray:
    """Return the centre of each row's cluster, (N, D), by k-means from seeds far apart."""
    centre = Z[[rng.integers(len(Z))]]
    while len(centre) < k:
        gap = ((Z[:, None] - centre) ** 2).sum(axis=2).min(axis=1)
        if gap.sum() == 0.0:
            break
        centre = np.concatenate([centre, Z[[rng.choice(len(Z), p=gap / gap.sum())]]])
    label: IntArray = np.full(len(Z), -1)
    for _ in range(_ROUNDS):
        was, label = label, ((Z[:, None] - centre) ** 2).sum(axis=2).argmin(axis=1)
        if (was == label).all():
            break
        for j in np.unique(label):
            centre[j] = Z[label == j].mean(axis=0)
    return centre[label]
