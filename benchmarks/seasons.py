"""Seasons: are they found where they are, and nowhere else, and what do they cost a clusterer?

Series of 3,000 rows (more where a long period needs them), seven kinds of cycles: sines, mixtures
of three harmonics, squares, saw teeth, spikes; periods of 7 to 150 rows, whole or not, two fifths
with a "week" of seven "days" two of which are quieter; amplitudes of .7 to 5 deviations of the
noise, steady, on a ramp or changed at half time; noise white, autoregressive (.5, .8) or of
Student's t; and up to three lasting shifts of the level by 4 to 24 deviations. Series without a
season: noise of several kinds, random walks, trends, shifts, regimes that return, and a stochastic
cycle (an AR(2) process), which is the hardest case: a period without a phase.

Constants were chosen on the even series; the tables are of the odd ones unless said otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from sklearn.metrics import adjusted_rand_score

from benchmarks.machine import machine, markdown
from streamddcrp import Seasonal, SeqDDCRP, label_changes

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

N_ROWS = 3000
SHAPES = ("sine", "three", "square", "saw", "spike")
WITHOUT = (
    "white", "ar(.5)", "ar(.95)", "random walk", "shifts", "regimes", "trend", "student", "counts",
    "stochastic cycle",
)  # fmt: skip
GAPS = (300.0, 3600.0, 86400.0)  # seconds
MARGIN = 48  # rows by which a change may be misplaced


class Series(NamedTuple):
    """A series and what it was made of; periods in rows, deviations of the noise are 1."""

    y: FloatArray
    season: FloatArray
    periods: list[float]
    regime: IntArray
    shifts: list[int]


def autoregression(rng: np.random.Generator, n: int, phi: float) -> FloatArray:
    """Stationary noise of variance 1."""
    steps = rng.normal(0.0, np.sqrt(1.0 - phi * phi), n + 500)
    return np.asarray(lfilter([1.0], [1.0, -phi], steps)[500:])


def without(kind: str, seed: int, n: int = N_ROWS) -> FloatArray:
    """Return a series without a season."""
    rng = np.random.default_rng([seed, 7])
    noise = rng.normal(size=n)
    if kind.startswith("ar("):
        return autoregression(rng, n, float(kind[3:-1]))
    if kind == "random walk":
        return np.cumsum(noise)
    if kind == "shifts":
        at = rng.integers(50, n, 12)
        return noise + (np.arange(n) >= at[:, None]).T @ rng.normal(0.0, 4.0, 12)
    if kind == "regimes":
        lengths = rng.geometric(1.0 / rng.choice([10, 40, 150], n))
        return noise + np.repeat(rng.normal(0.0, 4.0, 5)[rng.integers(5, size=n)], lengths)[:n]
    if kind == "trend":
        return noise + 0.01 * np.arange(n) * rng.choice([-1, 1])
    if kind == "student":
        return rng.standard_t(2.5, n)
    if kind == "counts":
        return rng.poisson(3.0, n).astype(np.float64)
    if kind == "stochastic cycle":
        angle = 2.0 * np.pi / rng.uniform(20.0, 60.0)
        steps = rng.normal(size=n + 500)
        return np.asarray(lfilter([1.0], [1.0, -1.9 * np.cos(angle), 0.9025], steps)[500:])
    return noise


def cycle(kind: str, turns: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return a cycle of mean 0 and deviation 1 over a period."""
    phase, weights = rng.uniform(), rng.normal(size=3) / [1.0, 1.5, 2.0]
    phases, part = rng.uniform(size=3), rng.uniform(0.2, 0.5)

    def curve(x: FloatArray) -> FloatArray:
        here = (x + phase) % 1.0
        if kind == "sine":
            return np.sin(2.0 * np.pi * here)
        if kind == "three":
            angles = 2.0 * np.pi * (np.outer(x, [1, 2, 3]) + phases)
            return np.asarray(np.sin(angles) @ weights)
        if kind == "square":
            return (here < part).astype(np.float64)
        return here if kind == "saw" else np.exp(-0.5 * ((here - 0.5) / 0.06) ** 2)

    usual = curve(np.arange(2000) / 2000.0)
    return (curve(turns) - usual.mean()) / usual.std()


