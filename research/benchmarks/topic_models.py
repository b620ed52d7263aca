"""Models that learn epochs of texts and say how probable words are in a text of the next epoch.

``learn(X)`` takes the counts (N, V) of an epoch. ``words(X)`` takes the observed words of documents
of the epoch after it, (N, V), and returns the probabilities of each word of the vocabulary there,
(N, V), up to a factor for each document. Peers that learn only once are fitted again, to all epochs
so far, when they are asked; the time of that is theirs.
"""

from __future__ import annotations

import importlib.util
import logging
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import gammaln

from streamddcrp.models.temporal.emissions.text import TextDecay
from streamddcrp.models.temporal.engine import Engine
from streamddcrp.models.temporal.kernels.counts import MEAN
from streamddcrp.models.temporal.window import Settings, count_settings

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

SWEEPS = 100  # of a sampler
DRAWS = 50  # sweeps over the observed words of a document
ETA = 0.1  # prior of a word in a topic


class Model(Protocol):
    """A model of texts in time."""

    def learn(self, X: sparse.csr_array) -> None:
        """Learn the next epoch."""

    def words(self, X: sparse.csr_array) -> FloatArray:
        """Say how probable each word is in documents of the epoch to come."""


def has(package: str) -> bool:
    """Whether a package is installed."""
    return importlib.util.find_spec(package) is not None


def tokens(X: sparse.csr_array) -> list[list[str]]:
    """The words of each document, as the text of their numbers."""
    rows = zip(np.split(X.indices, X.indptr[1:-1]), np.split(X.data, X.indptr[1:-1]), strict=True)
    return [
        np.repeat(words, counts.astype(np.int64)).astype(str).tolist() for words, counts in rows
    ]


class Unigram:
    """Words as often as before: counts of an epoch weigh ``keep`` of those of the one after."""

    def __init__(self, keep: float = 1.0) -> None:
        self._keep, self._counts = keep, np.zeros(0)

    def learn(self, X: sparse.csr_array) -> None:
        """Add the counts of an epoch."""
        self._counts = self._keep * np.pad(self._counts, (0, X.shape[1] - len(self._counts)))
        self._counts += np.asarray(X.sum(axis=0)).ravel()

    def words(self, X: sparse.csr_array) -> FloatArray:
        """Return the same for every document."""
        return np.tile(self._counts + ETA, (X.shape[0], 1))


class Mixture:
    """The temporal mixture as `TemporalDPM` makes it; one component a document.

    The probability of a word is the sum, over components and a new one, of their probability given
    the observed words times their predictive probability of the word.
    """

    def __init__(self, lag: int = 3) -> None:
        settings = Settings(**count_settings(None, None, None), lag=lag)
        self.engine = Engine(settings, TextDecay())

    def learn(self, X: sparse.csr_array) -> None:
        """Learn an epoch."""
        self.engine.learn(X)

    def words(self, X: sparse.csr_array) -> FloatArray:
        """Average over the components."""
        engine, V = self.engine, X.shape[1]
        past = engine.decayed(engine.moments(engine.resp), engine.before)[-1, :, MEAN]
        counts = engine.emission.ahead(engine.smooth()).words.to_dense()
        counts = np.pad(counts, ((0, 1), (0, V - counts.shape[1])))  # the last one is new
        prior, size = engine.emission.prior(V)
        law = counts + prior[:V]
        sizes = size + counts.sum(axis=1)
        weight = np.append(np.log(engine.settings.a0 + past), engine.log_new)
        n = np.asarray(X.sum(axis=1)).ravel()
        share = np.empty((X.shape[0], len(law)))
        for i in range(X.shape[0]):
            part = slice(X.indptr[i], X.indptr[i + 1])
            a, x = law[:, X.indices[part]], X.data[part]
            score = weight + (gammaln(a + x) - gammaln(a)).sum(axis=1)
            score -= gammaln(sizes + n[i]) - gammaln(sizes)
            share[i] = np.exp(score - score.max())
        share /= share.sum(axis=1, keepdims=True)
        share /= sizes + n[:, None]
        out = share @ law
        out += X.multiply(share.sum(axis=1)[:, None]).toarray()
        return np.asarray(out, dtype=np.float64)


