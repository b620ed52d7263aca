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


class Sets(NamedTuple):
    """Cliques or separators: those that hold each item, and the members of each."""

    of_item: IntArray
    item_starts: IntArray
    members: IntArray
    starts: IntArray


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
        With the parameters that were taken from the rows.
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

    The Chinese restaurant process holds on every clique. Sweeps go over all items and draw the
    cluster of each by its full conditional: cluster j weighs the product of its counts in the
    cliques around the item over that in the separators, times the predictive density; an item that
    alone holds its cluster together stays.

    Parameters
    ----------
    X : array_like of float, shape (N, D)
        NaN in a masked array is a missing value.
    likelihood : "auto", tuple or Likelihood, default "auto"
        As for `GraphCRP`; numbers left out come from the rows.
    edges : array_like of int, shape (E, 2), optional
        Of the graph; or
    parents : sequence of N sequences of int, optional
        earlier neighbours of each item, all neighbours of each other.
    alpha : float or ("gamma", shape, rate), default ("gamma", 1.0, 1.0)
        Concentration; with a prior it is drawn, too.
    discount : float, default 0.0
        d of a Pitman-Yor process on every clique, 0 <= d < 1. Needs a number as ``alpha``.
    n_chains, n_sweeps, burn_in, thin, seed, progress
        As for `sample_ddcrp`.

    Raises
    ------
    ConfigError
        An option is out of range.
    SchemaError
        The graph is not decomposable, or a value is outside the family's support.

    Notes
    -----
    A sweep costs the sum over the items of the sizes of the cliques around them, and a predictive
    density for each cluster they meet. On long chains and other sparse graphs clusters move at
    their ends only, and mix slowly.

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
        n = len(rows)
        self.graph, self.rows, self.config, self.rng = graph, rows, config, rng
        self.prior = None if not math.isnan(config.alpha) else (float(alpha[1]), float(alpha[2]))
        self.alpha = config.alpha if self.prior is None else self.prior[0] / self.prior[1]
        sizes = np.array([len(p) for p in graph.parents], np.float64)
        self.n_parents, self.times = np.unique(sizes, return_counts=True)
        self.cliques, self.separators = _sets(graph.cliques, n), _sets(graph.separators, n)
        self.order = np.arange(n)
        self.labels, self.size = np.arange(n), np.ones(n, np.int64)
        family, hyper = config.family, config.hyper
        self.stats = np.zeros((n + 1, int(n_stats(family, hyper))))
        self.post = np.zeros((n + 1, int(n_post(family, hyper))))
        self.prior_post = np.zeros(self.post.shape[1])
        posterior(family, hyper, self.stats[n], self.prior_post)
        self.begin(self.labels)
        zeros = np.zeros(n, np.int64)
        self.work = Work(zeros, zeros.copy(), np.zeros(n + 1), zeros.copy())

    def begin(self, labels: IntArray) -> None:
        """Start from a partition: labels below N."""
        family, hyper = self.config.family, self.config.hyper
        self.labels = np.array(labels, np.int64)
        self.size = np.bincount(self.labels, minlength=len(labels))
        self.stats[:] = 0.0
        for x, k in zip(self.rows, self.labels, strict=True):
            add_stats(family, hyper, x, 1.0, self.stats[k])
        for stats, post in zip(self.stats, self.post, strict=True):
            posterior(family, hyper, stats, post)

    def _sweep(self, order: IntArray) -> None:
        sweep(
            self.config.family, self.config.hyper, self.rows, order, self.cliques, self.separators,
            self.alpha, self.config.discount, self.labels, self.size, self.stats, self.post,
            self.prior_post, self.work, self.rng.random(len(order)),
        )  # fmt: skip

    def sweep(self) -> None:
        """Draw all clusters once, then alpha."""
        self._sweep(self.order)
        if self.prior is not None:
            k = len(np.unique(self.labels))
            self.alpha = draw_alpha(
                self.alpha, *self.prior, k, self.n_parents, self.times.astype(np.float64), self.rng
            )

    def draw(self) -> tuple[Any, ...]:
        """Return log joint, names of clusters, their number, and alpha."""
        labels = named(self.labels).astype(np.int32)
        return self.log_joint(), labels, len(np.unique(labels)), self.alpha

    def log_joint(self) -> float:
        marginals = self.post[np.unique(self.labels), 0].sum()
        return float(marginals) + graphs.log_prior(
            self.graph, self.labels, self.alpha, self.config.discount
        )


def _sets(sets: list[frozenset[int]], n: int) -> Sets:
    """Lay out sets of items as arrays."""
    starts, members = graphs.concatenated([sorted(one) for one in sets])
    item_starts, of_item = graphs.concatenated(graphs.holders(sets, n))
    return Sets(of_item, item_starts, members, starts)
