"""Receivers of messages: web addresses, in the form that each expects, and e-mail.

``https://host/path`` gets each row as a JSON object. With ``template=slack`` it gets a text for a
chat; with ``template=alertmanager`` alarms for Prometheus' Alertmanager, at ``/api/v2/alerts``.
``smtp://host/?to=ops@example.com&from=plant@example.com`` sends an e-mail.
"""

import datetime as dt
import json
import smtplib
import urllib.error
import urllib.request
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlunsplit

from streamddcrp.errors import ConfigError
from streamddcrp_connectors.live.delivery import DeliverySink, RefusedError
from streamddcrp_connectors.run.address import Address, host_port
from streamddcrp_connectors.run.alarming import RESOLVED

_TIMEOUT = 5.0  # seconds
_PORTS = {"http": 80, "https": 443, "smtp": 25}
_LATER = {408, 425, 429}  # temporary refusals
_LASTS = dt.timedelta(days=1)  # an alarm that no later message mentions
Message = dict[str, Any]


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
