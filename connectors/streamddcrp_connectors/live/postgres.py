"""PostgreSQL tables as sources and sinks: ``postgresql://user@host/database/table``.

The source reads a table in the order of an integer column that the server fills at each insert,
such as ``bigserial``. Numbers become visible in another order than they are drawn: 6 may be
readable while a transaction still holds 5. The source therefore reads up to a number M only after
all transactions have ended that were writing to the table when M was seen. An insert locks its
table before it draws a number, and its lock lasts until the rows are visible. We lock nothing. (The
oldest running transaction would not do: numbers are drawn before a transaction gets its id.)

The sink writes rows and, in the same transaction, their count in ``streamddcrp_jobs``.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.pq import PGconn, Ping
from pyarrow import csv

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp_connectors.live.counted import CountedSink
from streamddcrp_connectors.live.messages import TableSource
from streamddcrp_connectors.run.address import Address
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.gather import POLL

PORT = 5432
_TYPES = {  # of PostgreSQL, as Arrow
    "smallint": pa.int64(),
    "integer": pa.int64(),
    "bigint": pa.int64(),
    "real": pa.float64(),
    "double precision": pa.float64(),
    "numeric": pa.float64(),
    "boolean": pa.bool_(),
    "text": pa.string(),
    "character varying": pa.string(),
    "date": pa.date32(),
    "timestamp without time zone": pa.timestamp("us"),
    "timestamp with time zone": pa.timestamp("us", "UTC"),
}
_WHOLE = ("smallint", "integer", "bigint")
_LAYOUT = """
select a.attname, format_type(a.atttypid, null), exists (
    select from pg_index i where i.indrelid = a.attrelid and i.indisunique
    and i.indpred is null and i.indkey[0] = a.attnum)
from pg_attribute a where a.attrelid = %s::regclass and a.attnum > 0 and not a.attisdropped
"""
_WRITERS = """
select virtualtransaction from pg_locks
where locktype = 'relation' and relation = %s::regclass and mode = 'RowExclusiveLock' and granted
    and database = (select oid from pg_database where datname = current_database())