def seasonal(seed: int) -> Series:
    """Return a series with a season."""
    rng = np.random.default_rng([seed, 11])
    day = float(rng.choice([12, 24, 48, 7, 96, rng.uniform(10.0, 150.0)]))
    periods = [day, 7.0 * day] if rng.random() < 0.4 and day <= 48 else [day]
    n = max(N_ROWS, int(8 * periods[-1]))
    amplitude, t = float(np.exp(rng.uniform(np.log(0.7), np.log(5.0)))), np.arange(float(n))
    season = amplitude * cycle(str(rng.choice(SHAPES)), t / day, rng)
    if len(periods) == 2:
        quiet = (t // day) % 7 >= 5
        season = season * np.where(quiet, rng.uniform(0.4, 1.0), 1.0)
        season -= quiet * amplitude * rng.uniform(0.3, 1.2)
    change = rng.choice(["none", "ramp", "half"])
    if change == "ramp":
        season = season * np.linspace(1.0, rng.choice([0.4, 2.0]), n)
    elif change == "half":
        season = season * np.where(t < n / 2, 1.0, rng.choice([0.5, 1.7]))
    noise = {
        "white": lambda: rng.normal(size=n),
        "ar.5": lambda: autoregression(rng, n, 0.5),
        "ar.8": lambda: autoregression(rng, n, 0.8),
        "t": lambda: rng.standard_t(4, n) / np.sqrt(2.0),
    }[str(rng.choice(["white", "ar.5", "ar.8", "t"]))]()
    regime, shifts = np.zeros(n, dtype=np.int64), []
    for at in np.sort(rng.choice(np.arange(600, n - 200, 150), int(rng.integers(0, 4)), False)):
        regime[at:] = rng.choice([v for v in range(-12, 13, 4) if v != regime[-1]])
        shifts.append(int(at))
    return Series(season + noise + regime, season, periods, regime, shifts)


def rms(x: FloatArray) -> float:
    return float(np.sqrt(np.mean(np.square(x))))


def subtracted(period: Any, y: FloatArray, gap: float = 0.0) -> tuple[FloatArray, Seasonal]:
    """Return the season subtracted from a series, whose rows have times if a gap is given."""
    seasons = Seasonal(period)
    times = gap * np.arange(len(y)) if gap else None
    left = seasons.step_many(y[:, None], times)["0"].to_numpy(zero_copy_only=False)
    return y - left, seasons


def where_none_is(seeds: Sequence[int]) -> str:
    """Return a table: rms of what is subtracted over the deviation of a series, by period."""
    rows = []
    for kind in WITHOUT:
        cells = [kind]
        data = [without(kind, seed) for seed in seeds]
        for period in (24.0, (24.0, 168.0), 50.0, 200.0, "auto"):
            gone = [subtracted(period, y)[0] for y in data]
            share = [np.sqrt(np.mean(x * x)) / np.std(y) for x, y in zip(gone, data, strict=True)]
            cells.append(f"{np.mean(share):.2f}")
        cells[-1] += f" ({sum(s > 0 for s in share)})"
        for gap in GAPS:
            found = [bool(subtracted("calendar", y, gap)[1].periods) for y in data]
            cells.append(str(sum(found)))
        rows.append(cells)
    header = [
        "rms over deviation", "24", "24, 168", "50", "200", "auto (series)",
        *(f"calendar, every {gap:g} s: series" for gap in GAPS),
    ]  # fmt: skip
    return markdown(header, rows)


def where_some_is(seeds: Sequence[int]) -> str:
    """Return a table: what is left of seasons over the last third, and the periods found."""
    rows = []
    for name in ("periods given", "auto"):
        errors, right, seconds = [], 0, []
        for seed in seeds:
            series = seasonal(seed)
            began = time.perf_counter()
            season, model = subtracted(series.periods if name != "auto" else "auto", series.y)
            seconds.append(time.perf_counter() - began)
            last = 2 * len(season) // 3
            errors.append(rms(season[last:] - (series.season - series.season.mean())[last:]))
            near = [min(abs(p / q - 1) for q in series.periods) < 0.02 for p in model.periods]
            right += bool(near) and all(near)
        quantiles = [f"{q:.2f}" for q in (np.mean(errors), *np.quantile(errors, [0.5, 0.9]))]
        share = f"{right} of {len(errors)}"
        rows.append([name, *quantiles, share, f"{np.median(seconds):.2f}"])
    usual = np.mean([rms((s := seasonal(seed).season) - s.mean()) for seed in seeds])
    rows.append(["nothing subtracted", f"{usual:.2f}", "", "", "", ""])
    return markdown(
        ["rms error of the season", "mean", "median", "90 %", "periods right", "s a series"], rows
    )


def clustered(seeds: Sequence[int]) -> str:
    """Return a table of `SeqDDCRP` on series with shifts."""
    ways: dict[str, Callable[[Series], tuple[Any, FloatArray]]] = {
        "no season": lambda s: (None, s.y),
        "periods given": lambda s: (s.periods, s.y),
        "auto": lambda s: ("auto", s.y),
        "true season subtracted": lambda s: (None, s.y - s.season),
    }
    rows = []
    for name, way in ways.items():
        scores, hits, n_found, n_true, false = [], 0, 0, 0, 0
        for series in map(seasonal, seeds):
            option, y = way(series)
            labels, model = np.zeros(len(y), np.int64), SeqDDCRP(season=option)
            for a in range(0, len(y), model.sweep_every):
                model.learn_many(y[a : a + model.sweep_every, None])
                recent = model.recent_labels()
                labels[model.n_seen - len(recent) : model.n_seen] = recent
            hold = max(10, round(series.periods[0]))
            found = label_changes(labels, hold=hold).tolist()
            if not series.shifts:
                false += len(found)
                continue
            scores.append(adjusted_rand_score(labels, series.regime))
            margin = max(MARGIN, hold)
            hits += sum(any(abs(f - s) <= margin for f in found) for s in series.shifts)
            n_found, n_true = n_found + len(found), n_true + len(series.shifts)
        f1 = 2.0 * hits / (n_found + n_true)
        rows.append([name, f"{np.mean(scores):.3f}", f"{f1:.3f}", f"{hits} of {n_true}",
                     str(n_found), str(false)])  # fmt: skip
    return markdown(
        ["SeqDDCRP, settled labels", "ARI", "F1", "shifts found", "changes", "where no shift is"],
        rows,
    )


@click.command("seasons")
@click.option("--even", is_flag=True, help="The series on which constants were chosen.")
@click.option("--series", "n_series", default=60, show_default=True, help="Of each kind, halved.")
def main(even: bool, n_series: int) -> None:
    """Seasons: found where they are and nowhere else, and what they do for a clusterer."""
    seeds = range(0 if even else 1, n_series, 2)
    click.echo(machine())
    for table in (where_none_is, where_some_is, clustered):
        click.echo("\n" + table(seeds), nl=True)


if __name__ == "__main__":
    main()
