"""Run a job on a live source or sink, killed and started again; started by live.py.

In a process of its own, since it forks: a child that is killed costs no import.
"""

import json
import os
import random
import signal
import sys
import time
import warnings
from contextlib import closing
from pathlib import Path

import pyarrow as pa

from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.config import recipe_for
from streamddcrp_connectors.run.loop import open_store, run
from streamddcrp_connectors.run.models import CURSOR
from streamddcrp_connectors.run.outputs import DeadLetters
from streamddcrp_connectors.run.sinks import open_sink
from streamddcrp_connectors.run.sources import open_source
from tests.connectors.toy import Toy

pa.set_cpu_count(1)  # no threads before a fork


def once(request, after_row):
    """Do one run, which ends when all rows are there."""
    folder = Path(request["folder"])
    columns = Columns("t", request["key"], ("a", "b"))
    how = {name: request[name] for name in ("batch_rows", "follow")}
    source = open_source(request["source"], columns, **how)

    def ended(summary):
        after_row()
        if summary.rows >= request["n_rows"]:
            raise KeyboardInterrupt

    checkpoint = folder / "checkpoint"
    with closing(source), open_store(checkpoint) as store:
        cursor = store.offset(CURSOR)
        if cursor is not None and cursor["rows"] >= request["n_rows"]:
            return
        run(
            source,
            recipe_for(Toy, {}, Toy.from_bytes),
            open_sink(request["sink"], sys.stdout.buffer, checkpoint),
            store=store,
            events=open_sink(request["events"], sys.stdout.buffer, checkpoint, "events"),
            dead_letters=DeadLetters(folder / "dead.jsonl"),
            progress=ended,
        )


def in_child(request, seconds):
    """Run in a child, killed after so many seconds from its first batch (None: never)."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        os.close(reading)
        try:
            once(request, lambda: os.write(writing, b"."))
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(writing)
    if seconds is not None:
        os.read(reading, 1)
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    while os.read(reading, 1 << 16):
        pass
    os.close(reading)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        sys.exit("a run failed")


def main():
    """Read a request from standard input as JSON."""
    warnings.simplefilter("ignore", DeprecationWarning)  # the fork is deliberate
    request = json.load(sys.stdin)
    draw = random.Random(request["seed"])
    for _ in range(request["kills"]):
        in_child(request, draw.uniform(0, request["longest"]))
    in_child(request, None)


if __name__ == "__main__":
    main()
