"""Everything the text engine has to remember, as arrays.

Sizes are capacities, powers of two: W word numbers, P postings, K slots of tables, T words of the
ring of texts, E events, L the lag. Kernels update the arrays in place; when one becomes too short
they come back to Python, which doubles it. Growth depends on the documents alone, not on how they
are cut into batches, so that equal streams give equal arrays.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from streamddcrp.inference.memory import nbytes_of
from streamddcrp.inference.text_ddcrp._kernels_layout import (
    ALPHA,
    B_TABLES,
    B_TOKENS,
    CONCENTRATION,
    GROWTH,
    LAST,
    N_COUNTS,
    N_EXAMPLES,
    N_KEPT,
    N_RIVALS,
    N_SLOTS,
    N_SUMS,
    POSTINGS_END,
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
    TEXT_END,
    TEXT_FIRST,
)
from streamddcrp.inference.text_ddcrp.config import Config
from streamddcrp.typing import FloatArray, IntArray

__all__ = ["State", "arrays_of", "empty_state", "grow", "state_from_arrays", "with_words"]

SmallInts = NDArray[np.int32]
BoolArray = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
FIRST_B, B_WEIGHT = 40.0, 20.0
N_CLASSES = 40  # sizes of blocks of postings
N_LOG_GAMMA = 1024


class Words(NamedTuple):
    """What the engine knows of a word, by its number.

    Attributes
    ----------
    start : ndarray of int64, shape (W,)
        Place of its block of postings.
    df : ndarray of int32, shape (W,)
        Tables that hold it, which is the number of its postings.
    room : ndarray of int32, shape (W,)
        Log2 of the size of its block; -1: it has none.
    wide : ndarray of bool, shape (W,)
        Whether the posting of the table in slot k stands at place k of the block.
    held : ndarray of int32, shape (W,)
        Documents of the window, and of tables of the archive, with the word.
    mark : ndarray of int32, shape (W,)
        Work space, zero between calls.
    """

    start: IntArray
    df: SmallInts
    room: SmallInts
    wide: BoolArray
    held: SmallInts
    mark: SmallInts


class Postings(NamedTuple):
    """Which table holds which word how often.

    Attributes
    ----------
    table, copies, word : ndarray of int32, shape (P,)
    after, before : ndarray of int64, shape (P,)
        The next posting of the same table and the one before, or -1.
    blocks : ndarray of int64, shape (40,)
        By log2 of their size, the first of the blocks that nobody uses, or -1; they are chained
        through ``after`` of their first posting.
    """

    table: SmallInts
    copies: SmallInts
    word: SmallInts
    after: IntArray
    before: IntArray
    blocks: IntArray


class Tables(NamedTuple):
    """Tables by slot.

    Attributes
    ----------
    mass : ndarray of float64, shape (K,)
        Decayed weight of its documents, stored: in units of ``sums[GROWTH]``.
    n_tokens, n_words, size : ndarray of int64, shape (K,)
        Tokens, distinct words, documents.
    head : ndarray of int64, shape (K,)
        Its first posting, or -1.
    in_window : ndarray of int64, shape (K,)
        Documents in the window.
    next_merge : ndarray of int64, shape (K,)
        Number of documents from which a merge is tried again.
    id : ndarray of int64, shape (K,)
    born, last_seen : ndarray of int64, shape (K,)
        Index of its first and of its last document.
    born_t, last_t : ndarray of float64, shape (K,)
        Their times.
    told : ndarray of bool, shape (K,)
        Whether a final label has named it.
    example : ndarray of uint8, shape (K, 3, 256)
        Beginnings of its most typical texts.
    example_length, example_row : ndarray of int64, shape (K, 3)
        Their bytes, and which documents they are.
    fit : ndarray of float64, shape (K, 3)
        How typical they are, -inf: there is none.
    live, place : ndarray of int32, shape (K,)
        List of the live slots, and where a slot stands in it.
    free : ndarray of int32, shape (K,)
        Stack of the slots that were live.
    rival, rival_id : ndarray of int64, shape (K, 4)
        Slots and ids of the tables that were second choices of its last documents, or -1.
    """

    mass: FloatArray
    n_tokens: IntArray
    n_words: IntArray
    size: IntArray
    head: IntArray
    in_window: IntArray
    next_merge: IntArray
    id: IntArray
    born: IntArray
    last_seen: IntArray
    born_t: FloatArray
    last_t: FloatArray
    told: BoolArray
    example: Bytes
    example_length: IntArray
    example_row: IntArray
    fit: FloatArray
    live: SmallInts
    place: SmallInts
    free: SmallInts
    rival: IntArray
    rival_id: IntArray


class Window(NamedTuple):
    """The last documents; document i stands at i mod (L + 1).

    Attributes
    ----------
    table : ndarray of int64, shape (L + 1,)
        Slot, or -1: a document without words.
    weight : ndarray of float64, shape (L + 1,)
        Its part in the stored mass.
    t : ndarray of float64, shape (L + 1,)
    start, length : ndarray of int64, shape (L + 1,)
        Where its words stand in ``text``, absolute, and how many they are.
    text : ndarray of int32, shape (T,)
        Words; the absolute place n is at n mod T.
    sure : ndarray of bool, shape (L + 1,)
        Whether its table was as good as certain when it came.
    shown_start, shown_length : ndarray of int64, shape (L + 1,)
    shown : ndarray of uint8, shape (S,)
        The same for the first bytes of the texts.
    """

    table: IntArray
    weight: FloatArray
    t: FloatArray
    start: IntArray
    length: IntArray
    text: SmallInts
    sure: BoolArray
    shown_start: IntArray
    shown_length: IntArray
    shown: Bytes


class Archive(NamedTuple):
    """Ring of the last tables that were retired: the words that told them from the others.

    Attributes
    ----------
    id, n : ndarray of int64, shape (A,)
        Id, and number of words kept.
    n_tokens, n_words : ndarray of int64, shape (A,)
        As the table had them.
    word, copies : ndarray of int32, shape (A, 64)
    weight : ndarray of float64, shape (A, 64)
        By which the words were chosen.
    """

    id: IntArray
    n: IntArray
    n_tokens: IntArray
    n_words: IntArray
    word: SmallInts
    copies: SmallInts
    weight: FloatArray


class Events(NamedTuple):
    """Rings of the last events and of the last merges, shape (E,)."""

    kind: IntArray
    label: IntArray
    into: IntArray
    arrival: IntArray
    t: FloatArray
    younger: IntArray
    older: IntArray


class Scratch(NamedTuple):
    """Work space of the kernels; nothing outlives a call but that ``product``, ``gone`` are zero.

    Attributes
    ----------
    product, inverse, weight, ratio : ndarray of float64, shape (K,)
    touched : ndarray of int32, shape (K,)
    doc, read : ndarray of int64, shape (U,)
        Words of a document of the window, and of the new one.
    at, gone : ndarray of int64, shape (U,)
        Of the words of a document that was lifted: their postings, and whether these count zero.
    short : ndarray of int64, shape (2,)
        Which arrays are too short for the next document, and for how many words.
    log_gamma : ndarray of float64, shape (1024,)
        log Gamma(1 - d + m) - log Gamma(1 - d).
    """

    product: FloatArray
    inverse: FloatArray
    weight: FloatArray
    ratio: FloatArray
    touched: SmallInts
    doc: IntArray
    read: IntArray
    at: IntArray
    gone: IntArray
    short: IntArray
    log_gamma: FloatArray


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

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        return nbytes_of(self)


_WHOLE = ("blocks",)
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
    W, P, K, T, S, E, L = 64, 256, 16, 256, 1024, 64, int(config.ages[-1])
    counts, sums = np.zeros(N_COUNTS, np.int64), np.zeros(N_SUMS)
    counts[LAST] = -1
    sums[[GROWTH, CONCENTRATION, ALPHA]] = 1.0, FIRST_B, config.alpha
    sums[[B_TABLES, B_TOKENS]] = B_WEIGHT, B_WEIGHT / FIRST_B
    small = [np.zeros(K, np.int32) for _ in range(3)]
    return State(
        words=_zeros(
            Words, W, np.int32, start=np.zeros(W, np.int64), room=np.full(W, -1, np.int32),
            wide=np.zeros(W, np.bool_),
        ),
        postings=_zeros(
            Postings, P, np.int32, after=np.zeros(P, np.int64), before=np.zeros(P, np.int64),
            blocks=np.full(N_CLASSES, -1, np.int64),
        ),
        tables=_zeros(
            Tables, K, np.int64, mass=np.zeros(K), born_t=np.zeros(K), last_t=np.zeros(K),
            told=np.zeros(K, np.bool_), live=small[0], place=small[1], free=small[2],
            example=np.zeros((K, N_EXAMPLES, SHOWN), np.uint8), fit=np.zeros((K, N_EXAMPLES)),
            example_length=np.zeros((K, N_EXAMPLES), np.int64),
            example_row=np.zeros((K, N_EXAMPLES), np.int64),
            rival=np.zeros((K, N_RIVALS), np.int64), rival_id=np.zeros((K, N_RIVALS), np.int64),
        ),
        window=_zeros(
            Window, L + 1, np.int64, table=np.full(L + 1, -1), weight=np.zeros(L + 1),
            t=np.zeros(L + 1), sure=np.zeros(L + 1, np.bool_), text=np.zeros(T, np.int32),
            shown=np.zeros(S, np.uint8),
        ),
        archive=_zeros(
            Archive, 16, np.int64, word=np.zeros((16, N_KEPT), np.int32),
            copies=np.zeros((16, N_KEPT), np.int32), weight=np.zeros((16, N_KEPT)),
        ),
        events=_zeros(Events, E, np.int64, t=np.zeros(E)),
        counts=counts,
        sums=sums,
        scratch=_scratch(config, K, 64),
    )  # fmt: skip


def _zeros(kind: Any, n: int, dtype: Any, **others: NDArray[Any]) -> Any:
    """Make a group of arrays: ``n`` zeros each, but for the others."""
    return kind(**{name: others.get(name, np.zeros(n, dtype)) for name in kind._fields})


def _scratch(config: Config, K: int, U: int) -> Scratch:
    x = 1.0 - config.discount
    log_gamma = gammaln(x + np.arange(N_LOG_GAMMA)) - gammaln(x)
    doc, read, at, gone = np.zeros((4, U), np.int64)
    return Scratch(
        *np.zeros((4, K)), np.zeros(K, np.int32), doc, read, at, gone,
        np.zeros(2, np.int64), log_gamma,
    )  # fmt: skip


def _longer(array: NDArray[Any], size: int, fill: int = 0) -> NDArray[Any]:
    out = np.full((size, *array.shape[1:]), fill, array.dtype)
    out[: len(array)] = array
    return out


def _twice(group: Any, size: int) -> Any:
    return type(group)(*(_longer(array, size) for array in group))


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
    used = {"words": n_words, "tables": int(state.counts[N_SLOTS])}
    arrays: dict[str, NDArray[Any]] = {"counts": state.counts.copy(), "sums": state.sums.copy()}
    for part in PARTS:
        for name, array in getattr(state, part)._asdict().items():
            n = int(state.counts[POSTINGS_END]) if part == "postings" else used.get(part)
            arrays[f"{part}.{name}"] = (array if name in _WHOLE else array[:n]).copy()
    return arrays


def state_from_arrays(config: Config, arrays: Mapping[str, NDArray[Any]]) -> State:
    """Rebuild the state that `arrays_of` described."""
    state = empty_state(config)
    for part, kind in PARTS.items():
        fields = []
        for name in kind._fields:
            array, n = arrays[f"{part}.{name}"], len(getattr(getattr(state, part), name))
            if part in ("words", "postings", "tables") and name not in _WHOLE:
                while n < len(array):
                    n *= 2
                array = _longer(array, n, -1 if name == "room" else 0)
            fields.append(array)
        setattr(state, part, kind(*fields))
    state.counts, state.sums = arrays["counts"], arrays["sums"]
    state.scratch = _scratch(config, len(state.tables.id), 64)
    return state
