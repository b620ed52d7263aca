"""A tree of topics as arrays: nodes with their statistics, and the last documents.

Kernels take the arrays as `NodeArrays` and `Documents`, and `Settings`; they update in place.
"""

from collections import deque, namedtuple
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from streamddcrp.models.trees.kernels.gain import node_bounds, reorder
from streamddcrp.models.trees.kernels.topics import LOCAL, N_NODES, N_SEEN, N_WORDS, SCALE
from streamddcrp.models.trees.tree import Change, attributes, paths_of, sizes_of, sticks
from streamddcrp.typing import FloatArray, IntArray


class Settings(NamedTuple):
    """Options of a tree of topics with L levels."""

    gamma: float  # concentration of the sticks
    eta: FloatArray  # (L,) Dirichlet prior of a word in a topic
    alpha: FloatArray  # (L,) Dirichlet prior of a document's proportions of levels
    forgetting: float = 1.0  # the n-th document counts n^(1 - forgetting), all together n
    window: int = 512
    revisits: int = 2  # documents of the window that are placed again after each new one
    max_nodes: int = 512
    tol: float = 1e-3  # of the words' levels: until no more than this share of the words moves


NodeArrays = namedtuple("NodeArrays", "parent level born ids counts rows mass whole real")
Documents = namedtuple("Documents", "offsets words counts phi weights ends own")
_SLOTS = ("parent", "level", "born", "ids", "rows", "mass")
_BY_WORD, _BY_DOCUMENT = Documents._fields[1:4], Documents._fields[4:]
_COUNTERS = ("next_tidy", "n_born", "n_merged", "n_pruned")
FIRST_TIDY = 64  # documents


def _padded(array: Any, *room: int) -> Any:
    """Return an array with zeros behind it, of given lengths."""
    out = np.zeros((*room, *array.shape[len(room) :]), array.dtype)
    out[tuple(map(slice, array.shape))] = array
    return out


@dataclass(slots=True)
class Window:
    """The last n documents with where they were put, so that they can be put elsewhere.

    One after another, words of d in words[offsets[d]:offsets[d + 1]]; with room for more.
    """

    n: int
    offsets: IntArray  # (documents + 1,)
    words: IntArray  # (words,)
    counts: FloatArray  # (words,)
    phi: FloatArray  # (words, L) levels of the words
    weights: FloatArray  # (documents,) in the raw statistics
    ends: IntArray  # (documents,) endpoints, -1 where there is none
    own: FloatArray  # (documents,) their own part of the bound

    @classmethod
    def empty(cls, L: int) -> Self:
        """Return a window without documents."""
        whole, real = np.zeros(0, np.int64), np.zeros(0)
        offsets = np.zeros(1, np.int64)
        return cls(0, offsets, whole, real, np.zeros((0, L)), real.copy(), whole.copy(), real)

    @property
    def arrays(self) -> Documents:
        """What kernels take."""
        return Documents(**attributes(self, Documents._fields))

    def make_room(self, n: int, n_words: int, keep: int) -> int:
        """Make room for n more documents; return how many of the oldest had to go for it.

        At least the last ``keep`` ones stay.
        """
        used = int(self.offsets[self.n])
        if self.n + n < len(self.offsets) and used + n_words <= len(self.words):
            return 0
        return self.forget(keep, n, n_words)

    def forget(self, keep: int, n: int = 0, n_words: int = 0) -> int:
        """Drop all but the last ``keep`` documents, with room for more; return how many went."""
        gone = max(0, self.n - keep)
        documents, spots = slice(gone, self.n), slice(*self.offsets[[gone, self.n]].tolist())
        left, left_words = self.n - gone, spots.stop - spots.start
        room, room_words = 2 * (left + n), 2 * (left_words + n_words)
        self.offsets = _padded(self.offsets[gone : self.n + 1] - spots.start, room + 1)
        for name in _BY_WORD:
            setattr(self, name, _padded(getattr(self, name)[spots], room_words))
        for name in _BY_DOCUMENT:
            setattr(self, name, _padded(getattr(self, name)[documents], room))
        self.n = left
        return gone

    def append(self, offsets: IntArray, words: IntArray, counts: FloatArray) -> int:
        """Add documents, for which there is room; return the number of the first."""
        first, at, more = self.n, int(self.offsets[self.n]), len(offsets) - 1
        self.offsets[first : first + more + 1] = offsets + at
        self.words[at : at + len(words)] = words
        self.counts[at : at + len(words)] = counts
        self.ends[first : first + more] = -1
        self.n += more
        return first


