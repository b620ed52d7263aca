"""A tree of topics as arrays and settings, and back."""

from collections import deque
from typing import Any

import numpy as np

from streamddcrp.models.trees.settings import Change, Settings
from streamddcrp.models.trees.topics import TopicTree
from streamddcrp.models.trees.window import Window

Arrays = dict[str, Any]
_NODES = ("parent", "level", "born", "ids", "rows", "mass")
_DOCUMENTS = ("weights", "ends", "own")
_COUNTERS = ("next_tidy", "n_born", "n_merged", "n_pruned")


def tree_to_state(tree: TopicTree) -> tuple[Arrays, dict[str, Any]]:
    """Return the state as arrays and JSON values; counts are kept where they are not 0."""
    K, w = tree.n_nodes, tree.window
    n = int(w.offsets[w.n])
    arrays = {name: getattr(tree, name)[:K] for name in _NODES}
    words, nodes = np.nonzero(tree.counts[: tree.n_words, :K])
    arrays |= {
        "counts.words": words.astype(np.int64), "counts.nodes": nodes.astype(np.int64),
        "counts.values": tree.counts[words, nodes], "whole": tree.whole, "real": tree.real,
        "learned_eta": tree.learned_eta,
        "window.offsets": w.offsets[: w.n + 1], "window.words": w.words[:n],
        "window.counts": w.counts[:n], "window.phi": w.phi[:n],
    }  # fmt: skip
    arrays |= {f"window.{name}": getattr(w, name)[: w.n] for name in _DOCUMENTS}
    meta: dict[str, Any] = {name: getattr(tree, name) for name in _COUNTERS}
    meta["changes"] = [list(change) for change in tree.changes]
    meta["room"] = [len(tree.parent), len(tree.counts), len(w.offsets) - 1, len(w.words)]
    return arrays, meta


def tree_from_state(settings: Settings, arrays: Arrays, meta: dict[str, Any]) -> TopicTree:
    """Rebuild from `tree_to_state`."""
    nodes, words, documents, tokens = meta["room"]
    part = {name: _padded(arrays[name], nodes) for name in _NODES}
    counts = np.zeros((words, nodes))
    counts[arrays["counts.words"], arrays["counts.nodes"]] = arrays["counts.values"]
    window = Window(
        n=len(arrays["window.weights"]),
        offsets=_padded(arrays["window.offsets"], documents + 1),
        words=_padded(arrays["window.words"], tokens),
        counts=_padded(arrays["window.counts"], tokens),
        phi=_padded(arrays["window.phi"], tokens),
        **{name: _padded(arrays[f"window.{name}"], documents) for name in _DOCUMENTS},
    )
    changes = deque((Change(*change) for change in meta["changes"]), maxlen=1024)
    return TopicTree(
        settings=settings, counts=counts, whole=arrays["whole"], real=arrays["real"],
        learned_eta=arrays["learned_eta"],
        window=window, changes=changes, **part, **{name: meta[name] for name in _COUNTERS},
    )  # fmt: skip


def _padded(array: Any, room: int) -> Any:
    out = np.zeros((room, *array.shape[1:]), array.dtype)
    out[: len(array)] = array
    return out
