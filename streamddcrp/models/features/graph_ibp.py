"""Gibbs sampling of features on a decomposable graph: prior, moves of whole features, sampler."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamddcrp.arguments import checked
from streamddcrp.data.batches import as_observations
from streamddcrp.data.graphs import DecomposableGraph, flat, from_parents, window
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.estimator.sweeps import Draws, Plan
from streamddcrp.likelihoods.linear_gaussian import LinearGaussian
from streamddcrp.models.features.engine import cooling
from streamddcrp.models.features.kernels.graph_ibp import sweep
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp.validation import positive, whole

MOST_FEATURES = 64
ROUNDS = 4  # of proposals in a sweep; a fixed number, or the moves would not be reversible
Features = NDArray[np.bool_]
Proposal = tuple[Features, float] | None  # with the log ratio of priors and of proposals
Rate = Callable[[Features], float]  # log of the expected number of features with owners
Move = Callable[[Features, Rate, np.random.Generator], Proposal]


@dataclass(frozen=True, slots=True)
class GraphIBPSamples(Draws):
    """Draws of features.

    Attributes
    ----------
    features : list of ndarray of bool, shape (N, K)
        For each draw; K varies, with columns in the order of first owners.
    n_features : ndarray of int64, shape (S,)
    alpha, ratio : ndarray of float64, shape (S,)
        Mass, and ratio of noise to loading variance.
    """

    _traced = ("n_features", "alpha", "ratio")

    features: list[Features]
    n_features: IntArray
    alpha: FloatArray
    ratio: FloatArray

    def shared(self) -> FloatArray:
        """Mean number of features shared by two items, shape (N, N)."""
        total = sum(Z.astype(np.float64) @ Z.T for Z in self.features)
        return np.asarray(total / len(self.features))


@checked
def sample_graph_ibp(
    X: ArrayLike,
    likelihood: LinearGaussian | str = "auto",
    *,
    graph: DecomposableGraph | Sequence[Iterable[int]] | int,
    alpha: float | None = None,
    n_features: int | None = None,
    n_chains: int = 4,
    n_sweeps: int = 1000,
    burn_in: int = 200,
    thin: int = 1,
    seed: int | None = 0,
    progress: bool = False,
) -> GraphIBPSamples:
    """Sample which features the items of a decomposable graph have.

    Parameters
    ----------
    X : array_like of shape (N, D)
        A row an item; without gaps.
    likelihood : "auto" or LinearGaussian, default "auto"
        "auto": unknown noise, loadings of about its size. One of several ratios is drawn.
    graph : DecomposableGraph, sequence of iterables of int, or int
        One of `decomposable` from its edges, the parents of each item, or the order of a window.
    alpha : float, optional
        Default: drawn, from a Gamma(1, 1) prior.
    n_features : int, optional
        K, for a beta-Bernoulli prior in place of the Indian buffet: an item has each of the K
        features with a probability from Beta(alpha / K, 1). Needs a number as ``alpha``. Owners
        need not be connected. Draws leave features without owners out.
    n_chains, n_sweeps, burn_in, thin, seed, progress
        As for `sample_ddcrp`.

    Notes
    -----
    A sweep costs O(N K^2 (K + D)) and the test of support; at most 64 features. It is followed by
    Metropolis steps that combine, merge and split whole features: owners are connected, so single
    entries cannot change a feature that began as the sum of two. Unknown noise is annealed in the
    first half of ``burn_in``.

    Raises
    ------
    SchemaError
        X does not fit the graph, or parents form no clique.
    ConfigError
        A setting is out of range.

    Examples
    --------
    >>> rows = [[3.0, 0.1], [3.1, -0.2], [3.0, 2.1], [0.1, 1.9], [-0.1, 2.0]]
    >>> samples = sample_graph_ibp(rows, LinearGaussian(0.3, 2.0), graph=2, alpha=1.0)
    >>> samples.features[samples.best].astype(int).tolist()
    [[1, 0], [1, 0], [1, 1], [0, 1], [0, 1]]
    """
    plan = Plan.checked(n_chains, n_sweeps, burn_in, thin)
    rows, graph = _checked(X, graph, alpha)
    if n_features is not None and alpha is None:
        raise ConfigError("alpha must be a number where n_features is one")
    most = 0 if n_features is None else whole("n_features", n_features, 1, MOST_FEATURES)
    family = LinearGaussian() if isinstance(likelihood, str) else likelihood
    if isinstance(likelihood, str) and likelihood != "auto":
        raise ConfigError(f"likelihood must be 'auto' or a LinearGaussian, got {likelihood!r}")
    drawn = plan.run(
        lambda rng: _Chain(rows, graph, family, (alpha, most), plan.burn_in // 2, rng),
        seed,
        progress=progress,
    )
    log_joint, features, *rest = drawn
    return GraphIBPSamples(plan.chain, np.array(log_joint), features, *map(np.array, rest))


class _Chain:
    """The state of the sampler; initially no item has a feature, and noise is annealed."""

    def __init__(
        self, rows: FloatArray, graph: DecomposableGraph, family: LinearGaussian,
        prior: tuple[float | None, int], n_cooled: int, rng: np.random.Generator,
    ) -> None:  # fmt: skip
        alpha, K = prior
        self.rows, self.graph, self.family, self.rng = rows, graph, family, rng
        self.flat, self.expected, self.draws_mass = flat(graph), total(graph), alpha is None
        self.Z = np.zeros((len(rows), K or MOST_FEATURES), np.bool_)
        self.n_owners = np.zeros(K or MOST_FEATURES, np.int64)
        self.mass = 1.0 if alpha is None else alpha
        self.each = self.mass / K if K else 0.0  # of a finite number of features
        self.ratio = family.ratios[len(family.ratios) // 2]
        self.seed, self.number = int(rng.integers(1 << 62)), 0
        self.cooled = (np.empty(0),) * 2 if family.known else cooling(family, rows, n_cooled)
        self.log_likelihood = 0.0

    def sweep(self) -> None:
        """Draw all entries, move whole features, then draw mass and ratio."""
        now, at = self.family, self.number
        if at < len(self.cooled[0]):  # features of much noise first, then the remainder's
            now = replace(now, noise_shape=self.cooled[0][at], noise_rate=self.cooled[1][at])
        noise = self.ratio, now.shape, now.rate
        prior = self.mass, self.each
        sweep(self.rows, self.Z, self.n_owners, self.flat, prior, noise, self.seed, at)
        rate = partial(_rate, self.graph, self.mass)
        moves: tuple[Move, ...] = (_combine, _merge_or_split)
        if self.each:
            rate, moves = partial(log_chance, self.graph, self.each), (_combine,)
        used = move_features(
            self.Z.copy() if self.each else self.used, rate, moves,
            partial(_log_marginal, now, self.rows, self.ratio), self.rng,
        )  # fmt: skip
        K = used.shape[1]
        self.Z[:], self.n_owners[:] = False, 0
        self.Z[:, :K], self.n_owners[:K] = used, used.sum(axis=0)
        if self.draws_mass:
            self.mass = float(self.rng.gamma(1.0 + K, 1.0 / (1.0 + self.expected)))
        logs = np.array([_log_marginal(now, self.rows, r, used) for r in now.ratios])
        weights = np.exp(logs - logs.max())
        chosen = int(self.rng.choice(len(logs), p=weights / weights.sum()))
        self.ratio, self.log_likelihood = now.ratios[chosen], float(logs[chosen])
        self.number += 1

    @property
    def used(self) -> Features:
        return self.Z[:, self.n_owners > 0]

    def draw(self) -> tuple[Any, ...]:
        """Return log joint, features, their number, mass, and ratio."""
        used = self.used
        order = np.argsort(used.argmax(axis=0), kind="stable")
        if self.each:
            prior = sum(log_chance(self.graph, self.each, column) for column in self.Z.T)
        else:
            prior = log_prior(self.graph, used, self.mass)
        joint = self.log_likelihood + prior
        return joint, used[:, order], len(order), self.mass, self.ratio


def _checked(X: ArrayLike, graph: Any, alpha: float | None) -> tuple[FloatArray, DecomposableGraph]:
    """Return rows and graph, or refuse them."""
    rows = as_observations(X)
    N = len(rows)
    if isinstance(graph, int | np.integer):
        graph = window(N, int(graph))
    elif not isinstance(graph, DecomposableGraph):
        graph = from_parents(graph)
    if len(graph.order) != N:
        raise SchemaError(f"the graph has {len(graph.order)} items, X has {N} rows")
    if np.isnan(rows).any():
        raise SchemaError("X: missing values are not supported here; TimeVaryingIBP takes them")
    if alpha is not None:
        positive("alpha", alpha, "None")
    return rows, graph


def _log_marginal(family: LinearGaussian, X: FloatArray, ratio: float, Z: Features) -> float:
    return family.log_density(Z.astype(np.float64), X, np.full(Z.shape[1], ratio))


def move_features(
    Z: Features,
    rate: Rate,
    moves: Sequence[Move],
    log_likelihood: Callable[[Features], float],
    rng: np.random.Generator,
) -> Features:
    """Propose to combine two features, and to merge two or split one; return the new Z.

    Owners are connected, so features cannot split or merge item by item.

    Notes
    -----
    The target is the prior of labelled columns, ``prod_k alpha lambda(h_k) / K!``, times the
    likelihood; of a finite number of features ``prod_k p(h_k)``, whose number no move changes.

    * Combine: the owners of feature a become those with exactly one of a and c. Its own inverse.
    * Merge: one of the P pairs whose first ends before the second begins becomes one feature with n
      owners; split: one of the K' features is cut at one of its n - 1 places. The ratio of the
      proposals is ``P / (K' (n - 1))``; that of the K! cancels with the places a column may go.
    """
    log_p = log_likelihood(Z)
    for _ in range(ROUNDS):
        for propose in moves:
            proposed = propose(Z, rate, rng)
            if proposed is None or proposed[0].shape[1] > MOST_FEATURES:
                continue
            new, log_ratio = proposed
            log_new = log_likelihood(new)
            if math.log1p(-rng.random()) < log_new - log_p + log_ratio:
                Z, log_p = new, log_new
    return Z


def _combine(Z: Features, rate: Rate, rng: np.random.Generator) -> Proposal:
    K = Z.shape[1]
    if K < 2:
        return None
    a, c = rng.choice(K, 2, replace=False)
    new = Z.copy()
    new[:, a] ^= Z[:, c]
    log_rate = rate(new[:, a])
    return (new, log_rate - rate(Z[:, a])) if log_rate > -math.inf else None


def _merge_or_split(Z: Features, rate: Rate, rng: np.random.Generator) -> Proposal:
    return (_merge if rng.random() < 0.5 else _split)(Z, rate, rng)


def _merge(Z: Features, rate: Rate, rng: np.random.Generator) -> Proposal:
    pairs = _pairs(Z)
    if not len(pairs):
        return None
    a, c = pairs[rng.integers(len(pairs))]
    new = Z.copy()
    new[:, a] |= Z[:, c]
    log_ratio = rate(new[:, a])
    if log_ratio == -math.inf:
        return None
    log_ratio -= rate(Z[:, a]) + rate(Z[:, c])
    log_ratio += math.log(len(pairs))
    log_ratio -= math.log((Z.shape[1] - 1) * (int(new[:, a].sum()) - 1))
    return np.delete(new, c, axis=1), log_ratio


def _split(Z: Features, rate: Rate, rng: np.random.Generator) -> Proposal:
    K = Z.shape[1]
    if K == 0:
        return None
    k = rng.integers(K)
    owners = np.flatnonzero(Z[:, k])
    if len(owners) < 2:
        return None
    cut = owners[rng.integers(1, len(owners))]
    new = np.column_stack([Z, Z[:, k]])  # anywhere, since the order of columns does not matter
    new[cut:, k], new[:cut, K] = False, False
    log_ratio = rate(new[:, k]) + rate(new[:, K])
    if log_ratio == -math.inf:
        return None
    log_ratio += math.log(K * (len(owners) - 1)) - math.log(len(_pairs(new)))
    return new, log_ratio - rate(Z[:, k])


def _pairs(Z: Features) -> IntArray:
    """Pairs of features where the first ends before the second begins."""
    first, last = Z.argmax(axis=0), len(Z) - 1 - Z[::-1].argmax(axis=0)
    return np.argwhere(last[:, None] < first[None])


def _rate(graph: DecomposableGraph, alpha: float, owners: Features) -> float:
    """Log of the expected number of features with these owners."""
    if not owners.any():
        return -math.inf
    rate = alpha * intensity(graph, np.flatnonzero(owners).tolist())
    return math.log(rate) if rate > 0.0 else -math.inf


def log_chance(graph: DecomposableGraph, each: float, owners: Features) -> float:
    """Log probability of the owners of one of K features, ``each`` alpha / K.

    An item of q - 1 parents, m of them owners, is one with probability (m + each) / (q + each).
    """
    log_p = 0.0
    for k in graph.order.tolist():
        q, m = 1 + len(graph.parents[k]), sum(bool(owners[j]) for j in graph.parents[k])
        log_p += math.log((m + each if owners[k] else q - m) / (q + each))
    return log_p


def total(graph: DecomposableGraph) -> float:
    """Return the sum of all intensities: the expected number of features over alpha."""
    return sum(1.0 / (1 + len(mine)) for mine in graph.parents)


def intensity(graph: DecomposableGraph, history: Iterable[int]) -> float:
    """Return the expected number of features with these owners, over alpha.

    Items follow the perfect ordering: 1 / q for the first owner, m / q for one with m owners among
    its q - 1 parents, (q - m) / q for any other item; 0 if owners are not connected.

    Examples
    --------
    >>> from streamddcrp.data.graphs import from_parents
    >>> path = from_parents([[], [0], [1]])
    >>> intensity(path, [0, 1]), intensity(path, [0, 2]), total(path)
    (0.25, 0.0, 2.0)
    """
    owners, value, begun = set(history), 1.0, False
    if not owners:
        raise ConfigError("a history needs at least one owner")
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
