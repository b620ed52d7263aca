"""PostgreSQL, a real server: rows in and out once, also those that become visible late."""

import json
import signal
import tempfile
import threading
import time
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.sinks import open_sink
from streamddcrp_connectors.run.sources import open_source

from .brokers import Postgres, started
from .live import COLUMNS, drive, expected, made, meanwhile
from .servers import free_port

TABLE = "create table rows (id bigserial primary key, t float8, k text, a numeric, b real)"
INSERT = "insert into rows (t, k, a, b) values (%(t)s, %(k)s, %(a)s, %(b)s)"
RESULTS = (
    "select row_to_json(r) from (select row, time, label, label_prob, score, p_new, p_change, "
    "n_tables from results order by row) r"
)
EVENTS = "select row_to_json(r) from (select * from events order by ctid) r"


@pytest.fixture(scope="module")
def server():
    with tempfile.TemporaryDirectory() as folder:
        yield from started(Postgres, Path(folder))


@pytest.fixture
def database(server):
    server.do("drop table if exists rows, kinds, results, events, streamddcrp_jobs", TABLE)
    return server


@pytest.fixture
def opened():
    """Open sources that are closed at the end."""
    sources = []

    def open_one(spec, columns=COLUMNS, **more):
        sources.append(open_source(spec, columns, **more))
        return sources[-1]

    yield open_one
    for source in sources:
        source.close()


def address(server, table="rows", more="?order=id"):
    return f"postgresql://postgres@127.0.0.1:{server.port}/postgres/{table}{more}"


def insert(server, texts, pause=0.0):
    """Insert rows one by one, each until the server has it."""
    connection = None
    for number, text in enumerate(texts, 1):
        while True:
            try:
                connection = connection or server.connect()
                (count,) = connection.execute("select count(*) from rows").fetchone()
                if count < number:
                    connection.execute(INSERT, json.loads(text))
                break
            except psycopg.Error:
                connection = None
                time.sleep(0.05)
        time.sleep(pause)
    connection.close()


def killed(server, folder, n, kills, restarts=0, seed=0):
    texts = made(n)

    def restart():
        for _ in range(restarts):
            time.sleep(2.0)
            server.restart(signal.SIGQUIT)  # at once: it recovers from its log

    sinks = {"sink": address(server, "results", ""), "events": address(server, "events", "")}
    with meanwhile(insert, server, texts, (0.15 * kills + restarts) / n), meanwhile(restart):
        drive(folder / "job", address(server), n, kills=kills, seed=seed, **sinks)
    out, events = expected(folder / "alone", texts)
    assert [json.loads(line) for line in server.read(RESULTS)] == out
    assert [json.loads(line) for line in server.read(EVENTS)] == events


def test_killed(database, tmp_path):
    killed(database, tmp_path, 200, 3)


def test_the_server_is_started_again(database, tmp_path):
    killed(database, tmp_path, 200, 1, restarts=1)


@pytest.mark.slow
def test_killed_fifty_times(database, tmp_path):
    killed(database, tmp_path, 4000, 50, restarts=10, seed=1)


def taken(stream, n, seconds=5.0):
    """Values of column t, until there are n of them or time is over."""
    found, end = [], time.monotonic() + seconds
    for batch, _ in stream:
        found += [] if batch is None else batch.column("t").to_pylist()
        if len(found) >= n or time.monotonic() > end:
            return found
    return found


def put(connection, t):
    connection.execute("insert into rows (t, a, b) values (%s, 0, 0)", [t])


def test_rows_that_become_visible_late(database, opened):
    """Number 1 is drawn first and committed last; it is read first all the same."""
    stream = opened(address(database)).read_after(None)
    assert next(stream)[0] is None
    with database.connect() as early, database.connect() as late:
        with early.transaction():
            put(early, 1.0)
            put(late, 2.0)
            assert taken(stream, 1, 0.3) == []
        assert taken(stream, 2) == [1.0, 2.0]


def test_a_writer_that_is_always_there_holds_nothing_back(database, opened):
    stream = opened(address(database)).read_after(None)
    next(stream)
    stop = threading.Event()

    def write(value):
        with database.connect() as connection:
            while not stop.is_set():
                with connection.transaction():
                    put(connection, value)
                    time.sleep(0.05)

    with meanwhile(write, 1.0), meanwhile(write, 2.0):
        time.sleep(0.03)
        found = taken(stream, 10)
        stop.set()
    assert len(found) >= 10


