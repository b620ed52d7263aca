"""Late rows and rows from the future: refused, restamped, put in order, set aside."""

import json
import random
import time

import numpy as np
import pytest

from streamddcrp.errors import ConfigError, OrderError, SchemaError
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.config import recipe_for
from streamddcrp_connectors.run.lateness import Lateness
from streamddcrp_connectors.run.loop import open_store, run
from streamddcrp_connectors.run.outputs import DeadLetters
from streamddcrp_connectors.run.sinks import open_sink
from streamddcrp_connectors.run.sources import open_source

from .toy import Toy


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def go(folder, table, *, batch_rows=4, key=None, checkpoint=False, dead=True, **how):
    folder.mkdir(exist_ok=True)
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in table))
    source = open_source(path, Columns("t", key, ("a",)), batch_rows=batch_rows)
    store = open_store(folder / "ck") if checkpoint else None
    try:
        run(
            source, recipe_for(Toy, {}, Toy.from_bytes),
            open_sink(folder / "out.jsonl", None, folder / "ck"), store=store,
            dead_letters=DeadLetters(folder / "bad.jsonl") if dead else None, **how,
        )  # fmt: skip
    finally:
        source.close()
        if store is not None:
            store.close()
    return lines(folder / "out.jsonl"), lines(folder / "bad.jsonl") if dead else []


def jumbled(n, late, seed=0):
    """Rows that come at most ``late`` after their time, and the same in order."""
    draw = random.Random(seed)
    table = [{"t": float(i), "k": draw.choice("xy"), "a": draw.randrange(9)} for i in range(n)]
    keys = {row["t"]: row["t"] + draw.uniform(0, late) for row in table}
    return sorted(table, key=lambda row: keys[row["t"]]), table


def without(found, *names):
    return [{name: cell for name, cell in row.items() if name not in names} for row in found]


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("batch_rows", [1, 7, 1000])
def test_rows_that_are_waited_for_are_learned_in_order(tmp_path, batch_rows, key):
    table, ordered = jumbled(60, 5.0)
    assert table != ordered
    found, dead = go(tmp_path / "a", table, batch_rows=batch_rows, key=key, late="wait=5")
    alone, _ = go(tmp_path / "b", ordered, key=key)
    assert without(found, "row") == without(alone, "row")
    assert dead == []
    assert [table[row["row"]]["t"] for row in found] == [row["time"] for row in found]


def test_what_is_waited_with_survives_the_run(tmp_path):
    table, _ = jumbled(60, 5.0)
    whole, _ = go(tmp_path / "a", table, late="wait=5", checkpoint=True)

    def stop(summary):
        raise InterruptedError

    for n in range(30):  # each run does one epoch, and is stopped
        with pytest.raises(InterruptedError):
            go(tmp_path / "b", table, late="wait=5", checkpoint=True, progress=stop)
        if n == 10:
            held = go_cursor(tmp_path / "b")["late"]["held"]
            assert held is not None
        if go_cursor(tmp_path / "b")["rows"] == 60:
            break
    found, _ = go(tmp_path / "b", table, late="wait=5", checkpoint=True)
    assert found == whole


def go_cursor(folder):
    with open_store(folder / "ck") as store:
        return store.offset("run")


@pytest.mark.parametrize("batch_rows", [1, 2, 3, 100])
def test_what_comes_later_than_waited_for_is_refused(tmp_path, batch_rows):
    table = [{"t": t, "a": 1} for t in (1, 2, 9, 3, 8, 20)]
    found, dead = go(tmp_path, table, batch_rows=batch_rows, late="wait=2")
    assert [row["time"] for row in found] == [1, 2, 8, 9, 20]
    assert [row["row"] for row in dead] == [3]


@pytest.mark.parametrize("key", [None, "k"])
def test_late_rows_are_learned_as_of_now(tmp_path, key):
    times = [1, 5, 3, 6, 2, 7]
    table = [{"t": float(t), "k": "xy"[i % 2], "a": 1} for i, t in enumerate(times)]
    expected = [1, 5, 5, 6, 6, 7] if key is None else [1, 5, 3, 6, 3, 7]
    for batch_rows in (1, 2, 100):
        found, dead = go(
            tmp_path / str(batch_rows), table, batch_rows=batch_rows, key=key, late="as-now",
            checkpoint=True,
        )  # fmt: skip
        assert [row["time"] for row in found] == expected
        assert dead == []


