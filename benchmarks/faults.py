"""Twenty kinds of fault of a process of 40 correlated columns: how soon are they seen, and named?

28 variables follow each other with lags and inertia, and the feed, which wanders; six of them are
held at their set points by controllers, whose valves are columns; six more sensors measure mixtures
of variables. After 2,000 rows without a fault one of `KINDS` begins. All methods learn from the
first 1,000 rows; rows to 1,500 set thresholds, and rows to 2,000 count false alarms. A controller
that swings may diverge, as in seed 1, to 1e70 times what is usual.

PCA: T² and SPE of as many components as hold 0.9 of the variance, each by its 0.995 quantile.
A detector with a reference of the first rows: its score by the 0.99 quantile, and its alarms.
A fault causes an alarm that does not occur without it, for the same draws.
Other plants are in `benchmarks.fault_plants`.
"""

from __future__ import annotations

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks.fault_plants import PLANTS
from benchmarks.machine import machine, markdown
from benchmarks.reasons import links
from streamddcrp import RegimeAnomalyDetector

FloatArray = NDArray[np.float64]
KINDS = (
    "input steps by 4", "input steps by 8", "held input steps by 6", "input drifts",
    "input is noisy", "input swings", "sensor is off by 3", "sensor drifts", "sensor is frozen",
    "sensor is noisy", "sensor shows half", "valve is stuck", "valve sticks", "valve is off by 4",
    "controller is off", "controller swings", "link is broken", "link is stronger",
    "feed shifts by 3", "variable is slow",
)  # fmt: skip
VARIABLES, LOOPS, MIXED = 28, 6, 6
LEARNED, SET, USUAL, FAULTY = 1000, 1500, 2000, 300


def process(seed: int, kind: int) -> tuple[FloatArray, int]:
    """Return rows (USUAL + FAULTY, 40), and the variable whose input steps, or -1."""
    rng = np.random.default_rng([seed, 47])
    n, at = 200 + USUAL + FAULTY, 200 + USUAL
    push, inertia = rng.normal(size=(n, VARIABLES)), rng.uniform(0.0, 0.8, VARIABLES)
    follows = links(rng, VARIABLES)
    held = rng.choice(VARIABLES, LOOPS, replace=False)
    gain, reset = rng.uniform(0.3, 0.8, LOOPS), rng.uniform(0.02, 0.2, LOOPS)
    fed = rng.normal(size=VARIABLES) * (rng.random(VARIABLES) < 0.4)
    mixed = rng.normal(size=(MIXED, VARIABLES)) * (rng.random((MIXED, VARIABLES)) < 0.15)
    shared, loop, link = int(rng.integers(VARIABLES)), int(rng.integers(LOOPS)), -1
    sign, since = rng.choice([-1.0, 1.0]), np.maximum(np.arange(n) - at + 1, 0)
    one = int(held[loop]) if kind == 2 else shared
    X, total, feed, was = np.zeros((n, VARIABLES + LOOPS)), np.zeros(LOOPS), 0.0, inertia.copy()
    noise = 0.2 * rng.normal(size=(n, VARIABLES + LOOPS + MIXED))
    if kind in {16, 17}:
        link = int(rng.integers(len(follows)))
    if kind == 4:
        push[at:, one] *= 4.0
    elif kind in {0, 1, 2}:
        push[at:, one] += sign * (4.0, 8.0, 6.0)[kind]
    elif kind == 3:
        push[:, one] += sign * 0.05 * since
    elif kind == 5:
        push[:, one] += 4.0 * np.sin(2.0 * np.pi * since / 30.0)
    for t in range(1, n):
        bad = t >= at
        feed = 0.98 * feed + 0.2 * rng.normal()
        now = push[t] + fed * (feed + (3.0 * sign if bad and kind == 18 else 0.0))
        for k, (i, j, lag, size) in enumerate(follows):
            times = (0.0 if kind == 16 else 2.5) if bad and k == link else 1.0
            now[i] += times * size * X[t - lag, j] if t >= lag else 0.0
        now[held] += X[t - 1, VARIABLES:]
        if bad and kind == 13:
            now[held[loop]] += 4.0 * sign
        if bad and kind == 19:
            was[one] = 0.97
        X[t, :VARIABLES] = was * X[t - 1, :VARIABLES] + (1.0 - was) * now
        off = X[t, held] + noise[t, held]
        total += reset * off
        X[t, VARIABLES:] = -gain * off - total
        if bad and kind in {11, 14}:
            X[t, VARIABLES + loop] = X[t - 1, VARIABLES + loop] if kind == 11 else 0.0
        if bad and kind == 12 and abs(X[t, VARIABLES + loop] - X[t - 1, VARIABLES + loop]) < 1.0:
            X[t, VARIABLES + loop] = X[t - 1, VARIABLES + loop]
        if bad and kind == 15:
            X[t, VARIABLES + loop] -= 2.0 * gain[loop] * off[loop]
    out = np.hstack([X, X[:, :VARIABLES] @ mixed.T]) + noise
    usual = out[200:at, one].std()
    if kind in {6, 7}:
        out[:, one] += sign * usual * (3.0 * (since > 0) if kind == 6 else 0.03 * since)
    elif kind == 8:
        out[at:, one] = out[at, one]
    elif kind == 9:
        out[at:, one] += 2.0 * usual * rng.normal(size=FAULTY)
    elif kind == 10:
        out[at:, one] = out[200:at, one].mean() + 0.5 * (out[at:, one] - out[200:at, one].mean())
    return out[200:] * 10.0 ** rng.uniform(-2.0, 3.0, out.shape[1]), one if kind < 3 else -1


