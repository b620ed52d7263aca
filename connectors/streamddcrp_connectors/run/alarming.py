"""Alarms of a run: where the surprise of a row is too high for those that usually come."""

import base64
import logging
import math
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from streamddcrp import Alarm
from streamddcrp.checkpoint import SqliteStore
from streamddcrp.data.batches import batch_times
from streamddcrp.estimator.reasons import LEAST, Explanation
from streamddcrp.monitor.alarm import Alarms
from streamddcrp_connectors.run.columns import arrow_stream, read_stream
from streamddcrp_connectors.run.lateness import seconds_of
from streamddcrp_connectors.run.names import MENTIONED, Names
from streamddcrp_connectors.run.silences import Silences

_LOG = logging.getLogger("streamddcrp.run")
FIRING, RESOLVED = "firing", "resolved"
_COLUMNS = ("row", "time", "key", "file", "label", "score")
_MOST = 10_000  # alarms that wait for a message
_NAMED = 1000  # keys that a message has
_SHARED = 3  # reasons that a sentence about several keys has
_BRIEF = "brief"
_AFTER = {True: "as before", False: "not as before"}  # a regime after an alarm
_OP = "alarm"  # under which a store keeps what is known of keys


class AlarmRule(NamedTuple):
    """How alarms begin, and how they are reported."""

    rate: float = 0.001  # one false alarm in 1 / rate rows of a key
    per: str | None = None  # instead: one over all keys per this time or count; see `Alarm`
    group: str | None = None  # alarms that begin within such a time of the first are one message
    silences: str | None = None  # a file; see `Silences`
    by: str = "key"  # what a key is the name of, in messages


