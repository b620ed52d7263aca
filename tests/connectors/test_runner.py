"""The loop: the same outcome on any cutting, refusals, what a checkpoint accepts and keeps."""

import json
import os
import signal
import threading
from contextlib import closing

import numpy as np
import pyarrow as pa
import pytest

from streamddcrp.errors import CheckpointError, ConfigError, OrderError, SchemaError
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.config import recipe_for
from streamddcrp_connectors.run.interrupts import Interrupts
from streamddcrp_connectors.run.loop import open_store, run
from streamddcrp_connectors.run.outputs import DeadLetters
from streamddcrp_connectors.run.sinks import open_sink
from streamddcrp_connectors.run.sources import open_source

from .data import WRITERS, rows, write_csv
from .toy import Toy


def go(
    folder,
    source,
    *,
    sink="out.jsonl",
    key="k",
    features=("a", "b"),
    dead=True,
    checkpoint=True,
    batch_rows=9,
    options=None,
    progress=None,
    model=Toy,
    **more,
):
    """Do one run as the command line does it."""
    opened = open_source(source, Columns("t", key, features), batch_rows=batch_rows)
    with closing(opened):
        store = open_store(folder / "checkpoint") if checkpoint else None
        try:
            return run(
                opened,
                recipe_for(model, options or {}, model.from_bytes),
                open_sink(folder / sink, None, folder / "checkpoint" if checkpoint else None),
                store=store,
                dead_letters=DeadLetters(folder / "dead.jsonl") if dead else None,
                progress=progress,
                **more,
            )
        finally:
            if store is not None:
                store.close()


def states(folder):
    with open_store(folder / "checkpoint") as store:
        cursor = store.offset("run")
        kept = {name: cursor[name] for name in ("source", "rows", "refused", "sink")}
        return {key: store.get("model", key) for key in store.keys("model")}, kept


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("key", ["k", None])
def test_outcome_does_not_depend_on_the_batches(tmp_path, kind, key):
    source = WRITERS[kind](tmp_path / f"rows.{kind}", rows(80, bad=0.25))
    outcomes = []
    for batch_rows in (1, 7, 1000):
        folder = tmp_path / str(batch_rows)
        folder.mkdir()
        summary = go(folder, source, key=key, batch_rows=batch_rows)
        output, dead = (folder / "out.jsonl").read_bytes(), (folder / "dead.jsonl").read_bytes()
        outcomes.append((output, dead, *states(folder)))
        assert summary.rows == 80
        assert summary.refused == len(dead.splitlines()) > 5
        assert len(output.splitlines()) == 80 - summary.refused
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_every_row_is_either_a_result_or_a_dead_letter(tmp_path, csv):
    go(tmp_path, csv)
    out = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    dead = [json.loads(line) for line in (tmp_path / "dead.jsonl").read_text().splitlines()]
    assert sorted(row["row"] for row in out + dead) == list(range(60))
    assert [row["row"] for row in out] == sorted(row["row"] for row in out)
    assert [row["row"] for row in dead] == sorted(row["row"] for row in dead)
    assert list(out[0]) == [
        "row", "time", "key", "label", "label_prob", "score", "p_new", "p_change", "n_tables",
    ]  # fmt: skip
    source = csv.read_text().splitlines()[1:]
    for row in out:
        assert source[row["row"]].startswith(f"{row['time']},{row['key']},")


def test_a_run_in_two_parts_equals_one(tmp_path):
    """The file grows between the runs, and the second starts in the middle of a batch."""
    table = rows(60, bad=0.25)
    whole, grown = tmp_path / "whole", tmp_path / "grown"
    for folder, sizes in ((whole, [60]), (grown, [0, 13, 14, 40, 60])):
        folder.mkdir()
        for n in sizes:
            go(folder, write_csv(folder / "rows.csv", table[:n]))
    for name in ("out.jsonl", "dead.jsonl"):
        assert (whole / name).read_bytes() == (grown / name).read_bytes()
    (left, last), (right, end) = states(whole), states(grown)
    assert left == right
    looked = last["source"].pop("looked"), end["source"].pop("looked")
    assert looked[1] < looked[0] == last["source"]["byte"]  # what showed how it is written
    assert last == end


