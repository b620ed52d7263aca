"""Stories in a stream of vectors: texts that an encoder of the user's has embedded."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from river import base

from streamddcrp import records as rec
from streamddcrp.compilation import entry_point
from streamddcrp.contract import P_NEW
from streamddcrp.data.kernels.boilerplate import FIRST_LOOK
from streamddcrp.errors import SchemaError
from streamddcrp.estimator.interrupts import pause
from streamddcrp.estimator.row_model import RowModel
from streamddcrp.estimator.views import FinalLabels, no_tables
from streamddcrp.models.text.config import VectorConfig, make_vector_config, scales_of
from streamddcrp.models.text.engine import doubled, first_sums
from streamddcrp.models.text.events import check_kinds
from streamddcrp.models.text.kernels import layout, nucleation
from streamddcrp.models.text.kernels.events import CLOSED
from streamddcrp.models.text.kernels.vectors import predict_vector
from streamddcrp.models.text.story_line import StoryLine
from streamddcrp.models.text.views import PIECE, StoryModel, decay_scale
from streamddcrp.typing import FloatArray, IntArray, Probabilities

_FIRST_SLOTS, _EVENTS = 16, 4096

_log = logging.getLogger(__name__)
_MANY = 50  # first vectors that show scales
_MOST = 0.9  # share of the squared lengths that no column of an embedding has


class Directions(NamedTuple):
    """Stories by slot, K, of vectors of D numbers; one more has log J = base + slope |S|^2."""

    total: Annotated[FloatArray, "K D"]  # S, the sum of its vectors
    square: Annotated[FloatArray, "K"]  # |S|^2
    toward: Annotated[FloatArray, "K"]  # mu S, with the background mu
    joint: Annotated[FloatArray, "K"]  # log J of its vectors
    base: Annotated[FloatArray, "K"]
    slope: Annotated[FloatArray, "K"]
    mass: Annotated[FloatArray, "K"]
    masses: Annotated[FloatArray, "S K"]  # at each scale of a decay that is learned
    born_t: Annotated[FloatArray, "K"]
    last_t: Annotated[FloatArray, "K"]
    size: Annotated[IntArray, "K"]
    in_window: Annotated[IntArray, "K"]
    id: Annotated[IntArray, "K"]
    born: Annotated[IntArray, "K"]
    last_seen: Annotated[IntArray, "K"]
    reported: Annotated[IntArray, "K"]  # 1: as a candidate, 2: its birth
    quiet: Annotated[IntArray, "K", rec.Within(0, layout.STEPS)]  # steps of its silence so far
    longest: Annotated[IntArray, "K"]  # of its silences so far, in documents
    closed: Annotated[NDArray[np.bool_], "K"]


class Vectors(NamedTuple):
    """The last vectors, L; vector i is at i mod L."""

    x: Annotated[FloatArray, "L D"]
    table: Annotated[IntArray, "L", -1, rec.index("K", none=True)]  # slot
    weight: Annotated[FloatArray, "L", rec.WEIGHT]  # its part of the stored mass
    weights: Annotated[FloatArray, "L S", rec.WEIGHT]  # at each scale
    t: Annotated[FloatArray, "L"]


class Happened(NamedTuple):
    """Ring of the last events, as `streamddcrp.contract.EventRing` and more."""

    kind: Annotated[IntArray, "E", rec.Within(0, CLOSED)]
    label: Annotated[IntArray, "E"]
    into: Annotated[IntArray, "E", rec.Within(-1, rec.MOST)]
    arrival: Annotated[IntArray, "E"]
    t: Annotated[FloatArray, "E"]
    size: Annotated[IntArray, "E"]  # vectors of the story at that moment
    rate: Annotated[FloatArray, "E", rec.PREPARED]  # of them, in a unit of time
    first: Annotated[IntArray, "E"]  # indices of the first and the last one
    last: Annotated[IntArray, "E"]


class Odds(NamedTuple):
    """Work space."""

    odds: Annotated[FloatArray, "K"]
    taken: Annotated[IntArray, "K"]


class Sets(NamedTuple):
    """Work space of `kernels.sets`, for N vectors."""

    gram: Annotated[FloatArray, "N N"]  # their products
    cross: Annotated[FloatArray, "N N"]  # and those of the sums of sets
    row: Annotated[IntArray, "N"]  # which vectors they are
    z: Annotated[IntArray, "N"]  # their sets
    best: Annotated[IntArray, "N"]
    told: Annotated[IntArray, "N"]  # by the other half
    kept: Annotated[IntArray, "N"]
    member: Annotated[IntArray, "N"]
    size: Annotated[IntArray, "N"]  # of sets
    square: Annotated[FloatArray, "N"]
    joint: Annotated[FloatArray, "N"]
    along: Annotated[FloatArray, "N"]
    v: Annotated[FloatArray, "N"]
    u: Annotated[FloatArray, "N"]
    base: Annotated[FloatArray, "B"]  # log J = base + slope |S|^2 of so many vectors
    slope: Annotated[FloatArray, "B"]


COUNTS = rec.counters({layout.N_SLOTS: rec.up_to("K"), layout.N_LIVE: rec.up_to("K")}, least=-1)


@dataclass(slots=True)
class State:
    """The engine's memory; exactly one owner."""

    tables: Directions
    window: Vectors
    events: Happened
    counts: Annotated[IntArray, COUNTS]
    sums: Annotated[FloatArray, rec.FINITE]
    background: Annotated[FloatArray, rec.FINITE]  # (D,): mu, or 0 without a background
    scratch: Odds
    scratch_sets: Sets