def test_many_writers(database, opened):
    """Transactions of random length, some rolled back: all that was committed is read, in order."""
    n_writers, n_each = 6, 60
    stream = opened(address(database), batch_rows=7).read_after(None)
    next(stream)

    def write(writer):
        with database.connect() as connection:
            for i in range(n_each):
                with connection.transaction() as transaction:
                    put(connection, float(writer * n_each + i))
                    time.sleep((i * 7919 + writer * 104729) % 5 / 1000)
                    if i % 10 == 9:
                        raise psycopg.Rollback(transaction)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(n_writers)]
    for thread in threads:
        thread.start()
    found = taken(stream, n_writers * n_each * 9 // 10, 20)
    for thread in threads:
        thread.join()
    in_table = [float(line) for line in database.read("select t from rows order by id")]
    assert len(in_table) == n_writers * n_each * 9 // 10
    assert found == in_table


def test_a_notification_wakes_at_once(database, monkeypatch, opened):
    monkeypatch.setattr("streamddcrp_connectors.live.postgres.POLL", 10.0)
    stream = opened(address(database, more="?order=id&channel=rows")).read_after(None)
    with database.connect() as connection, meanwhile(next, stream):
        time.sleep(0.3)
        since = time.monotonic()
        with connection.transaction():
            put(connection, 1.0)
            connection.execute("notify rows")
    assert taken(stream, 1) == [1.0]
    assert time.monotonic() - since < 5


def test_kinds_of_columns(database, opened):
    database.do(
        "create table kinds (id int generated always as identity primary key, t timestamptz, "
        "k varchar(9), a smallint, b bool, c date)",
        "insert into kinds (t, k, a, b) values ('2024-05-01T00:00:00.000001+02', 'x', 3, true)",
        "insert into kinds (t, k, a, b) values (null, 'x', null, null)",
    )
    source = opened(address(database, "public.kinds"), Columns("t", "k", ("a", "b")))
    batches = [batch for batch, _ in zip(source.read_after(None), range(3), strict=False)]
    ((batch, _),) = [pair for pair in batches if pair[0] is not None]
    assert batch.column("a").to_pylist() == [3, None]
    assert str(batch.column("t")[0]) == "2024-04-30 22:00:00.000001+00:00"
    assert batch.column("__refused__")[1]["reason"].as_py().startswith("column 't' is empty")
    for column, match in (("c", "has type date"), ("d", "has no column 'd'")):
        source = opened(address(database, "kinds"), Columns(None, None, (column,)))
        with pytest.raises((ConfigError, SchemaError), match=match):
            next(pair for pair in source.read_after(None) if pair[0] is not None)


@pytest.mark.parametrize(
    ("table", "more", "match"),
    [
        ("absent", "?order=id", 'relation "absent" does not exist; make it first'),
        ("rows", "?order=t", "'t' must be a whole number with a unique index"),
        ("rows", "?order=x", "has no column 'x'"),
        ("rows", "", "name the column that numbers the rows"),
    ],
)
def test_what_cannot_be_read(database, table, more, match, opened):
    with pytest.raises((ConfigError, SchemaError), match=match):
        next(opened(address(database, table, more)).read_after(None))


def test_a_table_that_changes(database, opened):
    database.do("insert into rows (t, a, b) values (1, 1, 1), (2, 2, 2)")
    source = opened(address(database))
    stream = source.read_after(None)
    assert taken(stream, 2) == [1.0, 2.0]
    database.do("delete from rows", "insert into rows (t, a, b) values (3, 1, 1)")
    assert taken(stream, 1) == [3.0]
    database.do("alter table rows drop column a", "insert into rows (t, b) values (4, 1)")
    with pytest.raises(SchemaError, match='column "a" does not exist'):
        taken(stream, 1)
    database.do("drop table rows", TABLE, "insert into rows (t, a, b) values (1, 1, 1)")
    with pytest.raises(SchemaError, match="ends with id = 1, but 3 was read of it"):
        list(source.read_after({"row": 3, "kind": "number", "at": 3}))


def test_refused_and_absent(database, monkeypatch, opened):
    monkeypatch.setenv("PW", "s3cret")
    spec = address(database).replace("/postgres/", "/nothing/")
    with pytest.raises(ConfigError, match='database "nothing" does not exist'):
        next(opened(spec).read_after(None))
    database.do("drop role if exists other", "create role other login password 'right'")
    spec = address(database).replace("postgres@", "other@") + "&password_env=PW"
    with pytest.raises(ConfigError, match="password authentication failed") as caught:
        next(opened(spec).read_after(None))
    assert "s3cret" not in str(caught.value)
    monkeypatch.setenv("PW", "right")
    with pytest.raises(ConfigError, match="permission denied for table rows"):
        next(opened(spec).read_after(None))
    nothing = f"postgresql://127.0.0.1:{free_port()}/a/b?order=id"
    with pytest.raises(ConnectionError, match="refused"):
        next(opened(nothing).read_after(None))


def test_two_writers_of_one_job(database):
    batch = pa.record_batch({"row": [0, 1], "score": [0.5, None], "text": ["", None]})
    spec = address(database, "results", "")
    first, second = open_sink(spec, None, None), open_sink(spec, None, None)
    first.rewind(None)
    position = first.sync()
    second.rewind(position)
    first.write(batch)
    first.sync()
    second.write(batch)
    with pytest.raises(ConfigError, match="another run writes the rows of this job"):
        second.sync()
    assert database.read("select row, score, text is null from results order by row") == [
        "0|0.5|f",
        "1||t",
    ]
    first.finish()
    second.finish()