def test_a_finished_run_can_be_repeated(tmp_path, csv):
    first = go(tmp_path, csv, sink="out.parquet")
    before = (tmp_path / "out.parquet").read_bytes(), states(tmp_path)
    (tmp_path / "out.parquet").unlink()
    second = go(tmp_path, csv, sink="out.parquet")
    assert ((tmp_path / "out.parquet").read_bytes(), states(tmp_path)) == before
    assert (first.rows, first.refused) == (second.rows, second.refused)


def test_without_checkpoint_the_output_is_the_same(tmp_path, csv):
    go(tmp_path, csv, sink="a.jsonl")
    go(tmp_path, csv, sink="b.jsonl", checkpoint=False, overwrite=True)  # of the refused rows
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


def bad_csv(tmp_path, line):
    path = tmp_path / "rows.csv"
    path.write_text(
        "t,k,a,b\n" + "".join(f"{i},x,1,1\n" for i in range(20)) + line + "\n30,x,1,1\n"
    )
    return path


@pytest.mark.parametrize(
    ("line", "error", "match"),
    [
        ("nan,x,1,1", SchemaError, r"row 20: column 't' is NaN; every row needs a time"),
        ("21,x,1,-inf", SchemaError, r"row 20: column 'b' is infinite"),
        ("21,x,one,1", SchemaError, r"row 20: column 'a' must be a number.* got 'one'"),
        ("21,x,1", SchemaError, r"row 20: 3 cells where the header names 4 columns"),
        ("5,x,1,1", OrderError, r"row 20: key 'x': time runs backwards.*--late wait=1h"),
        ("21,x,-1,1", SchemaError, r"row 20: key 'x': a value is negative"),
        ("21,,1,1", SchemaError, r"row 20: column 'k' is empty"),
    ],
)
def test_a_bad_row_stops_the_run_and_keeps_what_was(tmp_path, line, error, match):
    source = bad_csv(tmp_path, line)
    with pytest.raises(error, match=match) as caught:
        go(tmp_path, source, dead=False)
    assert caught.value.row == 20
    assert "rows.csv" in str(caught.value)
    kept = states(tmp_path)
    assert kept[1]["rows"] == 18  # two batches of nine
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 18
    with pytest.raises(error, match=match):
        go(tmp_path, source, dead=False)
    assert states(tmp_path) == kept
    summary = go(tmp_path, source, dead=True)  # the way out that the message names
    assert (summary.rows, summary.refused) == (22, 1)
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 21


def test_a_mended_file_goes_on(tmp_path):
    source = bad_csv(tmp_path, "21,x,oops,1")
    with pytest.raises(SchemaError):
        go(tmp_path, source, dead=False)
    source.write_text(source.read_text().replace("oops", "7"))
    assert go(tmp_path, source, dead=False).rows == 22


