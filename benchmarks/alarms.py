"""Does an alarm hear the faults of six unlike machines, and how often does it ring beside?

Rows come each minute for ten days (of the inverter each five for thirty). A fault is heard where an
alarm begins within its first 20 rows; others are those that begin after the first two days, and
neither within a fault nor in the ten rows after one. The rate of .001 a row asks for 1.44 others a
day, .29 of the inverter. Figures are of all seeds together; nothing was chosen on seeds from 21.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import click
import numpy as np

from benchmarks.machine import machine, markdown
from benchmarks.plants import MONDAY, FloatArray, IntArray, lagged, slow, stays
from streamddcrp import Alarm, SeqDDCRP

DAY, SETTLED, WITHIN, LASTS, AFTER = 1440, 2, 20, 60, 10
Made = tuple[FloatArray, IntArray, IntArray]  # rows (N, D); minutes (N,); where faults begin


def starts(rng: np.random.Generator, may: IntArray, n: int, day: int = DAY) -> IntArray:
    """Draw where faults begin, each in its own stretch after three days, where rows ``may``."""
    cuts = np.linspace(3 * day, len(may) - 2 * LASTS, n + 1).astype(int)
    allowed = [np.flatnonzero(may[a : b - 2 * LASTS]) + a for a, b in pairwise(cuts)]
    return np.array([rng.choice(rows) for rows in allowed])


def during(faults: IntArray, n: int) -> FloatArray:
    """Rows since a fault began and one more (N,), 0 where there is none."""
    since = np.arange(n) - faults[:, None] + 1
    return np.where((since > 0) & (since <= LASTS), since, 0).sum(axis=0).astype(float)


def compressor(rng: np.random.Generator) -> Made:
    """Nights, days and heavy days; oil follows the current by an hour. It loses pressure."""
    n, minute = 10 * DAY, np.arange(10 * DAY)
    heavy = rng.random(10)[minute // DAY] < 0.4
    busy = (minute % DAY >= 360) & (minute % DAY < 1320) & (minute // DAY % 7 < 5)
    current = np.where(busy, np.where(heavy, 110.0, 80.0), 20.0)
    faults = starts(rng, busy, 2)
    bad = during(faults, n) > 0
    noise = rng.normal(size=(n, 2)) * [1.5, 0.05]
    oil = lagged(30.0 + 0.4 * current, 60.0) + 0.3 * slow(rng, n, 0.9)
    rows = np.c_[current + 8.0 * bad + noise[:, 0], 7.0 - 0.5 * bad + noise[:, 1], oil]
    return rows, minute, faults


def reactor(rng: np.random.Generator) -> Made:
    """Batches of five phases, of which one heats and one cools. It runs hot as it reacts."""
    n, phase, target = 10 * DAY, [], [25.0, 80.0, 80.0, 30.0, 25.0]
    while len(phase) < n:
        phase += np.repeat(np.arange(5), rng.poisson([40, 80, 120, 60, 20])).tolist()
    at = np.array(phase[:n])
    faults = starts(rng, at == 2, 3)
    heat = lagged(np.array(target)[at], 20.0) + 6.0 * (during(faults, n) > 0)
    heat += rng.normal(0.0, 0.5, n)
    stir = np.array([0.0, 60.0, 90.0, 60.0, 0.0])[at] + rng.normal(0.0, 1.0, n)
    return np.c_[heat, stir, 1.0 + 0.01 * heat + rng.normal(0.0, 0.02, n)], np.arange(n), faults


def web(rng: np.random.Generator) -> Made:
    """Requests by the hour, with bursts. It answers slowly, with no more to do than usual."""
    n, minute = 10 * DAY, np.arange(10 * DAY)
    burst = during(np.sort(rng.choice(n, 50, replace=False)), n) > 0
    rate = 200.0 * (1.5 - np.cos(2.0 * np.pi * minute / DAY))
    requests = rng.poisson(rate * np.where(burst, 3.0, 1.0))
    faults = starts(rng, ~burst, 4)
    slower = np.where(burst, 1.5, 1.0) * np.where(during(faults, n) > 0, 2.5, 1.0)
    answer = 40.0 * slower * rng.lognormal(0.0, 0.1, n)
    return np.c_[requests, answer, rng.poisson(0.002 * requests)].astype(float), minute, faults


def noisy(rng: np.random.Generator) -> Made:
    """Two columns whose noise is four times as large at times. One of them moves by eight."""
    n = 10 * DAY
    loud = np.where(stays(rng, n, 2, 300.0, 100) > 0, 4.0, 1.0)
    rows = rng.normal(size=(n, 2)) * loud[:, None] + [50.0, 10.0]
    faults = starts(rng, loud < 2.0, 3)
    rows[:, 0] += 8.0 * (during(faults, n) > 0)
    return rows, np.arange(n), faults


def pump(rng: np.random.Generator) -> Made:
    """On and off; it shakes by its speed. A bearing shakes more with each row."""
    n = 10 * DAY
    on = stays(rng, n, 2, 150.0, 60)
    faults = starts(rng, on > 0, 4)
    flow = 30.0 * on + rng.normal(0.0, 0.6, n)
    power = 2.0 + 11.0 * on + 0.1 * slow(rng, n, 0.8)
    shakes = 0.5 + 2.0 * on + (0.1 + 0.1 * on) * rng.normal(size=n) + 0.06 * during(faults, n)
    return np.c_[flow, power, shakes], np.arange(n), faults


def inverter(rng: np.random.Generator) -> Made:
    """Sun, clouds and nights. It gives half of the power."""
    day, n = DAY // 5, 30 * DAY // 5
    sun = np.maximum(-np.cos(2.0 * np.pi * np.arange(n) / day), 0.0)
    light = 900.0 * sun * (1.0 - 0.5 * (stays(rng, n, 2, 20.0, 5) > 0) * rng.beta(2.0, 2.0, n))
    faults = starts(rng, sun > 0.5, 4, day)
    power = 4.5 * light * np.where(during(faults, n) > 0, 0.5, 1.0) + 20.0 * rng.normal(size=n)
    heat = 15.0 + lagged(0.03 * light, 6.0) + 0.5 * slow(rng, n, 0.98)
    return np.c_[light + 5.0 * rng.normal(size=n), power, heat], 5 * np.arange(n), faults


MACHINES: dict[str, Callable[[np.random.Generator], Made]] = {
    "compressor": compressor, "reactor": reactor, "web": web, "noisy": noisy, "pump": pump,
    "inverter": inverter,
}  # fmt: skip


def heard(began: IntArray, faults: IntArray, minutes: IntArray) -> tuple[int, int, float]:
    """Return how many faults were heard, how many other alarms began, and in how many days."""
    near = np.isin(began, (faults[:, None] + np.arange(LASTS + AFTER)).ravel())
    late = minutes[began] >= SETTLED * DAY
    found = [((began >= fault) & (began < fault + WITHIN)).any() for fault in faults]
    return sum(found), int((late & ~near).sum()), minutes[-1] / DAY - SETTLED


@click.command("alarms", help=__doc__)
@click.option("--seed", "seeds", multiple=True, default=[31, 32, 33], show_default=True)
@click.argument("names", nargs=-1, type=click.Choice([*MACHINES]))
def main(names: tuple[str, ...], seeds: tuple[int, ...]) -> None:
    """Count what alarms hear."""
    rows = []
    for name in names or MACHINES:
        counts: dict[str, list[tuple[int, int, float]]] = {}
        n_faults = 0
        for seed in seeds:
            X, minutes, faults = MACHINES[name](np.random.default_rng(seed))
            n_faults += len(faults)
            t = MONDAY + 60.0 * minutes
            out = SeqDDCRP().step_many(X, t)
            score, label = out["score"], out["label"]
            for rule, judged in (
                ("labels", Alarm().step_many(score, labels=label)),
                ("no labels", Alarm().step_many(score)),
                ('labels, per="day"', Alarm(per="day").step_many(score, labels=label, t=t)),
            ):
                began = np.flatnonzero(judged.began)
                counts.setdefault(rule, []).append(heard(began, faults, minutes))
        cells = []
        for found in counts.values():
            n, others, days = np.sum(found, axis=0)
            cells.append(f"{n:.0f} of {n_faults}; {others / days:.2f}")
        rows.append((name, *cells))
    click.echo(f"\n{markdown(('machine', *counts), rows)}\n\n{machine()}")


if __name__ == "__main__":
    main()
