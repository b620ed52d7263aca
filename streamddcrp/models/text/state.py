"""Everything the text engine has to remember: made, enlarged, stored.

Kernels update the arrays in place; when one becomes too short they come back to Python, which
doubles it. Growth depends on the documents alone, not on how they are cut into batches, so that
equal streams give equal arrays.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from streamddcrp.models.text.arrays import (
    Archive,
    Events,
    Halves,
    Postings,
    Scratch,
    Tables,
    Window,
    Words,
)
from streamddcrp.models.text.config import Config, scales_of
from streamddcrp.models.text.kernels.layout import (
    ALPHA,
    B_TABLES,
    B_TOKENS,
    CONCENTRATION,
    GROWTH,
    GROWTHS,
    HISTORY,
    LAST,
    LISTS_END,
    LISTS_FREE,
    MOST_TOKENS,
    N_COUNTS,
    N_EXAMPLES,
    N_KEPT,
    N_RIVALS,
    N_SEEDS,
    N_SLOTS,
    N_SUMS,
    N_VECTORS,
    POSTINGS_END,
    PRIOR,
    SCALES,
    SHARES,
    SHORT_ARCHIVE,
    SHORT_DOCUMENT,
    SHORT_EVENTS,
    SHORT_POSTINGS,
    SHORT_SHOWN,
    SHORT_TABLES,
    SHORT_TEXT,
    SHOWN,
    SHOWN_END,
    SHOWN_FIRST,
    SPLIT_DUE,
    TEXT_END,
    TEXT_FIRST,
    TIMED,
)
from streamddcrp.records import nbytes_of
from streamddcrp.typing import FloatArray, IntArray

FIRST_B, B_WEIGHT = 40.0, 20.0
N_CLASSES = 40  # sizes of blocks of postings
N_LOG_GAMMA = 1024


@dataclass(slots=True)
class State:
    """The engine's memory; exactly one owner."""

    words: Words
    postings: Postings
    tables: Tables
    window: Window
    archive: Archive
    events: Events
    counts: IntArray
    sums: FloatArray
    scratch: Scratch
    halves: Halves

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        return nbytes_of(self)


_WHOLE = ("blocks",)
_AXIS = {"masses": 1}  # by table
PARTS: dict[str, Any] = {
    "words": Words,
    "postings": Postings,
    "tables": Tables,
    "window": Window,
    "archive": Archive,
    "events": Events,
}


def empty_state(config: Config) -> State:
    """Return the state before the first document."""
    W, P, K, T, S, E = 64, 256, 16, 256, 1024, 64
    M = HISTORY * int(config.ages[-1])
    scales, timed, prior = scales_of(config)
    G = len(scales)
    counts, sums = np.zeros(N_COUNTS, np.int64), np.zeros(N_SUMS + N_VECTORS * G)
    counts[[LAST, LISTS_FREE, SPLIT_DUE]] = -1
    sums[[GROWTH, CONCENTRATION, ALPHA]] = 1.0, FIRST_B, config.alpha
    sums[[B_TABLES, B_TOKENS]] = B_WEIGHT, B_WEIGHT / FIRST_B
    vectors = sums[N_SUMS:].reshape(N_VECTORS, G)
    vectors[[SCALES, PRIOR, TIMED]], vectors[GROWTHS] = (scales, prior, timed), 1.0
    vectors[SHARES] = prior / scales / max(float(np.sum(prior / scales)), 1e-300)
    small = [np.zeros(K, np.int32) for _ in range(3)]
    window = _zeros(
        Window,
        M + 1,
        np.int64,
        table=np.full(M + 1, -1),
        weight=np.zeros(M + 1),
        weights=np.zeros((M + 1, G)),
        t=np.zeros(M + 1),
        sure=np.zeros(M + 1, np.uint8),
        text=np.zeros(T, np.int32),
        shown=np.zeros(S, np.uint8),
    )
    return State(
        words=_zeros(
            Words, W, np.int32, start=np.zeros(W, np.int64), room=np.full(W, -1, np.int32),
            wide=np.zeros(W, np.bool_),
        ),
        postings=_zeros(
            Postings, P, np.int32, blocks=np.full(N_CLASSES, -1, np.int64)
        ),
        tables=_zeros(
            Tables, K, np.int64, mass=np.zeros(K), masses=np.zeros((G, K)),
            born_t=np.zeros(K), last_t=np.zeros(K), told=np.zeros(K, np.bool_),
            live=small[0], place=small[1], free=small[2],
            example=np.zeros((K, N_EXAMPLES, SHOWN), np.uint8), fit=np.zeros((K, N_EXAMPLES)),
            example_length=np.zeros((K, N_EXAMPLES), np.int64),
            example_row=np.zeros((K, N_EXAMPLES), np.int64),
            rival=np.zeros((K, N_RIVALS), np.int64), rival_id=np.zeros((K, N_RIVALS), np.int64),
        ),
        window=window,
        archive=_zeros(
            Archive, 16, np.int64, word=np.zeros((16, N_KEPT), np.int32),
            copies=np.zeros((16, N_KEPT), np.int32), weight=np.zeros((16, N_KEPT)),
        ),
        events=_zeros(Events, E, np.int64, t=np.zeros(E)),
        counts=counts,
        sums=sums,
        scratch=_scratch(config, K, 64),
        halves=_halves(window),
    )  # fmt: skip


