"""Stories in a stream of vectors: texts that an encoder of the user's has embedded."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import pyarrow as pa
from river import base

from streamddcrp.compilation import entry_point
from streamddcrp.contract import P_NEW
from streamddcrp.errors import SchemaError
from streamddcrp.estimator.row_model import RowModel
from streamddcrp.estimator.views import FinalLabels, no_tables
from streamddcrp.models.text.config import VectorConfig, make_vector_config
from streamddcrp.models.text.engine import Events, doubled
from streamddcrp.models.text.kernels.layout import (
    FINAL_LABEL,
    GROWTH,
    N_COUNTS,
    N_SLOTS,
    N_TEXT_OUTPUTS,
)
from streamddcrp.models.text.kernels.vectors import SPARE, SURPRISE, predict_vector, step_vectors
from streamddcrp.models.text.views import StoryModel
from streamddcrp.records import arrays_of, empty, nbytes_of, resized, restore
from streamddcrp.typing import FloatArray, IntArray

_FIRST_SLOTS, _EVENTS = 16, 4096


class Directions(NamedTuple):
    """Stories by slot, K, of vectors of D numbers; one more has log J = base + slope |S|^2."""

    total: Annotated[FloatArray, "K D"]  # S, the sum of its vectors
    square: Annotated[FloatArray, "K"]  # |S|^2
    joint: Annotated[FloatArray, "K"]  # log J of its vectors
    base: Annotated[FloatArray, "K G"]  # by each value of rho
    slope: Annotated[FloatArray, "K G"]
    mass: Annotated[FloatArray, "K"]
    born_t: Annotated[FloatArray, "K"]
    last_t: Annotated[FloatArray, "K"]
    size: Annotated[IntArray, "K"]
    in_window: Annotated[IntArray, "K"]
    id: Annotated[IntArray, "K"]
    born: Annotated[IntArray, "K"]
    last_seen: Annotated[IntArray, "K"]
    reported: Annotated[IntArray, "K"]  # whether a final label has named it


class Vectors(NamedTuple):
    """The last vectors, L; vector i is at i mod L."""

    x: Annotated[FloatArray, "L D"]
    table: Annotated[IntArray, "L", -1]  # slot
    weight: Annotated[FloatArray, "L"]  # its part of the stored mass
    t: Annotated[FloatArray, "L"]


class Odds(NamedTuple):
    """Work space."""

    odds: Annotated[FloatArray, "K"]


@dataclass(slots=True)
class State:
    """The engine's memory; exactly one owner."""

    tables: Directions
    window: Vectors
    events: Events
    counts: IntArray
    sums: FloatArray
    scratch: Odds


def _lengths(config: VectorConfig, D: int, K: int) -> dict[str, int]:
    """Return the lengths of all axes, with ``K`` slots."""
    return {"K": K, "L": int(config.ages[-1]) + 1, "D": D, "G": len(config.rho), "E": _EVENTS}


def empty_state(config: VectorConfig, D: int, K: int = _FIRST_SLOTS) -> State:
    """Return the state before the first vector, with room for ``K`` stories."""
    lengths = _lengths(config, D, K)
    sums = np.zeros(SPARE + 2 * len(config.rho))
    sums[GROWTH] = 1.0
    counts = np.zeros(N_COUNTS, np.int64)
    tables, window = empty(Directions, lengths), empty(Vectors, lengths)
    return State(tables, window, empty(Events, lengths), counts, sums, empty(Odds, lengths))


def state_from_arrays(config: VectorConfig, arrays: Mapping[str, Any]) -> State:
    """Rebuild a stored state."""
    n, D = int(arrays["counts"][N_SLOTS]), arrays["window.x"].shape[1]
    state = empty_state(config, D, doubled(n, _FIRST_SLOTS))
    restore(state, _lengths(config, D, n), arrays)
    return state


def step(config: VectorConfig, state: State, X: FloatArray, t: FloatArray) -> FloatArray:
    """Predict and learn unit vectors (N, D) at times (N,); return the outputs (N, 7)."""
    out, done = np.empty((len(X), N_TEXT_OUTPUTS)), 0
    while True:
        done = entry_point(step_vectors)(
            config, state.tables, state.window, state.events, state.counts, state.sums,
            state.scratch.odds, X, t, done, out,
        )  # fmt: skip
        if done == len(X):
            return out
        lengths = _lengths(config, X.shape[1], 2 * len(state.tables.id))
        state.tables, state.scratch = resized(state.tables, lengths), empty(Odds, lengths)


def predict(
    config: VectorConfig, state: State, x: FloatArray
) -> tuple[FloatArray, dict[int, float]]:
    """Predict a unit vector (D,); return the outputs (7,) and the probability of each story."""
    out = np.empty(N_TEXT_OUTPUTS)
    entry_point(predict_vector)(
        config, state.tables, state.counts, state.sums, state.scratch.odds, x, out
    )
    live = np.flatnonzero(state.tables.size[: state.counts[N_SLOTS]] > 0)
    odds = state.scratch.odds[live]
    weights = np.exp(odds - max(0.0, float(odds.max(initial=0.0))))
    probs = weights * ((1.0 - out[P_NEW]) / max(float(weights.sum()), 1e-300))
    return out, dict(zip(state.tables.id[live].tolist(), probs.tolist(), strict=True))


