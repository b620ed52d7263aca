"""Symptoms and their remedies on real series: the pictures of docs/tuning.md.

Run: python examples/when_it_goes_wrong.py

The one of a periodic signal needs shared/data/tssb beside the checkout.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from river import datasets, preprocessing

from streamddcrp import SeqDDCRP, WindowFeatures
from streamddcrp.plots.figures import styled
from streamddcrp.plots.palette import COLOURS

TSSB = Path(__file__).resolve().parents[2] / "shared" / "data" / "tssb" / "tssb.parquet"


def draw(path, y, panels, unit) -> None:
    """One panel for each way: the values, coloured by regime."""
    with styled():
        figure, axes = plt.subplots(len(panels), sharex=True, figsize=(9, 4), layout="constrained")
        for axis, (title, label) in zip(axes, panels.items(), strict=True):
            names = {z: i for i, z in enumerate(dict.fromkeys(label.tolist()))}
            colours = [COLOURS[names[z] % len(COLOURS)] for z in label.tolist()]
            axis.plot(y, color="0.85", linewidth=0.8, zorder=0)
            axis.scatter(np.arange(len(y)), y, c=colours, s=7)
            changes = int((np.diff(label) != 0).sum())
            axis.set_title(f"{title}: {changes} change{'' if changes == 1 else 's'}")
            axis.set_ylabel(unit)
        axes[-1].set_xlabel("row")
        path.parent.mkdir(exist_ok=True)
        figure.savefig(path, dpi=110)
        plt.close(figure)
    print(path)


def scaler() -> None:
    """Hourly water flow: a scaler that learns as it goes moves the levels that it scales."""
    y = np.array([float(flow) for _, flow in datasets.WaterFlow()])
    moving, scaled = preprocessing.StandardScaler(), []
    for flow in y.tolist():
        moving.learn_one({"flow": flow})
        scaled.append(moving.transform_one({"flow": flow})["flow"])
    ways = {"StandardScaler() | SeqDDCRP()": np.array(scaled), "SeqDDCRP()": y}
    found = {
        title: SeqDDCRP().step_many(rows[:, None])["state"].to_numpy()
        for title, rows in ways.items()
    }
    draw(Path("demo") / "scaler.png", y, found, "l/s")


def settled(model, rows):
    """The label of each row when it left the window, or at the end."""
    labels = np.zeros(len(rows), np.int64)
    for start in range(0, len(rows), model.sweep_every):
        model.learn_many(rows.slice(start, model.sweep_every))
        recent = model.recent_labels()
        labels[model.n_seen - len(recent) : model.n_seen] = recent
    return labels


def beats(name="SonyAIBORobotSurface1") -> None:
    """The acceleration of a robot that walks on two surfaces: by the row, and by the step."""
    table = pq.read_table(TSSB)
    y = np.array(table.filter(pc.equal(table["series"], name))["values"][0].as_py())
    windows = WindowFeatures()
    features, positions = windows.step_many(y[:, None])
    broad = SeqDDCRP(likelihood=("normal_gamma", 0.0, 0.05, 1.5, 1.5))
    at = np.searchsorted(positions - windows.window // 2, np.arange(len(y)), side="right") - 1
    found = {
        "SeqDDCRP()": settled(SeqDDCRP(), pa.table({"x": y})),
        "WindowFeatures() before it": settled(broad, features)[np.maximum(at, 0)],
    }
    draw(Path("demo") / "beats.png", y, found, "acceleration")


def main() -> None:
    scaler()
    if TSSB.exists():
        beats()
    else:
        print(f"no data at {TSSB}")


if __name__ == "__main__":
    main()
