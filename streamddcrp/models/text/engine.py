"""The text engine: what it has to remember, and a step over any number of documents.

Kernels update the arrays in place; when one becomes too short they return to Python, which doubles
it. Growth depends on the documents alone, not on how they are cut into batches, so that equal
streams give equal arrays.

Axes, with their lengths at the start: W word numbers, P postings, K slots of tables, M documents of
the window, T words and S bytes of their texts, A archived tables, E events, G scales of a learned
decay, U words of a document. All but M and G grow and are powers of two.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from streamddcrp import records as rec
from streamddcrp.compilation import entry_point
from streamddcrp.contract import LIVE_TABLES, P_NEW
from streamddcrp.data.kernels.boilerplate import FIRST_LOOK
from streamddcrp.data.words import WordTable
from streamddcrp.models.text.config import Config, VectorConfig, scales_of
from streamddcrp.models.text.events import Events, check_kinds
from streamddcrp.models.text.kernels import layout, themes
from streamddcrp.models.text.kernels.arrival import predict_document, step_documents
from streamddcrp.models.text.kernels.sound import is_sound
from streamddcrp.typing import FloatArray, IntArray

SmallInts = NDArray[np.int32]
BoolArray = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

FIRST_B, B_WEIGHT = 40.0, 20.0
THEMES = 32, themes.BETWEEN  # texts after which to look for them: 32, 64, .., 1024, 2048, 3072, …
_START = {"W": 64, "P": 256, "K": 16, "T": 256, "S": 1024, "A": 16, "E": 64}


class Words(NamedTuple):
    """What the engine knows of a word, by its number."""

    start: Annotated[IntArray, "W", rec.up_to("P")]  # place of its block of postings
    df: Annotated[SmallInts, "W", rec.up_to("K")]  # tables that hold it: the number of its postings
    # log2 of the size of its block; -1: it has none
    room: Annotated[SmallInts, "W", -1, rec.Within(-1, 30)]
    wide: Annotated[BoolArray, "W"]  # the posting of the table in slot k is at place k of the block
    held: Annotated[SmallInts, "W"]  # documents of the window and archived tables with the word
    last: Annotated[IntArray, "W"]  # documents before which the last of the window with it left
    aside: Annotated[FloatArray, "W", rec.WEIGHT]  # of boilerplate: its part of all words; else 0
    mark: Annotated[SmallInts, "W", rec.ONLY_ZERO]  # work space, zero between calls
    listed: Annotated[SmallInts, "W"]  # work space: the words of a table, or counts


class Postings(NamedTuple):
    """Which table holds which word how often."""

    table: Annotated[SmallInts, "P", rec.index("K", none=True)]
    copies: Annotated[SmallInts, "P"]
    at: Annotated[SmallInts, "P", rec.Within(-1, "P")]  # where its word is in ``word``
    word: Annotated[SmallInts, "P", rec.Within(-1, rec.MOST)]  # words of tables, in pieces
    # By log2 of their size, the first of the unused blocks, or -1; they are chained through ``at``
    # of their first posting.
    blocks: Annotated[IntArray, "40", -1, rec.index("P", none=True)]


class Tables(NamedTuple):
    """Tables by slot."""

    mass: Annotated[FloatArray, "K", rec.FINITE]  # decayed weight of its documents, in GROWTH
    masses: Annotated[FloatArray, "G K", rec.FINITE]  # the same at each scale, in its own growth
    n_tokens: Annotated[IntArray, "K"]
    n_words: Annotated[IntArray, "K"]  # distinct ones
    size: Annotated[IntArray, "K"]  # documents without copies of others
    copies: Annotated[IntArray, "K"]  # and these, see `data.kernels.copies`
    head: Annotated[IntArray, "K", rec.Within(-1, "P")]  # first piece of its list of words, or -1
    in_window: Annotated[IntArray, "K"]  # documents in the window
    next_merge: Annotated[IntArray, "K"]  # documents from which a merge is tried again
    next_split: Annotated[IntArray, "K"]  # and a split
    id: Annotated[IntArray, "K"]
    born: Annotated[IntArray, "K"]  # index of its first document
    last_seen: Annotated[IntArray, "K"]  # and of its last one
    born_t: Annotated[FloatArray, "K", rec.FINITE]
    last_t: Annotated[FloatArray, "K", rec.FINITE]
    reported: Annotated[Bytes, "K"]  # 1: as a candidate, 2: its birth, 3: a label is final
    quiet: Annotated[IntArray, "K", rec.Within(0, layout.STEPS)]  # steps of its silence so far
    longest: Annotated[IntArray, "K"]  # of its silences so far, in documents
    closed: Annotated[BoolArray, "K"]
    theme: Annotated[IntArray, "K", -1, rec.Within(-1, layout.MOST_THEMES - 1)]  # or -1: not known
    theme_id: Annotated[IntArray, "64"]  # of themes:
    theme_size: Annotated[IntArray, "64"]  # stories at the last look, 0 without a theme,
    theme_words: Annotated[IntArray, "64"]  # and words of theirs, once a story
    example: Annotated[Bytes, "K 3 256"]  # beginnings of its most typical texts
    example_length: Annotated[IntArray, "K 3", rec.Within(0, 256)]
    example_row: Annotated[IntArray, "K 3"]  # which documents they are
    fit: Annotated[FloatArray, "K 3"]  # how typical they are; -inf: there is none
    live: Annotated[SmallInts, "K", rec.index("K")]  # list of the live slots
    place: Annotated[SmallInts, "K", rec.index("K")]  # where a slot is in it
    free: Annotated[SmallInts, "K", rec.index("K")]  # stack of the slots that were live
    # slots that were second choices of its documents, or -1
    rival: Annotated[IntArray, "K 4", rec.index("K", none=True)]
    rival_id: Annotated[IntArray, "K 4"]


class Window(NamedTuple):
    """The documents of the last four lags; document i is at i mod M."""

    # slot, or -1: a document without words
    table: Annotated[IntArray, "M", -1, rec.index("K", none=True)]
    # Its part of the stored mass; where the decay is learned, as it was when last visited.
    weight: Annotated[FloatArray, "M", rec.FINITE]
    weights: Annotated[FloatArray, "M G", rec.FINITE]  # its part of the stored masses at each scale
    t: Annotated[FloatArray, "M", rec.FINITE]
    start: Annotated[IntArray, "M"]  # where its words begin in ``text``, absolute
    length: Annotated[IntArray, "M", rec.up_to("T")]
    aside: Annotated[IntArray, "M", rec.up_to("T")]  # boilerplate, which stands behind the others
    copies: Annotated[IntArray, "M"]  # documents that it is a copy of
    newer: Annotated[IntArray, "M", -1]  # the copy of it that came, or -1
    # By each code of `kernels.copies`: the newest document,
    newest: Annotated[SmallInts, "M 5", -1, rec.index("M", none=True)]
    older: Annotated[SmallInts, "M 5", -1, rec.index("M", none=True)]  # and the one before
    # ring of words; absolute place n is at n mod T, and places not in use keep what they had
    text: Annotated[SmallInts, "T", rec.Within(0, rec.MOST)]
    sure: Annotated[Bytes, "M"]  # 1: its table was sure on arrival, 2: as good as certain
    shown_start: Annotated[IntArray, "M"]  # the same for the first bytes of the texts
    shown_length: Annotated[IntArray, "M", rec.Within(0, 256)]
    shown: Annotated[Bytes, "S"]


class Archive(NamedTuple):
    """Ring of the last tables that were retired: the words that set them apart from the others."""

    id: Annotated[IntArray, "A"]
    n: Annotated[IntArray, "A", rec.Within(0, 32)]  # words kept
    n_tokens: Annotated[IntArray, "A"]  # as the table had them
    n_words: Annotated[IntArray, "A"]
    word: Annotated[SmallInts, "A 32", rec.Within(0, rec.MOST)]  # beyond n: what was there
    copies: Annotated[SmallInts, "A 32"]
    weight: Annotated[FloatArray, "A 32"]  # by which the words were chosen


class Scratch(NamedTuple):
    """Work space of the kernels; between calls ``product`` and ``gone`` are zero."""

    product: Annotated[FloatArray, "K"]
    inverse: Annotated[FloatArray, "K"]
    weight: Annotated[FloatArray, "K"]
    ratio: Annotated[FloatArray, "K"]
    shift: Annotated[FloatArray, "K"]
    touched: Annotated[SmallInts, "K"]
    doc: Annotated[IntArray, "U"]  # words of a document of the window
    read: Annotated[IntArray, "U"]  # and of the new one
    codes: Annotated[IntArray, "2 5"]  # of its words, see `data.kernels.copies`
    bytes: Annotated[Bytes, "256"]  # of a text that is read again
    at: Annotated[IntArray, "U"]  # postings of the words of a document that was lifted
    gone: Annotated[IntArray, "U"]  # and whether these count zero
    short: Annotated[IntArray, "2"]  # which arrays are too short, and for how many words
    log_gamma: Annotated[FloatArray, "1024"]  # log Gamma(1 - d + m) - log Gamma(1 - d)
    theme_odds: Annotated[FloatArray, "64"]
    theme_product: Annotated[FloatArray, "64"]
    theme_there: Annotated[IntArray, "64"]  # themes that have a word,
    theme_having: Annotated[IntArray, "64"]  # and how many of their stories; zero between calls
    theme_gain: Annotated[FloatArray, "64 64"]  # of pairs


class Halves(NamedTuple):
    """Work space of splits: the documents H of a table and their words T, at most 65,536."""

    member: Annotated[SmallInts, "H"]
    begin: Annotated[SmallInts, "H"]  # where their words begin in ``token``
    side: Annotated[BoolArray, "H"]  # which of them leave
    best_side: Annotated[BoolArray, "H"]
    token: Annotated[SmallInts, "T"]  # places of their words in ``met``
    met: Annotated[SmallInts, "T"]  # by place: the word,
    present: Annotated[SmallInts, "T"]  # how many of the documents have it,
    total: Annotated[SmallInts, "T"]  # and the table,
    own: Annotated[SmallInts, "T"]  # and those that leave,
    everywhere: Annotated[SmallInts, "T"]  # and all tables,
    base: Annotated[FloatArray, "T"]  # and p_w
    seed: Annotated[IntArray, "2"]  # places of words from which a half begins
    seed_gain: Annotated[FloatArray, "2"]  # and what it would gain


COUNTS = rec.counters({
    layout.N_LIVE: rec.up_to("K"), layout.N_SLOTS: rec.up_to("K"),
    layout.POSTINGS_END: rec.up_to("P"),
    layout.LISTS_END: rec.up_to("P"), layout.LISTS_FREE: rec.index("P", none=True),
    layout.LAST: rec.index("K", none=True), layout.SPLIT_DUE: rec.index("K", none=True),
})  # fmt: skip


@dataclass(slots=True)
class State:
    """The engine's memory; exactly one owner."""

    words: Words
    postings: Postings
    tables: Tables
    window: Window
    archive: Archive
    events: Events
    counts: Annotated[IntArray, COUNTS]
    sums: Annotated[FloatArray, rec.REAL]
    scratch: Scratch
    scratch_halves: Halves


