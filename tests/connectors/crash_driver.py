"""Run the runner in children that kill themselves, and compare with a run that was left alone.

Started by test_crash.py in a process of its own: it forks, and each child counts the lines that it
executes in the connectors and the store, and sends itself a signal at a given one.
"""

import json
import os
import random
import sqlite3
import sys
import warnings
from contextlib import closing
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.config import recipe_for
from streamddcrp_connectors.run.loop import open_store, run
from streamddcrp_connectors.run.outputs import DeadLetters
from streamddcrp_connectors.run.sinks import open_sink
from streamddcrp_connectors.run.sources import open_source
from tests.connectors.toy import Toy

WATCHED = (
    "streamddcrp_connectors",
    "streamddcrp/checkpoint",
    "streamddcrp/estimator/keyed",
    "streamddcrp/estimator/by_key",
)
EVENTS = "events"
pa.set_cpu_count(1)  # no threads before a fork


def once(folder, case):
    """Do one run, as the command line does it."""
    key = "k" if case["key"] else None
    source = open_source(
        case["source"], Columns("t", key, ("a", "b")), batch_rows=case["batch_rows"]
    )
    with closing(source), open_store(folder / "checkpoint") as store:
        run(
            source,
            recipe_for(Toy, {}, Toy.from_bytes),
            open_sink(folder / case["sink"], sys.stdout.buffer, folder / "checkpoint"),
            store=store,
            events=open_sink(
                folder / f"events.{case['sink']}", sys.stdout.buffer, folder / "checkpoint", EVENTS
            ),
            dead_letters=DeadLetters(folder / "dead.jsonl") if case["dead"] else None,
            memory_limit=1,  # of keys, all models but the one in use are out
        )


def in_child(folder, case, kill_at):
    """Run in a child that is hit at line number ``kill_at`` (None: never); return the lines run."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            seen = traced(lambda: once(folder, case), kill_at, case["signal"])
            os.write(writing, str(seen).encode())
            code = 0
        except KeyboardInterrupt:
            code = 130
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    answer = os.read(reading, 100)
    os.close(reading)
    if os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 130:
        return None
    if os.WEXITSTATUS(status):
        sys.exit(f"a run failed: {case}")
    return int(answer)


def traced(work, kill_at, number):
    """Do the work, counting executed lines of the watched files."""
    seen = 0

    def on_line(frame, event, _):
        nonlocal seen
        if event == "line":
            seen += 1
            if seen == kill_at:
                os.kill(os.getpid(), number)
        return on_line

    @cache
    def is_watched(name):
        return any(part in name for part in WATCHED)

    def on_call(frame, event, _):
        return on_line if is_watched(frame.f_code.co_filename) else None

    sys.settrace(on_call)
    try:
        work()
    finally:
        sys.settrace(None)
    return seen


def outcome(folder, case):
    """Everything a run leaves: outputs, refused rows, states, cursor."""
    output = content(folder / case["sink"])
    events = content(folder / f"events.{case['sink']}")
    if case["key"]:  # those of each key are in order
        lines = map(json.loads, events.splitlines()) if isinstance(events, bytes) else events
        events = sorted(lines, key=lambda event: event["key"])
    dead = (folder / "dead.jsonl").read_bytes() if case["dead"] else b""
    with sqlite3.connect(folder / "checkpoint" / "state.sqlite") as database:
        states = database.execute("select op, key, blob from state order by op, key").fetchall()
        cursor = json.loads(database.execute("select offset from cursor").fetchone()[0])
    database.close()
    kept = {name: cursor[name] for name in ("source", "rows", "refused")}
    return output, dead, events, states, kept


def content(path):
    """Read what a sink wrote."""
    if path.suffix == ".jsonl":
        return path.read_bytes()
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    with pa.ipc.open_file(path) as reader:
        return reader.read_all().to_pylist()


def main():
    """Read cases from standard input as JSON; write what was found as JSON."""
    warnings.simplefilter("ignore", DeprecationWarning)  # the fork is deliberate
    request = json.load(sys.stdin)
    root = Path(request["folder"])
    draw = random.Random(request["seed"])
    os.fsync = lambda _: None  # a kill loses nothing written; test_power_loss.py has what does
    Toy().to_bytes()  # imports pandas here, which Arrow does in passing, and not in each child
    found = []
    for number, case in enumerate(request["cases"]):
        alone = root / f"{number}-alone"
        alone.mkdir()
        n_lines = in_child(alone, case, None)
        expected = outcome(alone, case)
        wrong = []
        for trial in range(request["trials"]):
            folder = root / f"{number}-{trial}"
            folder.mkdir()
            kills = []
            for _ in range(draw.randint(1, 4)):
                kills.append(draw.randint(1, n_lines))
                in_child(folder, case, kills[-1])
            in_child(folder, case, None)
            if outcome(folder, case) != expected:
                wrong.append(kills)
        found.append(
            {
                "lines": n_lines,
                "output": len(expected[0]),
                "dead": len(expected[1]),
                "events": len(expected[2]),
                "wrong": wrong,
            }
        )
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
