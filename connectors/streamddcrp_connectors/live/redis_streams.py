"""Redis Streams: ``redis://host:6379/KEY``, or ``rediss://`` over TLS.

The server gives each entry of a stream an id, which is our place. One field of an entry holds the
message. The sink adds entries and counts them in the hash ``KEY:rows``, in one atomic script.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp_connectors.live.counted import CountedSink
from streamddcrp_connectors.live.messages import MessageSource
from streamddcrp_connectors.run.address import Address
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.gather import POLL
from streamddcrp_connectors.run.sinks import json_lines

PORT = 6379
_OPTIONS = ["db", "field", "ca"]
_FIELD = "data"
_FIRST = "0-0"  # before all ids
_AT_ONCE = 1000  # entries in one script
_ADD = """
local known = tonumber(redis.call('hget', KEYS[2], ARGV[1]) or '0')
if known ~= tonumber(ARGV[2]) then
  return redis.error_reply('OTHERROWS ' .. known)
end
for i = 4, #ARGV do redis.call('xadd', KEYS[1], '*', ARGV[3], ARGV[i]) end
redis.call('hset', KEYS[2], ARGV[1], known + #ARGV - 3)
return known + #ARGV - 3
"""


def _client(address: Address) -> Any:
    address.require("KEY")
    if "ca" in address.options and address.scheme != "rediss":
        raise ConfigError(f"{address.name}: ca is for rediss://, which is encrypted")
    host, port = address.hosts[0]
    return redis.Redis(
        host=host,
        port=port,
        db=address.number("db", 0),
        username=address.user,
        password=address.secret("password"),
        ssl=address.scheme == "rediss",
        ssl_ca_certs=address.options.get("ca"),
        protocol=2,  # entries come as lists
        socket_connect_timeout=2.0,
        socket_timeout=5.0,
        retry=Retry(NoBackoff(), 0),  # the runner waits, and says so
    )


@contextmanager
def _guard(name: str) -> Iterator[None]:
    """Turn the client's errors into those that the runner knows."""
    try:
        yield
    except redis.AuthenticationError as error:
        raise ConfigError(f"{name} refuses the user or password") from error
    except (
        redis.ConnectionError,
        redis.TimeoutError,
        redis.BusyLoadingError,
        redis.exceptions.MasterDownError,
        redis.OutOfMemoryError,
        redis.ReadOnlyError,  # a replica, until it is made the master
    ) as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            message = f"{name}: the server's certificate is not known; name its ca=FILE"
            raise ConfigError(message) from error
        raise ConnectionError(re.sub(r"^Error \d+ ", "", str(error)) or "no answer") from error
    except redis.ResponseError as error:
        if str(error).startswith("MISCONF"):  # its disk is full
            raise ConnectionError(str(error)) from error
        if "NOAUTH" in str(error) or "WRONGPASS" in str(error):
            raise ConfigError(f"{name} refuses the user or password") from error
        raise ConfigError(f"{name}: {error}") from error


class RedisSource(MessageSource):
    """Entries of a stream, ``redis://[user@]host[:port]/KEY``.

    Options: ``field`` of an entry with the message (default: ``data``), ``from=start|new``,
    ``db``; ``password_env``, ``password_file``.
    """

    def __init__(self, spec: str, columns: Columns, batch_rows: int) -> None:
        options = [*_OPTIONS, "from"]
        address = Address.parse(spec, port=PORT, options=options, secrets=["password"])
        super().__init__(address, columns, batch_rows)
        self._client = _client(address)
        self._key, self._new = address.path, address.begins_new
        self._field = address.options.get("field", _FIELD).encode()

    def after(self, at: Any) -> Iterator[tuple[Sequence[bytes], Any]]:
        """Yield the entries after a place: an id, and the number of entries up to it."""
        with _guard(self.name):
            last, count = self._begin(at)
        yield [], [last, count]
        wait = int(POLL * 1000)
        while True:
            with _guard(self.name):
                found = self._client.xread({self._key: last}, count=self._most, block=wait)
            entries = found[0][1] if found else []
            if entries:
                last, count = entries[-1][0].decode(), count + len(entries)
            yield [fields.get(self._field, b"?") for _, fields in entries], [last, count]

    def close(self) -> None:
        self._client.close()

    def _begin(self, at: Any) -> tuple[str, int]:
        """Return where to continue, after checking that nothing is missing."""
        kind = self._client.type(self._key).decode()
        if kind not in {"stream", "none"}:
            raise ConfigError(f"{self.name} is not a stream but a {kind}")
        if kind == "none" and at in (None, [_FIRST, 0]):
            return _FIRST, 0
        state = {} if kind == "none" else self._client.xinfo_stream(self._key)
        end, length = (
            state.get("last-generated-id", _FIRST.encode()).decode(),
            state.get("length", 0),
        )
        added = state.get("entries-added", length)
        if at is None:
            return (end, added) if self._new else (_FIRST, added - length)
        last, count = at
        if _order(end) < _order(last):
            raise SchemaError(
                f"{self.name} ends with entry {end}, but {last} was read of it: it lost entries, "
                "or was made again. Start with a new checkpoint folder"
            )
        if added - length > count:
            raise SchemaError(
                f"{self.name}: {added - length - count:,} entries after {last}, the last that was "
                "read, were removed. Start with a new checkpoint folder"
            )
        return last, count


def _order(entry: str) -> tuple[int, int]:
    time, _, number = entry.partition("-")
    return int(time), int(number or 0)


class RedisSink(CountedSink):
    """Rows as JSON entries of a stream; options of the source without ``from``."""

    def __init__(self, spec: str, folder: Any, what: str) -> None:
        address = Address.parse(spec, port=PORT, options=_OPTIONS, secrets=["password"])
        super().__init__(address, what)
        self._client = _client(address)
        self._keys = [address.path, f"{address.path}:rows"]
        self._field = address.options.get("field", _FIELD)

    def arrived(self, job: str, recorded: int) -> int:
        with _guard(self.name):
            if self._client.exists(self._keys[0]):
                self.say_not_alone()
            return int(self._client.hget(self._keys[1], job) or 0)

    def send(self, job: str, first: int, batch: Any) -> None:
        lines = json_lines(batch).splitlines()
        for start in range(0, len(lines), _AT_ONCE):
            some = lines[start : start + _AT_ONCE]
            with _guard(self.name):
                self._client.eval(_ADD, 2, *self._keys, job, first + start, self._field, *some)

    def finish(self) -> None:
        self._client.close()