def _zeros(kind: Any, n: int, dtype: Any, **others: NDArray[Any]) -> Any:
    """Make a group of arrays: ``n`` zeros each, but for the others."""
    return kind(**{name: others.get(name, np.zeros(n, dtype)) for name in kind._fields})


def _scratch(config: Config, K: int, U: int) -> Scratch:
    x = 1.0 - config.discount
    log_gamma = gammaln(x + np.arange(N_LOG_GAMMA)) - gammaln(x)
    doc, read, at, gone = np.zeros((4, U), np.int64)
    product, inverse, weight, ratio, shift = np.zeros((5, K))
    return Scratch(
        product, inverse, weight, ratio, shift, np.zeros(K, np.int32), doc, read, at, gone,
        np.zeros(2, np.int64), log_gamma,
    )  # fmt: skip


def _halves(window: Window) -> Halves:
    M, T = len(window.table) + 1, min(len(window.text), MOST_TOKENS)
    member, begin = np.zeros((2, M), np.int32)
    side, best_side = np.zeros((2, M), np.bool_)
    token, met, present, total, own = np.zeros((5, T), np.int32)
    return Halves(
        member, begin, side, best_side, token, met, present, total, own, np.zeros(T),
        np.zeros(N_SEEDS, np.int64), np.zeros(N_SEEDS),
    )  # fmt: skip


def _longer(array: NDArray[Any], size: int, fill: int = 0, axis: int = 0) -> NDArray[Any]:
    more = [(0, 0)] * array.ndim
    more[axis] = (0, size - array.shape[axis])
    return np.pad(array, more, constant_values=fill)


def _twice(group: Any, size: int) -> Any:
    arrays = group._asdict().items()
    return type(group)(*(_longer(array, size, 0, _AXIS.get(name, 0)) for name, array in arrays))


def _longer_ring(ring: NDArray[Any], first: int, end: int) -> NDArray[Any]:
    """Return a ring of twice the size; what stands at ``first`` to ``end`` keeps its place."""
    out = np.zeros(2 * len(ring), ring.dtype)
    at = np.arange(first, end)
    out[at & (len(out) - 1)] = ring[at & (len(ring) - 1)]
    return out


def with_words(state: State, n_words: int) -> None:
    """Make room for word numbers below ``n_words``."""
    W = len(state.words.df)
    while n_words > W:
        W *= 2
    if len(state.words.df) < W:
        room = _longer(state.words.room, W, -1)
        state.words = _twice(state.words, W)._replace(room=room)


def grow(state: State, config: Config) -> None:
    """Double what the kernel found too short; no number changes."""
    short = int(state.scratch.short[0])
    if short & SHORT_POSTINGS:
        blocks, P = state.postings.blocks, 2 * len(state.postings.table)
        state.postings = _twice(state.postings, P)._replace(blocks=blocks)
    if short & SHORT_TABLES:
        state.tables = _twice(state.tables, 2 * len(state.tables.id))
    if short & SHORT_TEXT:
        first, end = state.counts[TEXT_FIRST], state.counts[TEXT_END]
        state.window = state.window._replace(text=_longer_ring(state.window.text, first, end))
        state.halves = _halves(state.window)
    if short & SHORT_SHOWN:
        first, end = state.counts[SHOWN_FIRST], state.counts[SHOWN_END]
        state.window = state.window._replace(shown=_longer_ring(state.window.shown, first, end))
    if short & SHORT_ARCHIVE:
        state.archive = _twice(state.archive, 2 * len(state.archive.id))
    if short & SHORT_EVENTS:
        state.events = _twice(state.events, 2 * len(state.events.kind))
    if short & (SHORT_TABLES | SHORT_DOCUMENT):
        U = len(state.scratch.doc) * (2 if short & SHORT_DOCUMENT else 1)
        while state.scratch.short[1] > U:
            U *= 2
        state.scratch = _scratch(config, len(state.tables.id), U)


def arrays_of(state: State, n_words: int) -> dict[str, NDArray[Any]]:
    """Return copies of the arrays without unused capacity, for a checkpoint.

    Parameters
    ----------
    n_words : int
        Upper end of the numbers of words.
    """
    ends = state.counts[[POSTINGS_END, LISTS_END]]
    used = {"words": n_words, "tables": int(state.counts[N_SLOTS]), "postings": int(ends.max())}
    arrays: dict[str, NDArray[Any]] = {"counts": state.counts.copy(), "sums": state.sums.copy()}
    for part in PARTS:
        for name, array in getattr(state, part)._asdict().items():
            n = None if name in _WHOLE else used.get(part)
            arrays[f"{part}.{name}"] = (array[:, :n] if _AXIS.get(name) else array[:n]).copy()
    return arrays


def state_from_arrays(config: Config, arrays: Mapping[str, NDArray[Any]]) -> State:
    """Rebuild the state that `arrays_of` described."""
    state = empty_state(config)
    for part, kind in PARTS.items():
        fields = []
        for name in kind._fields:
            array, axis = arrays[f"{part}.{name}"], _AXIS.get(name, 0)
            n = getattr(getattr(state, part), name).shape[axis]
            if part in ("words", "postings", "tables") and name not in _WHOLE:
                while n < array.shape[axis]:
                    n *= 2
                array = _longer(array, n, -1 if name == "room" else 0, axis)
            fields.append(array)
        setattr(state, part, kind(*fields))
    state.counts, state.sums = arrays["counts"], arrays["sums"]
    state.scratch = _scratch(config, len(state.tables.id), 64)
    state.halves = _halves(state.window)
    return state
