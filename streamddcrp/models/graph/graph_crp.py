"""The Chinese restaurant process on a decomposable graph, as a streaming estimator."""

from typing import Any

import numpy as np
import pyarrow as pa
from river import base

from streamddcrp.data.graphs import NO_PARENTS, Parents, as_parents, check
from streamddcrp.errors import SchemaError
from streamddcrp.estimator.particle_model import PartitionModel
from streamddcrp.estimator.row_model import Features, Predicted
from streamddcrp.estimator.stored import refuse_unless_plain
from streamddcrp.likelihoods import Likelihood, LikelihoodSpec
from streamddcrp.models.graph import engine
from streamddcrp.models.graph.config import Concentration, Config, concentration, make_config
from streamddcrp.records import MOST, Within, check_one, refuse_if
from streamddcrp.typing import FloatArray

NO_RING = np.zeros((1, 1), np.int64)


class GraphCRP(PartitionModel, base.Clusterer):
    """Clusters of items that are connected in a graph, by particles.

    Each item has parents among the earlier ones, all neighbours of each other: the last ``window``
    items (default), or those that it names. It joins the cluster of n of its m parents with
    probability n / (alpha + m), and opens one with alpha / (alpha + m); members of a cluster share
    the parameter of a conjugate family. Clusters are therefore connected in the graph, and one
    without items in a window is dead. Predictions are means over the particles. A table's id is the
    arrival index of its first row.

    Parameters
    ----------
    window : int, default 50
        Number of parents; if items name their parents, the largest distance back to one.
    alpha : float or ("gamma", shape, rate), default ("gamma", 1.0, 1.0)
        Concentration: the weight of opening a cluster, in parents. With a prior it is integrated
        out, at half the cost again.
    likelihood : "auto", tuple or Likelihood, default "auto"
        "auto" chooses a family for each column from the first rows, and logs its choice. Missing
        parameters, as in ``("normal_wishart",)``, come from the first rows.
    n_particles : int, default 100
    seed : int, default 0

    Other Parameters
    ----------------
    discount : float, default 0.0
        d of a Pitman-Yor process, 0 <= d < 1: a cluster of n parents weighs n - d, and a new one
        alpha + d k beside k clusters of parents. Needs a number as ``alpha``.
    n_clusters : int, optional
        K, the largest number of clusters in any set of neighbours, such as an item and its parents,
        with weights of a symmetric Dirichlet: n + alpha / K for a cluster of n parents, and
        (K - k) alpha / K for a new one. Over the whole stream there may be more. Needs a number as
        ``alpha``.
    whole_graph : bool, default False
        Whether the K clusters are those of the whole graph (Caron and Doucet 2009, eq. 6): a
        cluster without parents weighs alpha / K, and k counts all clusters so far. A cluster then
        need not be connected, and can return under its id after a window without items.
    rejuvenate : int, default 0
        How many of the last items may be resampled after an arrival; ``moves`` of them are, in each
        particle. Unavailable if items name their parents.
    moves : int, default 1
    warmup : int, default 64
        Rows collected first if the likelihood must be learned from them; then they are learned at
        once. Until then the label is 0 and there is no score.

    Notes
    -----
    With two features, a window of 50 and four tables an arrival takes about 25 us with 100
    particles and ten times that with 1,000, alpha fixed. The algorithm is described in
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
    streamddcrp.errors.SchemaError: row 0, parents: items 1 and 2 are not neighbours, so the parents
    do not form a clique and the graph would not be decomposable; leave one of them out
    """

    def __init__(
        self,
        *,
        window: int = 50,
        alpha: Concentration = ("gamma", 1.0, 1.0),
        likelihood: LikelihoodSpec = "auto",
        n_particles: int = 100,
        seed: int = 0,
        discount: float = 0.0,
        n_clusters: int | None = None,
        whole_graph: bool = False,
        rejuvenate: int = 0,
        moves: int = 1,
        warmup: int = 64,
    ) -> None:
        self.window = window
        self.alpha = alpha
        self.discount = discount
        self.n_clusters = n_clusters
        self.whole_graph = whole_graph
        self.likelihood = likelihood
        self.n_particles = n_particles
        self.rejuvenate = rejuvenate
        self.moves = moves
        self.seed = seed
        super().__init__(likelihood, warmup)
        self._config(None, 1, given=False)  # checks the options

    def _config(self, likelihood: Likelihood | None, n_features: int, *, given: bool) -> Config:
        family = 0 if likelihood is None else likelihood.family
        hyper = None if likelihood is None else likelihood.hyper(n_features)
        options = {k: v for k, v in self.get_params().items() if k not in ("likelihood", "warmup")}
        return make_config(given=given, family=family, hyper=hyper, **options)

    # -- learning --------------------------------------------------------------------------------

    def learn_one(self, x: Features, t: Any = None, parents: Any = None) -> None:
        """Learn one row as `SeqDDCRP.learn_one` does; the time is used only in events.

        Parameters
        ----------
        parents : sequence of int, optional
            Arrival indices of its parents, all neighbours of each other; [] for none. Either all
            rows have this argument, or none.

        Raises
        ------
        SchemaError
            A value is not finite or outside the family's support; or the parents do not exist, lie
            more than ``window`` items back or form no clique. Nothing was learned.
        OrderError
            ``t`` precedes the time of the previous row. Nothing was learned.
        """
        self._learn_row(x, t, None if parents is None else [parents])

    def learn_many(self, batch: object, t: object = None, parents: Any = None) -> None:
        """Learn a batch, bit for bit as one by one, with the ``parents`` of each row, if any."""
        self._learn_batch(batch, t, parents)

    def step_many(
        self, batch: object, t: object = None, parents: Any = None, *, index: bool = False
    ) -> pa.RecordBatch:
        """Predict each row of a batch, then learn it, as `SeqDDCRP.step_many` does.

        The ``label`` of a new table is the row's arrival index; ``p_change`` is the probability of
        a different table from the previous row's.
        """
        return self._stepped(batch, t, index, parents)

    def _advance(
        self, X: FloatArray, t: FloatArray | None, types: list[str], parents: Any = None
    ) -> FloatArray:
        if len(X) == 0:
            return super()._advance(X, t, types)
        return super()._advance(X, t, types, *self._checked(parents, len(X)))

    @property
    def _given(self) -> bool | None:
        """Whether items come with their parents; None before the first one."""
        if self._engine is not None:
            return bool(self._engine.config.given)
        return bool(self._waiting.side) if self._n_seen else None

    def _checked(self, named: Any, n_rows: int) -> tuple[Parents, ...]:
        """Return the parents of rows, or nothing if they are the window's."""
        given = named is not None
        if self._given is not None and given != self._given:
            raise SchemaError(
                "parents: the rows before came with parents; name them, [] for none"
                if self._given
                else "parents: the rows before had the items of the window as parents; name none"
            )
        if not given:
            return ()
        if self.rejuvenate > 0:
            raise SchemaError(
                "parents: with rejuvenation the parents are those of the window; set rejuvenate=0 "
                "to name them"
            )
        new, ring, n_ring = as_parents(named, n_rows), NO_RING, np.zeros(1, np.int64)
        if self._engine is not None:
            ring, n_ring = self._engine.state.recent.parents, self._engine.state.recent.n_parents
        coming = self._coming.and_then(new)
        n_old = len(self._coming.offsets) - 1
        check(coming, self._n_seen - n_old, self.window, ring, n_ring, n_old)
        return (new,)

    @property
    def _coming(self) -> Parents:
        return self._waiting.side[0] if self._waiting.side else NO_PARENTS

    def _blank(
        self, likelihood: Likelihood, n_features: int, *parents: Parents, clocked: bool,
        first_time: float, times: FloatArray,
    ) -> engine.GraphEngine:  # fmt: skip
        config = self._config(likelihood, n_features, given=bool(parents))
        return engine.GraphEngine(likelihood, config, engine.empty_state(config), n_features)

    def _continued(
        self, likelihood: Likelihood, arrays: dict[str, Any], meta: dict[str, Any]
    ) -> engine.GraphEngine:
        config = self._config(likelihood, meta["n_features"], given=meta["given"])
        return engine.GraphEngine.continued(likelihood, config, arrays, meta["n_features"])

    # -- predicting ------------------------------------------------------------------------------

    def predict_one(self, x: Features, t: Any = None, parents: Any = None) -> int:
        return self._label_of(self._predict_with(x, t, parents))

    def predict_proba_one(
        self, x: Features, t: Any = None, parents: Any = None
    ) -> dict[int, float]:
        return self._probabilities_of(self._predict_with(x, t, parents))

    def score_one(self, x: Features, t: Any = None, parents: Any = None) -> float:
        return self._score_of(self._predict_with(x, t, parents))

    def _predict_with(self, x: Features, t: Any, parents: Any) -> Predicted:
        if self._n_seen == 0 and parents is None:
            return self._predict(x, t)
        side = self._checked(None if parents is None else [parents], 1)
        return self._predict(x, t, *side)

    # -- looking at the model --------------------------------------------------------------------

    @property
    def alpha_mean(self) -> float:
        """Posterior mean of the concentration; NaN in warm-up if it has a prior."""
        if self._engine is None:
            return concentration(self.alpha)[0]
        nodes, prob = self._engine.alpha_weights()
        return float(nodes @ prob)

    # -- checkpoints -----------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays, meta = super()._state()
        arrays |= {"parents.items": self._coming.items, "parents.offsets": self._coming.offsets}
        return arrays, meta | {"given": self._given}

    def _restore(self, arrays: dict[str, Any], meta: dict[str, Any]) -> None:
        refuse_unless_plain(meta, flags=("given",), none=("given",))
        super()._restore(arrays, meta)
        items, offsets = arrays["parents.items"], arrays["parents.offsets"]
        check_one("parents.items", items, (len(items),), np.int64, Within(0, MOST))
        check_one("parents.offsets", offsets, (len(offsets),), np.int64, Within(0, len(items)))
        rows = len(self._waiting.X) if meta["given"] else 0
        sound = len(offsets) == rows + 1 and offsets[0] == 0 and offsets[-1] == len(items)
        refuse_if(not sound or bool((np.diff(offsets) < 0).any()), "parents of the warm-up")
        if meta["given"] and self._engine is None:
            coming = Parents(arrays["parents.items"], arrays["parents.offsets"])
            self._waiting = self._waiting._replace(side=(coming,))
