"""Draw latent features: when they are on, and their effect on the columns."""

from typing import Any

import numpy as np

from streamddcrp.plots.figures import pyplot, short, styled
from streamddcrp.plots.lanes import CAUSE, bars_of

_NAMED = 40  # most columns shown with their names
_LETTERS = 24  # of such a name


@styled({"axes.grid": False})
def plot_features(assignments: Any, loadings: Any, columns: Any, ax: Any = None) -> Any:
    """Draw one lane per feature with marks at its rows; return the lanes' axes.

    Beside the lanes is a map of the loadings, scaled by column: red adds, blue subtracts.
    ``assignments`` and ``loadings`` come from a model; ``columns`` are its D names. With ``ax``
    only the lanes are drawn, there.
    """
    columns, rows = list(columns), assignments["row"].to_numpy()
    sets = assignments["features"].to_pylist()
    ids = sorted({i for one in sets for i in one})
    panel = None
    if ax is None:
        figure, (ax, panel) = pyplot().subplots(
            1, 2, figsize=(11, 1.9 + 0.3 * max(len(ids), 1)), width_ratios=(3, 1),
            layout="constrained", sharey=True,
        )  # fmt: skip
    for lane, i in enumerate(ids):
        bars = bars_of([i in one for one in sets], rows - 0.5, rows + 0.5)
        ax.broken_barh(bars, (lane - 0.35, 0.7), color=CAUSE, linewidth=0.5)
    ax.set_yticks(range(len(ids)), [str(i) for i in ids])
    ax.set_ylim(len(ids) - 0.5, -0.5)
    ax.set_xlabel("row")
    ax.set_ylabel("feature")
    ax.set_title("a bar where a feature is on")
    if panel is not None and ids:
        images = np.array([loadings.get(i, np.full(len(columns), np.nan)) for i in ids])
        unit = np.nanmax(np.abs(images), axis=0)
        unit[~(unit > 0.0)] = 1.0
        drawn = panel.imshow(images / unit, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
        named = [short(name, _LETTERS) for name in columns] if len(columns) <= _NAMED else []
        panel.set_xticks(range(len(named)), named, parse_math=False)
        panel.tick_params(axis="x", rotation=90)
        panel.tick_params(axis="y", length=0)
        panel.set_title("what it adds to each column")
        bar = figure.colorbar(drawn, ax=panel, ticks=[-1, 0, 1])
        bar.set_label("of the column's largest")
    return ax
