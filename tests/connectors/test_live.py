"""Live streams without a server: heartbeats, lost connections, each row once, secrets."""

import json

import pyarrow as pa
import pytest

from streamddcrp.errors import CheckpointError, ConfigError
from streamddcrp_connectors.live.counted import CountedSink
from streamddcrp_connectors.live.messages import MessageSource
from streamddcrp_connectors.live.payloads import Payloads
from streamddcrp_connectors.run import gather
from streamddcrp_connectors.run.address import Address
from streamddcrp_connectors.run.columns import Columns, arrow_stream, refusals
from streamddcrp_connectors.run.config import recipe_for
from streamddcrp_connectors.run.gather import gathered
from streamddcrp_connectors.run.loop import open_store, run
from streamddcrp_connectors.run.outputs import DeadLetters

from .data import rows
from .toy import Toy

COLUMNS = Columns("t", None, ("a", "b"))
ADDRESS = Address.parse("shelf://host/a", port=1)


class Shelf(MessageSource):
    """Messages of a list; the connection is lost, and nothing comes, where the list says so."""

    def __init__(self, messages, columns=COLUMNS, batch_rows=3):
        super().__init__(ADDRESS, columns, batch_rows)
        self.items, self.lost, self.trimmed = messages, set(), []

    def after(self, at):
        for place in range(at or 0, len(self.items)):
            item = self.items[place]
            if item == "lost" and place not in self.lost:
                self.lost.add(place)
                message = "nobody listens"
                raise ConnectionRefusedError(message)
            yield ([] if isinstance(item, str) else [item]), place + 1

    def committed(self, offset):
        self.trimmed.append(offset["at"])

    def close(self):
        pass


class Pile(CountedSink):
    """A server in memory, which may fail after it has taken a part."""

    def __init__(self, server, failures=()):
        super().__init__(Address.parse("pile://host/a", port=1), "output")
        self.server, self.failures = server, list(failures)

    def arrived(self, job, recorded):
        return len(self.server.get(job, []))

    def send(self, job, first, batch):
        kept = self.server.setdefault(job, [])
        assert len(kept) == first
        part = self.failures.pop(0) if self.failures else batch.num_rows
        kept += batch.to_pylist()[:part]
        if part < batch.num_rows:
            message = "gone"
            raise ConnectionResetError(message)

    def finish(self):
        pass


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(gather, "FIRST", 0.001)


def messages(n, per=1):
    table = [{"t": float(i), "a": i % 3, "b": i % 2} for i in range(n)]
    return [
        "\n".join(json.dumps(row) for row in table[i : i + per]).encode() for i in range(0, n, per)
    ]


def go(source, sink, folder=None, dead=None, **more):
    recipe = recipe_for(Toy, {}, Toy.from_bytes)
    store = open_store(folder) if folder else None
    try:
        return run(source, recipe, sink, store=store, dead_letters=dead, **more)
    finally:
        if store is not None:
            store.close()


def test_heartbeats_and_lost_connections_change_nothing(tmp_path, caplog):
    plain, server = {}, {}
    go(Shelf(messages(20)), Pile(plain), tmp_path / "a")
    items = messages(20)
    for place in (15, 9, 9, 3):
        items.insert(place, "lost")
    items.insert(0, "quiet")
    source = Shelf(items)
    summary = go(source, Pile(server, [0, 0, 1]), tmp_path / "b")
    assert list(server.values()) == list(plain.values())
    assert summary.rows == 20
    assert summary.waiting_for is None
    said = [record.getMessage() for record in caplog.records]
    assert sum("shelf://host:1/a is not available (nobody listens)" in line for line in said) == 4
    assert sum("is back after" in line for line in said) == len(said) / 2
    assert source.trimmed[-1] == len(items)


@pytest.mark.parametrize("batch_wait", [0.0, 60.0])
def test_rows_are_gathered_by_number_or_time(batch_wait):
    seen, server = [], {}
    summary = go(
        Shelf([*messages(20), "quiet"]), Pile(server), batch_rows=8, batch_wait=batch_wait,
        progress=lambda s: seen.append(s.rows),
    )  # fmt: skip
    assert summary.rows == 20
    assert seen == ([8, 16, 20] if batch_wait else list(range(1, 21)))


def test_a_place_without_rows_is_recorded_before_the_rows_after_it():
    """A source may have settled there in which order they come."""

    class Settled:
        live, name = True, "settled"

        def read_after(self, offset):
            rows = pa.record_batch({"a": [0.0]})
            yield from [(None, 0), (rows, 1), (rows, 2), (None, 2), (None, 3), (rows, 4)]

    found = list(gathered(Settled(), None, gather.Patience(), 100, 60.0))
    sizes = [(0 if batch is None else batch.num_rows, at) for batch, at in found]
    assert sizes == [(0, 0), (2, 3), (1, 4)]


