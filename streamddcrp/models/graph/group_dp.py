"""Clusters that related groups share, as a streaming estimator."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from river import base

from streamddcrp.contract import P_NEW
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.estimator.particle_model import ParticleModel
from streamddcrp.estimator.particle_views import live_names, probabilities, summary_of
from streamddcrp.estimator.row_model import Features
from streamddcrp.estimator.views import predictions
from streamddcrp.likelihoods import Likelihood
from streamddcrp.models.graph.config import make_config
from streamddcrp.models.graph.group_state import (
    Config,
    State,
    arrays_of,
    empty_state,
    state_from_arrays,
)
from streamddcrp.models.graph.group_step import predict_row, step
from streamddcrp.typing import FloatArray
from streamddcrp.validation import whole

Path = tuple[str, ...]  # a group's name, after that of its node where there are two layers


@dataclass
class GroupFiltering:
    """Likelihood and state of a sampler that has begun."""

    likelihood: Likelihood
    config: Config
    state: State
    n_features: int
    coming: list[Path]  # groups of the rows to come
    paths: list[Path] = field(default_factory=list)  # groups so far
    nodes: list[str] = field(default_factory=list)
    first_time: float = 0.0
    time_unit: float = 1.0

    @property
    def log_evidence(self) -> float:
        """Estimate of the log evidence of all rows so far."""
        return self.state.log_evidence

    def anew(self, likelihood: Likelihood) -> "GroupFiltering":
        """Return the filter with another prior, as it was before the first row."""
        config = self.config._replace(hyper=likelihood.hyper(self.n_features))
        return replace(
            self, likelihood=likelihood, config=config, state=empty_state(config),
            coming=list(self.coming), paths=list(self.paths), nodes=list(self.nodes),
        )  # fmt: skip

    def step(self, X: FloatArray, t: FloatArray) -> FloatArray:
        """Predict and learn checked rows (N, D) at times (N,); return the predictions (N, 6)."""
        config, state = self._for_width(X.shape[1])
        mine, self.coming = self.coming[: len(X)], self.coming[len(X) :]
        number = {path: g for g, path in enumerate(self.paths)}
        for path in mine:
            if path not in number:
                number[path] = len(number)
                self.paths.append(path)
                if len(path) == 2 and path[0] not in self.nodes:
                    self.nodes.append(path[0])
        group = np.array([number[path] for path in mine], np.int64)
        self.config, self.n_features = config, X.shape[1]
        rows = self.likelihood.prepare(X)[0]
        self.state, out = step(config, state, rows, t, group, self._node_numbers())
        return out

    def _node_numbers(self) -> Any:
        place = {node: a for a, node in enumerate(self.nodes, 1)}
        return np.array([place[p[0]] if len(p) == 2 else 0 for p in self.paths], np.int64)

    def predict(self, x: FloatArray, t: float) -> tuple[FloatArray, dict[int, float]]:
        """Predict a checked row (D,) of the group ``coming[0]``."""
        config, state = self._for_width(len(x))
        path = self.coming[0]
        group = self.paths.index(path) if path in self.paths else -1
        node = 0
        if len(path) == 2:
            node = self.nodes.index(path[0]) + 1 if path[0] in self.nodes else -1
        out = predict_row(config, state, self.likelihood.prepare(x[None])[0][0], group, node)
        return out, probabilities(state, float(out[P_NEW]))

    def summary(self, features: Sequence[str]) -> pa.Table:
        """Return one row a live table: means over the particles, and the rows of each group."""
        names, pool, particles = self.state.names, self.state.pool, self.state.particles
        total = np.zeros((len(names.opener), pool.stats.shape[1]))
        of_group = np.zeros((len(names.opener), len(self.paths)))
        for p in np.flatnonzero(particles.weight > 0):
            k = np.flatnonzero(particles.entry[p] >= 0)
            at = pool.name[particles.entry[p, k]]
            total[at] += particles.weight[p] * pool.stats[particles.entry[p, k]]
            of_group[at] += particles.weight[p] * particles.own[p, : len(self.paths), k]
        live = live_names(names)
        sizes = {
            "size_" + "/".join(path): of_group[live, g] / names.weight[live]
            for g, path in enumerate(self.paths)
        }
        return summary_of(names, total, self.likelihood, features, sizes)

    def to_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return arrays and settings for a checkpoint."""
        meta = {
            "likelihood": self.likelihood.to_config(),
            "n_features": self.n_features,
            "paths": [list(path) for path in self.paths],
            "nodes": self.nodes,
        }
        return dict(arrays_of(self.state)), meta

    def _for_width(self, n_features: int) -> tuple[Config, State]:
        if n_features == self.n_features:
            return self.config, self.state
        config = self.config._replace(hyper=self.likelihood.hyper(n_features))
        state = state_from_arrays(config, arrays_of(self.state))
        return config, state


