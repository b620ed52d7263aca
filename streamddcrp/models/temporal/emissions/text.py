"""Dirichlet-multinomial emission for short texts: sparse counts, open vocabulary, decay."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from streamddcrp.cached import Cached
from streamddcrp.data.documents import Word, top_words
from streamddcrp.models.temporal.emissions import (
    Emission,
    Parts,
    Past,
    Seating,
    Summary,
    divided,
    since,
)
from streamddcrp.models.temporal.emissions.bags import Bags, as_rows, stacked
from streamddcrp.models.temporal.kernels import text
from streamddcrp.models.temporal.kernels.splits import split_gains, split_rows
from streamddcrp.typing import FloatArray, IntArray

_UNSEEN = 0.25  # additional tables assumed for every word
_HEAD = 0.25  # a word in a larger part of the rows of both halves holds a component together,
# unless more components hold it than this part of those that hold the most frequent one


class TextStats(NamedTuple):
    """Expected counts of words and rows, (E, K) of a window's epochs, or (K,) of earlier ones."""

    words: Bags
    rows: FloatArray


class TextSmoothed:
    """Counts of the components over a window, with derived values on demand."""

    def __init__(self, emission: "TextDecay", stats: TextStats, starts: TextStats) -> None:
        self._emission = emission
        self._stats, self._starts = stats.words, starts.words
        self._everything = stacked([self._starts, *self._stats])
        self.n_epochs = len(self._stats)
        self.rows = [starts.rows, *stats.rows]
        self._lists: dict[int, Any] = {}
        self.prior, self.prior_size = emission.prior(self._everything.width)

    @Cached
    def log_z(self) -> FloatArray:
        """Log evidence (E, K) of each epoch's rows given earlier ones."""
        out = np.empty(self._stats.shape)
        bags, law = (self._stats.entries, self._starts.entries), (self.prior, self.prior_size)
        text.bag_evidence(*bags, self._emission.rho, *law, out)
        return out

    def after(self, epoch: int, steps: int = 0) -> TextStats:
        """Return the counts (K,) up to an epoch that are left some steps later."""
        age = epoch + steps - np.arange(-1, len(self._stats))
        weights = np.where(age >= steps, self._emission.rho ** np.maximum(age, 0), 0.0)
        rows = sum(w * part for w, part in zip(weights.tolist(), self.rows, strict=True))
        return TextStats(self._everything.total(weights), np.asarray(rows, dtype=np.float64))

    @Cached
    def latest(self) -> Bags:
        """Word counts of the components after the window."""
        return self.after(self.n_epochs - 1).words

    @property
    def length(self) -> float:
        """Mean words of a row, at least one."""
        n = sum(float(part.sum()) for part in self.rows)
        return max(float(self._everything.counts.sum()) / max(n, 1.0), 1.0)

    def lists(self, epoch: int) -> Any:
        """Return each word's components, against which an epoch is scored, and sizes (K,)."""
        key = 0 if self._emission.rho == 1.0 else epoch
        if key not in self._lists:
            age = np.abs(epoch - np.arange(-1, len(self._stats)))
            near = self._everything.total(self._emission.rho**age)
            self._lists = {key: (text.inverted(near.entries, self.prior), near.sizes())}
        return self._lists[key]


