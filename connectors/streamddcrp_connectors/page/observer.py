"""The run's side of the live page: start its process and hand batches over without waiting.

Kernels hold the GIL, so the page has its own process. Data go through a queue, and a thread writes
them to a pipe. While the queue is full, batches are dropped and counted. The page then shows less,
but the run does not slow down.
"""

import errno
import importlib.util
import json
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamddcrp.errors import ConfigError, MissingExtraError
from streamddcrp_connectors.options import say
from streamddcrp_connectors.page.access import TOKEN, token_of
from streamddcrp_connectors.page.frames import EVENTS, JSON, ROWS, arrow, frame
from streamddcrp_connectors.run.address import host_port

if TYPE_CHECKING:  # slow to import: the page's process starts first
    from streamddcrp_connectors.run.loop import Epoch

HERE = "127.0.0.1:8765"  # default address of the page
PATIENCE = 5.0  # seconds to wait for a run that has just died to free the port
WAITING = 1 << 25  # bytes queued for the page: half a minute of a fast stream
PIPE = 1 << 20  # bytes of the pipe, if the system allows it
PIECE = 1 << 16  # rows of a message
STORIES, EXAMPLES, SHARE = 400, 2, 50  # slow work takes at most 1/50 of the time
SHOWN = 60  # stories with examples


class LivePage:
    """A page that shows a run, as a `Watcher` of it.

    Parameters
    ----------
    at : str
        Host and port; port 0 picks a free one.
    folder : Path, optional
        Folder of the checkpoint, which keeps the history, names and the token.
    """

    def __init__(self, at: str, folder: Path | None) -> None:
        needs_extra()
        host, port = place(at)
        listening = listen(host, port)
        token = token_of(folder)
        self.address = address_of(host, listening.getsockname()[1], token)
        self._job: dict[str, Any] | None = None
        self._dropped = 0
        self._more_due = 0.0
        hello = {
            "host": host,
            "token": token,
            "folder": None if folder is None else str(folder),
            "socket": listening.fileno(),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "streamddcrp_connectors.page.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=(listening.fileno(),),
            pipesize=PIPE,
            process_group=0,  # Ctrl-C goes to the run, which closes the pipe
        )
        listening.close()
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._put = self._written = 0  # bytes
        self._tell(JSON, json.dumps(hello).encode())
        self._writer = threading.Thread(target=self._write, daemon=True)
        self._writer.start()

    # -- called by the runner ---------------------------------------------------------------------

    def epoch(self, epoch: "Epoch") -> None:
        rows, results, events = epoch.rows, epoch.results, epoch.events
        if results is None:
            return
        if self._job is None:
            self._job = _job(rows, epoch.summary.source, epochs=epoch.summary.has_epochs)
            alone = rows.columns.key is None and epoch.calibrating < 1e9
            self._job["calibrating"] = epoch.calibrating if alone else 0
            self._tell(JSON, json.dumps({"job": self._job}).encode())
        if self._put - self._written > WAITING:
            self._dropped += results.num_rows
            return
        now = time.time()
        shown = _shown(rows, results, epoch.judged, epoch.why)
        for start in range(0, shown.num_rows, PIECE):
            self._tell(ROWS, arrow(shown.slice(start, PIECE), now))
        if events is not None and "key" in events.schema.names:
            events = events.filter(events.column("key").is_valid())  # others are of all groups
        if events is not None and events.num_rows:
            self._tell(EVENTS, arrow(events))
        if rows.columns.key is None:
            self._tell_more(epoch.models)
        if self._dropped:
            self._tell(JSON, json.dumps({"dropped": self._dropped}).encode())

    def wait(self) -> None:
        """Mark the source as ended, and keep serving until interrupted."""
        self._tell(JSON, json.dumps({"ended": True}).encode())
        try:
            self._process.wait()
        except KeyboardInterrupt:
            return

    def close(self) -> None:
        """End the page after it stored its history; at once if it shows nothing yet."""
        if self._job is None and self._process.poll() is None:
            self._process.kill()
        self._queue.put(None)
        self._writer.join(PATIENCE)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    # -- internals -------------------------------------------------------------------------------

    def _tell(self, kind: bytes, content: bytes) -> None:
        message = frame(kind, content)
        self._put += len(message)
        self._queue.put(message)

    def _tell_more(self, models: Any) -> None:
        """Send the model's state from time to time: words of stories, or number of regimes."""
        begun = time.monotonic()
        if begun < self._more_due:
            return
        if self._job is not None and self._job["text"]:
            self._tell_stories(models)
        elif counts := models.counts():
            self._tell(JSON, json.dumps({"key": "", "counts": counts}).encode())
        ended = time.monotonic()
        self._more_due = ended + max(1.0, SHARE * (ended - begun))

    def _tell_stories(self, models: Any) -> None:
        summary = models.summary()
        names = summary.column_names
        if "words" in names and "id" in names:
            wanted = [name for name in ("id", "words", "theme", "examples") if name in names]
            themes = models.themes()
            found = summary.slice(0, STORIES).select(wanted).to_pylist()
            stories = [
                {
                    "label": story["id"],
                    "words": story["words"] or "",
                    "theme": themes.get(story.get("theme"), ""),
                    "examples": (story.get("examples") or [])[:EXAMPLES] if i < SHOWN else [],
                }
                for i, story in enumerate(found)
            ]
            self._tell(JSON, json.dumps({"key": "", "stories": stories}).encode())

    def _write(self) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        try:
            while (message := self._queue.get()) is not None:
                pipe.write(message)
                pipe.flush()
                self._written += len(message)
            pipe.close()
        except BrokenPipeError:  # the page is gone; the run continues
            with suppress(BrokenPipeError):
                pipe.close()
            while self._queue.get() is not None:
                pass