class GroupDP(ParticleModel, base.Clusterer):
    """Clusters of rows of several related groups, shared between the groups, by particles.

    Each group has a Dirichlet process of its own, and ``n_shared`` auxiliary items tie them: a row
    joins a cluster that has n auxiliary items and m rows of its group with weight n + m, a new one
    with weight alpha. The more auxiliary items there are, beside alpha, the more alike groups are:
    their distributions correlate by n_shared / (alpha + n_shared) on every set. At most n_shared
    clusters can be shared. It is an alternative to the hierarchical Dirichlet process in which
    everything can be integrated out.

    Parameters
    ----------
    n_shared : int or tuple of two int, default 20
        Auxiliary items; two numbers: of the root, and of each node between root and groups.
    alpha : float, default 1.0
        Concentration of every group.
    likelihood : "auto", tuple or Likelihood, default "auto"
        "auto" picks a family for each column from the first rows. Not one that regresses on the
        past.
    n_particles : int, default 50
    moves : int, default 5
        Auxiliary items drawn anew after each arrival, in each particle: they are drawn blind and
        learn from the rows by this only.
    warmup : int, default 64
        Rows that wait where the likelihood must be learned from them.
    seed : int, default 0

    Notes
    -----
    Memory grows with clusters times groups, not with rows; clusters are never forgotten. The
    algorithm is told in `streamddcrp.models.graph`.

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
        alpha: float = 1.0,
        likelihood: Any = "auto",
        n_particles: int = 50,
        moves: int = 5,
        warmup: int = 64,
        seed: int = 0,
    ) -> None:
        self.n_shared = n_shared
        self.alpha = alpha
        self.likelihood = likelihood
        self.n_particles = n_particles
        self.moves = moves
        self.seed = seed
        super().__init__(likelihood, warmup)
        layers = n_shared if isinstance(n_shared, tuple | list) else (n_shared,)
        if len(layers) not in (1, 2):
            message = f"n_shared must be one or two whole numbers, got {n_shared!r}"
            raise ConfigError(message)
        self._layers = [whole("n_shared", n, 1, 1 << 16) for n in layers]
        whole("moves", moves, 0, 1 << 16)
        make_config(
            family=0, hyper=np.ones(1), r=1, given=False, alpha=alpha, n_particles=n_particles,
            seed=seed,
        )  # fmt: skip
        if not isinstance(alpha, int | float):
            message = f"alpha must be a positive number, got {alpha!r}"
            raise ConfigError(message)
        self._named: Any = None
        self._coming: list[Path] = []  # groups of the rows that wait

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"n_particles": 5}
        yield {"likelihood": ("normal_gamma", 0.0, 0.05, 1.5, 1.0), "n_shared": 3}

    # -- learning --------------------------------------------------------------------------------

    def learn_one(self, x: Features, t: Any = None, group: Any = None) -> None:
        """Learn one row.

        Parameters
        ----------
        x : mapping
            Feature name to number; None, or an absent feature, is a missing value.
        t : number or time stamp, optional
            Its time, which events will tell; without it the arrival index.
        group : str, int, or tuple of two of them, optional
            Its group; with two layers its node and its group. Default: one group for all.

        Raises
        ------
        SchemaError
            A value is not a finite number or outside the family's support, or the group has the
            wrong form. Nothing was learned.
        OrderError
            ``t`` is before the time of the row before. Nothing was learned.
        """
        self._named = [group]
        try:
            super().learn_one(x, t)
        finally:
            self._named = None

    def learn_many(self, batch: object, t: object = None, group: Any = None) -> None:
        """Learn a batch of rows; the same, bit for bit, as learning them one by one.

        Parameters
        ----------
        batch : Arrow table or batch, data frame, or array_like of shape (N, D)
        t : array_like of shape (N,), optional
        group : sequence of length N, optional
            Groups, as for `learn_one`.
        """
        self._learn_with(batch, t, group)

    def step_many(self, batch: object, t: object = None, group: Any = None) -> pa.RecordBatch:
        """Predict each row of a batch, then learn it, in one pass.

        Parameters
        ----------
        batch, t, group
            As for `learn_many`.

        Returns
        -------
        pyarrow.RecordBatch
            As that of `GraphCRP.step_many`.
        """
        return predictions(self._learn_with(batch, t, group))

    def _learn_with(self, batch: object, t: object, group: Any) -> FloatArray:
        self._named = None if group is None else _listed(group)
        try:
            return self._learn_batch(batch, t)
        finally:
            self._named = None

    def _advance(self, X: FloatArray, t: FloatArray | None, types: list[str]) -> FloatArray:
        if len(X) == 0:
            return super()._advance(X, t, types)
        named = [None] * len(X) if self._named is None else self._named
        if len(named) != len(X):
            message = f"group: expected one for each of the {len(X)} rows, got {len(named)}"
            raise SchemaError(message)
        paths = [self._path(group, row) for row, group in enumerate(named)]
        before = self._coming
        if self._filter is None:
            self._coming = before + paths
        else:
            self._filter.coming = paths
        try:
            return super()._advance(X, t, types)
        except Exception:
            self._coming = before
            raise

    def _path(self, group: Any, row: int = 0) -> Path:
        """Return a group's name as text, checked."""
        parts = group if isinstance(group, tuple | list) else (group,)
        if group is None:
            parts = ("",) * len(self._layers)
        if len(parts) != len(self._layers):
            what = "a name" if len(self._layers) == 1 else "(node, name)"
            message = f"row {row}, group: expected {what}, got {group!r}"
            raise SchemaError(message, row=row)
        return tuple(str(part) for part in parts)

    def _blank(
        self, likelihood: Likelihood, n_features: int, *, clocked: bool, first_time: float,
        times: FloatArray,
    ) -> GroupFiltering:  # fmt: skip
        config, coming = self._config(likelihood, n_features), self._coming
        self._coming = []
        return GroupFiltering(likelihood, config, empty_state(config), n_features, coming)

    def _config(self, likelihood: Likelihood, n_features: int) -> Config:
        if likelihood.prepare(np.zeros((1, n_features)))[1] is not None:
            message = "likelihood: rows of several groups have no common past to regress on"
            raise ConfigError(message)
        n_root, n_node = (*self._layers, 0)[:2]
        return Config(
            likelihood.family, likelihood.hyper(n_features), float(self.alpha), n_root, n_node,
            self.n_particles, self.moves, self.seed,
        )  # fmt: skip

    def _continued(
        self, likelihood: Likelihood, arrays: dict[str, Any], meta: dict[str, Any]
    ) -> GroupFiltering:
        config = self._config(likelihood, meta["n_features"])
        return GroupFiltering(
            likelihood, config, state_from_arrays(config, arrays), meta["n_features"], [],
            [tuple(path) for path in meta["paths"]], list(meta["nodes"]),
        )  # fmt: skip

    # -- predicting ------------------------------------------------------------------------------

    def predict_one(self, x: Features, t: Any = None, group: Any = None) -> int:
        """Return the id of the most probable table; the next id where that is a new one."""
        self._ask(group)
        return super().predict_one(x, t)

    def predict_proba_one(self, x: Features, t: Any = None, group: Any = None) -> dict[int, float]:
        """Return the probability of each table of any particle, and under -1 that of a new one."""
        self._ask(group)
        return super().predict_proba_one(x, t)

    def score_one(self, x: Features, t: Any = None, group: Any = None) -> float:
        """Return -log predictive density (nats): high is surprising. NaN in warm-up."""
        self._ask(group)
        return super().score_one(x, t)

    def _ask(self, group: Any) -> None:
        path = self._path(group)
        if self._filter is not None:
            self._filter.coming = [path]

    # -- looking at the model --------------------------------------------------------------------

    @property
    def groups(self) -> list[Any]:
        """Groups so far, in the order of their first rows."""
        paths = self._coming if self._filter is None else self._filter.paths
        known = dict.fromkeys(paths)
        return [path[0] if len(path) == 1 else path for path in known]

    def correlation(self, a: Any, b: Any) -> float:
        """Return the correlation of two groups' distributions, on any set, before any data.

        The product of N / (alpha + N) over the auxiliary sets between them.
        """
        one, two = self._path(a), self._path(b)
        if one == two:
            return 1.0
        ties = [n / (self.alpha + n) for n in self._layers]
        if len(ties) == 1:
            return ties[0]
        return ties[1] if one[0] == two[0] else ties[1] * ties[0] * ties[1]

    def correlations(self) -> FloatArray:
        """Return the `correlation` of all pairs of `groups`, shape (C, C)."""
        found = self.groups
        return np.array([[self.correlation(a, b) for b in found] for a in found])

    # -- checkpoints -----------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays, meta = super()._state()
        return arrays, meta | {"coming": [list(path) for path in self._coming]}

    def _restore(self, arrays: dict[str, Any], meta: dict[str, Any]) -> None:
        super()._restore(arrays, meta)
        self._coming = [tuple(path) for path in meta["coming"]]


def _listed(group: Any) -> list[Any]:
    """Return groups of a batch as a list, from arrays and Arrow columns, too."""
    if hasattr(group, "to_pylist"):
        return list(group.to_pylist())
    return group.tolist() if isinstance(group, np.ndarray) else list(group)
