"""Rows that were refused and set aside, as JSON lines: ``{"row", "reason", "values"}``.

``row`` is the number of the row within the source, counted from 0. The file is cut back with the
checkpoint like a file sink, so each refused row is in it exactly once.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from streamddcrp_connectors.run.columns import Refusal
from streamddcrp_connectors.run.log import Log


class DeadLetters:
    """Write refused rows to a file and count them."""

    def __init__(self, path: str | Path) -> None:
        self.name = str(path)
        self.identity = os.path.realpath(path)
        self._log = Log(Path(path))
        self.rewind, self.sync, self.close = self._log.rewind, self._log.sync, self._log.close

    def write(self, refused: Mapping[int, Refusal]) -> None:
        """Append refused rows, in the order of their numbers."""
        lines = [
            json.dumps({"row": row, "reason": refused[row].reason, "values": refused[row].values})
            for row in sorted(refused)
        ]
        self._log.append("".join(line + "\n" for line in lines).encode())
