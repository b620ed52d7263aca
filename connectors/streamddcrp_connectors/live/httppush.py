"""A small HTTP server that receives rows: ``http-push://127.0.0.1:8080/rows?journal=FOLDER``.

``POST`` a JSON object, JSON lines or an Arrow IPC stream. The answer is

* 200 once the body is on the disk, from where it will be learned whatever happens;
* 503 with ``Retry-After`` if the journal is full or there are too many connections;
* 401 for a missing or wrong token, 403 for a request from a web page, 404 and 405 for another path
or method, 411 and 413 for a body without a length or above `LARGEST`, 400 for an empty one.

A sender without an answer repeats its request. If it sets an ``Idempotency-Key`` header, different
for each body, the body is taken once: the server remembers the latest 4,096 keys.
"""

import hmac
import logging
import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from streamddcrp.errors import ConfigError
from streamddcrp_connectors.live.journal import MAX_KEY, Journal, JournalFullError
from streamddcrp_connectors.live.messages import JOURNAL, JournaledSource
from streamddcrp_connectors.run.address import Address, is_loopback
from streamddcrp_connectors.run.columns import Columns

LARGEST = 1 << 22  # bytes of a body: less than half of the smallest journal
CONNECTIONS = 64
_IDLE = 60.0  # seconds after which a silent connection is closed
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"
_LOG = logging.getLogger("streamddcrp")


class HttpPushSource(JournaledSource):
    """Rows posted to ``http-push://host:port/path?journal=FOLDER``.

    Any address but loopback needs a token, by ``&token_env=NAME`` or ``&token_file=FILE``, which
    senders give as ``Authorization: Bearer TOKEN``.
    """

    def __init__(self, spec: str, columns: Columns, batch_rows: int) -> None:
        address = Address.parse(spec, port=8080, options=JOURNAL, secrets=("token",))
        ((host, port),) = address.hosts[:1]
        token = address.secret("token")
        if token is None and not is_loopback(host):
            raise ConfigError(
                f"{address.name} would take rows from anyone who reaches it: give a token, "
                "&token_env=NAME, or listen on 127.0.0.1"
            )
        super().__init__(address, columns, batch_rows)
        try:
            self._server = _Server((host, port), f"/{address.path}", token, self._journal)
        except OSError as error:
            super().close()
            raise ConfigError(f"cannot listen on {self.name}: {error.strerror or error}") from error
        self._thread: threading.Thread | None = None

    def receive(self, *, drained: bool) -> None:
        if self._thread is None:
            serve = self._server.serve_forever
            self._thread = threading.Thread(target=serve, args=(0.05,), daemon=True)
            self._thread.start()

    def close(self) -> None:
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
        super().close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = CONNECTIONS

    def __init__(self, at: tuple[str, int], path: str, token: str | None, journal: Journal) -> None:
        self.path, self.journal = path, journal
        self.wanted = None if token is None else f"Bearer {token}".encode()
        self._room = threading.BoundedSemaphore(CONNECTIONS)
        self.address_family = socket.AF_INET6 if ":" in at[0] else socket.AF_INET
        super().__init__(at, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a separate thread, or refuse at once if there are too many connections."""
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            request.sendall(_BUSY)
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log the failure of one connection; the others continue."""
        _LOG.debug("a connection ended early", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "streamddcrp", ""
    timeout = _IDLE
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body in one packet

    def do_POST(self) -> None:
        length = self._accepted_length()
        if length is None:
            return
        body = self.rfile.read(length)
        if len(body) < length:  # the sender disconnected
            self.close_connection = True
            return
        key = self.headers.get("Idempotency-Key", "").encode()
        if len(key) > MAX_KEY:
            self._answer(HTTPStatus.BAD_REQUEST, f"an Idempotency-Key has at most {MAX_KEY} bytes")
            return
        if not body or body.isspace():
            self._answer(HTTPStatus.BAD_REQUEST, "the body holds no rows")
            return
        try:
            new = self.server.journal.put(body, key)
        except JournalFullError as error:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, str(error), retry=True)
        else:
            self._answer(HTTPStatus.OK, "taken" if new else "taken before")

    def _accepted_length(self) -> int | None:
        """Return the length of the body; None if the header was refused."""
        wanted, given = self.server.wanted, self.headers.get("Authorization", "")
        length = self.headers.get("Content-Length", "")
        if wanted is not None and not hmac.compare_digest(given.encode(), wanted):
            self._refuse(HTTPStatus.UNAUTHORIZED, "a token is needed: Authorization: Bearer TOKEN")
        elif "Origin" in self.headers:  # a web page must not reach this server
            self._refuse(HTTPStatus.FORBIDDEN, "rows are not taken from web pages")
        elif self.path.partition("?")[0].rstrip("/") != self.server.path.rstrip("/"):
            self._refuse(HTTPStatus.NOT_FOUND, f"rows go to {self.server.path}")
        elif not (length.isascii() and length.isdecimal()):
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "the body needs a Content-Length")
        elif len(length) > 12 or int(length) > LARGEST:
            problem = f"a body has at most {LARGEST:,} bytes"
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, problem)
        else:
            return int(length)
        return None

    def _other(self) -> None:
        self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "rows are sent by POST")

    do_GET = do_HEAD = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _other  # noqa: N815

    def _refuse(self, status: HTTPStatus, text: str) -> None:
        """Answer from the header alone; skip the body and close the connection."""
        self.close_connection = True
        length = self.headers.get("Content-Length", "")
        if length.isascii() and length.isdecimal() and len(length) <= 12:
            rest = min(int(length), LARGEST)
            while rest and (passed := self.rfile.read1(min(rest, 1 << 16))):
                rest -= len(passed)
        self._answer(status, text)

    def _answer(self, status: HTTPStatus, text: str, *, retry: bool = False) -> None:
        body = f"{text}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        if retry:
            self.send_header("Retry-After", "1")
        if self.close_connection:
            self.send_header("Connection", "close")
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "POST")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: headers may hold secrets."""
