"""Addresses of servers, ``scheme://user@host:port/path?option=value``, without their secrets.

A password or token never stands in an address, which others can see in the list of processes and in
logs. The address says where it is: ``?password_env=NAME`` or ``?password_file=FILE``.
"""

import ipaddress
import itertools
import os
import re
import ssl
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import parse_qsl, unquote, urlsplit

from streamddcrp.errors import ConfigError

_PLACES = ("env", "file")
# scheme, hosts, rest (appendix B of RFC 3986): urlsplit wants one host where there are brackets
_PARTS = re.compile(r"(?:([^:/?#]+):)?(?://([^/?#]*))?(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is, and what is wanted of it.

    Examples
    --------
    >>> address = Address.parse("nats://me@host/ORDERS?subject=a.b", port=4222, options=["subject"])
    >>> address.hosts, address.user, address.path, address.options
    ((('host', 4222),), 'me', 'ORDERS', {'subject': 'a.b'})
    >>> address.name
    'nats://host:4222/ORDERS?subject=a.b'
    """

    scheme: str
    hosts: tuple[tuple[str, int], ...]  # several where the server is a cluster
    user: str | None
    path: str  # without its first slash
    options: dict[str, str]
    _secrets: dict[str, tuple[str, str]]

    @classmethod
    def parse(
        cls,
        spec: str,
        *,
        port: int,
        options: Collection[str] | None = (),
        secrets: Collection[str] = ("password", "token"),
    ) -> Self:
        """Read an address.

        Parameters
        ----------
        port : int
            Used where the address names none.
        options : collection of str
            What may stand after ``?``; None: anything.
        secrets : collection of str
            What ``NAME_env`` and ``NAME_file`` may stand for.
        """
        found = _PARTS.fullmatch(spec)
        assert found is not None  # it takes any text
        scheme, netloc, rest = (found[1] or "").lower(), found[2] or "", found[3]
        parts = urlsplit(f"//host{rest}")
        who, _, where = netloc.rpartition("@")
        user, colon, _ = who.partition(":")
        if colon:
            raise ConfigError(
                f"the {scheme} address holds a password, which others can see: take it out, "
                "and give ?password_env=NAME or ?password_file=FILE"
            )
        kept: dict[str, str] = {}
        hidden: dict[str, tuple[str, str]] = {}
        sources = {f"{name}_{place}": (name, place) for name in secrets for place in _PLACES}
        for name, value in parse_qsl(parts.query, keep_blank_values=True):
            known = options is None or name in {*options, *sources}
            if not value or name in kept or not known:
                problem = "is empty or repeated" if known else "is unknown"
                valid = ", ".join([*(options or ()), *sources])
                message = f"the {scheme} address: option {name!r} {problem}; valid are {valid}"
                raise ConfigError(message)
            if name in sources:
                hidden[sources[name][0]] = (sources[name][1], value)
            else:
                kept[name] = value
        hosts = tuple(_host(text, port, scheme) for text in where.split(","))
        path = unquote(parts.path).strip("/")
        return cls(scheme, hosts, unquote(user) or None, path, kept, hidden)

    @property
    def name(self) -> str:
        """The address without user and secrets: for messages and checkpoints."""
        hosts = ",".join(itertools.starmap(host_port, self.hosts))
        options = "&".join(f"{name}={value}" for name, value in self.options.items())
        path = f"/{self.path}" if self.path else ""
        return f"{self.scheme}://{hosts}{path}{'?' if options else ''}{options}"

    @property
    def tls(self) -> ssl.SSLContext | None:
        """What the server's certificate is checked against: those of this machine, or ``ca=FILE``.

        None: the connection is not encrypted.
        """
        if not self.with_tls:
            return None
        try:
            return ssl.create_default_context(cafile=self.options.get("ca"))
        except (OSError, ssl.SSLError) as error:
            message = f"{self.name}: {self.options['ca']} holds no certificates: {error}"
            raise ConfigError(message) from error

    @property
    def begins_new(self) -> bool:
        """Whether a job begins with what arrives from now on, by ``from=new``."""
        begin = self.options.get("from", "start")
        if begin not in {"start", "new"}:
            raise ConfigError(f"{self.name}: from must be start or new")
        return begin == "new"

    def require(self, path: str, *, one_host: bool = True) -> str:
        """Return the path; an error says what it should be."""
        if not self.path or (one_host and len(self.hosts) != 1):
            raise ConfigError(f"{self.name} must be {self.scheme}://host/{path}")
        return self.path

    def number(self, option: str, default: int, least: int = 0) -> int:
        """Return an option that is a whole number."""
        text = self.options.get(option, str(default))
        if not text.isdecimal() or int(text) < least:
            message = f"{option} must be a whole number from {least}, got {text!r}"
            raise ConfigError(f"{self.name}: {message}")
        return int(text)

    @property
    def with_tls(self) -> bool:
        """Whether the connection is encrypted: ``tls=yes``, or ``ca`` is named."""
        if self.options.get("tls", "no") not in {"yes", "no"}:
            raise ConfigError(f"{self.name}: tls must be yes or no")
        return self.options.get("tls") == "yes" or "ca" in self.options

    def secret(self, what: str = "password") -> str | None:
        """Return a password or token from where the address says that it is; None: nowhere."""
        if what not in self._secrets:
            return None
        place, name = self._secrets[what]
        if place == "env":
            if name not in os.environ:
                raise ConfigError(f"{self.name}: {what}_env names {name}, which is not set")
            return os.environ[name]
        try:
            return Path(name).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self.name}: cannot read the {what} in {name}") from error


def _host(text: str, port: int, scheme: str) -> tuple[str, int]:
    """Split ``host:port``; an IPv6 address is in brackets."""
    try:
        parts = urlsplit(f"//{text}")
        return parts.hostname or "127.0.0.1", parts.port or port
    except ValueError as error:
        raise ConfigError(f"the {scheme} address: {text!r} is not HOST:PORT") from error


def host_port(host: str, port: int) -> str:
    """Return ``host:port``, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
