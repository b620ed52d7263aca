"""Clusters on a whole decomposable graph by Gibbs sampling."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamddcrp.arguments import checked
from streamddcrp.data import as_observations, graphs
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.estimator.sweeps import Draws, Plan, fitted
from streamddcrp.likelihoods import Likelihood, LikelihoodSpec
from streamddcrp.likelihoods.kernels.families import add_stats, n_post, n_stats, posterior
from streamddcrp.models.graph.config import Concentration, make_config
from streamddcrp.models.graph.kernels.gibbs import draw_alpha, sweep
from streamddcrp.partitions import named
from streamddcrp.typing import ArrayLike, FloatArray, IntArray


class Clusters(NamedTuple):
    """Labels (N,) of items, places of K clusters: (K,), (K, P), (K, Q), and the prior's (Q,)."""

    labels: IntArray
    size: IntArray
    stats: FloatArray
    post: FloatArray
    prior: FloatArray


class Work(NamedTuple):
    """Work space of a sweep, (N,) each but ``log_weight``, one more."""

    tally: IntArray
    seen: IntArray
    log_weight: FloatArray
    link: IntArray


@dataclass(frozen=True, slots=True)
class GraphCRPSamples(Draws):
    """Draws of the clusters of all items.

    Attributes
    ----------
    labels : ndarray of int32, shape (S, N)
        Clusters, named after their smallest item.
    n_clusters : ndarray of int64, shape (S,)
    alpha : ndarray of float64, shape (S,)
        ``log_joint`` is log p(x, clusters) at it.
    graph : DecomposableGraph
    likelihood : Likelihood
        With parameters taken from the rows.
    """

    _traced = ("n_clusters", "alpha")

    labels: NDArray[np.int32]
    n_clusters: IntArray
    alpha: FloatArray
    graph: graphs.DecomposableGraph
    likelihood: Likelihood


@checked
def sample_graph_crp(
    X: object,
    likelihood: LikelihoodSpec = "auto",
    *,
    edges: ArrayLike | None = None,
    parents: Any = None,
    alpha: Concentration = ("gamma", 1.0, 1.0),
    discount: float = 0.0,
    n_chains: int = 4,
    n_sweeps: int = 1000,
    burn_in: int = 200,
    thin: int = 1,
    seed: int | None = 0,
    progress: bool = False,
) -> GraphCRPSamples:
    """Sample clusters of the items of a decomposable graph, each connected in it.

    The Chinese restaurant process holds on every clique. Sweeps draw the cluster of each item by
    its full conditional: cluster j has as weight the product of its counts in the cliques around
    the item over that in the separators, times the predictive density. An item that alone connects
    its cluster stays.

    Parameters
    ----------
    X : array_like of float, shape (N, D)
        NaN in a masked array is a missing value.
    likelihood : "auto", tuple or Likelihood, default "auto"
        As for `GraphCRP`; missing parameters come from the rows.
    edges : array_like of int, shape (E, 2), optional
        Of the graph; or
    parents : sequence of N sequences of int, optional
        earlier neighbours of each item, all neighbours of each other.
    alpha : float or ("gamma", shape, rate), default ("gamma", 1.0, 1.0)
        Concentration; with a prior it is also drawn.
    discount : float, default 0.0
        d of a Pitman-Yor process on every clique, 0 <= d < 1. Needs a number as ``alpha``.
    n_chains, n_sweeps, burn_in, thin, seed, progress
        As for `sample_ddcrp`.

    Raises
    ------
    SchemaError
        The graph is not decomposable, or a value is outside the family's support.

    Notes
    -----
    For each item a sweep costs the sizes of the cliques around it, and a predictive density for
    each cluster in them. On long chains and other sparse graphs clusters move only at their ends,
    and mix slowly.

    Examples
    --------
    >>> import numpy as np
    >>> from streamddcrp import sample_graph_crp
    >>> X = [[0.1], [-0.2], [0.2], [8.1], [7.9], [8.3]]
    >>> path = [[i, i + 1] for i in range(5)]
    >>> draws = sample_graph_crp(X, ("normal_gamma", 0.0, 0.05, 2.0, 1.0), edges=path, seed=0)
    >>> np.unique(draws.labels, axis=0, return_counts=True)[0][:3].shape[1]
    6
    """
    if (edges is None) == (parents is None):
        raise ConfigError("give the graph either by edges or by parents")
    rows = as_observations(X)
    n = len(rows)
    graph = graphs.from_parents(parents) if edges is None else graphs.decomposable(n, edges)
    if len(graph.order) != n:
        raise SchemaError(
            f"parents: expected one list for each of the {n} rows, got {len(graph.order)}"
        )
    plan = Plan.checked(n_chains, n_sweeps, burn_in, thin)
    family = fitted(likelihood, rows)
    config = make_config(
        family=family.family, hyper=family.hyper(rows.shape[1]), window=1, given=True, alpha=alpha,
        discount=discount,
    )  # fmt: skip
    prepared = np.ascontiguousarray(family.prepare(rows)[0])
    drawn = plan.run(
        lambda rng: _Chain(graph, prepared, config, alpha, rng), seed, progress=progress
    )
    log_joint, labels, n_clusters, alphas = map(np.array, drawn)
    return GraphCRPSamples(plan.chain, log_joint, labels, n_clusters, alphas, graph, family)


