"""The exact evidence of documents over a grid, and its maximum: empirical Bayes."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.optimize import minimize

from streamddcrp.arguments import checked, number_array
from streamddcrp.cards import ResultCard
from streamddcrp.data import Tokens, as_times, check_times
from streamddcrp.decay import Decay, make_decay
from streamddcrp.decay.families import Exponential, LinearWindow, Logistic, NoDecay, Window
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.models.language import memory
from streamddcrp.models.language.base_measure import Vocabulary, make_base_measure
from streamddcrp.models.language.kernels import fade_documents, fade_slopes, gradient, surface
from streamddcrp.models.language.memory import unscaled
from streamddcrp.typing import ArrayLike, FloatArray, IntArray
from streamddcrp.validation import choice, positive


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """Documents, each a ddCRP of its own over one base measure.

    Examples
    --------
    >>> from streamddcrp.models.language.fit import Corpus
    >>> corpus = Corpus.from_documents(["to be or not to be", "to sleep"], base_measure=50)
    >>> corpus.word, corpus.starts
    (array([0, 1, 2, 3, 0, 1, 0, 4]), array([0, 6, 8]))
    """

    word: IntArray  # (N,) ids of the tokens of all documents, one after the other
    starts: IntArray  # (M + 1,) document m is word[starts[m]:starts[m + 1]]
    # (N,) probability of each token under the base measure. It may differ between documents, for
    # example if each document was left out when its measure was learned.
    g: FloatArray
    t: FloatArray  # (N,) times, or positions in the corpus if none were given
    clocked: bool  # whether times were given
    n_words: int  # one more than the highest id

    @classmethod
    @checked
    def from_documents(
        cls, documents: Iterable[Tokens], *, base_measure: Any, times: Iterable[Any] | None = None
    ) -> Self:
        """Lay out documents; SchemaError and OrderError name an invalid one.

        Parameters
        ----------
        documents : iterable of texts, lists of words, or arrays of token ids
        base_measure : BaseMeasure, int, array_like or mapping
            As for `LinkLanguageModel`.
        times : iterable of array_like, optional
            Times of the tokens of each document, not decreasing within it.
        """
        if isinstance(documents, str):
            raise SchemaError("documents: expected several, got one text; put it in a list")
        vocabulary = Vocabulary(make_base_measure(base_measure))
        clocks = None if times is None else list(times)
        words: list[IntArray] = []
        stamps: list[FloatArray] = []
        for m, document in enumerate(documents):
            try:
                words.append(vocabulary.encode(document))
                if clocks is not None:
                    stamps.append(_clock(clocks, m, len(words[-1])))
            except SchemaError as error:
                raise type(error)(f"document {m}, {error}", row=error.row) from None
        if clocks is not None and len(clocks) > len(words):
            raise SchemaError(f"times: got {len(clocks)} for {len(words)} documents")
        starts = np.zeros(len(words) + 1, dtype=np.int64)
        np.cumsum([len(word) for word in words], out=starts[1:])
        word = np.concatenate(words) if words else np.empty(0, dtype=np.int64)
        t = np.concatenate(stamps) if stamps else np.arange(len(word), dtype=np.float64)
        n_words = int(word.max(initial=-1)) + 1
        return cls(word, starts, vocabulary.g(word), t, clocks is not None, n_words)

    @property
    def n_documents(self) -> int:
        return len(self.starts) - 1

    def document(self, m: int) -> slice:
        """Return where document m is."""
        return slice(int(self.starts[m]), int(self.starts[m + 1]))


def _clock(clocks: list[Any], m: int, n: int) -> FloatArray:
    if m >= len(clocks):
        raise SchemaError("row 0: it has no times; every document needs them, or none has any")
    t = as_times(clocks[m], n)
    check_times(t, given=clocks[m])
    return t


def matches(corpus: Corpus, decay: Decay, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Return the weights of equal words, and of all words, before each token in its document.

    ``decay`` is not a multiple of another; links lighter than 1e-12 alpha are dropped.
    """
    scale = memory.fading_scale(decay)
    if scale is None:
        return sums_within_reach(corpus, decay, alpha, decay.weight)
    match, weight = np.empty(len(corpus.word)), np.empty(len(corpus.word))
    mass, seen = np.zeros(corpus.n_words), np.empty(corpus.n_words)
    fade_documents(corpus.word, corpus.t, corpus.starts, scale, mass, seen, match, weight)
    return match, weight


