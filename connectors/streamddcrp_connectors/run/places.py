"""Files here and elsewhere: by pattern, packed, in an object store, on a web server.

All that is read of a file goes through `Place`, whichever system it lies on: pyarrow's own for this
machine and for S3. A file of a web server is fetched as a whole first, since many such servers
give no part of one.
"""

import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from http.client import HTTPException
from typing import Any

import pyarrow as pa
from pyarrow import fs

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp_connectors.run.address import Address
from streamddcrp_connectors.run.contents import DAMAGED, HEAD, unwrapped
from streamddcrp_connectors.run.lines import check_fingerprint, fingerprint

_ANSWER = 30.0  # seconds


@dataclass(frozen=True)
class Place:
    """A file that is whole."""

    name: str  # for messages and checkpoints: without secrets
    path: str  # within ``system``
    system: Any
    kept: Any = None  # a temporary file, which goes when it is closed

    @classmethod
    def local(cls, path: str) -> "Place":
        return cls(path, path, fs.LocalFileSystem())

    @contextmanager
    def guarded(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise ConfigError(f"there is no file {self.name}") from error
        except (OSError, pa.ArrowException, *DAMAGED) as error:
            raise _failed(self.name, error) from error

    def open(self, *, mapped: bool = False) -> Any:
        """Open for reads at any place; ``mapped`` into memory, if it is on this machine."""
        local = mapped and isinstance(self.system, fs.LocalFileSystem)
        with self.guarded():
            system = fs.LocalFileSystem(use_mmap=True) if local else self.system
            return system.open_input_file(self.path)

    def fingerprint(self) -> dict[str, Any]:
        """Digest the file, with its ``size``."""
        with self.open() as file, self.guarded():
            size = file.size()
            return {"size": size} | fingerprint(file.read_at, size)

    def check(self, recorded: dict[str, Any]) -> None:
        """Refuse a file that is not the recorded one, perhaps with something after it."""
        with self.open() as file, self.guarded():
            check_fingerprint(file.read_at, file.size(), recorded["size"], recorded, self.name)

    def unpacked(self, byte: int = 0) -> "Unpacked":
        """Open what the file holds, from a byte of it on; what is before is read over."""
        return Unpacked(self, byte)

    def head(self) -> bytes:
        stream = self.unpacked()
        try:
            return stream.read1(HEAD)
        finally:
            stream.close()


class Unpacked:
    """The lines that a file holds, whatever they are packed in."""

    def __init__(self, place: Place, byte: int) -> None:
        self.place = place
        self.said: list[str] = []
        self._file = file = place.open()
        path = place.path if isinstance(place.system, fs.LocalFileSystem) else None
        try:
            with place.guarded():
                self._stream = unwrapped(file, place.name, path, self.said)
            while byte and (skipped := self.read1(min(byte, 1 << 20))):
                byte -= len(skipped)
            if byte:
                message = f"{place.name} is shorter than what was already read: was it replaced?"
                raise SchemaError(message)
        except BaseException:
            file.close()
            raise

    def read1(self, n: int) -> bytes:
        with self.place.guarded():
            data: bytes = self._stream.read(n)
            return data

    read = read1

    def close(self) -> None:
        self._file.close()


def is_pattern(path: str) -> bool:
    """Whether a path stands for several files."""
    return any(letter in path for letter in "*?[")


def places(spec: str) -> list[Place]:
    """Return the files that a path, pattern or address stands for, in order of their names.

    ``*``, ``?`` and ``[...]`` stand for parts of one name, as in a shell; names that begin with a
    dot or an underscore are left out. There must be one.
    """
    if "://" not in spec:
        system: Any = fs.LocalFileSystem()
        return [Place(path, path, system) for path in _matching(system, spec, spec)]
    address = Address.parse(spec, port=0, options=None, secrets=["token"])
    name = spec.partition("?")[0].replace(f"{address.user}@", "")
    if address.scheme in ("http", "https"):
        return [_fetched(spec, name, address.secret("token"))]
    try:
        system, path = fs.FileSystem.from_uri(spec)
    except (OSError, pa.ArrowException, ValueError) as error:
        raise ConfigError(f"{name}: {error}") from error
    begin = name[: len(name) - len(path)]
    return [Place(begin + found, found, system) for found in _matching(system, path, name)]


def _matching(system: Any, pattern: str, name: str) -> list[str]:
    """Return the paths of files that match, level by level."""
    found = [""]
    for number, part in enumerate(pattern.split("/")):
        if is_pattern(part):
            found = [
                info.path
                for folder in found
                for info in _entries(system, folder if number else ".", name)
                if fnmatchcase(info.base_name, part) and info.base_name[0] not in "._"
            ]
        else:
            found = [f"{folder}/{part}" if number else part for folder in found]
    try:
        kinds = system.get_file_info(found)
    except OSError as error:
        raise _failed(name, error, ConfigError) from error
    files = sorted(info.path for info in kinds if info.type == fs.FileType.File)
    if not files:
        message = f"no file matches {name}" if is_pattern(pattern) else f"there is no file {name}"
        raise ConfigError(message)
    return files


def _entries(system: Any, folder: str, name: str) -> list[Any]:
    try:
        found = system.get_file_info(fs.FileSelector(folder or "/", allow_not_found=True))
    except NotADirectoryError:
        return []
    except OSError as error:
        raise _failed(name, error, ConfigError) from error
    return list(found)


def _fetched(spec: str, name: str, token: str | None) -> Place:
    """Fetch a file of a web server into a temporary one."""
    options = [part for part in spec.partition("?")[2].split("&") if not part.startswith("token_")]
    url = spec.partition("?")[0] + "?" * bool(options) + "&".join(filter(None, options))
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    kept = tempfile.NamedTemporaryFile(prefix="streamddcrp-")  # noqa: SIM115 -- until `close`
    try:
        request = urllib.request.Request(url, headers=headers)
        with urllib.request.urlopen(request, timeout=_ANSWER) as answer:
            shutil.copyfileobj(answer, kept, 1 << 20)
            wanted = int(answer.headers.get("Content-Length") or kept.tell())
        kept.flush()
        if kept.tell() != wanted:
            raise OSError(f"only {kept.tell():,} of {wanted:,} bytes came")
    except urllib.error.HTTPError as error:
        error.close()
        kept.close()
        raise ConfigError(f"{name}: the server says {error.code} {error.reason}") from error
    except (OSError, HTTPException) as error:
        kept.close()
        message = f"{name} cannot be fetched: {getattr(error, 'reason', None) or error}"
        raise ConfigError(message) from error
    return Place(name, kept.name, fs.LocalFileSystem(), kept)


def _failed(name: str, error: Exception, kind: type[Exception] = SchemaError) -> Exception:
    """Return what an error of pyarrow means: unreachable for now, refused, or damaged."""
    text = str(error)
    if "NETWORK_CONNECTION" in text or "Timeout was reached" in text:
        return ConnectionError(text) if kind is SchemaError else ConfigError(f"{name}: {text}")
    if "ACCESS_DENIED" in text or "INVALID_ACCESS_KEY" in text or "SIGNATURE" in text:
        return ConfigError(f"{name}: access is refused; set AWS_ACCESS_KEY_ID and its secret")
    if kind is ConfigError or "AWS Error" in text:
        return ConfigError(f"{name}: {text}")
    return SchemaError(f"{name} is damaged or cannot be read: {text}")
