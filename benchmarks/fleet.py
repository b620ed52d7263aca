"""Does a run tell of the machines of a fleet that break, and of no others?

Each machine sends a row of three columns every ten seconds, at its own levels, and changes at its
own times between its ``--ways`` of working. At one second some break together (one column moves by
eight deviations of its noise, for good), others break alone, and others drift (half a deviation
more with each row). ``--noise`` gives columns that depend on the rows before, have heavy tails or a
cycle, or have something in common. One alarm an hour of the whole fleet may be false (``--alarm-per
hour``), and alarms within half a minute are one message (``--alarm-group 30s``).

Found: alarms that begin within 20 rows of a machine's break or of the start of its drift. False:
alarms of machines that are well, or have not broken yet, by the hour after the first 200 rows of
each machine. ``--seed`` draws another fleet.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.machine import machine, markdown
from streamddcrp_connectors.run.alarming import AlarmRule
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.config import find_recipe
from streamddcrp_connectors.run.loop import Epoch, run
from streamddcrp_connectors.run.sinks import open_sink
from streamddcrp_connectors.run.sources import open_source

FEATURES = ("flow", "pressure", "heat")
EVERY = 10.0  # seconds between rows of a machine
SETTLED = 200  # rows of a machine, from which false alarms are counted
WITHIN = 20  # rows of a machine
STAY = 40  # rows between two changes of how a machine works, on average
HOW = ("together", "alone", "drift")
NOISE = ("independent", "autocorrelated", "heavy", "cycle", "common")
CYCLE = 200  # rows


class Fleet(NamedTuple):
    """Rows of machines in the order of time, and the row of each machine at which it breaks."""

    table: pa.Table
    breaks: np.ndarray  # of each machine; n_rows: never
    how: np.ndarray  # place in HOW; -1: never


def noise(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    """Draw the noise of machines, rows and columns."""
    z = rng.standard_t(3.0, shape) if kind == "heavy" else rng.standard_normal(shape)
    if kind == "autocorrelated":
        for row in range(1, shape[1]):
            z[:, row] = 0.9 * z[:, row - 1] + np.sqrt(1.0 - 0.9**2) * z[:, row]
    elif kind == "cycle":
        phase = rng.uniform(0.0, 2.0 * np.pi, (shape[0], 1, 1))
        z = 0.5 * z + 2.0 * np.sin(2.0 * np.pi * np.arange(shape[1])[:, None] / CYCLE + phase)
    elif kind == "common":
        z = 0.6 * z + 0.8 * rng.standard_normal((*shape[:2], 1))
    return z


def fleet(
    seed: int, n_machines: int, n_rows: int, share: tuple[int, int, int], ways: int,
    kind: str = "independent",
) -> Fleet:  # fmt: skip
    """Draw a fleet, of which ``share`` machines break together, break alone, and drift."""
    rng = np.random.default_rng(seed)
    how = np.full(n_machines, -1)
    who = rng.permutation(n_machines)[: sum(share)]
    how[who] = np.repeat(np.arange(3), share)
    breaks = np.full(n_machines, n_rows)
    breaks[how == 0] = 2 * n_rows // 3
    breaks[how > 0] = rng.integers(n_rows // 2, n_rows - 2 * WITHIN, (how > 0).sum())
    levels = rng.normal(50.0, 20.0, (n_machines, ways, 3))
    deviation = rng.uniform(0.5, 2.0, (n_machines, 1, 3))
    other = (rng.random((n_machines, n_rows)) < 1.0 / STAY).cumsum(axis=1) % ways
    x = levels[np.arange(n_machines)[:, None], other]
    x += deviation * noise(rng, kind, x.shape)
    after = np.maximum(np.arange(n_rows) - breaks[:, None] + 1, 0)
    move = np.where(how[:, None] == 2, 0.5 * after, 8.0 * (after > 0))
    column, sign = rng.integers(0, 3, n_machines), rng.choice([-1, 1], n_machines)
    each = np.arange(n_machines)
    x[each, :, column] += (sign * deviation[each, 0, column])[:, None] * move
    t = EVERY * np.arange(n_rows) + rng.uniform(0.0, EVERY, (n_machines, 1))
    t[how == 0] = EVERY * np.arange(n_rows) + rng.uniform(0.0, 1.0, ((how == 0).sum(), 1))
    order = np.argsort(t, axis=None, kind="stable")
    stamps = np.datetime64("2026-03-02") + (1e6 * t.ravel()[order]).astype("timedelta64[us]")
    key = np.repeat(each, n_rows)[order]
    cells: dict[str, Any] = {"at": stamps, "machine": pa.array(key).cast(pa.string())}
    cells |= {name: x[:, :, d].ravel()[order] for d, name in enumerate(FEATURES)}
    return Fleet(pa.table(cells), breaks, how)


class Listener:
    """Looks on: at which row of its machine each alarm began, and how messages are grouped."""

    def __init__(self, n_machines: int) -> None:
        self.seen = np.zeros(n_machines, np.int64)
        self.began: list[tuple[int, int]] = []
        self.groups: list[int] = []

    def epoch(self, epoch: Epoch) -> None:
        """Note the alarms of a batch."""
        if epoch.judged is None:
            return
        keys = epoch.results.column("key").to_pylist()
        for key, begins in zip(map(int, keys), epoch.judged.began.tolist(), strict=True):
            if begins:
                self.began.append((key, int(self.seen[key])))
            self.seen[key] += 1
        if epoch.alarms is not None:
            told = epoch.alarms.select(["status", "n"]).to_pylist()
            self.groups += [message["n"] for message in told if message["status"] == "firing"]


def measure(
    seed: int, n_machines: int, n_rows: int, share: tuple[int, int, int], ways: int, kind: str,
    per: str,
) -> list[str]:  # fmt: skip
    """Run over a fleet, and return a line of the table."""
    made = fleet(seed, n_machines, n_rows, share, ways, kind)
    listener = Listener(n_machines)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "fleet.parquet")
        pq.write_table(made.table, path)
        source = open_source(path, Columns("at", "machine", FEATURES), batch_rows=20_000)
        out, alarms = (open_sink(Path(folder, name), None, None) for name in ("o.jsonl", "a.jsonl"))  # type: ignore[arg-type]
        begun = time.process_time()
        run(
            source, find_recipe(None), out, alarms=alarms, watchers=[listener],
            alarm_rule=AlarmRule(per=per, group="30s", by="machine"), memory_limit="4GB",
        )  # fmt: skip
        seconds = time.process_time() - begun
        source.close()
    after = np.array([row - made.breaks[key] for key, row in listener.began])
    keys = np.array([key for key, _ in listener.began], int)
    found = {
        key for key, rows in zip(keys.tolist(), after.tolist(), strict=True) if 0 <= rows < WITHIN
    }
    false = sum(row >= SETTLED and row < made.breaks[key] for key, row in listener.began)
    well = np.minimum(made.breaks, n_rows) - SETTLED
    hours = float(well.sum() * EVERY / 3600.0 / n_machines)
    counts = [f"{sum(made.how[key] == i for key in found)} of {share[i]}" for i in range(3)]
    largest = max(listener.groups) if listener.groups else 0
    return [
        str(seed), *counts, f"{false / hours:.2f}", f"{largest}",
        f"{n_machines * n_rows / seconds:,.0f}",
    ]  # fmt: skip


@click.command("fleet", help=__doc__)
@click.option("--seed", "seeds", multiple=True, default=[1, 2], show_default=True)
@click.option("--machines", default=1000, show_default=True)
@click.option("--rows", default=900, show_default=True, help="Of each machine.")
@click.option("--share", type=(int, int, int), default=(50, 20, 30), show_default=True)
@click.option("--ways", default=1, show_default=True, help="In which each machine works.")
@click.option("--noise", "kind", type=click.Choice(NOISE), default=NOISE[0], show_default=True)
@click.option("--per", default="hour", show_default=True, help="As --alarm-per.")
def main(
    seeds: tuple[int, ...], machines: int, rows: int, share: tuple[int, int, int], ways: int,
    kind: str, per: str,
) -> None:  # fmt: skip
    """Count what a run tells of a fleet."""
    click.echo(machine())
    header = ("seed", *HOW, "false an hour", "largest message", "rows a CPU second")
    lines = [measure(seed, machines, rows, share, ways, kind, per) for seed in seeds]
    click.echo(markdown(header, lines))