def first_sums(config: Config | VectorConfig) -> FloatArray:
    """Return the sums before the first document, with the vectors of a learned decay."""
    scales, timed, prior = scales_of(config)
    sums = np.zeros(layout.N_SUMS + layout.N_VECTORS * len(scales))
    sums[[layout.GROWTH, layout.CONCENTRATION, layout.ALPHA]] = 1.0, FIRST_B, config.alpha
    sums[layout.THEME_WEIGHT] = themes.FIRST
    sums[[layout.B_TABLES, layout.B_TOKENS]] = B_WEIGHT, B_WEIGHT / FIRST_B
    vectors = sums[layout.N_SUMS :].reshape(layout.N_VECTORS, -1)
    vectors[[layout.SCALES, layout.PRIOR, layout.TIMED]] = scales, prior, timed
    vectors[layout.GROWTHS] = 1.0
    vectors[layout.SHARES] = prior / scales / max(float(np.sum(prior / scales)), 1e-300)
    return sums


def empty_state(config: Config, **room: int) -> State:
    """Return the state before the first document; ``room`` where an axis is to be longer."""
    G = len(scales_of(config)[0])
    lengths = {**_START, **room, "M": layout.HISTORY * int(config.ages[-1]) + 1, "G": G}
    counts = np.zeros(layout.N_COUNTS, np.int64)
    counts[[layout.LAST, layout.LISTS_FREE, layout.SPLIT_DUE]] = -1
    counts[layout.NEXT_LOOK] = FIRST_LOOK
    window = rec.empty(Window, lengths)
    return State(
        rec.empty(Words, lengths), rec.empty(Postings, lengths), rec.empty(Tables, lengths), window,
        rec.empty(Archive, lengths), rec.empty(Events, lengths), counts, first_sums(config),
        _scratch(config, lengths["K"], 64), _halves(window),
    )  # fmt: skip


