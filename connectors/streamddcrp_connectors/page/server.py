"""The page over HTTP: its files, a websocket, downloads. Nothing else is served."""

import asyncio
import json
import time
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import csv
from tornado.web import Application, HTTPError, RequestHandler
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from streamddcrp.validation import VERDICTS
from streamddcrp_connectors.page.access import Access
from streamddcrp_connectors.page.hub import Browser, Hub
from streamddcrp_connectors.page.pyramid import ALARMS, BEGIN, END, LABEL, N_OWN, SCORE, THRESHOLD
from streamddcrp_connectors.run.silences import stamp

if TYPE_CHECKING:  # slow to import: the page is up first
    from streamddcrp_connectors.page.streams import Streams

KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css",
         ".svg": "image/svg+xml"}  # fmt: skip
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
LARGEST = 1 << 16  # bytes of a message from a browser
MOST_ROWS = 20_000  # of a download
ENTRIES = ("key", "from", "until", "weekly", "reason")  # of a silence
MOST_ASKED = 100  # messages a second from a browser; each may cost a picture


class _Guarded(RequestHandler):
    """Refuses unauthorised requests before anything else is looked at."""

    def initialize(self, access: Access, hub: Hub) -> None:
        self.access, self.hub = access, hub

    def prepare(self) -> None:
        headers = self.request.headers
        host = headers.get("Host")
        if not self.access.host_is_ours(host):
            raise HTTPError(403)
        if not self.access.origin_is_ours(headers.get("Origin"), host):
            raise HTTPError(403)
        given = self.get_query_argument("token", None)
        if self.request.path == "/" and given is not None and self.access.token_is_ours(given):
            self.set_cookie(
                self.access.cookie, given, expires_days=30, httponly=True, samesite="Strict"
            )
            self.redirect("/")
        elif not self.access.token_is_ours(given or self.get_cookie(self.access.cookie)):
            raise HTTPError(403)

    def set_default_headers(self) -> None:
        """Set headers that forbid everything this page does not need."""
        for name, value in HEADERS.items():
            self.set_header(name, value)
        self.clear_header("Server")

    def write_error(self, status_code: int, **_: Any) -> None:
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(
            "Open the address that streamddcrp printed: it ends in ?token=...\n"
            if status_code == 403
            else f"{self._reason}\n"
        )


class _File(_Guarded):
    """One of the page's own files, read when the server starts."""

    def initialize(self, access: Access, hub: Hub, content: bytes = b"", kind: str = "") -> None:
        super().initialize(access, hub)
        self.content, self.kind = content, kind

    def get(self) -> None:
        self.set_header("Content-Type", f"{self.kind}; charset=utf-8")
        self.finish(self.content)


class _Nothing(_Guarded):
    def get(self) -> None:
        raise HTTPError(404)


class _Socket(_Guarded, WebSocketHandler):
    """The websocket of a browser."""

    browser: Browser | None = None

    def initialize(self, access: Access, hub: Hub) -> None:
        super().initialize(access, hub)
        self._sent: set[asyncio.Future[None]] = set()
        self._asked = (0, 0)  # the second of the last messages, and their number

    def check_origin(self, origin: str) -> bool:
        """Refuse other sites' pages; `prepare` has checked origin and token before."""
        return self.access.origin_is_ours(origin, self.request.headers.get("Host"))

    def open(self, *_: str, **__: str) -> None:
        self.set_nodelay(True)
        self.browser = Browser(self)
        self.hub.join(self.browser)

    def send(self, frame: bytes | str) -> None:
        try:
            sent = asyncio.ensure_future(self.write_message(frame, binary=isinstance(frame, bytes)))
        except WebSocketClosedError:
            self.on_close()
        else:
            self._sent.add(sent)
            sent.add_done_callback(self._over)

    def _over(self, sent: "asyncio.Future[None]") -> None:
        """Send a frame; a browser that leaves meanwhile is no error."""
        self._sent.discard(sent)
        sent.exception()

    async def end(self) -> None:
        """Close the connection at once; return when nothing is being sent."""
        link = self.ws_connection
        if link is not None and link.stream is not None:
            link.stream.close()
        await asyncio.gather(*self._sent, return_exceptions=True)

    def on_message(self, message: str | bytes) -> None:
        """Handle a browser's request, unless it sends too many."""
        second, n = self._asked
        now = int(time.monotonic())
        self._asked = (now, n + 1 if now == second else 1)
        if self._asked[1] > MOST_ASKED:
            self.close(1008, "too many messages")
            return
        try:
            asked = json.loads(message)
            self._do(asked) if isinstance(asked, dict) else self.close()
        except (ValueError, TypeError, OverflowError, RecursionError):
            self.close(1003, "not understood")

    def _do(self, asked: dict[str, Any]) -> None:
        browser, do, key = self.browser, asked.get("do"), str(asked.get("key") or "")
        by = str(asked.get("by") or "")
        if browser is None:
            return
        if do == "show":
            browser.show(asked)
        elif do == "got":
            browser.waiting = max(0, browser.waiting - 1)
        elif (streams := self.hub.streams) is None:
            return
        elif do == "name" and key in streams.of:
            name, verdict = str(asked.get("name") or ""), asked.get("verdict", VERDICTS[0])
            if verdict in VERDICTS:
                self.hub.names.give(key, int(asked["label"]), name, verdict)
        elif do == "acknowledge":
            of = streams.of
            if asked.get("all") is True:
                until = {key: stream.alarmed for key, stream in of.items()}
            else:
                until = {key: of[key].pyramid.span[1]} if key in of else {}
            for seen in self.hub.names.acknowledge(until, by):
                of[seen].acknowledged(self.hub.names.acknowledged_by(seen))
        elif do in ("silence", "hear"):
            self._silence(asked, do, by)
        self.hub.changed()

    def _silence(self, asked: dict[str, Any], do: str, by: str) -> None:
        """Set or end a silence; report what is wrong with it."""
        names, now, wrong = self.hub.names, self.hub.clock(), ""
        try:
            if do == "hear":
                names.end_silence(int(asked["place"]), now, by)
            else:
                table = {name: str(asked.get(name) or "") for name in ENTRIES}
                if hours := float(asked.get("hours") or 0.0):
                    times = {"from": now, "until": now + 3600.0 * hours}
                    table |= {name: stamp(t) for name, t in times.items()}
                names.silence(table, by)
        except (ValueError, LookupError, OverflowError, OSError) as error:
            wrong = str(error)
        self.send(json.dumps({"type": "answer", "wrong": wrong}))

    def on_close(self) -> None:
        if self.browser is not None:
            self.hub.leave(self.browser)