@pytest.mark.parametrize("batch_rows", [1, 3, 100])
def test_one_time_far_ahead_refuses_one_row(tmp_path, batch_rows):
    table = [{"t": 1e9 if i in (5, 6) else float(i), "a": 1} for i in range(40)]
    found, dead = go(tmp_path / "a", table, batch_rows=batch_rows, max_ahead="10")
    assert [row["row"] for row in dead] == [5, 6]
    assert len(found) == 38
    assert "more than --max-ahead ahead of all rows before it" in dead[0]["reason"]
    _, poisoned = go(tmp_path / "b", table, batch_rows=batch_rows)
    assert len(poisoned) == 33


def test_time_stamps_are_held_against_the_clock(tmp_path):
    now = np.datetime64(int(time.time()), "s")
    stamps = [now + np.timedelta64(s, "s") for s in (-3600, 0, 3600, 30, 86400 * 365)]
    table = [{"t": f"{stamp}Z", "a": 1} for stamp in stamps]
    found, dead = go(tmp_path, table, max_ahead="10min")
    assert [row["row"] for row in dead] == [2, 4]
    assert len(found) == 3


def test_a_stamp_of_next_year_is_set_aside_by_default_and_named(tmp_path, caplog):
    stamps = [f"2026-01-01T00:{i:02d}:00Z" for i in range(40)]
    stamps[7] = f"{time.gmtime().tm_year + 2}-01-01T00:00:00Z"
    table = [{"t": stamp, "a": 1} for stamp in stamps]
    for batch_rows in (1, 100):
        found, dead = go(tmp_path / str(batch_rows), table, batch_rows=batch_rows)
        assert [row["row"] for row in dead] == [7]
        assert "more than a day (--max-ahead 30d, or none, allows it) ahead" in dead[0]["reason"]
        assert len(found) == 39
    _, poisoned = go(tmp_path / "none", table, max_ahead="none")
    assert len(poisoned) == 32
    assert len(go(tmp_path / "said", table, dead=False)[0]) == 39
    assert "set aside row 7: column 't' is more than a day" in caplog.text
    with pytest.raises(SchemaError, match=r"row 7: column 't' is more than --max-ahead ahead"):
        go(tmp_path / "stop", table, dead=False, max_ahead="1h")
    future = [{"t": f"{2150 + i // 12}-{1 + i % 12:02d}-01", "a": 1} for i in range(99)]
    for batch_rows in (1, 100):
        assert len(go(tmp_path / f"dates-{batch_rows}", future, batch_rows=batch_rows)[0]) == 99


def test_without_a_policy_the_first_late_row_stops_the_run(tmp_path):
    with pytest.raises(OrderError, match="row 1"):
        go(tmp_path, [{"t": 2, "a": 1}, {"t": 1, "a": 1}], dead=False)


@pytest.mark.parametrize(
    ("policy", "ahead"),
    [("never", None), ("wait", None), ("wait=", None), ("wait=soon", None), ("as-now=3", None),
     (None, "3 rows"), (None, "")],
)  # fmt: skip
def test_unusable_policies(policy, ahead):
    with pytest.raises(ConfigError, match=r"late|ahead|epoch"):
        Lateness(policy, ahead, Columns("t"))


def test_a_policy_needs_times():
    with pytest.raises(ConfigError, match="name its column with --time"):
        Lateness("as-now", None, Columns())


def test_a_quiet_stream_is_not_waited_with_for_ever(tmp_path):
    """The last rows are learned by the clock, before the stream ends."""
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"t": t, "a": 1}) + "\n" for t in (3, 1, 2)))
    source = open_source(path, Columns("t", None, ("a",)), follow=True, idle=1.0)
    seen = []
    run(
        source, recipe_for(Toy, {}, Toy.from_bytes), open_sink(tmp_path / "out.jsonl", None, None),
        late="wait=0.2", dead_letters=DeadLetters(tmp_path / "bad.jsonl"),
        progress=lambda _: seen.append((tmp_path / "out.jsonl").read_bytes().count(b"\n")),
    )  # fmt: skip
    source.close()
    assert seen == [0, 1]
    assert [row["time"] for row in lines(tmp_path / "out.jsonl")] == [3]
    assert len(lines(tmp_path / "bad.jsonl")) == 2