def _scratch(config: Config, K: int, U: int) -> Scratch:
    scratch, x = rec.empty(Scratch, {"K": K, "U": U}), 1.0 - config.discount
    scratch.log_gamma[:] = scipy.special.gammaln(
        x + np.arange(len(scratch.log_gamma))
    ) - scipy.special.gammaln(x)
    return scratch


def _halves(window: Window) -> Halves:
    T = min(len(window.text), layout.MOST_TOKENS)
    return rec.empty(Halves, {"H": len(window.table) + 1, "T": T})


def _longer_ring(ring: NDArray[Any], first: int, end: int) -> NDArray[Any]:
    """Return a ring of twice the size; what is at ``first`` to ``end`` keeps its place."""
    out = np.zeros(2 * len(ring), ring.dtype)
    at = np.arange(first, end)
    out[at & (len(out) - 1)] = ring[at & (len(ring) - 1)]
    return out


def doubled(n: int, room: int) -> int:
    """Return ``room``, doubled until it is at least ``n``."""
    while room < n:
        room *= 2
    return room


def with_words(state: State, n_words: int) -> None:
    """Make room for word numbers below ``n_words``."""
    W = len(state.words.df)
    if n_words > W:
        state.words = rec.resized(state.words, {"W": doubled(n_words, W)})


