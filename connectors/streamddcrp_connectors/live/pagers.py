"""Deliver messages to people and pagers at least once; learning never waits for delivery.

A thread delivers messages one after another. The checkpoint also holds the pending ones. Each
message keeps its ``id`` when it is sent again after a lost answer. Messages refused for good, and
the oldest when more than `MOST` are pending, go to the JSON lines file ``alarms-undelivered.jsonl``
beside the checkpoint, and are counted.

``https://host/path`` gets each row as a JSON object. With ``template=slack`` it gets a text for a
chat; with ``template=alertmanager`` alarms for Prometheus' Alertmanager, at ``/api/v2/alerts``.
``smtp://host/?to=ops@example.com&from=plant@example.com`` sends an e-mail.
"""

import datetime as dt
import json
import logging
import smtplib
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections import deque
from collections.abc import Callable
from email.message import EmailMessage
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlunsplit

from streamddcrp.errors import ConfigError
from streamddcrp_connectors.run.address import Address, host_port
from streamddcrp_connectors.run.alarming import RESOLVED
from streamddcrp_connectors.run.gather import FIRST
from streamddcrp_connectors.run.gather import MOST as LONGEST
from streamddcrp_connectors.run.sinks import json_lines

MOST = 1000  # most pending messages
_PATIENCE = 2.0  # seconds without a delivery before a run gives up at its end
_TIMEOUT = 5.0  # seconds
_PORTS = {"http": 80, "https": 443, "smtp": 25}
_LATER = {408, 425, 429}  # temporary refusals
_LASTS = dt.timedelta(days=1)  # an alarm that no later message mentions
Message = dict[str, Any]
_LOG = logging.getLogger("streamddcrp")


class RefusedError(Exception):
    """The receiver will never take this message."""