@dataclass(frozen=True, slots=True)
class TextDecay(Emission):
    """Bags of words of components: x ~ DirichletMultinomial(prior + S_t), S_t = rho S_{t-1} + C_t.

    Rows are scored with the component's word distribution integrated out and the row's own share
    removed from its counts, within a window against ``sum_s rho^|t-s| C_s``. A row costs a term for
    each component, and one more for each common word. Multinomial coefficients are left out,
    because they are the same for all components.

    The prior is ``beta`` for every word or, without it, learned: its weight is that of
    ``documents`` rows of mean length, and its shares increase the evidence of the components'
    counts. It is a background shared by all components, so frequent words ("the") carry no weight
    and no stop list is needed. Its weight is not learned: a heavy prior merges components, and
    merged ones favour an even heavier one.

    Rows of an epoch are sparse counts (N, V). V may grow: it is the largest word so far, and at
    least ``n_words``. Until rows are learned, every word has ``strength / n_words``; an
    overestimated vocabulary makes births too unlikely.

    Examples
    --------
    >>> from scipy import sparse
    >>> from streamddcrp.models.temporal.engine import Engine
    >>> from streamddcrp.models.temporal.window import Settings
    >>> engine = Engine(Settings(alpha=1.0, past_weights=(0.5,)), TextDecay(beta=0.1, n_words=4))
    >>> X = sparse.csr_array([[20, 9, 0, 0], [11, 19, 0, 0], [0, 0, 33, 12], [0, 1, 25, 14]])
    >>> scores = engine.learn(X)
    >>> engine.ids[engine.resp[-1].argmax(axis=1)]
    array([0, 0, 1, 1])
    """

    beta: float | None = None
    rho: float = 1.0  # the share of earlier counts kept per epoch
    n_words: int = 100
    documents: float = 10.0
    strength: float = 10.0  # words of the prior, until rows are learned
    shares: FloatArray = field(default_factory=lambda: np.zeros(0))  # learned, for known words
    rare: float = 0.0  # share of an unknown word

    least = 1e-4  # tiny shares would give every component every word

    def prior(self, width: int) -> tuple[FloatArray, float]:
        """Return the pseudo-counts of ``width`` or all known words, and the latter's sum."""
        V = max(width, self.n_words)
        if self.beta is not None:
            return np.full(V, self.beta), V * self.beta
        rare = self.rare if len(self.shares) else 1.0 / self.n_words
        prior = np.full(V, self.strength * rare)
        prior[: len(self.shares)] = self.strength * self.shares
        return prior, float(prior.sum())

    def stats(self, X: Any, q: FloatArray) -> TextStats:
        return TextStats(Bags.assigned(X, q), q.sum(axis=0))

    def joined(self, parts: list[Any]) -> Any:
        if not parts:
            return sparse.csr_array((0, self.n_words))
        width = max(X.shape[1] for X in parts)
        rows = [as_rows(X) for X in parts]
        offsets = np.concatenate([[0], *(np.diff(offsets) for offsets, _, _ in rows)]).cumsum()
        words, counts = (np.concatenate([row[j] for row in rows]) for j in (1, 2))
        return sparse.csr_array((counts, words, offsets), shape=(len(offsets) - 1, width))

    def no_starts(self, K: int) -> TextStats:
        return TextStats(Bags.empty(K), np.zeros(K))

    def smooth(self, stats: TextStats, starts: TextStats, begins: IntArray) -> TextSmoothed:
        return TextSmoothed(self, stats, starts)

    def expected(
        self, X: Any, smoothed: TextSmoothed, epoch: int, begins: IntArray, q: FloatArray
    ) -> FloatArray:
        out, prior = np.empty(q.shape), (smoothed.prior, smoothed.prior_size)
        text.text_expected(as_rows(X), q, *smoothed.lists(epoch), *prior, out)
        out[:, begins > epoch] = -np.inf
        return out

    def frozen(self, smoothed: TextSmoothed) -> TextStats:
        return smoothed.after(0)

    def ahead(self, smoothed: TextSmoothed, steps: int = 1) -> TextStats:
        return smoothed.after(smoothed.n_epochs - 1, steps)

    def seating(self, past: FloatArray, ahead: TextStats) -> "TextSeating":
        return TextSeating(self, past, ahead.words)

    def near(self, smoothed: TextSmoothed, begins: IntArray) -> tuple[IntArray, IntArray]:
        bags, prior = smoothed.latest, smoothed.prior
        lists, rows = text.inverted(bags.entries, prior), np.sum(smoothed.rows[1:], axis=0)
        a, b = text.overlaps(
            bags.entries, bags.sizes(), rows, begins >= 0, lists, prior, smoothed.prior_size
        )
        return a, b

    def mixed(self, rows: list[Any], resp: Parts, starts: TextStats, least: float) -> IntArray:
        bags, q = as_rows(self.joined(rows)), np.concatenate(resp)
        prior, size = self.prior(max(int(bags.words.max(initial=-1)) + 1, starts.words.width))
        gains = np.empty(q.shape[1])
        split_gains(bags, q, least, starts.words.entries, prior, size, gains)
        return np.flatnonzero(gains > 0.0)

    def halves(
        self, rows: list[Any], resp: Parts, k: int, alone: TextSmoothed, epoch: int
    ) -> Parts | None:
        own = np.concatenate([q[:, k] for q in resp[epoch:]])
        side, place = np.zeros(len(own)), np.full(len(alone.prior), -1)
        kept = alone.after(epoch - 1).words
        gain = split_rows(
            as_rows(self.joined(rows[epoch:])), own, np.flatnonzero(own), (kept.words, kept.counts),
            alone.prior, alone.prior_size, place, side,
        )  # fmt: skip
        if gain <= 0.0:
            return None
        sides = since(epoch, [len(q) for q in resp], side)
        return None if self._holds_together(rows, [q[:, k] for q in resp], sides) else sides

    def _holds_together(self, rows: list[Any], own: Parts, sides: Parts) -> bool:
        """Return whether a word of few components is in a good part of both halves."""
        words = [as_rows(X)[:2] for X in rows]
        width = max(len(self.shares), *(int(w.max(initial=-1)) + 1 for _, w in words))
        parts = []
        for share in ([q * (1.0 - side) for q, side in zip(own, sides, strict=True)],
                      [q * side for q, side in zip(own, sides, strict=True)]):  # fmt: skip
            held = np.zeros(width)
            for (offsets, w), q in zip(words, share, strict=True):
                held += np.bincount(w, np.repeat(q, np.diff(offsets)), width)
            parts.append(held > _HEAD * sum(float(q.sum()) for q in share))
        few = np.zeros(width, dtype=bool)
        few[: len(self.shares)] = self.shares <= _HEAD * self.shares.max(initial=0.0)
        return bool((parts[0] & parts[1] & few).any())

    def split(
        self, rows: list[Any], own: Parts, sides: Parts, past: Past, starts: TextStats,
        begins: IntArray,
    ) -> tuple[Parts, TextSmoothed]:  # fmt: skip
        shared = divided(own, sides)
        return shared, self.smooth(self.stats_of_epochs(rows, shared), starts, begins)

    def learned(self, stats: TextStats, smoothed: TextSmoothed, begins: IntArray) -> "TextDecay":
        V = max(self.n_words, len(smoothed.prior))
        if self.beta is not None:
            return replace(self, n_words=V)
        bags = smoothed.latest
        tables = np.empty(len(smoothed.prior))
        text.word_tables(bags.entries, smoothed.prior, tables)
        share = np.pad(tables, (0, V - len(tables))) + _UNSEEN
        total = float(share.sum())
        return replace(
            self,
            n_words=V,
            strength=self.documents * smoothed.length,
            shares=np.asarray(share / total, dtype=np.float64),
            rare=_UNSEEN / total,
        )

    def summary(
        self, stats: TextStats, smoothed: Any, epoch: int, which: IntArray, names: Sequence[Word]
    ) -> Summary:
        bags, out = stats.words, []
        totals = np.bincount(bags.words, bags.counts, minlength=len(names)).astype(np.float64)
        for k in which.tolist():
            part = slice(bags.offsets[k], bags.offsets[k + 1])
            out.append(top_words(bags.words[part], bags.counts[part], totals, names))
        return Summary({}, out)

    def latest(
        self, smoothed: TextSmoothed | None, fresh: TextStats, names: Sequence[Word]
    ) -> Summary:
        K = len(fresh.words)
        if smoothed is not None:
            old = smoothed.latest
            more = np.concatenate([old, self.no_starts(K - len(old)).words])
            fresh = fresh._replace(words=fresh.words + more)
        return self.summary(fresh, None, 0, np.arange(K), names)

    def keeping(self, used: Any) -> "TextDecay":
        """Return the emission with the used words, (V,) of bool; those beyond V are unused."""
        n = min(len(used), len(self.shares))
        shares = self.shares[:n][used[:n]]
        total = float(shares.sum()) or 1.0
        return replace(self, n_words=int(used.sum()), shares=shares / total, rare=self.rare / total)


