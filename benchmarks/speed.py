"""CPU seconds to a first result, cold and warm, then the speed, memory and size of the engine.

Each figure of a first result is that of a fresh process: Python's start, the imports, compilation
or the loading of compiled code, and 300 rows. Cold is an empty cache, warm the one that the cold
run has left.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile

import click
import numpy as np
from tqdm import tqdm

from benchmarks import engine_speed
from benchmarks.machine import machine, markdown, met, spread
from streamddcrp import SeqDDCRP

ROWS = "import numpy as np; rows = np.random.default_rng(0).normal(size=(300, 2))"
TEXTS = "rows = [f'a lot of words {i % 7} here' for i in range(300)]"
WANTED = {  # model: CPU seconds, rows
    "SeqDDCRP": (45.0, ROWS),
    "TextStream": (25.0, TEXTS),
    "TimeVaryingIBP": (25.0, ROWS),
    "GraphCRP": (25.0, ROWS),
    "DDCRPSampler": (25.0, ROWS),
}
SHORT, WANT_SHORT = 2_000, 35.0  # rows, µs a row


def first_result(model: str, cache: str) -> float:
    """CPU seconds of a process that imports a model and steps over its rows."""
    program = f"from streamddcrp import {model}; {WANTED[model][1]}; {model}().step_many(rows)"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "NUMBA_CACHE_DIR": cache},
        capture_output=True, check=True,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def first_results(rounds: int) -> str:
    """One row per model, models in turn."""
    cold: dict[str, list[float]] = {model: [] for model in WANTED}
    warm: dict[str, list[float]] = {model: [] for model in WANTED}
    for _ in tqdm(range(rounds), desc="first results", leave=False):
        for model in WANTED:
            with tempfile.TemporaryDirectory() as cache:
                cold[model].append(first_result(model, cache))
                warm[model].append(first_result(model, cache))
    rows = [
        (
            model, spread(cold[model], ".1f"), f"at most {want:.0f}",
            met(np.median(cold[model]) <= want), spread(warm[model], ".1f"),
        )
        for model, (want, _) in WANTED.items()
    ]  # fmt: skip
    return markdown(("first result, CPU s", "cold", "wanted", "met", "warm"), rows)


def short_streams(rounds: int) -> str:
    """Whole streams of few rows, the choice of the prior included."""
    X = engine_speed.five_gaussians(SHORT, 3.0, shuffled=True)[0]
    SeqDDCRP().step_many(X)
    seconds = engine_speed.alternate({"short": lambda: SeqDDCRP().step_many(X)}, rounds)["short"]
    micros = 1e6 * np.array(seconds) / SHORT
    return (
        f"A stream of {SHORT:,} rows, all included: {spread(micros, '.0f')} µs a row "
        f"(wanted: at most {WANT_SHORT:.0f}; met: {met(np.median(micros) <= WANT_SHORT)})."
    )


@click.command("speed", help="First results with an empty cache, short streams, the engine.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1))
@click.option("--first-only", is_flag=True, help="First results and short streams only.")
@click.option("--quick", is_flag=True, help="Fewer rows and rounds of the engine.")
def main(rounds: int, first_only: bool, quick: bool) -> None:
    click.echo(first_results(rounds) + "\n\n" + short_streams(7))
    if not first_only:
        click.echo("\n" + engine_speed.report(quick=quick))
    click.echo(f"\n{machine()}")
