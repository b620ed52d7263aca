"""A tree of components as arrays and settings, and back."""

from collections import deque
from typing import Any

from streamddcrp.models.trees.components import ComponentTree
from streamddcrp.models.trees.loadings import Prior, Stats, Weights
from streamddcrp.models.trees.settings import Change

Arrays = dict[str, Any]
_NODES = ("parent", "level", "ids", "born")
_COUNTERS = ("next_id", "n_seen", "n_born", "n_pruned", "n_refused")
_WEIGHTS, _PAST = ("shape", "rate"), ("tt", "n", "fresh")


def components_to_state(tree: ComponentTree) -> tuple[Arrays, dict[str, Any]]:
    """Return the state as arrays and JSON values."""
    w, past = tree.weights, tree.past
    arrays = {name: getattr(tree, name) for name in _NODES}
    arrays |= {"X": tree.X, "M": w.M, "S": w.S, "mass": w.mass}
    arrays |= {f"past.{name}": getattr(past, name) for name in ("yy", "yt", "mass")}
    meta: dict[str, Any] = {name: getattr(tree, name) for name in _COUNTERS}
    meta["prior"], meta["changes"] = list(tree.prior), [list(change) for change in tree.changes]
    meta["weights"] = {name: getattr(w, name) for name in _WEIGHTS}
    meta["past"] = {name: getattr(past, name) for name in _PAST}
    return arrays, meta


def components_from_state(
    arrays: Arrays, meta: dict[str, Any], depth: int, max_nodes: int
) -> ComponentTree:
    """Rebuild from `components_to_state`."""
    return ComponentTree(
        depth=depth,
        max_nodes=max_nodes,
        prior=Prior(*meta["prior"]),
        weights=Weights(M=arrays["M"], S=arrays["S"], mass=arrays["mass"], **meta["weights"]),
        past=Stats(
            **{name: arrays[f"past.{name}"] for name in ("yy", "yt", "mass")}, **meta["past"]
        ),
        X=arrays["X"],
        changes=deque((Change(*change) for change in meta["changes"]), maxlen=1024),
        **{name: arrays[name] for name in _NODES},
        **{name: meta[name] for name in _COUNTERS},
    )
