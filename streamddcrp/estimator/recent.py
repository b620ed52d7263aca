"""Models that can draw their last rows."""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from streamddcrp.contract import LABEL, SCORE
from streamddcrp.data.times import is_stamp
from streamddcrp.errors import ConfigError
from streamddcrp.estimator.row_model import Features, RowModel
from streamddcrp.plots.segments import Numbers
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp.validation import whole

ROWS = 1_000  # rows kept for a picture
COLUMNS = 32  # of these rows
_TIME, _LABEL, _SCORE, _VALUES = range(4)


class Recent:
    """A fixed-size ring of the last rows (at most 32 columns), labels and scores."""

    def __init__(self, n_columns: int) -> None:
        self.n = 0  # rows so far
        self._width = min(n_columns, COLUMNS)
        self.ring: Any = np.full((ROWS, _VALUES + self._width), np.nan)
        self._form = f"{_VALUES + self._width}d"
        self._stride = self.ring.strides[0]

    def add(self, X: FloatArray, t: FloatArray, labels: FloatArray, scores: FloatArray) -> None:
        """Keep rows (N, D), N at least 1, with times, labels and scores (N,)."""
        if len(X) == 1:
            self.add_one(X[0].tolist(), t[0], labels[0], scores[0])
            return
        rows = np.arange(max(0, len(X) - ROWS), len(X))
        at = (self.n + rows) % ROWS
        self.ring[at, _TIME], self.ring[at, _LABEL] = t[rows], labels[rows]
        self.ring[at, _SCORE] = scores[rows]
        self.ring[at, _VALUES:] = X[rows, : self._width]
        self.n += len(X)

    def add_one(self, values: Sequence[float], t: float, label: float, score: float) -> None:
        """Keep one row without creating an array."""
        at = self.n % ROWS * self._stride
        struct.pack_into(self._form, self.ring, at, t, label, score, *values[: self._width])
        self.n += 1

    def amend(self, back: int, values: FloatArray) -> None:
        """Replace the values (D,) of the row ``back`` rows ago, 1: the last; it has no score."""
        if back <= min(self.n, ROWS):
            row = self.ring[(self.n - back) % ROWS]
            row[_SCORE], row[_VALUES:] = np.nan, values[: self._width]

    @property
    def last_label(self) -> int:
        """Label of the last row, -1 before the first."""
        return int(self.ring[(self.n - 1) % ROWS, _LABEL]) if self.n else -1

    def rows(self) -> tuple[FloatArray, IntArray, FloatArray, FloatArray]:
        """Return times, labels, scores (N,) and values (N, D), in order."""
        kept = self.ring[np.arange(max(0, self.n - ROWS), self.n) % ROWS]
        return kept[:, _TIME], kept[:, _LABEL].astype(np.int64), kept[:, _SCORE], kept[:, _VALUES:]


