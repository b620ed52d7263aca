"""Who may see the page: whoever has the token, from the page's own address.

A browser gets in once by ``/?token=...`` and then keeps a cookie. Every request has its Host and
Origin checked, so a page of another site open in the same browser cannot reach this one, even if it
points a name of its own here (DNS rebinding).
"""

import hmac
import ipaddress
import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from streamddcrp_connectors.run.address import is_loopback

TOKEN = "page-token"


class Access:
    """The access rule for a page that listens on the address or name ``host``.

    Examples
    --------
    >>> access = Access("127.0.0.1", 8765, "secret")
    >>> access.host_is_ours("localhost:8765"), access.host_is_ours("evil.example:8765")
    (True, False)
    >>> access.origin_is_ours("http://localhost:8765", "localhost:8765")
    True
    """

    def __init__(self, host: str, port: int, token: str) -> None:
        self._token = token.encode()
        self.cookie = f"streamddcrp-{port}"  # cookies are not separate for each port
        self._anywhere = not is_loopback(host)
        self._names = {"localhost", host.lower()}
        if self._anywhere:
            self._names |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    def token_is_ours(self, given: str | None) -> bool:
        """Compare in constant time."""
        return given is not None and hmac.compare_digest(given.encode(), self._token)

    def host_is_ours(self, given: str | None) -> bool:
        """Whether the header Host names this machine."""
        name = None
        with suppress(ValueError):
            name = urlsplit(f"//{given or ''}").hostname
        try:
            address = ipaddress.ip_address(name or "")
        except ValueError:
            return name in self._names
        return address.is_loopback or self._anywhere

    def origin_is_ours(self, given: str | None, host: str | None) -> bool:
        """Whether the header Origin, if present, names the page itself."""
        if given is None:
            return True
        parts = urlsplit(given)
        return parts.scheme in ("http", "https") and parts.netloc == host


def token_of(folder: Path | None) -> str:
    """Return the secret that opens the page, read from the folder or new."""
    if folder is None:
        return secrets.token_urlsafe(24)
    path = folder / TOKEN
    folder.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    with os.fdopen(handle, "w") as file:
        file.write(secrets.token_urlsafe(24))
    return path.read_text()
