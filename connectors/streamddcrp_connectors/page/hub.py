"""Send each browser no more than it can show, no faster than it can take it."""

import json
import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from tornado.ioloop import IOLoop

from streamddcrp.plots.palette import COLOURS, DARK
from streamddcrp_connectors.page.frames import packed
from streamddcrp_connectors.page.pyramid import ALARMS, BEGIN, END, LABEL, N_OWN, SCORE, THRESHOLD
from streamddcrp_connectors.run.names import Names

if TYPE_CHECKING:  # slow to import: the page is up first
    from streamddcrp_connectors.page.streams import Stream, Streams

PAUSE = 0.12  # seconds between pictures, at least
SLOW = 1.0  # seconds between tables and between pictures of a fleet
MOST_BUCKETS = 1200
REGIMES = 60
LANES = 8  # columns drawn
CARD = 80  # buckets of a card
BANDS = 12  # stories drawn
CHUNKS = 72  # of a stream graph
OWN = {"begin": BEGIN, "end": END, "label": LABEL, "score": SCORE, "threshold": THRESHOLD,
       "alarms": ALARMS}  # fmt: skip


class Browser:
    """What a browser wants to see and has received."""

    def __init__(self, link: Any) -> None:
        self.link = link  # its connection: ``send(frame)``, and ``end()`` to be awaited
        self.want: dict[str, Any] | None = None
        self.waiting = 0  # frames not yet acknowledged
        self.has: tuple[int, int] | None = None  # level, and its complete buckets there
        self.seen: dict[str, int] = {}  # version last sent, by key
        self.event = 0
        self.tables_at = 0.0

    def show(self, asked: dict[str, Any]) -> None:
        span, end = (finite(asked.get(name)) for name in ("span", "end"))
        most = finite(asked.get("most")) or 600.0
        columns = asked.get("columns")
        columns = columns if isinstance(columns, list) else []
        before = self.want
        self.want = {
            "id": int(finite(asked.get("id")) or 0),
            "key": str(asked.get("key") or ""),
            "fleet": asked.get("fleet") is True,
            "span": span,
            "end": end,
            "most": int(min(max(most, 50.0), MOST_BUCKETS)),
            "lanes": int(min(max(finite(asked.get("lanes")) or LANES, 1.0), LANES)),
            "columns": sorted({d for d in columns if type(d) is int and d >= 0})[:LANES],
        }
        self.has = None
        self.seen.pop("view", None)
        same = before and all(before[name] == self.want[name] for name in ("key", "fleet"))
        if not same:
            self.seen, self.event, self.tables_at = {}, 0, 0.0


