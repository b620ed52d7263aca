"""Alarms at a given false-alarm rate."""

import copy
import logging
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamddcrp import records as rec
from streamddcrp.arguments import as_list, number_array
from streamddcrp.checkpoint.codec import encode_state
from streamddcrp.data.batches import batch_times
from streamddcrp.data.epochs import make_cut
from streamddcrp.errors import ConfigError, SchemaError, UnknownKeyError
from streamddcrp.estimator.stored import Stored, refusing_misfits
from streamddcrp.monitor import kernels as ker
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp.validation import VERDICTS, whole

_log = logging.getLogger(__name__)
_ENDLESS = 1000  # rows
_HUGE = 1e300  # replaces infinity, so that its mean with other scores is finite


class Alarms(NamedTuple):
    """The verdicts of `Alarm.step_many` on N rows.

    ``score``: mean of the last ``average`` scores, NaN if missing; ``threshold``: before the row,
    infinite while too few rows have been seen; ``alarm``: whether the score exceeds it; ``began``,
    ``ended``: whether an alarm begins or ends with the row.
    """

    score: FloatArray
    threshold: FloatArray
    alarm: NDArray[np.bool_]
    began: NDArray[np.bool_]
    ended: NDArray[np.bool_]

    @classmethod
    def none(cls, scores: FloatArray) -> Self:
        """Return the verdicts of scores not judged yet."""
        n = len(scores)
        return cls(scores, np.full(n, np.inf), *np.zeros((3, n), np.bool_))


def verdicts_of(regimes: Mapping[int, str], labels: IntArray, states: IntArray) -> NDArray[Any]:
    """Return each row's verdict: planned by its label or state (N,), a fault by its state."""
    planned, fault = (
        [label for label, verdict in regimes.items() if verdict == wanted]
        for wanted in VERDICTS[1:]
    )
    at = np.where(np.isin(labels, planned) | np.isin(states, planned), 1, 0)
    return np.array(VERDICTS)[np.where(np.isin(states, fault), 2, at)]


class _Own(NamedTuple):
    """Facts about each of K keys, of whose scores the last A count."""

    recent: Annotated[FloatArray, "K A", rec.FINITE]
    top: Annotated[FloatArray, f"K 2 {ker.MOST}", -np.inf, rec.REAL]
    counts: Annotated[IntArray, f"K {ker.N_COUNTS}"]
    level: Annotated[FloatArray, "K", rec.FINITE]
    born: Annotated[FloatArray, f"K {ker.N_BORN}", rec.FINITE]
    rare: Annotated[FloatArray, f"K {ker.PLACES} {ker.N_RARE}", rec.FINITE]


class _Fleet(NamedTuple):
    """Facts about all keys of each of C crowds; without keys there is no crowd."""

    top: Annotated[FloatArray, f"C 2 {ker.MOST}", -np.inf, rec.REAL]
    counts: Annotated[IntArray, f"C {ker.N_COUNTS}"]
    level: Annotated[FloatArray, f"{ker.N_LEVEL}", rec.FINITE]


