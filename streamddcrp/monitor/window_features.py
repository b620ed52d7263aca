"""Features of windows of a periodic signal, as input rows for clustering."""

import logging
from collections.abc import Hashable, Mapping
from typing import Any, Self

import numpy as np
import pyarrow as pa
from river import base

from streamddcrp.data import Vectorizer, windows
from streamddcrp.data.batches import read_batch
from streamddcrp.errors import ConfigError, SchemaError, StreamDDCRPError
from streamddcrp.estimator.scikit import Options
from streamddcrp.estimator.stored import Stored, refuse_unless_plain
from streamddcrp.likelihoods.regression import carried_forward
from streamddcrp.records import FINITE, check_one, refuse_if
from streamddcrp.typing import FloatArray, IntArray

_log = logging.getLogger(__name__)
_PERIODS = 4  # in a window
_FIRST = 20  # windows that define what is usual
_FARTHEST = 1e60  # spreads from the mean beyond which values are clipped, so cubes are finite
_LEAST_SPREAD = 1e-100  # of columns: below, a column counts as constant
_LEAST_CHANGE = 1e-2  # of features: at least one per cent counts as usual variation
_ARRAYS = ("rows", "origin", "unit", "centre", "scale", "latest")
Features = Mapping[Any, Any]


class WindowFeatures(Options, Stored, base.Transformer):
    """Turn a periodic signal into rows of features, one for each period.

    From single points of a periodic signal, a clusterer finds the phases of the period; from
    stretches of a few periods, it finds the signal's regimes. A window is four periods long and
    begins one period after the last. For each column it gives the mean, the log standard deviation
    of the values and of their steps, the skewness of both, and the log amplitude in six frequency
    bands, each standardised over the first 20 windows.

    Parameters
    ----------
    period : int, optional
        Rows in a period, at least 3. Default: the dominant period of the first ``warmup`` rows,
        between 8 rows and an eighth of them.
    warmup : int, default 250
        Rows from which the period is estimated, at least 64.

    Notes
    -----
    The first 20 windows, 23 periods, come out together once they are complete. A missing value
    counts as the value before it. O(log P) time a row and O(P) memory for a period of P rows.

    Features of overlapping windows change smoothly, so tables should be as broad as these windows:
    ``SeqDDCRP(likelihood=("normal_gamma", 0.0, 0.05, 1.5, 1.5))``.

    Examples
    --------
    >>> from streamddcrp import SeqDDCRP
    >>> signal = np.sin(2 * np.pi * np.arange(4000.0) / 20)
    >>> signal[2000:] = np.sign(signal[2000:])  # waves become blocks
    >>> windows = WindowFeatures()
    >>> model = SeqDDCRP(likelihood=("normal_gamma", 0.0, 0.05, 1.5, 1.5))
    >>> features, positions = windows.step_many(signal[:, None])
    >>> windows.window, features.num_columns, positions[:3]
    (80, 11, array([ 79,  99, 119]))
    >>> labels = model.step_many(features)["label"].to_numpy()
    >>> int(positions[np.argmax(labels != labels[0])])  # the first window with a block in it
    2019
    """

    def __init__(self, *, period: int | None = None, warmup: int = 250) -> None:
        self.period = period
        self.warmup = warmup
        if period is not None and not period >= 3:
            raise ConfigError(
                f"period must be at least 3 rows, or None to estimate it, got {period!r}"
            )
        if not warmup >= windows.SHORTEST**2:
            raise ConfigError(f"warmup must be at least {windows.SHORTEST**2} rows, got {warmup!r}")
        self._vectorizer = Vectorizer()
        self._hop = period
        self._n_seen = 0
        self._kept: list[FloatArray] = []  # the last rows, from the beginning of the next window
        self._origin = self._unit = self._centre = self._scale = np.empty(0)
        self._latest = np.empty(0)  # features of the last window

    @property
    def window(self) -> int | None:
        """Rows in a window; None while the period is unknown."""
        return None if self._hop is None else _PERIODS * self._hop

    def learn_one(self, x: Features) -> None:
        """Learn one row of the signal; None, or an absent column, repeats the value before.

        SchemaError if a value is not a finite number, or the first is missing. Nothing was learned.
        """
        mark = self._vectorizer.mark()
        try:
            self._advance(self._vectorizer.row(x))
        except StreamDDCRPError:
            self._vectorizer.rollback(mark)
            raise

    def transform_one(self, x: Features) -> dict[Hashable, Any]:
        """Return the features of the last complete window; empty before the first.

        They repeat until the next window is complete: to learn each window once, use `step_many`.
        """
        return dict(zip(self._names(), self._latest.tolist(), strict=False))

    def step_many(self, batch: object) -> tuple[pa.RecordBatch, IntArray]:
        """Learn a batch of rows, and return the windows completed by it.

        The windows do not depend on the cuts between batches, bit for bit.

        Parameters
        ----------
        batch : Arrow table or batch, data frame, or array_like of shape (N, D)

        Returns
        -------
        features : pyarrow.RecordBatch
            A row for each window, 11 columns for each of the signal's; what
            ``SeqDDCRP.step_many`` takes.
        positions : ndarray of int64, shape (number of windows,)
            The arrival, counted from 0, that completed the window. A change of regime that first
            shows in a window is best placed in its middle, at ``position - window // 2``;
            `relocate_changes` then finds its row.

        Raises
        ------
        SchemaError
            As for `learn_one`, with the row's number in ``row``. Nothing was learned.
        """
        mark = self._vectorizer.mark()
        try:
            X, _ = read_batch(batch, self._vectorizer)
            features, positions = self._advance(X.copy())
        except StreamDDCRPError:
            self._vectorizer.rollback(mark)
            raise
        columns = dict(zip(self._names(), features.T.copy(), strict=True))
        return pa.RecordBatch.from_pydict(columns), positions

    def _advance(self, X: FloatArray) -> tuple[FloatArray, IntArray]:
        """Take rows; return the completed windows and where they end."""
        windows.refuse_beyond(X, self._vectorizer.names)
        if len(X):
            last = self._kept[-1][-1] if self._kept else None
            self._kept.append(_filled(X, last))
            self._n_seen += len(X)
        none = np.empty((0, len(self._names()))), np.empty(0, dtype=np.int64)
        n_kept = sum(map(len, self._kept))
        if n_kept < (self.warmup if self._hop is None else _PERIODS * self._hop):
            return none
        rows = np.concatenate(self._kept)
        self._kept = [rows]
        if self._hop is None:
            self._hop = windows.dominant_period(rows[: self.warmup])
            _log.info("period: %d rows, estimated from the first %d", self._hop, self.warmup)
        hop, window = self._hop, _PERIODS * self._hop
        begins = len(self._scale) == 0
        first_rows = window + (_FIRST - 1) * hop
        if begins and n_kept < first_rows:
            return none
        if begins:
            spread = rows[:first_rows].std(axis=0)
            self._origin = rows[:first_rows].mean(axis=0)
            self._unit = np.where(spread > _LEAST_SPREAD, spread, 1.0)
        scaled = np.clip((rows - self._origin) / self._unit, -_FARTHEST, _FARTHEST)
        features = windows.window_features(scaled, window, hop)
        if begins:
            self._centre = features[:_FIRST].mean(axis=0)
            self._scale = np.maximum(features[:_FIRST].std(axis=0), _LEAST_CHANGE)
        features = (features - self._centre) / self._scale
        self._latest = features[-1]
        positions = self._n_seen - n_kept + window - 1 + hop * np.arange(len(features))
        self._kept = [rows[len(features) * hop :].copy()]
        return features, positions

    def _names(self) -> list[str]:
        return [
            f"{column}_{name}"
            for column in self._vectorizer.columns or ()
            for name in windows.FEATURES
        ]

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        kept = np.concatenate(self._kept) if self._kept else np.empty((0, 0))
        values = (kept, self._origin, self._unit, self._centre, self._scale, self._latest)
        meta = {
            "options": self._get_params(),
            "vectorizer": self._vectorizer.to_config(),
            "hop": self._hop,
            "n_seen": self._n_seen,
        }
        return dict(zip(_ARRAYS, values, strict=True)), meta

    @classmethod
    def _from_state(cls, arrays: dict[str, Any], meta: dict[str, Any]) -> Self:
        refuse_unless_plain(meta, counts=("n_seen",))
        model = cls(**meta["options"])
        model._vectorizer = Vectorizer.from_config(meta["vectorizer"])
        model._hop, model._n_seen = meta["hop"], meta["n_seen"]
        kept, model._origin, model._unit, model._centre, model._scale, model._latest = (
            arrays[name] for name in _ARRAYS
        )
        model._kept = [kept] if len(kept) else []
        D, F, begun = model._vectorizer.n_features, len(model._names()), len(model._scale) > 0
        check_one("rows", kept, (len(kept), D if len(kept) else 0), np.float64, FINITE)
        widths = D, D, F, F, F
        for name, width in zip(_ARRAYS[1:], widths, strict=True):
            check_one(name, arrays[name], (width if begun else 0,), np.float64, FINITE)
        hop = meta["hop"]
        if model.period is not None:
            refuse_if(type(hop) is not int or hop != model.period, "hop")
        elif hop is not None:
            refuse_if(type(hop) is not int or not windows.SHORTEST <= hop <= model.warmup, "hop")
        refuse_if(begun and hop is None, "hop")
        return model


def _filled(X: FloatArray, last: FloatArray | None) -> FloatArray:
    """Replace missing values by the previous one; ``last`` is the row before the first."""
    missing = np.isnan(X)
    if not missing.any():
        return X
    if last is None:
        if missing[0].any():
            column = int(missing[0].argmax())
            raise SchemaError(
                f"row 0, column {column}: missing in the first row, so there is none before", row=0
            )
        last = X[0]
    return carried_forward(np.concatenate([last[None], X]))[1:]
