"""A tree of topics: nodes with their statistics, the last documents, and their placement.

Kernels take the arrays as `NodeArrays` and `Documents`, and `Settings`; they update in place.
"""

import logging
from collections import deque, namedtuple
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from scipy.special import digamma

from streamddcrp import records as rec
from streamddcrp.contract import Event
from streamddcrp.data.documents import Bags
from streamddcrp.estimator.stored import read_events, refuse_unless_plain
from streamddcrp.models.trees import tree
from streamddcrp.models.trees.kernels import topics
from streamddcrp.models.trees.kernels.gain import node_bounds, reorder
from streamddcrp.typing import FloatArray, IntArray

_log = logging.getLogger(__name__)
_NONE = rec.Within(-1, -1)  # between calls nothing is barred, forced or confined
WHOLE = rec.counters(
    {topics.N_NODES: rec.Within(1, "K"), topics.NEXT_VISIT: rec.Within(-rec.MOST, rec.MOST)}
    | dict.fromkeys((topics.BARRED, topics.FORCED, topics.CONFINED), _NONE)
)
CHUNK = 64  # documents learned at once, before empty nodes are dropped
FULL = 0.9  # of max_nodes: from where small paths are removed
_FINE = 1e-4  # for predictions: words that change level in the last round


class Settings(NamedTuple):
    """Options of a tree of topics with L levels."""

    gamma: float  # concentration of the sticks
    eta: FloatArray  # (L,) Dirichlet prior of a word in a topic
    alpha: FloatArray  # (L,) Dirichlet prior of a document's proportions of levels
    forgetting: float = 1.0  # the n-th document counts n^(1 - forgetting), all together n
    window: int = 512
    revisits: int = 2  # documents of the window placed again after each new one
    max_nodes: int = 512
    tol: float = 1e-3  # share of words that may still change level at the end


NodeArrays = namedtuple("NodeArrays", "parent level born ids counts first rows mass whole real")
_SLOTS = ("parent", "level", "born", "ids", "rows", "mass", "copied")
_COUNTERS = ("next_tidy", "n_born", "n_merged", "n_pruned")
FIRST_TIDY = 64  # documents


def padded(array: Any, *room: int) -> Any:
    """Return an array with zeros behind it, of given lengths."""
    out = np.zeros((*room, *array.shape[len(room) :]), array.dtype)
    out[tuple(map(slice, array.shape))] = array
    return out


class Documents(NamedTuple):
    """N placed documents of T words, d's words from ``offsets[d]`` on; O = N + 1."""

    words: Annotated[IntArray, "T", rec.index("V")]
    counts: Annotated[FloatArray, "T", rec.WEIGHT]
    phi: Annotated[FloatArray, "T L", rec.CHANCE]  # levels of the words
    offsets: Annotated[IntArray, "O", rec.up_to("T")]
    weights: Annotated[FloatArray, "N", rec.FINITE]  # in the raw statistics
    ends: Annotated[IntArray, "N", rec.index("K", none=True)]  # endpoints, -1: none
    own: Annotated[FloatArray, "N", rec.FINITE]  # their own part of the bound
    source: Annotated[IntArray, "N"]  # how far before it the one that it copies is, 0: no copy
    copies: Annotated[IntArray, "N"]  # of a document; they have no words here


def with_room(docs: Documents, n: int, n_words: int) -> Documents:
    """Return a copy with room for ``n`` documents and ``n_words`` words."""
    lengths = {"O": n + 1, "N": n, "T": n_words, "L": docs.phi.shape[1]}
    return rec.resized(docs, lengths)