def room_for_events(state: State) -> None:
    """Make room for an event of each live table."""
    room = int(state.counts[[layout.N_EVENTS, layout.N_LIVE]].sum()) + 1
    while len(state.events.kind) < min(room, layout.MOST_EVENTS):
        state.events = rec.resized(state.events, {"E": 2 * len(state.events.kind)})


def grow(state: State, config: Config) -> None:
    """Double what the kernel found too short; no number changes."""
    short, n_words = state.scratch.short.tolist()
    counts, window = state.counts, state.window
    G, K, U = *state.tables.masses.shape, len(state.scratch.doc)
    if short & layout.SHORT_POSTINGS:
        state.postings = rec.resized(state.postings, {"P": 2 * len(state.postings.table)})
    if short & layout.SHORT_TABLES:
        K *= 2
        state.tables = rec.resized(state.tables, {"K": K, "G": G})
    if short & layout.SHORT_TEXT:
        text = _longer_ring(window.text, counts[layout.TEXT_FIRST], counts[layout.TEXT_END])
        window = state.window = window._replace(text=text)
        state.scratch_halves = _halves(window)
    if short & layout.SHORT_SHOWN:
        shown = _longer_ring(window.shown, counts[layout.SHOWN_FIRST], counts[layout.SHOWN_END])
        state.window = window._replace(shown=shown)
    if short & layout.SHORT_ARCHIVE:
        state.archive = rec.resized(state.archive, {"A": 2 * len(state.archive.id)})
    if short & layout.SHORT_EVENTS:
        state.events = rec.resized(state.events, {"E": 2 * len(state.events.kind)})
    if short & (layout.SHORT_TABLES | layout.SHORT_DOCUMENT):
        U = doubled(n_words, 2 * U if short & layout.SHORT_DOCUMENT else U)
        state.scratch = _scratch(config, K, U)


def _used(state: State, n_words: int) -> dict[str, int]:
    """Return what is in use of each axis; rings are stored whole."""
    window = state.window
    return {
        "W": n_words, "P": int(state.counts[[layout.POSTINGS_END, layout.LISTS_END]].max()),
        "K": int(state.counts[layout.N_SLOTS]), "M": len(window.table), "T": len(window.text),
        "S": len(window.shown), "A": len(state.archive.id), "E": len(state.events.kind),
        "G": window.weights.shape[1],
    }  # fmt: skip


def arrays_of(state: State, n_words: int) -> dict[str, NDArray[Any]]:
    """Return copies of the arrays, of word numbers below ``n_words``, for a checkpoint."""
    return rec.arrays_of(state, _used(state, n_words))


_LONGEST = {
    "W": "words.df", "P": "postings.table", "K": "tables.id", "T": "window.text",
    "S": "window.shown", "A": "archive.id", "E": "events.kind",
}  # fmt: skip


