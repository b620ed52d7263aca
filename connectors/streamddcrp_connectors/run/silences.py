"""Times at which alarms of some keys are not reported, from a TOML file."""

import datetime as dt
import re
import time
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamddcrp.errors import ConfigError

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WEEKLY = re.compile(r"(\w{3}) (\d\d):(\d\d) *- *(\w{3}) (\d\d):(\d\d)")
_WEEK = 7 * 86_400
_MONDAY = 4 * 86_400  # 1970-01-05


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
        self._silences: list[tuple[str, float, float, tuple[int, int] | None]] = []
        self._look()

    def cover(self, keys: list[Any], times: Any) -> NDArray[np.bool_]:
        """Return which alarms are silent; ``times`` in seconds since 1970, None: now."""
        if self._path is None or not keys:
            return np.zeros(len(keys), np.bool_)
        self._look()
        times = np.full(len(keys), time.time()) if times is None else times
        return np.array([self._covers(str(key), t) for key, t in zip(keys, times, strict=True)])

    def _covers(self, key: str, t: float) -> bool:
        for pattern, begin, end, weekly in self._silences:
            if begin <= t < end and fnmatchcase(key, pattern):
                start, length = weekly or (0, _WEEK)
                if (t - _MONDAY - start) % _WEEK < length:
                    return True
        return False

    def _look(self) -> None:
        if self._path is None:
            return
        try:
            changed = self._path.stat().st_mtime_ns
            if changed != self._read_at:
                found = tomllib.loads(self._path.read_text(encoding="utf-8"))
                self._silences = [_silence(table) for table in found.get("silence", [])]
                self._read_at = changed
        except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
            raise ConfigError(f"cannot read the silences {self._path}: {error}") from error


def _silence(table: dict[str, Any]) -> tuple[str, float, float, tuple[int, int] | None]:
    unknown = table.keys() - {"key", "from", "until", "weekly", "by", "reason"}
    if unknown:
        raise ValueError(f"unknown entry {min(unknown)!r}")
    begin, end = (
        _seconds(table[name]) if name in table else otherwise
        for name, otherwise in (("from", -np.inf), ("until", np.inf))
    )
    return str(table.get("key", "*")), begin, end, _weekly(table.get("weekly"))


def _seconds(moment: Any) -> float:
    if isinstance(moment, str):
        moment = dt.datetime.fromisoformat(moment)
    if not isinstance(moment, dt.datetime):
        moment = dt.datetime(moment.year, moment.month, moment.day)
    return float((moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp())


def _weekly(text: str | None) -> tuple[int, int] | None:
    """Return where in the week a time begins, and how long it lasts, in seconds."""
    if text is None:
        return None
    found = _WEEKLY.fullmatch(text.strip().lower())
    if found is None or not {found[1], found[4]} <= {*_DAYS}:
        raise ValueError(f'weekly must be as in "Sat 22:00 - Sun 06:00", got {text!r}')
    start, end = (
        _DAYS.index(found[i]) * 86_400 + int(found[i + 1]) * 3600 + int(found[i + 2]) * 60
        for i in (1, 4)
    )
    return start, (end - start) % _WEEK or _WEEK