class _Refitted:
    """A model of tomotopy, fitted to all epochs so far when it is asked."""

    def __init__(self, **options: Any) -> None:
        self._options, self._epochs = options, list[sparse.csr_array]()
        self._fitted: Any = None

    def learn(self, X: sparse.csr_array) -> None:
        """Keep an epoch."""
        self._epochs.append(X)
        self._fitted = None

    def _make(self) -> Any:
        raise NotImplementedError

    def _laws(self, model: Any) -> tuple[FloatArray, Any]:
        """Return the laws of the topics (K, words of the model), and which topics they are."""
        laws = [model.get_topic_word_dist(k) for k in range(model.k)]
        return np.array(laws, np.float64), slice(None)

    def words(self, X: sparse.csr_array) -> FloatArray:
        """Fit, find the topics of the observed words, and mix the topics' words."""
        if self._fitted is None:
            self._fitted = self._make()
            for e, epoch in enumerate(self._epochs):
                for document in tokens(epoch):
                    if document:
                        self._fitted.add_doc(document, **self._when(e))
            self._fitted.train(SWEEPS, workers=1)
        model = self._fitted
        law, which = self._laws(model)
        last = self._when(len(self._epochs) - 1)
        documents = [model.make_doc(d, **last) if d else None for d in tokens(X)]
        some = [d for d in documents if d is not None]
        model.infer(some, iterations=DRAWS, workers=1)
        empty = np.full(len(law), 1.0 / len(law))
        theta = np.array(
            [empty if d is None else np.array(d.get_topic_dist())[which] for d in documents]
        )
        out = np.full(X.shape, 1e-12)
        out[:, [int(w) for w in model.used_vocabs]] = theta @ law
        return out

    def _when(self, epoch: int) -> dict[str, int]:
        return {}


class TomotopyLDA(_Refitted):
    """Latent Dirichlet allocation by collapsed Gibbs; its alpha is optimised."""

    def _make(self) -> Any:
        import tomotopy

        return tomotopy.LDAModel(eta=ETA, seed=0, **self._options)


class TomotopyHDP(_Refitted):
    """The hierarchical Dirichlet process by collapsed Gibbs."""

    def _make(self) -> Any:
        import tomotopy

        return tomotopy.HDPModel(eta=ETA, seed=0, **self._options)

    def _laws(self, model: Any) -> tuple[FloatArray, Any]:
        which = [k for k in range(model.k) if model.is_live_topic(k)]
        return np.array([model.get_topic_word_dist(k) for k in which], np.float64), which


class TomotopyDynamic(_Refitted):
    """The dynamic topic model; the words of the last epoch stand for those of the next."""

    def _make(self) -> Any:
        import tomotopy

        return tomotopy.DTModel(t=len(self._epochs), seed=0, **self._options)

    def _when(self, epoch: int) -> dict[str, int]:
        return {"timepoint": epoch}

    def _laws(self, model: Any) -> tuple[FloatArray, Any]:
        last = len(self._epochs) - 1
        laws = [model.get_topic_word_dist(k, timepoint=last) for k in range(model.k)]
        return np.array(laws, np.float64), slice(None)


def _pairs(X: sparse.csr_array) -> list[list[tuple[int, float]]]:
    """Documents as gensim takes them."""
    rows = zip(np.split(X.indices, X.indptr[1:-1]), np.split(X.data, X.indptr[1:-1]), strict=True)
    return [list(zip(words.tolist(), counts.tolist(), strict=True)) for words, counts in rows]


class GensimOnline:
    """Online variational LDA, an update an epoch; its alpha is learned."""

    def __init__(self, k: int) -> None:
        self._k, self._model = k, None

    def learn(self, X: sparse.csr_array) -> None:
        """Update with an epoch."""
        from gensim.models import LdaModel

        logging.getLogger("gensim").setLevel(logging.ERROR)
        if self._model is None:
            names = {w: str(w) for w in range(X.shape[1])}
            self._model = LdaModel(
                id2word=names, num_topics=self._k, alpha="auto", eta=ETA, chunksize=256,
                passes=5, eval_every=None, random_state=0,
            )  # fmt: skip
        self._model.update([row for row in _pairs(X) if row])

    def words(self, X: sparse.csr_array) -> FloatArray:
        """Mix the topics' words."""
        model: Any = self._model
        gamma, _ = model.inference(_pairs(X))
        theta = gamma / gamma.sum(axis=1, keepdims=True)
        return np.asarray(theta @ model.get_topics(), dtype=np.float64)


class GensimDynamic:
    """The dynamic topic model of gensim, fitted again when asked."""

    def __init__(self, k: int, passes: int = 5) -> None:
        self._k, self._passes = k, passes
        self._epochs: list[sparse.csr_array] = []
        self._model: Any = None

    def learn(self, X: sparse.csr_array) -> None:
        """Keep an epoch."""
        self._epochs.append(X)
        self._model = None

    def words(self, X: sparse.csr_array) -> FloatArray:
        """Mix the words that topics had in the last epoch."""
        from gensim.models import LdaSeqModel

        if self._model is None:
            rows = [[row for row in _pairs(epoch) if row] for epoch in self._epochs]
            self._model = LdaSeqModel(
                corpus=[row for epoch in rows for row in epoch],
                time_slice=list(map(len, rows)),
                id2word={w: str(w) for w in range(X.shape[1])},
                num_topics=self._k, passes=self._passes, random_state=0, em_max_iter=5,
            )  # fmt: skip
        model = self._model
        last = len(self._epochs) - 1
        law = np.exp([chain.e_log_prob[:, last] for chain in model.topic_chains])
        theta = np.array([model[[(w, int(n)) for w, n in row]] for row in _pairs(X)])
        return np.asarray(theta @ law, dtype=np.float64)