@dataclass(slots=True)
class TopicState:
    """A tree of topics: nodes in slots, with capacity beyond the K nodes and V words in use."""

    settings: Settings
    parent: IntArray  # (capacity,)
    level: IntArray  # (capacity,)
    born: IntArray  # (capacity,)
    ids: IntArray  # (capacity,)
    counts: FloatArray  # (words, capacity); raw: ``real[SCALE]`` times them are expected counts
    rows: FloatArray  # (capacity,) raw sums over words
    mass: FloatArray  # (capacity,) raw endpoint masses
    whole: IntArray  # counters
    real: FloatArray  # scale, and the documents' part of the bound
    window: Window
    learned_eta: FloatArray  # (L,) prior of words as the topics themselves show it; for completion
    next_tidy: int = FIRST_TIDY
    changes: deque[Change] = field(default_factory=lambda: deque(maxlen=1024))
    n_born: int = 0
    n_merged: int = 0
    n_pruned: int = 0

    @classmethod
    def empty(cls, settings: Settings, n_words: int = 0) -> Self:
        """Return a tree that is a root."""
        room = min(64, settings.max_nodes)
        parent, level = np.full(room, -1), np.ones(room, np.int64)
        born, ids = np.zeros((2, room), np.int64)
        rows, mass = np.zeros((2, room))
        whole = np.array([1, 1, n_words, 0, 0, -1, -1, -1])
        return cls(
            settings, parent, level, born, ids, np.zeros((max(n_words, 64), room)), rows, mass,
            whole, np.array([1.0, 0.0]), Window.empty(len(settings.alpha)), settings.eta.copy(),
        )  # fmt: skip

    @property
    def arrays(self) -> NodeArrays:
        """What kernels take."""
        return NodeArrays(**attributes(self, NodeArrays._fields))

    @property
    def n_nodes(self) -> int:
        """Nodes."""
        return int(self.whole[N_NODES])

    @property
    def n_words(self) -> int:
        """Words."""
        return int(self.whole[N_WORDS])

    @property
    def depth(self) -> int:
        """Levels."""
        return len(self.settings.alpha)

    @property
    def n_seen(self) -> int:
        """Documents learned."""
        return int(self.whole[N_SEEN])

    @property
    def scale(self) -> float:
        """What the raw statistics are to be multiplied by."""
        return float(self.real[SCALE])

    def sizes(self) -> FloatArray:
        """Return the documents through each node, (K,)."""
        K = self.n_nodes
        return sizes_of(self.parent[:K], self.mass[:K]) * self.scale

    def paths(self) -> IntArray:
        """Return the slots on the way to each node, (K, L), -1 below it."""
        return paths_of(self.parent[: self.n_nodes], self.level[: self.n_nodes], self.depth)

    def bound(self) -> float:
        """Return the evidence lower bound of what was learned, sticks and topics at their optimum.

        Documents that left the window count as they were placed last.
        """
        nodes = np.arange(self.n_nodes)
        return self.rest_of_bound() + float(self.node_bounds(nodes, self.counts, self.rows).sum())

    def node_bounds(self, which: IntArray, counts: FloatArray, rows: FloatArray) -> FloatArray:
        """Return what the topics of some nodes explain, (K,), 0 for the others.

        ``counts`` (.., K) and ``rows`` (K,) are raw, of some words or all, and of all words.
        """
        out = np.zeros(self.n_nodes)
        V = max(self.n_words, 1)
        node_bounds(self.level, which, counts, rows, self.scale, self.settings.eta, V, out)
        return out

    def rest_of_bound(self) -> float:
        """Return the bound but for `node_bounds`."""
        K = self.n_nodes
        mass = self.mass[:K] * self.scale
        stick = sticks(self.parent[:K], self.level[:K], mass, self.depth, self.settings.gamma)
        return float(stick + self.scale * self.real[LOCAL])

    def note_births(self, before: int) -> None:
        """Remember the nodes in slots from ``before`` on."""
        self.n_born += self.n_nodes - before
        for i in range(before, self.n_nodes):
            self.changes.append(Change("birth", int(self.ids[i]), int(self.born[i])))

    def make_nodes(self) -> None:
        """Make room for as many nodes again."""
        room = min(2 * len(self.parent), self.settings.max_nodes)
        for name in _SLOTS:
            setattr(self, name, _padded(getattr(self, name), room))
        self.counts = _padded(self.counts, len(self.counts), room)

    def make_words(self, n_words: int) -> None:
        """Make room for words."""
        if n_words > len(self.counts):
            self.counts = _padded(self.counts, max(n_words, 2 * len(self.counts)))

    def take(self, slots: IntArray, parent: IntArray, level: IntArray, to: IntArray) -> None:
        """Let new slots hold the nodes of old ones; arguments as in `Order`."""
        K, n = self.n_nodes, len(slots)
        reorder(self.counts, self.n_words, K, slots)
        for array in (self.rows, self.mass, self.ids, self.born):
            array[:n] = array[slots]
            array[n:K] = 0
        self.parent[:n], self.level[:n] = parent, level
        self.whole[N_NODES] = n
        ends = self.window.ends[: self.window.n]
        ends[ends >= 0] = to[ends[ends >= 0]]

    def to_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return arrays and JSON values; counts are kept where they are not 0."""
        K, w = self.n_nodes, self.window
        n = int(w.offsets[w.n])
        arrays = {name: array[:K] for name, array in attributes(self, _SLOTS).items()}
        words, nodes = np.nonzero(self.counts[: self.n_words, :K])
        arrays |= {
            "counts.words": words.astype(np.int64), "counts.nodes": nodes.astype(np.int64),
            "counts.values": self.counts[words, nodes], "whole": self.whole, "real": self.real,
            "learned_eta": self.learned_eta, "window.offsets": w.offsets[: w.n + 1],
        }  # fmt: skip
        arrays |= {f"window.{name}": getattr(w, name)[:n] for name in _BY_WORD}
        arrays |= {f"window.{name}": getattr(w, name)[: w.n] for name in _BY_DOCUMENT}
        room = [len(self.parent), len(self.counts), len(w.offsets) - 1, len(w.words)]
        changes = [list(change) for change in self.changes]
        return arrays, attributes(self, _COUNTERS) | {"changes": changes, "room": room}

    @classmethod
    def from_state(cls, settings: Settings, arrays: dict[str, Any], meta: dict[str, Any]) -> Self:
        """Rebuild from `to_state`."""
        nodes, words, documents, tokens = meta["room"]
        counts = np.zeros((words, nodes))
        counts[arrays["counts.words"], arrays["counts.nodes"]] = arrays["counts.values"]
        window = Window(
            n=len(arrays["window.weights"]),
            offsets=_padded(arrays["window.offsets"], documents + 1),
            **{name: _padded(arrays[f"window.{name}"], tokens) for name in _BY_WORD},
            **{name: _padded(arrays[f"window.{name}"], documents) for name in _BY_DOCUMENT},
        )
        return cls(
            settings=settings,
            counts=counts,
            window=window,
            changes=deque((Change(*change) for change in meta["changes"]), maxlen=1024),
            **{name: _padded(arrays[name], nodes) for name in _SLOTS},
            **{name: arrays[name] for name in ("whole", "real", "learned_eta")},
            **{name: meta[name] for name in _COUNTERS},
        )