def test_a_restart_with_other_batches_repeats_nothing(tmp_path):
    """The job dies after the server took rows and before the commit."""
    plain, server = {}, {}
    go(Shelf(messages(20)), Pile(plain), tmp_path / "a")

    class Dies(Pile):
        def sync(self):
            position = super().sync()
            if position["rows"] > 7:
                raise SystemExit
            return position

    with pytest.raises(SystemExit):
        go(Shelf(messages(20)), Dies(server), tmp_path / "b")
    go(Shelf(messages(20)), Pile(server), tmp_path / "b", batch_rows=7, batch_wait=60)
    assert list(server.values()) == list(plain.values())


def test_a_server_that_lost_rows_is_noticed(tmp_path):
    server = {}
    go(Shelf(messages(20)), Pile(server), tmp_path)
    next(iter(server.values())).pop()
    with pytest.raises(CheckpointError, match="has 19 of the 20 rows"):
        go(Shelf(messages(20)), Pile(server), tmp_path)


def test_messages_that_cannot_be_read_are_set_aside(tmp_path):
    batch = pa.record_batch({"t": [3.0, 4.0], "a": [1, 2], "b": [0.5, None]})
    other = pa.record_batch({"t": [5.0, 5.0], "a": ["x", "y"], "b": [0.5, None]})
    sent = [
        b'{"t": 1, "a": 1, "b": 2}\n\n{"t": 2, "a": 1, "b": null}',
        arrow_stream([batch]),
        b'{"t": 3',
        arrow_stream([batch])[:-80],
        arrow_stream([other]),
        arrow_stream([batch.select(["t", "a"])]),
        b"",
        b'{"t": 6, "a": 1, "b": 2}',
    ]
    server = {}
    summary = go(Shelf(sent), Pile(server), dead=DeadLetters(tmp_path / "dead.jsonl"))
    (kept,) = server.values()
    assert [row["row"] for row in kept] == [0, 1, 2, 3, 10]
    assert (summary.rows, summary.refused) == (11, 6)
    dead = [json.loads(line) for line in (tmp_path / "dead.jsonl").read_text().splitlines()]
    reasons = [row["reason"] for row in dead]
    assert "not valid JSON" in reasons[0]
    assert "message:" in reasons[1]
    assert "must be numeric" in reasons[2]
    assert "no column 'b'" in reasons[4]


def test_one_batch_of_many_kinds_of_messages():
    table = pa.Table.from_pylist(rows(4)).select(["t", "a", "b"])
    whole = arrow_stream(table.to_batches())
    payloads = Payloads(COLUMNS)
    batch, kind = payloads.decode([whole, b'{"t": 9, "a": 1.5, "b": 2}', b"?", whole], None)
    taken, refused = refusals(batch)
    assert taken.num_rows == 10
    assert list(refused) == [5]
    assert taken.slice(0, 4).to_pylist() == taken.slice(6).to_pylist() == table.to_pylist()
    assert kind == "number"


def test_features_must_be_named():
    with pytest.raises(ConfigError, match="has no header: name its columns, --features"):
        Shelf([], Columns())


def test_secrets_stay_out_of_names(monkeypatch, tmp_path):
    (tmp_path / "pw").write_text("s3cret\n")
    address = Address.parse(
        f"x://me@a:1,[::1]/p?y=1&password_file={tmp_path}/pw&token_env=T", port=7, options=["y"]
    )
    assert address.hosts == (("a", 1), ("::1", 7))
    assert address.name == "x://a:1,[::1]:7/p?y=1"
    assert address.secret("password") == "s3cret"
    with pytest.raises(ConfigError, match="token_env names T, which is not set"):
        address.secret("token")
    monkeypatch.setenv("T", "t")
    assert address.secret("token") == "t"
    assert address.secret("password") not in repr(address)


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        ("x://me:s3cret@host", "holds a password"),
        ("x://host?z=1", "option 'z' is unknown; valid are y, password_env"),
        ("x://host?y=", "empty or repeated"),
        ("x://host?y=1&y=2", "empty or repeated"),
        ("x://host:port", "not HOST:PORT"),
        ("x://[::1", "not HOST:PORT"),
    ],
)
def test_unusable_addresses(spec, match):
    with pytest.raises(ConfigError, match=match) as caught:
        Address.parse(spec, port=1, options=["y"])
    assert "s3cret" not in str(caught.value)
