"""Models of rows that draw their last ones."""

from typing import Any

import numpy as np

from streamddcrp.estimator.row_model import Recent
from streamddcrp.typing import IntArray


class TimeLine:
    """A model of rows that can draw its last ones: values by regime, surprise, regimes.

    The rows are not part of the state: a model that was loaded draws those it has learned since.
    """

    _keeps_rows = True
    _recent: Recent | None
    _stamped: bool
    _n_seen: int
    _feature_names: Any

    @property
    def _nbytes_kept(self) -> int:
        return 0 if self._recent is None else self._recent.ring.nbytes

    def _causes(self, rows: IntArray) -> tuple[Any, ...]:
        """Return the latent features of rows, where the model has some."""
        return ()

    def plot(self) -> Any:
        """Draw the time line of the last rows as a figure of matplotlib, which must be installed.

        On top is a lane for each regime, below it the surprise of each row, its most surprising
        moments numbered; then a panel for each of up to 12 columns, with dots in the colours of the
        regimes predicted when the rows came. The last 1,000 rows are drawn, with up to 32 columns
        kept; a model that was loaded draws the rows it has learned since.
        """
        from streamddcrp.plots.clock import Clock  # noqa: PLC0415 -- only for pictures
        from streamddcrp.plots.series import Labelled  # noqa: PLC0415
        from streamddcrp.plots.timeline import plot_series  # noqa: PLC0415

        t, labels, scores, values = (Recent(0) if self._recent is None else self._recent).rows()
        n, seen, clocked = len(t), self._n_seen, getattr(self, "_clocked", False)
        rows = np.arange(seen - n, seen)
        times: Any = t if clocked else rows
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
            )
        )
