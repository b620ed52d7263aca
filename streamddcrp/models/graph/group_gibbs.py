"""Gibbs sampling of clusters shared by related groups."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from streamddcrp.arguments import checked
from streamddcrp.data import as_observations
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.estimator.sweeps import Draws, Plan, fitted
from streamddcrp.likelihoods import Likelihood, LikelihoodSpec
from streamddcrp.likelihoods.kernels.families import n_post, n_stats, posterior
from streamddcrp.models.graph.config import Concentration, Grid, concentration
from streamddcrp.models.graph.gibbs import Clusters
from streamddcrp.models.graph.group_state import Cells, Config, Groups, Particles, Scratch, dense
from streamddcrp.models.graph.groups import (
    Path,
    group_of,
    layers_of,
    listed,
    path_of,
    refuse_regression,
)
from streamddcrp.models.graph.kernels.cells import TABLES, add_to, take_from
from streamddcrp.models.graph.kernels.children import N_COUNTS, free_slot
from streamddcrp.models.graph.kernels.gibbs import draw_alpha
from streamddcrp.models.graph.kernels.group import mixture_densities, sweep_rows
from streamddcrp.partitions import named
from streamddcrp.records import empty
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp.validation import choice, positive

MOST = 50  # largest number of auxiliary items if it is drawn
_CHANGES = 10  # proposed changes of it in a sweep


@dataclass(frozen=True, slots=True)
class GroupDPSamples(Draws):
    """Draws of the clusters of all rows, and of the auxiliary items that tie their groups.

    Attributes
    ----------
    labels : ndarray of int32, shape (S, N)
        Clusters, named after their smallest row.
    auxiliary : ndarray of int32, shape (S, M)
        Clusters of the auxiliary items of the root, then of each node, or with ``gamma`` of the
        tables of all groups; -1: one without rows, or no item.
    n_clusters : ndarray of int64, shape (S,)
        Clusters with rows.
    alpha : ndarray of float64, shape (S,)
        ``log_joint`` is log p(x, clusters of rows and auxiliary items) at it.
    root_items : ndarray of int64, shape (S,)
        Number of auxiliary items of the root, or of tables.
    X : ndarray of float64, shape (N, D)
        The rows.
    group : ndarray of int64, shape (N,)
        Their groups, as indices of
    groups : list
        the groups in the order of their first rows, as text or (node, name).
    markov : bool
        Whether the group of a row is the cluster of the row before.
    n_shared : list of int
        Auxiliary items of the root (at most) and, with two layers, of each node.
    gamma : float
        Infinite without a hierarchical Dirichlet process.
    likelihood : Likelihood
        With parameters taken from the rows.
    """

    _traced = ("n_clusters", "alpha", "root_items")

    labels: NDArray[np.int32]
    auxiliary: NDArray[np.int32]
    n_clusters: IntArray
    alpha: FloatArray
    root_items: IntArray
    X: FloatArray
    group: IntArray
    groups: list[Any]
    markov: bool
    n_shared: list[int]
    gamma: float
    likelihood: Likelihood

    def log_predictive(self, X: object, group: Any = None) -> FloatArray:
        """Return the log density of each of M new rows separately, given the rows of the samples.

        A density is the mean over the draws: O(S M K) densities of clusters.

        Parameters
        ----------
        X : array_like of float, shape (M, D)
        group : sequence of length M, optional
            Groups, as for `sample_group_dp`, possibly new. In a Markov chain each row is taken as
            the one after the last row of the samples.

        Returns
        -------
        ndarray of float64, shape (M,)

        Raises
        ------
        SchemaError
            The rows do not match those of the samples, or the groups do not match the rows.
        """
        rows = as_observations(X)
        if rows.shape[1] != self.X.shape[1]:
            raise SchemaError(f"X: expected {self.X.shape[1]} columns, got {rows.shape[1]}")
        family = self.likelihood
        family.check_rows(rows)
        paths = _paths(group, len(rows), len(self.n_shared), self.markov)
        asked = list(dict.fromkeys(paths))
        at = np.array([asked.index(path) for path in paths])
        stats = family.suffstats(self.X)
        hyper = family.hyper(rows.shape[1])
        test = np.ascontiguousarray(family.prepare(rows)[0])
        out, log_density = np.full(len(rows), -np.inf), np.empty(len(rows))
        for s, labels in enumerate(self.labels):
            tables, of_row = np.unique(labels, return_inverse=True)
            total = np.zeros((len(tables) + 1, stats.shape[1]))
            np.add.at(total, of_row, stats)
            mixture_densities(
                family.family, hyper, test, at, self._weights(s, tables, of_row, asked), total,
                np.empty((len(total), int(n_post(family.family, hyper)))), np.empty(len(total)),
                log_density,
            )  # fmt: skip
            np.logaddexp(out, log_density, out=out)
        return out - math.log(len(self.labels))

    def _weights(self, s: int, tables: IntArray, of_row: IntArray, paths: list[Path]) -> FloatArray:
        """Probabilities of the tables, and of a new one, in each of G groups: (G, K + 1)."""
        alpha, n_root, n_node = self.alpha[s], self.n_shared[0], self.n_shared[-1]
        known = [(path,) if isinstance(path, str) else path for path in self.groups]
        nodes = list(dict.fromkeys(path[0] for path in known))
        out = np.zeros((len(paths), len(tables) + 1))
        for c, path in enumerate(paths):
            items, size, share = self.auxiliary[s, :n_root], int(self.root_items[s]), 1.0
            if len(path) == 2 and path[0] in nodes:
                first = n_root + nodes.index(path[0]) * n_node
                items, size = self.auxiliary[s, first : first + n_node], n_node
            elif len(path) == 2:  # the auxiliary items of a new node are not drawn
                share = n_node / (alpha + n_node)
            np.add.at(out[c], np.searchsorted(tables, items[items >= 0]), 1.0)
            if self.gamma < np.inf:
                out[c] *= alpha / (self.gamma + size)
                size = 0
            if path in known:
                mine = of_row[self.group == known.index(path)]
                if self.markov:
                    mine = of_row[1:][of_row[:-1] == of_row[-1]]
                np.add.at(out[c], mine, 1.0)
                size += len(mine)
            out[c] *= share / (alpha + size)
        out[:, -1] = 1.0 - out.sum(axis=1)
        return out


@checked
def sample_group_dp(
    X: object,
    likelihood: LikelihoodSpec = "auto",
    *,
    group: Any = None,
    n_shared: int | tuple[int, int] | str = 20,
    alpha: Concentration = ("gamma", 1.0, 1.0),
    gamma: float | None = None,
    markov: bool = False,
    n_chains: int = 4,
    n_sweeps: int = 1000,
    burn_in: int = 200,
    thin: int = 1,
    seed: int | None = 0,
    progress: bool = False,
) -> GroupDPSamples:
    """Sample clusters shared by related groups: the model of `GroupDP` for whole data.

    A sweep draws the cluster of every row by its full conditional: a cluster of m auxiliary items
    and m' rows of the group weighs m + m', a new one alpha, times the predictive density. After
    each row some auxiliary items are drawn likewise, each at least about once in a sweep. The chain
    starts from one pass over the rows.

    Parameters
    ----------
    X : array_like of float, shape (N, D)
        NaN in a masked array is a missing value.
    likelihood : "auto", tuple or Likelihood, default "auto"
        As for `GroupDP`; missing parameters come from the rows.
    group : sequence of length N, optional
        Group of each row: a name, or (node, name) where there are two layers. Default: one group.
    n_shared : int, tuple of two int or "auto", default 20
        Auxiliary items; two numbers: of the root, and of each node between root and groups. "auto":
        one layer, whose number is drawn, by adding and removing items, under a uniform prior on 1
        to 50.
    alpha : float or ("gamma", shape, rate), default ("gamma", 1.0, 1.0)
        Concentration of every group; with a prior it is also drawn.
    gamma : float, optional
        As for `GroupDP`: a hierarchical Dirichlet process of this concentration, without auxiliary
        items. The tables of the groups are drawn with the clusters.
    markov : bool, default False
        Whether the group of a row is the previous row's cluster, as in `GroupDP`: states of an
        infinite hidden Markov model given all rows, before and after.
    n_chains, n_sweeps, burn_in, thin, seed, progress
        As for `sample_ddcrp`.

    Raises
    ------
    SchemaError
        A group has the wrong form, or a value is outside the family's support.

    Notes
    -----
    A sweep costs a predictive density for each row and cluster, and O(K C) for each drawn auxiliary
    item, with K clusters and C groups (K in a Markov chain, where a row costs O(K^2) more).

    Examples
    --------
    >>> from streamddcrp import sample_group_dp
    >>> X = [[0.1], [8.1], [-0.1], [8.3], [7.9], [0.2]]
    >>> prior = ("normal_gamma", 0.0, 0.05, 1.5, 0.5)
    >>> draws = sample_group_dp(X, prior, group=["a", "a", "b", "b", "a", "b"])
    >>> bool((draws.labels == [0, 1, 0, 1, 1, 0]).all(axis=1).mean() > 0.5)
    True
    """
    rows = as_observations(X)
    learned = isinstance(n_shared, str) and choice("n_shared", n_shared, ("auto",)) == "auto"
    layers, (value, *_) = layers_of(MOST if learned else n_shared), concentration(alpha)
    if markov and len(layers) > 1:
        raise ConfigError(f"n_shared must be one number in a Markov chain, got {n_shared!r}")
    if gamma is not None:
        if markov or learned or len(layers) > 1:
            raise ConfigError("gamma: neither a Markov chain, nor auxiliary items or layers")
        layers = [0]
    paths = _paths(group, len(rows), len(layers), markov)
    plan = Plan.checked(n_chains, n_sweeps, burn_in, thin)
    family = fitted(likelihood, rows)
    refuse_regression(family, rows.shape[1])
    n_root, n_node = (*layers, 0)[:2]
    config = Config(
        family.family, family.hyper(rows.shape[1]), value, n_root, n_node, 1, bool(markov), 0, 0,
        gamma=math.inf if gamma is None else positive("gamma", gamma, "None"),
    )  # fmt: skip
    found = list(dict.fromkeys(paths))
    number = np.array([found.index(path) for path in paths])
    nodes = list(dict.fromkeys(path[0] for path in found)) if n_node else []
    node = np.array([nodes.index(path[0]) + 1 if n_node else 0 for path in found])
    prior = (float(alpha[1]), float(alpha[2])) if isinstance(alpha, Sequence) else None
    prepared = np.ascontiguousarray(family.prepare(rows)[0])
    drawn = plan.run(
        lambda rng: _Chain(prepared, number, node, config, prior, rng, learned=learned),
        seed,
        progress=progress,
    )
    log_joint, labels, auxiliary, n_clusters, alphas, items = map(np.array, drawn)
    groups = [*map(group_of, found)]
    return GroupDPSamples(
        plan.chain, log_joint, labels, auxiliary, n_clusters, alphas, items, rows, number, groups,
        bool(markov), layers if gamma is None else [len(rows)], config.gamma, family,
    )  # fmt: skip


def _paths(group: Any, n_rows: int, n_layers: int, markov: bool) -> list[Path]:
    if markov and group is not None:
        raise SchemaError(f"group: expected none in a Markov chain, got {group!r}")
    given = [None] * n_rows if group is None else listed(group, n_rows)
    return [path_of(one, n_layers, row) for row, one in enumerate(given)]


class _State(NamedTuple):
    """The state that sweeps update: one particle, whose clusters are not shared."""

    particles: Particles
    own: Cells
    aux: Cells
    groups: Groups
    grid: Grid
    clusters: Clusters
    seats: tuple[IntArray, IntArray]  # with gamma: tables of rows (N,), rows of tables (N,)
    scratch: Scratch
    counts: IntArray


class _Chain:
    """The state of the sampler; initially no row has a cluster.

    ``prior``: shape and rate for alpha, None if it is known.
    """

    def __init__(
        self, rows: FloatArray, group: IntArray, node: IntArray, config: Config,
        prior: tuple[float, float] | None, rng: np.random.Generator, *, learned: bool = False,
    ) -> None:  # fmt: skip
        n, A = len(rows), 1 + int(node.max())
        M = config.n_root + (A - 1) * config.n_node
        if prior is not None:
            config = config._replace(alpha=prior[0] / prior[1])
        self.config = config._replace(moves=-(-M // n), seed=int(rng.integers(1 << 62)))
        self.rows, self.group, self.node, self.prior, self.rng = rows, group, node, prior, rng
        lengths = {
            "P": 1, "K": n + M, "O": n + M + 1, "A": A, "G": len(node), "N": 1, "J": 0,
            "B": 1, "T": 1,
        }  # fmt: skip
        family, hyper = config.family, config.hyper
        shape = n + M, int(n_stats(family, hyper))
        post = np.zeros((n + M, int(n_post(family, hyper))))
        self.state = _State(
            particles=empty(Particles, lengths), scratch=empty(Scratch, lengths),
            groups=empty(Groups, lengths), grid=empty(Grid, lengths),
            own=empty(Cells, {"P": 1, "R": n}), aux=empty(Cells, {"P": 1, "R": M}),
            clusters=Clusters(
                np.full(n, -1), np.zeros(n + M, np.int64), np.zeros(shape), post, post[0].copy()
            ),
            seats=(np.zeros(n, np.int64), np.zeros(n, np.int64)),
            counts=np.zeros(N_COUNTS, np.int64),
        )  # fmt: skip
        self.state.particles.weight[0] = 1.0
        self.state.groups.node[:], self.state.groups.n[:] = node, (A, len(node))
        posterior(family, hyper, self.state.clusters.stats[0], self.state.clusters.prior)
        self.labels, self.n, self.learned = self.state.clusters.labels, 0, learned
        self._set_items(config.n_root)

    def _set_items(self, n_root: int) -> None:
        """Set the number of the root's auxiliary items, and update all parents."""
        self.config = config = self.config._replace(n_root=n_root)
        size = np.bincount(self._followed if config.markov else self.group)
        items = np.where(self.node > 0, config.n_node, n_root)  # above each group
        parents = [np.arange(n_root)]
        parents += [n_root + np.arange(config.n_node)] * (int(self.node.max()))
        parents += [
            m + np.arange(s) for m, s in zip(np.broadcast_to(items, len(size)), size, strict=True)
        ]
        self.n_parents, times = np.unique(np.concatenate(parents), return_counts=True)
        self.n_parents, self.times = self.n_parents.astype(np.float64), times.astype(np.float64)

    def sweep(self) -> None:
        """Draw all clusters once, then the number of auxiliary items, and alpha."""
        self.sweep_rows()
        for _ in range(_CHANGES if self.learned else 0):
            self._change_items()
        if self.prior is not None:
            alpha = draw_alpha(
                self.config.alpha, *self.prior, self._n_opened, self.n_parents, self.times, self.rng
            )
            self.config = self.config._replace(alpha=alpha)

    def _change_items(self) -> None:
        """Propose to add or remove an auxiliary item of the root; accept or undo.

        A new one joins a table of a items with weight a; one of rows alone, or none, with an equal
        share of alpha. Any is as likely to be removed. A table of several groups needs an item.
        """
        N, more = self.config.n_root, self.rng.random() < 0.5
        if (MOST if more else 1) == N:
            return
        before, n_aux = self.log_joint(), self.state.particles.n_aux[0]
        if more:
            tables, share = self._shares()
            pick = int(self.rng.choice(len(share), p=share))
            k, log_ratio = int(tables[pick]), -math.log(share[pick])
        else:
            k = int(self.rng.choice(len(n_aux), p=n_aux / N))
        self._put(k, more=more)
        if not more:
            tables, share = self._shares()
            at = np.flatnonzero(tables == (k if n_aux[k] or self.state.clusters.size[k] else -1))
            log_ratio = math.log(share[at[0]])
            if n_aux[k] == 0 and np.count_nonzero(self._own[1] == k) > 1:
                log_ratio = -math.inf
        if math.log(1.0 - self.rng.random()) >= self.log_joint() - before + log_ratio:
            self._put(self._placed if more else k, more=not more)

    def _shares(self) -> tuple[IntArray, FloatArray]:
        """Return tables, and -1, with the probabilities that a new item joins them."""
        tables = np.append(self._tables, -1)
        items = np.append(self.state.particles.n_aux[0][tables[:-1]], 0)
        alone = items == 0
        share = np.where(alone, self.config.alpha / alone.sum(), items)
        return tables, share / (self.config.alpha + self.config.n_root)

    def _put(self, k: int, *, more: bool) -> None:
        """Add an item of the root to a table (-1: a new one), or remove one."""
        particles, aux = self.state.particles, self.state.aux
        if more:
            if k < 0:
                k = int(free_slot(particles, 0, particles.n_aux))
            add_to(aux, 0, 0, k, 1)
        else:
            take_from(aux, 0, 0, k)
        particles.n_aux[0, k] += 1 if more else -1
        self._placed = k
        self._set_items(self.config.n_root + (1 if more else -1))

    def sweep_rows(self) -> None:
        """Draw all clusters, of rows and auxiliary items, once."""
        sweep_rows(self.config, self.state, self.rows, self.group, self.n)
        self.n += len(self.rows)
        self.state.particles.n_tables[0] = self._tables[-1] + 1
        if self.config.markov:
            self._set_items(self.config.n_root)

    @property
    def _followed(self) -> IntArray:
        """Groups of rows in a Markov chain: 0, or 1 + the cluster of the row before."""
        return np.append(0, self.labels[:-1] + 1)

    @property
    def _own(self) -> tuple[IntArray, IntArray, IntArray]:
        """Groups and clusters that have rows together, and their number."""
        own = self.state.own
        return *np.divmod(own.cell[0, : own.n[0]], TABLES), own.items[0, : own.n[0]]

    @property
    def _n_opened(self) -> int:
        """Number of clusters, or with gamma of tables, that alpha has opened."""
        if self.config.gamma < np.inf:
            return int(self.state.particles.n_aux[0].sum())
        return len(self._tables)

    @property
    def _tables(self) -> IntArray:
        return np.flatnonzero((self.state.clusters.size > 0) | (self.state.particles.n_aux[0] > 0))

    def names(self) -> tuple[IntArray, IntArray]:
        """Clusters of rows, after their smallest row, and of auxiliary items, -1 without rows."""
        labels = named(self.labels)
        name = np.full(len(self.state.clusters.size), -1)
        name[self.labels] = labels
        aux = dense(self.state.aux, 0, int(self.state.groups.n[0]), len(name))
        if self.config.gamma < np.inf:
            aux = self.state.particles.n_aux
        auxiliary = [np.repeat(name, counts) for counts in aux]
        return labels, np.concatenate([np.sort(items) for items in auxiliary])

    def draw(self) -> tuple[Any, ...]:
        """Return log joint, names of clusters of rows and auxiliary items, number, and alpha."""
        labels, auxiliary = (part.astype(np.int32) for part in self.names())
        N = self.config.n_root
        if self.config.gamma < np.inf:
            N = self._n_opened
            auxiliary = np.pad(auxiliary, (0, len(labels) - N), constant_values=-1)
        if self.learned:
            auxiliary = np.pad(auxiliary, (0, MOST - N), constant_values=-1)
        return self.log_joint(), labels, auxiliary, len(np.unique(labels)), self.config.alpha, N

    def log_joint(self) -> float:
        """Log p(x, clusters): n of an item's m parents in its cluster are n / (alpha + m).

        With gamma, log p(x, tables, clusters).
        """
        alpha, gamma, tables, T = self.config.alpha, self.config.gamma, self._tables, self._n_opened
        K = len(self.state.clusters.size)
        aux, (group, table, own) = (
            dense(self.state.aux, 0, int(self.state.groups.n[0]), K),
            self._own,
        )
        above = aux[0 if self.config.markov else self.node[group], table]
        total = _log_factorials(aux[0]) + _log_factorials(above + own) - _log_factorials(above)
        total += _log_factorials(aux[0] + aux[1:]) - (len(aux) - 1) * _log_factorials(aux[0])
        if gamma < np.inf:
            total = _log_factorials(self.state.seats[1])
            total += _log_factorials(self.state.particles.n_aux[0])
            total += len(tables) * math.log(gamma) + gammaln(gamma) - gammaln(gamma + T)
        total += T * math.log(alpha) - self.times @ np.log(alpha + self.n_parents)
        with_rows = self.state.clusters.size > 0
        return float(total + self.state.clusters.post[with_rows, 0].sum())


def _log_factorials(counts: IntArray) -> float:
    """Sum of log (n - 1)! over positive counts n."""
    return float(gammaln(np.maximum(counts, 1)).sum())
