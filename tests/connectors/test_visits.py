"""Models by key on another engine: the bits of `Keyed`, whatever comes late, twice or broken."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from streamddcrp import Keyed, SeqDDCRP, TextStream
from streamddcrp.checkpoint.codec import decode_state, encode_state
from streamddcrp.errors import CheckpointError, MissingExtraError
from streamddcrp_connectors.cli import main
from streamddcrp_connectors.run.columns import Columns, canonical
from streamddcrp_connectors.spark import needing_spark, visits
from streamddcrp_connectors.spark.visits import Job, State, pack

GOLDEN = Path(__file__).parents[1] / "golden"
MODEL = SeqDDCRP(likelihood=("normal_gamma", 0.0, 0.05, 1.5, 0.5), window=16)
WORDS = ["oil", "price", "court", "judge", "team", "match", "coach", "rate", "bond", "rises"]


def measurements(n_keys, n_rows):
    """Return a fleet's rows, each key's in three regimes."""
    rng = np.random.default_rng(0)
    n = n_keys * n_rows
    key = rng.permutation(np.repeat(np.arange(n_keys), n_rows))
    x = 8.0 * ((np.arange(n) * 5 // n + key) % 3) + rng.normal(size=n)
    keys = pa.array([f"pump {k}" for k in key])
    return pa.table({"key": keys, "t": np.arange(n) * 0.5, "x": x})


def titles(n_keys, n_rows):
    rng = np.random.default_rng(1)
    n = n_keys * n_rows
    key = rng.permutation(np.repeat(np.arange(n_keys), n_rows))
    text = [" ".join(rng.choice(WORDS, 4)) for _ in range(n)]
    return pa.table({"key": [f"topic {k}" for k in key], "t": np.arange(n) * 0.5, "x": text})


def job_for(model, *, text=False, limit=10**6):
    columns = Columns("t", None, ("x",), text)
    return Job(type(model).from_bytes, model.clone().to_bytes(), columns, limit, numbered=True)


def packed(table, first=0, order=None, numbers=None):
    """Pack rows; their numbers count from ``first``."""
    raw = table.combine_chunks().to_batches()[0]
    text = pa.types.is_string(raw.column("x").type)
    batch, _ = canonical(raw, Columns("t", "key", ("x",), text), None)
    if numbers is None:
        numbers = pa.array(np.arange(first, first + len(batch)))
    if order is not None:
        batch, numbers = batch.take(pa.array(order)), numbers.take(pa.array(order))
    cells = pack(batch, numbers, "key")
    return zip(cells["key"].to_pylist(), cells["rows"].to_pylist(), strict=True)


class Visits:
    """Spark's part played by a dictionary."""

    def __init__(self, job, schema):
        self.job, self.states, self.schema = job, {}, schema

    def visit(self, key, cell):
        blob = self.states.get(key)
        state, found = self.job.visit(State() if blob is None else State.from_bytes(blob), [cell])
        self.states[key] = state.to_bytes()
        return {name: batch.to_pylist() for name, batch in found.items()}


class SparkOwn(Visits):
    """Spark's own in-process tester of what it calls for each key."""

    def __init__(self, job, schema):
        super().__init__(job, schema)
        pytest.importorskip("pyspark", reason="the extra [spark] is not installed")
        from pyspark.sql.streaming.tws_tester import TwsTester

        from streamddcrp_connectors.spark.frames import KeyedProcessor, Outputs

        self.parts = job.schemas(pa.RecordBatch.from_pylist([], schema))
        columns = [pa.field("output", pa.string()), pa.field("key", pa.string())]
        for part in self.parts.values():
            columns += [field for field in part if field.name not in {c.name for c in columns}]
        self.outputs = Outputs(pa.schema(columns))
        self.tester = TwsTester(KeyedProcessor(job, self.outputs, None))

    def visit(self, key, cell):
        from pyspark.sql import Row

        out = self.tester.test(key, [Row(rows=cell)])
        self.states[key] = self.tester.peekValueState("state", key)[0]
        found = {}
        cells = pa.record_batch({"outputs": pa.array([row.outputs for row in out], pa.binary())})
        for batch in self.outputs.from_batches([cells]):
            for row in batch.to_pylist():
                assert row["key"] == key
                names = self.parts[row["output"]].names
                found.setdefault(row["output"], []).append({name: row[name] for name in names})
        return found