class Alarm(Stored):
    """Raise alarms on unusually high scores: one row in 1 / `rate` begins a false one.

    The threshold is the k-th largest of the last m scores, k = floor(rate (m + 1)). A score that is
    exchangeable with them exceeds it with probability k / (m + 1), whatever their distribution (the
    conformal rule). It looks back over at least the last two thirds of the rows, and at most 10 /
    rate to 20 / rate, so it forgets how the model began and follows slow changes. While m is below
    1 / rate, an exponential tail is fitted to the 20 largest scores: the right tail for surprise
    (-log density). With less than 100 rows, or 0.1 / rate, there is no alarm and the threshold is
    infinite.

    Consecutive alarming rows form one alarm, which ends after 10 rows (``average``, if that is
    more) below the threshold. Only its first row enters the calibration, and every score is capped
    slightly above the threshold, so that an anomaly hardly raises it, however long or large; before
    there is a threshold, scores are compared with earlier ones. The rate counts beginnings of
    alarms. If more than 2 rate m + 3 alarms began among the m rows, these no longer show what is
    usual, and scores enter uncapped.

    With ``labels`` scores are surprises in nats. A row is judged by its excess over the expected
    score: the mean score of the previous row's regime, blended with that of all rows while the
    regime has fewer than 100, where of the first 4,000 scores later ones weigh more. A noisier
    regime therefore surprises only by its first rows, and an alarm ends once its surprise is usual
    for the regime. The excess of consecutive rows, less one nat a row, is summed (Page's rule) over
    at most 100 rows. This finds drifts and small shifts that no single row shows. The first 20 rows
    that stay in a new regime count as much as its first row. A regime that returns after more than
    20 rows counts as new again while it has less than a twentieth of the rows and came at most rate
    n + 3 times in n rows: the model recognises it, but it is not usual. Regimes born in the first
    200 rows are usual; those born in the first 1 / rate rows start with four visits. Of summed rows
    the highest enters the calibration. An excess below one nat is no alarm.

    With ``keys`` each key has its own threshold and alarms, by the excess over its level, with or
    without labels. A key with fewer than 1 / rate rows is judged by the excesses of similar keys
    and by its own highest one, so a new machine in a large fleet has a threshold within a few rows.
    Keys are similar if they have the same age, below 8 and 64 rows, and later if the same number of
    their regimes lasted for 20 rows: if most machines have three ways of working, a machine with
    two is expected to show a third, but not a fourth (conformal prediction in categories, as
    Mondrian's). This always uses the exponential tail. Scores enter it only up to the threshold,
    and of many keys that fail at once only the first few do. While there are fewer than 0.1 / rate
    rows, but 3,000, keys with 200 rows are judged at the rate 0.1 / m, the lowest that m rows can
    tell. With labels, part of a row's excess is expected of the next one, as much as consecutive
    excesses of all keys and of the key agree in sign: surprises that come in runs do not add up.

    Parameters
    ----------
    rate : float, default 0.001
        Probability that a row in control begins an alarm: one false alarm in 1 / rate rows. The
        share of rows in alarm is larger, since an alarm lasts several rows.
    average : int, default 1
        Rows whose mean score is judged; above 1 for anomalies that are long but small in each row.
    per : str, optional
        Replaces ``rate``: one false alarm of all keys together per time ("day", "6h") or number of
        rows ("5000 rows"). Times need ``t``; the rate then follows the mean interval between rows,
        and there is no alarm within the first 100.

    Notes
    -----
    O(1) a row, about 0.1 microseconds, and 167 + ``average`` numbers of memory for each key. Vovk,
    Gammerman and Shafer (2005), *Algorithmic Learning in a Random World*; the tail as in Siffer et
    al. (2017), *Anomaly detection in streams with extreme value theory*; the sum as in Page (1954),
    *Continuous inspection schemes*, Biometrika 41.

    Examples
    --------
    >>> import numpy as np
    >>> from streamddcrp import Alarm
    >>> alarm = Alarm(rate=0.01)
    >>> usual = np.random.default_rng(0).exponential(size=1000)
    >>> int(alarm.step_many(usual).alarm.sum())
    7
    >>> judged = alarm.step_many([1.0, 9.0, 8.0])
    >>> judged.threshold.round(2)
    array([4.8 , 4.8 , 4.93])
    >>> judged.alarm, judged.began
    (array([False,  True,  True]), array([False,  True, False]))
    """

    def __init__(self, rate: float = 0.001, average: int = 1, *, per: str | None = None) -> None:
        cut = None if per is None else make_cut(per if per[:1].isdigit() else f"1 {per}", "per")
        if cut is not None and cut.kind == "rows":
            rate = 1.0 / cut.size
        if not 0 < rate < 0.5:
            raise ConfigError(f"rate must lie between 0 and 0.5, got {rate!r}")
        whole("average", average, 1, 1 << 24)
        self.rate = rate
        self.average = average
        self.per = per
        self._pace = np.zeros(ker.N_PACE)
        if cut is not None and cut.kind == "period":
            self._pace[ker.PERIOD] = cut.size
        self._lasted, self._said_endless = np.zeros(0, int), False  # rows of present alarms
        self._keys: dict[str, int] = {"": 0}
        self._own = rec.empty(_Own, {"K": 1, "A": int(average)})
        self._fleet = rec.empty(_Fleet, {"C": 0})

    @property
    def threshold(self) -> float:
        """Threshold of the next row; infinite while too few rows have been seen."""
        return self.threshold_of("")

    def threshold_of(self, key: object) -> float:
        """Return the threshold of a key's next row; infinite while too few rows have been seen."""
        own, who = self._own, self._keys.get(str(key))
        if who is None:
            own, who = rec.empty(_Own, {"K": 1, "A": int(self.average)}), 0
        limit = ker.limit_of(self._rate, own, self._fleet, who, np.empty(ker.MOST))[0]
        return float(ker.usual_of(own, self._fleet, who) + limit)

    def rows_of(self, key: object = "") -> int:
        """Return the number of a key's judged scores."""
        who = self._keys.get(str(key))
        return 0 if who is None else int(self._own.counts[who, ker.N_SCORES])

    @property
    def calibrating(self) -> float:
        """Rows after which there is a threshold; with keys, of all that have 64 rows."""
        if not self._rate:
            return math.inf
        least = max(ker.LEAST_ROWS, 1.0 / (ker.FURTHEST * self._rate))
        return min(least, ker.LEAST_OF_ALL) if len(self._fleet.top) else least

    def averaged(self, score: float, label: int | None = None) -> float:
        """Return the next judgement value of a score in a regime; learn nothing."""
        cells: Any = (cells[:1].copy() for cells in self._own)
        own, out = _Own(*cells), Alarms.none(np.empty(1))
        labels = np.array(() if label is None else [label], np.int64)
        ker.step_alarm(
            self._rate, np.zeros(ker.N_PACE), own, self._fleet, np.empty(ker.MOST),
            np.zeros(1, np.int64), np.empty(0), np.clip([score], -_HUGE, _HUGE), labels,
            np.empty(0, np.int8), out,
        )  # fmt: skip
        return float(out.score[0])

    def step_many(
        self, scores: ArrayLike, *, keys: Iterable[Any] | None = None, t: object = None,
        labels: ArrayLike | None = None, verdicts: ArrayLike | None = None,
    ) -> Alarms:  # fmt: skip
        """Judge each score in turn, then learn it; the cuts between batches do not matter.

        Parameters
        ----------
        scores : array_like of float, shape (N,)
            In time order; high is anomalous. NaN: no score, which is skipped.
        keys : iterable of str or int, length N, optional
            The key of each score. An alarm has keys always or never.
        t : array_like of shape (N,), optional
            Time stamps or seconds; needed if ``per`` is a time.
        labels : array_like of int, shape (N,), optional
            Regimes, as numbered by each key's model: new ones have higher labels than all before.
            With labels the excesses of rows over their regime's usual score are summed.
        verdicts : array_like of {"normal", "planned", "fault"}, shape (N,), optional
            On each row's regime. A planned one raises no alarm, a fault one always does.

        Raises
        ------
        SchemaError
            The scores are not a vector, or keys, times or verdicts are missing or too many.
        """
        values = number_array("scores", scores)
        times = np.empty(0)
        self.check_times(t)
        if self._pace[ker.PERIOD]:
            times = batch_times(t, len(values))
        n = len(values)
        regimes: Any = number_array("labels", () if labels is None else labels, whole=True)
        if labels is not None and regimes.shape != (n,):
            raise SchemaError(f"labels: got shape {regimes.shape} for {n} scores")
        judged = np.empty(0, np.int8)
        if verdicts is not None:
            given: Any = verdicts
            if not isinstance(given, np.ndarray) or given.dtype.kind != "U":
                words = as_list("verdicts", verdicts)
                given = np.array([word if isinstance(word, str) else "" for word in words])
            known = [np.asarray(given == name, np.int8) for name in VERDICTS]
            judged = np.argmax(known, axis=0).astype(np.int8)
            if judged.shape != (n,) or not np.any(known, axis=0).all():
                raise SchemaError(f"verdicts must be {n} of {', '.join(VERDICTS)}")
        codes = self._codes(keys, n)
        out = Alarms(np.empty(n), np.empty(n), *(np.empty(n, np.bool_) for _ in range(3)))
        ker.step_alarm(
            float(self.rate), self._pace, self._own, self._fleet, np.empty(ker.MOST), codes, times,
            np.clip(values, -_HUGE, _HUGE), regimes, judged, out,
        )  # fmt: skip
        if out.alarm.any() and not self._said_endless:
            self._warn_of_endless(codes, out)
        return out

    def check_times(self, t: object) -> None:
        """Refuse rows without required times: SchemaError."""
        if self._pace[ker.PERIOD] and t is None:
            raise SchemaError(f"t: per={self.per!r} is a time, so every row needs one")

    def _warn_of_endless(self, codes: IntArray, out: Alarms) -> None:
        """Warn once that an alarm has lasted as long as the calibration looks back."""
        lasted, begun = np.zeros(len(self._keys), int), np.full(len(self._keys), -1)
        lasted[: len(self._lasted)] = self._lasted
        np.maximum.at(begun, codes[out.began], np.flatnonzero(out.began))
        lasted[begun >= 0] = 0
        within = out.alarm & (np.arange(len(codes)) >= begun[codes])
        self._lasted = lasted = lasted + np.bincount(codes[within], minlength=len(lasted))
        if lasted.max() >= max(_ENDLESS, self.calibrating):
            self._said_endless = True
            _log.warning(
                "an alarm goes on for %d rows: if this is usual now, go on with a new Alarm, or a "
                "new reference", int(lasted.max()),
            )  # fmt: skip

    @property
    def _rate(self) -> float:
        """The rate for the next row; 0 while the pace of the rows is unknown."""
        pace = self._pace.copy()
        return (
            float(ker.rate_at(pace, pace[ker.LAST_TIME])) if pace[ker.PERIOD] else float(self.rate)
        )

    def _codes(self, keys: Iterable[Any] | None, n: int) -> IntArray:
        """Return each row's key number, and make room for new keys."""
        if keys is None:
            return np.zeros(n, np.int64)
        names = as_list("keys", keys)
        if len(names) != n:
            raise SchemaError(f"keys: got {len(names)} for {n} scores")
        if not len(self._fleet.top):
            if self._own.counts.any():
                raise SchemaError("keys: the rows before came without; make a new Alarm")
            self._keys.clear()
            self._fleet = rec.empty(_Fleet, {"C": ker.CROWDS})
        known = self._keys
        codes = np.array([known.setdefault(str(key), len(known)) for key in names], np.int64)
        room = len(self._own.level)
        if len(known) > room:
            lengths = {"K": max(len(known) - room, room), "A": int(self.average)}
            more = rec.empty(_Own, lengths)
            grown: Any = map(np.concatenate, zip(self._own, more, strict=True))
            self._own = _Own(*grown)
        return codes

    @property
    def n_keys(self) -> int:
        """Number of known keys."""
        return len(self._keys)

    def to_bytes(self, *, keys: bool = True) -> bytes:
        """Return the state as one blob; without its keys if `parts` stores them."""
        arrays, meta = self._state()
        if not keys and len(self._fleet.top):
            arrays |= {name: arrays[name][:0] for name in _Own._fields if name in arrays}
            meta["keys"] = []
        return encode_state(type(self).__name__, 1, arrays, meta)

    def parts(self, keys: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Yield the facts of single keys, for a store of many."""
        for key in keys:
            who = self._keys.get(str(key))
            if who is None:
                raise UnknownKeyError(f"no score of the key {key!r} was judged")
            yield key, b"".join(cells[who].tobytes() for cells in self._own)

    def join(self, parts: Iterable[tuple[str, bytes]]) -> None:
        """Restore what `parts` yielded."""
        size = sum(cells.itemsize * math.prod(cells.shape[1:]) for cells in self._own)
        with refusing_misfits():
            given = [(key, bytes(blob)) for key, blob in parts]
            rec.refuse_if(any(len(blob) != size for _, blob in given), "parts")
        for key, blob in given:
            who, at = self._codes([key], 1)[0], 0
            for cells in self._own:
                size = cells[who].nbytes
                cells[who] = np.frombuffer(blob, cells.dtype, size // 8, at).reshape(
                    cells.shape[1:]
                )
                at += size

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        n = len(self._keys)
        arrays = {name: cells[:n] for name, cells in self._own._asdict().items()}
        arrays |= {f"fleet_{name}": cells for name, cells in self._fleet._asdict().items()}
        meta = {"rate": float(self.rate), "average": int(self.average), "per": self.per}
        return arrays | {"pace": self._pace}, meta | {"keys": list(self._keys)}

    @classmethod
    def _from_state(cls, arrays: dict[str, Any], meta: dict[str, Any]) -> Self:
        alarm = cls(meta["rate"], meta["average"], per=meta.get("per"))
        keys, pace = meta["keys"], arrays["pace"]
        rec.refuse_if(
            not all(type(key) is str for key in keys) or len({*keys}) != len(keys), "keys"
        )
        rec.check(_Own, arrays, {"K": len(keys), "A": int(alarm.average)})
        ages = rec.check(_Fleet, arrays, {}, "fleet_")["C"]
        rec.refuse_if(ages not in (0, ker.CROWDS) or (not ages and keys != [""]), "fleet_top")
        own = _Own(*(arrays[name] for name in _Own._fields))
        fleet = _Fleet(*(arrays[f"fleet_{name}"] for name in _Fleet._fields))
        block = rec.MOST if alarm.per else math.ceil(ker.BLOCK / alarm.rate) + 1
        blocks = [ker.FORMER, ker.CURRENT, ker.FORMER_ALARMS, ker.CURRENT_ALARMS]
        for counts in own.counts, fleet.counts:
            rec.refuse_if(bool((counts[:, blocks] > block).any()), "counts")
        rec.check_one("pace", pace, (ker.N_PACE,), np.float64, rec.FINITE)
        rec.refuse_if(pace[ker.PERIOD] != alarm._pace[ker.PERIOD], "pace")
        places = own.born[:, ker.AT]
        rec.refuse_if(not np.isin(places, np.arange(ker.PLACES)).all(), "born")
        rec.refuse_if(bool((np.abs(own.born[:, ker.RUNS]) > 1.0).any()), "born")
        rec.refuse_if(bool((np.abs(fleet.level[[ker.SIGN, ker.LAG]]) > 1.0).any()), "fleet_level")
        rec.refuse_if(bool(fleet.level[ker.N_SIGNS] < 0.0), "fleet_level")
        alarm._keys = {key: who for who, key in enumerate(keys)}
        alarm._own, alarm._fleet = copy.deepcopy(own), copy.deepcopy(fleet)
        alarm._pace = pace.copy()
        return alarm