def rows_of(plant: str, seed: int, kind: int) -> tuple[FloatArray, int]:
    """Return rows of a plant with a fault (-1: without), and the column that steps, or -1."""
    if plant == "process":
        return process(seed, kind)
    return PLANTS[plant][0](seed, kind, USUAL + FAULTY, USUAL)


def means(scores: FloatArray, rows: int) -> FloatArray:
    """Return the mean of each score and of up to ``rows - 1`` before it."""
    sums, at = np.append(0.0, np.cumsum(scores)), np.arange(len(scores))
    first = np.maximum(at - rows + 1, 0)
    return (sums[at + 1] - sums[first]) / (at + 1 - first)


def by_pca(X: FloatArray, rows: int) -> FloatArray:
    """Return which rows T² or SPE call faulty, by the mean of either over ``rows`` rows."""
    usual = X[:LEARNED]
    Z = (X - usual.mean(axis=0)) / usual.std(axis=0)
    variance, axes = np.linalg.eigh(np.cov(Z[:LEARNED].T))
    variance, axes = variance[::-1], axes[:, ::-1]
    n = int(np.searchsorted(np.cumsum(variance) / variance.sum(), 0.9)) + 1
    scores = Z @ axes[:, :n]
    measures = (scores**2 / variance[:n]).sum(axis=1), ((Z - scores @ axes[:, :n].T) ** 2).sum(1)
    judged = [means(one, rows) for one in measures]
    return np.any([one > np.quantile(one[LEARNED:SET], 0.995) for one in judged], axis=0)


def judged(
    X: FloatArray, column: int = -1, usual: FloatArray | None = None
) -> tuple[dict[str, FloatArray], int | None]:
    """Return which rows each method calls faulty, and the place of ``column`` in the first alarm.

    That is 3 if it is not among the first three, and None without an alarm after the fault that is
    not one in ``usual`` (N,), the alarms without the fault.
    """
    found = {f"PCA, means of {rows}": by_pca(X, rows) for rows in (1, 20)}
    out = RegimeAnomalyDetector(reference_after=LEARNED).step_many(X)
    score = np.asarray(out["score"])
    found["score to a reference"] = score > np.quantile(score[LEARNED:SET], 0.99)
    found["alarms, reference"] = np.asarray(out["alarm"])
    told = enumerate(out["why"].to_pylist()[USUAL:], USUAL)
    why = [text for i, text in told if text and not (usual is not None and usual[i])]
    said = list(dict.fromkeys(part.split(" ")[0] for part in why[0].split("; "))) if why else []
    place = said.index(str(column)) if str(column) in said[:3] else 3
    return found, place if why else None


@click.command("faults", help=__doc__)
@click.option("--plant", type=click.Choice(["process", *PLANTS]), default="process")
@click.option("--seeds", default=1, show_default=True, help="Of each kind.")
@click.option("--first", default=0, show_default=True)
def main(plant: str, seeds: int, first: int) -> None:
    """Compare methods on faults of all kinds."""
    click.echo(machine())
    found: dict[str, list[FloatArray]] = {}
    kinds = KINDS if plant == "process" else PLANTS[plant][1]
    places, steps = [], 0
    for seed in range(first, first + seeds):
        usual = judged(rows_of(plant, seed, -1)[0])[0]["alarms, reference"]
        for kind in range(len(kinds)):
            X, column = rows_of(plant, seed, kind)
            told, place = judged(X, column, usual)
            for name, rows in told.items():
                found.setdefault(name, []).append(rows)
            steps += column >= 0
            places += [place] if column >= 0 and place is not None else []
    table, of_kinds = [], []
    for name, told_rows in found.items():
        alarm = np.array(told_rows)
        false, right = alarm[:, SET:USUAL], alarm[:, USUAL:]
        heard = [f"{right[:, :n].any(axis=1).mean():.2f}" for n in (20, 100)]
        table.append([name, f"{false.mean():.4f}", f"{right.mean():.3f}", *heard])
        of_kinds.append([f"{right[i :: len(kinds)].mean():.2f}" for i in range(len(kinds))])
    click.echo(markdown(["method", "false rows", "faulty rows", "within 20", "within 100"], table))
    shares = [[kind, *of] for kind, *of in zip(kinds, *of_kinds, strict=True)]
    click.echo(markdown(["faulty rows", *found], shares))
    named = sum(place < 3 for place in places)
    click.echo(f"steps in a column: {steps}, alarms {len(places)}, named among three {named}")