class TextSeating(Seating):
    """The open epoch of texts, with lists of each word's components."""

    def __init__(self, emission: TextDecay, past: FloatArray, ahead: Bags) -> None:
        K, n = len(ahead), len(ahead.words)
        super().__init__(emission, past, np.zeros(K), np.zeros(K), ahead.sizes())
        width = max(ahead.width, emission.n_words)
        self._prior, prior_size = emission.prior(width)
        self._head = np.full(width, -1, np.int64)
        self._lists: list[Any] = [np.zeros(n, kind) for kind in (np.int64, np.int64, float, float)]
        used = text.linked(ahead.entries, self._prior, (self._head, *self._lists))
        self._known = K, used, width, prior_size

    def _rows(self, X: Any) -> Any:
        rows = as_rows(X)
        width = int(rows.words.max(initial=-1)) + 1
        if width > len(self._head):  # new words
            more = width - len(self._head)
            self._head = np.pad(self._head, (0, more), constant_values=-1)
            self._prior, _ = self._emission.prior(width)
        return rows

    def _assign(self, rows: Any, start: int, a0: float, log_new: float, *out: FloatArray) -> int:
        terms, lists = (a0, log_new, self._emission.least), (self._head, *self._lists)
        done, self._known = text.seat_text(
            rows, start, self._known, self._prior, terms, tuple(self._arrays), lists, out
        )
        self.n_components = self._known[0]
        if done < len(out[0]) and self.n_components < len(self._arrays[0]):  # the lists are full
            most = int(np.diff(rows.offsets).max()) * (self.n_components + 1)
            self._lists = [np.pad(part, (0, len(part) + most)) for part in self._lists]
        return int(done)
