"""Latent features that are on and off: what ``tv-ibp`` reports beside a label."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from streamddcrp.plots.lanes import lanes_of_causes
from streamddcrp.plots.series import Cause
from streamddcrp.typing import IntArray
from streamddcrp_connectors.run.written import read_written


def read_causes(path: str | os.PathLike[str], rows: IntArray) -> tuple[Cause, ...]:
    """Read which features rows have, whose numbers ascend; empty where results have none."""
    table = None
    with suppress(pa.ArrowInvalid, pa.ArrowKeyError, KeyError, OSError):
        columns = ["row", "features"]
        table = read_written(Path(path), columns).select(columns)
    if table is None or not pa.types.is_list(table.schema.field("features").type):
        return ()
    sets = table["features"].combine_chunks()
    owner = np.repeat(table["row"].to_numpy(), sets.value_lengths().fill_null(0).to_numpy())
    ids = sets.flatten().to_numpy()
    return tuple(
        Cause(int(i), np.isin(rows, owner[ids == i]))
        for i in np.unique(ids).tolist()
        if np.isin(owner[ids == i], rows).any()
    )


def words_of_causes(causes: tuple[Cause, ...], at: Any) -> list[str]:
    """Say when each feature was on; ``at`` writes the time of a row."""
    if not causes:
        return []
    shown = lanes_of_causes(causes)
    lines = ["Features that were on (a regime is a combination of them):"]
    for cause in shown:
        rows = np.flatnonzero(cause.on)
        n = len(rows)
        lines.append(
            f"  feature {cause.id}, {n:,} row{'' if n == 1 else 's'} "
            f"from {at(int(rows[0]))} to {at(int(rows[-1]))}"
        )
    if len(causes) > len(shown):
        lines.append(f"  {len(causes) - len(shown)} others, rarely on or on for good")
    return lines
