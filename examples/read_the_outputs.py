"""Draw what a model says of each row, and what an alarm makes of it: docs/reading-the-outputs.md.

Run: python examples/read_the_outputs.py [FOLDER]

The pictures go to FOLDER, demo/ unless another is given. The second one needs the SKAB data
(shared/data/skab beside the checkout) and is left out where they are not there.
"""

import sys
from importlib import resources
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pyarrow.csv
import pyarrow.parquet

from streamddcrp import Alarm, RegimeAnomalyDetector, SeqDDCRP, change_points
from streamddcrp.plots.palette import COLOURS

SKAB = Path(__file__).resolve().parents[2] / "shared" / "data" / "skab" / "skab.parquet"
SENSORS = [
    "accelerometer1rms", "accelerometer2rms", "current", "pressure", "temperature",
    "thermocouple", "voltage", "volume_flow_raterms",
]  # fmt: skip
GREY, RED = "0.55", "#D55E00"
STYLE = {
    "axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left",
    "axes.titlesize": 10, "font.size": 9, "lines.linewidth": 1.0,
}  # fmt: skip


def panels(*heights):
    total = sum(heights)
    _, axes = plt.subplots(
        len(heights), figsize=(9, total), sharex=True, layout="constrained", height_ratios=heights
    )
    return axes


def legend(ax):
    ax.legend(loc="lower right", bbox_to_anchor=(1.0, 0.97), frameon=False, ncols=2)


def water_flow(path):
    """Every column of `step_many`, on hourly water flow in a pipeline (from river)."""
    file = resources.files("river") / "datasets" / "water-flow.csv"
    table = pyarrow.csv.read_csv(str(file))
    flow = table["Water flow [l/s]"].to_numpy()
    out = SeqDDCRP().step_many(flow[:, None], table["Time"].combine_chunks())
    column = {name: out[name].to_numpy(zero_copy_only=False) for name in out.schema.names}
    alarms = Alarm(rate=0.005).step_many(column["score"])
    changes, _ = change_points(column["p_change"])
    row = np.arange(len(flow))

    values, score, change, sure, tables = panels(2.0, 1.7, 1.3, 1.3, 1.1)
    values.axvspan(0, np.isnan(column["score"]).sum(), color="0.92", label="warm-up")
    legend(values)
    values.scatter(row, flow, s=5, c=[COLOURS[i % len(COLOURS)] for i in column["label"]])
    values.set_title("flow, coloured by label")
    score.plot(row, column["score"], color=GREY)
    score.plot(row, alarms.threshold, color="black", ls="--", label="threshold at rate 0.005")
    score.plot(row[alarms.alarm], alarms.score[alarms.alarm], "o", ms=4, color=RED, label="alarm")
    legend(score)
    score.set_title("score: -log predictive density, in nats")
    change.plot(row, column["p_change"], color=GREY)
    change.plot(changes, np.ones(len(changes)), "v", color=RED, label="change point")
    legend(change)
    change.set_title("p_change")
    sure.plot(row, column["label_prob"], color=GREY, label="label_prob")
    sure.plot(row, column["p_new"], color=RED, label="p_new")
    legend(sure)
    sure.set_title("label_prob and p_new")
    tables.step(row, column["n_tables"], color=GREY)
    tables.yaxis.get_major_locator().set_params(integer=True)
    tables.set_title("n_tables")
    tables.set_xlabel("row")
    plt.savefig(path, dpi=110)
    print(f"{path}: {int(alarms.alarm.sum())} alarm rows, {len(changes)} change points")


def valve(path, run="7"):
    """A valve half closed for 400 seconds: the model's own surprise fades, the reference's not."""
    table = pyarrow.parquet.read_table(SKAB, filters=[("group", "=", "valve1"), ("run", "=", run)])
    odd = table["anomaly"].to_numpy() == 1
    detectors = {
        "surprise of the model as it is": RegimeAnomalyDetector(
            SeqDDCRP(likelihood=("autoregression", 1)), average=20
        ),
        "surprise relative to the tables after 200 rows": RegimeAnomalyDetector(
            SeqDDCRP(likelihood=("autoregression", 1)), average=20, reference_after=200
        ),
    }
    values, *others = panels(1.6, 1.6, 1.6)
    row = np.arange(len(odd))
    values.plot(row, table["volume_flow_raterms"], color=GREY)
    values.set_title("flow, one of eight sensors; shaded: labelled anomalous")
    for ax, (name, detector) in zip(others, detectors.items(), strict=True):
        out = detector.step_many(table.select(SENSORS))
        score, alarm = (out[c].to_numpy(zero_copy_only=False) for c in ("score", "alarm"))
        ax.plot(row, score, color=GREY)
        ax.plot(row, out["threshold"], color="black", ls="--", label="threshold at rate 0.001")
        ax.plot(row[alarm], score[alarm], ".", ms=4, color=RED, label="alarm")
        legend(ax)
        ax.set_title(f"{name}, mean of 20 rows, in nats")
        print(
            f"{name}: {alarm[odd].mean():.0%} of the anomaly, {alarm[~odd].mean():.1%} of the rest"
        )
    for ax in (values, *others):
        ax.axvspan(*row[odd][[0, -1]], color="0.92", zorder=0)
    others[-1].set_xlabel("second")
    plt.savefig(path, dpi=110)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo")
    folder.mkdir(exist_ok=True)
    mpl.use("agg")
    with mpl.rc_context(STYLE):
        water_flow(folder / "outputs.png")
        if SKAB.exists():
            valve(folder / "reference.png")
        else:
            print(f"no data at {SKAB}: second picture left out")


if __name__ == "__main__":
    main()
