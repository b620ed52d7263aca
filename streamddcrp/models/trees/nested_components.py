"""Hierarchical component analysis as a streaming estimator: a tree of vectors that grows."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from streamddcrp.contract import LABEL, LABEL_PROB, LIVE_TABLES, N_OUTPUTS, P_NEW, SCORE
from streamddcrp.data import Vectorizer
from streamddcrp.data.batches import read_batch
from streamddcrp.data.scaled import tell_of_constants
from streamddcrp.errors import SchemaError
from streamddcrp.estimator.interrupts import pause
from streamddcrp.estimator.stored import refuse_unless_plain
from streamddcrp.estimator.views import empty_table
from streamddcrp.models.trees.binary_tree import BinaryTree, binary_prior
from streamddcrp.models.trees.components import ComponentTree, wide_prior
from streamddcrp.models.trees.pictures import plot_component_tree
from streamddcrp.models.trees.tree import ids_of
from streamddcrp.models.trees.views import TreeModel, check_tree, nested, node_columns
from streamddcrp.records import FINITE, PRESENT, check_one, refuse_if
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp.validation import choice

_TREES = {"gaussian": ComponentTree, "bernoulli": BinaryTree}
_STEP = 64  # points between two global steps
_GROW_EVERY = 4  # steps between two attempts to grow
_FIRST_SWEEPS = 5


class NestedCRPComponents(TreeModel):
    """Tree of components (nested Chinese restaurant process), learned from a stream of vectors.

    Every point takes a path of a tree and is, apart from noise, the mean plus a sum of the vectors
    on its path: all points share the root's vector, and a leaf's vector belongs to its own points.
    Subspaces differ between paths, so a tree of K vectors explains more than K principal components
    if only ``depth`` of these may be used.

    Parameters
    ----------
    depth : int, default 3
        Levels, at least 2, and vectors of a point.
    likelihood : {"gaussian", "bernoulli"}, default "gaussian"
        "bernoulli": every value is 0 or 1, and the sum of mean and vectors is the log odds of a 1.
    max_nodes : int, default 32
        Most nodes. More nodes always fit large data better, so this sets the size of the tree; a
        single warning is given, and `n_refused` counts refused moves.
    seed : int, default 0
        For proposals of new paths.

    Other Parameters
    ----------------
    gamma : float, default 1.0
        Concentration of the sticks: larger, more paths.
    window : int, default 2048
        Points swept repeatedly; older ones keep their last assignment.
    warmup : int, default 256
        Points that determine mean, scale and the first path; until then the label is 0.

    Notes
    -----
    Wang and Blei (2009), section 4, with loadings conditional on the path and one Gaussian for the
    mean and all vectors. Learned in steps of 64 points: O(window x nodes x depth^2) each, and
    memory O(window x features + nodes^2). A missing feature is refused.

    Binary rows have exponential family components on each path (section 2 of the paper), with a
    quadratic lower bound on the logistic function in every row and column (Khan et al. 2010); the
    objective remains a lower bound. New rows take 20 steps.

    Examples
    --------
    >>> import numpy as np
    >>> from streamddcrp import NestedCRPComponents
    >>> rng = np.random.default_rng(0)
    >>> axes = np.eye(6)[rng.integers(1, 4, 640)]  # one of three directions each, and a common one
    >>> X = 3 * rng.normal(size=(640, 1)) * np.eye(6)[0] + 2 * rng.normal(size=(640, 1)) * axes
    >>> model = NestedCRPComponents(depth=2)
    >>> model.learn_many(X + 0.1 * rng.normal(size=X.shape))
    >>> bound = model.refine()
    >>> bool(((X - model.reconstruct_many(X)) ** 2).sum(axis=1).mean() < 0.5)  # of 13
    True
    """

    def __init__(
        self,
        *,
        depth: int = 3,
        likelihood: str = "gaussian",
        max_nodes: int = 32,
        seed: int = 0,
        gamma: float = 1.0,
        window: int = 2048,
        warmup: int = 256,
    ) -> None:
        super().__init__()
        self.depth = depth
        self.gamma = gamma
        self.max_nodes = max_nodes
        self.window = window
        self.warmup = warmup
        self.seed = seed
        self.likelihood = likelihood
        self._kind = _TREES[choice("likelihood", likelihood, tuple(_TREES))]
        check_tree(self, 1, warmup=2, window=warmup, seed=0)
        self._tree: ComponentTree | None = None
        self._origin = np.empty(0)  # mean of the first points, subtracted in all computations
        self._waiting = np.empty((0, 0))  # rows that the next step will learn
        self._steps = 0
        self._n_seen = 0

    # -- learning --------------------------------------------------------------------------------

    def _check(self, X: FloatArray) -> None:
        if self._kind is BinaryTree:
            good, wanted = (X == 0.0) | (X == 1.0), "0 or 1"
        else:
            good, wanted = np.abs(X) < 1e100, "smaller than 1e100"
        bad = ~good  # NaN among them
        if bad.any():
            row, column = (int(i) for i in np.argwhere(bad)[0])
            name = (self._vectorizer.columns or range(X.shape[1]))[column]
            raise SchemaError(
                f"row {row}, column {name!r}: {X[row, column]}; every feature must be there, and "
                f"{wanted}; fill missing ones in, or leave the column out",
                row=row,
            )

    def _advance(self, X: FloatArray, t: Any, types: list[str]) -> FloatArray:
        """Collect points for the next step, and take it when there are enough."""
        self._check(X)
        out, start = np.zeros((len(X), N_OUTPUTS)), 0
        while start < len(X):
            due = self.warmup if self._tree is None else _STEP
            stop = min(len(X), start + due - len(self._waiting))
            waiting = self._waiting.reshape(-1, X.shape[1])
            # in their place within a full step: bits of a matrix product depend on its size, but
            # must not depend on how the stream is cut
            rows = np.zeros((due, X.shape[1]))
            here = slice(len(waiting), len(waiting) + stop - start)
            rows[here] = X[start:stop]
            out[start:stop] = self._predictions(rows)[here]
            self._waiting = np.concatenate([waiting, X[start:stop]])
            self._n_seen += stop - start
            if len(self._waiting) == due:
                self._step(self._waiting)
                self._waiting = self._waiting[:0]
            start = stop
            if start < len(X):
                pause()
        return out

    def _step(self, X: FloatArray) -> None:
        if self._tree is None:
            tell_of_constants(X, self._vectorizer.names)
            binary = self._kind is BinaryTree
            self._origin = np.zeros(X.shape[1]) if binary else X.mean(axis=0)
            X = X - self._origin
            prior = binary_prior(self.gamma) if binary else wide_prior(X, self.gamma)
            self._tree = self._kind.founded(X, self.depth, prior, self.max_nodes)
            self._tree.sweep(_FIRST_SWEEPS)
        else:
            self._tree.absorb(X - self._origin, self.window)
            self._tree.sweep(1)
        self._steps += 1
        tree = self._tree
        if self._steps % _GROW_EVERY == 0:
            tree.grow(self.seed)
        self._growth.note(tree.n_seen, tree.n_nodes, tree.n_born, 0, tree.n_pruned)

    def refine(self, max_sweeps: int = 50, tol: float = 1e-5) -> list[float]:
        """Sweep the window further and try to grow; return the bound before and after each sweep.

        Points waiting for the next step are learned first, in warm-up with a tree of their own.
        Ends when ten sweeps and the attempts to grow raise the bound by less than a fraction
        ``tol``, three times in succession.
        """
        self._step_early()
        if self._tree is None:
            return []
        return self._tree.refine(max_sweeps, tol, self.seed)

    def recall(self, batch: object) -> None:
        """Set the window to these points, all that were learned, and ``window`` to their number."""
        X = read_batch(batch, self._vectorizer, learn=False).X
        self._step_early()
        self.window = len(X)
        if self._tree is not None:
            self._tree.recall(X - self._origin)

    def _step_early(self) -> None:
        if len(self._waiting):
            self._step(self._waiting)
            self._waiting = self._waiting[:0]

    def _predictions(self, X: FloatArray) -> FloatArray:
        out = np.full((len(X), N_OUTPUTS), np.nan)
        tree = self._tree
        if tree is None:
            out[:, LABEL], out[:, LIVE_TABLES] = 0.0, 1.0
            return out
        local = tree.place(X - self._origin)
        leaves = local.q[:, tree.level == tree.depth]
        out[:, LABEL] = tree.ids[tree.level == tree.depth][leaves.argmax(axis=1)]
        out[:, LABEL_PROB], out[:, SCORE] = leaves.max(axis=1), -local.log_z
        out[:, P_NEW] = np.maximum(0.0, 1.0 - leaves.sum(axis=1))
        out[:, LIVE_TABLES] = tree.n_nodes
        return out

    # -- predicting ------------------------------------------------------------------------------

    def _row(self, x: Mapping[Any, Any]) -> FloatArray:
        X = self._vectorizer.row(x, learn=False)
        if self._tree is not None:
            self._check(X)
        return X

    def predict_one(self, x: Mapping[Any, Any], t: Any = None) -> int:
        """Return the id of the likeliest leaf; 0 in warm-up."""
        return int(self._predictions(self._row(x))[0, LABEL])

    def paths_many(self, batch: object) -> IntArray:
        """Return the ids on the likeliest paths, (N, depth), root first; zeros in warm-up."""
        X = read_batch(batch, self._vectorizer, learn=False).X
        if self._tree is None:
            return np.zeros((len(X), self.depth), np.int64)
        self._check(X)
        q = self._tree.place(X - self._origin).q
        return ids_of(self._tree, _likeliest_leaves(self._tree, q))

    def transform_one(self, x: Mapping[Any, Any]) -> dict[str, Any]:
        """Return the path of a point and its loadings, as a dict; empty in warm-up.

        ``path``: tuple of ids, root first; ``path_prob``; ``loadings``: dict of id to expected
        loading, over all paths.
        """
        X, tree = self._row(x), self._tree
        if tree is None:
            return {"path": (), "path_prob": 1.0, "loadings": {}}
        local = tree.place(X - self._origin)
        best = _likeliest_leaves(tree, local.q)
        some = np.flatnonzero(local.loadings[0])
        loadings = dict(zip(tree.ids[some].tolist(), local.loadings[0, some].tolist(), strict=True))
        path = tuple(ids_of(tree, best)[0].tolist())
        return {"path": path, "path_prob": float(local.q[0, best[0]]), "loadings": loadings}

    def _each_left_out(self, x: Any) -> Iterator[tuple[str, float, Any]]:
        return iter(())  # a row without a column has no place in the tree

    def score_one(self, x: Mapping[Any, Any], t: Any = None) -> float:
        """Return -log density (nats) by the bound: high is surprising. 0 in warm-up.

        For a binary row, -log probability.
        """
        return 0.0 if self._tree is None else float(self._predictions(self._row(x))[0, SCORE])

    def reconstruct_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:
        """Return a point projected onto the mean and the vectors of its path.

        For a binary row, the probability of a 1 in each column. In warm-up the point itself.
        """
        row = self._reconstruct(self._row(x))[0].tolist()
        return dict(zip(self._vectorizer.columns or tuple(x), row, strict=True))

    def reconstruct_many(self, batch: object) -> FloatArray:
        """Return points (N, D) as `reconstruct_one` does."""
        return self._reconstruct(read_batch(batch, self._vectorizer, learn=False).X)

    def _reconstruct(self, X: FloatArray) -> FloatArray:
        tree = self._tree
        if tree is None:
            return X
        self._check(X)
        return self._origin + tree.reconstruct(X - self._origin)

    # -- looking ---------------------------------------------------------------------------------

    @property
    def n_seen(self) -> int:
        """Points learned, or waiting for the next step."""
        return self._n_seen

    @property
    def n_refused(self) -> int:
        """Moves refused because of ``max_nodes`` that would have raised the bound."""
        return 0 if self._tree is None else self._tree.n_refused

    @property
    def bound(self) -> float:
        """Evidence lower bound, with the window representing all points; NaN in warm-up."""
        return math.nan if self._tree is None else self._tree.bound()

    objective = bound

    def tree(self) -> dict[str, Any]:
        """Return the tree as nested dicts, the heaviest children first; empty in warm-up.

        ``id``, ``level`` (root 1), ``weight`` (points through the node), ``born`` (number of the
        point), ``vector`` (D,) and ``children``; the root has ``mean`` (D,), too.
        """
        tree = self._tree
        if tree is None:
            return {}
        M = tree.weights.M
        root = nested(tree, [{"vector": vector.copy()} for vector in M[1:]])
        return root | {"mean": self._origin + M[0]}

    def summary(self) -> pa.Table:
        """Return one row per node: id, parent (null: root), level, weight, born, length, vector."""
        tree = self._tree
        if tree is None:
            whole, real = pa.int64(), pa.float64()
            return empty_table(
                id=whole, parent=whole, level=whole, weight=real, born=whole, length=real,
                vector=pa.list_(real),
            )  # fmt: skip
        M = tree.weights.M[1:]
        vectors = pa.array(list(M), pa.list_(pa.float64()))
        length = np.linalg.norm(M, axis=1)
        return pa.table({**node_columns(tree), "length": length, "vector": vectors})

    def _draw_tree(self, ax: Any) -> Any:
        return plot_component_tree(self.tree(), ax)

    # -- keeping ---------------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays, tree = ({}, None) if self._tree is None else self._tree.to_state()
        meta = {"vectorizer": self._vectorizer.to_config(), "steps": self._steps}
        meta |= self._settings() | {"n_seen": self._n_seen, "tree": tree}
        return arrays | {"waiting": self._waiting, "origin": self._origin}, meta

    def _restore(self, arrays: dict[str, Any], meta: dict[str, Any]) -> None:
        self._vectorizer = Vectorizer.from_config(meta["vectorizer"])
        self._waiting, self._origin = arrays["waiting"], arrays["origin"]
        self._steps, self._n_seen = meta["steps"], meta["n_seen"]
        D, n = self._vectorizer.n_features, len(self._waiting)
        refuse_unless_plain(meta, counts=("steps", "n_seen"))
        begun = meta["tree"] is not None
        wide = (n, D if n else self._waiting.shape[-1])
        check_one("waiting", self._waiting, wide, np.float64, PRESENT)
        refuse_if(n >= (_STEP if begun else self.warmup), "waiting")
        check_one("origin", self._origin, (D if begun else 0,), np.float64, FINITE)
        if begun:
            refuse_if(arrays["M"].shape[-1] != D, "columns")
            limits = self.depth, self.max_nodes
            self._tree = self._kind.from_state(arrays, meta["tree"], *limits)


def _likeliest_leaves(tree: ComponentTree, q: FloatArray) -> IntArray:
    """Return the slots of leaves, (N,), from endpoint probabilities (N, K)."""
    leaves = np.flatnonzero(tree.level == tree.depth)
    best: IntArray = leaves[q[:, leaves].argmax(axis=1)]
    return best
