"""The arrays that the text engine remembers, and those it works with.

Sizes are capacities, powers of two: W word numbers, P postings, K slots of tables, T words of the
ring of texts, E events, M documents of the window, A tables of the archive.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamddcrp.typing import FloatArray, IntArray

SmallInts = NDArray[np.int32]
BoolArray = NDArray[np.bool_]
Bytes = NDArray[np.uint8]


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
    listed : ndarray of int32, shape (W,)
        Work space: the words of a table.
    """

    start: IntArray
    df: SmallInts
    room: SmallInts
    wide: BoolArray
    held: SmallInts
    mark: SmallInts
    listed: SmallInts


class Postings(NamedTuple):
    """Which table holds which word how often.

    Attributes
    ----------
    table, copies, at : ndarray of int32, shape (P,)
        Of a posting; ``at`` is where its word stands in ``word``.
    word : ndarray of int32, shape (P,)
        Lists of the words of tables, in pieces.
    blocks : ndarray of int64, shape (40,)
        By log2 of their size, the first of the blocks that nobody uses, or -1; they are chained
        through ``at`` of their first posting.
    """

    table: SmallInts
    copies: SmallInts
    at: SmallInts
    word: SmallInts
    blocks: IntArray


class Tables(NamedTuple):
    """Tables by slot.

    Attributes
    ----------
    mass : ndarray of float64, shape (K,)
        Decayed weight of its documents, stored: in units of ``sums[GROWTH]``.
    masses : ndarray of float64, shape (G, K)
        The same at each scale, where the decay is learned: stored, in units of its own growth.
    n_tokens, n_words, size : ndarray of int64, shape (K,)
        Tokens, distinct words, documents.
    head : ndarray of int64, shape (K,)
        The first piece of its list of words, or -1.
    in_window : ndarray of int64, shape (K,)
        Documents in the window.
    next_merge, next_split : ndarray of int64, shape (K,)
        Number of documents from which a merge, or a split, is tried again.
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
    masses: FloatArray
    n_tokens: IntArray
    n_words: IntArray
    size: IntArray
    head: IntArray
    in_window: IntArray
    next_merge: IntArray
    next_split: IntArray
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
    """The last documents, M: four lags; document i stands at i mod (M + 1).

    Attributes
    ----------
    table : ndarray of int64, shape (M + 1,)
        Slot, or -1: a document without words.
    weight : ndarray of float64, shape (M + 1,)
        Its part in the stored mass; where the decay is learned, as it was when last looked at.
    weights : ndarray of float64, shape (M + 1, G)
        Its part in the stored masses at each scale.
    t : ndarray of float64, shape (M + 1,)
    start, length : ndarray of int64, shape (M + 1,)
        Where its words stand in ``text``, absolute, and how many they are.
    text : ndarray of int32, shape (T,)
        Words; the absolute place n is at n mod T.
    sure : ndarray of uint8, shape (M + 1,)
        Whether its table was sure when it came, 1, or as good as certain, 2.
    shown_start, shown_length : ndarray of int64, shape (M + 1,)
    shown : ndarray of uint8, shape (S,)
        The same for the first bytes of the texts.
    """

    table: IntArray
    weight: FloatArray
    weights: FloatArray
    t: FloatArray
    start: IntArray
    length: IntArray
    text: SmallInts
    sure: Bytes
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
    word, copies : ndarray of int32, shape (A, 32)
    weight : ndarray of float64, shape (A, 32)
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
    product, inverse, weight, ratio, shift : ndarray of float64, shape (K,)
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
    shift: FloatArray
    touched: SmallInts
    doc: IntArray
    read: IntArray
    at: IntArray
    gone: IntArray
    short: IntArray
    log_gamma: FloatArray


class Halves(NamedTuple):
    """A table that may be split, and its halves; nothing outlives a call.

    Attributes
    ----------
    member, begin : ndarray of int32, shape (M + 2,)
        Its documents, and where their words stand in ``token``.
    side, best_side : ndarray of bool, shape (M + 2,)
        Which of them leave.
    token, met, present, total, own : ndarray of int32, shape (T',)
        Places in ``met`` of their words; by place the word, how many of the documents have it, and
        the table, and those that leave. T' is at most 8,192.
    base : ndarray of float64, shape (T',)
        By place, p_w.
    seed, seed_gain : ndarray, shape (4,)
        Places of words from which a half begins, and what it would gain.
    """

    member: SmallInts
    begin: SmallInts
    side: BoolArray
    best_side: BoolArray
    token: SmallInts
    met: SmallInts
    present: SmallInts
    total: SmallInts
    own: SmallInts
    base: FloatArray
    seed: IntArray
    seed_gain: FloatArray
