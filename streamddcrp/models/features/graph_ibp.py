"""Gibbs sampling of features on a decomposable graph."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamddcrp.data.batches import as_observations
from streamddcrp.data.graphs import DecomposableGraph, from_parents, window
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.likelihoods.linear_gaussian import LinearGaussian
from streamddcrp.models.features.graph_ibp_moves import move_features
from streamddcrp.models.features.graph_ibp_prior import flat, log_prior, total
from streamddcrp.models.features.kernels.graph_ibp import sweep
from streamddcrp.models.features.start import cooling
from streamddcrp.typing import FloatArray
from streamddcrp.validation import whole

MOST_FEATURES = 64


@dataclass(frozen=True)
class GraphIBPSamples:
    """Draws from the posterior.

    Attributes
    ----------
    features : list of ndarray of bool, shape (N, K)
        Of each kept sweep; K varies, columns in the order of their first owners.
    alpha, ratio, log_joint : ndarray of float64, shape (M,)
        Mass, ratio of noise to loading variance, log joint density of each.
    best : int
        The draw with the highest log joint density.
    """

    features: list[NDArray[np.bool_]]
    alpha: FloatArray
    ratio: FloatArray
    log_joint: FloatArray
    best: int

    def shared(self) -> FloatArray:
        """Mean number of features that two items have in common, shape (N, N)."""
        total = sum(Z.astype(np.float64) @ Z.T for Z in self.features)
        return np.asarray(total / len(self.features))


def fit_graph_ibp(
    X: ArrayLike,
    graph: DecomposableGraph | Sequence[Iterable[int]] | int,
    likelihood: LinearGaussian | None = None,
    *,
    alpha: float | None = None,
    n_sweeps: int = 1000,
    burn_in: int = 200,
    seed: int = 0,
) -> GraphIBPSamples:
    """Sample which features the items of a decomposable graph have.

    Parameters
    ----------
    X : array_like of shape (N, D)
        A row an item; without gaps.
    graph : DecomposableGraph, sequence of iterables of int, or int
        One of `decomposable` from its edges, the parents of each item, or the order of a window.
    likelihood : LinearGaussian, optional
        Default: unknown noise, loadings of about its size. Of several ratios one is drawn.
    alpha : float, optional
        Default: drawn, from a Gamma(1, 1) prior.
    n_sweeps, burn_in : int
        Sweeps, and how many of them are thrown away.
    seed : int

    Notes
    -----
    A sweep costs O(N K^2 (K + D)) and the test of support; at most 64 features. After it whole
    features are combined, merged and split by Metropolis steps: owners are connected, so that
    entries alone leave a feature that began as the sum of two as it is. Unknown noise is annealed
    in the first half of ``burn_in``.

    Raises
    ------
    SchemaError
        X does not fit the graph, or parents are no clique.
    ConfigError
        A setting is out of its range.

    Examples
    --------
    >>> rows = [[3.0, 0.1], [3.1, -0.2], [3.0, 2.1], [0.1, 1.9], [-0.1, 2.0]]
    >>> samples = fit_graph_ibp(rows, 2, LinearGaussian(0.3, 2.0), alpha=1.0, n_sweeps=300)
    >>> samples.features[samples.best].astype(int).tolist()
    [[1, 0], [1, 0], [1, 1], [0, 1], [0, 1]]
    """
    rows, graph, seed = _checked(X, graph, alpha, n_sweeps, burn_in, seed)
    N = len(rows)
    family = LinearGaussian() if likelihood is None else likelihood
    rng = np.random.default_rng(seed)
    arrays, expected = flat(graph), total(graph)
    Z = np.zeros((N, MOST_FEATURES), np.bool_)
    n_owners = np.zeros(MOST_FEATURES, np.int64)
    mass, ratio = 1.0 if alpha is None else alpha, family.ratios[len(family.ratios) // 2]
    kept: list[NDArray[np.bool_]] = []
    traces: list[tuple[float, float, float]] = []
    cooled = (np.empty(0),) * 2 if family.known else cooling(family, rows, burn_in // 2)
    for number in range(n_sweeps):
        now = family
        if number < len(cooled[0]):  # features of much noise first, then what they leave over
            now = replace(family, noise_shape=cooled[0][number], noise_rate=cooled[1][number])
        sweep(rows, Z, n_owners, *arrays, mass, ratio, now.shape, now.rate, seed, number)
        used = move_features(
            Z[:, n_owners > 0], graph, mass, partial(_log_marginal, now, rows, ratio), rng,
            MOST_FEATURES,
        )  # fmt: skip
        Z[:], n_owners[:] = False, 0
        Z[:, : used.shape[1]], n_owners[: used.shape[1]] = used, used.sum(axis=0)
        if alpha is None:
            mass = float(rng.gamma(1.0 + used.shape[1], 1.0 / (1.0 + expected)))
        logs = [_log_marginal(now, rows, value, used) for value in family.ratios]
        if len(logs) > 1:
            weights = np.exp(np.array(logs) - max(logs))
            chosen = int(rng.choice(len(logs), p=weights / weights.sum()))
        else:
            chosen = 0
        ratio = family.ratios[chosen]
        if number >= burn_in:
            order = np.argsort(used.argmax(axis=0), kind="stable")
            kept.append(used[:, order].copy())
            traces.append((mass, ratio, logs[chosen] + log_prior(graph, used, mass)))
    trace = np.array(traces)
    best = int(trace[:, 2].argmax())
    return GraphIBPSamples(kept, trace[:, 0], trace[:, 1], trace[:, 2], best)


def _checked(
    X: ArrayLike, graph: Any, alpha: float | None, n_sweeps: int, burn_in: int, seed: int
) -> tuple[FloatArray, DecomposableGraph, int]:
    """Return rows, graph and seed, or refuse them."""
    rows = as_observations(X)
    N = len(rows)
    if isinstance(graph, int | np.integer):
        graph = window(N, int(graph))
    elif not isinstance(graph, DecomposableGraph):
        graph = from_parents(graph)
    if len(graph.order) != N:
        message = f"the graph has {len(graph.order)} items, X has {N} rows"
        raise SchemaError(message)
    if np.isnan(rows).any():
        message = "X: missing values are not supported here; TimeVaryingIBP takes them"
        raise SchemaError(message)
    whole("n_sweeps", n_sweeps, 1)
    whole("burn_in", burn_in, 0)
    seed = whole("seed", seed, 0)
    if burn_in >= n_sweeps:
        message = f"burn_in must be below n_sweeps, got {burn_in} and {n_sweeps}"
        raise ConfigError(message)
    if alpha is not None and not (alpha > 0.0 and math.isfinite(alpha)):
        message = f"alpha must be a positive number or None, got {alpha!r}"
        raise ConfigError(message)
    return rows, graph, seed


def _log_marginal(
    family: LinearGaussian, X: FloatArray, ratio: float, Z: NDArray[np.bool_]
) -> float:
    return family.log_density(Z.astype(np.float64), X, np.full(Z.shape[1], ratio))
