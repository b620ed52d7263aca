"""One step of the text engine, over any number of documents: grow where needed, call the kernel."""

import numpy as np

from streamddcrp.inference.compilation import compiled, entry_point
from streamddcrp.inference.text_ddcrp._kernels_layout import N_OUTPUTS
from streamddcrp.inference.text_ddcrp._kernels_step import predict_document, step_documents
from streamddcrp.inference.text_ddcrp.config import Config
from streamddcrp.inference.text_ddcrp.state import SmallInts, State, grow, with_words
from streamddcrp.typing import FloatArray, IntArray

__all__ = ["predict", "step"]


def step(
    config: Config, state: State, indptr: IntArray, indices: SmallInts, t: FloatArray
) -> FloatArray:
    """Predict and learn documents in order; the state is updated in place.

    Parameters
    ----------
    indptr : ndarray of int64, shape (N + 1,)
        Document i has the words ``indices[indptr[i]:indptr[i + 1]]``.
    indices : ndarray of int32
        Numbers of words, distinct within a document.
    t : ndarray of float64, shape (N,)

    Returns
    -------
    ndarray of float64, shape (N, 7)
    """
    with compiled(step_documents) as needed:
        if needed and len(t):
            step(config, state, indptr[:1], indices[:0], t[:0])
    out = np.empty((len(t), N_OUTPUTS))
    with_words(state, int(indices.max(initial=0)) + 1)
    done = 0
    while True:
        done = entry_point(step_documents)(
            config, state.words, state.postings, state.tables, state.window, state.events,
            state.counts, state.sums, state.scratch, indptr, indices, t, done, out,
        )  # fmt: skip
        if done == len(t):
            return out
        grow(state, config)


def predict(
    config: Config, state: State, doc: SmallInts, t: float
) -> tuple[FloatArray, int, float]:
    """Predict a document and change nothing.

    Returns
    -------
    out : ndarray of float64, shape (7,)
    n : int
        How many tables ``scratch.touched`` and ``scratch.weight`` hold.
    top : float
        Logarithm of what the weights are to be multiplied by.
    """
    out = np.full(N_OUTPUTS, np.nan)
    n, top = entry_point(predict_document)(
        config, state.words, state.postings, state.tables, state.counts, state.sums,
        state.scratch, doc, t, out,
    )  # fmt: skip
    return out, int(n), float(top)