"""


class _Database:
    """A connection opened when needed."""

    def __init__(self, address: Address) -> None:
        database, _, table = address.path.partition("/")
        if len(address.hosts) != 1 or not database or not table or "/" in table:
            raise ConfigError(f"{address.name} must be {address.scheme}://host/database/table")
        self.name, self.table = address.name, sql.Identifier(*table.split("."))
        host, port = address.hosts[0]
        self._options: dict[str, Any] = {
            "host": host, "port": port, "dbname": database, "user": address.user,
            "password": address.secret("password"), "application_name": "streamddcrp",
            "connect_timeout": 3, "sslmode": address.options.get("sslmode"),
        }  # fmt: skip
        self._connection: Any = None

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """Yield a connection in autocommit mode, and turn errors into those the runner knows."""
        try:
            if self._connection is None:
                self._connection = self._connect()
            yield self._connection
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            self.close()
            raise ConnectionError(" ".join(str(error).split())) from error
        except psycopg.errors.UndefinedTable as error:
            raise ConfigError(f"{self.name}: {_first(error)}; make it first") from error
        except psycopg.errors.UndefinedColumn as error:
            raise SchemaError(f"{self.name}: {_first(error)}") from error
        except psycopg.Error as error:
            raise ConfigError(f"{self.name}: {_first(error)}") from error

    def _connect(self) -> Any:
        """Connect; a permanent refusal is an error that ends the run.

        libpq reports a refusal only as text in the server's language, without SQLSTATE, but it can
        tell whether the server takes connections at all.
        """
        for again in (True, False):  # it may have come up since
            try:
                return psycopg.connect(**self._options, autocommit=True)
            except psycopg.OperationalError as error:
                text, where = " ".join(str(error).split()), make_conninfo(**self._options).encode()
                if PGconn.ping(where) != Ping.OK or "too many" in text:
                    raise ConnectionError(text) from error
                if not again:
                    why = text.rpartition("FATAL:")[2].strip()
                    raise ConfigError(f"{self.name} refuses the connection: {why}") from error
        return None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class PostgresSource(TableSource):
    """Rows of a table; the place is the last number read.

    ``postgresql://[user@]host[:port]/database/[schema.]table?order=COLUMN``. With ``channel=NAME``
    a ``NOTIFY`` wakes the job at once. Also ``sslmode``, ``password_env`` and ``password_file``.
    """

    def __init__(self, spec: str, columns: Columns, batch_rows: int) -> None:
        address = Address.parse(
            spec, port=PORT, options=["order", "channel", "sslmode"], secrets=["password"]
        )
        super().__init__(address.name, columns, batch_rows)
        self._database = _Database(address)
        self._order = address.options.get("order", "")
        if not self._order:
            raise ConfigError(f"{self.name}: name the column that numbers the rows, ?order=COLUMN")
        self._channel = address.options.get("channel")

    def after(self, at: Any) -> Iterator[tuple[Any, Any]]:
        self._database.close()
        with self._database.connected() as connection:
            cells, types = self._look(connection)
            if self._channel is not None:
                connection.execute(sql.SQL("listen {}").format(sql.Identifier(self._channel)))
        for upto in self._settled(at):
            if upto is None:
                yield None, at
            while upto is not None and (at is None or at < upto):
                with self._database.connected() as connection:
                    found = self._rows(connection, cells, at, upto)
                if not found:  # they were deleted
                    at = upto
                    yield None, at
                    break
                at = found[-1][-1]
                yield self._batch(found, types), at

    def close(self) -> None:
        self._database.close()

    def _look(self, connection: Any) -> tuple[Any, list[Any]]:
        """Check the table; return what to select, and the Arrow types of the columns."""
        table = self._database.table.as_string(connection)
        layout = {
            name: (kind, unique) for name, kind, unique in connection.execute(_LAYOUT, [table])
        }
        self.columns.resolve(list(layout), self.name)
        for name in (*self.columns.names, self._order):
            if name not in layout:
                raise ConfigError(f"{self.name} has no column {name!r}; it has {', '.join(layout)}")
        kind, unique = layout[self._order]
        if kind not in _WHOLE or not unique:
            raise ConfigError(
                f"{self.name}: the column {self._order!r} must be a whole number with a unique "
                "index, given by the server at each insert, such as bigserial primary key"
            )
        for name in self.columns.names:
            if layout[name][0] not in _TYPES:
                raise SchemaError(
                    f"{self.name}: column {name!r} has type {layout[name][0]}; it must be one of "
                    f"{', '.join(_TYPES)}: make a view of it, or another column"
                )
        cells = [
            sql.SQL("{}::float8" if layout[name][0] == "numeric" else "{}").format(
                sql.Identifier(name)
            )
            for name in (*self.columns.names, self._order)
        ]
        types = [_TYPES[layout[name][0]] for name in self.columns.names]
        return sql.SQL(", ").join(cells), types

    def _settled(self, at: int | None) -> Iterator[int | None]:
        """Yield numbers up to which no new rows can appear; None while nothing is new."""
        order, table = sql.Identifier(self._order), self._database.table
        query = sql.SQL("select max({}) from {}").format(order, table)
        while True:
            with self._database.connected() as connection:
                (last,) = connection.execute(query).fetchone()
                name = table.as_string(connection)
                writing = set() if last in (None, at) else _writers(connection, name)
            if last is not None and at is not None and last < at:
                raise SchemaError(
                    f"{self.name} ends with {self._order} = {last}, but {at} was read of it: was "
                    "it made again? Start with a new checkpoint folder"
                )
            if last in (None, at):
                self._wait(POLL)
                yield None
                continue
            while writing:
                self._wait(POLL / 10)
                yield None
                with self._database.connected() as connection:
                    writing &= _writers(connection, name)
            yield last
            at = last

    def _wait(self, seconds: float) -> None:
        """Wait for the time or the channel's notification."""
        with self._database.connected() as connection:
            for _ in connection.notifies(timeout=seconds, stop_after=1):
                pass

    def _rows(self, connection: Any, cells: Any, at: int | None, upto: int) -> list[Any]:
        order = sql.Identifier(self._order)
        after = sql.SQL("true") if at is None else sql.SQL("{} > {}").format(order, at)
        query = sql.SQL("select {} from {} where {} and {} <= {} order by {} limit {}").format(
            cells, self._database.table, after, order, upto, order, self._batch_rows
        )
        found: list[Any] = connection.execute(query).fetchall()
        return found

    def _batch(self, found: list[Any], types: list[Any]) -> Any:
        cells = list(zip(*found, strict=True))[:-1]
        try:
            arrays = [pa.array(column, to) for column, to in zip(cells, types, strict=True)]
        except (pa.ArrowException, TypeError, OverflowError) as error:
            message = f"{self.name}: a column changed its type while it was read: {error}"
            raise SchemaError(message) from error
        return pa.record_batch(arrays, names=list(self.columns.names))


