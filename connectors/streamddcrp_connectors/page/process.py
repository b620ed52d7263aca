"""The page's own process reads what the run sends on standard input, and serves it.

It ends when its input does, that is when the run ends in any way. It stores its history in the
folder of the checkpoint.
"""

import asyncio
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.iostream import PipeIOStream, StreamClosedError

from streamddcrp.errors import CheckpointError
from streamddcrp_connectors.page.access import Access
from streamddcrp_connectors.page.frames import EVENTS, HEAD, JSON, LARGEST, ROWS, batch_of
from streamddcrp_connectors.page.hub import Hub
from streamddcrp_connectors.page.server import application
from streamddcrp_connectors.run.names import Names

KEEP = 5.0  # least seconds between writes of the history
SHARE = 50  # writing it takes at most 1/50 of the time


class Page:
    """The page's content, fed by messages; a folder keeps history and names."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self.hub = Hub(Names(folder))
        self._next = 0.0
        self._kept = -1

    def load(self) -> Any:
        """Import slow modules and return the history, while the page is served already."""
        from streamddcrp_connectors.page import kept  # noqa: PLC0415

        return None if self._folder is None else kept.load_history(self._folder)

    def take(self, kind: bytes, content: bytes) -> None:
        hub = self.hub
        if kind == JSON:
            self._said(json.loads(content))
        elif hub.streams is not None and kind == ROWS:
            hub.streams.learn(*batch_of(content))
        elif hub.streams is not None and kind == EVENTS:
            hub.streams.happened(batch_of(content)[0])
        hub.changed()
        self.keep()

    def _said(self, said: dict[str, Any]) -> None:
        hub = self.hub
        if "job" in said:
            from streamddcrp_connectors.page.streams import Job, Streams  # noqa: PLC0415

            job = Job(**said["job"])
            if hub.streams is None or hub.streams.job != job:
                hub.begin(Streams(job))
        if "stories" in said and hub.streams is not None:
            hub.streams.stream(said["key"]).describe(said["stories"])
        if "counts" in said and hub.streams is not None:
            hub.streams.stream(said["key"]).count(said["counts"])
        hub.dropped = said.get("dropped", hub.dropped)
        hub.ended = said.get("ended", hub.ended)

    def keep(self, *, now: bool = False) -> None:
        """Write the history when due; at the end also what users did after the last rows."""
        streams = self.hub.streams
        if self._folder is None or streams is None:
            return
        begun = time.monotonic()
        if now or (begun >= self._next and streams.n_rows != self._kept):
            from streamddcrp_connectors.page.kept import save_history  # noqa: PLC0415

            save_history(self._folder, streams)
            self._kept = streams.n_rows
            ended = time.monotonic()
            self._next = ended + max(KEEP, SHARE * (ended - begun))


@asynccontextmanager
async def served(listening: socket.socket, access: Access, page: Page) -> AsyncIterator[None]:
    """Serve a page on a listening socket until the end of the block.

    Connections are closed before the loop ends, which would otherwise cancel pending frames, and
    tornado would log an error for each.
    """
    server = HTTPServer(application(access, page.hub))
    server.add_socket(listening)
    try:
        yield
    finally:
        server.stop()
        await server.close_all_connections()
        await page.hub.end()


async def _main() -> None:
    pipe = PipeIOStream(os.dup(sys.stdin.fileno()), max_buffer_size=LARGEST)
    hello = json.loads((await _message(pipe))[1])
    folder = Path(hello["folder"]) if hello["folder"] else None
    listening = socket.socket(fileno=hello["socket"])
    listening.setblocking(False)
    page = Page(folder)
    access = Access(hello["host"], listening.getsockname()[1], hello["token"])
    async with served(listening, access, page):
        if (streams := await asyncio.to_thread(page.load)) is not None:
            page.hub.begin(streams)
        try:
            while True:
                page.take(*await _message(pipe))
        except StreamClosedError:
            page.keep(now=True)


async def _message(pipe: PipeIOStream) -> tuple[bytes, bytes]:
    kind, size = HEAD.unpack(await pipe.read_bytes(HEAD.size))
    return kind, await pipe.read_bytes(size)


def main() -> None:
    """Run until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # goes to the run, which closes the input
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    logging.getLogger("tornado.access").disabled = True
    try:
        asyncio.run(_main())
    except CheckpointError as error:
        sys.stderr.write(f"streamddcrp: the live page: {error}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
