"""Clusters that related groups share, as a streaming estimator."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
from river import base

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.estimator.particle_model import ParticleModel
from streamddcrp.estimator.row_model import Features
from streamddcrp.likelihoods import Likelihood, LikelihoodSpec
from streamddcrp.models.graph import group_state
from streamddcrp.models.graph import groups as grouping
from streamddcrp.models.graph.config import CLUSTER, Concentration, concentration
from streamddcrp.records import refuse_if
from streamddcrp.typing import FloatArray
from streamddcrp.validation import particle_count, positive, whole


class GroupDP(ParticleModel, base.Clusterer):
    """Clusters of rows of several related groups, shared between the groups, by particles.

    Each group has its own Dirichlet process, and ``n_shared`` auxiliary items tie them: a row joins
    a cluster that has n auxiliary items and m rows of its group with weight n + m, and a new one
    with weight alpha. More auxiliary items, relative to alpha, make the groups more alike: their
    distributions correlate by n_shared / (alpha + n_shared) on every set. At most n_shared clusters
    can be shared. It is an alternative to the hierarchical Dirichlet process in which everything
    can be integrated out.

    Parameters
    ----------
    n_shared : int or tuple of two int, default 20
        Auxiliary items; two numbers: of the root, and of each node between root and groups.
    alpha : float or ("gamma", shape, rate), default 1.0
        Concentration of every group. With a prior it is integrated out.
    markov : bool, default False
        Whether the group of a row is the previous row's cluster: an infinite hidden Markov model of
        one sequence, without given groups; see ``transitions``. Only clusters with auxiliary items,
        at most n_shared, can follow themselves or several others.
    likelihood : "auto", tuple or Likelihood, default "auto"
        "auto" chooses a family for each column from the first rows. Autoregressive families are not
        supported.
    n_particles : int, default 50
    seed : int, default 0

    Other Parameters
    ----------------
    moves : int, default 5
        Auxiliary items resampled after each arrival, in each particle. They are drawn from the
        prior, so only these moves adapt them to the rows.
    max_tables : int, default 1000
        Most clusters in memory, for all particles together. Beyond that, the one with the fewest
        rows relative to its absence is forgotten; the log says so once.
    max_groups : int, default 1000
        Most groups in memory. For a new one, the one with the fewest rows relative to its absence
        is forgotten.
    gamma : float, optional
        If given, groups are tied by a hierarchical Dirichlet process with this concentration, not
        by auxiliary items: a row joins a table of its group in proportion to its rows, or opens one
        with weight alpha, whose cluster has weight T_k, its tables in all groups, or gamma if it is
        new. Any number of clusters can be shared. ``n_shared`` and ``moves`` are not used.
    warmup : int, default 64
        Rows collected first if the likelihood must be learned from them.

    Notes
    -----
    Forgotten rows no longer influence later ones, and a group or cluster that returns is a new one.
    Clusters with rows of other groups keep what they learned from a forgotten group. The evidence
    is unbiased until a cluster is forgotten.

    Memory and the time of a row grow with the pairs of group and cluster that have rows: at most
    max_tables + max_groups n_shared of them in each particle. The algorithm is described in
    `streamddcrp.models.graph`.

    Examples
    --------
    >>> from streamddcrp import GroupDP
    >>> model = GroupDP(likelihood=("normal_gamma", 0.0, 0.05, 1.5, 0.5), n_particles=20)
    >>> model.learn_many([[0.1], [8.1], [-0.1], [8.3], [7.9]], group=["a", "a", "b", "b", "a"])
    >>> model.predict_one({0: 8.0}, group="b")
    1
    >>> model.correlation("a", "b")
    0.952
    """

    def __init__(
        self,
        *,
        n_shared: int | tuple[int, int] = 20,
        alpha: Concentration = 1.0,
        markov: bool = False,
        likelihood: LikelihoodSpec = "auto",
        n_particles: int = 50,
        seed: int = 0,
        moves: int = 5,
        max_tables: int = 1000,
        max_groups: int = 1000,
        gamma: float | None = None,
        warmup: int = 64,
    ) -> None:
        self.n_shared = n_shared
        self.alpha = alpha
        self.markov = markov
        self.likelihood = likelihood
        self.n_particles = n_particles
        self.moves = moves
        self.max_tables = max_tables
        self.max_groups = max_groups
        self.gamma = gamma
        self.seed = seed
        super().__init__(likelihood, warmup)
        self._layers = grouping.layers_of(n_shared) if gamma is None else [0]
        self._gamma = math.inf if gamma is None else positive("gamma", gamma, "None")
        if gamma is not None and isinstance(n_shared, tuple | list):
            raise ConfigError("gamma: a hierarchical Dirichlet process has one layer of groups")
        if markov and len(self._layers) > 1:
            raise ConfigError(f"n_shared must be one number in a Markov chain, got {n_shared!r}")
        self._alpha, *self._prior = concentration(alpha)
        n_tables = sum(self._layers) + whole("moves", moves, 0, 1 << 16)
        particle_count(n_particles, CLUSTER * (n_tables + 1), "n_shared and moves")
        whole("max_tables", max_tables, 1, 1 << 20)
        whole("max_groups", max_groups, 1, 1 << 20)
        whole("seed", seed, 0, (1 << 63) - 1)

    # -- learning --------------------------------------------------------------------------------

    @property
    def takes_groups(self) -> bool:
        """Whether rows have groups: not in a Markov chain."""
        return not self.markov

    def learn_one(self, x: Features, t: Any = None, group: Any = None) -> None:
        """Learn one row, as `SeqDDCRP.learn_one` does; the time is used only in events.

        Parameters
        ----------
        group : str, int, or tuple of two of them, optional
            Its group; with two layers its node and its group. Default: one group for all. Not used
            in a Markov chain.
        """
        self._learn_row(x, t, [group])

    def learn_many(self, batch: object, t: object = None, group: Any = None) -> None:
        """Learn a batch, bit for bit as one by one, with the ``group`` of each row, if any."""
        self._learn_batch(batch, t, group)

    def step_many(
        self, batch: object, t: object = None, group: Any = None, *, index: bool = False
    ) -> pa.RecordBatch:
        """Predict each row of a batch, then learn it; return what `GraphCRP.step_many` does."""
        return self._stepped(batch, t, index, group)

    def _advance(
        self, X: FloatArray, t: FloatArray | None, types: list[str], group: Any = None
    ) -> FloatArray:
        if len(X) == 0:
            return super()._advance(X, t, types)
        named = [None] * len(X) if group is None else grouping.listed(group, len(X))
        groups = grouping.RowGroups([self._path(group, row) for row, group in enumerate(named)])
        return super()._advance(X, t, types, groups)

    def _path(self, group: Any, row: int = 0) -> grouping.Path:
        """Return a group's name as text, checked."""
        if self.markov and group not in (None, ""):
            raise SchemaError(
                f"row {row}, group: expected none in a Markov chain, got {group!r}", row=row
            )
        return grouping.path_of(group, len(self._layers), row)

    def _blank(
        self, likelihood: Likelihood, n_features: int, *groups: grouping.RowGroups, clocked: bool,
        first_time: float, times: FloatArray,
    ) -> grouping.GroupEngine:  # fmt: skip
        config = self._config(likelihood, n_features)
        return grouping.GroupEngine(likelihood, config, group_state.empty_state(config), n_features)

    def _config(self, likelihood: Likelihood, n_features: int) -> group_state.Config:
        grouping.refuse_regression(likelihood, n_features)
        n_root, n_node = (*self._layers, 0)[:2]
        nodes, log_prior = self._prior
        return group_state.Config(
            likelihood.family, likelihood.hyper(n_features), self._alpha, n_root, n_node,
            self.n_particles, bool(self.markov), self.moves, self.seed, nodes, np.log(nodes),
            log_prior, self.max_tables, self.max_groups, self._gamma,
        )  # fmt: skip

    def _continued(
        self, likelihood: Likelihood, arrays: dict[str, Any], meta: dict[str, Any]
    ) -> grouping.GroupEngine:
        config = self._config(likelihood, meta["n_features"])
        paths = [self._path(grouping.group_of(path)) for path in meta["paths"]]
        nodes = meta["nodes"]
        place = {node: a for a, node in enumerate(nodes, 1)}
        node = [place[path[0]] if len(path) == 2 else 0 for path in paths]
        refuse_if(
            len({*paths}) < len(paths) or node != arrays["groups.node"].tolist(),
            "groups and their nodes",
        )
        refuse_if(len(nodes) != max(int(arrays["groups.n"][0]) - 1, 0), "nodes")
        return grouping.GroupEngine.continued(
            likelihood, config, arrays, meta["n_features"], paths=paths, nodes=list(nodes)
        )

    # -- predicting ------------------------------------------------------------------------------

    def predict_one(self, x: Features, t: Any = None, group: Any = None) -> int:
        return self._label_of(self._predict(x, t, grouping.RowGroups([self._path(group)])))

    def predict_proba_one(self, x: Features, t: Any = None, group: Any = None) -> dict[int, float]:
        return self._probabilities_of(self._predict(x, t, grouping.RowGroups([self._path(group)])))

    def score_one(self, x: Features, t: Any = None, group: Any = None) -> float:
        return self._score_of(self._predict(x, t, grouping.RowGroups([self._path(group)])))

    # -- looking at the model --------------------------------------------------------------------

    @property
    def groups(self) -> list[Any]:
        """Groups so far, in the order of their first rows."""
        paths = self._coming.paths if self._engine is None else self._engine.paths
        return [grouping.group_of(path) for path in dict.fromkeys(paths)]

    def correlation(self, a: Any, b: Any) -> float:
        """Return the prior correlation of two groups' distributions, on any set.

        It is the product of N / (alpha + N) over the auxiliary sets between them, and with
        ``gamma`` (1 + alpha) / (1 + alpha + gamma); for learned alpha, its mean over the posterior
        of alpha.
        """
        one, two = self._path(a), self._path(b)
        if one == two:
            return 1.0
        alpha, weight = self._alpha_weights()
        if self.gamma is not None:
            return float(weight @ ((1.0 + alpha) / (1.0 + alpha + self.gamma)))
        ties = [n / (alpha + n) for n in self._layers]
        between = ties[0]
        if len(ties) == 2:
            between = ties[1] if one[0] == two[0] else ties[1] * ties[0] * ties[1]
        return float(weight @ between)

    @property
    def alpha_mean(self) -> float:
        """Posterior mean of the concentration."""
        alpha, weight = self._alpha_weights()
        return float(weight @ alpha)

    def _alpha_weights(self) -> tuple[FloatArray, FloatArray]:
        """Values of alpha (J,) and their posterior probabilities, initially the prior's."""
        if isinstance(self._engine, grouping.GroupEngine):
            return self._engine.alpha_weights()
        nodes, log_prior = self._prior
        if len(nodes) == 0:
            return np.array([self._alpha]), np.ones(1)
        weight = np.exp(log_prior)
        return nodes, weight / weight.sum()

    def correlations(self) -> FloatArray:
        """Return the `correlation` of all pairs of `groups`, shape (C, C)."""
        found = self.groups
        return np.array([[self.correlation(a, b) for b in found] for a in found])

    def transitions(self) -> FloatArray:
        """Return the probability that a cluster follows another in a Markov chain, shape (C, C).

        Row j, column k: if n_jk of the n_j rows after cluster j are in cluster k, and m_k of the N
        auxiliary items, it is (m_k + n_jk) / (alpha + N + n_j), with ``gamma`` and T tables
        (n_jk + alpha T_k / (gamma + T)) / (alpha + n_j), averaged over alpha and over the
        particles that have cluster j. Clusters are those of `summary`, in order. A row's remainder
        to 1 is the probability of a new cluster, or of one that only other particles have. O(P
        C^2).

        Raises
        ------
        ConfigError
            The model is not a Markov chain.
        """
        if not self.markov:
            raise ConfigError(
                "markov must be True for transitions; groups have weights in summary()"
            )
        return np.zeros((0, 0)) if self._engine is None else self._engine.transitions()

    # -- checkpoints -----------------------------------------------------------------------------

    @property
    def _coming(self) -> grouping.RowGroups:
        return self._waiting.side[0] if self._waiting.side else grouping.RowGroups([])

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays, meta = super()._state()
        return arrays, meta | {"coming": [list(path) for path in self._coming.paths]}

    def _restore(self, arrays: dict[str, Any], meta: dict[str, Any]) -> None:
        super()._restore(arrays, meta)
        paths = meta["coming"]
        wrong = not isinstance(paths, list) or len(paths) != len(self._waiting.X)
        refuse_if(wrong, "groups of the warm-up")
        if paths:
            coming = grouping.RowGroups([self._path(grouping.group_of(path)) for path in paths])
            self._waiting = self._waiting._replace(side=(coming,))