@dataclass(slots=True)
class Window:
    """The last n documents, with room for more."""

    n: int
    docs: Documents  # as kernels take them

    @classmethod
    def empty(cls, L: int) -> Self:
        """Return a window without documents."""
        return cls(0, rec.empty(Documents, {"O": 1, "N": 0, "T": 0, "L": L}))

    def append(self, bags: Bags, source: IntArray, keep: int) -> int:
        """Add documents; return how many of the oldest, before the last ``keep``, were dropped."""
        more, n_words, gone = len(bags.offsets) - 1, len(bags.words), 0
        used = int(self.docs.offsets[self.n]) + n_words
        if self.n + more >= len(self.docs.offsets) or used > len(self.docs.words):
            gone = self.forget(keep, more, n_words)
        docs, first, at = self.docs, self.n, int(self.docs.offsets[self.n])
        docs.offsets[first : first + more + 1] = bags.offsets + at
        docs.words[at : at + n_words] = bags.words
        docs.counts[at : at + n_words] = bags.counts
        docs.ends[first : first + more] = -1
        docs.source[first : first + more], docs.copies[first : first + more] = source, 0
        self.n += more
        return gone

    def forget(self, keep: int, n: int = 0, n_words: int = 0) -> int:
        """Drop all but the last ``keep`` documents, and make room; return the number dropped."""
        left, gone = self.last(keep)
        self.n -= gone
        self.docs = with_room(left, 2 * (self.n + n), 2 * (len(left.words) + n_words))
        return gone

    def last(self, keep: int) -> tuple[Documents, int]:
        """Return the last ``keep`` documents, without a copy, and the number before them."""
        gone = max(0, self.n - keep)
        first, end = self.docs.offsets[[gone, self.n]].tolist()
        of = {"O": slice(gone, self.n + 1), "N": slice(gone, self.n), "T": slice(first, end)}
        fields: Any = zip(rec.declared(Documents), self.docs, strict=True)
        docs = Documents(*(array[of[field.room[0]]] for field, array in fields))
        return docs._replace(offsets=docs.offsets - first), gone

    @classmethod
    def restored(cls, arrays: Mapping[str, Any], n: int, n_words: int) -> Self:
        """Rebuild from stored documents, with room for ``n`` of them and ``n_words`` words."""
        docs = Documents(*(arrays[f"window.{name}"] for name in Documents._fields))
        return cls(len(docs.weights), with_room(docs, n, n_words))


class StoredCounts(NamedTuple):
    """Nonzero counts, as stored."""

    words: Annotated[IntArray, "C", rec.index("V")]
    nodes: Annotated[IntArray, "C", rec.index("K")]
    values: Annotated[FloatArray, "C", rec.FINITE]


def _check(settings: Settings, arrays: dict[str, Any], meta: dict[str, Any]) -> None:
    lengths = tree.check_nodes(arrays, len(settings.alpha), settings.max_nodes)
    V = len(meta["words"])
    lengths = rec.check(TopicTree, arrays, lengths | {"V": V})
    rec.check(StoredCounts, arrays, lengths, "counts.")
    lengths = rec.check(Documents, arrays, lengths, "window.")
    whole, N, offsets = arrays["whole"], lengths["N"], arrays["window.offsets"]
    wrong = lengths["O"] != N + 1 or offsets[0] != 0 or offsets[-1] != lengths["T"]
    rec.refuse_if(wrong or bool((np.diff(offsets) < 0).any()), "documents and words")
    wrong = whole[topics.N_NODES] != lengths["K"] or whole[topics.N_WORDS] != V
    wrong = wrong or whole[topics.N_SEEN] < N or not arrays["real"][topics.SCALE] > 0.0
    rec.refuse_if(wrong, "words and nodes")
    room, least = meta["room"], (lengths["K"], V, N, lengths["T"])
    sound = len(room) == 4 and all(type(n) is int for n in room)
    limits = settings.max_nodes, 4 * V + 64, 4 * N + (1 << 16), 4 * lengths["T"] + (1 << 24)
    rec.refuse_if(
        not sound or not all(a <= n <= b for a, n, b in zip(least, room, limits, strict=True)),
        "room",
    )
    refuse_unless_plain(meta, counts=_COUNTERS)
    rec.refuse_if(meta["next_tidy"] <= whole[topics.N_SEEN], "next_tidy")  # must be in the future


