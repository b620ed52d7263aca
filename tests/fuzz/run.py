"""``python -m tests.fuzz.run``: forge states for some minutes; say what came of them.

Each forged state is loaded and used in a process of its own pool, forked from one in which all
kernels are compiled, under limits of time and memory. Ends with 1 where one crashed, hung or gave
a traceback.
"""

import argparse
import collections
import faulthandler
import json
import multiprocessing as mp
import os
import signal
import sys
import time
import warnings
from pathlib import Path

import click
import numpy as np

from tests.fuzz.forge import containers, limit_memory, subjects

BAD = (
    "crash", "hang", "traceback on load", "out of memory", "read out of bounds", "error in use",
    "other rows", "bare error", "changed by what it refused",
)  # fmt: skip
LIMIT = 10.0  # seconds of CPU time that one may take
PATIENCE = 20.0  # times as many seconds, where it waits for something or the machine is busy


def _work(models, tasks, results):
    faulthandler.disable()  # a crash is an outcome
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    limit_memory()
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115 -- for the life of the process
    while (task := tasks.get()) is not None:
        i, seed = task
        results.send((task, models[i].attempt(seed)))


def _used(process):
    """Return the CPU time of a process, in seconds; 0 where the system does not say."""
    try:
        stat = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii")
    except OSError:
        return 0.0
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Worker:
    """A process that tries one forged state after the other."""

    def __init__(self, models):
        context = mp.get_context("fork")
        self.tasks, (self.results, end) = context.SimpleQueue(), context.Pipe(duplex=False)
        self.process = context.Process(target=_work, args=(models, self.tasks, end), daemon=True)
        self.process.start()
        end.close()

    def run(self, task, limit=LIMIT):
        """Return outcome, message and what was done; None for a process that had to go."""
        self.tasks.put(task)
        most, latest = _used(self.process) + limit, time.monotonic() + PATIENCE * limit
        try:
            while _used(self.process) < most and time.monotonic() < latest:
                if self.results.poll(min(limit, 0.1)):
                    return self.results.recv()[1]
        except EOFError:
            pass
        else:
            self.end()
            return "hang", f"more than {limit:g} s", []
        self.process.join()
        code = self.process.exitcode
        return "crash", signal.Signals(-code).name if code < 0 else f"exit code {code}", []

    def end(self):
        self.process.kill()
        self.process.join()


def in_child(work, limit=None):
    """Return what ``work()`` returns, in a fork of its own, or None; and what ended it, or ""."""
    context = mp.get_context("fork")
    reading, writing = context.Pipe(duplex=False)
    child = context.Process(target=lambda: writing.send(work()), daemon=True)
    child.start()
    writing.close()
    try:
        if reading.poll(limit):
            return reading.recv(), ""
    except EOFError:
        child.join()
        return None, f"crash: exit code {child.exitcode}"
    finally:
        child.kill()
        child.join()
    return None, f"hang: more than {limit:g} s"


def campaign(models, seconds, first=0, most=None, report=click.echo):
    """Try forged states of models in turn; return outcomes, and the bad ones."""
    counts, bad, begun = collections.Counter(), [], time.monotonic()
    by_model = collections.defaultdict(collections.Counter)
    worker, n = Worker(models), 0
    while time.monotonic() - begun < seconds and (most is None or n < most):
        i, seed = n % len(models), first + n // len(models)
        outcome, message, said = worker.run((i, seed))
        n += 1
        counts[outcome] += 1
        by_model[models[i].name][outcome] += 1
        if outcome in BAD:
            bad.append(
                {"model": models[i].name, "seed": seed, "outcome": outcome, "message": message,
                 "changed": said}
            )  # fmt: skip
            report(f"{outcome}: {models[i].name}, seed {seed}: {said}: {message}")
        if not worker.process.is_alive():
            worker.end()
            worker = Worker(models)
    worker.end()
    return counts, by_model, bad


def end_with(found, what):
    """Say what came of a campaign; return whether anything was bad."""
    counts, by_model, bad = found
    for name, of_model in by_model.items():
        click.echo(f"{name}: " + ", ".join(f"{n} {k}" for k, n in of_model.most_common()))
    click.echo(
        f"{sum(counts.values())} {what}: " + ", ".join(f"{n} {k}" for k, n in counts.most_common())
    )
    return bool(bad)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=os.environ.get("FUZZ_MINUTES", "3"))
    parser.add_argument("--most", type=int)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--containers", action="store_true", help="bytes, and models of keys")
    parser.add_argument("--only", default="", help="pattern of the names of models")
    parser.add_argument("--seed", type=int, help="try this one here, without a process of its own")
    parser.add_argument("--out", type=Path, help="file of the bad ones, as JSON lines")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    models = (containers if given.containers else subjects)(given.only)
    if given.seed is not None:
        for subject in models:
            click.echo(f"{subject.name}: {subject.attempt(given.seed)}")
        return
    ready = time.monotonic()
    for subject in models:
        found = subject.try_read(*subject.read(subject.blob))
        assert found[0] == "accepted", (subject.name, found)
    begun = time.monotonic()
    click.echo(f"{len(models)} models ready after {begun - ready:.0f} s")
    found = campaign(models, 60.0 * given.minutes, given.first, given.most)
    if given.out:
        given.out.write_text("".join(json.dumps(b) + "\n" for b in found[2]), encoding="utf-8")
    sys.exit(end_with(found, "forged states"))


if __name__ == "__main__":
    main()