def _lengths(config: VectorConfig, D: int, K: int) -> dict[str, int]:
    """Return the lengths of all axes, with ``K`` slots."""
    L, S = int(config.ages[-1]) + 1, len(scales_of(config)[0])
    N = min(L - 1, nucleation.MOST_VECTORS)
    return {"K": K, "L": L, "D": D, "N": N, "B": N + 1, "E": _EVENTS, "S": S}


def empty_state(config: VectorConfig, D: int, K: int = _FIRST_SLOTS) -> State:
    """Return the state before the first vector, with room for ``K`` stories."""
    lengths = _lengths(config, D, K)
    first_rho = config.rho[0] if len(config.rho) == 1 else nucleation.FIRST_RHO
    learned = (first_rho, config.temper or nucleation.FIRST_TEMPER, 1.0)
    found = np.zeros(len(config.rho) * len(config.parts))
    sums = np.concatenate([first_sums(config), found, learned])
    counts = np.zeros(layout.N_COUNTS, np.int64)
    counts[layout.NEXT_LOOK] = FIRST_LOOK
    return State(
        rec.empty(Directions, lengths), rec.empty(Vectors, lengths),
        rec.empty(Happened, lengths), counts, sums, np.zeros(D),
        rec.empty(Odds, lengths), rec.empty(Sets, lengths),
    )  # fmt: skip


def state_from_arrays(config: VectorConfig, arrays: Mapping[str, Any]) -> State:
    """Rebuild a stored state."""
    n, D = len(arrays["tables.id"]), arrays["window.x"].shape[1]
    rec.check_one("counts", arrays["counts"], (layout.N_COUNTS,), np.int64, COUNTS, {"K": n})
    rec.refuse_if(n != arrays["counts"][layout.N_SLOTS], "numbers of stories")
    state = empty_state(config, D, doubled(n, _FIRST_SLOTS))
    rec.restore(state, _lengths(config, D, n), arrays)
    check_kinds(state.events.kind)
    return state


def step(config: VectorConfig, state: State, X: FloatArray, t: FloatArray) -> FloatArray:
    """Predict and learn unit vectors (N, D) at times (N,); return the outputs (N, 7)."""
    out, done = np.full((len(X), layout.N_TEXT_OUTPUTS), np.nan), 0
    while True:
        done = entry_point(nucleation.step_vectors)(
            config, state.tables, state.window, state.events, state.counts, state.sums,
            state.background, state.scratch, state.scratch_sets, X, t, done, out,
        )  # fmt: skip
        if done == len(X):
            return out
        lengths = _lengths(config, X.shape[1], 2 * len(state.tables.id))
        state.tables, state.scratch = rec.resized(state.tables, lengths), rec.empty(Odds, lengths)


def predict(
    config: VectorConfig, state: State, x: FloatArray, t: float
) -> tuple[FloatArray, dict[int, float]]:
    """Predict a unit vector (D,) at a time; return outputs (7,) and each story's probability."""
    out = np.empty(layout.N_TEXT_OUTPUTS)
    mass, sums = state.tables.mass.copy(), state.sums.copy()
    entry_point(predict_vector)(
        config, state.tables, state.window, state.counts, state.sums, state.background,
        state.scratch.odds, x, t, out,
    )  # fmt: skip
    state.tables.mass[:], state.sums[:] = mass, sums
    live = np.flatnonzero(state.tables.size[: state.counts[layout.N_SLOTS]] > 0)
    odds = state.scratch.odds[live]
    weights = np.exp(odds - max(0.0, float(odds.max(initial=0.0))))
    probs = weights * ((1.0 - out[P_NEW]) / max(float(weights.sum()), 1e-300))
    return out, dict(zip(state.tables.id[live].tolist(), probs.tolist(), strict=True))