class _Chain:
    """The state of the sampler; each item starts in a cluster of its own."""

    def __init__(
        self, graph: graphs.DecomposableGraph, rows: FloatArray, config: Any, alpha: Any, rng: Any
    ) -> None:
        n, family, hyper = len(rows), config.family, config.hyper
        self.graph, self.rows, self.rng = graph, rows, rng
        self.prior = None if not math.isnan(config.alpha) else (float(alpha[1]), float(alpha[2]))
        if self.prior is not None:
            config = config._replace(alpha=self.prior[0] / self.prior[1])
        self.config = config
        sizes = np.array([len(p) for p in graph.parents], np.float64)
        self.n_parents, self.times = np.unique(sizes, return_counts=True)
        self.flat = graphs.flat(graph)
        stats, post = np.zeros((n, int(n_stats(family, hyper)))), int(n_post(family, hyper))
        self.clusters = Clusters(
            np.arange(n), np.ones(n, np.int64), stats, np.zeros((n, post)), np.zeros(post)
        )
        self.labels = self.clusters.labels
        posterior(family, hyper, stats[0], self.clusters.prior)
        self.begin(np.arange(n))
        whole = np.zeros((3, n), np.int64)
        self.work = Work(whole[0], whole[1], np.zeros(n + 1), whole[2])

    def begin(self, labels: IntArray) -> None:
        """Start from a partition: labels below N."""
        family, hyper, clusters = self.config.family, self.config.hyper, self.clusters
        clusters.labels[:] = labels
        clusters.size[:] = np.bincount(labels, minlength=len(labels))
        clusters.stats[:] = 0.0
        for x, k in zip(self.rows, clusters.labels, strict=True):
            add_stats(family, hyper, x, 1.0, clusters.stats[k])
        for stats, post in zip(clusters.stats, clusters.post, strict=True):
            posterior(family, hyper, stats, post)

    def _sweep(self, order: IntArray) -> None:
        uniforms = self.rng.random(len(order))
        sweep(self.config, self.rows, order, self.flat, self.clusters, self.work, uniforms)

    def sweep(self) -> None:
        """Draw all clusters once, then alpha."""
        self._sweep(np.arange(len(self.rows)))
        if self.prior is not None:
            alpha = draw_alpha(
                self.config.alpha, *self.prior, len(np.unique(self.labels)), self.n_parents,
                self.times.astype(np.float64), self.rng,
            )  # fmt: skip
            self.config = self.config._replace(alpha=alpha)

    def draw(self) -> tuple[Any, ...]:
        """Return log joint, names of clusters, their number, and alpha."""
        labels = named(self.labels).astype(np.int32)
        return self.log_joint(), labels, len(np.unique(labels)), self.config.alpha

    def log_joint(self) -> float:
        marginals, config = self.clusters.post[np.unique(self.labels), 0].sum(), self.config
        prior = graphs.log_prior(self.graph, self.labels, config.alpha, config.discount)
        return float(marginals) + prior