FLEETS = {
    "300 keys of SeqDDCRP": (MODEL, measurements(300, 10)),
    "200 keys of TextStream": (TextStream(lag=8, births=1), titles(200, 6)),
}
STORY = ("size", "copies", "rate", "first", "last", "words", "example")


@pytest.fixture(scope="module", params=FLEETS)
def fleet(request):
    """A model, its rows in two batches, and what `Keyed` makes of them."""
    model, table = FLEETS[request.param]
    keyed, results, events = Keyed(model, by="key"), {}, []
    more = STORY if isinstance(model, TextStream) else ("why",)
    names = ("index", "kind", "label", "into", *more)
    half = len(table) // 2
    for first in 0, half:
        part = table.slice(first, half)
        out = keyed.step_many(part.select(["key", "x"]), part["t"].to_numpy())
        for i, row in enumerate(out.to_pylist(), first):
            results[i] = row | {"time": table["t"][i].as_py()}
        for event in keyed.events():
            events.append({name: getattr(event, name) for name in names})
            events[-1] |= {"time": event.t, "key": event.key}
            if "why" in more:
                events[-1]["why"] = event.why or None
                events[-1] |= dict(
                    zip(("earliest", "latest"), event.between or (None, None), strict=True)
                )
    states = {key: keyed.model_of(key).to_bytes() for key in keyed.keys}
    return model, table, results, events, states


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
@pytest.mark.parametrize("engine", [Visits, SparkOwn])
def test_the_bits_of_keyed(engine, fleet):
    """Rows out of order, each batch delivered twice: states, results and events are equal."""
    model, table, expected, happened, states = fleet
    columns = pa.schema({"t": pa.float64(), "x": table.schema.field("x").type})
    ours = engine(job_for(model, text=isinstance(model, TextStream)), columns)
    rng, results, events = np.random.default_rng(2), {}, []
    half = len(table) // 2
    for first in 0, half:
        part = table.slice(first, half)
        for key, cell in packed(part, first, rng.permutation(half)):
            found = ours.visit(key, cell)
            assert set(found) <= {"result", "event"}
            results |= {row.pop("row"): row | {"key": key} for row in found["result"]}
            events += [event | {"key": key} for event in found.get("event", ())]
        before = dict(ours.states)
        for key, cell in packed(part, first):
            assert set(ours.visit(key, cell)) == {"refused"}
        assert ours.states == before
    assert results == expected
    assert in_order(events) == in_order(happened)
    assert len(events) > 100
    assert {key: State.from_bytes(blob).model for key, blob in ours.states.items()} == states


def in_order(events):
    """Return events by key, each key's in their order, as text: a rate may be NaN."""
    return [repr(sorted(event.items())) for event in sorted(events, key=lambda e: e["key"])]


def visit(job, state, *rows, numbers=None):
    """Visit a key with rows (t, x)."""
    t, x = zip(*rows, strict=True)
    table = pa.table({"key": ["a"] * len(t), "t": pa.array(t), "x": pa.array(x, pa.float64())})
    ((_, cell),) = packed(table, numbers=numbers)
    return job.visit(state, [cell])


def reasons(found):
    return [row["reason"] for row in found["refused"].to_pylist()]