@contextmanager
def opened(at: str, folder: Path | None, form: str = "text") -> Iterator[LivePage]:
    """Open a page, print its address as `say` does, and close it at the end of the block."""
    page = LivePage(at, folder)
    try:
        where = page.address
        if folder is not None and not sys.stderr.isatty():  # a log that others may read
            where = f"{where.partition('?')[0]}?token=... (the token is in {folder / TOKEN})"
        say(f"live page at {where}", form)
        yield page
    finally:
        page.close()


def needs_extra() -> None:
    """Raise an error that says how to install what the page needs, if it is missing."""
    for name in ("tornado", "msgspec"):
        if importlib.util.find_spec(name) is None:
            message = f"the live page needs {name}: pip install 'streamddcrp[live]'"
            raise MissingExtraError(message)


def place(at: str) -> tuple[str, int]:
    """Read HOST:PORT, HOST or PORT.

    Examples
    --------
    >>> place("8000"), place("0.0.0.0:80"), place("[::1]")
    (('127.0.0.1', 8000), ('0.0.0.0', 80), ('::1', 8765))
    """
    host, port = HERE.split(":")
    if at.isdigit():
        port = at
    elif at.endswith("]") or ":" not in at:
        host = at
    else:
        host, _, port = at.rpartition(":")
    if not port.isdigit() or int(port) > 65535 or not host.strip("[]"):
        raise ConfigError(f"the place of the page must be HOST:PORT, such as {HERE}; got {at!r}")
    return host.strip("[]"), int(port)


def listen(host: str, port: int) -> socket.socket:
    """Listen; wait a little if a run that has just ended still holds the port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    begun = time.monotonic()
    while True:
        try:
            return socket.create_server((host, port), family=family)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            if taken and time.monotonic() - begun < PATIENCE:
                time.sleep(0.1)
                continue
            why = "another program listens there" if taken else error.strerror or str(error)
            raise ConfigError(
                f"cannot serve the live page at {host}:{port}: {why}; choose another HOST:PORT"
            ) from error


def address_of(host: str, port: int, token: str) -> str:
    """Return the address that opens the page."""
    name = socket.gethostname() if host in ("0.0.0.0", "::") else host
    return f"http://{host_port(name, port)}/?token={token}"


def _job(rows: Any, name: str, *, epochs: bool) -> dict[str, Any]:
    import pyarrow as pa  # noqa: PLC0415

    columns = rows.columns
    time_ = "row"
    if columns.time is not None:
        kind = rows.batch.schema.field(columns.time).type
        stamp = "instant" if getattr(kind, "tz", None) else "stamp"
        time_ = stamp if pa.types.is_timestamp(kind) else "number"
    return {
        "name": Path(name).name or name,
        "features": list(columns.features or ()),
        "time": time_,
        "key": columns.key,
        "text": columns.text,
        "epochs": epochs,
    }


def _shown(rows: Any, results: Any, judged: Any, why: Any) -> Any:
    """Return number, time, key, results and alarm of each row, then its renamed features."""
    import numpy as np  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415

    batch = rows.batch
    if results.num_rows != len(rows):  # the model refused some
        where = np.searchsorted(rows.numbers, results.column("row").to_numpy())
        batch = batch.take(pa.array(where))
    known = set(results.schema.names)
    cells = {n: results.column(n) for n in ("row", "time", "key", "label", "score") if n in known}
    if "state" in known:  # the labels people see, as in reports
        cells["label"] = results.column("state")
    if judged is not None:
        cells |= {name: pa.array(of_rows) for name, of_rows in judged._asdict().items()}
        each = np.full(len(judged.began), None)
        each[judged.began] = why or None
        cells["why"] = pa.array(each, pa.string())
    features = {f"f{i}": batch.column(n) for i, n in enumerate(rows.columns.features or ())}
    return pa.record_batch(cells | features)
