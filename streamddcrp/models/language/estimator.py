"""The exact sequential ddCRP language model as a streaming estimator."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from river import base

from streamddcrp.data import Tokens, as_time, check_clocked, check_times
from streamddcrp.data.batches import batch_times
from streamddcrp.decay import Decay, DecaySpec, make_decay
from streamddcrp.errors import SchemaError
from streamddcrp.estimator.scikit import Options
from streamddcrp.estimator.stored import Stored, from_json, refuse_unless_plain, to_json
from streamddcrp.estimator.views import with_times
from streamddcrp.models.language import memory as past
from streamddcrp.models.language.base_measure import BaseMeasure, Vocabulary, make_base_measure
from streamddcrp.models.language.kernels import score
from streamddcrp.records import CHANCE, REAL, check_one
from streamddcrp.typing import ArrayLike, FloatArray, IntArray
from streamddcrp.validation import positive

Token = str | int


class TableCount(NamedTuple):
    """Mean and variance of a number of tables."""

    mean: float
    variance: float


class LinkLanguageModel(Options, Stored, base.Base):
    """Exact language model of the sequential distance-dependent Chinese restaurant process.

    Each token links to an earlier one of its document with a weight that decays with their
    distance, or opens a table that draws a word from the base measure; linked tokens are the same
    word. Evidence, predictive probabilities, posterior links and the number of tables are in closed
    form. In practice it is a cache model: recent words are likely to recur.

    Parameters
    ----------
    alpha : float, default 1.0
        Weight of opening a table against the decay weights of earlier tokens.
    decay : tuple, str, Decay or callable, default ("exponential", 100.0)
        How the weight of a link falls with distance; see `streamddcrp.decay`. "none" is the CRP.
        Distances count tokens, or are differences of the times ``t``.
    base_measure : int, array_like, mapping or BaseMeasure, default 50_000
        Probability that a new table shows each word: the number of equally likely words; or
        probabilities of the tokens 0, 1, .. or of words, summing to 1; or a `BaseMeasure`. New
        words are added as they come until the vocabulary is full.

    Notes
    -----
    Bartunov and Vetrov (2014), section 5.1, and Blei and Frazier (2011); costs are in
    `streamddcrp.models.language`. Links lighter than 1e-12 alpha are dropped if a decay never ends.
    A base measure learned from the scored text makes the evidence too good. Choose alpha and the
    decay by `fit_language`, compare decays by `evidence_surface`.

    Examples
    --------
    >>> from streamddcrp.models.language.estimator import LinkLanguageModel
    >>> model = LinkLanguageModel(decay=("exponential", 20.0), base_measure=1000)
    >>> model.learn_many("Rose is a rose is a rose is a rose, and a lily is a lily.")
    >>> model.log_prob("rose"), model.log_prob("thorn")
    (-1.64, -9.37)
    >>> model.score_many("rose is thorn").round(2)
    array([1.64, 1.62, 9.44])
    >>> model.n_tables.mean, model.objective
    (5.01, -58.25)
    """

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        decay: DecaySpec = ("exponential", 100.0),
        base_measure: int | ArrayLike | Mapping[str, float] | BaseMeasure = 50_000,
    ) -> None:
        self.alpha = alpha
        self.decay = decay
        self.base_measure = base_measure
        given, weight = make_decay(decay), positive("alpha", alpha)
        self._decay, self._alpha = past.unscaled(given, weight)
        self._vocabulary = Vocabulary(make_base_measure(base_measure))
        self._memory: past.Memory = past.make_memory(self._decay, self._alpha, clocked=False)
        self._clocked: bool | None = None  # whether tokens come with times
        self._last_time: float | None = None  # in this document
        self._n_seen = 0
        self._totals = np.zeros(3)  # log evidence, mean and variance of the number of tables

    # -- learning --------------------------------------------------------------------------------

    def learn_one(self, token: Token, t: Any = None) -> None:
        """Learn one token: a word, or a whole number.

        Nothing was learned if the base measure does not know the token (SchemaError), or ``t``
        precedes the previous token's time (OrderError).
        """
        self._advance([token], t)

    def learn_many(self, tokens: Tokens, t: Any = None) -> None:
        """Learn tokens of the current document, with the same result, bit for bit, as one by one.

        Parameters
        ----------
        tokens : str, sequence of str, or array_like of int, shape (N,)
            A text (see `streamddcrp.data.tokenize`), words, or token ids. Errors have the token's
            number in ``row``.
        t : number, time stamp, or array_like of shape (N,), optional
            One time per token, or one for all of them.
        """
        self._advance(tokens, t)

    def step_many(self, tokens: Tokens, t: Any = None) -> pa.RecordBatch:
        """Predict each token, then learn it, in one pass.

        One row per token with ``score`` (-log p of the token given earlier ones, nats), ``p_new``
        (posterior probability that it opened a table), and ``n_tables`` (expected number of tables
        so far); given times come first, as ``time``.
        """
        log_prob, p_new, n_tables = self._advance(tokens, t)
        found = {"score": -log_prob, "p_new": p_new, "n_tables": n_tables}
        times = [t] * len(log_prob) if t is not None and _is_one(t) else t
        return with_times(pa.RecordBatch.from_pydict(found), times)

    def new_document(self) -> None:
        """Begin a document: its tokens do not link to earlier ones. Times may restart."""
        self._memory.new_document()
        self._last_time = None

    def _advance(self, tokens: object, t: object) -> tuple[FloatArray, FloatArray, FloatArray]:
        with self._vocabulary.undone(always=False):
            word = self._vocabulary.encode(tokens)
            times = self._times(t, len(word))
            memory = self._memory_for(clocked=t is not None)
            out = self._follow(memory, word, times, self._totals)
        if len(word):
            self._memory, self._clocked = memory, t is not None
            self._n_seen += len(word)
            self._last_time = float(times[-1])
        return out

    def _follow(
        self, memory: past.Memory, word: IntArray, t: FloatArray, totals: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        memory.grow(int(word.max(initial=-1)) + 1)
        match, weight = memory.match(word, t)
        log_prob, p_new, n_tables = np.empty((3, len(word)))
        g = self._vocabulary.g(word)
        score(match, weight, g, self._alpha, totals, log_prob, p_new, n_tables)
        return log_prob, p_new, n_tables

    def _memory_for(self, *, clocked: bool) -> past.Memory:
        """Return the memory; before the first token, one for tokens with or without times."""
        if self._clocked is None:
            return past.make_memory(self._decay, self._alpha, clocked=clocked)
        return self._memory

    def _times(self, t: object, n: int) -> FloatArray:
        """Return a time per token, or its position in the stream if distances count tokens."""
        if n:
            check_clocked(self._clocked, t is not None)
        if t is None:
            return np.arange(self._n_seen, self._n_seen + n, dtype=np.float64)
        times = np.full(n, as_time(t)) if _is_one(t) else batch_times(t, n)
        check_times(times, self._last_time)
        return times

    # -- prediction ------------------------------------------------------------------------------

    def score_one(self, token: Token, t: Any = None) -> float:
        """Return the surprise of a token as the next one, -log p in nats; nothing is learned."""
        with self._vocabulary.undone():
            word = self._vocabulary.encode([token])
            if len(word) != 1:
                raise SchemaError(f"token must be one word or number, got {token!r:.60}")
            return -float(np.log(self._chances(word, t)[0][0]))

    def score_many(self, tokens: Tokens, t: Any = None) -> FloatArray:
        """Return -log p of each token given earlier ones, (N,), in nats; nothing is learned.

        Each is scored as if the earlier ones in the batch had been learned. O(V + W) for a copy of
        the state, in addition to `learn_many`.
        """
        with self._vocabulary.undone():
            word = self._vocabulary.encode(tokens)
            times = self._times(t, len(word))
            memory = deepcopy(self._memory_for(clocked=t is not None))
            return -self._follow(memory, word, times, np.zeros(3))[0]

    def log_prob(self, token: Token, t: Any = None) -> float:
        """Return log p(token) as the next one, in nats: the opposite of `score_one`."""
        return -self.score_one(token, t)

    def predict_proba_one(self, t: Any = None) -> dict[Token | None, float]:
        """Return the probability of every word, or token id, to come next, at time ``t``; O(V).

        They sum to 1, where None stands for all words that neither the base measure lists nor the
        stream has shown.
        """
        p, opening = self._chances(np.arange(len(self._vocabulary)), t)
        out: dict[Token | None, float] = {
            self._vocabulary.name(v): p_v for v, p_v in enumerate(p.tolist())
        }
        if self._vocabulary.unnamed:
            out[None] = opening * self._vocabulary.unnamed
        return out

    def _chances(self, word: IntArray, t: object) -> tuple[FloatArray, float]:
        """Return the probability of each word as the next token, and that of a new table."""
        time = float(self._times(t, 1)[0])
        match, weight = np.zeros(len(word)), 0.0
        if self._clocked is not None:
            self._memory.grow(int(word.max(initial=-1)) + 1)
            match, weight = self._memory.peek(word, time)
        total = self._alpha + weight
        return (self._alpha * self._vocabulary.g(word) + match) / total, self._alpha / total

    # -- results ---------------------------------------------------------------------------------

    @property
    def n_seen(self) -> int:
        """Number of tokens learned."""
        return self._n_seen

    @property
    def log_evidence(self) -> float:
        """Exact log evidence of all tokens learned, in nats."""
        return float(self._totals[0])

    objective = log_evidence

    @property
    def n_tables(self) -> TableCount:
        """Posterior mean and variance of the number of tables of all learned tokens."""
        return TableCount(float(self._totals[1]), float(self._totals[2]))

    def links(self, tokens: Tokens, t: Any = None) -> sp.csr_array:
        """Return the posterior link probabilities of a whole document; nothing is learned.

        A sparse array (N, N) whose row i is p(c_i = j | w); the diagonal holds the probabilities of
        opening a table. The links are independent given the words.
        """
        with self._vocabulary.undone():
            word = self._vocabulary.encode(tokens)
            g = self._vocabulary.g(word)
        times = np.arange(len(word), dtype=np.float64) if t is None else batch_times(t, len(word))
        check_times(times)
        return link_posterior(word, g, times, alpha=self._alpha, decay=self._decay)

    # -- checkpoints -----------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        given = self._vocabulary.base_measure
        arrays = {"totals": self._totals, "probs": given.probs}
        arrays |= {f"memory.{name}": array for name, array in self._memory.arrays().items()}
        meta = {
            "alpha": float(self.alpha),
            "decay": to_json(self.decay),
            "base_measure": given.to_config(),
            "vocabulary": self._vocabulary.to_config(),
            "clocked": self._clocked,
            "last_time": self._last_time,
            "n_seen": self._n_seen,
        }
        return arrays, meta

    @classmethod
    def _from_state(cls, arrays: dict[str, Any], meta: dict[str, Any]) -> Self:
        names = ("last_time", "clocked")
        refuse_unless_plain(
            meta, counts=("n_seen",), numbers=names[:1], flags=names[1:], none=names
        )
        probs = arrays["probs"]
        check_one("probs", probs, (len(probs),), np.float64, CHANCE)
        check_one("totals", arrays["totals"], (3,), np.float64, REAL)
        given = BaseMeasure.from_config(meta["base_measure"], probs)
        model = cls(alpha=meta["alpha"], decay=from_json(meta["decay"]), base_measure=given)
        model._vocabulary = Vocabulary.from_config(given, meta["vocabulary"])
        model._memory = model._memory_for(clocked=bool(meta["clocked"]))
        model._clocked = meta["clocked"]
        model._memory.restore(
            {name[7:]: a for name, a in arrays.items() if name.startswith("memory.")},
            len(model._vocabulary),
        )
        model._last_time, model._n_seen = meta["last_time"], meta["n_seen"]
        model._totals[:] = arrays["totals"]
        return model


def _is_one(t: object) -> bool:
    """Whether a time is that of all tokens."""
    return not hasattr(t, "__len__") or getattr(t, "ndim", 1) == 0


def link_posterior(
    word: IntArray, g: FloatArray, t: FloatArray, *, alpha: float, decay: Decay
) -> sp.csr_array:
    """Return p(c_i = j | w) of all tokens of a document, (N, N); the links are independent.

    ``word, g, t`` (N,): ids, their probabilities under the base measure, and times, or 0, 1, 2, ..
    for index distance. Rows sum to 1; the diagonal holds the probabilities of opening a table.
    Links lighter than 1e-12 alpha are left out. O(pairs of equal words within reach).
    """
    decay, alpha = past.unscaled(decay, alpha)
    n = len(word)
    first = past.first_within(t, t, past.horizon_of(decay, alpha))
    at = word * n + np.arange(n)  # in order, the places of each word lie side by side
    places = np.sort(at)
    low = np.searchsorted(places, word * n + first)
    count = np.searchsorted(places, at) - low + 1  # equal words within reach, and last the token
    indptr = np.concatenate([[0], np.cumsum(count)])
    own = np.repeat(np.arange(n), count)
    indices = places[np.arange(len(own)) - np.repeat(indptr[:-1] - low, count)] - word[own] * n
    data = decay.weight(t[own] - t[indices])
    data[indptr[1:] - 1] = alpha * g
    if n:
        data /= np.repeat(np.add.reduceat(data, indptr[:-1]), count)
    links = sp.csr_array((data, indices, indptr), shape=(n, n))
    links.eliminate_zeros()
    return links