class EmbeddingStream(StoryModel, RowModel, base.Clusterer):
    """Stories in a stream of embedded texts: what `TextStream` does, for vectors.

    Prior, decay and revisions are the same; a story is a direction. Vectors are scaled to length 1.
    Good encoders separate stories better than words do, at the cost of encoding.

    Parameters
    ----------
    scale : str, default "story"
        How broad a story is: "event", "story" or "topic".
    decay : float, str, tuple or None, default 500.0
        As for `TextStream`: a number of texts in which the weight of a text falls to 1/e, or a
        time, or None: learned, see `decay_scale`.
    lag : int, default 500
        Number of texts after which a label is final.
    births : int, default 3
        Number of vectors from which the birth of a story is reported.

    Other Parameters
    ----------------
    alpha : float, optional
        Weight of a new story against texts that arrive now. Default: 0.06 ``decay`` at first, then
        learned.
    rho : float, optional
        Expected cosine of two vectors of one story; larger, more and tighter stories. Default:
        learned, 0.4 to 0.7 for events, 0.05 to 0.3 for stories and at most 0.05 for topics.
    temper : float, optional
        Exponent on the likelihood, because embedding dimensions are redundant. Default: learned.

    Notes
    -----
    A step costs four dot products with each live story. After 50, 100, 200 … and ``lag`` vectors
    and then every 1,000, the last ``lag`` of them (at most 500) are clustered together, from their
    products alone, under several values of ``rho``, for the one of the largest evidence and its
    ``alpha``. Evidence alone would go on to stories of nearly the same texts. So once the window is
    full, two halves of it are clustered under each ``rho`` and ``temper``, and settings under which
    they find clearly more of each other's stories are preferred (docs/math/texts.md). ``temper``
    starts from how far the products of vectors of different stories spread. By the scale "story",
    parts without a gap between them are joined. Vectors without a story are clustered together
    every quarter of the lag, because a few near vectors may form a story where two of them do not.
    A zero vector gets the label -1, changes no story and has the score 0. The score is relative to
    the density of a new story.

    Vectors that share one direction, such as those of a singular value decomposition of word
    counts, would all be one story. Where vectors of different stories have an expected cosine
    of 0.15 or more, that direction is learned and taken away; see `background`.

    Examples
    --------
    >>> import numpy as np
    >>> from streamddcrp import EmbeddingStream
    >>> rng = np.random.default_rng(0)
    >>> X = np.tile(np.eye(64)[:2], (100, 1))  # two directions in turn
    >>> model = EmbeddingStream(lag=50)
    >>> out = model.step_many(X + rng.normal(0.0, 0.04, X.shape))
    >>> out["final_label"].to_pylist()[-4:]
    [0, 1, 0, 1]
    """

    _nothing = "a direction, of zeros,"

    def __init__(
        self,
        *,
        scale: str = "story",
        decay: float | str | tuple[str, float] | None = 500.0,
        lag: int = 500,
        births: int = 3,
        alpha: float | None = None,
        rho: float | None = None,
        temper: float | None = None,
    ) -> None:
        super().__init__()
        self.alpha = alpha
        self.decay = decay
        self.lag = lag
        self.scale = scale
        self.rho = rho
        self.temper = temper
        self.births = births
        self._begin(0)  # the number of dimensions is not known yet
        self._finals = FinalLabels()
        self._line = StoryLine()
        self._squares: Any = 0.0  # sums over the first vectors

    def _advance(self, X: FloatArray, t: FloatArray | None, types: list[str]) -> FloatArray:
        if len(X) == 0:
            return np.empty((0, layout.N_TEXT_OUTPUTS))
        self._check_times(t)
        if t is None and self._config.clocked and self.decay is not None:
            raise SchemaError("t: the decay is a time, so every vector needs one")
        unit = _scaled(X)
        if not self._has_begun:
            self._begin(X.shape[1], clocked=t is not None)
        if self._n_seen < _MANY:
            self._tell_of_scales(unit)
        index = np.arange(self._n_seen, self._n_seen + len(X), dtype=np.float64)
        times, parts, done = index if t is None else t, list[FloatArray](), 0
        while done < len(X):
            if done:
                self._keep_events()
                pause()
            piece = slice(done, done + min(self._line.room, PIECE))
            learn = partial(step, self._config, self._memory, unit[piece], times[piece])
            parts.append(self._followed(times[piece], learn))
            done += len(parts[-1])
            self._clocked = t is not None
            self._last_time = None if t is None else float(t[piece][-1])
            self._n_seen += len(parts[-1])
        return np.concatenate(parts)

    def _tell_of_scales(self, unit: FloatArray) -> None:
        """Warn where one column of the first vectors, of length 1, is nearly all of them."""
        self._squares = self._squares + (unit[: _MANY - self._n_seen] ** 2).sum(axis=0)
        share = self._squares / max(1.0, self._squares.sum())
        widest = int(share.argmax())
        if self._n_seen + len(unit) >= _MANY and len(share) > 1 and share[widest] > _MOST:
            message = (
                "column %r makes up %.0f%% of the vectors' squared lengths, and decides alone "
            )
            message += "what is alike: bring the columns to one scale"
            _log.warning(message, self._feature_names()[widest], 100.0 * share[widest])

    def _begin(self, D: int, *, clocked: bool = False) -> None:
        """Make the state for vectors of ``D`` dimensions, which have times or not."""
        self._config = make_vector_config(
            alpha=self.alpha, decay=self.decay, lag=self.lag, rho=self.rho, temper=self.temper,
            scale=self.scale, births=self.births, clocked=clocked,
        )  # fmt: skip
        self._memory = empty_state(self._config, D)

    @property
    def _has_begun(self) -> bool:
        return self._n_seen > 0

    def _check_rows(self, X: FloatArray, names: list[str]) -> None:
        _scaled(X)

    def _predict_row(self, x: FloatArray, t: float) -> tuple[FloatArray, Probabilities]:
        out, probs = predict(self._config, self._memory, _scaled(x[None])[0], t)
        return out, lambda: probs | {-1: float(out[P_NEW])}

    def _each_left_out(self, x: Any) -> Iterator[tuple[str, float, Any]]:
        """Yield each dimension that is not 0, and the vector with a 0 there."""
        for name, value, _ in super()._each_left_out(x):
            if value != 0.0:
                yield name, value, {k: 0.0 if str(k) == name else v for k, v in x.items()}

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays of the model take in memory."""
        return self._finals.nbytes + rec.nbytes_of(self._memory)

    @property
    def log_score(self) -> float:
        """Sum of the log predictive densities so far, each against a new story's."""
        return -float(self._memory.sums[layout.SURPRISE])

    objective = log_score

    @property
    def decay_scale(self) -> float:
        """Scale of the decay, in texts or, if it is a time, in time; see `TextStream`."""
        return decay_scale(self._config, self._memory)

    @property
    def background(self) -> FloatArray:
        """The direction that is subtracted, (D,), of squared length the expected cosine; or 0."""
        return np.asarray(self._memory.background.copy())

    def summary(self) -> pa.Table:
        """Return one row per live story.

        ``id``, ``weight`` (decayed weight of its rows, one that arrives now weighs 1), ``rows``
        (their number), ``born`` and ``last_seen`` (arrival indices), ``cosine`` (mean of two of its
        vectors, null for a single one), and its mean direction, one column per dimension.
        """
        if not self._has_begun:
            return no_tables(rows=pa.int64())
        tables = self._memory.tables
        live = np.flatnonzero(tables.size[: self._memory.counts[layout.N_SLOTS]] > 0)
        live = live[np.argsort(tables.id[live])]
        columns: dict[str, Any] = {
            "id": tables.id[live],
            "weight": tables.mass[live] / self._memory.sums[layout.GROWTH],
            "rows": tables.size[live],
            "born": tables.born[live],
            "last_seen": tables.last_seen[live],
        }
        pairs = (tables.size[live] * (tables.size[live] - 1)).astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            cosine = (tables.square[live] - tables.size[live]) / pairs
        columns["cosine"] = pa.array(cosine, mask=pairs == 0.0)
        mean = tables.total[live] / np.maximum(tables.size[live], 1)[:, None]
        for d, name in enumerate(self._vectorizer.columns or ()):
            columns[f"mean_{name}"] = np.ascontiguousarray(mean[:, d])
        return pa.table(columns)

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays, line = self._line.state()
        arrays["finals"] = self._finals.last()
        if self._has_begun:
            D, n = self._vectorizer.n_features, int(self._memory.counts[layout.N_SLOTS])
            arrays |= rec.arrays_of(self._memory, _lengths(self._config, D, n))
        return arrays, self._progress() | {"line": line}

    def _restore(self, arrays: dict[str, Any], meta: dict[str, Any]) -> None:
        self._finals.restore(arrays["finals"])
        self._line = StoryLine.restore(arrays, meta["line"])
        if self._has_begun:
            D = self._vectorizer.n_features
            rec.check_one("background", arrays["background"], (D,), np.float64, rec.FINITE)
            self._begin(D, clocked=bool(meta["clocked"]))
            self._memory = state_from_arrays(self._config, arrays)


def _scaled(X: FloatArray) -> FloatArray:
    """Return rows of length 1, or 0 where they are zero; refuse those with a missing value."""
    largest = np.abs(X).max(axis=1, initial=0.0)
    wrong = np.isnan(largest)
    if wrong.any():
        row = int(wrong.argmax())
        raise SchemaError(f"row {row}: the vector has a missing value; leave the row out", row=row)
    largest[largest == 0.0] = 1.0
    unit = X / largest[:, None]  # twice, for squares must not overflow
    length = np.sqrt((unit * unit).sum(axis=1))
    length[length == 0.0] = 1.0
    return np.ascontiguousarray(unit / length[:, None])