def test_late_and_repeated_rows_are_refused():
    job = job_for(MODEL)
    state, found = visit(job, State(), (0.0, 1.0), (1.0, 2.0), numbers=pa.array([3, 7]))
    assert state.last == 7
    assert found["result"].column("row").to_pylist() == [3, 7]
    rows = [(0.5, 1.0), (1.0, 2.0), (2.0, 3.0), (2.0, 3.0)]
    after, found = visit(job, state, *rows, numbers=pa.array([5, 7, 9, 9]))
    assert found["result"].column("row").to_pylist() == [9]
    assert found["refused"].column("row").to_pylist() == [5, 7, 9]
    assert reasons(found)[0] == (
        "its number 5 is not above 7, the last one of this key: it came late, or a second time"
    )
    assert "not above 9" in reasons(found)[2]
    alone, _ = visit(job, state, (2.0, 3.0), numbers=pa.array([9]))
    assert alone.to_bytes() == after.to_bytes()


def test_a_bad_row_stops_no_other():
    job = job_for(MODEL)
    rows = [(0.0, 1.0), (1.0, np.inf), (None, 2.0), (2.0, 3.0), (1.5, 4.0), (3.0, 5.0)]
    state, found = visit(job, State(), *rows, numbers=pa.array([0, 1, 2, 3, 4, None]))
    assert found["result"].column("row").to_pylist() == [0, 3]
    infinite, timeless, backwards, nameless = reasons(found)
    assert infinite == "column 'x' is infinite"
    assert timeless == "column 't' is empty; each row needs a time"
    assert "1.5" in backwards
    assert nameless == "it has no number; each row needs one"
    assert json.loads(found["refused"].column("values")[0].as_py()) == {"t": 1.0, "x": "inf"}
    clean, _ = visit(job, State(), (0.0, 1.0), (2.0, 3.0), numbers=pa.array([0, 3]))
    assert state.model == clean.model


def test_rows_without_a_key_come_together():
    table = pa.table({"key": pa.array([None, "a"]), "t": [0.0, 1.0], "x": [1.0, 2.0]})
    (missing, cell), (key, _) = packed(table)
    assert (missing, key) == (None, "a")
    state, found = job_for(MODEL).visit(State(), [cell])
    assert reasons(found) == ["column 'key' is empty; each row needs a key"]
    assert state == State()


def test_a_state_above_the_limit_is_not_kept():
    job = job_for(MODEL)
    state, _ = visit(job, State(), (0.0, 1.0))
    small = job_for(MODEL, limit=len(state.model) - 1)
    refused, found = visit(small, State(), (0.0, 1.0))
    assert refused == State(last=0)
    assert reasons(found)[0].startswith(
        f"the state of this key would take {len(state.model):,} bytes"
    )
    assert "raise state_limit" in reasons(found)[0]


def test_times_order_rows_where_no_number_does():
    columns = Columns("t", None, ("x",))
    fresh = MODEL.clone().to_bytes()
    job = Job(SeqDDCRP.from_bytes, fresh, columns, 10**6, numbered=False)
    state, found = visit(job, State(), (2.0, 1.0), (1.0, 2.0), numbers=pa.array([2.0, 1.0]))
    assert found["result"].column("time").to_pylist() == [1.0, 2.0]
    assert "row" not in found["result"].schema.names
    assert state.last == 2.0
    again, found = visit(job, state, (2.0, 1.0), numbers=pa.array([2.0]))
    assert again == state
    assert found["refused"].schema.names == ["reason", "values"]


def learned():
    state, _ = visit(job_for(MODEL), State(), *[(float(i), float(i % 9)) for i in range(12)])
    return state


@pytest.mark.parametrize("version", range(1, visits._VERSION + 1))
def test_a_stored_state_of_every_version_goes_on(version):
    """``python -m tests.connectors.test_visits`` writes the file of the present version."""
    state = State.from_bytes((GOLDEN / f"keyed-state-{version}.blob").read_bytes())
    assert (state.last, state.seen, state.timer) == (11, 5, 9)
    assert SeqDDCRP.from_bytes(state.model).n_seen == 12
    after, found = visit(job_for(MODEL), state, (12.0, 1.0), numbers=pa.array([12]))
    assert len(found["result"]) == 1
    assert after.last == 12


