"""Every snippet of the README and of the pages runs as it is written."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from click.testing import CliRunner
from pyarrow import csv

import streamddcrp
from streamddcrp import SeqDDCRP
from streamddcrp_connectors.cli import main
from tests.conftest import REPOSITORY
from tests.unit.test_how_to import BLOCK, COMMAND

N = 400
RNG = np.random.default_rng(0)
X = np.repeat(RNG.normal(0.0, 8.0, (8, 2)), N // 8, axis=0) + RNG.normal(size=(N, 2))
WHEN = [datetime(2026, 3, 2, tzinfo=UTC) + timedelta(hours=i) for i in range(N)]
TITLES = [f"{'oil price rises' if i % 2 else 'court hears judge'} case{i % 9}" for i in range(N)]
ROWS = pa.table({"flow": X[:, 0], "pressure": X[:, 1]})
MACHINES = ROWS.append_column("machine", pa.array(["ab"[i % 2] for i in range(N)]))
CONSOLES = ("README.md", "docs/live-page.md")
WAITS = ("--follow", "tail -n +1 -f")  # until it is interrupted
SERVES = ("--live", "streamddcrp serve")  # a page, at an address that it prints

SITE = [*(REPOSITORY / "docs").glob("*.md"), *(REPOSITORY / "docs/tasks").glob("*.md")]
PAGES = sorted(
    path.relative_to(REPOSITORY).as_posix()
    for path in [REPOSITORY / "README.md", *SITE]
    if not path.name.startswith("how-to-add") and path.name != "live.md"
)
GIVEN = [page for page in PAGES if not page.startswith("docs/tasks/")]


def given():
    """What snippets take as given: rows, texts and models that the text speaks of."""
    names = {name: getattr(streamddcrp, name) for name in streamddcrp.__all__}
    row = ROWS.slice(0, 1).to_pylist()[0]
    return names | {
        "stream": ROWS.slice(0, 40).to_pylist(), "table": ROWS, "readings": ROWS, "rows": X,
        "X": X[:40],
        "x": row, "row": row, "t": np.arange(40.0), "times": WHEN, "when": WHEN,
        "titles": TITLES, "texts": TITLES, "text": "the judge spoke", "beginning": "a court",
        "batch": ROWS, "batches": ROWS.to_batches(max_chunksize=100), "model": fitted(),
        "sources": ["left", "right"] * 2, "counts": X[:40], "words": ["oil", "court", "judge"],
        "graph": scipy.sparse.diags([1.0, 1.0], [1, -1], shape=(40, 40), format="csr"),
    }  # fmt: skip


def fitted():
    model = SeqDDCRP()
    model.learn_many(ROWS)
    return model


def blocks(page, *languages):
    text = (REPOSITORY / page).read_text()
    return [code for language, code in BLOCK.findall(text) if language in languages]


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/tasks/")])
def test_task(page, tmp_path, monkeypatch):
    """All blocks in order, with nothing given; each picture that the page shows is drawn."""
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for language, code in BLOCK.findall((REPOSITORY / page).read_text()):
        if language == "python":
            exec(compile(code, page, "exec"), names)
        else:
            for line in code.splitlines():
                shell(line, tmp_path)
    shown = re.findall(r"!\[.*\]\((.*)\)", (REPOSITORY / page).read_text())
    assert all((REPOSITORY / page).with_name(name).exists() for name in shown)
    drawn = {path.name for path in tmp_path.glob("*.png")}
    assert len(drawn) >= len(shown)


@pytest.mark.parametrize("page", [page for page in GIVEN if blocks(page, "python")])
def test_python(page, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    names = given()
    if page == "docs/graphs.md":
        names["rows"], names["x"] = X[:4], {0: 0.0, 1: 0.0}
    elif page == "docs/keyed.md":
        names["batch"] = MACHINES
    elif page == "docs/first-steps.md":
        names["readings"] = ROWS.append_column("at", pa.array(WHEN))
    elif page == "docs/reading-the-outputs.md":
        pq.write_table(ROWS, tmp_path / "regimes.parquet")
    elif page == "docs/nested.md":
        names["counts"] = RNG.poisson(1.0, (6, 3))
    for code in blocks(page, "python"):
        exec(compile(code, page, "exec"), names)


def shell(line, folder):
    """Run a line of a page: a command of ours in this process, anything else in a shell."""
    if line.startswith("streamddcrp") and not any(sign in line for sign in WAITS + SERVES):
        done = CliRunner().invoke(main, shlex.split(line, comments=True)[1:])
        assert done.exit_code == 0, (line, done.output, done.exception)
        return
    script = folder / "streamddcrp"
    if not script.exists():
        script.write_text(f"#!/bin/sh\nexec '{sys.executable}' -c '{COMMAND}' \"$@\"\n")
        script.chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    with (folder / "printed").open("w") as printed:
        before = size_of(folder)
        job = subprocess.Popen(
            ["bash", "-c", line], cwd=folder, env=os.environ | {"PATH": path},
            stdout=printed, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    if any(sign in line for sign in SERVES):
        interrupt_once_it_serves(job, folder)
    elif any(sign in line for sign in WAITS):
        interrupt_once_it_waits(job, folder, before)
        assert "Traceback" not in (folder / "printed").read_text(), line
    else:
        assert job.wait(timeout=120) == 0, (line, (folder / "printed").read_text())


def answers(printed):
    """Return whether the page whose address was printed answers."""
    address = re.search(r"http://\S+\?token=\S+", printed)
    if address is None:
        return False
    try:
        urllib.request.urlopen(address[0], timeout=10.0).close()
    except urllib.error.HTTPError as refused:  # it sends a cookie, which is not kept here
        refused.close()
    except OSError:
        return False
    return True


def interrupt_once_it_serves(job, folder):
    end = time.monotonic() + 300.0
    while not answers((folder / "printed").read_text()):
        assert job.poll() is None, (folder / "printed").read_text()
        assert time.monotonic() < end, "no page answers"
        time.sleep(0.05)
    time.sleep(1.0)  # whatever else the command starts
    os.killpg(job.pid, signal.SIGINT)
    job.wait(timeout=60)
    assert "Traceback" not in (folder / "printed").read_text()


def size_of(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def interrupt_once_it_waits(job, folder, before):
    """Interrupt a job that has written something, and has written nothing for a second."""
    size, since, end = before, time.monotonic(), time.monotonic() + 60.0
    while size == before or time.monotonic() < since + 1.0:
        assert job.poll() is None, (folder / "printed").read_text()
        assert time.monotonic() < end, "it writes nothing"
        time.sleep(0.05)
        now = size_of(folder)
        if now != size:
            size, since = now, time.monotonic()
    os.killpg(job.pid, signal.SIGINT)
    job.wait(timeout=30)


def write_files(tmp_path):
    """Write what the lines of pages read."""
    stamped = ROWS.add_column(0, "at", pa.array(WHEN))
    pq.write_table(ROWS, tmp_path / "big.parquet")
    for name in ("plant", "taxi"):
        pq.write_table(stamped, tmp_path / f"{name}.parquet")
    pq.write_table(MACHINES.add_column(0, "at", pa.array(WHEN)), tmp_path / "fleet.parquet")
    occupancy = dict(zip(("temperature", "humidity", "light", "co2"), [*X.T, *X.T], strict=True))
    pq.write_table(pa.table({"timestamp": WHEN, **occupancy}), tmp_path / "occupancy.parquet")
    for name in ("log", "dirty"):
        csv.write_csv(stamped, tmp_path / f"{name}.csv")
    with (tmp_path / "dirty.csv").open("a") as file:
        file.write("2026-04-01,broken,1\n")
    news = pa.table({"at": WHEN, "title": TITLES})
    csv.write_csv(news, tmp_path / "news.csv")
    pq.write_table(news, tmp_path / "news.parquet")


@pytest.mark.parametrize("page", [page for page in GIVEN if blocks(page, "sh")])
def test_shell(page, tmp_path, monkeypatch):
    """Lines of the command, with the files that they name."""
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    for code in blocks(page, "sh"):
        for line in code.replace("\\\n", " ").splitlines():
            if not line.startswith("pip "):  # the test of the wheel installs
                shell(line, tmp_path)


@pytest.mark.parametrize("page", CONSOLES)
def test_pages_that_are_served(page, tmp_path, monkeypatch):
    """Those of Spark, the other page with such lines, want a cluster."""
    pytest.importorskip("tornado")
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    for name, table in ("plant", ROWS), ("fleet", MACHINES):
        csv.write_csv(table.add_column(0, "at", pa.array(WHEN)), tmp_path / f"{name}.csv")
    shell("streamddcrp run plant.parquet --time at --sink regimes.parquet", tmp_path)
    for code in blocks(page, "console"):
        for line in code.splitlines():
            if not line.startswith("$ pip "):
                shell(line.removeprefix("$ "), tmp_path)


def test_no_page_is_left_out():
    """What is not run here is run by a test of its own, or wants a cluster."""
    elsewhere = {"docs/live.md", "docs/spark.md", "CONTRIBUTING.md"}
    pages = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md"]
    for path in [*pages, *SITE]:
        page = path.relative_to(REPOSITORY).as_posix()
        if page not in elsewhere and not path.name.startswith("how-to-add"):
            known = {"python", "sh", "console" if page in CONSOLES else "sh"}
            assert {language for language, _ in BLOCK.findall(path.read_text())} <= known, page
