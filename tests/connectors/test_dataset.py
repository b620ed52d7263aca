"""A folder of Parquet files that grows: killed at any time, what is seen never changes."""

import json
import os
import random
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamddcrp.errors import CheckpointError, ConfigError
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.config import recipe_for
from streamddcrp_connectors.run.loop import open_store, run
from streamddcrp_connectors.run.outputs import DeadLetters
from streamddcrp_connectors.run.sinks import open_sink
from streamddcrp_connectors.run.sources import open_source

from .live import COLUMNS, drive, expected, made
from .toy import Toy

NAMES = ("output", "events")


def batch(first, n):
    return pa.record_batch({"row": range(first, first + n)})


def seen(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.glob("[!.]*"))}


def numbers(folder):
    files = sorted(folder.glob("[!.]*.parquet"))
    return [row for path in files for row in pq.read_table(path).column("row").to_pylist()]


def opened(folder, position=None, options="rows=10"):
    sink = open_sink(f"dataset://{folder}/out?{options}", None, folder / "ck")
    sink.rewind(position)
    return sink


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "ck").mkdir()
    return tmp_path


def commit(sink):
    """Return the position as a checkpoint keeps it."""
    return json.loads(json.dumps(sink.sync()))


def test_a_file_is_seen_after_the_commit_that_records_it(folder):
    sink = opened(folder)
    commit(sink)
    sink.write(batch(0, 9))
    commit(sink)
    assert not sink.waiting
    sink.write(batch(9, 3))
    commit(sink)
    assert numbers(folder / "out") == []
    assert sink.waiting  # for a commit, even if no row comes
    commit(sink)
    assert numbers(folder / "out") == list(range(12))
    assert not sink.waiting
    sink.write(batch(12, 3))
    commit(sink)
    sink.finish()
    assert numbers(folder / "out") == list(range(15))
    assert len(seen(folder / "out")) == 2


@pytest.mark.parametrize("seed", range(6))
def test_crashes_between_any_two_steps(folder, seed):
    """The checkpoint may be older than what the sink did, by any part of a step."""
    draw = random.Random(seed)
    kept, shown, sink = (None, 0), {}, None  # position and next row, as a checkpoint has them
    row = 0
    for _ in range(120):
        if sink is None:
            position, row = kept
            sink = opened(folder, position)
        elif draw.random() < 0.7:
            n = draw.randint(1, 6)
            sink.write(batch(row, n))
            row += n
        recorded = commit(sink)
        if draw.random() < 0.2:  # before the commit
            sink.abandon()
            sink = None
            continue
        kept = (recorded, row)
        if draw.random() < 0.1:  # the run ends, and another goes on
            sink.finish()
            sink = None
        elif draw.random() < 0.2:  # killed while it learns
            sink.write(batch(row, 3))
            sink.abandon()
            sink = None
        now = seen(folder / "out")
        assert shown.items() <= now.items()  # nothing that was seen has changed
        shown = now
    if sink is not None:
        sink.abandon()
    sink = opened(folder, kept[0])
    commit(sink)
    sink.finish()
    assert numbers(folder / "out") == list(range(kept[1]))
    assert len(shown) > 10


def test_a_run_that_goes_on_after_its_end_begins_another_file(folder):
    sink = opened(folder)
    position = commit(sink)
    for first in range(0, 12, 4):
        sink.write(batch(first, 4))
        position = commit(sink)
        sink.finish()
        before = seen(folder / "out")
        opened(folder, position).abandon()  # it dies before its commit
        sink = opened(folder, position)
        position = commit(sink)
        assert before == seen(folder / "out")
    sink.abandon()
    assert numbers(folder / "out") == list(range(12))
    assert len(before) == 3
    last = sorted((folder / "out").glob("*.parquet"))[-1]
    sink = opened(folder, position)
    sink.write(batch(12, 3))
    position = commit(sink)
    sink.abandon()
    pq.write_table(pa.table({"row": [1]}), last.with_name(f"{position['job']}-000003.parquet"))
    with pytest.raises(CheckpointError, match=r"000003\.parquet has 1 rows, .* recorded 3"):
        opened(folder, position)


def test_old_rows_are_shown_although_they_are_few(folder, monkeypatch):
    sink = opened(folder, options="rows=1000&every=10min")
    commit(sink)
    sink.write(batch(0, 3))
    commit(sink)
    assert not sink.waiting
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 601)
    assert sink.waiting
    commit(sink)
    commit(sink)
    assert numbers(folder / "out") == [0, 1, 2]
    assert not sink.waiting
    sink.finish()


def test_without_a_checkpoint_nothing_hidden_is_left(tmp_path):
    sink = open_sink(f"dataset://{tmp_path}/out?rows=10", None, None)
    sink.rewind(None)
    for first in range(0, 26, 13):
        sink.sync()
        sink.write(batch(first, 13))
    sink.sync()
    sink.finish()
    assert numbers(tmp_path / "out") == list(range(26))
    assert not [name for name in os.listdir(tmp_path / "out") if name.startswith(".")]


@pytest.mark.parametrize("spec", ["dataset://", "dataset://x?rows=0", "dataset://x?rows=a"])
def test_unusable_addresses(spec):
    with pytest.raises(ConfigError, match="must be dataset://folder"):
        open_sink(spec, None, None)
    with pytest.raises(ConfigError, match="option 'files' is unknown; valid are rows, every"):
        open_sink("dataset://x?files=3", None, None)
    with pytest.raises(ConfigError, match="every must be a time such as"):
        open_sink("dataset://x?every=soon", None, None)


@pytest.mark.parametrize("kills", [6, pytest.param(50, marks=pytest.mark.slow)])
def test_killed_jobs_write_each_row_once(tmp_path, kills):
    """From files to files, which another job could read as they come."""
    sent = made(1500)
    whole, events = expected(tmp_path / "alone", sent)
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(text + "\n" for text in sent))
    job = tmp_path / "job"
    sinks = [f"dataset://{tmp_path}/{name}?rows=100" for name in ("out", "events")]
    drive(job, str(source), len(sent), kills=kills, sink=sinks[0], events=sinks[1], longest=0.1)
    with open_store(job / "checkpoint") as store:  # the last kill may have come after the last row
        source = open_source(source, COLUMNS)
        out, more = (open_sink(sinks[i], None, job / "checkpoint", n) for i, n in enumerate(NAMES))
        recipe = recipe_for(Toy, {}, Toy.from_bytes)
        run(
            source,
            recipe,
            out,
            store=store,
            events=more,
            dead_letters=DeadLetters(job / "dead.jsonl"),
        )
        source.close()
    assert columns_of(tmp_path / "out", ["row", "label"]) == [[r["row"], r["label"]] for r in whole]
    names = ["index", "kind", "label"]
    assert columns_of(tmp_path / "events", names) == [[e[name] for name in names] for e in events]
    assert len(list((tmp_path / "out").iterdir())) >= 5
    again = open_source(tmp_path / "out" / "*.parquet", Columns("time", None, ("score",)))
    assert sum(part.num_rows for part, _ in again.read_after(None)) == len(whole)


def columns_of(folder, names):
    files = sorted(folder.glob("*.parquet"))
    return [
        [row[name] for name in names] for path in files for row in pq.read_table(path).to_pylist()
    ]
