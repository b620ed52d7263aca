"""Drifting Gaussian clusters that are born and die: the streaming temporal mixture and its peers.

Twelve streams of 40 epochs of 80 rows. *Stream*: one pass, scales learned. *Gibbs*: the blocked
sampler of the finite model, with the true scales. *Oracle*: labels by true centres and proportions.
Epoch ARI is the mean over epochs; pooled ARI is over all rows, so that confused identities count.
Then the cost of an epoch of 2,000 rows with 20 live clusters.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import click
import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from benchmarks.machine import machine, markdown
from streamddcrp.inference.tdpm_cvb.batch import best_start, fit_temporal_dpm
from streamddcrp.inference.tdpm_cvb.drift import GaussianDrift
from streamddcrp.inference.tdpm_cvb.engine import Engine, Settings
from streamddcrp.inference.tdpm_cvb.options import past_weights

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

DRIFT, BIRTH = 0.0625, 36.0
SPREADS = (0.3, 0.1, 0.03, 0.01, 0.003)


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


def stream_labels(rows: list[FloatArray], settings: Settings) -> list[IntArray]:
    """Labels of one pass, each epoch's as it leaves the window; scales learned."""
    guesses = [GaussianDrift.scaled(rows[0], spread) for spread in SPREADS]
    trial = best_start([Engine(settings, guess) for guess in guesses], rows)
    labels = []
    for t, X in enumerate(rows):
        if t > trial.epoch:
            labels += _leaving(trial)
            trial.learn(X)
    return labels + [trial.ids[q.argmax(axis=1)] for q in trial.resp]


def _leaving(engine: Engine) -> list[IntArray]:
    """Labels of the epoch that the next one will push out of the window."""
    if len(engine.rows) <= engine.settings.lag:
        return []
    return [engine.ids[engine.resp[0].argmax(axis=1)]]
