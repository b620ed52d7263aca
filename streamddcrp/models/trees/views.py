"""Shared by estimators of trees: learning, graphs, tables, events, pictures, files."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import pyarrow as pa
from river import base

from streamddcrp.contract import Event
from streamddcrp.errors import ConfigError, import_extra
from streamddcrp.estimator.as_if_next import AsIfNext
from streamddcrp.estimator.row_model import RowLearner
from streamddcrp.estimator.scikit import ScikitLearn
from streamddcrp.estimator.stored import from_json, refuse_unless_plain, to_json
from streamddcrp.estimator.views import predictions
from streamddcrp.models.trees.pictures import plot_growth
from streamddcrp.records import MOST, refuse_if
from streamddcrp.typing import Axes
from streamddcrp.validation import choice, positive, whole

_MOST = 512
_COLUMNS = ("row", "n_nodes", "births", "merges", "prunes")


@dataclass(slots=True)
class Growth:
    """Counts of nodes and moves over a stream; thinned by half when there are too many."""

    columns: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in _COLUMNS})
    every: int = 1
    skipped: int = 0

    @classmethod
    def restored(cls, stored: Mapping[str, Any]) -> Self:
        """Restore what `asdict` stored, or refuse it."""
        refuse_unless_plain(stored, counts=("every", "skipped"))
        columns = stored["columns"]
        refuse_if(not isinstance(columns, dict) or {*columns} != {*_COLUMNS}, "growth")
        refuse_if(not all(isinstance(column, list) for column in columns.values()), "growth")
        plain = all(
            type(n) is int and 0 <= n <= MOST for column in columns.values() for n in column
        )
        refuse_if(not plain or len({*map(len, columns.values())}) > 1, "growth")
        return cls(**stored)

    def note(self, *row: int) -> None:
        """Add an entry: row, nodes, births, merges, prunes."""
        self.skipped += 1
        if self.skipped < self.every:
            return
        self.skipped = 0
        for name, number in zip(_COLUMNS, row, strict=True):
            self.columns[name].append(number)
        if len(self.columns["row"]) > _MOST:
            self.columns = {name: column[1::2] for name, column in self.columns.items()}
            self.every *= 2


class TreeModel(ScikitLearn, AsIfNext, RowLearner, base.Clusterer):
    """A tree learned from a stream of documents or points.

    A subclass supplies `_advance`, which learns and returns the columns of `predictions`; `tree`
    and `_draw_tree`; and `_restore` beside `_state`.
    """

    ignores_times = True
    _tree: Any

    def __init__(self) -> None:
        super().__init__()
        self._growth = Growth()

    def _draw_tree(self, ax: Any) -> Any:
        raise NotImplementedError

    def _restore(self, arrays: dict[str, Any], meta: dict[str, Any]) -> None:
        raise NotImplementedError

    def learn_one(self, x: Any, t: Any = None) -> None:
        """Learn one document (a text, its words, or counts of words) or one point.

        A document without words is counted, and changes nothing else. ``t`` is not used.
        SchemaError describes an invalid ``x``; then nothing was learned.
        """
        self._learn_row(x, None)

    def learn_many(self, batch: Any, t: Any = None) -> None:
        """Learn a batch, with the same result, bit for bit, as one by one.

        Documents: a list of them, an Arrow array of texts, a table, or a matrix of counts (N, V),
        sparse or dense, whose columns are words named 0, 1, .. Points: an Arrow table or batch, a
        data frame, or array_like of shape (N, D). ``t`` is not used. SchemaError names an invalid
        row, also in ``row``; then nothing was learned.
        """
        self._learn_batch(batch, None)

    def step_many(self, batch: Any, t: Any = None) -> pa.RecordBatch:
        """Predict each row of a batch, then learn it, in one pass.

        One row each with ``label`` (int64, id of the likeliest leaf on arrival; 0, the root, in
        warm-up and for a document without words), ``label_prob``, ``score`` (-log evidence of a
        document in nats per word, null without words; -log density of a point in nats), ``p_new``
        (probability of a path that is not stored) and ``n_tables`` (int64, nodes; for topics, those
        at the last tidying before the batch). Floats are null in warm-up.
        """
        return predictions(self._learn_batch(batch, None)).drop_columns(["p_change"])

    def tree(self) -> dict[str, Any]:
        """Return the tree as nested dicts, the heaviest children first."""
        raise NotImplementedError

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return 0 if self._tree is None else int(self._tree.n_nodes)

    n_tables = n_nodes  # the name in other models

    def graph(self) -> Any:
        """Return the tree as a `networkx.DiGraph` of ids, edges from parent to child.

        Nodes have the other entries of `tree` as attributes. MissingExtraError without networkx.
        """
        networkx = import_extra("networkx", "graphs need networkx", "graph")
        root = self.tree()
        graph, pending = networkx.DiGraph(), [root] if root else []
        while pending:
            node = pending.pop()
            more = {name: value for name, value in node.items() if name not in ("id", "children")}
            graph.add_node(node["id"], **more)
            graph.add_edges_from((node["id"], child["id"]) for child in node["children"])
            pending += node["children"]
        return graph

    def growth(self) -> pa.Table:
        """Return how the tree grew: row (learned), n_nodes, births, merges and prunes so far."""
        return pa.table({name: self._growth.columns[name] for name in _COLUMNS})

    def events(self) -> list[Event]:
        """Return the nodes' events since the last call, at most the last thousand."""
        events = [] if self._tree is None else list(self._tree.events)
        if events:
            self._tree.events.clear()
        return events

    def plot(self, kind: str = "tree", ax: Axes | None = None) -> Any:
        """Draw the tree, or with ``kind="growth"`` its nodes over the stream; needs matplotlib."""
        choice("kind", kind, ("tree", "growth"))
        return self._draw_tree(ax) if kind == "tree" else plot_growth(self.growth(), ax)

    def _settings(self) -> dict[str, Any]:
        options = {name: to_json(value) for name, value in self._get_params().items()}
        return {"options": options, "growth": asdict(self._growth)}

    @classmethod
    def _from_state(cls, arrays: dict[str, Any], meta: dict[str, Any]) -> Self:
        model = cls(**{name: from_json(value) for name, value in meta["options"].items()})
        model._growth = Growth.restored(meta["growth"])
        model._restore(arrays, meta)
        return model