class Alarming:
    """Judge the scores of results, those of each key by themselves, and make messages of alarms.

    Examples
    --------
    >>> scores = np.append(np.random.default_rng(0).exponential(size=500), [40.0, 41.0])
    >>> results = pa.record_batch({"row": np.arange(502), "label": [0] * 502, "score": scores})
    >>> alarming = Alarming(AlarmRule(0.001))
    >>> judged = alarming.judge(results)
    >>> told = alarming.tell(results, judged, [None] * judged.began.sum())
    >>> told.select(["row", "score", "status"]).to_pylist()[-1]
    {'row': 500, 'score': 40.0, 'status': 'firing'}
    """

    def __init__(self, rule: AlarmRule, names: Names | None = None) -> None:
        self.n_silenced = 0
        self._names = names  # which have the silences that people set
        self.change(rule)
        self._began: dict[str, Any] = {}  # by key: row of the alarm that is on, and regime before
        self.known = False  # whether any row had a threshold
        self._changed: set[str] = set()  # keys, since the last `save`
        self._waiting: Any = None  # alarms whose message is not complete
        self._since = 0.0

    def change(self, rule: AlarmRule) -> None:
        """Go on by another rule; with another rate, what is usual is learned again."""
        window = None if rule.group is None else seconds_of(rule.group, "--alarm-group")
        silences = Silences(rule.silences)
        alarm = Alarm(rule.rate, per=rule.per)
        known = getattr(self, "alarm", None)
        if known is None or (known.rate, known.per) != (alarm.rate, alarm.per):
            self.alarm = alarm
        self._by, self._group = rule.by, rule.group
        self._window, self._silences = window, silences

    def save(self, store: SqliteStore) -> dict[str, Any]:
        """Put what is known of keys aside; return what a cursor keeps besides, a JSON value."""
        store.put_aside(_OP, self.alarm.parts(sorted(self._changed)))
        self._changed.clear()
        state: dict[str, Any] = {"began": self._began, "silenced": self.n_silenced}
        state["known"] = self.known
        state["alarm"] = base64.b64encode(self.alarm.to_bytes(keys=False)).decode()
        if self._waiting is not None:
            state["waiting"] = base64.b64encode(arrow_stream([self._waiting])).decode()
        return state

    def restore(self, state: dict[str, Any] | None, store: SqliteStore | None) -> None:
        """Go on from what `save` returned and put aside."""
        if state is None or store is None:
            return
        kept = Alarm.from_bytes(base64.b64decode(state["alarm"]))
        if (kept.rate, kept.per) == (self.alarm.rate, self.alarm.per):  # else it starts over
            self.alarm = kept
            self.alarm.join(store.states(_OP))
        self._began, self.n_silenced = dict(state["began"]), state["silenced"]
        self.known = state["known"]
        if "waiting" in state:
            self._waiting = read_stream(base64.b64decode(state["waiting"]))

    def judge(self, results: Any, verdicts: Any = None) -> Alarms:
        """Judge the rows of results, as a sink gets them; ``verdicts`` as for `Alarm.step_many`."""
        names, keys = results.schema.names, None
        if "key" in names:
            keys = results.column("key").cast(pa.string()).to_pylist()
            self._changed.update(keys)
        scores = results.column("score").cast(pa.float64()).to_numpy(zero_copy_only=False)
        t = results.column("time") if self.alarm.per is not None and "time" in names else None
        labels = (
            results.column("label").to_numpy(zero_copy_only=False) if "label" in names else None
        )
        judged = self.alarm.step_many(scores, keys=keys, t=t, labels=labels, verdicts=verdicts)
        self.known = self.known or bool(np.isfinite(judged.threshold).any())
        return judged

    def tell(
        self, results: Any, judged: Alarms, causes: Sequence[Explanation | None],
        names: Names | None = None,
    ) -> Any:  # fmt: skip
        """Return the messages that are complete: of alarms that begin (firing) and end (resolved).

        Each is the row of its first alarm, with its ``score`` as it was judged, ``threshold``,
        ``status``, the row at which it ``began``, ``why``, how many alarms it is about, ``n``, the
        first 1,000 ``keys`` of these, and a ``text``. ``causes`` are those of the rows at which
        alarms begin. With ``names`` there are the columns ``name`` and ``verdict``, too.
        """
        at = np.flatnonzero(judged.began | judged.ended)
        kept = [name for name in _COLUMNS if name in results.schema.names]
        news = results.select(kept).take(pa.array(at, pa.int64()))
        news = news.set_column(kept.index("score"), "score", pa.array(judged.score[at]))
        keys, began, whys, briefs, given = self._keys(news), [], [], [], iter(causes)
        states = results.column("state") if "state" in results.schema.names else None
        for place, key, row in zip(at.tolist(), keys, news.column("row").to_pylist(), strict=True):
            state = None if states is None else states[place].as_py()
            if judged.began[place]:
                cause = next(given)
                self._began[key] = [row, None if cause is None else cause.regime]
                began.append(row)
                alone = results.column("score")[place].as_py() > judged.threshold[place]
                whys.append(_why(cause, None if alone else state))
                briefs.append(_brief(cause))
            else:
                first, before = self._began.pop(key, (row, None))
                began.append(first)
                after = None if None in (before, state) else _AFTER[before == state]
                whys.append(after)
                briefs.append([after] if after else [])
        statuses = np.where(judged.began[at], FIRING, RESOLVED).tolist()
        news = news.append_column("threshold", pa.array(judged.threshold[at]))
        news = news.append_column("status", pa.array(statuses, pa.string()))
        news = news.append_column("began", pa.array(began, pa.int64()))
        news = news if names is None else names.put_on(news)
        news = news.append_column("why", pa.array(whys, pa.string()))
        news = news.append_column(_BRIEF, pa.array(briefs, pa.list_(pa.string())))
        stamped = "time" in kept and pa.types.is_timestamp(news.schema.field("time").type)
        others = () if self._names is None else self._names.quiet
        silent = self._silences.cover(keys, _seconds(news) if stamped else None, others)
        for key, row, status, said in zip(keys, began, statuses, silent, strict=True):
            if said is not None and status == FIRING:
                self.n_silenced += 1
                who = f"{self._by} {key}" if key else "the stream"
                _LOG.info("an alarm of %s at row %d is silent (%s)", who, row, said)
        news = news.filter(pa.array([said is None for said in silent], pa.bool_()))
        if self._window is None or "time" not in kept:
            return self._told(news, [news.slice(place, 1) for place in range(len(news))])
        if self._waiting is None:
            self._waiting, self._since = news.slice(0, 0), time.monotonic()
        self._waiting = pa.concat_batches([self._waiting, news])
        return self.release(float(_seconds(results)[-1]) if len(results) else -np.inf)

    @property
    def overdue(self) -> bool:
        """Whether a message has waited long enough by the clock."""
        waits = self._waiting is not None and len(self._waiting) > 0
        return waits and time.monotonic() - self._since > (self._window or 0.0)

    def release(self, now: float = np.inf) -> Any:
        """Return the messages that wait and are complete at a time; by default all, or None."""
        waiting = self._waiting
        if waiting is None:
            return None
        window = self._window or 0.0
        groups, kept = [], [np.empty(0, np.int64)]
        for status in (FIRING, RESOLVED):
            rows = np.flatnonzero(np.array(waiting.column("status").to_pylist()) == status)
            t = _seconds(waiting)[rows]
            while len(rows):
                n = max(int(np.searchsorted(t, t[0] + window, side="right")), 1)
                if n == len(rows) < _MOST and now <= t[0] + window:
                    kept.append(rows)
                    break
                groups.append(waiting.take(pa.array(rows[:n])))
                rows, t = rows[n:], t[n:]
        self._waiting = waiting.take(pa.array(np.sort(np.concatenate(kept))))
        if groups:
            self._since = time.monotonic()
        return self._told(waiting, groups)

    def _told(self, news: Any, groups: list[Any]) -> Any:
        """Make one message of each group of news."""
        first = pa.concat_batches([news.slice(0, 0), *(group.slice(0, 1) for group in groups)])
        keys, rows = [self._keys(group) for group in groups], first.to_pylist()
        briefs = [group.column(_BRIEF).to_pylist() for group in groups]
        texts = [self._text(*of) for of in zip(keys, rows, briefs, strict=True)]
        first = first.drop_columns([_BRIEF])
        first = first.append_column("n", pa.array([len(group) for group in groups], pa.int64()))
        if "key" in news.schema.names:
            named = [", ".join(of[:_NAMED]) for of in keys]
            first = first.append_column("keys", pa.array(named, pa.string()))
        return first.append_column("text", pa.array(texts, pa.string()))

    def _text(self, keys: list[str], first: dict[str, Any], briefs: list[list[str]]) -> str:
        """Say in a sentence what happened, and why; of several what they have in common."""
        regime = f" ({first['name']})" if first.get("name") else ""
        colon, what = ":", f" began something new{regime}"
        if first["status"] == RESOLVED:
            colon, what = ",", f" {'is' if len(keys) == 1 else 'are'} calm again{regime}"
        elif first.get("verdict") == "fault":
            what = f" entered {first.get('name') or 'a regime'}, marked as a fault"
        if len(keys) == 1:
            said = f"{self._by} {keys[0]}" if keys[0] else "the stream"
            return f"{said}{what}{colon} {first['why']}" if first["why"] else said + what
        names = list(dict.fromkeys(keys))
        counts = Counter(brief for of in briefs for brief in of).most_common(_SHARED)
        shared = [f"{brief} in {n if n < len(keys) else 'all'}" for brief, n in counts if n > 1]
        why = f"{colon} {', '.join(shared)}" if shared else ""
        more = ", ..." if len(names) > MENTIONED else ""
        return (
            f"{self._by}: {len(names):,} of {self.alarm.n_keys:,}{what} within {self._group}{why} "
            f"({', '.join(names[:MENTIONED])}{more})"
        )

    @staticmethod
    def _keys(news: Any) -> list[str]:
        if "key" not in news.schema.names:
            return [""] * len(news)
        return [str(key) for key in news.column("key").to_pylist()]


def _why(cause: Explanation | None, added_up: int | None) -> str | None:
    """Return why an alarm began; where rows of the regime ``added_up`` did it, that they did."""
    if cause is None or not cause.why:
        return None
    adds_up = added_up is not None and cause.regime == added_up
    return f"small deviations that add up, now {cause.why}" if adds_up else cause.why


def _brief(cause: Explanation | None) -> list[str]:
    """Return in a word or two each what an alarm may have in common with others."""
    sides = {True: " high", False: " low"}
    return [
        part.name + ("" if math.isnan(part.deviations) else sides[part.deviations > 0.0])
        for i, part in enumerate(() if cause is None else cause.parts[:_SHARED])
        if not i or part.excess >= LEAST
    ]


def _seconds(news: Any) -> Any:
    return batch_times(news.column("time"), len(news))