class DeliverySink:
    """Deliver rows as messages.

    Parameters
    ----------
    name : str
        Name in messages and checkpoints, without secrets.
    what : str
        ``"alarms"`` or ``"events"``.
    post : callable
        Delivers a message. Raises RefusedError, or OSError if a retry may work.
    """

    live = True

    def __init__(
        self, name: str, what: str, folder: Path | None, post: Callable[[dict[str, Any]], None],
        hosts: tuple[tuple[str, int], ...] = (),
    ) -> None:  # fmt: skip
        self.name = self.identity = name
        self.hosts = hosts
        self.undelivered = 0
        self._what, self._post = what, post
        self._aside = Path(folder or ".") / f"{what}-undelivered.jsonl"
        self._job, self._rows = "", 0
        self._change = threading.Condition()  # guards everything below
        self._waiting: deque[dict[str, Any]] = deque()
        self._recorded = 0  # messages in the last position
        self._ending = False
        self._moved = time.monotonic()
        self._thread = threading.Thread(target=self._deliver, daemon=True)

    @property
    def waiting(self) -> bool:
        """Whether there is something new to record although no row came."""
        return len(self._waiting) < self._recorded

    def rewind(self, position: dict[str, Any] | None) -> None:
        if position is None:
            position = {"job": f"{uuid.uuid4().hex[:16]}-{self._what}", "rows": 0, "waiting": []}
        self._job, self._rows = position["job"], position["rows"]
        self._waiting.extend(position["waiting"])
        self._thread.start()

    def write(self, batch: Any) -> None:
        """Give each row its id and queue it."""
        with self._change:
            for line in json_lines(batch).splitlines():
                self._waiting.append({"id": f"{self._job}:{self._rows}", **json.loads(line)})
                self._rows += 1
            n_over = max(len(self._waiting) - MOST, 0)
            over = [self._waiting.popleft() for _ in range(n_over)]
            self._change.notify_all()
        if over:
            self._set_aside(over, f"more than {MOST:,} messages wait")

    def sync(self) -> dict[str, Any]:
        """Return the position, which includes the pending messages."""
        with self._change:
            self._recorded = len(self._waiting)
            return {"job": self._job, "rows": self._rows, "waiting": list(self._waiting)}

    def finish(self) -> None:
        """Wait for deliveries in progress; set aside messages that no checkpoint keeps."""
        self._moved = time.monotonic()
        with self._change:
            while self._waiting and time.monotonic() - self._moved < _PATIENCE:
                self._change.wait(_PATIENCE / 10)
        left = self._end()
        if left and self._recorded:
            self.undelivered += len(left)
            _LOG.warning("%s: %d messages wait for the next run", self.name, len(left))
        elif left:
            self._set_aside(left, "the run has ended")

    def abandon(self) -> None:
        """Stop the thread without waiting for it, since its receiver may hang."""
        self._end()

    def _end(self) -> list[dict[str, Any]]:
        with self._change:
            left = list(self._waiting)
            self._waiting.clear()
            self._ending = True
            self._change.notify_all()
        return left

    def _deliver(self) -> None:
        pause = 0.0
        while True:
            with self._change:
                self._change.wait_for(lambda: self._waiting or self._ending)
                if self._ending:
                    return
                message = self._waiting[0]
            try:
                self._post(message)
            except RefusedError as error:
                self._set_aside([message], str(error))
            except (OSError, HTTPException) as error:
                if not pause:
                    reason = getattr(error, "reason", None) or error
                    _LOG.warning("%s takes no messages (%s); will try again", self.name, reason)
                pause = min(max(2 * pause, FIRST), LONGEST)
                with self._change:
                    self._change.wait_for(lambda: self._ending, pause)
                continue
            pause = 0.0
            with self._change:
                if self._waiting and self._waiting[0] is message:
                    self._waiting.popleft()
                self._moved = time.monotonic()
                self._change.notify_all()

    def _set_aside(self, messages: list[dict[str, Any]], reason: str) -> None:
        lines = [json.dumps({"reason": reason, "message": message}) for message in messages]
        if not self.undelivered:
            _LOG.warning("%s: not delivered (%s): see %s", self.name, reason, self._aside)
        self.undelivered += len(messages)
        try:
            with self._aside.open("a", encoding="utf-8") as file:
                file.writelines(line + "\n" for line in lines)
        except OSError as error:
            _LOG.error("%d messages are lost: cannot write %s: %s", len(lines), self._aside, error)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, which would drop the message from a POST."""

    def redirect_request(self, *_: Any) -> None:
        """Follow no redirect."""


def open_sink(spec: str, folder: Path | None, what: str) -> DeliverySink:
    """Open a web address or a mail server as a sink.

    The option ``token_env`` or ``token_file`` gives the token for ``Authorization: Bearer``. Paths
    may be secret, so logs show the host only.
    """
    scheme = spec.partition(":")[0]
    address = Address.parse(spec, port=_PORTS[scheme], options=None, secrets=["password", "token"])
    where = host_port(*address.hosts[0])
    name = f"{scheme}://{where}"
    if scheme == "smtp":
        return DeliverySink(name, what, folder, _mail(address), address.hosts)
    options = dict(address.options)
    template = options.pop("template", "json")
    if template not in TEMPLATES:
        message = f"{name}: template must be one of {', '.join(TEMPLATES)}, got {template!r}"
        raise ConfigError(message)
    headers = {"Content-Type": "application/json"}
    if (token := address.secret("token")) is not None:
        headers["Authorization"] = f"Bearer {token}"
    url = urlunsplit((scheme, where, f"/{address.path}", urlencode(options), ""))
    return DeliverySink(name, what, folder, _web(url, headers, TEMPLATES[template]), address.hosts)


def _web(url: str, headers: dict[str, str], form: Callable[[Message], Any]) -> Any:
    opener = urllib.request.build_opener(_NoRedirects)

    def post(message: Message) -> None:
        body = json.dumps(form(message)).encode()
        given = {**headers, "Idempotency-Key": message["id"]}
        request = urllib.request.Request(url, body, given, method="POST")
        try:
            with opener.open(request, timeout=_TIMEOUT) as answer:
                answer.read(1 << 16)
        except urllib.error.HTTPError as error:
            error.close()
            if 400 <= error.code < 500 and error.code not in _LATER:
                reason = f"HTTP {error.code} {error.reason}"
                raise RefusedError(reason) from error
            raise

    return post


def _mail(address: Address) -> Any:
    options = address.options
    if not {"to", "from"} <= options.keys() <= {"to", "from", "tls"}:
        message = "an smtp address needs ?to=ADDRESS,...&from=ADDRESS, and may have tls=yes"
        raise ConfigError(message)
    password, tls = address.secret(), address.tls

    def post(message: Message) -> None:
        mail = EmailMessage()
        mail["Subject"], mail["From"], mail["To"] = _said(message), options["from"], options["to"]
        mail["Message-ID"] = f"<{message['id'].replace(':', '.')}@streamddcrp>"
        mail.set_content("\n".join(f"{name}: {value}" for name, value in message.items()))
        try:
            with smtplib.SMTP(*address.hosts[0], timeout=_TIMEOUT) as server:
                if tls is not None:
                    server.starttls(context=tls)
                if address.user and password is not None:
                    server.login(address.user, password)
                server.send_message(mail)
        except smtplib.SMTPRecipientsRefused as error:
            code, reason = next(iter(error.recipients.values()))
            if code >= 500:
                raise RefusedError(reason) from error
            raise
        except smtplib.SMTPResponseException as error:
            if error.smtp_code >= 500:
                raise RefusedError(str(error)) from error
            raise

    return post


def _said(message: Message) -> str:
    if "text" in message:
        return str(message["text"])
    return " ".join(f"{name} {value}" for name, value in message.items() if name != "id")


def _slack(message: Message) -> Any:
    lines = [_said(message)]
    if "score" in message:
        sign = ":white_check_mark:" if message["status"] == RESOLVED else ":rotating_light:"
        when = message.get("time", f"row {message['row']}")
        lines = [
            f"{sign} {lines[0]}",
            f"{when}, surprise {message['score']:.3g} (threshold {message['threshold']:.3g})",
        ]
    return {"text": "\n".join(lines)}


def _alertmanager(message: Message) -> Any:
    """Return a message's alarms, one for each key, since Alertmanager does its own grouping."""
    keys = message["keys"].split(", ") if message.get("keys") else [None]
    now = dt.datetime.now(dt.UTC)
    over = message.get("status") == RESOLVED
    found = []
    for key in keys:
        labels = {"alertname": "streamddcrp", "severity": "warning"}
        labels |= {} if key is None else {"key": key}
        notes = {
            "summary": _said(message),
            "description": ", ".join(f"{name} {value}" for name, value in message.items()),
        }
        ends = (now if over else now + _LASTS).isoformat()
        alarm = {"labels": labels, "annotations": notes, "endsAt": ends}
        found.append(alarm if over else alarm | {"startsAt": now.isoformat()})
    return found


TEMPLATES: dict[str, Callable[[Message], Any]] = {
    "json": lambda message: message,
    "slack": _slack,
    "alertmanager": _alertmanager,
}
