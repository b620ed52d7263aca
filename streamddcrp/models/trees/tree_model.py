"""What estimators of trees have in common: options, nested nodes, graphs, events, pictures."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
from river import base

from streamddcrp.contract import Event
from streamddcrp.errors import ConfigError, MissingExtraError
from streamddcrp.estimator.stored import Stored
from streamddcrp.models.trees.growth import Growth
from streamddcrp.models.trees.pictures import plot_growth
from streamddcrp.typing import FloatArray, IntArray


class TreeModel(Stored, base.Clusterer):
    """What models of trees tell of the tree that they have learned."""

    ignores_times = True
    _tree: Any
    _growth: Growth

    def tree(self) -> dict[str, Any]:
        """Return the tree as nested dicts."""
        raise NotImplementedError

    def _draw_tree(self, ax: Any) -> Any:
        raise NotImplementedError

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return 0 if self._tree is None else int(self._tree.n_nodes)

    @property
    def n_tables(self) -> int:
        """The same, by the name that other models have for it."""
        return self.n_nodes

    def graph(self) -> Any:
        """Return the tree as a `networkx.DiGraph`, edges from parent to child.

        Nodes are ids, with the other entries of `tree` as attributes.

        Raises
        ------
        MissingExtraError
            networkx is not installed.
        """
        return as_graph(self.tree())

    def growth(self) -> pa.Table:
        """Return how the tree grew: row (learned), n_nodes, births, merges and prunes so far."""
        return pa.table(self._growth.columns())

    def events(self) -> list[Event]:
        """Return what happened to nodes since the last call; of the last thousand."""
        return [] if self._tree is None else told(self._tree)

    def plot(self, kind: str = "tree", ax: Any = None) -> Any:
        """Draw the tree, or with ``kind="growth"`` its nodes over the stream.

        Raises
        ------
        MissingExtraError
            matplotlib is not installed.
        """
        return draw(kind, self._draw_tree, self.growth, ax)


def check_whole(name: str, value: Any, least: int) -> None:
    """Refuse an option that is no whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        message = f"{name} must be a whole number of at least {least}, got {value!r}"
        raise ConfigError(message)


def check_tree(model: Any, paths: int, **least: int) -> None:
    """Refuse options of a tree; it needs room for some paths, and ``least`` are whole numbers."""
    check_whole("depth", model.depth, 2)
    check_whole("max_nodes", model.max_nodes, paths * model.depth)
    positive("gamma", model.gamma)
    for name, value in least.items():
        check_whole(name, getattr(model, name), value)


def positive(name: str, value: Any, n: int = 1) -> FloatArray:
    """Return a positive number for each of n levels, from one number or n."""
    try:
        out = np.array(np.broadcast_to(np.asarray(value, np.float64), (n,)))
    except (TypeError, ValueError):
        out = np.array([np.nan])
    if isinstance(value, bool) or not (np.isfinite(out) & (out > 0.0)).all():
        levels = f", or one for each of {n} levels" if n > 1 else ""
        message = f"{name} must be a positive number{levels}; got {value!r}"
        raise ConfigError(message)
    return out


def nested(tree: Any, more: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return nodes as nested dicts, children in order of size; ``more`` (K) is added to each."""
    sizes = tree.sizes()
    nodes = [
        {
            "id": int(tree.ids[i]), "level": int(tree.level[i]), "size": float(sizes[i]),
            "born": int(tree.born[i]), **more[i], "children": [],
        }
        for i in range(tree.n_nodes)
    ]  # fmt: skip
    for i in sorted(range(1, tree.n_nodes), key=lambda i: (-sizes[i], i)):
        nodes[tree.parent[i]]["children"].append(nodes[i])
    return nodes[0]


def node_columns(tree: Any) -> dict[str, Any]:
    """Return id, parent (null: the root), level, size and born of every node."""
    K = tree.n_nodes
    parents = [None, *tree.ids[tree.parent[1:K]].tolist()][:K]
    return {
        "id": tree.ids[:K].copy(),
        "parent": pa.array(parents, pa.int64()),
        "level": tree.level[:K].copy(),
        "size": tree.sizes(),
        "born": tree.born[:K].copy(),
    }


def told(tree: Any) -> list[Event]:
    """Return the changes of a tree as events, once."""
    changes = list(tree.changes)
    tree.changes.clear()
    rows = [max(c.n_seen - 1, 0) for c in changes]
    return [
        Event(c.kind, c.id, row, float(row), c.other) for c, row in zip(changes, rows, strict=True)
    ]


def ids_of(tree: Any, slots: IntArray) -> IntArray:
    """Return the ids on the way to nodes, (N, L), -1 below them."""
    paths = tree.paths()[slots]
    out: IntArray = np.where(paths >= 0, tree.ids[paths], -1)
    return out


def as_graph(root: dict[str, Any]) -> Any:
    """Return nested dicts of nodes as a networkx graph."""
    try:
        networkx = import_module("networkx")
    except ImportError:
        message = "networkx is not installed; pip install 'streamddcrp[graph]'"
        raise MissingExtraError(message) from None
    graph, todo = networkx.DiGraph(), [root] if root else []
    while todo:
        node = todo.pop()
        more = {name: value for name, value in node.items() if name not in ("id", "children")}
        graph.add_node(node["id"], **more)
        for child in node["children"]:
            graph.add_edge(node["id"], child["id"])
        todo += node["children"]
    return graph


def draw(kind: str, tree: Any, growth: Any, ax: Any) -> Any:
    """Draw the tree, by the function ``tree``, or its growth."""
    if kind == "tree":
        return tree(ax)
    if kind == "growth":
        return plot_growth(growth(), ax)
    message = f"kind must be 'tree' or 'growth', got {kind!r}"
    raise ConfigError(message)
