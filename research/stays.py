"""What regimes over states (`research.kernels.stays`) would bring on the benchmark's plants.

The rows are those that laws get: values less their seasons, held values left out.
"""

import click
import numpy as np
from sklearn.metrics import adjusted_rand_score

from benchmarks.machine import machine, markdown
from benchmarks.plants import PLANTS, Plant
from research.kernels.stays import regimes_of
from streamddcrp import SeqDDCRP
from streamddcrp.models.seqddcrp.in_season import InSeason
from streamddcrp.typing import FloatArray


def of_plant(plant: Plant) -> tuple[float, float, float, float]:
    """Return the index of states and of regimes, over all rows and over the second half."""
    nets: list[FloatArray] = []

    def less_season(
        self: InSeason, X: FloatArray, t: FloatArray | None, a: int, b: int
    ) -> FloatArray:
        net = X[a:b] if self._laws is None else self._laws.held.step(X[a:b])
        if self._season is not None:
            net = self._season.step(net, None if t is None else t[a:b])
        nets.append(net.copy())
        if self._laws is not None:
            net = self._laws.step(net)
        self._net.append(net)
        return net

    usual, InSeason._less_season = InSeason._less_season, less_season  # type: ignore[method-assign]
    try:
        found = SeqDDCRP().step_many(plant.rows, t=plant.t)
    finally:
        InSeason._less_season = usual  # type: ignore[method-assign]
    state = found["state"].to_numpy().astype(np.int64)
    regime, half = regimes_of(np.concatenate(nets), state), len(state) // 2
    scores = [
        adjusted_rand_score(plant.state[first:], labels[first:])
        for first in (0, half)
        for labels in (state, regime)
    ]
    return scores[0], scores[1], scores[2], scores[3]


@click.command()
@click.option("--first", default=50, show_default=True, help="First seed.")
@click.option("--seeds", default=2, show_default=True, help="Number of seeds of each plant.")
@click.argument("names", nargs=-1, type=click.Choice([*PLANTS]))
def main(first: int, seeds: int, names: tuple[str, ...]) -> None:
    """Compare states with regimes over them."""
    rows, everything = [], []
    for name in names or PLANTS:
        scores = [of_plant(PLANTS[name](seed)) for seed in range(first, first + seeds)]
        everything += scores
        rows.append((name, *(" ".join(f"{x:.2f}" for x in xs) for xs in zip(*scores, strict=True))))
    rows.append(("mean", *(f"{x:.3f}" for x in np.mean(everything, axis=0))))
    rows.append(("median", *(f"{x:.3f}" for x in np.median(everything, axis=0))))
    header = ("plant", "state", "regime", "state, second half", "regime, second half")
    click.echo(f"{markdown(header, rows)}\n\n{machine()}")


if __name__ == "__main__":
    main()
