"""Alarms of a run: where the surprise of a row is too high for those that usually come."""

import base64
from typing import Any

import numpy as np
import pyarrow as pa

from streamddcrp import Alarm
from streamddcrp.monitor.kernels import QUIET_ROWS

_COLUMNS = ("row", "time", "key", "file", "label", "score")


class Alarming:
    """Judge the scores of results, those of all keys together.

    Parameters
    ----------
    rate : float
        See `streamddcrp.Alarm`: one false alarm in 1 / rate rows.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.append(np.random.default_rng(0).exponential(size=500), [40.0, 41.0])
    >>> results = pa.record_batch({"row": np.arange(502), "label": [0] * 502, "score": scores})
    >>> Alarming(0.001).begun(results).select(["row", "score"]).to_pylist()[-1]
    {'row': 500, 'score': 40.0}
    """

    def __init__(self, rate: float) -> None:
        self._alarm = Alarm(rate)
        self._quiet = QUIET_ROWS  # rows since the last that alarmed

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps, a JSON value."""
        return {"alarm": base64.b64encode(self._alarm.to_bytes()).decode(), "quiet": self._quiet}

    def restore(self, state: dict[str, Any] | None) -> None:
        """Go on from what `state` returned."""
        if state is not None:
            self._alarm = Alarm.from_bytes(base64.b64decode(state["alarm"]))
            self._quiet = state["quiet"]

    def begun(self, results: Any) -> Any:
        """Return the rows at which an alarm begins, with the threshold they exceed.

        Parameters
        ----------
        results : pyarrow.RecordBatch
            As a sink gets them.
        """
        scores = results.column("score").cast(pa.float64()).to_numpy(zero_copy_only=False)
        found = self._alarm.step_many(scores)
        on = np.flatnonzero(found.alarm)
        quiet = np.diff(on, prepend=-1 - self._quiet) - 1  # rows before each that did not alarm
        which = on[quiet >= QUIET_ROWS]
        last = int(on[-1]) if len(on) else -1 - self._quiet
        self._quiet = min(len(scores) - 1 - last, QUIET_ROWS)
        names = [name for name in _COLUMNS if name in results.schema.names]
        begun = results.select(names).take(pa.array(which))
        return begun.append_column("threshold", pa.array(found.threshold[which]))
