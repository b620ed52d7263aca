"""The nested CRP as a streaming estimator: a tree of topics that grows."""

import logging
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from streamddcrp.contract import LIVE_TABLES, N_OUTPUTS, P_NEW, SCORE, Part
from streamddcrp.data import documents
from streamddcrp.data.copies import CopyIndex
from streamddcrp.data.kernels.copies import KNOWN
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.estimator.interrupts import pause
from streamddcrp.estimator.reasons import Explanation, explanation
from streamddcrp.models.trees.pictures import plot_topic_tree
from streamddcrp.models.trees.topic_moves import tidy, tidy_if_due
from streamddcrp.models.trees.topic_tree import CHUNK, Settings, TopicTree
from streamddcrp.models.trees.tree import by_level, ids_of
from streamddcrp.models.trees.views import TreeModel, check_tree, nested, node_columns
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp.validation import whole

_log = logging.getLogger(__name__)
_MEMORY = 16  # windows without a word after which it is forgotten
_SPARE = 0.75  # of max_words left after forgetting
_SHOWN = 10
_DRAWN = 24  # words of a node available to a picture


class NestedCRPTopics(TreeModel):
    """Tree of topics (nested Chinese restaurant process), learned from a stream of documents.

    Every document takes a path from the root to a leaf, and each of its words comes from the topic
    of a node on it: general words from the root, specific ones from further down. A document opens
    a path if that explains it better. Documents of a window are placed repeatedly, and topics
    merged, dissolved and split if that raises the evidence lower bound. Memory depends on the
    window, the words and the nodes.

    Parameters
    ----------
    depth : int, default 3
        Levels, at least 2.
    gamma : float, default 1.0
        Concentration of the sticks: larger, more paths.
    forgetting : float, default 1.0
        Above 0.5. At 1 all documents count alike; below, the n-th counts n^(1 - forgetting) and all
        together count n, which forgets old ones.
    max_nodes : int, default 512
        Near this limit the smallest paths are removed, with a single warning.

    Other Parameters
    ----------------
    eta : float or tuple of float, optional
        Dirichlet prior of a word in a topic, for all levels or for each, root first; smaller values
        give more and narrower topics. Default: 1.0 for the root, 0.1 for leaves, and twice as much
        for each level above them: with less, an inner node would have one leaf, its twin.
    alpha : tuple of float, optional
        Dirichlet prior of a document's proportions of levels. Default: (5, 2, 0.5, 0.5, ..).
    window : int, default 512
        Documents that may still move.
    revisits : int, default 3
        Documents of the window placed again after each arrival.
    max_words : int, default 50000
        Beyond this number, the rarest words outside the window are forgotten; words with fewer than
        one occurrence in 16 windows always are.

    Notes
    -----
    Wang and Blei (2009), with the word levels conditional on the path. About 2 ms for a document of
    200 words and 200 nodes, and O(nodes x words) memory. A path of a single document is dropped
    when the document leaves the window. Held-out words are scored under an eta learned from the
    topics: for each level, the type-II maximum with a Gamma prior about ``eta``. A copy of one of
    the last ``window`` documents, exact or nearly so, goes where that one is and is no evidence of
    its own (docs/math/texts.md (5), (5a)).

    Examples
    --------
    >>> from streamddcrp import NestedCRPTopics
    >>> model = NestedCRPTopics()
    >>> subjects = ["cat purr milk fur paw", "boat sail mast oar hull", "oven dough yeast loaf rye",
    ...             "chess rook pawn mate king", "rain cloud storm wind hail"]
    >>> model.learn_many(["the day was long " + 4 * (words + " ") for words in subjects * 12])
    >>> model.refine()  # a further pass over so few documents
    >>> model.predict_one("cat milk cat paw") == model.predict_one("paw purr paw fur")
    True
    >>> model.predict_one("cat milk cat paw") == model.predict_one("sail mast oar hull")
    False
    >>> near, odd = (model.score_one(words, given="cat purr") for words in ["milk fur", "oar hull"])
    >>> near < odd
    True
    """

    _tree: TopicTree
    _copies: CopyIndex | None = None  # of the window, made when needed
    _told_of_none = _told_of_many = False

    def __init__(
        self,
        *,
        depth: int = 3,
        gamma: float = 1.0,
        forgetting: float = 1.0,
        max_nodes: int = 512,
        eta: float | Sequence[float] | None = None,
        alpha: Sequence[float] | None = None,
        window: int = 512,
        revisits: int = 3,
        max_words: int = 50_000,
    ) -> None:
        super().__init__()
        self.depth = depth
        self.gamma = gamma
        self.eta = eta
        self.alpha = alpha
        self.forgetting = forgetting
        self.window = window
        self.revisits = revisits
        self.max_nodes = max_nodes
        self.max_words = max_words
        check_tree(self, 2, window=1, revisits=0, max_words=2)
        if not 0.5 < forgetting <= 1.0:
            raise ConfigError(f"forgetting must be above 0.5 and at most 1, got {forgetting!r}")
        eta = (1.0, *(0.1 * 2.0 ** np.arange(depth - 2, -1, -1))) if eta is None else eta
        alpha = (5.0, 2.0, *(0.5,) * (depth - 2))[:depth] if alpha is None else alpha
        self._tree = TopicTree.empty(
            Settings(
                gamma=float(gamma),
                eta=by_level("eta", eta, depth),
                alpha=by_level("alpha", alpha, depth),
                forgetting=float(forgetting),
                window=window,
                revisits=revisits,
                max_nodes=max_nodes,
            )
        )
        self._vocabulary = documents.Vocabulary()

    # -- learning --------------------------------------------------------------------------------

    def _read_row(self, x: Any) -> tuple[Any, None]:
        return [documents.read_document(x)], None

    def _read_rows(self, batch: Any) -> tuple[Any, None]:
        return documents.read_bags(batch), None

    @property
    def n_seen(self) -> int:
        """Number of documents learned."""
        return self._tree.n_seen

    def refine(self) -> None:
        """Place every document of the window again, and try moves for every node.

        Without new documents: a further pass over the last ``window`` ones.
        """
        self._tree.revisit()
        tidy(self._tree, math.inf)

    def window_paths(self) -> IntArray:
        """Return the ids on the paths of the last ``window`` documents, (n, depth), oldest first.

        -1 for documents without words, for copies of documents before these, and for levels below a
        dropped node.
        """
        tree = self._tree
        docs, _ = tree.window.last(self.window)
        at = np.arange(len(docs.ends)) - docs.source
        ends = np.where(at >= 0, docs.ends[at], -1)
        return np.where(ends[:, None] >= 0, ids_of(tree, np.maximum(ends, 0)), -1)

    def _advance(self, rows: Any, t: Any, types: Any) -> FloatArray:
        tree, N = self._tree, len(rows)
        out, start = np.zeros((N, N_OUTPUTS)), 0
        while start < N:
            due = tree.next_stop
            stop = min(N, start + due - tree.n_seen)
            bags = self._encode(rows[start:stop], learn=True)
            out[start:stop, : P_NEW + 1] = self._learn(bags)
            tidied = tidy_if_due(tree)
            sizes = np.add.reduceat(np.append(bags.counts, 0.0), bags.offsets[:-1])
            empty = bags.offsets[1:] == bags.offsets[:-1]
            sizes[empty] = np.nan
            if empty.any() and not self._told_of_none:
                self._told_of_none = True
                _log.warning("a document without known words has no path: its label is -1")
            out[start:stop, SCORE] /= -sizes
            out[start:stop, LIVE_TABLES] = tree.n_nodes
            if tree.n_seen == due:
                self._growth.note(
                    tree.n_seen, tree.n_nodes, tree.n_born, tree.n_merged, tree.n_pruned
                )
                if tidied:
                    self._forget_words()
            start = stop
            if start < N:
                pause()
        return out

    def _learn(self, bags: documents.Bags) -> FloatArray:
        """Learn documents without those that are copies, which go where their originals are."""
        tree, index, window = self._tree, self._copies, self.window
        if index is None or len(index) > 2 * window + CHUNK:
            self._copies = index = CopyIndex(exact=False, reach=window)
            last = tree.window.last(window)[0]
            index.find(documents.Bags(last.offsets, last.words, last.counts), KNOWN)
        before, sizes = len(index), np.diff(bags.offsets)
        source, surprise = index.find(bags)
        is_copy = source >= 0
        back = np.where(is_copy, before + np.arange(len(sizes)) - source, 0)
        most = np.maximum.accumulate(np.append(tree.n_words - 1, bags.words))
        widths = 1 + most[bags.offsets[1:]]
        kept, ends = np.repeat(~is_copy, sizes), np.cumsum(np.where(is_copy, 0, sizes))
        own = documents.Bags(np.append(0, ends), bags.words[kept], bags.counts[kept])
        out = tree.learn(own, back, widths)
        out[is_copy, SCORE] = -surprise[is_copy]
        return out

    def _forget_words(self) -> None:
        """Forget words that are too rare: lossy counting, Manku and Motwani (2002)."""
        tree, V = self._tree, len(self._vocabulary)
        weight, docs = tree.counts[:V].sum(axis=1) * tree.scale, tree.window.docs
        used = _MEMORY * self.window * weight >= tree.n_seen - tree.first[:V]
        if self.max_words < V:
            used[np.lexsort((np.arange(V), -weight))[int(_SPARE * self.max_words) :]] = False
        used[docs.words[: docs.offsets[tree.window.n]]] = True
        if used.all():
            return
        if self.max_words < V and not self._told_of_many:
            self._told_of_many = True
            _log.warning(
                "more words than the %d that max_words allows: the rarest before the window are "
                "forgotten; raise max_words to keep them",
                self.max_words,
            )
        _log.info("%d words: the rarest are forgotten, and %d are kept", V, used.sum())
        tree.keep_words(used)
        self._vocabulary.keep(used)
        self._copies = None  # words have other numbers

    def _encode(self, rows: Any, *, learn: bool = False) -> documents.Bags:
        return documents.encode(self._vocabulary, rows, learn=learn)

    # -- predicting ------------------------------------------------------------------------------

    def predict_one(self, x: Any, t: Any = None) -> int:
        """Return the id of the node where the likeliest path ends.

        This is a leaf, or an inner node if a document would best open a path below it; 0, the root,
        before anything was learned and for a document without known words.
        """
        slots, _, _ = self._place([documents.read_document(x)])
        return int(self._tree.ids[slots[0]])

    def paths_many(self, batch: Any) -> IntArray:
        """Return the ids on the likeliest paths, (N, depth), root first, -1 for new nodes."""
        slots, _, _ = self._place(documents.read_bags(batch))
        return ids_of(self._tree, slots)

    def transform_one(self, x: Any) -> dict[str, Any]:
        """Return the path of a document and its proportions of levels, as a dict.

        ``path``: tuple of ids, root first; ``path_prob``; ``p_new``: probability of a new path;
        ``levels``: tuple of expected proportions.
        """
        slots, out, levels = self._place([documents.read_document(x)])
        path = ids_of(self._tree, slots)[0]
        return {
            "path": tuple(path[path >= 0].tolist()),
            "path_prob": float(out[0, 0]),
            "p_new": float(out[0, 2]),
            "levels": tuple(levels[0].tolist()),
        }

    def score_one(self, x: Any, t: Any = None, *, given: Any = None) -> float:
        """Return the surprise of a document by completion: nats per held-out word.

        Parameters
        ----------
        x : document
        given : document, optional
            Other words of the same document. Default: every second word of ``x``, in their order
            (of a dict, that of its words, each repeated by its count).

        Returns
        -------
        float
            -log p(held-out words | given words) / held-out words, without unknown ones; NaN if none
            is left.
        """
        held = documents.read_document(x)
        if given is None:
            words = [word for word, count in held for _ in range(round(count))]
            seen = [(word, 1.0) for word in words[::2]]
            held = [(word, 1.0) for word in words[1::2]]
        else:
            seen = documents.read_document(given)
        bags = self._encode([held])
        total = float(bags.counts.sum())
        logs = self._tree.complete_many(self._encode([seen]), bags)
        return float(-logs[0] / total) if total else math.nan

    def explain_one(self, x: Any, t: Any = None, **side: Any) -> Explanation:
        """Return the surprise of each known word given all others; changes nothing.

        A part is a word with its count as value, by -log p(word | the others); the score is that of
        `score_one`.
        """
        words, parts = documents.read_document(x), []
        for word, count in words:
            others = {other: n for other, n in words if other != word}
            surprise = self.score_one({word: 1.0}, given=others)
            if not math.isnan(surprise):  # a word that is known
                parts.append(Part(str(word), count, surprise=surprise, excess=surprise))
        score = self.score_one(x)
        return explanation(parts, score, score)

    def _one_by_one(self, batch: object) -> list[Any]:
        return documents.documents_of(batch)

    def complete_many(self, given: Any, held_out: Any) -> FloatArray:
        """Return log p(held-out words | given words) of each document in nats, (N,).

        The log of the probability of all held-out words together, a mixture over paths, where
        topics and proportions have learned the given words. Unknown words are left out.
        """
        seen, held = documents.read_bags(given), self._encode(documents.read_bags(held_out))
        n = len(seen)
        if n != len(held.offsets) - 1:
            raise SchemaError(f"given has {n} documents, held_out {len(held.offsets) - 1}")
        return self._tree.complete_many(self._encode(seen), held)

    def _place(self, rows: Any) -> tuple[IntArray, FloatArray, FloatArray]:
        bags = self._encode(rows)
        slots, out, levels = self._tree.place_many(bags)
        slots[np.diff(bags.offsets) == 0] = 0
        return slots, out, levels

    # -- looking ---------------------------------------------------------------------------------

    @property
    def bound(self) -> float:
        """Evidence lower bound of everything learned.

        Documents that left the window count as last placed.
        """
        return self._tree.bound()

    objective = bound

    def tree(self, n_words: int = _SHOWN) -> dict[str, Any]:
        """Return the tree as nested dicts, the heaviest children first.

        ``id``, ``level`` (root 1), ``weight`` (documents through the node; with forgetting < 1
        recent ones count more), ``born`` (number of the document), ``words`` (pairs of word and
        probability in the topic, those that distinguish it, or its whole subtree, from its siblings
        first) and ``children``.
        """
        n_words = whole("n_words", n_words)
        words = distinctive_words(self._tree, self._vocabulary.words, n_words)
        return nested(self._tree, [{"words": some} for some in words])

    def summary(self) -> pa.Table:
        """Return one row per node: id, parent (null: root), level, weight, born, copies, ...

        ``tokens``, ``words``; ``weight`` and ``tokens`` do not count the ``copies``.
        """
        tree = self._tree
        some = distinctive_words(tree, self._vocabulary.words, _SHOWN)
        words = pa.array([" ".join(str(word) for word, _ in row) for row in some], pa.string())
        tokens = tree.rows[: tree.n_nodes] * tree.scale
        columns = node_columns(tree) | {"copies": tree.copies()}
        return pa.table(columns | {"tokens": tokens, "words": words})

    def _draw_tree(self, ax: Any) -> Any:
        return plot_topic_tree(self.tree(_DRAWN), ax)

    # -- keeping ---------------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays, meta = self._tree.to_state()
        return arrays, meta | self._settings() | {"words": self._vocabulary.words}

    def _restore(self, arrays: dict[str, Any], meta: dict[str, Any]) -> None:
        self._tree = TopicTree.from_state(self._tree.settings, arrays, meta)
        self._vocabulary = documents.Vocabulary(meta["words"])