def test_other_blobs_are_refused():
    blob = learned().to_bytes()
    with pytest.raises(CheckpointError, match="altered"):
        State.from_bytes(blob[:99] + bytes([blob[99] ^ 1]) + blob[100:])
    with pytest.raises(CheckpointError, match="newer"):
        State.from_bytes(encode_state("keyed-state", visits._VERSION + 1, {}, {}))
    with pytest.raises(CheckpointError, match="SeqDDCRP"):
        State.from_bytes(MODEL.clone().to_bytes())


@pytest.mark.parametrize("changed", [{"last": "7"}, {"seen": [1]}, {"dtype": np.float64}])
def test_a_forged_state_is_refused(changed):
    """With a digest that fits."""
    arrays, meta = decode_state(learned().to_bytes(), "keyed-state")
    changed = dict(changed)
    if "dtype" in changed:
        arrays["model"] = np.zeros(9, changed.pop("dtype"))
    forged = encode_state("keyed-state", visits._VERSION, arrays, meta | changed)
    with pytest.raises(CheckpointError, match=r"not fit|not hold together"):
        State.from_bytes(forged)


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    for module in [name for name in sys.modules if name.startswith("pyspark.")]:
        monkeypatch.delitem(sys.modules, module)
    for module in "frames", "processor":
        name = f"streamddcrp_connectors.spark.{module}"
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(MissingExtraError, match=r"pip install 'streamddcrp\[spark\]'.*Java 17"):
        needing_spark("frames")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"alarms": "a.jsonl"}, "alarms is for `streamddcrp run`"),
        ({"by": None}, "names no key"),
        ({"checkpoint": None}, "names no checkpoint"),
        ({"sink": "-"}, "the sink is a folder"),
        ({"colour": "red"}, "unknown option 'colour'"),
    ],
)
def test_a_job_that_spark_cannot_do_is_refused(tmp_path, more, message):
    wanted = {"source": "in.csv", "by": "key", "checkpoint": "state", "sink": "out"} | more
    lines = [f"{name} = {json.dumps(value)}" for name, value in wanted.items() if value is not None]
    path = tmp_path / "job.toml"
    path.write_text("\n".join(lines))
    found = CliRunner().invoke(main, ["submit", str(path)])
    assert found.exit_code == 2
    assert message in found.output


def test_the_options_of_a_job(tmp_path, monkeypatch):
    """What Spark is given of a file for `streamddcrp run`; Spark itself need not be there."""
    taken = []

    class Job:
        def session(self, master, conf):
            return self

        def stop(self):
            pass

        def execute(self, request, spark, **more):
            taken.append((request, more))
            return 7

    monkeypatch.setattr("streamddcrp_connectors.spark.needing_spark", lambda name: Job())
    path = tmp_path / "job.toml"
    path.write_text(
        'source = "in.csv"\nby = "key"\ncheckpoint = "state"\nsink = "out"\nfeatures = ["x", "y"]\n'
    )
    found = CliRunner().invoke(main, ["submit", str(path), "--idle-keys", "2d"])
    assert found.exit_code == 0, found.output
    assert "7 rows -> out" in found.output
    ((request, more),) = taken
    assert (request.source, request.key, request.features) == ("in.csv", "key", ("x", "y"))
    assert request.batch_rows == 20_000
    assert more["idle_keys"] == "2d"


def test_without_java(tmp_path):
    pytest.importorskip("pyspark", reason="the extra [spark] is not installed")
    (tmp_path / "in.csv").write_text("key,t,x\na,0,1\n")
    job = 'source = "in.csv"\nby = "key"\ncheckpoint = "state"\nsink = "out"\n'
    (tmp_path / "job.toml").write_text(job)
    command = [sys.executable, "-m", "streamddcrp_connectors", "submit", "job.toml"]
    here = {"PATH": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    ran = subprocess.run(
        command, cwd=tmp_path, env=here, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert "Spark needs Java 17 or 21" in ran.stderr


if __name__ == "__main__":
    path = GOLDEN / f"keyed-state-{visits._VERSION}.blob"
    path.write_bytes(State(learned().model, 11, 5, 9).to_bytes())
