"""Alarms at a given false-alarm rate."""

import math
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.estimator.stored import Stored
from streamddcrp.monitor.kernels import (
    BLOCK,
    CURRENT,
    CURRENT_ALARMS,
    FORMER,
    FORMER_ALARMS,
    MOST,
    N_COUNTS,
    mean_of,
    step_alarm,
    threshold,
)
from streamddcrp.records import FINITE, REAL, Within, check_one, counters
from streamddcrp.typing import FloatArray
from streamddcrp.validation import whole

_HUGE = 1e300  # stands for infinity: its mean with other scores is a number


class Alarms(NamedTuple):
    """What `Alarm.step_many` says of each row.

    Attributes
    ----------
    score : ndarray of float64, shape (N,)
        Mean of the last ``average`` scores; NaN where the score was missing.
    threshold : ndarray of float64, shape (N,)
        As it was before the row; infinite while too few rows have been seen.
    alarm : ndarray of bool, shape (N,)
        Whether the score exceeds the threshold.
    """

    score: FloatArray
    threshold: FloatArray
    alarm: NDArray[np.bool_]


class Alarm(Stored):
    """Alarm when a score is too high to be one of those that usually come.

    The threshold is the k-th largest of the last m scores, k = floor(rate (m + 1)), so that a score
    that is exchangeable with them exceeds it with probability k / (m + 1), whatever their law: the
    conformal rule. It looks back over 10 / rate to 20 / rate rows and so follows slow changes.
    While m is below 1 / rate, an exponential tail is put through the 20 largest scores: the right
    tail for surprise (-log density). With less than 100 rows, or 0.1 / rate, there is no alarm
    and the threshold is infinite.

    Rows in a row that alarm are one alarm, which ends when 10 rows (``average``, if that is more)
    have stayed below the threshold. Only its first row enters the calibration, and no score enters
    as more than a little above the threshold, so that an anomaly hardly lifts it, however long or
    large; what has the given rate is the beginning of alarms. Where more than 2 rate m + 3 alarms
    began among the m rows, these no longer say what is usual, and scores enter as they are. Should
    an alarm never end, the scores have become different for good.

    Parameters
    ----------
    rate : float, default 0.001
        Probability that a row in control begins an alarm: one false alarm in 1 / rate rows.
    average : int, default 1
        Rows whose mean score is judged. Above 1 for anomalies that last, but are small in any row.

    Notes
    -----
    O(1) a row, about 0.1 microseconds, and 48 + ``average`` numbers of memory. Vovk, Gammerman and
    Shafer (2005), *Algorithmic Learning in a Random World*; the tail as in Siffer et al. (2017),
    *Anomaly detection in streams with extreme value theory*.

    Examples
    --------
    >>> import numpy as np
    >>> from streamddcrp import Alarm
    >>> alarm = Alarm(rate=0.01)
    >>> usual = np.random.default_rng(0).exponential(size=1000)
    >>> int(alarm.step_many(usual).alarm.sum())
    7
    >>> score, threshold, on = alarm.step_many([1.0, 9.0, 8.0])
    >>> threshold.round(2)
    array([4.79, 4.79, 4.8 ])
    >>> on
    array([False,  True,  True])
    """

    def __init__(self, rate: float = 0.001, average: int = 1) -> None:
        if not 0 < rate < 0.5:
            message = f"rate must lie between 0 and 0.5, got {rate!r}"
            raise ConfigError(message)
        whole("average", average, 1, 1 << 24)
        self.rate = rate
        self.average = average
        self._recent = np.zeros(int(average))
        self._top = np.full((2, MOST), -np.inf)
        self._counts = np.zeros(N_COUNTS, np.int64)

    @property
    def threshold(self) -> float:
        """Threshold of the next row; infinite while too few rows have been seen."""
        return float(threshold(float(self.rate), self._top, self._counts, np.empty(MOST))[0])

    def averaged(self, score: float) -> float:
        """Return the mean of a score and the last ones before it; learn nothing."""
        return float(mean_of(self._recent, self._counts, min(max(score, -_HUGE), _HUGE)))

    def step_many(self, scores: ArrayLike) -> Alarms:
        """Judge each score in turn, then learn it; the same, bit for bit, for any cutting.

        Parameters
        ----------
        scores : array_like of float, shape (N,)
            In the order of time; high is anomalous. NaN: no score, which is skipped.

        Raises
        ------
        SchemaError
            If the scores are not a vector.
        """
        try:
            values = np.asarray(scores, dtype=np.float64)
        except (TypeError, ValueError) as error:
            message = f"scores must be numbers in an array of shape (N,): {error}"
            raise SchemaError(message) from None
        if values.ndim != 1:
            message = f"scores must have shape (N,), got {values.shape}"
            raise SchemaError(message)
        out = Alarms(np.empty(len(values)), np.empty(len(values)), np.empty(len(values), np.bool_))
        step_alarm(
            float(self.rate), self._recent, self._top, self._counts, np.empty(MOST),
            np.clip(values, -_HUGE, _HUGE), *out,
        )  # fmt: skip
        return out

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays = {"recent": self._recent, "top": self._top, "counts": self._counts}
        return arrays, {"rate": float(self.rate), "average": int(self.average)}

    @classmethod
    def _from_state(cls, arrays: dict[str, Any], meta: dict[str, Any]) -> Self:
        alarm = cls(**meta)
        check_one("recent", arrays["recent"], alarm._recent.shape, np.float64, FINITE)
        check_one("top", arrays["top"], alarm._top.shape, np.float64, REAL)
        block = Within(0, math.ceil(BLOCK / alarm.rate) + 1)
        limits = counters(dict.fromkeys((FORMER, CURRENT, FORMER_ALARMS, CURRENT_ALARMS), block))
        check_one("counts", arrays["counts"], (N_COUNTS,), np.int64, limits)
        for name in ("recent", "top", "counts"):
            getattr(alarm, f"_{name}")[:] = arrays[name]
        return alarm
