"""Drifting Gaussian clusters in epochs, and how well labels agree with them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

DRIFT, BIRTH = 0.0625, 36.0


class Stream(NamedTuple):
    """Rows (N_t, 2) and true ids (N_t,) of every epoch, and labels by the true centres."""

    rows: list[FloatArray]
    ids: list[IntArray]
    oracle: list[IntArray]


def drifting_gaussians(seed: int, n_epochs: int = 40, n_rows: int = 80) -> Stream:
    """Make three to nine clusters of unit variance whose centres drift; some die, some are born."""
    g = np.random.default_rng(seed)
    live: dict[int, FloatArray] = {}
    weight: dict[int, float] = {}
    rows, ids, oracle = [], [], []
    born = 0
    for _ in range(n_epochs):
        for k in list(live):
            live[k] = live[k] + np.sqrt(DRIFT) * g.standard_normal(2)
            weight[k] *= np.exp(0.2 * g.standard_normal())
        for k in sorted(live):
            if len(live) > 3 and g.random() < 0.06:
                del live[k], weight[k]
        while len(live) < 3 or (len(live) < 9 and g.random() < 0.2):
            live[born] = np.sqrt(BIRTH) * g.standard_normal(2)
            weight[born] = g.gamma(3.0)
            born += 1
        names = np.array(sorted(live))
        share = np.array([weight[k] for k in names])
        centre = np.array([live[k] for k in names])
        z = g.choice(len(names), size=n_rows, p=share / share.sum())
        X = centre[z] + g.standard_normal((n_rows, 2))
        log_p = np.log(share) - 0.5 * ((X[:, None] - centre) ** 2).sum(axis=2)
        rows.append(X)
        ids.append(names[z])
        oracle.append(names[log_p.argmax(axis=1)])
    return Stream(rows, ids, oracle)


def agreement(truth: list[IntArray], labels: list[IntArray]) -> tuple[float, float]:
    """Epoch ARI and pooled ARI."""
    pairs = [(a, b) for a, b in zip(truth, labels, strict=True) if len(a)]
    each = [adjusted_rand_score(a, b) for a, b in pairs]
    pooled = adjusted_rand_score(*(np.concatenate(part) for part in zip(*pairs, strict=True)))
    return float(np.mean(each)), float(pooled)