class EmbeddingStream(StoryModel, RowModel, base.Clusterer):
    """Stories in a stream of embedded texts: what `TextStream` does, for vectors.

    The same prior, decay and later looks; a story is a direction. Vectors are scaled to length 1.
    Good encoders separate stories better than words do, at the cost of the encoder.

    Parameters
    ----------
    alpha : float, optional
        Weight of a new story against texts that arrive now. Default: 0.06 ``decay``.
    decay : float, default 500.0
        Number of texts in which the weight of a text falls to 1/e.
    lag : int, default 500
        Number of texts after which a label is final.
    rho : float, optional
        Expected cosine of two vectors of one story. Default: each story has its own, any of .2 to
        .5, and it is summed out. More of it, more and tighter stories.
    temper : float, default 0.25
        Power of the likelihood, for the dimensions of an embedding repeat each other.

    Notes
    -----
    A step costs four dot products with each live story. The bound of .5 on what is learned keeps
    texts that are nearly the same from being stories of their own; it was chosen on the vectors of
    docs/text.md. A zero vector has the label -1, changes no story and is no surprise. Times may be
    given; the decay counts texts. The score is relative to a new story's density.

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

    def __init__(
        self,
        *,
        alpha: float | None = None,
        decay: float = 500.0,
        lag: int = 500,
        rho: float | None = None,
        temper: float = 0.25,
    ) -> None:
        super().__init__()
        self.alpha = alpha
        self.decay = decay
        self.lag = lag
        self.rho = rho
        self.temper = temper
        self._config = make_vector_config(alpha=alpha, decay=decay, lag=lag, rho=rho, temper=temper)
        self._memory = empty_state(self._config, 0)  # the number of dimensions is not known yet
        self._finals = FinalLabels()

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"lag": 20}

    def _advance(self, X: FloatArray, t: FloatArray | None, types: list[str]) -> FloatArray:
        if len(X) == 0:
            return np.empty((0, N_TEXT_OUTPUTS))
        self._check_times(t)
        unit = _scaled(X)
        if not self._has_begun:
            self._memory = empty_state(self._config, X.shape[1])
        index = np.arange(self._n_seen, self._n_seen + len(X), dtype=np.float64)
        out = step(self._config, self._memory, unit, index if t is None else t)
        final = out[:, FINAL_LABEL]
        self._finals.add(final[~np.isnan(final)].astype(np.int64))
        self._clocked, self._last_time = t is not None, None if t is None else float(t[-1])
        self._n_seen += len(X)
        return out

    @property
    def _has_begun(self) -> bool:
        return self._n_seen > 0

    def _check_rows(self, X: FloatArray, names: list[str]) -> None:
        _scaled(X)

    def _predict_row(self, x: FloatArray, t: float) -> tuple[FloatArray, dict[int, float]]:
        out, probs = predict(self._config, self._memory, _scaled(x[None])[0])
        return out, probs | {-1: float(out[P_NEW])}

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays of the model take in memory."""
        return self._finals.nbytes + nbytes_of(self._memory)

    @property
    def log_score(self) -> float:
        """Sum of the log predictive densities so far, each against a new story's."""
        return -float(self._memory.sums[SURPRISE])

    objective = log_score

    def summary(self) -> pa.Table:
        """Return one row per live story.

        ``id``, ``weight`` (decayed weight of its rows, one that arrives now weighs 1), ``rows``
        (their number), ``born`` and ``last_seen`` (arrival indices), ``cosine`` (mean of two of its
        vectors, null for a single one), and its mean direction, one column per dimension.
        """
        if not self._has_begun:
            return no_tables(rows=pa.int64())
        tables = self._memory.tables
        live = np.flatnonzero(tables.size[: self._memory.counts[N_SLOTS]] > 0)
        live = live[np.argsort(tables.id[live])]
        columns: dict[str, Any] = {
            "id": tables.id[live],
            "weight": tables.mass[live] / self._memory.sums[GROWTH],
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
        arrays: dict[str, Any] = {"finals": self._finals.last()}
        if self._has_begun:
            D, n = self._vectorizer.n_features, int(self._memory.counts[N_SLOTS])
            arrays |= arrays_of(self._memory, _lengths(self._config, D, n))
        return arrays, self._progress()

    def _restore(self, arrays: dict[str, Any], meta: dict[str, Any]) -> None:
        self._finals.add(arrays["finals"])
        if "counts" in arrays:
            self._memory = state_from_arrays(self._config, arrays)


def _scaled(X: FloatArray) -> FloatArray:
    """Return rows of length 1, or 0 where they are zero; refuse those with a missing value."""
    largest = np.abs(X).max(axis=1, initial=0.0)
    wrong = np.isnan(largest)
    if wrong.any():
        row = int(wrong.argmax())
        message = f"row {row}: the vector has a missing value; leave the row out"
        raise SchemaError(message, row=row)
    largest[largest == 0.0] = 1.0
    unit = X / largest[:, None]  # twice, for squares must not overflow
    length = np.sqrt((unit * unit).sum(axis=1))
    length[length == 0.0] = 1.0
    return np.ascontiguousarray(unit / length[:, None])
