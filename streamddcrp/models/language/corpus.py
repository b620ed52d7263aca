"""Documents as flat arrays, and the posterior of the links within a document."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from streamddcrp.data import Tokens, as_times, check_times
from streamddcrp.decay import Decay
from streamddcrp.errors import SchemaError
from streamddcrp.models.language.base_measure import Vocabulary, make_base_measure
from streamddcrp.models.language.kernels import fill_pairs, find_pairs, poisson_binomial
from streamddcrp.models.language.memory import first_within, horizon_of, unscaled
from streamddcrp.typing import ArrayLike, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """Documents, each a ddCRP of its own over one base measure.

    Examples
    --------
    >>> from streamddcrp.models.language.corpus import Corpus
    >>> corpus = Corpus.from_documents(["to be or not to be", "to sleep"], base_measure=50)
    >>> corpus.word, corpus.starts
    (array([0, 1, 2, 3, 0, 1, 0, 4]), array([0, 6, 8]))
    """

    word: IntArray  # (N,) ids of the tokens of all documents, one after the other
    starts: IntArray  # (M + 1,) document m is word[starts[m]:starts[m + 1]]
    # (N,) probability of each token under the base measure. It may differ from document to
    # document, as where the document itself was left out when it was learned.
    g: FloatArray
    t: FloatArray  # (N,) times; the place in the corpus where none were given
    clocked: bool  # whether times were given
    n_words: int  # one more than the highest id

    @classmethod
    def from_documents(
        cls, documents: Iterable[Tokens], *, base_measure: Any, times: Iterable[Any] | None = None
    ) -> Self:
        """Lay out documents.

        Parameters
        ----------
        documents : iterable of texts, lists of words, or arrays of token ids
        base_measure : BaseMeasure, int, array_like or mapping
            As for `LinkLanguageModel`.
        times : iterable of array_like, optional
            Times of the tokens of each document, not falling within it.

        Raises
        ------
        SchemaError, OrderError
            A token is unknown, or a time unusable; the message names the document.
        """
        if isinstance(documents, str):
            message = "documents: expected several, got one text; put it in a list"
            raise SchemaError(message)
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
                message = f"document {m}, {error}"
                raise type(error)(message, row=error.row) from None
        starts = np.zeros(len(words) + 1, dtype=np.int64)
        np.cumsum([len(word) for word in words], out=starts[1:])
        word = np.concatenate(words) if words else np.empty(0, dtype=np.int64)
        t = np.concatenate(stamps) if stamps else np.arange(len(word), dtype=np.float64)
        n_words = int(word.max(initial=-1)) + 1
        return cls(word, starts, vocabulary.g(word), t, clocks is not None, n_words)

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return len(self.starts) - 1

    def document(self, m: int) -> slice:
        """Return where document m is."""
        return slice(int(self.starts[m]), int(self.starts[m + 1]))


def _clock(clocks: list[Any], m: int, n: int) -> FloatArray:
    if m >= len(clocks):
        message = "row 0: it has no times; every document needs them, or none has any"
        raise SchemaError(message)
    t = as_times(clocks[m], n)
    check_times(t)
    return t


class TableCount(NamedTuple):
    """Mean and variance of a number of tables."""

    mean: float
    variance: float


def link_posterior(
    word: IntArray, g: FloatArray, t: FloatArray, *, alpha: float, decay: Decay
) -> sp.csr_array:
    """Return p(c_i = j | w) of all tokens of a document; the links are independent.

    Parameters
    ----------
    word : ndarray of int64, shape (N,)
    g, t : ndarray of float64, shape (N,)
        Probability of each token under the base measure; times, or 0, 1, 2, .. for index distance.
    alpha : float
    decay : Decay

    Returns
    -------
    scipy.sparse.csr_array, shape (N, N)
        Rows sum to 1; the diagonal holds the probabilities of opening a table. Links lighter than
        1e-12 alpha are left out. O(pairs of equal words within reach) time and memory.
    """
    decay, alpha = unscaled(decay, alpha)
    n = len(word)
    first = first_within(t, t, horizon_of(decay, alpha))
    previous, count = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    find_pairs(word, first, np.full(word.max(initial=-1) + 1, -1), previous, count)
    indptr = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(count + 1, out=indptr[1:])
    indices = np.empty(indptr[-1], dtype=np.int64)
    fill_pairs(first, previous, indptr, indices)
    own = np.repeat(np.arange(n), count + 1)
    data = decay.weight(t[own] - t[indices])
    data[indptr[1:] - 1] = alpha * g
    if n:
        data /= np.repeat(np.add.reduceat(data, indptr[:-1]), count + 1)
    links = sp.csr_array((data, indices, indptr), shape=(n, n))
    links.eliminate_zeros()
    return links


def n_tables_probs(p_open: ArrayLike) -> FloatArray:
    """Return P(K = 0), ..., P(K = N) of the number of tables, a Poisson-binomial; O(N^2).

    Parameters
    ----------
    p_open : array_like of float, shape (N,)
        Probability of each token to open a table: the diagonal of `link_posterior`.

    Examples
    --------
    >>> n_tables_probs([1.0, 0.5, 0.5])
    array([0.  , 0.25, 0.5 , 0.25])
    """
    p = np.ascontiguousarray(p_open, dtype=np.float64)
    if p.ndim != 1 or not np.all((p >= 0.0) & (p <= 1.0)):
        message = f"p_open: expected probabilities in a flat array, got shape {p.shape}"
        raise SchemaError(message)
    out = np.empty(len(p) + 1)
    poisson_binomial(p, out)
    return out


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


def together(links: sp.csr_array) -> FloatArray:
    """Return P(i and j at one table) for independent sequential links, dense.

    M_ii = 1, M_ij = sum_{t<i} Q_it M_tj for j < i, M symmetric. O(stored links times N) time,
    O(N^2) memory: for a document, not for a stream.
    """
    n = links.shape[0]
    out = np.eye(n)
    for i in range(n):
        row = slice(links.indptr[i], links.indptr[i + 1])
        to = links.indices[row]
        earlier = to < i
        out[i, :i] = links.data[row][earlier] @ out[to[earlier], :i]
        out[:i, i] = out[i, :i]
    return out
