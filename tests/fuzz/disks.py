"""``python -m tests.fuzz.disks``: runs on disks that are full, or can only be read.

Each disk is a file system in memory, mounted for this process alone (`unshare`; Linux). It holds
the results, the checkpoint, the events, the refused rows, SQLite's temporary files, or all of them,
and has room for some of the bytes or files of a run, or can only be read. The run must end with
exit code 2 and one sentence that names a file; once there is room, the same command must give what
a run gives that was never disturbed. Ends with 1 where something was found.
"""

import argparse
import collections
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from itertools import product
from pathlib import Path

import click
import pyarrow as pa

from streamddcrp_connectors.request import Request
from streamddcrp_connectors.run.command import execute
from tests.connectors.crash_driver import outcome
from tests.connectors.data import WRITERS, rows

INSIDE = "STREAMDDCRP_OWN_MOUNTS"
PLACES = ("out", "checkpoint", "events", "dead", "temporary")
MODEL = 'likelihood = ["normal_gamma", 0.0, 0.05, 1.5, 0.5]\nwindow = 8\nsweep_every = 4\n'
ROOMY = "size=64m,nr_inodes=1000"
pa.set_cpu_count(1)  # no threads before a fork


def mount(options, folder):
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], check=True)


def change(options, folder):
    subprocess.run(["mount", "-o", f"remount,{options}", folder], check=True)


def unmount(folder):
    subprocess.run(["umount", folder], check=True)


def request(folder, case):
    """Return the arguments of a run; each of its files has a folder of its own."""
    name = case["sink"]
    return Request(
        source=case["source"], time="t", key="k" if case["key"] else None,
        text=case.get("text"), features=None if case.get("text") else ("a", "b"),
        follow=case.get("follow", False), idle=0.2 if case.get("follow") else None,
        model=case["model"], sink=str(folder / "out" / name),
        events=str(folder / "events" / f"events.{name}"),
        checkpoint=str(folder / "checkpoint" / "state") if case["checkpoint"] else None,
        batch_rows=case["batch_rows"], progress=False, memory_limit="1B" if case["key"] else "1GB",
        on_error=f"dead-letter={folder / 'dead' / 'dead.jsonl'}", overwrite=not case["checkpoint"],
    )  # fmt: skip


def do_run(folder, case, *, here=False, kill_after=None):
    """Run in a child, killed after so many seconds; return the exit code and what it said."""
    said = Path(case["folder"], "said")
    if here:
        return execute(request(folder, case)), ""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            handle = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(handle, 2)
            os.dup2(handle, 1)
            os.environ["SQLITE_TMPDIR"] = str(folder / "temporary")
            code = execute(request(folder, case))
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), said.read_text(encoding="utf-8")


def left(folder, case):
    """Return all that a run leaves, in the form of the other drivers."""
    flat = Path(case["folder"], "flat")
    shutil.rmtree(flat, ignore_errors=True)
    flat.mkdir()
    for path in [*folder.glob("out/*"), *folder.glob("events/*"), *folder.glob("dead/*")]:
        shutil.copy(path, flat)
    if not case["checkpoint"]:
        return sorted((p.name, p.read_bytes()) for p in flat.iterdir())
    shutil.copytree(folder / "checkpoint" / "state", flat / "checkpoint")
    return outcome(flat, case | {"dead": True})


