"""Names and verdicts that people give to regimes, kept with the checkpoint."""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from streamddcrp.checkpoint import write_atomic
from streamddcrp.errors import CheckpointError, ConfigError
from streamddcrp.validation import VERDICTS, choice

FILE = "page-names.json"
LONGEST = 60  # letters of a name
MOST = 10_000
SEEN = 1000  # acknowledgements that are kept


class Names:
    """Names and verdicts that people gave to regimes, and what they acknowledged.

    Examples
    --------
    >>> names = Names(None)
    >>> names.give("", 3, "  cleaning ")
    >>> names.of("")
    {3: 'cleaning'}
    """

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / FILE
        self._names: dict[str, dict[int, str]] = {}
        self._verdicts: dict[str, dict[int, str]] = {}
        self._acknowledged: dict[str, float] = {}
        self.history: list[dict[str, Any]] = []  # who acknowledged what, and when
        self.version = 0
        self._read_at = 0  # when the file was written that was read last
        if self._path is not None and self._path.exists():
            self._read(self._path)

    def of(self, key: str) -> dict[int, str]:
        return self._names.get(key, {})

    def _refresh(self) -> None:
        """Read the file again if another process has changed it."""
        if self._path is not None:
            with suppress(FileNotFoundError):
                if self._path.stat().st_mtime_ns != self._read_at:
                    self._read(self._path)

    def verdicts_of(self, key: str) -> dict[int, str]:
        """Return the verdicts on regimes of a stream that are not normal, by label."""
        return self._verdicts.get(key, {})

    def verdicts(self, results: Any) -> Any:
        """Return the verdict on each row, as an `Alarm` takes them; None where all are normal."""
        self._refresh()
        if not any(self._verdicts.values()):
            return None
        from streamddcrp.monitor.alarm import verdicts_of  # noqa: PLC0415 -- heavy: not for pages

        label = results.column("label").fill_null(-1).to_numpy(zero_copy_only=False)
        state = results.column("state").to_numpy() if "state" in results.schema.names else label
        if "key" not in results.schema.names:
            return verdicts_of(self.verdicts_of(""), label, state)
        keys = np.array(list(map(str, results.column("key").to_pylist())))
        found = np.full(len(keys), VERDICTS[0], "U7")
        for key in set(self._verdicts).intersection(keys):
            at = keys == key
            found[at] = verdicts_of(self.verdicts_of(key), label[at], state[at])
        return found

    def put_on(self, batch: Any) -> Any:
        """Add the columns ``name`` and ``verdict``, of each row's label, to events or alarms."""
        self._refresh()
        by_key = "key" in batch.schema.names
        keys = batch.column("key").to_pylist() if by_key else [""] * batch.num_rows
        rows = [*zip(map(str, keys), batch.column("label").to_pylist(), strict=True)]
        for column, of in (("name", self.of), ("verdict", self.verdicts_of)):
            words = pa.array([of(key).get(label) for key, label in rows], pa.string())
            batch = batch.append_column(column, words)
        return batch

    def acknowledged(self, key: str) -> float:
        """Return the time up to which alarms of a stream were acknowledged."""
        return self._acknowledged.get(key, -np.inf)

    def acknowledged_by(self, key: str) -> str:
        """Return who last acknowledged alarms of a stream, if they said so."""
        return next((seen["by"] for seen in reversed(self.history) if key in seen["keys"]), "")

    def give(self, key: str, label: int, name: str, verdict: str = VERDICTS[0]) -> None:
        """Name a regime and judge it; an empty name takes its name away."""
        normal = choice("verdict", verdict, VERDICTS) == VERDICTS[0]
        for given, text in (
            (self._names, _plain(name)),
            (self._verdicts, "" if normal else verdict),
        ):
            of = given.setdefault(key, {})
            if not text:
                of.pop(label, None)
            elif sum(map(len, given.values())) < MOST or label in of:
                of[label] = text
        self._write()

    def acknowledge(self, times: Mapping[str, float], by: str = "") -> list[str]:
        """Note that somebody has seen the alarms of streams up to a time each; return which."""
        seen = []
        for key, t in times.items():
            room = len(self._acknowledged) < MOST or key in self._acknowledged
            if room and t > self.acknowledged(key):
                self._acknowledged[key] = t
                seen.append(key)
        if seen:
            self.history.append({"at": time.time(), "by": _plain(by), "keys": seen})
            del self.history[:-SEEN]
        self._write()
        return seen

    def _read(self, path: Path) -> None:
        try:
            self._read_at = path.stat().st_mtime_ns
            kept = json.loads(path.read_text(encoding="utf-8"))
            self._names, self._acknowledged = {}, {}
            for key, names in kept["names"].items():
                self._names[key] = {int(label): str(name) for label, name in names.items()}
            self._verdicts = {
                str(key): {
                    int(label): choice("verdict", one, VERDICTS) for label, one in of.items()
                }
                for key, of in kept.get("verdicts", {}).items()
            }
            for key, t in kept["acknowledged"].items():
                self._acknowledged[key] = float(t)
            self.history = [
                {"at": float(seen["at"]), "by": str(seen["by"]), "keys": [*map(str, seen["keys"])]}
                for seen in kept.get("history", [])
            ]
        except (OSError, ValueError, LookupError, TypeError, AttributeError, ConfigError) as error:
            message = f"{path} does not hold names of regimes: {error}; restore or remove it"
            raise CheckpointError(message) from error

    def _write(self) -> None:
        self.version += 1
        if self._path is not None:
            kept: dict[str, Any] = {"names": self._names, "acknowledged": self._acknowledged}
            kept |= {"verdicts": self._verdicts, "history": self.history}
            write_atomic(self._path, json.dumps(kept, indent=1).encode())


def _plain(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:LONGEST]