@dataclass(slots=True)
class TopicTree:
    """A tree of topics: nodes in slots, with capacity beyond the K nodes and V words in use."""

    settings: Settings
    parent: IntArray  # (capacity,)
    level: IntArray  # (capacity,)
    born: IntArray  # (capacity,)
    ids: IntArray  # (capacity,)
    counts: FloatArray  # (words, capacity); raw: ``real[SCALE]`` times them are expected counts
    # the document that introduced a word; raw sums over words, and raw endpoint masses
    first: Annotated[IntArray, "V"]
    rows: Annotated[FloatArray, "K", rec.FINITE]
    mass: Annotated[FloatArray, "K", rec.FINITE]
    copied: Annotated[IntArray, "K"]  # copies of documents before the window, by endpoint
    whole: Annotated[IntArray, "8", WHOLE]  # rec.counters
    real: Annotated[FloatArray, "2", rec.FINITE]  # scale, and the documents' part of the bound
    window: Window
    # prior of words learned from the topics; for completion
    learned_eta: Annotated[FloatArray, "L", rec.WEIGHT]
    next_tidy: int = FIRST_TIDY
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=1024))
    n_born: int = 0
    n_merged: int = 0
    n_pruned: int = 0
    was_full: bool = False  # whether the warning was given

    @classmethod
    def empty(cls, settings: Settings, n_words: int = 0) -> Self:
        room = min(64, settings.max_nodes)
        parent, level = np.full(room, -1), np.ones(room, np.int64)
        born, ids = np.zeros((2, room), np.int64)
        rows, mass = np.zeros((2, room))
        whole = np.array([1, 1, n_words, 0, 0, -1, -1, -1])
        return cls(
            settings, parent, level, born, ids, np.zeros((max(n_words, 64), room)),
            np.zeros(max(n_words, 64), np.int64), rows, mass, np.zeros(room, np.int64), whole,
            np.array([1.0, 0.0]),
            Window.empty(len(settings.alpha)), settings.eta.copy(),
        )  # fmt: skip

    @property
    def arrays(self) -> NodeArrays:
        return NodeArrays(**tree.attributes(self, NodeArrays._fields))

    @property
    def n_nodes(self) -> int:
        return int(self.whole[topics.N_NODES])

    @property
    def n_words(self) -> int:
        return int(self.whole[topics.N_WORDS])

    @property
    def depth(self) -> int:
        return len(self.settings.alpha)

    @property
    def n_seen(self) -> int:
        """Documents learned."""
        return int(self.whole[topics.N_SEEN])

    @property
    def scale(self) -> float:
        """The scale of the raw statistics."""
        return float(self.real[topics.SCALE])

    def sizes(self) -> FloatArray:
        """Return the documents through each node, (K,)."""
        K = self.n_nodes
        return tree.sizes_of(self.parent[:K], self.mass[:K]) * self.scale

    def paths(self) -> IntArray:
        """Return the slots on the path to each node, (K, L), -1 below it."""
        return tree.paths_of(self.parent[: self.n_nodes], self.level[: self.n_nodes], self.depth)

    def bound(self) -> float:
        """Return the evidence lower bound, with optimal sticks and topics."""
        nodes = np.arange(self.n_nodes)
        return self.rest_of_bound() + float(self.node_bounds(nodes, self.counts, self.rows).sum())

    def node_bounds(self, which: IntArray, counts: FloatArray, rows: FloatArray) -> FloatArray:
        """Return the evidence of some nodes' topics (K,), by raw counts and sums; others 0."""
        out = np.zeros(self.n_nodes)
        V = max(self.n_words, 1)
        node_bounds(self.level, which, counts, rows, self.scale, self.settings.eta, V, out)
        return out

    def rest_of_bound(self) -> float:
        """Return the bound without `node_bounds`."""
        K = self.n_nodes
        mass = self.mass[:K] * self.scale
        stick = tree.sticks(self.parent[:K], self.level[:K], mass, self.depth, self.settings.gamma)
        return float(stick + self.scale * self.real[topics.LOCAL])

    @property
    def next_stop(self) -> int:
        """Number of documents at which nodes are next dropped."""
        return min(self.n_seen - self.n_seen % CHUNK + CHUNK, self.next_tidy)

    def place_many(self, bags: Bags) -> tuple[IntArray, FloatArray, FloatArray]:
        """Place documents without learning.

        Returns slots (N,) of the likeliest nodes; (N, 3) their probability, the log evidence, and
        the probability of a new path; and (N, L) expected proportions of levels.
        """
        N = len(bags.offsets) - 1
        slots, out, levels = np.zeros(N, np.int64), np.zeros((N, 3)), np.zeros((N, self.depth))
        fine = self.settings._replace(tol=_FINE)
        topics.place_many(self.arrays, fine, bags, slots, out, levels)
        return slots, out, levels

    def complete_many(self, given: Bags, held: Bags) -> FloatArray:
        """Return the log probability of held-out words given others of the documents, (N,)."""
        out = np.zeros(len(given.offsets) - 1)
        settings = self.settings._replace(tol=_FINE, eta=self.learned_eta)
        topics.complete_many(self.arrays, settings, given, held, out)
        return out

    # -- learning --------------------------------------------------------------------------------

    def learn(self, bags: Bags, source: IntArray, widths: IntArray) -> FloatArray:
        """Learn documents, up to `next_stop`.

        ``source`` (N,): how far before it the one that it copies is, 0: no copy; ``widths`` (N,):
        words known then. Returns (N, 4), on arrival: id of the likeliest node, its probability, log
        evidence, probability of a new path.
        """
        room = int(widths.max(initial=0))
        if room > len(self.counts):
            self.make_words(max(room, 2 * len(self.counts)))
        self._note_copies()
        self.whole[topics.NEXT_VISIT] -= self.window.append(bags, source, self.settings.window)
        return self._run(self.window.n - len(source), self.window.n, widths)

    def copies(self) -> IntArray:
        """Return the copies of documents through each node, (K,)."""
        docs, n, K = self.window.docs, self.window.n, self.n_nodes
        some = docs.ends[:n] >= 0
        here = np.bincount(docs.ends[:n][some], docs.copies[:n][some], K)
        own = (self.copied[:K] + here).astype(np.float64)
        return tree.sizes_of(self.parent[:K], own).astype(np.int64)

    def _note_copies(self) -> None:
        """Let copies of documents before the window stay where these are."""
        docs, gone = self.window.docs, max(0, self.window.n - self.settings.window)
        np.add.at(self.copied, np.maximum(docs.ends[:gone], 0), docs.copies[:gone])
        docs.copies[:gone] = 0

    def trim(self) -> None:
        """Drop the documents before the window, some of which may still be in memory."""
        self._note_copies()
        self.whole[topics.NEXT_VISIT] -= self.window.forget(self.settings.window)

    def revisit(self) -> None:
        """Place every document of the window again."""
        self.trim()
        self._run(0, self.window.n)

    def _run(self, first: int, last: int, widths: IntArray | None = None) -> FloatArray:
        """Learn documents, or without ``widths`` place known ones again."""
        parts, fresh = [np.zeros((0, 4))], widths is not None
        widths = np.zeros(last - first, np.int64) if widths is None else widths
        while first < last:
            before = self.n_nodes
            out = np.zeros((last - first + 1, 4))
            docs, new = self.window.docs, widths[first - last :]
            at = topics.learn(first, last, fresh, new, self.arrays, docs, self.settings, out)
            self.note_births(before)
            parts.append(out[: at - first])
            first = at
            if first < last:
                self.make_nodes()
        most = self.settings.max_nodes
        if self.n_nodes > min(FULL * most, most - self.depth) and not self.was_full:
            self.was_full = True
            _log.warning(
                "almost all of the %d nodes that max_nodes allows are in use, so the smallest "
                "topics are removed; raise max_nodes for a finer tree, or eta for a coarser one",
                most,
            )
        return np.concatenate(parts)

    def note_births(self, before: int) -> None:
        """Store the nodes in slots from ``before`` on."""
        self.n_born += self.n_nodes - before
        for i in range(before, self.n_nodes):
            self.events.append(tree.event("birth", int(self.ids[i]), int(self.born[i])))

    def make_nodes(self) -> None:
        """Double the room for nodes."""
        room = min(2 * len(self.parent), self.settings.max_nodes)
        for name in _SLOTS:
            setattr(self, name, padded(getattr(self, name), room))
        self.counts = padded(self.counts, len(self.counts), room)

    # -- dropped nodes, and their order ----------------------------------------------------------

    def reorder(self, keep: np.ndarray | None = None) -> None:
        """Sort the nodes, and remove those not kept."""
        K = self.n_nodes
        order = tree.sorted_order(self.parent[:K], self.level[:K], self.mass[:K], keep)
        n = len(order.slots)
        if np.array_equal(order.slots, np.arange(K)):
            return
        if n < K:
            self._let_go(np.setdiff1d(np.arange(K), order.slots))
        mass, copied = np.zeros(n), np.zeros(n, np.int64)
        np.add.at(mass, order.to, self.mass[:K])
        np.add.at(copied, order.to, self.copied[:K])
        self.take(order)
        self.mass[:n], self.copied[:n] = mass, copied

    def _let_go(self, gone: IntArray) -> None:
        """Count the words of dropped nodes under unstored topics, the window's by document."""
        for i in gone.tolist():
            self.events.append(tree.event("death", int(self.ids[i]), self.n_seen))
        self.n_pruned += len(gone)
        n, docs, eta = self.window.n, self.window.docs, self.settings.eta
        fresh = digamma(eta) - digamma(max(self.n_words, 1) * eta)  # E log of a word's probability
        self.real[topics.LOCAL] += float((self.rows[gone] * fresh[self.level[gone] - 1]).sum())
        paths = self.paths()
        for d in np.flatnonzero(np.isin(docs.ends[:n], gone)).tolist():
            spots, lost = slice(*docs.offsets[[d, d + 1]]), np.isin(paths[docs.ends[d]], gone)
            docs.own[d] += docs.counts[spots] @ docs.phi[spots] @ (fresh * lost)

    def keep_words(self, used: np.ndarray) -> None:
        """Forget the words not ``used`` (V,), which must not be in the window."""
        V, docs, n = self.n_words, self.window.docs, int(used.sum())
        self.rows -= self.counts[:V][~used].sum(axis=0)
        np.maximum(self.rows, 0.0, out=self.rows)
        for array in (self.counts, self.first):
            array[:n] = array[:V][used]
            array[n:V] = 0
        if len(self.first) > 4 * n + 64:
            self.make_words(max(2 * n, 64))
        self.whole[topics.N_WORDS] = n
        at = int(docs.offsets[self.window.n])
        docs.words[:at] = (np.cumsum(used) - 1)[docs.words[:at]]

    def make_words(self, room: int) -> None:
        """Resize the arrays of words to ``room`` words."""
        self.counts, self.first = padded(self.counts[:room], room), padded(self.first[:room], room)

    def take(self, order: tree.Order) -> None:
        """Move the nodes of old slots to new ones."""
        slots, parent, level, to = order
        K, n = self.n_nodes, len(slots)
        reorder(self.counts, self.n_words, K, slots)
        for array in (self.rows, self.mass, self.copied, self.ids, self.born):
            array[:n] = array[slots]
            array[n:K] = 0
        self.parent[:n], self.level[:n] = parent, level
        self.whole[topics.N_NODES] = n
        ends = self.window.docs.ends[: self.window.n]
        ends[ends >= 0] = to[ends[ends >= 0]]

    def to_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return arrays and JSON values; only nonzero counts are stored."""
        self._note_copies()
        K, docs = self.n_nodes, self.window.docs
        arrays = {name: array[:K] for name, array in tree.attributes(self, _SLOTS).items()}
        words, nodes = np.nonzero(self.counts[: self.n_words, :K])
        arrays |= {
            "counts.words": words.astype(np.int64), "counts.nodes": nodes.astype(np.int64),
            "counts.values": self.counts[words, nodes], "whole": self.whole.copy(),
            "real": self.real, "learned_eta": self.learned_eta,
            "first": self.first[: self.n_words].copy(),
        }  # fmt: skip
        last, gone = self.window.last(self.settings.window)
        arrays |= {f"window.{name}": array for name, array in last._asdict().items()}
        arrays["whole"][topics.NEXT_VISIT] -= gone
        room = [len(self.parent), len(self.counts), len(docs.weights), len(docs.words)]
        events = [asdict(event) for event in self.events]
        return arrays, tree.attributes(self, _COUNTERS) | {"events": events, "room": room}

    @classmethod
    def from_state(cls, settings: Settings, arrays: dict[str, Any], meta: dict[str, Any]) -> Self:
        _check(settings, arrays, meta)
        nodes, words, documents, tokens = meta["room"]
        counts = np.zeros((words, nodes))
        counts[arrays["counts.words"], arrays["counts.nodes"]] = arrays["counts.values"]
        return cls(
            settings=settings,
            counts=counts,
            first=padded(arrays["first"], words),
            window=Window.restored(arrays, documents, tokens),
            events=deque(read_events(meta["events"]), maxlen=1024),
            **{name: padded(arrays[name], nodes) for name in _SLOTS},
            **{name: arrays[name] for name in ("whole", "real", "learned_eta")},
            **{name: meta[name] for name in _COUNTERS},
        )