class Hub:
    """Sends changes to all browsers at a limited rate, never ahead of a slow one."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.streams: Streams | None = None
        self.dropped = 0
        self.ended = False
        self._browsers: set[Browser] = set()
        self._due: Any = None
        self._later: Any = None
        self._last = 0.0
        self._cards: dict[str, Any] = {}  # of this flush, for all browsers
        self._when = 0.0  # see `clock`
        self._rate = (0.0, 0, 0.0)  # time, rows by then, rows a second

    def join(self, browser: Browser) -> None:
        self._browsers.add(browser)
        browser.link.send(json.dumps(self._hello()))

    def leave(self, browser: Browser) -> None:
        self._browsers.discard(browser)

    async def end(self) -> None:
        """Disconnect all browsers; they reconnect when the page does."""
        for browser in tuple(self._browsers):
            await browser.link.end()

    def begin(self, streams: "Streams") -> None:
        self.streams = streams
        for browser in tuple(self._browsers):  # a browser that has gone removes itself
            browser.has, browser.seen, browser.event = None, {}, 0
            browser.link.send(json.dumps(self._hello()))
        self.changed()

    def changed(self) -> None:
        """Schedule an update."""
        if self._due is None:
            wait = max(0.0, self._last + PAUSE - time.monotonic())
            self._due = IOLoop.current().call_later(wait, self._flush)

    def _flush(self) -> None:
        self._due, self._last = None, time.monotonic()
        self._cards.clear()
        self._when = self.clock() if self._browsers else 0.0
        for browser in tuple(self._browsers):  # a browser that has gone removes itself
            if browser.want is None or self.streams is None:
                continue
            if browser.waiting:
                continue  # its acknowledgement triggers another flush
            self._send_silences(browser, self.streams)
            if browser.want["fleet"]:
                self._send_cards(browser, self.streams)
            else:
                self._send_stream(browser, self.streams)
        if self._later is None and any(self._last - b.tables_at < SLOW for b in self._browsers):
            self._later = IOLoop.current().call_later(SLOW, self._once_more)

    def _once_more(self) -> None:
        """Send tables that were held back when something last changed."""
        self._later = None
        self.changed()

    def _hello(self) -> dict[str, Any]:
        hello = {"type": "hello", "palette": {"light": COLOURS, "dark": DARK}}
        return hello | {"job": self.streams and self.streams.job._asdict()}

    def clock(self) -> float:
        """Return the clock for silences (s since 1970): time of the rows, or now."""
        return time.time() if self.streams is None else self.streams.clock(time.time())

    def _send_silences(self, browser: Browser, streams: "Streams") -> None:
        """Send current and coming silences, if the run supports them."""
        now = self._when
        standing = [i for i, silence in enumerate(self.names.quiet) if now < silence.end]
        version = hash((self.names.version, len(standing)))
        if browser.seen.get("silences") != version and streams.job.live and self.names.kept:
            browser.seen["silences"] = version
            tables = [self.names.silences[i] | {"place": i} for i in standing]
            browser.link.send(json.dumps({"type": "silences", "silences": tables}))

    # -- one stream ------------------------------------------------------------------------------

    def _send_stream(self, browser: Browser, streams: "Streams") -> None:
        want = browser.want or {}
        stream = streams.of.get(want["key"])
        if stream is None:
            if browser.seen.get("") != -2:
                browser.seen[""] = -2
                browser.link.send(json.dumps({"type": "unknown", "key": want["key"]}))
            return
        live = want["end"] is None
        versions = stream.version, self.names.version, self.dropped, self.ended, *stream.drawn
        if self._last - browser.tables_at >= SLOW and browser.seen.get("tables") != hash(versions):
            browser.seen["tables"] = hash(versions)
            browser.tables_at = self._last
            browser.link.send(self._tables(browser, want["key"], stream, streams))
        version = hash((stream.version if live else 0, self.names.version))
        if browser.seen.get("view") == version:
            return
        browser.seen["view"] = version
        first, last = stream.pyramid.span
        end = last if live else want["end"]
        begin = first if want["span"] is None else end - want["span"]
        frames = [self._view(browser, want, stream, begin, end, streams.learned)]
        if stream.volumes is not None:
            volumes = stream.volumes.view(begin, end, CHUNKS, stream.became)
            frames.append(_graph(want, stream, *volumes))
        browser.waiting += len(frames)
        for frame in frames:
            browser.link.send(frame)

    def _view(
        self, browser: Browser, want: dict[str, Any], stream: "Stream", begin: float, end: float,
        learned: float,
    ) -> bytes:  # fmt: skip
        level, first, buckets = stream.pyramid.view(begin, end, want["most"])
        D = stream.pyramid.n_columns
        columns = [d for d in want["columns"] if d < D] or stream.columns(begin, end, want["lanes"])
        start = first
        if browser.has is not None and browser.has[0] == level:
            start = min(max(browser.has[1], first), first + len(buckets))
        browser.has = level, first + max(len(buckets) - 1, 0)
        header = {
            "type": "view", "id": want["id"], "level": level, "first": first, "from": start,
            "span": [begin, end], "known": [finite(x) for x in stream.pyramid.span],
            "shown": columns, "now": self._now(want["key"], stream), "learned": learned,
        }  # fmt: skip
        return packed(header, _columns(buckets[start - first :], columns, D))

    def _now(self, key: str, stream: "Stream") -> dict[str, Any]:
        now = stream.now()
        alarmed = now.get("alarmed")
        raised = alarmed is not None and alarmed > self.names.acknowledged(key)
        when = self._when
        if alarmed is not None and raised and self.streams is not None and self.streams.job.stamped:
            when = alarmed / 1e3
        silent = self.names.silent(key, when)
        raised = raised and silent is None
        by = self.names.acknowledged_by(key)
        seen = {"alarms": stream.n_alarms, "rows": stream.pyramid.n_rows}
        return now | seen | {"raised": raised, "by": by, "silent": silent}

    def _tables(self, browser: Browser, key: str, stream: "Stream", streams: "Streams") -> str:
        acknowledged = self.names.acknowledged(key)
        regimes = stream.regimes.table(REGIMES, stream.drawn)
        for regime in regimes:
            regime["live"] = regime["label"] not in stream.gone
            regime["new"] = bool(np.isfinite(acknowledged) and regime["first"] > acknowledged)
        wanted = {regime["label"] for regime in regimes} | set(stream.drawn)
        for entry in stream.feed.since(0):
            wanted |= {entry["label"], entry["into"]}
        events = stream.feed.since(browser.event)
        browser.event = stream.feed.last_id
        return json.dumps({
            "type": "tables", "key": key, "regimes": regimes, "events": events,
            "stories": [stream.stories[label] for label in wanted if label in stream.stories],
            "counts": stream.counts, "texts": stream.texts[-8:], "names": self.names.of(key),
            "numbers": stream.numbers.of, "verdicts": self.names.verdicts_of(key),
            "rows": streams.n_rows, "rate": self._rows_a_second(streams.n_rows),
            "dropped": self.dropped, "ended": self.ended,
        })  # fmt: skip

    def _rows_a_second(self, n_rows: int) -> float:
        then, rows, rate = self._rate
        passed = self._last - then
        if passed >= 0.9 * SLOW:
            rate = max(0.0, (n_rows - rows) / passed) if then else 0.0
            self._rate = (self._last, n_rows, rate)
        return rate

    # -- a fleet ---------------------------------------------------------------------------------

    def _send_cards(self, browser: Browser, streams: "Streams") -> None:
        if self._last - browser.tables_at < SLOW:
            return
        browser.tables_at = self._last
        changed = [
            (key, stream)
            for key, stream in streams.of.items()
            if browser.seen.get(f"/{key}") != stream.version + (self.names.version << 40)
        ]
        for key, stream in changed:
            browser.seen[f"/{key}"] = stream.version + (self.names.version << 40)
            if key not in self._cards:
                self._cards[key] = self._card(key, stream)
        cards = [self._cards[key] for key, _ in changed]
        header = {
            "type": "cards",
            "id": (browser.want or {})["id"],
            "cards": [card for card, _, _ in cards],
            "rows": streams.n_rows,
            "rate": self._rows_a_second(streams.n_rows),
            "dropped": self.dropped,
            "ended": self.ended,
            "learned": streams.learned,
        }
        none = np.empty(0)
        labels, scores = (np.concatenate([none, *(card[k] for card in cards)]) for k in (1, 2))
        browser.waiting += 1
        browser.link.send(packed(header, {"label": labels, "score": scores}))

    def _card(self, key: str, stream: "Stream") -> tuple[dict[str, Any], Any, Any]:
        buckets = stream.pyramid.view(-math.inf, math.inf, CARD).buckets
        now = self._now(key, stream)
        label, labels = now["label"], buckets[:, LABEL]
        other = np.flatnonzero((labels != labels[-1:]) & (labels >= 0))
        since = float(buckets[other[-1] + 1, BEGIN]) if len(other) else None
        regime = {"name": self.names.of(key).get(label), "number": stream.numbers.of.get(label)}
        card = {"key": key, **regime, "n": len(buckets), "since": since, **now}
        return card, labels, buckets[:, SCORE]


def _graph(
    want: dict[str, Any], stream: "Stream", starts: Any, ends: Any, counts: dict[int, Any]
) -> bytes:
    labels = stream.drawn = [label for label in counts if label >= 0][:BANDS]
    rest = sum((n for label, n in counts.items() if label not in labels), np.zeros(len(starts)))
    header = {"type": "graph", "id": want["id"], "labels": labels}
    bands = {f"n{i}": counts[label] for i, label in enumerate(labels)}
    return packed(header, {"begin": starts, "end": ends, "rest": rest} | bands)


def _columns(buckets: Any, columns: list[int], D: int) -> dict[str, Any]:
    out = {name: buckets[:, place] for name, place in OWN.items()}
    for d in columns:
        for k, what in enumerate(("low", "high", "mean")):
            out[f"{what}{d}"] = buckets[:, N_OWN + k * D + d]
    return out


def finite(value: Any) -> float | None:
    """Return a number for JSON; None if it is missing or not finite."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if good else None
