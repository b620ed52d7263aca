"""One step of the text engine, over any number of documents: grow where needed, call the kernel."""

from typing import Any

import numpy as np

from streamddcrp.compilation import entry_point
from streamddcrp.contract import LIVE_TABLES, P_NEW
from streamddcrp.data.words import WordTable
from streamddcrp.models.text.config import Config
from streamddcrp.models.text.kernels.arrival import predict_document, step_documents
from streamddcrp.models.text.kernels.layout import (
    LISTS,
    MOST_WORDS,
    N_TEXT_OUTPUTS,
    NUMBERS,
    SHORT_DOCUMENT,
    SHORT_WORDS,
    TEXTS,
)
from streamddcrp.models.text.state import State, grow, with_words
from streamddcrp.typing import FloatArray, IntArray

_NO_BYTES = np.frombuffer(b"", np.uint8)
_NO_NUMBERS = np.empty(0, np.int64)


def step(
    config: Config,
    state: State,
    table: WordTable,
    data: Any,
    offsets: IntArray,
    t: FloatArray,
    *,
    listed: bool,
) -> FloatArray:
    """Predict and learn texts in order; the state and the table of words are updated in place.

    Parameters
    ----------
    data : ndarray of uint8
        Not writable, as Arrow gives it: another type to the kernel otherwise.
    offsets : ndarray of int64, shape (N + 1,)
        Document i is ``data[offsets[i]:offsets[i + 1]]``. Not writable.
    t : ndarray of float64, shape (N,)
    listed : bool
        Whether documents are words with a byte between, as `streamddcrp.data.words.joined`
        makes them; else texts in UTF-8.

    Returns
    -------
    ndarray of float64, shape (N, 7)
        Columns by `kernels.layout`; ``FINAL_LABEL`` is that of the document which arrived the lag
        before, NaN where there was none.
    """
    return _step(config, state, table, LISTS if listed else TEXTS, data, _NO_NUMBERS, offsets, t)


def step_numbers(
    config: Config, state: State, numbers: IntArray, offsets: IntArray, t: FloatArray
) -> FloatArray:
    """Do the same for documents that are numbers of words, each once a document.

    Parameters
    ----------
    numbers : ndarray of int64
        From 0 to about as many as there are words: arrays are as long as the largest.
    """
    with_words(state, int(numbers.max(initial=0)) + 1)
    frozen = offsets.view()
    frozen.flags.writeable = False
    return _step(config, state, WordTable(()), NUMBERS, _NO_BYTES, numbers, frozen, t)


def _step(
    config: Config, state: State, table: WordTable, form: int, data: Any, numbers: IntArray,
    offsets: IntArray, t: FloatArray,
) -> FloatArray:  # fmt: skip
    out = np.empty((len(t), N_TEXT_OUTPUTS))
    done = 0
    while True:
        done = entry_point(step_documents)(
            config, state.words, state.postings, state.tables, state.window, state.archive,
            state.events, state.counts, state.sums, state.scratch, state.scratch_halves,
            table.arrays, form, data, numbers, offsets, t, done, out,
        )  # fmt: skip
        scratch = state.scratch
        if done == len(t) and not scratch.short[0]:
            return out
        if scratch.short[0] & SHORT_WORDS:
            table.grow(int(scratch.short[1]))
            with_words(state, table.capacity)
        grow(state, config)


def predict(
    config: Config, state: State, table: WordTable, data: Any, t: float, *, listed: bool
) -> tuple[FloatArray, FloatArray]:
    """Predict a document and change nothing.

    Returns
    -------
    out : ndarray of float64, shape (7,)
    probs : ndarray of float64, shape (K,)
        Probability of each live table, in the order of ``state.tables.live``.
    """
    most = min(MOST_WORDS, len(data) // 2 + 1)
    table.grow(most)  # unknown words enter it for a moment
    with_words(state, table.capacity)
    state.scratch.short[:] = 0, most
    if len(state.scratch.read) < most:
        state.scratch.short[0] = SHORT_DOCUMENT
        grow(state, config)
    out, mass, sums = np.full(N_TEXT_OUTPUTS, np.nan), state.tables.mass.copy(), state.sums.copy()
    entry_point(predict_document)(
        config, state.words, state.postings, state.tables, state.window, state.counts,
        state.sums, state.scratch, table.arrays, listed, data, t, out,
    )  # fmt: skip
    state.tables.mass[:], state.sums[:] = mass, sums
    live = state.tables.live[: int(out[LIVE_TABLES])]
    weights = state.scratch.weight[live]
    return out, weights * ((1.0 - out[P_NEW]) / max(float(weights.sum()), 1e-300))
