"""What the experiment ``ddcrp-language`` computes."""

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import scipy.sparse as sp

from streamddcrp.decay import Decay, NoDecay
from streamddcrp.errors import ConfigError
from streamddcrp.models.language.base_measure import BaseMeasure
from streamddcrp.models.language.estimator import link_posterior
from streamddcrp.models.language.fit import (
    Corpus,
    EvidenceSurface,
    LanguageFit,
    evidence_surface,
    fit_language,
    matches,
)
from streamddcrp.typing import FloatArray, IntArray

FAMILIES = ("window", "exponential", "logistic")
SMOOTHING = 0.5  # imagined count of each word where a document's own are left out
N_DRAWS = 2_000
N_SWEEPS = 3  # of the mean-field updates
CLEARLY = 1.0  # nats by which a document favours a model
FEWEST = 50  # documents that still reach a place, where growth is averaged


@dataclass(frozen=True, slots=True)
class Growth:
    """Number of tables against tokens read, the mean over the documents that are long enough."""

    decay: Decay
    alpha: float
    posterior: FloatArray
    prior: FloatArray


@dataclass(frozen=True, slots=True)
class Agreement:
    """One document by three ways, and all documents by mean field."""

    document: int
    decay: Decay
    alpha: float
    n_tokens: int
    log_evidence: float
    mean: float
    variance: float
    probs: FloatArray
    draws: IntArray  # number of tables of each draw
    bounds: FloatArray  # of mean field, at the random start and after each sweep
    tables: FloatArray  # expected tables of mean field, likewise
    worst: FloatArray  # largest |bound - log evidence| over all documents, likewise


@dataclass(frozen=True, slots=True)
class Numbers:
    """All that is reported and drawn."""

    corpus: Corpus
    parameters: tuple[float, ...]
    surfaces: dict[str, EvidenceSurface]
    fits: dict[str, LanguageFit]
    favoured: dict[str, float]  # share of documents that favour it over the best CRP
    growth: dict[str, Growth]  # of each family, at the parameters of largest evidence
    growth_over_a: dict[str, list[Growth]]  # over the grid, at its middle alpha
    agreement: Agreement


def read_corpus(documents: list[str], base: str) -> Corpus:
    """Lay out the documents; g are the word frequencies of all, or of all others."""
    whole = BaseMeasure.from_counts(documents, smoothing=0.0)
    corpus = Corpus.from_documents(documents, base_measure=whole)
    if base == "corpus":
        return corpus
    if corpus.n_documents < 2:
        message = "--base others needs two documents or more; there is one"
        raise ConfigError(message)
    own = np.repeat(np.arange(corpus.n_documents), np.diff(corpus.starts))
    _, at, count = np.unique(
        own * corpus.n_words + corpus.word, return_inverse=True, return_counts=True
    )
    in_all = np.bincount(corpus.word)[corpus.word]
    length = np.diff(corpus.starts)[own]
    total = len(corpus.word) - length + SMOOTHING * corpus.n_words
    return replace(corpus, g=(in_all - count[at] + SMOOTHING) / total)