class _Download(_Guarded):
    """Downloads of what is shown: single rows where still known, else buckets."""

    def get(self) -> None:
        """Send ``begin`` to ``end`` of the stream ``key`` in the format ``as``."""
        streams = self.hub.streams
        stream = streams.of.get(self.get_query_argument("key", "")) if streams else None
        if streams is None or stream is None:
            raise HTTPError(404)
        try:
            begin, end = (float(self.get_query_argument(name)) for name in ("begin", "end"))
        except ValueError:
            raise HTTPError(400) from None
        view = stream.pyramid.view(begin, end, MOST_ROWS)
        table = _table(view.buckets, streams, single=view.level == 0)
        kind = self.get_query_argument("as", "csv")
        if kind not in ("csv", "arrow"):
            raise HTTPError(400)
        type_ = "text/csv; charset=utf-8" if kind == "csv" else "application/vnd.apache.arrow.file"
        self.set_header("Content-Type", type_)
        self.set_header("Content-Disposition", f'attachment; filename="shown.{kind}"')
        content = pa.BufferOutputStream()
        new = csv.CSVWriter if kind == "csv" else pa.ipc.new_file
        with new(content, table.schema) as writer:
            writer.write_table(table)
        self.finish(content.getvalue().to_pybytes())


def _table(buckets: Any, streams: "Streams", *, single: bool) -> Any:
    """Return buckets as a table: values of single rows, or least, greatest and mean."""
    job = streams.job
    zone = "UTC" if job.time == "instant" else None

    def times(cells: Any) -> Any:
        if not job.stamped:
            return pa.array(cells)
        stamps = np.rint(1e3 * cells).astype("datetime64[us]")
        return pa.array(stamps).cast(pa.timestamp("us", zone))

    labels, alarms = (pa.array(buckets[:, at].astype(np.int64)) for at in (LABEL, ALARMS))
    columns = [("time", times(buckets[:, BEGIN]))]
    columns += [] if single else [("end", times(buckets[:, END]))]
    columns += [("label", labels), ("score", buckets[:, SCORE]),
                ("threshold", buckets[:, THRESHOLD]), ("alarms", alarms)]  # fmt: skip
    D = len(job.columns)
    for d, name in enumerate(job.columns):
        for k, what in enumerate(("",) if single else ("least ", "most ", "mean ")):
            columns.append((what + name, buckets[:, N_OWN + k * D + d]))
    cells = [pa.array(column, from_pandas=True) for _, column in columns]
    return pa.Table.from_arrays(cells, [name for name, _ in columns])


def application(access: Access, hub: Hub) -> Application:
    """Return the tornado application.

    Every path is listed here, so no path can lead out of the page's own files.
    """
    common = {"access": access, "hub": hub}
    folder = resources.files("streamddcrp_connectors.page") / "static"
    routes: list[Any] = [(r"/socket", _Socket, common), (r"/shown", _Download, common)]
    for file in folder.iterdir():
        kind = KINDS.get(f".{file.name.rpartition('.')[2]}")
        if kind is not None:
            path = "/" if file.name == "index.html" else f"/{file.name.replace('.', '[.]')}"
            routes.append((path, _File, {**common, "content": file.read_bytes(), "kind": kind}))
    return Application(
        [*routes, (r".*", _Nothing, common)],
        log_function=lambda _handler: None,  # an address holds the token
        websocket_max_message_size=LARGEST,
        websocket_ping_interval=20,
        autoreload=False,
    )