def _writers(connection: Any, table: str) -> set[str]:
    """Return transactions that may have drawn numbers but not yet shown their rows."""
    return {name for (name,) in connection.execute(_WRITERS, [table])}


class PostgresSink(CountedSink):
    """Rows of a table, which is created if missing."""

    def __init__(self, spec: str, folder: Any, what: str) -> None:
        address = Address.parse(spec, port=PORT, options=["sslmode"], secrets=["password"])
        super().__init__(address, what)
        self._database = _Database(address)

    def arrived(self, job: str, recorded: int) -> int:
        with self._database.connected() as connection, connection.transaction():
            connection.execute("select pg_advisory_xact_lock(hashtext('streamddcrp_jobs'))")
            connection.execute(
                "create table if not exists streamddcrp_jobs (job text primary key, rows bigint)"
            )
            found = connection.execute("select rows from streamddcrp_jobs where job = %s", [job])
            return int((found.fetchone() or [0])[0])

    def send(self, job: str, first: int, batch: Any) -> None:
        """Copy the rows and count them, in one transaction."""
        table, end = self._database.table, first + batch.num_rows
        text = io.BytesIO()
        csv.write_csv(batch, text, csv.WriteOptions(include_header=False))
        names = [sql.Identifier(name) for name in batch.schema.names]
        kinds = [sql.SQL("{} " + _sql_type(field.type)).format(name)
                 for name, field in zip(names, batch.schema, strict=True)]  # fmt: skip
        listed, made = sql.SQL(", ").join(names), sql.SQL(", ").join(kinds)
        with self._database.connected() as connection, connection.transaction():
            connection.execute("set local synchronous_commit = on")
            counted = connection.execute(
                "insert into streamddcrp_jobs values (%s, %s) on conflict (job) do update "
                "set rows = excluded.rows where streamddcrp_jobs.rows = %s returning rows",
                [job, end, first],
            ).fetchone()
            if counted is None:
                message = f"{self.name}: another run writes the rows of this job; end it first"
                raise ConfigError(message)
            connection.execute(sql.SQL("create table if not exists {} ({})").format(table, made))
            into = sql.SQL("copy {} ({}) from stdin (format csv)").format(table, listed)
            with connection.cursor().copy(into) as copy:
                copy.write(text.getbuffer())

    def finish(self) -> None:
        self._database.close()


def _sql_type(kind: Any) -> str:
    if pa.types.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    if pa.types.is_integer(kind):
        return "bigint"
    if pa.types.is_floating(kind):
        return "double precision"
    return "boolean" if pa.types.is_boolean(kind) else "text"


def _first(error: Exception) -> str:
    return str(error).partition("\n")[0]