_LARGEST = {
    "depth": 64, "max_nodes": 1 << 16, "window": 1 << 20, "revisits": 1 << 16, "warmup": 1 << 20,
    "max_words": 1 << 31, "seed": (1 << 63) - 1,
}  # fmt: skip


def check_tree(model: Any, paths: int, **least: int) -> None:
    """Refuse options of a tree with room for some paths; ``least`` are further whole numbers."""
    for name, value in {"depth": 2, "max_nodes": paths, **least}.items():
        option = getattr(model, name)
        whole(name, option, value * model.depth if name == "max_nodes" else value, _LARGEST[name])
        if not isinstance(option, int):
            raise ConfigError(f"{name} must be an int, got {option!r}")
    positive("gamma", model.gamma)


def nested(tree: Any, more: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return nodes as nested dicts, the heaviest children first; ``more`` (K) is added to each."""
    sizes = tree.sizes()
    nodes = [
        {
            "id": int(tree.ids[i]), "level": int(tree.level[i]), "weight": float(sizes[i]),
            "born": int(tree.born[i]), **more[i], "children": [],
        }
        for i in range(tree.n_nodes)
    ]  # fmt: skip
    for i in sorted(range(1, tree.n_nodes), key=lambda i: (-sizes[i], i)):
        nodes[tree.parent[i]]["children"].append(nodes[i])
    return nodes[0]


def node_columns(tree: Any) -> dict[str, Any]:
    """Return id, parent (null: the root), level, weight and born of every node."""
    K = tree.n_nodes
    parents = [None, *tree.ids[tree.parent[1:K]].tolist()][:K]
    return {
        "id": tree.ids[:K].copy(),
        "parent": pa.array(parents, pa.int64()),
        "level": tree.level[:K].copy(),
        "weight": tree.sizes(),
        "born": tree.born[:K].copy(),
    }