def distinctive_words(
    tree: TopicTree, names: Sequence[documents.Word], n: int
) -> list[list[tuple[documents.Word, float]]]:
    """Return up to ``n`` words of each topic with their probability in it, K lists.

    Those with the largest share of the divergence come first: a leaf's words from all below its
    parent; all words below an inner node, since few are its own, from those below its parent; the
    root's from all.
    """
    V, K = len(names), tree.n_nodes
    own = tree.counts[:V, :K] * tree.scale
    below = own.copy()
    for i in range(K - 1, 0, -1):
        below[:, tree.parent[i]] += below[:, i]
    out = []
    for i in range(K):
        mine, others = below[:, i] if i else own[:, 0], below[:, max(int(tree.parent[i]), 0)]
        some = np.flatnonzero(mine > 0.5)
        share = mine[some] / max(float(mine.sum()), 1e-300)
        rest = others[some] / max(float(others.sum()), 1e-300)
        weight = share * (np.log(share / rest) + 1e-3)
        best = some[np.lexsort((some, -weight))[:n]]
        eta = float(tree.settings.eta[tree.level[i] - 1])
        probs = (eta + own[best, i]) / (V * eta + float(own[:, i].sum()))
        out.append([(names[v], float(p)) for v, p in zip(best, probs, strict=True)])
    return out
