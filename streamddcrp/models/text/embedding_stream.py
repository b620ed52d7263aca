"""Stories in a stream of vectors: texts that an encoder of the user's has embedded."""

from array import array
from typing import Any

import numpy as np
import pyarrow as pa
from river import base

from streamddcrp.contract import Event
from streamddcrp.errors import SchemaError
from streamddcrp.estimator.row_model import RowModel
from streamddcrp.estimator.views import no_tables, predictions
from streamddcrp.models.text.kernels.layout import N_EVENTS, N_LIVE, N_SLOTS
from streamddcrp.models.text.stories import events_since
from streamddcrp.models.text.vectors import VectorState, make_vector_config
from streamddcrp.typing import FloatArray

_MOST_FINALS = 100_000
_P_NEW, _FINAL = 3, 6
_SURPRISE = 1


class EmbeddingStream(RowModel, base.Clusterer):
    """Stories in a stream of embedded texts: what `TextStream` does, for vectors.

    The same prior, decay and later looks; a story is a direction. Vectors are scaled to length 1.
    Good encoders tell stories better than words do, at the cost of the encoder.

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
        Power of the likelihood, for the dimensions of an embedding tell the same several times.

    Notes
    -----
    A step costs four dot products with each live story. The bound of .5 on what is learned keeps
    texts that are nearly the same from being stories of their own; it was chosen on the vectors of
    docs/text.md. A zero vector is refused. Times may be given; the decay counts texts. The score is
    relative to a new story's density.

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
        self._memory: VectorState | None = None
        self._finals = array("q")

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"lag": 20}

    def step_many(self, batch: object, t: object = None) -> pa.RecordBatch:
        """Predict each vector of a batch, then learn it.

        Returns
        -------
        pyarrow.RecordBatch
            As `TextStream.step_many` has it; ``p_change`` is null.
        """
        seen = self.n_seen
        out = self._learn_batch(batch, t)
        told = predictions(out)
        row = np.arange(seen, seen + len(out)) - int(self._config.ages[-1])
        final = np.nan_to_num(out[:, _FINAL], nan=-1.0).astype(np.int64)
        columns = dict(zip(told.schema.names, told.columns, strict=True))
        columns["final_row"] = pa.array(row, mask=row < 0)
        columns["final_label"] = pa.array(final, mask=row < 0)
        return pa.RecordBatch.from_pydict(columns)

    def _advance(self, X: FloatArray, t: FloatArray | None, types: list[str]) -> FloatArray:
        if len(X) == 0:
            return np.empty((0, 7))
        self._check_times(t)
        unit = _scaled(X)
        if self._memory is None:
            self._memory = VectorState(self._config, X.shape[1])
        index = np.arange(self._n_seen, self._n_seen + len(X), dtype=np.float64)
        out = self._memory.step(unit, index if t is None else t)
        final = out[:, _FINAL]
        self._finals.frombytes(final[~np.isnan(final)].astype(np.int64).tobytes())
        if len(self._finals) > 2 * _MOST_FINALS:
            del self._finals[:-_MOST_FINALS]
        self._clocked, self._last_time = t is not None, None if t is None else float(t[-1])
        self._n_seen += len(X)
        return out

    @property
    def _has_begun(self) -> bool:
        return self._memory is not None

    def _check_rows(self, X: FloatArray, names: list[str]) -> None:
        _scaled(X)

    def _predict_row(self, x: FloatArray, t: float) -> tuple[FloatArray, dict[int, float]]:
        if self._memory is None:  # `_has_begun` was asked
            return np.empty(0), {}
        out, probs = self._memory.predict(_scaled(x[None])[0])
        return out, probs | {-1: float(out[_P_NEW])}

    @property
    def n_tables(self) -> int:
        """Number of live stories."""
        return 0 if self._memory is None else int(self._memory.counts[N_LIVE])

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays of the model take in memory."""
        return 8 * len(self._finals) + (0 if self._memory is None else self._memory.nbytes)

    @property
    def objective(self) -> float:
        """Sum of the log predictive densities so far, each against a new story's."""
        return 0.0 if self._memory is None else -float(self._memory.sums[_SURPRISE])

    def final_labels(self, *, window: bool = False) -> pa.Table:
        """Return the labels that became final since the last call; see `TextStream`."""
        lag = int(self._config.ages[-1])
        label = np.array(self._finals, dtype=np.int64)[-_MOST_FINALS:]
        self._finals = array("q")
        end = max(0, self.n_seen - lag)
        row = np.arange(end - len(label), end)
        if window and self._memory is not None:
            more = np.arange(end, self.n_seen)
            slots = self._memory.window.table[more % (lag + 1)]
            label = np.concatenate([label, self._memory.tables.id[slots]])
            row = np.concatenate([row, more])
        return pa.table({"row": row, "label": label})

    def events(self) -> list[Event]:
        """Return births and deaths of stories since the last call; see `TextStream.events`."""
        if self._memory is None:
            return []
        read, self._events_read = self._events_read, int(self._memory.counts[N_EVENTS])
        return events_since(self._memory, read)

    def summary(self) -> pa.Table:
        """Return one row a live story.

        ``id``, ``size``, ``born`` and ``last_seen`` (arrival indices), ``cosine`` (mean of two of
        its vectors, null for a single one), and its mean direction, a column a dimension.
        """
        if self._memory is None:
            return no_tables()
        tables = self._memory.tables
        live = np.flatnonzero(tables.size[: self._memory.counts[N_SLOTS]] > 0)
        live = live[np.argsort(tables.id[live])]
        columns: dict[str, Any] = {
            "id": tables.id[live],
            "size": tables.size[live].astype(np.float64),
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
        arrays: dict[str, Any] = {"finals": np.array(self._finals, dtype=np.int64)[-_MOST_FINALS:]}
        if self._memory is not None:
            arrays |= self._memory.arrays()
        return arrays, self._progress()

    def _restore(self, arrays: dict[str, Any], meta: dict[str, Any]) -> None:
        self._finals = array("q", arrays["finals"].tobytes())
        if "counts" in arrays:
            self._memory = VectorState.restore(self._config, arrays)


def _scaled(X: FloatArray) -> FloatArray:
    """Return rows of length 1; refuse those without a direction."""
    largest = np.abs(X).max(axis=1, initial=0.0)
    wrong = ~(largest > 0.0)  # zero, or a missing value
    if wrong.any():
        row = int(wrong.argmax())
        problem = (
            "has a missing value" if np.isnan(largest[row]) else "is zero: it has no direction"
        )
        message = f"row {row}: the vector {problem}; leave the row out"
        raise SchemaError(message, row=row)
    unit = X / largest[:, None]  # twice, for squares must not overflow
    return np.ascontiguousarray(unit / np.sqrt((unit * unit).sum(axis=1))[:, None])
