"""Follow causes that come and go in sensor readings: docs/latent-causes.md.

Run: python examples/latent_causes.py [FOLDER]

Uses a pump's sensors (SKAB, shared/data/skab beside the checkout) where they are, else a simulated
process. The picture goes to FOLDER, demo/ unless another is given.
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from streamddcrp import TimeVaryingIBP

SKAB = Path(__file__).resolve().parents[2] / "shared" / "data" / "skab" / "skab.parquet"
LEFT_OUT = ("group", "run", "seq", "datetime", "anomaly", "changepoint")


def readings():
    """Every tenth reading of the pump, or 400 of a process with a heater, a valve and a leak."""
    if SKAB.exists():
        table = pq.read_table(SKAB).slice(0, 10_000)
        table = table.drop_columns([name for name in LEFT_OUT if name in table.column_names])
        return table.take(pa.array(np.arange(0, table.num_rows, 10)))
    rng = np.random.default_rng(0)
    t = np.arange(400)
    on = np.column_stack([t % 90 < 40, t % 60 < 20, t > 250])
    causes = np.array([[4.0, 0.0, 1.0], [0.0, -2.0, 1.5], [-1.0, 0.0, -3.0]])
    X = [20.0, 5.0, 50.0] + on @ causes + 0.2 * rng.normal(size=(400, 3))
    return pa.table(dict(zip(("temperature", "pressure", "flow"), X.T, strict=True)))


def main(folder):
    model = TimeVaryingIBP(n_particles=30, moves=5)
    out = model.step_many(readings())
    for event in model.events()[-10:]:
        print(f"row {event.index}: feature {event.label}, {event.kind}")
    summary = model.summary()
    for i, row in enumerate(summary.to_pylist()):
        parts = {k[8:]: v for k, v in row.items() if k.startswith("loading_")}
        largest = max(parts, key=lambda name: abs(parts[name]) / model.noise[name])
        print(f"feature {row['id']}, since row {row['born']}: {largest} {parts[largest]:+.3g}")
        if i == 9:
            break
    scores = out["score"].to_numpy(zero_copy_only=False)
    print("most surprising rows:", np.argsort(-np.nan_to_num(scores, nan=-np.inf))[:5].tolist())
    try:
        figures = {"latent-causes": model.plot(), "features": model.plot("features").figure}
    except ImportError:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        figure.savefig(folder / f"{name}.png", dpi=120, bbox_inches="tight")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
