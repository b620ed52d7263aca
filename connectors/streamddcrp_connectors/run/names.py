"""Names, verdicts, acknowledgements and silences that people gave, kept with the checkpoint."""

import json
import logging
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
from streamddcrp_connectors.run.silences import Silence, reason_of, stamp

FILE = "page-names.json"
LONGEST = 60  # letters of a name
MOST = 10_000
MENTIONED = 20  # keys that a sentence names
SEEN = 1000  # of what people did, that are kept
SILENCES = 200  # that are kept, those over too
ACKNOWLEDGED, SILENCED, HEARD = "acknowledged", "silenced", "ended the silence of"
_LOG = logging.getLogger("streamddcrp.run")


class Names:
    """Names and verdicts that people gave to regimes, what they acknowledged and silenced.

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
        self._keep([])
        self.history: list[dict[str, Any]] = []  # who did what, and when
        self.version = 0
        self._read_at = 0  # when the file was written that was read last
        self._refresh(said=True)

    @property
    def kept(self) -> bool:
        """Whether they outlive the process, so that a run hears of them."""
        return self._path is not None

    def of(self, key: str) -> dict[int, str]:
        return self._names.get(key, {})

    def _refresh(self, *, said: bool = False) -> None:
        """Read the file again if another process has changed it; log what people did."""
        if self._path is None:
            return
        with suppress(FileNotFoundError):
            if self._path.stat().st_mtime_ns != self._read_at:
                known = self.history[-1]["at"] if self.history else -np.inf
                self._read(self._path)
                for done in self.history if not said else ():
                    if done["at"] > known:
                        _LOG.info("%s", _sentence(done))

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
        seen = (done for done in reversed(self.history) if done["did"] == ACKNOWLEDGED)
        return next((done["by"] for done in seen if key in done["keys"]), "")

    def silent(self, key: str, t: float) -> str | None:
        """Return why and by whom a stream is silent at a time (s since 1970), None: it is not."""
        return reason_of(self.quiet, key, t)

    def silence(self, table: Mapping[str, str], by: str = "") -> None:
        """Set a silence, given as a table of `Silences`; ValueError if it is malformed."""
        self._refresh()
        told = {name: str(text) for name, text in table.items() if text}
        told |= {"reason": _plain(told.get("reason", "")), "by": _plain(by)}
        made = Silence.of(told)
        if not made.begin < made.end:
            raise ValueError("a silence must end after it begins")
        self._keep([*self.silences, told][-SILENCES:])
        when = [f"{name} {told[name]}" for name in ("from", "until", "weekly") if name in told]
        why = f" ({told['reason']})" if told["reason"] else ""
        self._did(SILENCED, by, [made.key], " ".join(when) + why)

    def end_silence(self, at: int, t: float, by: str = "") -> None:
        """End a silence, by its place, at a time (s since 1970)."""
        self._refresh()
        table = self.silences[at]
        if t < Silence.of(table).end:
            over = table | {"until": stamp(t)}
            self._keep([*self.silences[:at], over, *self.silences[at + 1 :]])
            self._did(HEARD, by, [table.get("key", "*")])

    def _keep(self, tables: list[dict[str, str]]) -> None:
        self.quiet = [Silence.of(table) for table in tables]
        self.silences = tables

    def _did(self, did: str, by: str, keys: list[str], what: str = "") -> None:
        """Keep what somebody did."""
        done = {"at": time.time(), "did": did, "by": _plain(by), "keys": keys, "what": what}
        self.history = [*self.history, done][-SEEN:]
        self._write()

    def give(self, key: str, label: int, name: str, verdict: str = VERDICTS[0]) -> None:
        """Name a regime and judge it; an empty name takes its name away."""
        self._refresh()
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
        self._refresh()
        seen = []
        for key, t in times.items():
            room = len(self._acknowledged) < MOST or key in self._acknowledged
            if room and t > self.acknowledged(key):
                self._acknowledged[key] = t
                seen.append(key)
        if seen:
            self._did(ACKNOWLEDGED, by, seen)
        return seen

    def _read(self, path: Path) -> None:
        try:
            self._read_at = path.stat().st_mtime_ns
            kept = json.loads(path.read_text(encoding="utf-8"))
            self._names, self._verdicts = (
                {key: {int(label): str(text) for label, text in of.items()}
                 for key, of in kept.get(what, {}).items()}
                for what in ("names", "verdicts")
            )  # fmt: skip
            for verdict in (one for of in self._verdicts.values() for one in of.values()):
                choice("verdict", verdict, VERDICTS)
            self._acknowledged = {key: float(t) for key, t in kept["acknowledged"].items()}
            self.history = [done | {"at": float(done["at"])} for done in kept.get("history", [])]
            self._keep([{**table} for table in kept.get("silences", [])])
        except (OSError, ValueError, LookupError, TypeError, AttributeError, ConfigError) as error:
            message = f"{path} does not hold names of regimes: {error}; restore or remove it"
            raise CheckpointError(message) from error

    def _write(self) -> None:
        self.version += 1
        if self._path is not None:
            kept: dict[str, Any] = {"names": self._names, "acknowledged": self._acknowledged}
            kept |= {"verdicts": self._verdicts, "history": self.history}
            kept["silences"] = self.silences
            write_atomic(self._path, json.dumps(kept, indent=1).encode())


def _sentence(done: Mapping[str, Any]) -> str:
    """Return what somebody did, in words."""
    keys = ", ".join(done["keys"][:MENTIONED]) + ", ..." * (len(done["keys"]) > MENTIONED)
    who = done["by"] or "somebody"
    return " ".join(f"{who} {done['did']} {keys or 'the alarm'} {done['what']}".split())


def _plain(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:LONGEST]