@pytest.mark.parametrize("sink", ["out.parquet", "out.arrow"])
def test_after_an_error_no_half_table_is_left(tmp_path, sink):
    with pytest.raises(SchemaError):
        go(tmp_path, bad_csv(tmp_path, "21,x,oops,1"), sink=sink, dead=False, checkpoint=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.csv"]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"options": {"alpha": 0.2}}, "another model: alpha was not given, now 0.2"),
        ({"key": None}, 'other columns: key was "k", now null'),
        ({"features": ("a",)}, r"other columns: features was \[\"a\", \"b\"\], now \[\"a\"\]"),
        ({"features": ("b", "a")}, "other columns"),
        ({"sink": "other.jsonl"}, "another sink: it was .*out.jsonl"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path, csv, change, match):
    go(tmp_path, csv)
    before = (tmp_path / "out.jsonl").read_bytes(), states(tmp_path)
    with pytest.raises(CheckpointError, match=match):
        go(tmp_path, csv, **change)
    assert ((tmp_path / "out.jsonl").read_bytes(), states(tmp_path)) == before
    assert not (tmp_path / "other.jsonl").exists()


def test_a_checkpoint_of_another_source_is_refused(tmp_path, csv, good):
    go(tmp_path, csv)
    with pytest.raises(CheckpointError, match="another source: path was"):
        go(tmp_path, good)


def test_refused_rows_stay_in_one_file(tmp_path, csv):
    go(tmp_path, csv)
    opened = open_source(csv, Columns("t", "k", ("a", "b")))
    with (
        closing(opened),
        open_store(tmp_path / "checkpoint") as store,
        pytest.raises(CheckpointError, match="keeps its refused rows in"),
    ):
        run(
            opened,
            recipe_for(Toy, {}, Toy.from_bytes),
            open_sink(tmp_path / "out.jsonl", None, None),
            store=store,
            dead_letters=DeadLetters(tmp_path / "other.jsonl"),
        )


@pytest.mark.parametrize("name", ["out.jsonl", "dead.jsonl", "checkpoint/output.rows"])
def test_outputs_that_were_cut_are_noticed(tmp_path, csv, name):
    sink = "out.parquet" if "output" in name else "out.jsonl"
    go(tmp_path, csv, sink=sink)
    os.truncate(tmp_path / name, 10)
    with pytest.raises(CheckpointError, match="fewer than the"):
        go(tmp_path, csv, sink=sink)


@pytest.mark.parametrize("sink", ["out.jsonl", "out.parquet"])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_results_are_not_overwritten_unasked(tmp_path, good, sink, checkpoint):
    (tmp_path / sink).write_text("precious")
    with pytest.raises(ConfigError, match=r"holds 8 bytes already.*--overwrite"):
        go(tmp_path, good, sink=sink, dead=False, checkpoint=checkpoint)
    assert (tmp_path / sink).read_text() == "precious"
    go(tmp_path, good, sink=sink, dead=False, checkpoint=checkpoint, overwrite=True)
    assert (tmp_path / sink).stat().st_size > 1000
    assert not list(tmp_path.glob(".*"))  # no lock is left


@pytest.mark.parametrize("sink", ["out.jsonl", "out.parquet"])
def test_a_lost_checkpoint_does_not_begin_again_over_its_results(tmp_path, good, sink):
    go(tmp_path, good, sink=sink, dead=False)
    before = (tmp_path / sink).read_bytes()
    (tmp_path / "checkpoint" / "state.sqlite").unlink()
    with pytest.raises((ConfigError, CheckpointError), match="--overwrite"):
        go(tmp_path, good, sink=sink, dead=False)
    assert (tmp_path / sink).read_bytes() == before
    go(tmp_path, good, sink=sink, dead=False, overwrite=True)
    assert (tmp_path / sink).read_bytes() == before


def test_a_first_row_that_is_refused_leaves_old_results(tmp_path):
    (tmp_path / "out.jsonl").write_text("precious")
    (tmp_path / "bad.csv").write_text("t,k,a,b\n1,x,oops,1\n")
    with pytest.raises(ConfigError, match="--overwrite"):
        go(tmp_path, tmp_path / "bad.csv", dead=False, checkpoint=False)
    assert (tmp_path / "out.jsonl").read_text() == "precious"


@pytest.mark.parametrize("sink", ["out.jsonl", "out.parquet"])
def test_two_runs_cannot_write_one_file(tmp_path, good, sink):
    def again(summary):
        with pytest.raises(ConfigError, match=rf"by another run, process {os.getpid()}: end that"):
            go(tmp_path, good, sink=sink, dead=False, checkpoint=False, overwrite=True)
        raise InterruptedError

    with pytest.raises(InterruptedError):
        go(tmp_path, good, sink=sink, dead=False, progress=again)
    assert go(tmp_path, good, sink=sink, dead=False).rows == 60  # the lock is gone


def test_unusable_options_touch_nothing(tmp_path, csv):
    (tmp_path / "out.jsonl").write_text("precious")
    with pytest.raises(ConfigError, match="alpha must be positive"):
        go(tmp_path, csv, options={"alpha": 0.0})
    assert (tmp_path / "out.jsonl").read_text() == "precious"


def test_files_must_be_different(tmp_path, csv):
    before = csv.read_bytes()
    for clash in ({"sink": "rows.csv.jsonl"}, {"sink": "dead.jsonl"}):
        if "rows" in clash["sink"]:
            (tmp_path / clash["sink"]).symlink_to(csv)
        with pytest.raises(ConfigError, match="choose different files"):
            go(tmp_path, csv, **clash)
    assert csv.read_bytes() == before


def test_a_source_that_cannot_be_replayed_takes_no_checkpoint(tmp_path, csv, monkeypatch):
    with csv.open() as standard_input:
        monkeypatch.setattr("sys.stdin", standard_input)
        with pytest.raises(ConfigError, match="write the rows to a file and run on that file"):
            go(tmp_path, "-")
        standard_input.seek(0)
        assert go(tmp_path, "-", checkpoint=False).rows == 60


def test_progress_tells_rows_and_tables(tmp_path, csv):
    seen = []
    go(tmp_path, csv, progress=lambda s: seen.append((s.rows, s.refused, s.tables)))
    assert [row for row, _, _ in seen] == [9, 18, 27, 36, 45, 54, 60]
    assert seen[-1][1] > 0
    assert seen[-1][2] > 5  # of three keys


def test_time_stamps_and_no_times(tmp_path):
    source = tmp_path / "rows.csv"
    source.write_text("t,a\n2024-01-01T00:00:00Z,1\n2024-01-01T00:00:00.5Z,2\n")
    go(tmp_path, source, key=None, features=("a",), dead=False)
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert [json.loads(line)["time"] for line in lines] == [
        "2024-01-01T00:00:00Z",
        "2024-01-01T00:00:00.5Z",
    ]


def test_models_get_features_and_times_only(tmp_path):
    got = []

    class Spy(Toy):
        def step_many(self, batch, t=None):
            got.append((batch, t))
            return super().step_many(batch, t)

    source = WRITERS["parquet"](tmp_path / "rows.parquet", rows(5))
    go(tmp_path, source, key=None, dead=False, model=Spy)
    batch, t = got[0]
    assert batch.schema.names == ["a", "b"]
    assert isinstance(t, np.ndarray)
    assert t.dtype == np.float64


def test_an_interrupt_ends_after_the_epoch(tmp_path, good):
    def interrupt(summary):
        if summary.rows == 27:
            signal.raise_signal(signal.SIGINT)

    summary = go(tmp_path, good, sink="out.parquet", progress=interrupt)
    assert summary.interrupted
    assert summary.rows == 27
    assert pa.parquet.read_table(tmp_path / "out.parquet").num_rows == 27
    assert states(tmp_path)[1]["rows"] == 27
    summary = go(tmp_path, good, sink="out.parquet")
    assert not summary.interrupted
    assert pa.parquet.read_table(tmp_path / "out.parquet").num_rows == 60


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_within_an_epoch_waits(number):
    before = signal.getsignal(number)
    reached = []
    with Interrupts() as interrupts:
        for n_signals in (1, 2):  # a second one is impatient

            def within(n_signals=n_signals):
                with interrupts.held():
                    for _ in range(n_signals):
                        signal.raise_signal(number)
                    reached.append(n_signals)

            with pytest.raises(KeyboardInterrupt):
                within()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert reached == [1]
    assert signal.getsignal(number) is before


def test_interrupts_are_left_alone_in_other_threads(tmp_path, good):
    results = []
    thread = threading.Thread(target=lambda: results.append(go(tmp_path, good)))
    thread.start()
    thread.join()
    assert results[0].rows == 60
