"""Rows as people have them: rounded, correlated, skewed, shifted by little, and wide tables.

*Noise*: one regime; label changes after the warm-up, and in it. *Shifts*: a level that lasts 600
rows, found if the settled labels change within 60 rows of its beginning. *Tables*: labels on
arrival against the classes, beside river's clusterers, which get standardised columns, the true
number of clusters and the best of a small grid by the labels of the first rows. "off" is the same
model without what is chosen from the first rows, and with the window of 64 rows that it had.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import click
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet
from river import datasets
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.metrics import adjusted_rand_score

from benchmarks import peers
from benchmarks.machine import machine, markdown, spread
from benchmarks.options import SeedRange
from benchmarks.real_series import settled_labels
from benchmarks.streams import DATA
from streamddcrp import SeqDDCRP

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Rng = np.random.Generator

OFF: dict[str, Any] = {
    "window": 64, "look_back": 32, "temper": False, "warp": False,
    "likelihood": ("normal_gamma", None, 0.05, 1.5, None, 0.0),
}  # fmt: skip
WARMUP = 256
MOST_ROWS, TUNING_ROWS = 6_000, 1_000


def autoregression(rng: Rng, n: int, coefficient: float) -> FloatArray:
    x = rng.normal(size=n)
    for i in range(1, n):
        x[i] += coefficient * x[i - 1]
    return x


def rounded(step: float) -> Callable[[Rng, int], FloatArray]:
    return lambda rng, n: np.round(rng.normal(size=n) / step) * step


NOISE: dict[str, Callable[[Rng, int], FloatArray]] = {
    "Gaussian": lambda rng, n: rng.normal(size=n),
    "rounded to 1 sd": rounded(1.0),
    "rounded to .5 sd": rounded(0.5),
    "rounded to .25 sd": rounded(0.25),
    "AR(.5)": lambda rng, n: autoregression(rng, n, 0.5),
    "AR(.95)": lambda rng, n: autoregression(rng, n, 0.95),
    "lognormal": lambda rng, n: rng.lognormal(size=n),
    "gamma, shape 2": lambda rng, n: rng.gamma(2.0, size=n),
    "Student t, 4 df": lambda rng, n: rng.standard_t(4.0, size=n),
    "Student t, 3 df": lambda rng, n: rng.standard_t(3.0, size=n),
    "Student t, 2 df": lambda rng, n: rng.standard_t(2.0, size=n),
}


def table_of(x: FloatArray) -> pa.Table:
    return pa.table({"x": x})


def noise(seeds: Sequence[int]) -> str:
    """Table of label changes in noise."""
    rows = []
    for name, draw in NOISE.items():
        cells = []
        for options in (OFF, {}):
            early, late = [], []
            for seed in seeds:
                x = draw(np.random.default_rng(seed), 10_000)
                label = SeqDDCRP(**options).step_many(table_of(x))["label"].to_numpy()
                changes = np.flatnonzero(np.diff(label)) + 1
                early.append(int((changes < WARMUP).sum()))
                late.append(int((changes >= WARMUP).sum()))
            cells += [spread(early, ".0f"), spread(late, ".0f")]
        rows.append((name, *cells))
    header = (
        "noise", "off: changes in the first 256 rows", "in the 9,744 after", "now: first 256",
        "in the 9,744 after",
    )  # fmt: skip
    return markdown(header, rows)


def shifts(seeds: Sequence[int]) -> str:
    """Table of shifts found, and of how far off."""
    rows = []
    for size in (1.0, 1.5, 2.0):
        cells = []
        for options in (OFF, {}):
            errors = []
            for seed in seeds:
                x = np.random.default_rng(seed).normal(size=2_400)
                x[900:1500] += size
                label = settled_labels(SeqDDCRP(**options), table_of(x))
                changes = np.flatnonzero(np.diff(label)) + 1
                errors.append(np.min(np.abs(changes - 900), initial=10_000))
            found = [e for e in errors if e < 60]
            cells += [f"{len(found)} of {len(errors)}", spread(found, ".0f") if found else "-"]
        rows.append((f"{size:g} sd", *cells))
    header = ("shift", "off: found", "rows off", "now: found", "rows off")
    return markdown(header, rows)


def classes(name: str) -> tuple[pa.Table, FloatArray, IntArray]:
    """Columns of numbers of a table, and its classes."""
    if name in GENERATED:
        X, y = GENERATED[name](np.random.default_rng(MADE))
        return pa.table(list(X.T), [f"x{j}" for j in range(X.shape[1])]), X, y
    if name in SKLEARN:
        X, y = SKLEARN[name](return_X_y=True)
        order = np.random.default_rng(MADE).permutation(len(y))
        return pa.table(list(X[order].T), [f"x{j}" for j in range(X.shape[1])]), X[order], y[order]
    if name == "phishing":
        rows, found = zip(*datasets.Phishing(), strict=True)
        X = np.array([[float(x) for x in row.values()] for row in rows])
        return pa.table(list(X.T), list(rows[0])), X, np.array(found, dtype=np.int64)
    path = next(iter(sorted((DATA / name).glob("*.parquet"))))
    table = parquet.read_table(path)
    label = next((c for c in table.column_names if c in {"label", "class"}), table.column_names[-1])
    y = np.unique(np.array(table[label].to_pylist(), dtype=str), return_inverse=True)[1]
    columns = [
        c
        for c in table.column_names
        if c not in {label, *COUNTERS} and not pa.types.is_string(table[c].type)
    ]
    table = table.select(columns).slice(0, MOST_ROWS)
    X = np.column_stack([table[c].cast(pa.float64()).to_numpy() for c in columns])
    return table, X, y[:MOST_ROWS]


def stretched(rng: Rng) -> tuple[FloatArray, IntArray]:
    """Five clusters in six columns, all stretched alike."""
    y = rng.integers(5, size=2_000)
    X = rng.uniform(-10.0, 10.0, (5, 6))[y] + rng.normal(size=(2_000, 6))
    return X @ rng.normal(size=(6, 6)), y


def each_its_own(rng: Rng) -> tuple[FloatArray, IntArray]:
    """Six clusters in ten columns, each with a covariance of its own, of condition ten."""
    y, X = rng.integers(6, size=2_000), np.empty((2_000, 10))
    for k, mean in enumerate(2.7 * rng.normal(size=(6, 10))):
        axes = np.linalg.qr(rng.normal(size=(10, 10)))[0]
        sd = 10.0 ** rng.uniform(-0.25, 0.25, 10)
        X[y == k] = mean + (sd * rng.normal(size=((y == k).sum(), 10))) @ axes
    return X, y


def factors(rng: Rng) -> tuple[FloatArray, IntArray]:
    """Five clusters in 24 columns, which four factors move in all of them."""
    y = rng.integers(5, size=2_000)
    moved = rng.normal(size=(2_000, 4)) @ rng.normal(size=(4, 24))
    return rng.normal(size=(5, 24))[y] + moved + 0.7 * rng.normal(size=(2_000, 24)), y


MADE = 7  # seed of what is drawn or shuffled
GENERATED = {"stretched": stretched, "each its own": each_its_own, "factors": factors}
SKLEARN = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}
COUNTERS = ("t", "time", "seq", "row", "source_row")  # of rows: no columns of theirs
TABLES = (
    "image_segments", "phishing", "optdigits", "kdd99", "covtype20k", "keystroke", "outdoor",
    *SKLEARN, *GENERATED,
)  # fmt: skip


def tables() -> str:
    """Table of clusterings of labelled tables."""
    rows = []
    for name in TABLES:
        table, X, y = classes(name)
        n_classes = len(np.unique(y))
        cells = [f"{X.shape[0]:,} x {X.shape[1]}", str(n_classes)]
        for options in (OFF, {}):
            start = time.process_time()
            label = SeqDDCRP(**options).step_many(table)["label"].to_numpy()
            micros = 1e6 * (time.process_time() - start) / len(y)
            cells += [str(len(np.unique(label))), f"{adjusted_rand_score(y, label):.3f}"]
        cells.append(f"{micros:.0f}")
        sd = np.std(X, axis=0)
        Z = (X - X.mean(axis=0)) / np.where(sd > 0.0, sd, 1.0)
        for peer in peers.PEERS:
            settings = peers.tune(peer, Z[:TUNING_ROWS], y[:TUNING_ROWS], n_classes)
            label = peers.prequential(peers.make(peer, settings), peers.rows_of(Z))
            cells.append(f"{adjusted_rand_score(y, label):.3f}")
        rows.append((name, *cells))
    header = (
        "table", "rows x columns", "classes", "ids, off", "ARI, off", "ids, now", "ARI, now",
        "CPU µs a row", *(f"ARI, {peer}" for peer in peers.PEERS),
    )  # fmt: skip
    return markdown(header, rows)


@click.command("real", help="Rounded, correlated and skewed rows, small shifts, wide tables.")
@click.option("--seeds", type=SeedRange(), default="700-709", show_default=True)
@click.argument("parts", nargs=-1, type=click.Choice(["noise", "shifts", "tables"]))
def main(parts: Sequence[str], seeds: tuple[int, ...]) -> None:
    SeqDDCRP().step_many(np.zeros((10, 1)))  # compiles
    for part in parts or ("noise", "shifts", "tables"):
        if part == "tables":
            if not DATA.is_dir():
                click.echo(f"The tables are not stored here ({DATA}): skipped.")
                continue
            click.echo(f"\n### tables\n\n{tables()}")
        else:
            click.echo(f"\n### {part}\n\n{(noise if part == 'noise' else shifts)(seeds)}")
    click.echo(f"\n{machine()}")


if __name__ == "__main__":
    main()
