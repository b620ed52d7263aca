"""``python -m tests.fuzz.kills``: ``kill -9`` at random moments of runs with a checkpoint.

Models, sources (files of every format, and CSV that is followed), sinks, and one model or one for
each key. A run is killed one to three times, at moments of the clock, and then let alone. Each time
it has batches of another size, which must not matter. Outputs, events, refused rows, states and
cursor must be those of a run that was never killed. Ends with 1 where they are not.
`tests/connectors/test_crash.py` kills at lines of the program instead.
"""

import argparse
import collections
import json
import random
import signal
import sys
import tempfile
import time
import warnings
from itertools import product
from pathlib import Path

import click

from tests.connectors.data import WRITERS, rows
from tests.fuzz.disks import MODEL, do_run, left, make

LATER = ("why", "earliest", "latest")
GIVEN = 'likelihood = ["normal_gamma", 0.0, 0.05, 1.5, 0.5]\n'
MODELS = {
    "seqddcrp": MODEL,
    "ddcrp": f'model = "ddcrp"\n{GIVEN}n_particles = 3\n',
    "temporal-dpm": 'model = "temporal-dpm"\nepoch = ["rows", 40]\nwarmup = 20\n',
    "text": 'model = "text"\nlag = 20\n',
}


def cases(folder):
    some = [row for row in rows(400, bad=0.2) if row["t"] < 1e6]
    typed = [{**row, "a": -3.0 if isinstance(row["a"], str) else row["a"]} for row in some]
    for kind, write in WRITERS.items():
        write(folder / f"rows.{kind}", some if kind in ("csv", "jsonl") else typed)
    for name, options in MODELS.items():
        (folder / f"{name}.toml").write_text(options, encoding="utf-8")
    sources = [*((kind, False) for kind in WRITERS), ("csv", True)]
    every = product(MODELS, sources, ("jsonl", "parquet", "arrow"), (False, True))
    for model, (kind, follow), sink, key in every:
        if not (key and model == "text"):  # the key is the only text there is
            yield {
                "source": str(folder / f"rows.{kind}"), "model": str(folder / f"{model}.toml"),
                "folder": str(folder), "follow": follow, "sink": f"out.{sink}", "key": key,
                "checkpoint": True, "batch_rows": 40, "text": "k" if model == "text" else None,
            }  # fmt: skip


def outputs(folder, case):
    """Return what a run leaves, but for what is said of an event only when its batch has ended."""
    output, dead, events, *rest = left(folder, case)
    lines = map(json.loads, events.splitlines()) if isinstance(events, bytes) else events
    return (
        output,
        dead,
        [{k: v for k, v in event.items() if k not in LATER} for event in lines],
        *rest,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--most", type=int, default=10**9, help="kills in all")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    draw, counts, bad, tried = random.Random(given.seed), collections.Counter(), 0, set()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as root:
        every = list(cases(Path(root)))
        for model in MODELS:  # loads all kernels before the fork
            make(Path(root, "alone"))
            case = next(case for case in every if Path(case["model"]).stem == model)
            assert do_run(Path(root, "alone"), case, here=True)[0] == 0
        expected = {}
        draw.shuffle(every)

        def other(case):
            return case | {"batch_rows": draw.randint(5, 150)}

        while time.monotonic() - begun < 60.0 * given.minutes and counts.total() < given.most:
            at = len(tried) if len(tried) < len(every) else draw.randrange(len(every))
            case, folder = every[at], Path(root, "runs")
            if at not in expected:
                make(folder)
                since = time.monotonic()
                assert do_run(folder, case)[0] == 0, case
                expected[at] = time.monotonic() - since, outputs(folder, case)
            took, wanted = expected[at]
            tried.add(at)
            make(folder)
            for _ in range(draw.randint(1, 3)):
                code, _ = do_run(folder, other(case), kill_after=draw.uniform(0.0, 1.1 * took))
                counts["killed" if code == -signal.SIGKILL else "had ended"] += 1
            code, said = do_run(folder, other(case))
            if code != 0 or outputs(folder, case) != wanted:
                bad += 1
                click.echo(f"{case}: exit code {code}: {said[-1000:]}")
    click.echo(
        f"{counts['killed']} kills, {counts['had ended']} too late, in {len(tried)} of "
        f"{len(every)} configurations, {time.monotonic() - begun:.0f} s: {bad} with other outputs"
    )
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
