"""
Watch a fleet of machines
=========================

Twelve pumps send pressure and current every minute. Each has its own idea of normal, so each
gets its own model. One of them begins to wear out.
"""

# %%
# The rows of all pumps in one table
# ----------------------------------

import numpy as np
import pyarrow as pa

rng = np.random.default_rng(3)
N, PUMPS = 1200, 12

columns = {"pump": [], "minute": [], "pressure": [], "current": []}
for pump in range(PUMPS):
    base = rng.normal([4.0, 12.0], [0.8, 2.0])
    loaded = (np.arange(N) // rng.integers(120, 240) + pump) % 2  # idle, load, idle, load ...
    level = base + np.outer(loaded, [1.5, 5.0])
    if pump == 7:
        level[900:, 1] += 2.0  # a bearing wears: more current, from minute 900 on
    values = level + rng.normal(0.0, [0.1, 0.4], (N, 2))
    columns["pump"] += [f"pump {pump}"] * N
    columns["minute"] += range(N)
    columns["pressure"] += values[:, 0].round(2).tolist()
    columns["current"] += values[:, 1].round(1).tolist()
table = pa.table(columns).sort_by("minute")
print(table.slice(0, 3).to_pylist())

# %%
# One model per key
# -----------------
#
# ``Keyed`` makes a model for each new key, keeps those in use within ``memory_limit``, and the
# others in a SQLite file. What it computes is the same, to the last bit, as separate models.

from streamddcrp import Keyed, SeqDDCRP

fleet = Keyed(SeqDDCRP(), by="pump", memory_limit="200MB")
minute = table["minute"].to_numpy()
out = fleet.step_many(table.drop_columns("minute"), minute)
print(out.schema.names)

# %%
# Which pumps did something new after the first hours?

news = [e for e in fleet.events() if e.kind == "birth" and e.t > 600]
for event in news:
    print(f"{event.key}: regime {event.label} began at minute {event.t:.0f}")

# %%
# The fleet at a glance: one lane a pump, coloured by regime.

import matplotlib.pyplot as plt

from streamddcrp.plots.palette import COLOURS  # distinguishable with any kind of colour vision

figure, axis = plt.subplots(figsize=(9, 4), layout="constrained")
keys = np.array(out["key"].to_pylist())
colour = np.array([COLOURS[label % len(COLOURS)] for label in out["label"].to_pylist()])
for pump in range(PUMPS):
    ours = keys == f"pump {pump}"
    axis.scatter(minute[ours], np.full(ours.sum(), pump), c=colour[ours], s=12, marker="s")
axis.set_yticks(range(PUMPS), [f"pump {pump}" for pump in range(PUMPS)])
axis.set_xlabel("minute")
figure.show()

# %%
# And the worn pump by itself:

worn = keys == "pump 7"
current = table["current"].to_numpy()
figure, axis = plt.subplots(figsize=(9, 2.5), layout="constrained")
axis.scatter(minute[worn], current[worn], c=colour[worn], s=6)
axis.set_xlabel("minute")
axis.set_ylabel("current [A]")
figure.show()

# %%
# From here: :doc:`/keyed` says what a key costs in time and memory. The same on the command
# line is ``streamddcrp run fleet.parquet --time minute --by pump --sink regimes.parquet``.
