"""What the page knows of each stream of a run; without keys there is one stream."""

from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from streamddcrp.monitor.alarm import Alarms
from streamddcrp.plots.segments import Numbers
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp_connectors.page import pyramid as at
from streamddcrp_connectors.page.regimes import MOST, Regimes
from streamddcrp_connectors.page.volumes import Volumes

COLUMNS = 64  # columns kept
KEYS = 4096  # streams kept
OF_KEY = 128  # buckets of a level of one key
TEXTS = 500  # latest texts kept
LETTERS = 300  # of a text
STORIES = 2000  # stories whose words are kept
EVENTS = 300  # events kept
BACK = 12  # latest events searched for a repeated one
ALONE = ("alarm", "over", "acknowledged")  # kinds that are listed each time


class Job(NamedTuple):
    """The run's description of itself."""

    name: str
    features: list[str]
    time: str  # time stamps without or with a zone, or numbers: stamp, instant, number, row
    key: str | None = None  # name of the column of keys
    text: bool = False  # the features are one column of texts
    epochs: bool = False  # rows arrive by epochs
    live: bool = True  # more rows may come
    calibrating: float = 0.0  # rows after which there is a threshold

    @property
    def stamped(self) -> bool:
        """Whether rows have time stamps."""
        return self.time in ("stamp", "instant")

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the numeric columns kept."""
        return () if self.text else tuple(self.features[:COLUMNS])


class Rows(NamedTuple):
    """Rows of one stream."""

    number: IntArray
    t: FloatArray
    label: IntArray
    score: FloatArray
    values: FloatArray
    judged: Alarms
    why: Any  # why alarms began, in words
    texts: Any = None

    def take(self, which: Any) -> "Rows":
        texts = None if self.texts is None else self.texts.take(pa.array(which))
        number, t, label, score, values = (cells[which] for cells in self[:5])
        judged = Alarms(*(cells[which] for cells in self.judged))
        return Rows(number, t, label, score, values, judged, self.why[which], texts)


@dataclass
class Feed:
    """The last ``most`` events; one of a table that is repeated is counted, not listed again.

    Examples
    --------
    >>> feed = Feed()
    >>> for t in (1.0, 2.0):
    ...     feed.add("return", 4, t)
    >>> [(entry["id"], entry["kind"], entry["n"]) for entry in feed.since(0)]
    [(2, 'return', 2)]
    """

    most: int = EVENTS
    last_id: int = 0
    entries: list[dict[str, Any]] = field(default_factory=list)

    def add(
        self, kind: str, label: int, t: float, into: int | None = None, why: str | None = None,
        between: tuple[float, float] | None = None,
    ) -> None:  # fmt: skip
        """Note an event: its time, its reasons in words, and when it probably occurred."""
        self.last_id += 1
        n = 1
        for back in range(0 if kind in ALONE else min(BACK, len(self.entries))):
            entry = self.entries[-1 - back]
            if (entry["kind"], entry["label"], entry["into"]) == (kind, label, into):
                n = entry["n"] + 1
                del self.entries[-1 - back]
                break
        entry = {"id": self.last_id, "kind": kind, "label": label, "t": t, "into": into, "n": n}
        self.entries.append(entry | {"why": why, "between": between})
        del self.entries[: -self.most]

    def since(self, last_id: int) -> list[dict[str, Any]]:
        return [entry for entry in self.entries if entry["id"] > last_id]

    def alarm(self) -> dict[str, Any]:
        """Return when and why the last alarm began, as far as that is kept."""
        entries = reversed(self.entries)
        return next((entry for entry in entries if entry["kind"] == "alarm"), {})

    def reasons(self, begin: float, end: float) -> list[str]:
        """Return the reasons of events between two times: first those of each that come first."""
        entries = [entry for entry in reversed(self.entries) if begin <= entry["t"] <= end]
        said = [(e["why"] or "").split("; ") for e in entries if e["kind"] != "acknowledged"]
        return [text for place in zip_longest(*said, fillvalue="") for text in place if text]


@dataclass
class Stream:
    """History, regimes, alarm and events of one stream."""

    pyramid: at.Pyramid
    regimes: Regimes
    feed: Feed
    volumes: Volumes | None
    became: dict[int, int] = field(default_factory=dict)  # merged labels, and what they joined
    gone: dict[int, None] = field(default_factory=dict)  # dead labels, in order
    stories: dict[int, dict[str, Any]] = field(default_factory=dict)  # words, examples by label
    counts: list[float] = field(default_factory=list)  # probabilities of 0, 1, 2, .. regimes now
    drawn: list[int] = field(default_factory=list)  # labels of the last stream graph
    texts: list[tuple[float, int, str]] = field(default_factory=list)
    numbers: Numbers = field(default_factory=Numbers)  # of regimes that lasted
    row: int = -1  # number of the last row
    on: bool = False  # whether there is an alarm
    alarmed: float = -np.inf  # time of the last alarm
    n_alarms: int = 0
    version: int = 0  # changes with every change

    @classmethod
    def of(cls, job: Job) -> Self:
        """Return the stream of a job, or of one of its keys, before its first row."""
        sizes = (at.MOST, MOST, EVENTS) if job.key is None else (OF_KEY, 64, 60)
        most, labels, events = sizes
        pyramid, regimes = at.Pyramid(len(job.columns), most), Regimes(job.columns, labels)
        return cls(pyramid, regimes, Feed(events), Volumes() if job.text or job.epochs else None)

    def learn(self, rows: Rows) -> None:
        """Take rows, skipping those already taken."""
        if len(rows.number) and rows.number[0] <= self.row:
            rows = rows.take(np.flatnonzero(rows.number > self.row))
        if not len(rows.number):
            return
        judged = rows.judged
        t = np.maximum.accumulate(np.maximum(rows.t, _or(self.pyramid.span[1], -np.inf)))
        label = np.where(np.isnan(rows.score), -1, rows.label)
        buckets = np.empty((len(t), at.N_OWN + 3 * self.pyramid.n_columns))
        buckets[:, at.BEGIN] = buckets[:, at.END] = t
        buckets[:, at.LABEL], buckets[:, at.HELD] = label, 1
        buckets[:, at.SCORE] = rows.score
        buckets[:, at.THRESHOLD] = np.where(np.isfinite(judged.threshold), judged.threshold, np.nan)
        buckets[:, at.ALARMS] = judged.alarm
        buckets[:, at.N_OWN :] = np.tile(rows.values, 3)
        self.pyramid.append(buckets)
        self.regimes.learn(label, t, rows.values)
        self.numbers.see(label[label >= 0])
        if self.volumes is not None:
            self.volumes.learn(label[label >= 0], t[label >= 0])
        if rows.texts is not None:
            self._keep_texts(t, label, rows.texts)
        self._note_alarms(judged, t, label, rows.why)
        self.row = int(rows.number[-1])
        self.version += 1

    def _note_alarms(self, judged: Alarms, t: FloatArray, label: IntArray, why: Any) -> None:
        """Note where alarms begin and end."""
        for i in np.flatnonzero(judged.began | judged.ended).tolist():
            self.on = bool(judged.began[i])
            what = "alarm" if self.on else "over"
            self.feed.add(what, int(label[i]), float(t[i]), why=why[i])
        self.n_alarms += int(judged.began.sum())
        rows = np.flatnonzero(judged.alarm)
        if len(rows):
            self.alarmed = float(t[rows[-1]])

    def columns(self, begin: float, end: float, most: int) -> list[int]:
        """Return up to ``most`` columns to draw: those that reasons name, then others that tell.

        Reasons of events between two times; the others tell regimes apart.
        """
        named: dict[int, None] = {}
        places = {f" {name} ": d for d, name in enumerate(self.regimes.columns)}
        for text in self.feed.reasons(begin, end):
            found = [(f" {text} ".find(name), -len(name), d) for name, d in places.items()]
            at = min((one for one in found if one[0] >= 0), default=None)
            if at is not None and len(named) < most:
                named[at[2]] = None
        rest = [d for d in self.regimes.telling(most) if d not in named]
        return sorted(named) + rest[: most - len(named)]

    def acknowledged(self, by: str) -> None:
        """Note that somebody has seen the alarms so far."""
        self.feed.add("acknowledged", -1, _or(self.pyramid.span[1], 0.0), why=by or None)
        self.version += 1

    def _keep_texts(self, t: FloatArray, label: IntArray, texts: Any) -> None:
        last = max(0, len(t) - TEXTS)
        for i in range(last, len(t)):
            self.texts.append((float(t[i]), int(label[i]), str(texts[i].as_py())[:LETTERS]))
        del self.texts[:-TEXTS]

    def happened(
        self, kind: str, label: int, t: float, into: int | None, why: str | None = None,
        between: tuple[float, float] | None = None,
    ) -> None:  # fmt: skip
        """Take a table event: its reasons in words, and when it probably occurred."""
        if not np.isfinite(t):
            t = _or(self.pyramid.span[1], 0.0)
        if kind == "merge" and into is not None:
            self.became = {old: into if new == label else new for old, new in self.became.items()}
            self.became[label] = into
            self.regimes.joined(label, into)
            while len(self.became) > 4096:
                del self.became[next(iter(self.became))]
        elif kind in ("death", "closed"):
            self.gone[label] = None
            while len(self.gone) > 4096:
                del self.gone[next(iter(self.gone))]
        elif kind == "return":
            self.gone.pop(label, None)
        self.feed.add(kind, label, t, into, why, between)
        self.version += 1

    def count(self, probabilities: list[float]) -> None:
        self.counts = probabilities
        self.version += 1

    def describe(self, stories: list[dict[str, Any]]) -> None:
        for story in stories:
            self.stories.pop(story["label"], None)
            self.stories[story["label"]] = story
        while len(self.stories) > STORIES:
            del self.stories[next(iter(self.stories))]
        self.version += 1

    def now(self) -> dict[str, Any]:
        """Summarise the last row: label, score, threshold, whether there is an alarm."""
        last = self.pyramid.last(1)
        if not len(last):
            return {"label": -1, "score": None, "threshold": None, "alarm": False, "t": None}
        alarm = self.feed.alarm()
        return {
            "label": int(last[0, at.LABEL]),
            "score": _number(last[0, at.SCORE]),
            "threshold": _number(last[0, at.THRESHOLD]),
            "alarm": self.on,
            "alarmed": _number(self.alarmed),
            "began": alarm.get("t"),
            "why": alarm.get("why"),
            "t": float(last[0, at.END]),
        }


@dataclass
class Streams:
    """All streams of a run."""

    job: Job
    of: dict[str, Stream] = field(default_factory=dict)
    n_rows: int = 0
    learned: float = 0.0  # time of the last learning (s since 1970)

    def __post_init__(self) -> None:
        if self.job.key is None:
            self.of.setdefault("", Stream.of(self.job))

    def learn(self, batch: Any, learned: float) -> None:
        """Take rows as the observer sends them: row, time, key, label, score, then the features."""
        rows = self._rows(batch)
        self.n_rows += len(rows.number)
        self.learned = learned
        if self.job.key is None:
            self.of[""].learn(rows)
            return
        keys = batch.column("key").dictionary_encode()
        codes = keys.indices.to_numpy(zero_copy_only=False)
        order = np.argsort(codes, kind="stable")
        cuts = np.flatnonzero(np.diff(codes[order])) + 1
        names = keys.dictionary.to_pylist()
        for part in np.split(order, cuts):
            if len(part):
                self.stream(str(names[codes[part[0]]])).learn(rows.take(part))

    def clock(self, otherwise: float) -> float:
        """Return the time of the newest row (s since 1970), if rows have time stamps."""
        ends = [stream.pyramid.span[1] for stream in self.of.values()] if self.job.stamped else []
        return max((end / 1e3 for end in ends if np.isfinite(end)), default=otherwise)

    def happened(self, batch: Any) -> None:
        """Take events as `Models.events` returns them."""
        cells = batch.to_pydict()
        n = batch.num_rows
        times = _times(batch.column("time")) if "time" in cells else np.full(n, np.nan)
        keys = cells.get("key", [""] * n)
        whys = cells.get("why", [None] * n)
        sets: list[Any] = [None] * n
        if "earliest" in cells:
            ends = (_times(batch.column(name)).tolist() for name in ("earliest", "latest"))
            sets = [pair if np.isfinite(pair[0]) else None for pair in zip(*ends, strict=True)]
        each = zip(
            cells["kind"], cells["label"], times.tolist(), cells["into"], whys, sets, strict=True
        )
        for key, event in zip(keys, each, strict=True):
            self.stream(str(key)).happened(*event)

    def stream(self, key: str) -> Stream:
        """Return the stream of a key and move it to the end of `of`."""
        found = self.of.pop(key, None) or Stream.of(self.job)
        self.of[key] = found
        if len(self.of) > KEYS:
            del self.of[next(iter(self.of))]
        return found

    def _rows(self, batch: Any) -> Rows:
        number = batch.column("row").to_numpy(zero_copy_only=False).astype(np.int64)
        has_time = self.job.time != "row"
        t = _times(batch.column("time")) if has_time else number.astype(np.float64)
        label = batch.column("label").fill_null(-1).to_numpy(zero_copy_only=False)
        score = batch.column("score").to_numpy(zero_copy_only=False).astype(np.float64)
        first = batch.num_columns - len(self.job.features)
        kept = range(first, first + len(self.job.columns))
        values = np.empty((len(number), len(kept)))
        for d, place in enumerate(kept):
            cells = batch.column(place).to_numpy(zero_copy_only=False).astype(np.float64)
            values[:, d] = np.where(np.isfinite(cells), cells, np.nan)
        texts = batch.column(first) if self.job.text and batch.num_columns > first else None
        judged, why = Alarms.none(score), np.full(len(number), None)
        if "alarm" in batch.schema.names:
            cells = (
                batch.column(name).to_numpy(zero_copy_only=False) for name in Alarms._fields[1:]
            )
            judged = Alarms(score, *cells)
        if "why" in batch.schema.names:
            why = batch.column("why").to_numpy(zero_copy_only=False)
        return Rows(number, t, label.astype(np.int64), score, values, judged, why, texts)


def _times(column: Any) -> FloatArray:
    """Return times as numbers; time stamps in milliseconds since 1970."""
    if pa.types.is_timestamp(column.type):
        stamps = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        return np.asarray(stamps.to_numpy(zero_copy_only=False), np.float64) / 1e3
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)


def _or(value: float, otherwise: float) -> float:
    return value if np.isfinite(value) else otherwise


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
