"""A folder of Parquet files that grows: ``dataset://folder?rows=1000000&every=1h``.

Rows are appended to a log, as for one Parquet file; when there are enough of them, or the first is
old enough, the log becomes a file. Such a file is made under a hidden name first, and gets its
name only after the commit that says so: what can be seen in the folder never changes any more, and
holds each row once.

At the end of a run the rest becomes a file, too. A run that goes on recognises it by its number of
rows, and begins the next one.
"""

import os
import time
import uuid
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from streamddcrp.checkpoint.codec import sync_folder
from streamddcrp.errors import CheckpointError, ConfigError
from streamddcrp_connectors.run.address import Address
from streamddcrp_connectors.run.lateness import seconds_of
from streamddcrp_connectors.run.sinks import RowLog

ROWS, EVERY = "1000000", "1h"


class DatasetSink:
    """Files ``JOB-NUMBER.parquet``; the position is ``{"job", "number", "rows", "since", "log"}``.

    That is: the file under way, its rows, when the first of them came (seconds since 1970), and the
    position in its log, which is in the checkpoint's folder, or else in that of the files. ``rows``
    are those of a file, at least; ``every``: at most so long until a row is in one, such as
    ``10min``, as long as rows come or the source is live.
    """

    live = True  # what has been seen is not taken back

    def __init__(self, spec: str, folder: Path | None, what: str) -> None:
        path, _, query = spec.partition("://")[2].partition("?")
        options = Address.parse(f"dataset:///?{query}", port=0, options=["rows", "every"]).options
        rows = options.get("rows", ROWS)
        if not path or not rows.isdecimal() or int(rows) < 1:
            raise ConfigError(f"{spec} must be dataset://folder?rows=N&every=1h, with N from 1")
        self._rows = int(rows)
        self._every = seconds_of(options.get("every", EVERY), f"{spec}: every")
        self._folder = Path(os.path.realpath(path))
        self.name = f"dataset://{path}"
        self.identity = f"dataset://{self._folder}"
        self._kept, self._what = folder, what
        self._position: dict[str, Any] = {}
        self._log: Any = None
        self._made: list[Path] = []  # hidden files and logs that the next commit is about
        self._recorded: list[Path] = []  # those that the last one was about

    @property
    def waiting(self) -> bool:
        """Whether there is something to do although no row comes."""
        return bool(self._recorded) or self._is_due()

    def rewind(self, position: dict[str, Any] | None) -> None:
        """Stand where ``position`` says: show the files that a commit recorded, remove others."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot make {self._folder}: {error.strerror}") from error
        fresh = {"job": uuid.uuid4().hex[:8], "number": 0, "rows": 0, "since": None, "log": None}
        self._position = dict(position or fresh)
        job, number = self._position["job"], self._position["number"]
        self._made, self._recorded = [], []
        for path in sorted(self._folder.glob(f".{job}-*.parquet")):
            if int(path.stem.rpartition("-")[2]) < number:
                path.replace(path.with_name(path.name[1:]))
            else:
                path.unlink()
        for path in self._log_path(number).parent.glob(self._log_path(number, any_="*").name):
            if path != self._log_path(number):
                path.unlink()
        self._begin(self._position["log"])
        ended = self._path(number)
        if ended.exists():  # made at the end of a run
            n_rows = pq.read_metadata(ended).num_rows
            if n_rows != self._position["rows"]:
                self._log.close()
                raise CheckpointError(
                    f"{ended} has {n_rows:,} rows, and the checkpoint recorded "
                    f"{self._position['rows']:,}: it was changed, or belongs to another checkpoint"
                )
            self._next()

    def write(self, batch: Any) -> None:
        if batch.num_rows:
            self._log.write(batch)
            self._position["rows"] += batch.num_rows
            self._position["since"] = self._position["since"] or time.time()

    def sync(self) -> dict[str, Any]:
        """Make a hidden file if it is time to, and show those that the last commit recorded."""
        self._show()
        if self._is_due():
            self._made.append(self._hidden())
            self._next()
        self._position["log"] = self._log.sync()
        self._recorded, self._made = self._made, []
        return dict(self._position)

    def finish(self) -> None:
        """Make a file of the rest."""
        self._show()
        if self._position["rows"]:
            self._recorded = [self._hidden()]
            self._show()
        self.abandon()

    def abandon(self) -> None:
        """Close; without a checkpoint the log goes."""
        if self._log is not None:
            self._log.close()
            if self._kept is None:
                self._log.path.unlink(missing_ok=True)

    def _is_due(self) -> bool:
        if not self._position.get("rows"):
            return False
        since: float = self._position["since"]
        return self._position["rows"] >= self._rows or time.time() - since >= self._every

    def _begin(self, at: Any) -> None:
        self._log = RowLog(self._log_path(self._position["number"]))
        self._log.rewind(at)

    def _next(self) -> None:
        """Begin the next file; the log of this one stays until a commit knows of that."""
        self._log.close()
        self._made.append(self._log.path)
        self._position |= {"number": self._position["number"] + 1, "rows": 0, "since": None}
        self._begin(None)

    def _hidden(self) -> Path:
        path = self._path(self._position["number"], hidden=True)
        self._log.make(path, "parquet")
        return path

    def _show(self) -> None:
        """Give files their names, once a commit says that they are there; remove their logs."""
        for path in self._recorded:
            if path.suffix == ".parquet":
                path.replace(path.with_name(path.name[1:]))
            else:
                path.unlink()
        if self._recorded:
            sync_folder(self._folder)
        self._recorded = []

    def _log_path(self, number: int, any_: str | None = None) -> Path:
        folder, name = self._kept, self._what
        if folder is None:
            folder, name = self._folder, f".{self._position['job']}-{self._what}"
        return folder / f"{name}-{any_ or f'{number:06d}'}.rows"

    def _path(self, number: int, *, hidden: bool = False) -> Path:
        return self._folder / f"{'.' * hidden}{self._position['job']}-{number:06d}.parquet"
