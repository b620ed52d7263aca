"""Draw the taxi passengers of New York in regimes, with and without a season: docs/seasons.md.

Run: python examples/taxi_seasons.py [FOLDER FOR THE PICTURE]

Needs the series of the Numenta Anomaly Benchmark (shared/data/nab beside the checkout); without it
nothing is drawn.
"""

import os
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pyarrow.parquet

from streamddcrp import Seasonal, SeqDDCRP, change_points
from streamddcrp.plots.figures import date_axis
from streamddcrp.plots.palette import colours_of

mpl.use("Agg")
import matplotlib.pyplot as plt

SHARED = os.environ.get("STREAMDDCRP_SHARED") or Path(__file__).resolve().parents[2] / "shared/data"
NAB = Path(SHARED) / "nab" / "nab.parquet"
HALF_A_DAY = np.timedelta64(12, "h")
FIRST = np.datetime64("2014-10-09")  # the end of the series, so that days can be distinguished


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "demo")
    folder.mkdir(parents=True, exist_ok=True)
    if not NAB.exists():
        print(f"no series at {NAB}: no picture")
        return
    table = pyarrow.parquet.read_table(NAB, filters=[("series", "=", "nyc_taxi")])
    values, times = table["value"].to_numpy(), table["timestamp"].to_numpy()
    known = times[table["anomaly"].to_numpy(zero_copy_only=False)]
    shown = times >= FIRST
    figure, axes = plt.subplots(2, figsize=(12, 5.5), sharex=True, layout="constrained")
    for ax, season in zip(axes, (None, "week"), strict=True):
        model = SeqDDCRP(season=season)
        out = model.step_many(values[:, None], times)
        changes, _ = change_points(out["p_change"].to_numpy(zero_copy_only=False))
        labels, level = out["label"].to_numpy(), values
        if season:
            level = Seasonal(season).step_many(values[:, None], times)["0"].to_numpy()
            ax.plot(times[shown], values[shown] / 1e3, color="0.7", lw=0.5)
        here = labels[shown].tolist()
        colours = colours_of(dict.fromkeys(here))
        ax.scatter(times[shown], level[shown] / 1e3, s=3, c=[colours[k] for k in here])
        changes = changes[shown[changes]]
        ax.plot(times[changes], np.full(len(changes), 42), "|", color="k", ms=8, label="change")
        for at in known:
            known_span = ax.axvspan(at - HALF_A_DAY, at + HALF_A_DAY, color="0.88", zorder=0)
        known_span.set_label("listed by the authors of the benchmark")
        ax.set_title(
            f"SeqDDCRP(season={season!r}): {len(changes)} changes in the months shown", loc="left"
        )
        ax.set(ylabel="thousand passengers", xlim=(FIRST, times[-1]))
        date_axis(ax, year=False)
    axes[-1].set_xlabel("October 2014 to January 2015")
    axes[0].legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, frameon=False)
    figure.savefig(folder / "seasons.png", dpi=110)
    print(f"{folder / 'seasons.png'}")


if __name__ == "__main__":
    main()