def measure(
    corpus: Corpus, parameters: tuple[float, ...], alphas: tuple[float, ...], seed: int, bar: Any
) -> Numbers:
    """Compute everything; ``bar`` advances with each model."""
    per_decay = len(alphas)
    bar.reset(total=len(FAMILIES) * len(parameters) * per_decay + len(FAMILIES) + 1)
    surfaces = {}
    for family in FAMILIES:
        bar.set_description(family)
        decays = [(family, parameter) for parameter in parameters]
        surfaces[family] = evidence_surface(corpus, decays, alphas)
        bar.update(len(decays) * per_decay)
    fits = {}
    for family in (*FAMILIES, "none"):
        bar.set_description(f"best {family}")
        fits[family] = fit_language(corpus, family)
        bar.update()
    favoured = {name: _favoured(corpus, fit) for name, fit in fits.items()}
    growth = {name: _growth(corpus, fit.decay, fit.alpha) for name, fit in fits.items()}
    middle = sorted(alphas)[len(alphas) // 2]
    growth_over_a = {
        name: [_growth(corpus, decay, middle) for decay in surface.decays]
        for name, surface in surfaces.items()
    }
    growth_over_a["none"] = [_growth(corpus, NoDecay(), middle)]
    best = fits["exponential"]
    agreement = _agreement(corpus, best.decay, best.alpha, np.random.default_rng(seed))
    return Numbers(corpus, parameters, surfaces, fits, favoured, growth, growth_over_a, agreement)


def _favoured(corpus: Corpus, fit: LanguageFit) -> float:
    ours = evidence_surface(corpus, [fit.decay], [fit.alpha]).log_evidence[:, 0, 0]
    crp = evidence_surface(corpus, ["none"], [fit.crp_alpha]).log_evidence[:, 0, 0]
    return float((ours > crp + CLEARLY).mean())


def _growth(corpus: Corpus, decay: Decay, alpha: float) -> Growth:
    """Add up the mean probability of opening a table at each place."""
    match, weight = matches(corpus, decay, alpha)
    lengths = np.diff(corpus.starts)
    place = np.arange(len(corpus.word)) - np.repeat(corpus.starts[:-1], lengths)
    reached = np.bincount(place)
    reached = reached[reached >= min(FEWEST, reached[0])]
    opening = alpha * corpus.g

    def mean_sum(p: FloatArray) -> FloatArray:
        return np.cumsum(np.bincount(place, p)[: len(reached)] / reached)

    return Growth(
        decay, alpha, mean_sum(opening / (opening + match)), mean_sum(alpha / (alpha + weight))
    )


def _agreement(corpus: Corpus, decay: Decay, alpha: float, rng: np.random.Generator) -> Agreement:
    exact = evidence_surface(corpus, [decay], [alpha]).log_evidence[:, 0, 0]
    lengths = np.diff(corpus.starts)
    chosen = int(rng.choice(np.flatnonzero(lengths >= np.median(lengths))))
    at = corpus.document(chosen)
    own = np.repeat(np.arange(corpus.n_documents), lengths)
    # a word in another document is another word: one pass over all documents
    word = np.unique(own * corpus.n_words + corpus.word, return_inverse=True)[1]
    links = link_posterior(word, corpus.g, corpus.t, alpha=alpha, decay=decay)
    bounds, opening = _mean_field(corpus, links, decay, alpha, rng)
    of_documents = np.array([np.bincount(own, bound) for bound in bounds])
    p = links.diagonal()[at]
    drawn = sample_links(links[at, at], N_DRAWS, rng)
    return Agreement(
        document=chosen,
        decay=decay,
        alpha=alpha,
        n_tokens=int(lengths[chosen]),
        log_evidence=float(exact[chosen]),
        mean=float(p.sum()),
        variance=float((p * (1 - p)).sum()),
        probs=reduce(np.convolve, np.stack([1.0 - p, p], axis=1)),  # a Poisson-binomial
        draws=(drawn == np.arange(drawn.shape[1])).sum(axis=1),
        bounds=of_documents[:, chosen],
        tables=opening[:, at].sum(axis=1),
        worst=np.abs(of_documents - exact).max(axis=1),
    )


def sample_links(links: sp.csr_array, n_draws: int, rng: np.random.Generator) -> IntArray:
    """Draw whole vectors of links: each draw is what one Gibbs sweep would give, independent.

    Parameters
    ----------
    links : scipy.sparse.csr_array, shape (N, N)
        As `link_posterior` returns it.
    n_draws : int
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of int64, shape (n_draws, N)
    """
    n = links.shape[0]
    ends = np.cumsum(links.data)
    before = np.concatenate([[0.0], ends])[links.indptr[:-1]]
    rows = np.concatenate([before[1:], ends[-1:]]) - before
    at = np.searchsorted(ends, before + rng.random((n_draws, n)) * rows, side="right")
    drawn = links.indices[np.clip(at, links.indptr[:-1], links.indptr[1:] - 1)]
    return np.asarray(drawn, dtype=np.int64)


def _mean_field(
    corpus: Corpus, links: sp.csr_array, decay: Decay, alpha: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Run coordinate ascent from random q(c_i) on the links between equal words.

    The bound sum_ij q_ij (log p_ij - log q_ij) + E_q[log p(w | c)] is computed from q. Given such
    links every table shows its word, at the price of g once a table: E_q[log p(w | c)] is
    sum_i q_ii log g(w_i), and an update of q(c_i) leaves the others alone.

    Returns
    -------
    bounds, opening : ndarray of float64, shape (N_SWEEPS + 1, N)
        Each token's part of the bound, and q_ii, at the start and after each sweep.
    """
    ends, to = links.indptr, links.indices
    count, own = np.diff(ends), ends[1:] - 1  # a token's link to itself is the last of its row

    def by_row(values: FloatArray) -> FloatArray:
        return np.add.reduceat(values, ends[:-1])

    weight = matches(corpus, decay, alpha)[1]
    log_prior = decay.log_weight(np.repeat(corpus.t, count) - corpus.t[to])
    log_prior[own] = np.log(alpha)
    log_prior -= np.repeat(np.log(alpha + weight), count)
    gain = np.zeros(len(to))
    gain[own] = np.log(corpus.g)
    q = rng.exponential(size=len(to))
    q /= np.repeat(by_row(q), count)
    bounds, opening = np.empty((2, N_SWEEPS + 1, len(count)))
    for sweep in range(N_SWEEPS + 1):
        if sweep:
            q = np.exp(log_prior + gain)
            q /= np.repeat(by_row(q), count)
        entropy = -q * np.log(np.where(q > 0, q, 1.0))
        bounds[sweep] = by_row(q * (log_prior + gain) + entropy)
        opening[sweep] = q[own]
    return bounds, opening
