"""Gibbs sampling of features on a decomposable graph: prior, moves of whole features, sampler."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamddcrp.arguments import checked, generator
from streamddcrp.cards import ResultCard
from streamddcrp.data.batches import as_observations
from streamddcrp.data.graphs import DecomposableGraph, concatenated, from_parents, holders, window
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.likelihoods.linear_gaussian import LinearGaussian
from streamddcrp.models.features.engine import cooling
from streamddcrp.models.features.kernels.graph_ibp import sweep
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp.validation import positive, whole

MOST_FEATURES = 64
ROUNDS = 4  # of proposals in a sweep; a fixed number, or the moves would not be reversible
Features = NDArray[np.bool_]
Proposal = tuple[Features, float] | None  # with the log ratio of priors and of proposals


@dataclass(frozen=True)
class GraphIBPSamples(ResultCard):
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

    features: list[Features]
    alpha: FloatArray
    ratio: FloatArray
    log_joint: FloatArray
    best: int

    def shared(self) -> FloatArray:
        """Mean number of features that two items have in common, shape (N, N)."""
        total = sum(Z.astype(np.float64) @ Z.T for Z in self.features)
        return np.asarray(total / len(self.features))


@checked
def sample_graph_ibp(
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
        Sweeps, and how many of them are discarded.
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
    >>> samples = sample_graph_ibp(rows, 2, LinearGaussian(0.3, 2.0), alpha=1.0, n_sweeps=300)
    >>> samples.features[samples.best].astype(int).tolist()
    [[1, 0], [1, 0], [1, 1], [0, 1], [0, 1]]
    """
    rows, graph, seed = _checked(X, graph, alpha, n_sweeps, burn_in, seed)
    N = len(rows)
    family = LinearGaussian() if likelihood is None else likelihood
    rng = generator(seed)
    arrays, expected = flat(graph), total(graph)
    Z = np.zeros((N, MOST_FEATURES), np.bool_)
    n_owners = np.zeros(MOST_FEATURES, np.int64)
    mass, ratio = 1.0 if alpha is None else alpha, family.ratios[len(family.ratios) // 2]
    kept: list[Features] = []
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
    if alpha is not None:
        positive("alpha", alpha, "None")
    return rows, graph, seed


def _log_marginal(family: LinearGaussian, X: FloatArray, ratio: float, Z: Features) -> float:
    return family.log_density(Z.astype(np.float64), X, np.full(Z.shape[1], ratio))


def move_features(
    Z: Features,
    graph: DecomposableGraph,
    alpha: float,
    log_likelihood: Callable[[Features], float],
    rng: np.random.Generator,
    most: int,
) -> Features:
    """Propose to combine two features, and to merge two or split one; return the new Z.

    Owners are connected, so that features cannot split or merge item by item.

    Notes
    -----
    The target is the prior of labelled columns, ``prod_k alpha lambda(h_k) / K!``, times the
    likelihood.

    * Combine: the owners of feature a become those that have just one of a and c. It undoes itself.
    * Merge: one of the P pairs whose first ends before the second begins becomes one feature with n
      owners; split: one of the K' features is cut at one of its n - 1 places. The ratio of the
      proposals is ``P / (K' (n - 1))``; that of the K! cancels with the places a column may go.
    """
    log_p = log_likelihood(Z)
    for _ in range(ROUNDS):
        for propose in (_combine, _merge_or_split):
            proposed = propose(Z, graph, alpha, rng)
            if proposed is None or proposed[0].shape[1] > most:
                continue
            new, log_ratio = proposed
            log_new = log_likelihood(new)
            if math.log1p(-rng.random()) < log_new - log_p + log_ratio:
                Z, log_p = new, log_new
    return Z


def _combine(
    Z: Features, graph: DecomposableGraph, alpha: float, rng: np.random.Generator
) -> Proposal:
    K = Z.shape[1]
    if K < 2:
        return None
    a, c = rng.choice(K, 2, replace=False)
    new = Z.copy()
    new[:, a] ^= Z[:, c]
    rate = _rate(new[:, a], graph, alpha)
    return (new, rate - _rate(Z[:, a], graph, alpha)) if rate > -math.inf else None


def _merge_or_split(
    Z: Features, graph: DecomposableGraph, alpha: float, rng: np.random.Generator
) -> Proposal:
    return (_merge if rng.random() < 0.5 else _split)(Z, graph, alpha, rng)


def _merge(
    Z: Features, graph: DecomposableGraph, alpha: float, rng: np.random.Generator
) -> Proposal:
    pairs = _pairs(Z)
    if not len(pairs):
        return None
    a, c = pairs[rng.integers(len(pairs))]
    new = Z.copy()
    new[:, a] |= Z[:, c]
    log_ratio = _rate(new[:, a], graph, alpha)
    if log_ratio == -math.inf:
        return None
    log_ratio -= _rate(Z[:, a], graph, alpha) + _rate(Z[:, c], graph, alpha)
    log_ratio += math.log(len(pairs))
    log_ratio -= math.log((Z.shape[1] - 1) * (int(new[:, a].sum()) - 1))
    return np.delete(new, c, axis=1), log_ratio


def _split(
    Z: Features, graph: DecomposableGraph, alpha: float, rng: np.random.Generator
) -> Proposal:
    K = Z.shape[1]
    if K == 0:
        return None
    k = rng.integers(K)
    owners = np.flatnonzero(Z[:, k])
    if len(owners) < 2:
        return None
    cut = owners[rng.integers(1, len(owners))]
    new = np.column_stack([Z, Z[:, k]])  # anywhere: the order of columns does not matter
    new[cut:, k], new[:cut, K] = False, False
    log_ratio = _rate(new[:, k], graph, alpha) + _rate(new[:, K], graph, alpha)
    if log_ratio == -math.inf:
        return None
    log_ratio += math.log(K * (len(owners) - 1)) - math.log(len(_pairs(new)))
    return new, log_ratio - _rate(Z[:, k], graph, alpha)


def _pairs(Z: Features) -> IntArray:
    """Pairs of features of which the first ends before the second begins."""
    first, last = Z.argmax(axis=0), len(Z) - 1 - Z[::-1].argmax(axis=0)
    return np.argwhere(last[:, None] < first[None])


def _rate(owners: Features, graph: DecomposableGraph, alpha: float) -> float:
    """Log of the expected number of features with these owners."""
    if not owners.any():
        return -math.inf
    rate = alpha * intensity(graph, np.flatnonzero(owners).tolist())
    return math.log(rate) if rate > 0.0 else -math.inf


def total(graph: DecomposableGraph) -> float:
    """Return the sum of all intensities: the expected number of features over alpha."""
    return sum(1.0 / (1 + len(mine)) for mine in graph.parents)


def intensity(graph: DecomposableGraph, history: Iterable[int]) -> float:
    """Return the expected number of features with these owners, over alpha.

    Item after item in the perfect ordering: 1 / q for the first owner, m / q for one with m owners
    among its q - 1 parents, (q - m) / q for any other item; 0 where owners are not connected.

    Examples
    --------
    >>> from streamddcrp.data.graphs import from_parents
    >>> path = from_parents([[], [0], [1]])
    >>> intensity(path, [0, 1]), intensity(path, [0, 2]), total(path)
    (0.25, 0.0, 2.0)
    """
    owners, value, begun = set(history), 1.0, False
    if not owners:
        message = "a history needs at least one owner"
        raise ConfigError(message)
    for k in graph.order.tolist():
        q, m = 1 + len(graph.parents[k]), len(graph.parents[k] & owners)
        if k not in owners:
            value *= (q - m) / q
        elif m > 0:
            value *= m / q
        elif begun:
            return 0.0
        else:
            value, begun = value / q, True
    return value


def log_prior(graph: DecomposableGraph, Z: ArrayLike, alpha: float) -> float:
    """Log probability of a feature matrix (N, K) up to the order of its columns."""
    histories = [tuple(np.flatnonzero(z).tolist()) for z in np.asarray(Z).T if z.any()]
    log_p = -alpha * total(graph)
    for h in set(histories):
        m, rate = histories.count(h), alpha * intensity(graph, h)
        if rate == 0.0:
            return -math.inf
        log_p += m * math.log(rate) - math.lgamma(m + 1)
    return log_p


def flat(
    graph: DecomposableGraph,
) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray, IntArray, IntArray]:
    """Return signs of cliques (1) and separators (-1), members, sets of each item, neighbours."""
    sets = [sorted(one) for one in graph.cliques + graph.separators]
    signs = [1] * len(graph.cliques) + [-1] * len(graph.separators)
    near: list[list[int]] = [[] for _ in graph.parents]
    for k, mine in enumerate(graph.parents):
        near[k] += sorted(mine)
        for j in mine:
            near[j].append(k)
    of_item = holders(sets, len(near))
    return np.array(signs), *concatenated(sets), *concatenated(of_item), *concatenated(near)
