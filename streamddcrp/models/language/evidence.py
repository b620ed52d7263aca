"""The exact evidence of documents over a grid of decays and concentrations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamddcrp.decay import Decay, NoDecay, make_decay
from streamddcrp.decay.base import positive
from streamddcrp.errors import ConfigError
from streamddcrp.models.language.corpus import Corpus
from streamddcrp.models.language.kernels import fade_documents, look_back_documents, surface
from streamddcrp.models.language.memory import (
    fading_scale,
    horizon_of,
    prefix_sums,
    tabulate,
    unscaled,
    weigh_reach,
)
from streamddcrp.typing import ArrayLike, FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class EvidenceSurface:
    """Log evidence of each document over a grid, and that of the CRP beside it.

    Attributes
    ----------
    decays : tuple of Decay, length P
    alphas : ndarray of float64, shape (A,)
    log_evidence : ndarray of float64, shape (M, P, A)
        log p(w_m | decay, alpha) of each document.
    crp : ndarray of float64, shape (M, A)
        log p(w_m | no decay, alpha).
    """

    decays: tuple[Decay, ...]
    alphas: FloatArray
    log_evidence: FloatArray
    crp: FloatArray

    def log_bayes_factor(self, *, same_alpha: bool = True) -> FloatArray:
        """Return the log Bayes factor of each document against the CRP, shape (M, P, A).

        Parameters
        ----------
        same_alpha : bool
            Whether the CRP has the alpha of the model it is compared with, as Blei and Frazier
            define it; else that of the grid which is best for the CRP over all documents.
        """
        if same_alpha:
            return self.log_evidence - self.crp[:, None, :]
        best = int(self.crp.sum(axis=0).argmax())
        return self.log_evidence - self.crp[:, best, None, None]

    def best(self) -> tuple[Decay, float, float]:
        """Return decay, alpha and log evidence of all documents where that is largest."""
        total = self.log_evidence.sum(axis=0)
        p, a = np.unravel_index(int(total.argmax()), total.shape)
        return self.decays[p], float(self.alphas[a]), float(total[p, a])


def evidence_surface(
    corpus: Corpus,
    decays: Sequence[Any],
    alphas: ArrayLike,
    *,
    progress: Callable[[Decay], None] | None = None,
) -> EvidenceSurface:
    """Compute the log evidence of every document for every decay and alpha, and of the CRP.

    One pass over the tokens a decay serves all alphas: the weights of equal words do not depend on
    alpha. O(N (P + P A)).

    Parameters
    ----------
    corpus : Corpus
    decays : sequence of decays, or of their short forms
    alphas : array_like of float, shape (A,)
    progress : callable, optional
        Called with each decay that is done.

    Examples
    --------
    >>> from streamddcrp.models.language.corpus import Corpus
    >>> from streamddcrp.models.language.evidence import evidence_surface
    >>> corpus = Corpus.from_documents(["so so so so what what what what what so"], base_measure=10)
    >>> surface = evidence_surface(corpus, [("exponential", a) for a in (1, 2, 4)], [0.5, 1.0])
    >>> surface.log_bayes_factor()[0].round(2)
    array([[-0.21, -1.6 ],
           [ 0.59, -0.22],
           [ 0.78,  0.34]])
    """
    grid = np.array([positive("evidence_surface", "alpha", alpha) for alpha in np.ravel(alphas)])
    made = tuple(make_decay(decay) for decay in decays)
    if not len(grid) or not made:
        message = "evidence_surface: give at least one decay and one alpha"
        raise ConfigError(message)
    out = np.empty((corpus.n_documents, len(made), len(grid)))
    for p, decay in enumerate(made):
        out[:, p] = _over_alphas(corpus, decay, grid)
        if progress is not None:
            progress(decay)
    return EvidenceSurface(made, grid, out, _over_alphas(corpus, NoDecay(), grid))


def _over_alphas(corpus: Corpus, decay: Decay, alphas: FloatArray) -> FloatArray:
    plain, factor = unscaled(decay, 1.0)
    match, weight = matches(corpus, plain, float(alphas.min()) * factor)
    out = np.empty((corpus.n_documents, len(alphas)))
    surface(match, weight, corpus.g, corpus.starts, alphas * factor, out)
    return out


def matches(corpus: Corpus, decay: Decay, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Return the weight of the equal words before each token, and of all, in its document.

    Parameters
    ----------
    corpus : Corpus
    decay : Decay
        No multiple of another.
    alpha : float
        Links lighter than 1e-12 alpha are left out.
    """
    scale = fading_scale(decay)
    if scale is not None:
        match, weight = np.empty(len(corpus.word)), np.empty(len(corpus.word))
        mass, seen = np.zeros(corpus.n_words), np.empty(corpus.n_words)
        fade_documents(corpus.word, corpus.t, corpus.starts, scale, mass, seen, match, weight)
        return match, weight
    if corpus.clocked:
        return timed(corpus, decay.weight, horizon_of(decay, alpha))
    return tabled(corpus, tabulate(decay, alpha))


def tabled(corpus: Corpus, table: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Do what `matches` does, for a table f(0), ..., f(W) of any function of index distance."""
    match, weight = np.empty(len(corpus.word)), np.empty(len(corpus.word))
    last = np.full(corpus.n_words, -1, dtype=np.int64)
    previous = np.empty(1 << (len(table) - 1).bit_length(), dtype=np.int64)
    look_back_documents(
        corpus.word, corpus.starts, table, prefix_sums(table), last, previous, match, weight
    )
    return match, weight


def timed(
    corpus: Corpus, weigh: Callable[[FloatArray], FloatArray], horizon: float
) -> tuple[FloatArray, FloatArray]:
    """Do what `matches` does, for any function of the differences of times."""
    match, weight = np.empty(len(corpus.word)), np.empty(len(corpus.word))
    for m in range(corpus.n_documents):
        at = corpus.document(m)
        match[at], weight[at] = weigh_reach(corpus.word[at], corpus.t[at], 0, horizon, weigh)
    return match, weight