class TimeLine(RowModel):
    """A model that can draw its last rows: values by regime, surprise, regimes.

    The rows are not part of the state: a loaded model draws those learned since.
    """

    _recent: Recent | None = None
    _stamped = False  # whether the last time was a time stamp
    _numbers: Numbers | None = None  # of regimes, if the model counts those that lasted

    def _keep(self, X: FloatArray, t: FloatArray | None, given: object, out: Any) -> None:
        n = len(X)
        if not n:
            return
        if self._recent is None:  # an open vocabulary has no columns to draw
            self._recent = Recent(0 if self._vectorizer.open else X.shape[1])
        self._stamped = given is not None and is_stamp(given)
        if t is None:
            t = np.arange(self._n_seen - n, self._n_seen, dtype=np.float64)
        self._recent.add(X, t, *self._said(out))

    def _said(self, out: Any) -> tuple[FloatArray, FloatArray]:
        """Return labels and scores (N,) from the output of `_advance`."""
        return out[:, LABEL], out[:, SCORE]

    @property
    def _nbytes_kept(self) -> int:
        return 0 if self._recent is None else self._recent.ring.nbytes

    def _causes(self, rows: IntArray) -> tuple[Any, ...]:
        """Return the rows' latent features, if the model has any."""
        return ()

    def plot(self) -> Any:
        """Draw the time line of the last rows with matplotlib, which must be installed.

        On top is a lane for each regime, then the surprise of each row with its most surprising
        moments numbered, then a panel for each of up to 12 columns, with dots coloured by the
        regime predicted on arrival. Shows up to 32 columns of the last 1,000 rows;
        a loaded model draws the rows learned since.
        """
        from streamddcrp.plots.series import Clock, Labelled  # noqa: PLC0415
        from streamddcrp.plots.timeline import plot_series  # noqa: PLC0415

        t, labels, scores, values = (Recent(0) if self._recent is None else self._recent).rows()
        n, seen = len(t), self._n_seen
        rows = np.arange(seen - n, seen)
        times: Any = t if self._clocked else rows
        if self._stamped:
            times = (1e6 * t).round().astype("datetime64[us]").astype("datetime64[ns]")
        names = tuple(self._feature_names())
        notes = [f"the last {n:,} of {seen:,} rows"] if n < seen else []
        if values.shape[1] < len(names):
            notes.append(f"the first {values.shape[1]} of {len(names):,} columns are kept")
        return plot_series(
            Labelled(
                name=type(self).__name__,
                features=names[: values.shape[1]],
                values=values,
                labels=labels,
                scores=scores,
                clock=Clock(times, utc=self._stamped),
                causes=self._causes(rows),
                note="; ".join(notes),
                cut=n < seen,
                numbers=None if self._numbers is None else self._numbers.of,
            )
        )


class Correctable(TimeLine):
    """A model whose last rows can be corrected."""

    @property
    def _n_correctable(self) -> int:
        """How many of the last rows can be corrected."""
        raise NotImplementedError

    def _correct(self, back: int, old: FloatArray, new: FloatArray) -> None:
        """Give the row ``back`` rows ago, 1: the last, the values ``new`` (D,) for ``old``."""
        raise NotImplementedError

    def amend(self, row: int, old: Features, new: Features | None) -> None:
        """Correct one of the last rows, or forget its values, as if they had never been seen.

        Exact for every particle: its weight changes by the densities of the new and the old values
        beside the rest of the table, and so does the evidence, which stays unbiased. `SeqDDCRP`
        changes its bound to that of the corrected rows and sweeps the links of its window once.
        What was said on arrival, and which particles were kept, does not change. O(particles), or
        one sweep.

        Parameters
        ----------
        row : int
            Its arrival index, one of the last ``window`` rows in `SeqDDCRP` and `GraphCRP`, one of
            the last 64 in `GroupDP` and in `DDCRPSampler`, there all within reach of a link.
        old : dict
            Its values as they were learned. Particle models do not store them, so they are not
            checked there.
        new : dict or None
            Its values now; None: unknown. The row itself, its links and its table remain.

        Raises
        ------
        ConfigError
            The row has left memory or has not come; it is known to later rows as a column (an
            autoregressive family); or seasons or laws are subtracted from rows. In `SeqDDCRP`, also
            other old values than it has. Nothing changed.
        SchemaError
            None of the learned columns, or a value outside the family's support.

        Examples
        --------
        >>> from streamddcrp import GraphCRP
        >>> model = GraphCRP(likelihood=("normal_gamma", 0.0, 0.05, 1.5, 0.5), alpha=0.3)
        >>> for y in [0.1, -0.2, 81.0, 0.2]:
        ...     model.learn_one({"y": y})
        >>> model.amend(2, {"y": 81.0}, {"y": 0.81})
        >>> model.summary()["id"].to_pylist()
        [0]
        """
        back, most = self._n_seen - whole("row", row, 0), self._n_correctable
        if not 0 < back <= most:
            raise ConfigError(
                f"row must be one of the last {most} rows of a model past its warm-up, without "
                f"lagged columns, seasons or laws, got {row}: others cannot be taken out of what "
                f"was learned"
            )
        before, after = self._known(old), self._known(dict.fromkeys(old) if new is None else new)
        self._correct(back, before, after)
        if self._recent is not None:
            self._recent.amend(back, after)

    def _known(self, x: Features) -> FloatArray:
        """Return the values of the learned columns, (D,), others left out."""
        values = self._vectorizer.transform(x, learn=False)
        self._check_rows(values[None], self._feature_names())
        return values
