"""Rows to a web address, each one as a JSON object: alarms and events for people and pagers.

Each row is posted at least once: it has an ``id``, which stays the same when it is sent again,
after an answer that was lost. What cannot be delivered waits, in the checkpoint as well, and is
tried again with growing pauses; only when `MOST` rows wait does the job wait too.
"""

import http.client
import json
import logging
import time
import urllib.error
import urllib.request
import uuid
from typing import Any
from urllib.parse import urlencode, urlunsplit

from streamddcrp_connectors.live.address import Address
from streamddcrp_connectors.run.retries import FIRST
from streamddcrp_connectors.run.retries import MOST as LONGEST
from streamddcrp_connectors.run.sinks import json_lines

MOST = 1000  # rows that may wait
_TIMEOUT = 5.0  # seconds
_PORTS = {"http": 80, "https": 443}
_LOG = logging.getLogger("streamddcrp")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirected post would become a request without the row."""

    def redirect_request(self, *_: Any) -> None:
        """Follow nowhere."""


def open_sink(spec: str, folder: Any, what: str) -> "WebhookSink":
    """Open a web address as a sink."""
    return WebhookSink(spec, what)


class WebhookSink:
    """Post rows as JSON.

    Parameters
    ----------
    spec : str
        ``https://host/path``; a ``token_env`` or ``token_file`` among its options is sent as
        ``Authorization: Bearer``. Paths may be secret: messages show the host only.
    what : str
    """

    live = True

    def __init__(self, spec: str, what: str) -> None:
        scheme = spec.partition(":")[0]
        address = Address.parse(spec, port=_PORTS[scheme], options=None, secrets=["token"])
        ((host, port),) = address.hosts
        host = f"[{host}]" if ":" in host else host
        self.name = self.identity = f"{scheme}://{host}:{port}"
        query = urlencode(address.options)
        self._url = urlunsplit((scheme, f"{host}:{port}", f"/{address.path}", query, ""))
        self._headers = {"Content-Type": "application/json"}
        if (token := address.secret("token")) is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._what = what
        self._opener = urllib.request.build_opener(_NoRedirects)
        self._job, self._rows = "", 0
        self._waiting: list[dict[str, Any]] = []
        self._pause, self._next_try = 0.0, 0.0

    @property
    def waiting(self) -> bool:
        """Whether it is time to try again."""
        return bool(self._waiting) and time.monotonic() >= self._next_try

    def rewind(self, position: dict[str, Any] | None) -> None:
        """Stand where ``position`` says."""
        if position is None:
            position = {"job": f"{uuid.uuid4().hex[:16]}-{self._what}", "rows": 0, "waiting": []}
        self._job, self._rows = position["job"], position["rows"]
        self._waiting = list(position["waiting"])

    def write(self, batch: Any) -> None:
        """Give each row its id; it is sent by `sync`."""
        for line in json_lines(batch).splitlines():
            self._waiting.append({"id": f"{self._job}:{self._rows}", **json.loads(line)})
            self._rows += 1

    def sync(self) -> dict[str, Any]:
        """Post what waits, as far as possible; what remains is part of the position."""
        if self._waiting and time.monotonic() >= self._next_try:
            try:
                self._post_all()
            except (OSError, http.client.HTTPException) as error:
                if isinstance(error, urllib.error.HTTPError):
                    error.close()
                if not self._pause:
                    reason = getattr(error, "reason", None) or error
                    _LOG.warning("%s does not accept rows (%s); will try again", self.name, reason)
                self._pause = min(max(2 * self._pause, FIRST), LONGEST)
                self._next_try = time.monotonic() + self._pause
        if len(self._waiting) > MOST:
            message = f"{len(self._waiting):,} rows are waiting for it"
            raise ConnectionError(message)
        return {"job": self._job, "rows": self._rows, "waiting": list(self._waiting)}

    def finish(self) -> None:
        """Say what is left."""
        if self._waiting:
            _LOG.warning("%s: %d rows were not delivered", self.name, len(self._waiting))

    def abandon(self) -> None:
        """Do nothing: no connection stays open."""

    def _post_all(self) -> None:
        while self._waiting:
            row = self._waiting[0]
            headers = {**self._headers, "Idempotency-Key": row["id"]}
            body = json.dumps(row).encode()
            request = urllib.request.Request(self._url, body, headers, method="POST")
            with self._opener.open(request, timeout=_TIMEOUT) as answer:
                answer.read(1 << 16)
            del self._waiting[0]
        self._pause = 0.0
