"""kill -9 at any line of runner, sinks and store, then the same command: as if never stopped."""

import json
import os
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from .data import WRITERS, rows

ROOT = Path(__file__).resolve().parents[2]


def cases(folder, kinds, sinks, number=signal.SIGKILL):
    for kind, (sink, key, dead) in product(kinds, product(sinks, (False, True), (False, True))):
        source = folder / f"{'bad' if dead else 'good'}.{kind}"
        if not source.exists():
            bad = 0.2 if dead else 0.0
            table = rows(60, bad=bad)
            if kind not in ("csv", "jsonl"):  # a typed column holds no text
                table = [{**row, "a": -3.0 if row["a"] == "1.2.3" else row["a"]} for row in table]
            WRITERS[kind](source, table)
        yield {
            "source": str(source),
            "sink": f"out.{sink}",
            "key": key,
            "dead": dead,
            "batch_rows": 9,
            "signal": number,
        }


def drive(folder, chosen, trials, seed=0):
    """Try the cases, in memory where there is such a folder: a kill loses nothing on its way."""
    memory = Path("/dev/shm")
    where = memory if os.access(memory, os.W_OK) else folder
    with TemporaryDirectory(dir=where) as work:
        request = {"folder": work, "cases": chosen, "trials": trials, "seed": seed}
        ran = subprocess.run(
            [sys.executable, "-m", "tests.connectors.crash_driver"],
            input=json.dumps(request), capture_output=True, text=True, cwd=ROOT, check=False,
        )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_killed_at_any_line_json_lines(tmp_path, kind):
    chosen = list(cases(tmp_path, [kind], ["jsonl"]))
    for case, found in zip(chosen, drive(tmp_path, chosen, trials=5), strict=True):
        assert found["wrong"] == [], case
        assert found["output"] > 1000  # bytes: it did something
        assert found["events"] > 5
        assert (found["dead"] > 0) == case["dead"]


@pytest.mark.parametrize(
    ("kind", "sink"), [("parquet", "parquet"), ("arrow", "arrow"), ("arrows", "parquet")]
)
def test_killed_at_any_line_tables(tmp_path, kind, sink):
    chosen = list(cases(tmp_path, [kind], [sink]))
    for case, found in zip(chosen, drive(tmp_path, chosen, trials=3), strict=True):
        assert found["wrong"] == [], case
        assert found["output"] > 20  # rows
        assert found["events"] > 5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_at_any_line(tmp_path, number):
    chosen = list(cases(tmp_path, ["csv"], ["parquet"], number))
    for case, found in zip(chosen, drive(tmp_path, chosen, trials=3), strict=True):
        assert found["wrong"] == [], case


@pytest.mark.slow
def test_killed_at_any_line_thoroughly(tmp_path):
    chosen = list(cases(tmp_path, list(WRITERS), ["jsonl", "parquet", "arrow"]))
    for case, found in zip(chosen, drive(tmp_path, chosen, trials=25, seed=1), strict=True):
        assert found["wrong"] == [], case
