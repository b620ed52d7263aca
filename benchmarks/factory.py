"""Regimes under daily cycles: a factory's file of six sensors, and five hourly series.

*Factory*: 30 days of rows every ten minutes. A machine is idle, runs, or runs hard, and for some
hours one of its six sensors is at fault: 39 switches between four states. Every sensor has a level
for each state, a daily cycle, a slow trend and correlated noise; values are rounded as sensors do.
*Hourly*: 26 weeks of a daily and a weekly cycle, a trend, autocorrelated noise, four lasting
shifts of the level (none in the first series) and short faults. Labels are those on arrival,
changes the `label_changes` of the settled labels; of hourly values a regime lasts a day at least.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import click
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from benchmarks.machine import machine, markdown, spread
from benchmarks.options import SeedRange
from benchmarks.real_series import settled_labels
from streamddcrp import SeqDDCRP, label_changes

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

N_SWITCHES = 39
DAY = 144  # rows of ten minutes
SENSORS = ("temperature", "pressure", "flow", "vibration", "power", "speed")
UNITS = np.array([2.0, 0.05, 1.5, 0.2, 3.0, 25.0])  # standard deviation of a sensor's noise
DIGITS = (1, 2, 1, 2, 1, 0)
FAULT = 3  # state
HOUR = 3600.0


class Series(NamedTuple):
    """Rows with times in seconds, the state of each, and where states change."""

    table: pa.Table
    t: FloatArray
    state: IntArray
    switches: list[int]


def factory(seed: int) -> Series:
    """Return a file of six sensors, 4,320 rows."""
    rng = np.random.default_rng(seed)
    n = 30 * DAY
    while True:
        cuts = np.sort(rng.choice(np.arange(36, n - 36, 6), N_SWITCHES, replace=False))
        if np.diff(cuts).min() >= 24:
            break
    state = np.zeros(n, np.int64)
    now = 0
    for a, b in zip(cuts, np.append(cuts[1:], n), strict=True):
        now = int(rng.choice([s for s in range(FAULT) if s != now]))
        state[a:b] = now
    first = int(rng.integers(N_SWITCHES // 2, N_SWITCHES - 2))
    state[cuts[first] : cuts[first + 1]] = FAULT  # one segment of the later half
    levels = np.zeros((FAULT + 1, 6))
    levels[1] = rng.uniform(3.0, 6.0, 6)
    levels[2] = levels[1] + rng.uniform(3.0, 6.0, 6)
    levels[FAULT] = levels[1]
    levels[FAULT, rng.integers(6)] += rng.choice([-1.0, 1.0]) * rng.uniform(8.0, 12.0)
    x = np.arange(n)
    hours = 2.0 * np.pi * (x[:, None] / DAY - rng.uniform(size=6))
    cycle = rng.uniform(0.5, 4.0, 6) * (np.sin(hours) + 0.3 * np.sin(2.0 * hours))
    trend = np.outer(x / n, rng.uniform(-2.0, 2.0, 6))
    mixing = np.eye(6) + 0.5 * rng.normal(size=(6, 6)) / np.sqrt(6.0)
    noise = rng.normal(size=(n, 6)) @ (mixing / np.linalg.norm(mixing, axis=0))
    values = 100.0 * UNITS + UNITS * (levels[state] + cycle + trend + noise)
    columns = {
        name: np.round(value, digits)
        for name, value, digits in zip(SENSORS, values.T, DIGITS, strict=True)
    }
    switches = (np.flatnonzero(np.diff(state)) + 1).tolist()
    return Series(pa.table(columns), x * 600.0, state, switches)


def hourly(seed: int) -> Series:
    """Return an hourly series of 26 weeks; seed 0 has no shift."""
    rng = np.random.default_rng(seed)
    n = 24 * 7 * 26
    x = np.arange(n)
    hour, day = x % 24, (x // 24) % 7
    turn = 2.0 * np.pi / 24.0
    daily = 3.0 * np.sin(turn * (hour - 8)) + 1.2 * np.sin(2.0 * turn * (hour - 3))
    daily += 0.5 * np.sin(3.0 * turn * hour)
    noise, steps = np.zeros(n), rng.normal(0.0, 0.5, n)
    for i in range(1, n):
        noise[i] = 0.5 * noise[i - 1] + steps[i]
    level, state, shifts = np.zeros(n), np.zeros(n, np.int64), []
    if seed:
        places = rng.choice(np.arange(800, n - 300, 150), 4, replace=False)
        shifts = sorted((places + rng.integers(-40, 40, 4)).tolist())
    sign = (-1, 1)
    sizes = [
        rng.choice(sign) * rng.uniform(2.5, 4.0), 0.0, rng.choice(sign) * rng.uniform(2.5, 4.0),
        rng.choice(sign) * rng.uniform(5.0, 6.0),
    ]  # fmt: skip
    for at, size, name in zip(shifts, sizes, (1, 0, 2, 3), strict=False):
        level[at:], state[at:] = size, name
    weekend = day >= 5
    y = 20.0 + 0.0004 * x * (seed % 3) + np.where(weekend, 0.6, 1.0) * daily + level + noise
    y -= np.where(weekend, 2.0, 0.0)
    n_faults = 0
    for at in rng.choice(np.arange(500, n - 100, 97), 5, replace=False).tolist():
        length = int(rng.integers(6, 18))
        if all(abs(at - shift) >= 72 for shift in shifts):
            stuck = n_faults % 2 == 1
            fault = y[at : at + length]
            fault[:] = y[at] if stuck else fault + rng.choice(sign) * 9.0
            n_faults += 1
    return Series(pa.table({"y": y}), x * HOUR, state, shifts)


def matched(found: Sequence[int], true: Sequence[int], margin: int) -> int:
    """Return how many changes lie within a margin of true ones, each of these taken once."""
    left, hits = list(true), 0
    for at in found:
        near = [change for change in left if abs(change - at) <= margin]
        if near:
            left.remove(min(near, key=lambda change, at=at: abs(change - at)))
            hits += 1
    return hits


def measured(series: Series, margin: int, hold: int, **options: Any) -> dict[str, float]:
    """Run a model; return its index, label changes, F1 of settled changes, ids and µs a row."""
    start = time.process_time()
    label = SeqDDCRP(**options).step_many(series.table, t=series.t)["label"].to_numpy()
    micros = 1e6 * (time.process_time() - start) / len(label)
    settled = settled_labels(SeqDDCRP(**options), series.table, series.t)
    found = label_changes(settled, hold).tolist()
    hits = matched(found, series.switches, margin)
    return {
        "ari": adjusted_rand_score(series.state, label),
        "settled": adjusted_rand_score(series.state, settled),
        "switches": float(np.count_nonzero(np.diff(label))),
        "changes": float(len(found)),
        "f1": 2.0 * hits / max(len(found) + len(series.switches), 1),
        "ids": float(len(np.unique(label))),
        "micros": micros,
    }


FACTORY: tuple[tuple[str, dict[str, Any]], ...] = (
    ("season=None", {"season": None}), ("defaults", {}), ('season="auto"', {"season": "auto"}),
    ('season="day"', {"season": "day"}),
)  # fmt: skip
HOURLY: tuple[tuple[str, dict[str, Any]], ...] = (
    ("season=None", {"season": None}), ("defaults", {}), ("period given", {"season": "week"}),
    ("estimated", {"season": "auto"}),
)  # fmt: skip


def table(part: str, seeds: Sequence[int]) -> str:
    """Table of the options of a part over its series."""
    make, margin, hold = (factory, 3, 10) if part == "factory" else (hourly, 48, 24)
    rows = []
    for name, options in FACTORY if part == "factory" else HOURLY:
        found = [measured(make(seed), margin, hold, **options) for seed in seeds]
        keys = {"ari": ".3f", "settled": ".3f", "switches": ".0f", "changes": ".0f", "f1": ".2f",
                "ids": ".0f", "micros": ".0f"}  # fmt: skip
        rows.append((name, *(spread([one[key] for one in found], f) for key, f in keys.items())))
    header = (
        "options", "ARI", "ARI, settled", "label changes", "changes of regime", "F1", "ids",
        "CPU µs a row",
    )  # fmt: skip
    return markdown(header, rows)


@click.command("factory", help="A factory's six sensors and hourly series under daily cycles.")
@click.option("--seeds", type=SeedRange(), default="400-409", show_default=True)
@click.argument("parts", nargs=-1, type=click.Choice(["factory", "hourly"]))
def main(parts: Sequence[str], seeds: tuple[int, ...]) -> None:
    SeqDDCRP().step_many(np.zeros((10, 1)))  # compiles
    for part in parts or ("factory", "hourly"):
        chosen = seeds if part == "factory" else range(5)
        click.echo(f"\n### {part}\n\n{table(part, chosen)}")
    click.echo(f"\n{machine()}")


if __name__ == "__main__":
    main()
