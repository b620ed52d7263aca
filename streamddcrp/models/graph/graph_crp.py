"""The Chinese restaurant process on a decomposable graph, as a streaming estimator."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
from river import base

from streamddcrp.data.graphs import NOBODY, Parents, as_parents, check
from streamddcrp.errors import SchemaError
from streamddcrp.estimator.particle_model import ParticleModel
from streamddcrp.estimator.row_model import Features
from streamddcrp.estimator.views import predictions
from streamddcrp.likelihoods import Likelihood
from streamddcrp.models.graph.config import make_config
from streamddcrp.models.graph.engine import GraphFiltering, Options
from streamddcrp.models.graph.state import empty_state
from streamddcrp.typing import FloatArray

NO_RING = np.zeros((1, 1), np.int64)


class GraphCRP(ParticleModel, base.Clusterer):
    """Clusters of items that hang together in a graph, by particles.

    Each item has parents among the earlier ones, all neighbours of each other: the last ``r`` items
    (default), or those that it names. It joins the cluster of n of its m parents with probability
    n / (alpha + m), and opens one with alpha / (alpha + m); members of a cluster share the
    parameter of a conjugate family. So clusters are connected in the graph, and one that was silent
    for r items is gone. What is told is the mean over the particles. A table's id is the arrival
    index of its first row.

    Parameters
    ----------
    r : int, default 50
        Number of parents; where items name their own, how many items back these may lie.
    alpha : float or ("gamma", shape, rate), default ("gamma", 1.0, 1.0)
        Concentration: opening a cluster weighs as much as so many parents. With a prior it is
        integrated out, which costs half as much again.
    likelihood : "auto", tuple or Likelihood, default "auto"
        "auto" picks a family for each column from the first rows, and logs what it picked. Numbers
        that are left out, as in ``("normal_wishart",)``, come from the first rows.
    n_particles : int, default 100
    resampling : {"optimal", "systematic", "stratified", "n_best"}, default "optimal"
        How particles are chosen: among all children of all particles without bias; one child each,
        resampled when few particles bear the weight; or the heaviest, which gives up the evidence.
    merge : bool, default True
        Whether particles with the same future are joined. It changes no expectation.
    lag : int, default 0
        After each arrival ``moves`` of the last ``lag`` items are drawn anew in each particle. Not
        with parents of their own.
    moves : int, default 1
    warmup : int, default 64
        Rows that wait where the likelihood must be learned from them; then they are filtered at
        once. Until then the label is 0 and there is no score.
    seed : int, default 0

    Notes
    -----
    With two features, r = 50 and four tables an arrival takes about 25 us with 100 particles and
    ten times that with 1,000, alpha fixed. The algorithm is told in
    `streamddcrp.models.graph`.

    Examples
    --------
    >>> from streamddcrp import GraphCRP
    >>> model = GraphCRP(likelihood=("normal_gamma", 0.0, 0.05, 1.5, 0.5), alpha=0.3)
    >>> for y in [0.1, -0.2, 0.3, 8.1, 7.9, 8.2, 0.2]:
    ...     model.learn_one({"y": y})
    >>> model.predict_one({"y": 8.0}), model.predict_one({"y": 0.0})
    (3, 0)

    Items may name their parents, here two branches that grow from item 0:

    >>> tree = GraphCRP(likelihood=("normal_gamma", 0.0, 0.05, 1.5, 0.5), alpha=0.3)
    >>> tree.learn_many([[0.1], [-0.2], [8.0], [8.1]], parents=[[], [0], [0], [2]])
    >>> tree.learn_one({0: 0.0}, parents=[1, 2])
    Traceback (most recent call last):
        ...
    streamddcrp.errors.SchemaError: row 0, parents: items 1 and 2 are no neighbours, so the parents
    form no clique and the graph would not be decomposable; leave one of them out
    """

    def __init__(
        self,
        *,
        r: int = 50,
        alpha: Any = ("gamma", 1.0, 1.0),
        likelihood: Any = "auto",
        n_particles: int = 100,
        resampling: str = "optimal",
        merge: bool = True,
        lag: int = 0,
        moves: int = 1,
        warmup: int = 64,
        seed: int = 0,
    ) -> None:
        self.r = r
        self.alpha = alpha
        self.likelihood = likelihood
        self.n_particles = n_particles
        self.resampling = resampling
        self.merge = merge
        self.lag = lag
        self.moves = moves
        self.seed = seed
        super().__init__(likelihood, warmup)
        make_config(  # checks the options
            family=0, hyper=np.ones(1), r=r, given=False, alpha=alpha, n_particles=n_particles,
            resampling=resampling, merge=merge, lag=lag, moves=moves, seed=seed,
        )  # fmt: skip
        self._options = Options(r, alpha, n_particles, resampling, merge, lag, moves, seed)
        self._given: bool | None = None  # whether items come with their parents
        self._coming = NOBODY  # parents of the rows that wait
        self._named: Any = None  # as they came with the rows at hand

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"n_particles": 10}
        yield {"likelihood": ("normal_gamma", 0.0, 0.05, 1.5, 1.0), "r": 5, "lag": 3}

    # -- learning --------------------------------------------------------------------------------

    def learn_one(self, x: Features, t: Any = None, parents: Any = None) -> None:
        """Learn one row.

        Parameters
        ----------
        x : mapping
            Feature name to number; None, or an absent feature, is a missing value.
        t : number or time stamp, optional
            Its time, which events will tell; without it the arrival index.
        parents : sequence of int, optional
            Arrival indices of its parents, all neighbours of each other; [] for none. All rows come
            with parents, or none does.

        Raises
        ------
        SchemaError
            A value is not a finite number or outside the family's support; or the parents do not
            exist, lie more than r items back or are no clique. Nothing was learned.
        OrderError
            ``t`` is before the time of the row before. Nothing was learned.
        """
        self._named = None if parents is None else [parents]
        try:
            super().learn_one(x, t)
        finally:
            self._named = None

    def learn_many(self, batch: object, t: object = None, parents: Any = None) -> None:
        """Learn a batch of rows; the same, bit for bit, as learning them one by one.

        Parameters
        ----------
        batch : Arrow table or batch, data frame, or array_like of shape (N, D)
        t : array_like of shape (N,), optional
        parents : sequence of N sequences of int, or Arrow array of lists, optional

        Raises
        ------
        SchemaError, OrderError
            As for `learn_one`, with the row's number in ``row``. Nothing was learned.
        """
        self._learn_with(batch, t, parents)

    def step_many(self, batch: object, t: object = None, parents: Any = None) -> pa.RecordBatch:
        """Predict each row of a batch, then learn it, in one pass.

        Parameters
        ----------
        batch, t, parents
            As for `learn_many`.

        Returns
        -------
        pyarrow.RecordBatch
            A row each with ``label`` (int64, the most probable table before the row was learned; a
            new one has the row's arrival index), ``label_prob``, ``score`` (-log predictive density
            in nats), ``p_new`` (probability of a new table), ``p_change`` (of another table than
            that of the row before), ``n_tables`` (int64). The floats are null in warm-up.
        """
        return predictions(self._learn_with(batch, t, parents))

    def _learn_with(self, batch: object, t: object, parents: Any) -> FloatArray:
        self._named = parents
        try:
            return self._learn_batch(batch, t)
        finally:
            self._named = None

    def _advance(self, X: FloatArray, t: FloatArray | None, types: list[str]) -> FloatArray:
        if len(X) == 0:
            return super()._advance(X, t, types)
        before = self._given, self._coming
        self._given, waiting = self._checked(self._named, len(X))
        try:
            if self._filter is not None:
                self._filter.coming = waiting if self._given else None
            else:
                self._coming = waiting
            return super()._advance(X, t, types)
        except Exception:
            self._given, self._coming = before
            raise

    def _checked(self, named: Any, n_rows: int) -> tuple[bool, Parents]:
        """Return whether parents are given, and those of all rows that are not learned yet."""
        given = named is not None
        if self._given is not None and given != self._given:
            message = (
                "parents: the rows before came with parents; name them, [] for none"
                if self._given
                else "parents: the rows before had the last r items as parents; name none"
            )
            raise SchemaError(message)
        if not given:
            return False, NOBODY
        if self.lag > 0:
            message = "parents: with a lag the parents are the last r items; set lag=0 to name them"
            raise SchemaError(message)
        new = as_parents(named, n_rows)
        if self._filter is None:
            ring, n_ring = NO_RING, np.zeros(1, np.int64)
            n_old = len(self._coming.offsets) - 1
        else:
            ring, n_ring = self._filter.state.recent.parents, self._filter.state.recent.n_parents
            n_old = 0
        waiting = self._coming.and_then(new)
        try:
            check(waiting, self._n_seen - n_old, self.r, ring, n_ring)
        except SchemaError as error:
            if error.row is None or n_old == 0:
                raise
            row = error.row - n_old
            message = str(error).replace(f"row {error.row}", f"row {row}")
            raise SchemaError(message, row=row) from None
        return True, waiting

    def _blank(
        self, likelihood: Likelihood, n_features: int, *, clocked: bool, first_time: float,
        times: FloatArray,
    ) -> GraphFiltering:  # fmt: skip
        given = bool(self._given)
        config = self._options.config(likelihood, n_features, given=given)
        coming = self._coming if given else None
        self._coming = NOBODY
        return GraphFiltering(likelihood, config, empty_state(config), n_features, coming=coming)

    def _continued(
        self, likelihood: Likelihood, arrays: dict[str, Any], meta: dict[str, Any]
    ) -> GraphFiltering:
        return GraphFiltering.from_state(self._options, likelihood, arrays, meta)

    # -- predicting ------------------------------------------------------------------------------

    def predict_one(self, x: Features, t: Any = None, parents: Any = None) -> int:
        """Return the id of the most probable table; the next id where that is a new one."""
        with_parents = self._asked(parents)
        try:
            return super().predict_one(x, t)
        finally:
            self._answered(with_parents)

    def predict_proba_one(
        self, x: Features, t: Any = None, parents: Any = None
    ) -> dict[int, float]:
        """Return the probability of each table of any particle, and under -1 that of a new one."""
        with_parents = self._asked(parents)
        try:
            return super().predict_proba_one(x, t)
        finally:
            self._answered(with_parents)

    def score_one(self, x: Features, t: Any = None, parents: Any = None) -> float:
        """Return -log predictive density (nats): high is surprising. NaN in warm-up."""
        with_parents = self._asked(parents)
        try:
            return super().score_one(x, t)
        finally:
            self._answered(with_parents)

    def _asked(self, parents: Any) -> bool:
        """Check parents of a row to predict, and let the filter know them."""
        if self._n_seen == 0 and parents is None:
            return False
        given, waiting = self._checked(None if parents is None else [parents], 1)
        if given and self._filter is not None:
            self._filter.coming = waiting
        return given and self._filter is not None

    def _answered(self, with_parents: bool) -> None:
        if with_parents:
            self._filter.coming = NOBODY

    # -- looking at the model --------------------------------------------------------------------

    @property
    def alpha_mean(self) -> float:
        """Posterior mean of the concentration; NaN in warm-up where it has a prior."""
        if self._filter is None:
            return self.alpha if isinstance(self.alpha, float) else math.nan
        nodes, prob = self._filter.alpha_weights()
        return float(nodes @ prob)

    # -- checkpoints -----------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays, meta = super()._state()
        arrays |= {"parents.items": self._coming.items, "parents.offsets": self._coming.offsets}
        return arrays, meta | {"given": self._given}

    def _restore(self, arrays: dict[str, Any], meta: dict[str, Any]) -> None:
        super()._restore(arrays, meta)
        self._given = meta["given"]
        self._coming = Parents(arrays["parents.items"], arrays["parents.offsets"])
