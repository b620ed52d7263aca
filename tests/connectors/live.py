"""Jobs on live sources and sinks: rows, what must come out, and runs that are killed."""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.config import recipe_for
from streamddcrp_connectors.run.loop import run
from streamddcrp_connectors.run.sinks import open_sink
from streamddcrp_connectors.run.sources import open_source
from tests.conftest import REPOSITORY

from .data import rows
from .toy import Toy

COLUMNS = Columns("t", None, ("a", "b"))


def made(n, seed=0):
    """Draw rows as JSON texts."""
    return [json.dumps(row) for row in rows(n, seed=seed)]


def expected(folder, texts, columns=COLUMNS):
    """Results and events of the rows read from a file, without a stop."""
    folder.mkdir(exist_ok=True)
    path = folder / "rows.jsonl"
    path.write_text("".join(text + "\n" for text in texts))
    source = open_source(path, columns)
    out, events = (open_sink(folder / f"{name}.jsonl", None, None) for name in ("out", "events"))
    run(source, recipe_for(Toy, {}, Toy.from_bytes), out, events=events)
    source.close()
    return read(folder / "out.jsonl"), read(folder / "events.jsonl")


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def drive(
    folder,
    source,
    n_rows,
    *,
    kills,
    sink=None,
    events=None,
    key=None,
    seed=0,
    longest=0.2,
    batch=20,
    follow=False,
):
    """Run a job on ``source`` that is killed so many times; return results and events in files."""
    folder.mkdir(exist_ok=True)
    request = {
        "folder": str(folder),
        "source": source,
        "sink": sink or str(folder / "out.jsonl"),
        "events": events or str(folder / "events.jsonl"),
        "key": key,
        "n_rows": n_rows,
        "kills": kills,
        "seed": seed,
        "longest": longest,
        "batch_rows": batch,
        "follow": follow,
    }
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.connectors.live_driver"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        start_new_session=True,
    )
    try:
        _, said = driver.communicate(json.dumps(request), timeout=120 + 10 * kills)
    except BaseException:
        os.killpg(driver.pid, signal.SIGKILL)  # with the job
        driver.communicate()
        raise
    assert driver.returncode == 0, said
    return None if sink else (read(folder / "out.jsonl"), read(folder / "events.jsonl"))


@contextmanager
def meanwhile(work, *args):
    """Do something in a thread; its error fails the test."""
    failed = []

    def attempt():
        try:
            work(*args)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    try:
        yield
    except BaseException as error:
        if failed:
            raise failed[0] from error  # that may be why
        raise
    thread.join(60)
    assert not thread.is_alive()
    if failed:
        raise failed[0]