def make(folder):
    """Make an empty place for a run."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in PLACES:
        (folder / name).mkdir(parents=True)


def use_of(folder):
    """Return the bytes and files in a folder."""
    files = [p for p in folder.rglob("*") if p.is_file()]
    return sum(-(-p.stat().st_size // 4096) * 4096 for p in files), len(files)


def disturb(draw, folder, place, used):
    """Mount a disk with too little in a place; return what makes room."""
    disk = folder if place == "all" else folder / place
    n_bytes, n_files = used[place]
    how = draw.choice(["bytes", "bytes", "bytes", "files", "read-only"])
    if how == "bytes":
        mount(f"size={4096 * draw.randint(1, max(1, n_bytes // 4096 + 4))},nr_inodes=1000", disk)
    elif how == "files":
        mount(f"size=64m,nr_inodes={draw.randint(1, n_files + 8)}", disk)
    else:
        mount(ROOMY, disk)
    if place == "all":
        for name in PLACES:
            try:
                (disk / name).mkdir(exist_ok=True)
            except OSError:  # no room for as much as a folder
                change(ROOMY, disk)
                (disk / name).mkdir(exist_ok=True)
    if how == "read-only":
        change("ro", disk)
    return how, lambda: change(f"rw,{ROOMY}", disk), lambda: unmount(disk)


def trial(draw, case, expected, used):
    """Run on a disk without room, then with it; return what it did and what was wrong."""
    folder = Path(case["folder"], "disk")
    make(folder)
    place = draw.choice(["all", *PLACES])
    how, free, away = disturb(draw, folder, place, used)
    try:
        code, said = do_run(folder, case)
        doing, wrong = f"{place}: {how}", []
        if code not in (0, 2):
            wrong.append(f"exit code {code}: {said[-1500:]}")
        if code == 2:
            lines = [line for line in said.splitlines() if "streamddcrp: " in line]
            if not lines or "Traceback" in said or str(folder) not in lines[-1]:
                wrong.append(f"said {said[-1500:]!r}")
        free()
        again, said = do_run(folder, case)
        if again != 0:
            wrong.append(f"with room, exit code {again}: {said[-1500:]}")
        elif left(folder, case) != expected:
            wrong.append("the outputs are others")
    finally:
        away()
    return doing, "refused" if code == 2 else "done", wrong


def cases(folder):
    some = [row for row in rows(400, bad=0.2) if row["t"] < 1e6]  # after which all are refused
    source = WRITERS["csv"](folder / "rows.csv", some)
    model = folder / "model.toml"
    model.write_text(MODEL, encoding="utf-8")
    for sink, key, kept in product(("jsonl", "parquet", "arrow"), (False, True), (True, False)):
        yield {
            "source": str(source), "model": str(model), "folder": str(folder),
            "sink": f"out.{sink}", "key": key, "checkpoint": kept, "batch_rows": 60,
        }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--most", type=int, default=10**9, help="disks in all")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if INSIDE not in os.environ:
        again = ["unshare", "-rm", sys.executable, "-m", "tests.fuzz.disks", *sys.argv[1:]]
        sys.exit(subprocess.run(again, env=os.environ | {INSIDE: "1"}, check=False).returncode)
    warnings.simplefilter("ignore")
    counts, bad = collections.Counter(), 0
    with tempfile.TemporaryDirectory() as root:
        known = []
        for case in cases(Path(root)):
            alone = Path(root, "alone")
            make(alone)
            assert do_run(alone, case, here=True)[0] == 0  # loads all kernels
            used = {name: use_of(alone / name) for name in PLACES} | {"all": use_of(alone)}
            known.append((case, left(alone, case), used))
        begun, n = time.monotonic(), 0
        while time.monotonic() - begun < 60.0 * given.minutes and n < given.most:
            case, expected, used = known[n % len(known)]
            doing, came, wrong = trial(random.Random(1000 * given.seed + n), case, expected, used)
            counts[doing, came, "wrong" if wrong else "right"] += 1
            n += 1
            bad += len(wrong)
            for what in wrong:
                shown = {k: case[k] for k in ("sink", "key", "checkpoint")}
                click.echo(f"{n - 1}, {doing}, {json.dumps(shown)}: {what}")
    for (doing, came, judged), count in sorted(counts.items()):
        click.echo(f"{doing}: {came}, {judged}: {count}")
    click.echo(f"{n} disks in {time.monotonic() - begun:.0f} s, {bad} found")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