def sums_within_reach(
    corpus: Corpus, decay: Decay, alpha: float, weigh: Callable[[FloatArray], FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Sum a function of distance over the equal words within reach of each token, and over all."""
    match, weight = np.empty(len(corpus.word)), np.empty(len(corpus.word))
    if corpus.clocked:
        past: memory.Memory = memory.Timed(weigh, memory.horizon_of(decay, alpha))
    else:
        past = memory.LookingBack(weigh(np.arange(float(len(memory.tabulate(decay, alpha))))))
        past.grow(corpus.n_words)
    for m in range(corpus.n_documents):
        at = corpus.document(m)
        past.new_document()
        match[at], weight[at] = past.match(corpus.word[at], corpus.t[at])
    return match, weight


_ALPHAS = np.geomspace(0.1, 10_000.0, 11)
_PARAMETERS = np.geomspace(2.0, 2_000.0, 13)
_LOWEST, _HIGHEST = math.log(1e-6), math.log(1e9)
_SHORTEST, _LONGEST = math.log(0.1), math.log(1e5)
_ROUNDS = 10
_ENOUGH = 1e-6  # least gain of another round in nats
_WIDTHS = 1.125 ** np.arange(-5, 6)  # relative to the grid's best; window widths tried last


@dataclass(frozen=True, slots=True, eq=False)
class EvidenceSurface:
    """Log evidence of each document over a grid, and that of the CRP."""

    decays: tuple[Decay, ...]  # P of them
    alphas: FloatArray  # (A,)
    log_evidence: FloatArray  # (M, P, A) log p(w_m | decay, alpha) of each document
    crp: FloatArray  # (M, A) log p(w_m | no decay, alpha)

    def log_bayes_factor(self, *, same_alpha: bool = True) -> FloatArray:
        """Return the log Bayes factor of each document against the CRP, shape (M, P, A).

        ``same_alpha``: the CRP has the compared model's alpha, as Blei and Frazier define it;
        otherwise the alpha of the grid that is best for the CRP over all documents.
        """
        if same_alpha:
            return self.log_evidence - self.crp[:, None, :]
        best = int(self.crp.sum(axis=0).argmax())
        return self.log_evidence - self.crp[:, best, None, None]

    def best(self) -> tuple[Decay, float, float]:
        """Return decay, alpha and log evidence of all documents at its maximum."""
        total = self.log_evidence.sum(axis=0)
        p, a = np.unravel_index(int(total.argmax()), total.shape)
        return self.decays[p], float(self.alphas[a]), float(total[p, a])


@checked
def evidence_surface(corpus: Corpus, decays: Sequence[Any], alphas: ArrayLike) -> EvidenceSurface:
    """Compute the log evidence of every document for every decay and alpha, and of the CRP.

    ``decays`` are decays or their short forms, ``alphas`` (A,). The weights of equal words do not
    depend on alpha, so one pass over the tokens per decay serves all. O(N (P + P A)).

    Examples
    --------
    >>> from streamddcrp.models.language.fit import Corpus
    >>> from streamddcrp.models.language.fit import evidence_surface
    >>> corpus = Corpus.from_documents(["so so so so what what what what what so"], base_measure=10)
    >>> surface = evidence_surface(corpus, [("exponential", a) for a in (1, 2, 4)], [0.5, 1.0])
    >>> surface.log_bayes_factor()[0].round(2)
    array([[-0.21, -1.6 ],
           [ 0.59, -0.22],
           [ 0.78,  0.34]])
    """
    given = number_array("alphas", alphas, ndim=None)
    grid = np.array([positive("alpha", alpha) for alpha in given.flat])
    made = tuple(make_decay(decay) for decay in decays)
    if not len(grid) or not made:
        raise ConfigError("evidence_surface: give at least one decay and one alpha")
    out = np.empty((corpus.n_documents, len(made), len(grid)))
    for p, decay in enumerate(made):
        out[:, p] = _over_alphas(corpus, decay, grid)
    return EvidenceSurface(made, grid, out, _over_alphas(corpus, NoDecay(), grid))


def _over_alphas(corpus: Corpus, decay: Decay, alphas: FloatArray) -> FloatArray:
    plain, factor = unscaled(decay, 1.0)
    match, weight = matches(corpus, plain, float(alphas.min()) * factor)
    out = np.empty((corpus.n_documents, len(alphas)))
    surface(match, weight, corpus.g, corpus.starts, alphas * factor, out)
    return out


class EvidenceGradient(NamedTuple):
    """Log evidence of a corpus and its derivatives."""

    log_evidence: float
    by_log_alpha: float
    by_parameter: float


@dataclass(frozen=True, slots=True)
class LanguageFit(ResultCard):
    """Parameters of maximum evidence, and those of the CRP on the same documents."""

    decay: Decay
    alpha: float
    log_evidence: float  # log p(w) of all documents at these
    crp_alpha: float  # the best one of the model without decay,
    crp_log_evidence: float  # and its log p(w)
    crp_log_evidence_same_alpha: float  # log p(w) of the model without decay at ``alpha``
    n_tokens: int

    @property
    def log_bayes_factor(self) -> float:
        """Against the CRP at its own best alpha: the value of the decay."""
        return self.log_evidence - self.crp_log_evidence

    @property
    def log_bayes_factor_same_alpha(self) -> float:
        """Against the CRP at the same alpha, as Blei and Frazier (2011) define it."""
        return self.log_evidence - self.crp_log_evidence_same_alpha


@checked
def fit_language(corpus: Corpus, family: str = "exponential") -> LanguageFit:
    """Find alpha and the decay's parameter that maximise the evidence of documents.

    A coarse grid is followed by L-BFGS with the exact gradient in (log alpha, log parameter): about
    a hundred passes over the tokens, without randomness. A window's width is a whole number, so
    widths in steps of an eighth are compared, each at its best alpha. The base measure is taken as
    given; if it was learned from the same documents, both evidences are too good.

    Parameters
    ----------
    corpus : Corpus
    family : {"exponential", "logistic", "linear_window", "window", "none"}
        Its parameter is the scale, the location (with scale 1), the width; "none" has none.

    Examples
    --------
    >>> from streamddcrp.models.language.fit import Corpus
    >>> from streamddcrp.models.language.fit import fit_language
    >>> text = "a rose is a rose is a rose and lilies are lilies are lilies are lilies"
    >>> fit = fit_language(Corpus.from_documents([text], base_measure=100))
    >>> fit.decay, fit.alpha, fit.log_bayes_factor
    (Exponential(scale=3.49), 1.196, 2.22)
    """
    choice("family", family, _FAMILIES)
    if not len(corpus.word):
        raise ConfigError("fit_language: the documents hold no tokens")
    crp_alpha, crp = _best_alpha(corpus, NoDecay())
    if family == "none":
        decay: Decay = NoDecay()
        alpha, value = crp_alpha, crp
    elif family == "window":
        decay, alpha, value = _best_window(corpus)
    else:
        decay, alpha, value = _best_pair(corpus, family)
    same = evidence_gradient(corpus, NoDecay(), alpha).log_evidence
    return LanguageFit(decay, alpha, value, crp_alpha, crp, same, len(corpus.word))


def evidence_gradient(corpus: Corpus, decay: Decay, alpha: float) -> EvidenceGradient:
    """Return the log evidence and its exact derivatives by log alpha and the decay's parameter.

    Fisher's identity: sum_ij (p(c_i = j | w) - A_ij) d log f_ij / d parameter. For decays without a
    parameter, for windows and for sums and products of decays, the last is 0.
    """
    decay, alpha = unscaled(decay, alpha)
    match, weight = matches(corpus, decay, alpha)
    match_slope, weight_slope = _slopes(corpus, decay, alpha)
    out = np.empty(3)
    gradient(match, weight, match_slope, weight_slope, corpus.g, alpha, out)
    return EvidenceGradient(*map(float, out))


def _slopes(corpus: Corpus, decay: Decay, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Return the derivatives of `matches` by the decay's parameter."""
    if isinstance(decay, Exponential):
        match, weight = np.empty(len(corpus.word)), np.empty(len(corpus.word))
        work = np.empty((3, corpus.n_words))
        fade_slopes(corpus.word, corpus.t, corpus.starts, decay.scale, work, match, weight)
        return match, weight
    if isinstance(decay, Logistic):
        softness, weigh = decay.scale, decay.weight
        return sums_within_reach(
            corpus, decay, alpha, lambda d: weigh(d) * (1.0 - weigh(d)) / softness
        )
    if isinstance(decay, LinearWindow):
        width = decay.width
        return sums_within_reach(
            corpus, decay, alpha, lambda d: np.where(d < width, d / width**2, 0.0)
        )
    return np.zeros(len(corpus.word)), np.zeros(len(corpus.word))


def _best_pair(corpus: Corpus, family: str) -> tuple[Decay, float, float]:
    make = _FAMILIES[family]
    start = evidence_surface(corpus, [make(a) for a in _PARAMETERS], _ALPHAS)
    best, alpha, _ = start.best()

    def loss(x: FloatArray) -> tuple[float, FloatArray]:
        parameter = math.exp(x[1])
        value = evidence_gradient(corpus, make(parameter), math.exp(x[0]))
        slopes = np.array([value.by_log_alpha, value.by_parameter * parameter])
        return -value.log_evidence, -slopes

    bounds = [(_LOWEST, _HIGHEST), (_SHORTEST, _LONGEST)]
    x, before = np.log([alpha, _PARAMETERS[start.decays.index(best)]]), -math.inf
    for _ in range(_ROUNDS):  # a linear window has kinks, where a climb may stop too early
        x = _descend(loss, x, bounds)
        decay = make(math.exp(x[1]))
        alpha, value = _best_alpha(corpus, decay, math.exp(x[0]))
        if not value > before + _ENOUGH:
            break
        x[0], before = math.log(alpha), value
    return decay, alpha, value


def _best_window(corpus: Corpus) -> tuple[Decay, float, float]:
    """Compare windows: first over a coarse grid, then in finer steps around the best."""
    start = evidence_surface(corpus, [Window(a + 1.0) for a in np.rint(_PARAMETERS)], _ALPHAS)
    middle = start.best()[0].location
    widths = np.unique(np.maximum(np.rint(middle * _WIDTHS), 2.0))
    found = []
    for width in widths:
        alpha, value = _best_alpha(corpus, Window(float(width)), start.best()[1])
        found.append((value, float(width), alpha))
    value, width, alpha = max(found)
    return Window(width), alpha, value


def _best_alpha(corpus: Corpus, decay: Decay, start: float | None = None) -> tuple[float, float]:
    """Maximise over alpha alone, by default from the best of a grid; weights are summed once."""
    match, weight = matches(corpus, decay, start or 1.0)
    nothing, out = np.zeros(len(match)), np.empty(3)

    def loss(x: FloatArray) -> tuple[float, FloatArray]:
        gradient(match, weight, nothing, nothing, corpus.g, math.exp(x[0]), out)
        return -float(out[0]), np.array([-out[1]])

    if start is None:
        start = min(_ALPHAS, key=lambda alpha: loss(np.log([alpha]))[0])
    x = _descend(loss, np.log([start]), [(_LOWEST, _HIGHEST)])
    return math.exp(x[0]), -loss(x)[0]


def _descend(
    loss: Callable[[FloatArray], tuple[float, FloatArray]], start: FloatArray,
    bounds: list[tuple[float, float]],
) -> FloatArray:  # fmt: skip
    close = {"ftol": 1e-13, "gtol": 1e-7}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=close)
    return np.asarray(found.x, dtype=np.float64)


_FAMILIES: dict[str, Callable[[float], Decay]] = {
    "exponential": Exponential,
    "logistic": Logistic,
    "linear_window": LinearWindow,
    "window": Window,
    "none": lambda _: NoDecay(),
}