def state_from_arrays(config: Config, arrays: Mapping[str, NDArray[Any]]) -> State:
    """Rebuild the state that `arrays_of` described, or refuse it."""
    room = {axis: doubled(len(arrays[name]), _START[axis]) for axis, name in _LONGEST.items()}
    for axis in "TSAE":  # rings, whose lengths are powers of two
        rec.refuse_if(room[axis] != len(arrays[_LONGEST[axis]]), _LONGEST[axis])
    state = empty_state(config, **room)
    lengths = {"K": room["K"], "P": room["P"]}
    rec.check_one("counts", arrays["counts"], state.counts.shape, np.int64, COUNTS, lengths)
    state.counts[:] = arrays["counts"]
    n_words = len(arrays["words.df"])
    rec.restore(state, _used(state, n_words), arrays)
    check_kinds(state.events.kind)
    P, work = len(state.postings.table), np.zeros((2, len(state.tables.id)), np.int64)
    sound = is_sound(
        state.words, state.postings, state.tables, state.window, state.archive, state.counts,
        n_words, *work, *np.zeros((3, P), np.int32), np.zeros(len(state.words.df), np.int64),
    )  # fmt: skip
    rec.refuse_if(not sound, "words, postings, tables and documents")
    weight = state.sums[layout.THEME_WEIGHT]
    rec.refuse_if(not themes.LEAST <= weight <= themes.MOST, "weight of themes")
    spelled, end = state.counts[[layout.N_SPELLED, layout.N_EVENTS]]
    E = len(state.events.kind)
    due = state.events.word[np.arange(max(spelled, end - E), end) % E]
    rec.refuse_if(spelled > end or bool((due >= len(state.words.df)).any()), "words of events")
    K, longest = len(state.tables.id), int(state.window.length.max(initial=0))
    state.scratch = _scratch(config, K, doubled(longest, 64))
    return state


def step(
    config: Config, state: State, table: WordTable, data: Any, offsets: IntArray, t: FloatArray, *,
    listed: bool,
) -> FloatArray:  # fmt: skip
    """Learn texts in order, in place; return (N, 7), `FINAL_LABEL` of the lag before."""
    out, done = np.empty((len(t), layout.N_TEXT_OUTPUTS)), 0
    while True:
        done = entry_point(step_documents)(
            config, state.words, state.postings, state.tables, state.window, state.archive,
            state.events, state.counts, state.sums, state.scratch, state.scratch_halves,
            table.arrays, listed, data, offsets, t, done, out,
        )  # fmt: skip
        scratch = state.scratch
        if done == len(t) and not scratch.short[0]:
            return out
        if scratch.short[0] & layout.SHORT_WORDS:
            table.grow(int(scratch.short[1]))
            with_words(state, table.capacity)
        grow(state, config)


def look_for_themes(config: Config, state: State) -> None:
    """Visit all stories, the oldest first, and put each into the theme that is best for it."""
    live = state.tables.live[: state.counts[layout.N_LIVE]].astype(np.int64)
    entry_point(themes.find_themes)(
        config, state.words, state.postings, state.tables, state.counts, state.sums, state.scratch,
        live[np.argsort(state.tables.id[live])],
    )  # fmt: skip


def predict(
    config: Config, state: State, table: WordTable, data: Any, t: float, *, listed: bool
) -> tuple[FloatArray, FloatArray]:
    """Predict a document without change: (7,), and the probabilities of ``state.tables.live``."""
    most = min(layout.MOST_WORDS, len(data) // 2 + 1)
    table.grow(most)  # unknown words enter it for a moment
    with_words(state, table.capacity)
    state.scratch.short[:] = 0, most
    if len(state.scratch.read) < most:
        state.scratch.short[0] = layout.SHORT_DOCUMENT
        grow(state, config)
    out = np.full(layout.N_TEXT_OUTPUTS, np.nan)
    mass, sums = state.tables.mass.copy(), state.sums.copy()
    entry_point(predict_document)(
        config, state.words, state.postings, state.tables, state.window, state.counts,
        state.sums, state.scratch, table.arrays, listed, data, t, out,
    )  # fmt: skip
    state.tables.mass[:], state.sums[:] = mass, sums
    live = state.tables.live[: int(out[LIVE_TABLES])]
    weights = state.scratch.weight[live]
    return out, weights * ((1.0 - out[P_NEW]) / max(float(weights.sum()), 1e-300))
