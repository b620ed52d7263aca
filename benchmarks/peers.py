"""River's clusterers, each favoured: the best of a small grid, by the labels of another seed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import cluster
from sklearn.metrics import adjusted_rand_score

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

Settings = dict[str, Any]
PEERS = ("KMeans", "DenStream", "DBSTREAM")


def rows_of(X: FloatArray) -> list[dict[str, float]]:
    """The rows as river wants them."""
    names = [f"x{j}" for j in range(X.shape[1])]
    return [dict(zip(names, row, strict=True)) for row in X.tolist()]


def make(name: str, settings: Settings) -> Any:
    """A fresh model."""
    return getattr(cluster, name)(**settings)


def prequential(model: Any, rows: Iterable[dict[str, float]]) -> list[int]:
    """Label every row before it is learned."""
    labels = []
    for row in rows:
        labels.append(model.predict_one(row))
        model.learn_one(row)
    return labels


def grid(name: str, n_clusters: int) -> list[Settings]:
    """Settings to choose from; KMeans is given the true number of clusters."""
    if name == "KMeans":
        return [
            {"n_clusters": n_clusters, "halflife": halflife, "sigma": sigma, "seed": 0}
            for halflife, sigma in itertools.product((0.05, 0.2, 0.5, 0.9), (1.0, 5.0, 10.0))
        ]
    if name == "DenStream":
        return [
            {"epsilon": epsilon, "decaying_factor": fade, "beta": beta, "mu": mu,
             "n_samples_init": 50, "stream_speed": 1}
            for epsilon, fade, (beta, mu) in itertools.product(
                (0.5, 1.0, 2.0, 3.0), (0.001, 0.01), ((0.25, 5.0), (0.75, 2.0)))
        ]  # fmt: skip
    return [
        {"clustering_threshold": radius, "fading_factor": fade, "intersection_factor": overlap,
         "cleanup_interval": 10, "minimum_weight": 2.0}
        for radius, fade, overlap in itertools.product(
            (1.0, 1.5, 2.0, 3.0), (0.001, 0.01), (0.05, 0.3))
    ]  # fmt: skip


def tune(name: str, X: FloatArray, y: IntArray, n_clusters: int) -> Settings:
    """The settings of `grid` with the best prequential adjusted Rand index on these rows."""
    rows = rows_of(X)
    return max(
        grid(name, n_clusters),
        key=lambda settings: adjusted_rand_score(y, prequential(make(name, settings), rows)),
    )
