"""Rows that were refused and set aside, as JSON lines: ``{"row", "reason", "values"}``.

``row`` is the number of the row within the source, counted from 0. The file is cut back with the
checkpoint like a file sink, so each refused row is in it exactly once.
"""

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamddcrp_connectors.run.columns import Refusal
from streamddcrp_connectors.run.log import Log

NAME = "refused.jsonl"  # in the folder of a checkpoint
_SAID = 20  # rows that are logged
_LOG = logging.getLogger("streamddcrp.run")


class DeadLetters:
    """Write refused rows to a file and count them.

    Without a file the first of them are logged with their values; also with ``say``: nobody asked
    for the file.
    """

    def __init__(self, path: str | Path | None, *, say: bool = False) -> None:
        self.name = "the log" if path is None else str(path)
        self.identity = "" if path is None else os.path.realpath(path)
        self._log = None if path is None else Log(Path(path))
        self._said = 0 if say or path is None else _SAID

    def rewind(self, position: Any) -> None:
        if self._log is not None:
            self._log.rewind(position)

    def sync(self) -> Any:
        return None if self._log is None else self._log.sync()

    def close(self) -> None:
        if self._log is not None:
            self._log.close()

    def write(self, refused: Mapping[int, Refusal]) -> None:
        """Take refused rows, in the order of their numbers."""
        rows = sorted(refused)
        for row in rows[: max(_SAID - self._said, 0)]:
            more = "; no more of them are shown" if self._said == _SAID - 1 else ""
            values = json.dumps(refused[row].values) if self._log is None else self.name
            _LOG.warning("set aside row %d: %s (%s)%s", row, refused[row].reason, values, more)
            self._said += 1
        if self._log is not None:
            lines = [
                json.dumps(
                    {"row": row, "reason": refused[row].reason, "values": refused[row].values}
                )
                for row in rows
            ]
            self._log.append("".join(line + "\n" for line in lines).encode())
