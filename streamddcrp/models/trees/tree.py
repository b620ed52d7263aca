"""The order of a tree's nodes in their slots, and derived arrays."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np

from streamddcrp.contract import Event
from streamddcrp.models.trees.kernels.tree import stick_bound, subtree_sums
from streamddcrp.records import Within, check, index, refuse_if
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp.validation import positive

TINY = 1e-300
_SAME = 1e-10  # length of a direction, relative to the longest, below which it is zero


def event(kind: str, node: int, n_seen: int, into: int | None = None) -> Event:
    """Return a node's event after ``n_seen`` rows."""
    row = max(n_seen - 1, 0)
    return Event(kind, node, row, float(row), into)


class Order(NamedTuple):
    """K nodes in a new order of slots."""

    slots: IntArray  # (K,) old slot of each new one
    parent: IntArray  # (K,) the tree in the new slots
    level: IntArray  # (K,)
    to: IntArray  # (K_old,) new slot of each old one; for a removed one, its ancestor's


class Nodes(NamedTuple):
    """Stored nodes: parents before their children, root first."""

    parent: Annotated[IntArray, "K", index("K", none=True)]
    level: Annotated[IntArray, "K", Within(1, "L")]
    ids: Annotated[IntArray, "K"]
    born: Annotated[IntArray, "K"]


def check_nodes(arrays: Mapping[str, Any], depth: int, most: int) -> dict[str, int]:
    """Check a tree's stored nodes, ``most`` at most; return lengths K and L; CheckpointError."""
    found = check(Nodes, arrays, {"L": depth})
    parent, level = arrays["parent"], arrays["level"]
    refuse_if(not 0 < found["K"] <= most or parent[0] != -1 or level[0] != 1, "the root")
    down = bool((parent[1:] < np.arange(1, found["K"])).all() and (parent[1:] >= 0).all())
    refuse_if(not down or bool((level[1:] != level[parent[1:]] + 1).any()), "parents and levels")
    return found


def sizes_of(parent: IntArray, mass: FloatArray) -> FloatArray:
    """Return the mass of each node and its descendants, (K,)."""
    out = np.empty(len(parent))
    subtree_sums(parent, len(parent), mass, out)
    return out


def sorted_order(
    parent: IntArray, level: IntArray, mass: FloatArray, keep: np.ndarray | None = None
) -> Order:
    """Sort the kept nodes level by level, siblings together, largest first.

    This order of the sticks gives the largest bound. ``keep`` (K,) of bool must include the parent
    of each kept node. Mass of removed nodes is counted at the nearest kept ancestor, which costs
    nothing here because only subtree sums matter.
    """
    K = len(parent)
    size = sizes_of(parent, mass)
    keep = np.ones(K, dtype=bool) if keep is None else keep
    to = np.full(K, -1)
    slots, start = [0], 0
    for depth in range(1, int(level.max()) + 1):
        for at, node in enumerate(slots[start:], start):
            to[node] = at
        here = np.flatnonzero(keep & (level == depth + 1))
        start = len(slots)
        by = np.lexsort((here, -size[here], to[parent[here]]))
        slots += here[by].tolist()
    for at, node in enumerate(slots[start:], start):
        to[node] = at
    new_parent = to[parent[slots]]
    new_parent[0] = -1
    for i in range(K):  # parents stand before their children
        if to[i] < 0:
            to[i] = to[parent[i]]
    return Order(np.array(slots), new_parent, level[slots], to)


def merged(parent: IntArray, mass: FloatArray, i: int, j: int) -> tuple[IntArray, FloatArray]:
    """Return parents and masses after sibling j was merged into i; slot j is left empty."""
    parent, mass = parent.copy(), mass.copy()
    parent[parent == j] = i
    mass[i] += mass[j]
    mass[j] = 0.0
    return parent, mass


def with_ancestors(parent: IntArray, level: IntArray, nodes: np.ndarray) -> np.ndarray:
    """Return the nodes on the paths to ``nodes``, both (K,) of bool; always with the root."""
    out = nodes.copy()
    for i in np.argsort(-level, kind="stable").tolist()[:-1]:
        out[parent[i]] |= out[i]
    out[0] = True
    return out


def sticks(parent: IntArray, level: IntArray, mass: FloatArray, L: int, gamma: float) -> float:
    """Return the bound's terms of the sticks at the optimum of q(v)."""
    return float(stick_bound(parent, level, L, mass, gamma))


def paths_of(parent: IntArray, level: IntArray, L: int) -> IntArray:
    """Return the slots on the path to each node, (K, L), -1 below it."""
    K = len(parent)
    out = np.full((K, L), -1)
    for i in range(K):
        if i:
            out[i] = out[parent[i]]
        out[i, level[i] - 1] = i
    return out


def by_level(name: str, value: Any, depth: int) -> FloatArray:
    """Return a positive number for each level, from one for all or one for each."""
    also = f"one for each of {depth} levels"
    if not (np.iterable(value) and len(list(value)) == depth):
        value = (positive(name, value, also),) * depth
    out = np.array([positive(name, number, also) for number in value])
    positive(f"the sum of {name}", float(np.sum(out)))
    return out


def ids_of(tree: Any, slots: IntArray) -> IntArray:
    """Return the ids on the paths to nodes, (N, L), -1 below them."""
    paths = tree.paths()[slots]
    return np.asarray(np.where(paths >= 0, tree.ids[paths], -1))


def attributes(owner: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return some attributes by name."""
    return {name: getattr(owner, name) for name in names}


def basis_of(vectors: FloatArray) -> FloatArray:
    """Return an orthonormal basis of the span of some vectors, at least one, by singular values."""
    _, size, axes = np.linalg.svd(vectors, full_matrices=False)
    return np.asarray(axes[size > _SAME * max(size[0], TINY)])


def reconstruct(
    X: FloatArray, ends: IntArray, parent: IntArray, level: IntArray, L: int, M: FloatArray
) -> FloatArray:
    """Project points onto the mean and the span of the vectors of their paths."""
    out = np.empty_like(X)
    paths = paths_of(parent, level, L)
    for k in np.unique(ends).tolist():
        rows = np.flatnonzero(ends == k)
        basis = basis_of(M[paths[k, : level[k]] + 1])
        out[rows] = M[0] + (X[rows] - M[0]) @ basis.T @ basis
    return out
