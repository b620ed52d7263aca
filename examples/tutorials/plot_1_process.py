"""
Monitor a process
=================

Hourly water flow in a pipeline, from river's datasets. We want to know which states the process
has, when it changed, whether a state has been there before, and to be called when something is
odd. Nothing is labelled, and the number of states is not given.
"""

# %%
# The rows
# --------
#
# Any stream of dicts does, and so does any table: a pyarrow table, a polars or pandas frame, a
# NumPy array. Values are taken as they come. Do not scale them: the model does it by the first
# rows.

import numpy as np
import pyarrow as pa
from river import datasets

rows = [(x["Time"], y) for x, y in datasets.WaterFlow()]
times = [time for time, _ in rows]
flow = pa.table({"flow": [value for _, value in rows]})

# %%
# Learn it in one pass
# --------------------
#
# ``step_many`` predicts each row and only then learns it, as if rows came one by one. Cut the
# stream into batches as you like: the results are the same to the last bit.

from streamddcrp import SeqDDCRP

model = SeqDDCRP()
out = model.step_many(flow, times)
print(out.schema.names)

# %%
# ``state`` is the regime that the process is in. Its number stays when the regime comes back.
# Here are the events of the regimes that are left, with the reason of each: what changed, from
# what to what. Regimes of the first rows that were merged later are left out.

left = model.summary()["id"].to_pylist()
for event in sorted(model.events(), key=lambda event: event.index):
    if event.label in left:
        when = times[event.index].strftime("%d %B %H:%M")
        print(when, event.kind, "of regime", event.label, "-", event.why or "the first rows")

# %%
# Look at it
# ----------

import matplotlib.pyplot as plt

value = flow["flow"].to_numpy()
state = out["state"].to_numpy()
score = out["score"].to_numpy(zero_copy_only=False)

figure, (above, below) = plt.subplots(2, sharex=True, figsize=(9, 5), layout="constrained")
for regime in np.unique(state):
    ours = np.where(state == regime, value, np.nan)
    above.plot(ours, ".", markersize=4, label=f"regime {regime}")
above.set_ylabel("flow [l/s]")
above.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), frameon=False, ncols=5)
below.plot(score, color="0.3", linewidth=0.8)
below.set_ylabel("surprise [nats]")
below.set_xlabel("hour")
figure.show()

# %%
# Within the first 256 rows the model still chooses its prior, and regimes come and go. After that
# interruptions are one regime, which returns under its own number. Surprise is high when one
# begins for the first time, and lower when the same state comes back.
# ``model.plot()`` draws the last thousand rows in more detail, without a line of your own.
#
# What each regime is like:

for regime in model.summary().to_pylist():
    print("regime", regime["id"], f"{regime['mean_flow']:.1f} +- {regime['sd_flow']:.1f} l/s")

# %%
# Be called when something is odd
# -------------------------------
#
# An alarm needs a threshold. ``RegimeAnomalyDetector`` learns one from the scores, for a rate
# of false alarms that you choose, and judges against a frozen copy of the normal regimes. So an
# anomaly that lasts does not become normal by lasting.

from streamddcrp import RegimeAnomalyDetector

detector = RegimeAnomalyDetector(rate=0.005, average=1)
alarms = detector.step_many(flow, times)
alarm = alarms["alarm"].to_numpy(zero_copy_only=False).astype(int)
for row in np.flatnonzero(np.diff(alarm) == 1) + 1:
    print(times[row].strftime("%d %B %H:%M"), f"flow {value[row]:.1f}")

# %%
# Keep it
# -------
#
# A saved model goes on exactly where it stopped.

import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    model.save(Path(folder) / "flow.model")
    again = SeqDDCRP.load(Path(folder) / "flow.model")
print(again.predict_one({"flow": 101.0}), again.predict_one({"flow": 24.0}))

# %%
# From here: :doc:`/reading-the-outputs` explains each column, :doc:`/tuning` what to do when
# labels flicker or a daily cycle becomes regimes, :doc:`/seasons` how to subtract one. The same
# on the command line is ``streamddcrp run flow.csv --time at``.
