"""Times at which alarms of some keys are not reported, from a TOML file or set on the page."""

import datetime as dt
import re
import time
import tomllib
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from streamddcrp.errors import ConfigError

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WEEKLY = re.compile(r"(\w{3}) (\d\d):(\d\d) *- *(\w{3}) (\d\d):(\d\d)")
_WEEK = 7 * 86_400
_MONDAY = 4 * 86_400  # 1970-01-05


class Silence(NamedTuple):
    """A time at which alarms of some keys are counted, but not told."""

    key: str  # or a pattern
    begin: float
    end: float
    weekly: tuple[int, int]  # where in the week it begins, and how long it lasts (s)
    said: str  # why, and by whom

    @classmethod
    def of(cls, table: dict[str, Any]) -> Self:
        """Read a table of `Silences`; ValueError if it is malformed."""
        unknown = table.keys() - {"key", "from", "until", "weekly", "by", "reason"}
        if unknown:
            raise ValueError(f"unknown entry {min(unknown)!r}")
        begin, end = (
            _seconds(table[name]) if name in table else otherwise
            for name, otherwise in (("from", -np.inf), ("until", np.inf))
        )
        said = ", ".join(str(table[name]) for name in ("reason", "by") if table.get(name))
        return cls(str(table.get("key", "*")), begin, end, _weekly(table.get("weekly")), said)

    def covers(self, key: str, t: float) -> bool:
        """Whether a key is silent at a time, in seconds since 1970."""
        start, length = self.weekly
        weekly = (t - _MONDAY - start) % _WEEK < length
        meant = key == self.key or fnmatchcase(key, self.key)
        return self.begin <= t < self.end and weekly and meant


def reason_of(silences: Iterable[Silence], key: str, t: float) -> str | None:
    """Return why a key is silent at a time, None: it is not."""
    return next((silence.said for silence in silences if silence.covers(key, t)), None)


class Silences:
    """Silences of a file, read again when it has changed; without a file nothing is silent.

    Each is a table ``[[silence]]`` with ``key`` (a name or a pattern such as ``"pump*"``; all, if
    it is left out), ``from`` and ``until`` (date and time), ``weekly`` (such as
    ``"Sat 22:00 - Sun 06:00"``), ``by`` and ``reason``. Times are of the rows where these have time
    stamps, else of the clock; UTC, unless they name another zone.
    """

    def __init__(self, path: str | Path | None) -> None:
        self._path = None if path is None else Path(path)
        self._read_at = 0
        self._silences: list[Silence] = []
        self._look()

    def cover(
        self, keys: list[Any], times: Any, others: Iterable[Silence] = ()
    ) -> list[str | None]:
        """Return why and by whom each alarm is silent, None: it is not.

        ``times`` in seconds since 1970, None: now. ``others``: silences that are not of the file.
        """
        self._look()
        times = np.full(len(keys), time.time()) if times is None else times
        known = [*self._silences, *others]
        return [reason_of(known, str(key), t) for key, t in zip(keys, times, strict=True)]

    def _look(self) -> None:
        if self._path is None:
            return
        try:
            changed = self._path.stat().st_mtime_ns
            if changed != self._read_at:
                found = tomllib.loads(self._path.read_text(encoding="utf-8"))
                self._silences = [Silence.of(table) for table in found.get("silence", [])]
                self._read_at = changed
        except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
            raise ConfigError(f"cannot read the silences {self._path}: {error}") from error


def _seconds(moment: Any) -> float:
    if isinstance(moment, str):
        moment = dt.datetime.fromisoformat(moment)
    if not isinstance(moment, dt.datetime):
        moment = dt.datetime(moment.year, moment.month, moment.day)
    return float((moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp())


def stamp(t: float) -> str:
    """Write a time, in seconds since 1970, as silences have them."""
    return dt.datetime.fromtimestamp(t, dt.UTC).isoformat(timespec="seconds")


def _weekly(text: str | None) -> tuple[int, int]:
    """Return where in the week a time begins, and how long it lasts, in seconds."""
    if text is None:
        return 0, _WEEK
    found = _WEEKLY.fullmatch(text.strip().lower())
    if found is None or not {found[1], found[4]} <= {*_DAYS}:
        raise ValueError(f'weekly must be as in "Sat 22:00 - Sun 06:00", got {text!r}')
    start, end = (
        _DAYS.index(found[i]) * 86_400 + int(found[i + 1]) * 3600 + int(found[i + 2]) * 60
        for i in (1, 4)
    )
    return start, (end - start) % _WEEK or _WEEK
