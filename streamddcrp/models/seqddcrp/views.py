"""What users see of a streaming state: live tables, labels of the window."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from streamddcrp.compilation import entry_point
from streamddcrp.contract import LIVE
from streamddcrp.estimator.views import with_parameters
from streamddcrp.likelihoods import Likelihood
from streamddcrp.models.seqddcrp.config import Config
from streamddcrp.models.seqddcrp.kernels.layout import N_ROWS
from streamddcrp.models.seqddcrp.kernels.path import most_probable_path
from streamddcrp.models.seqddcrp.state import State
from streamddcrp.typing import IntArray


def live_columns(state: State) -> IntArray:
    """Return the columns of live tables."""
    return np.flatnonzero(state.table.stats[: state.n_tables, 0] >= LIVE)


def labels_in_window(config: Config, state: State) -> IntArray:
    """Return the id of the table of each row in the window, oldest first."""
    n_rows = int(state.counts[N_ROWS])
    path = np.empty(n_rows, np.int64)
    if n_rows:
        entry_point(most_probable_path)(
            config, state.rows, state.atoms, state.table, state.counts, state.scratch,
            np.empty((n_rows, state.n_tables), np.int64), path,
        )  # fmt: skip
    ids: IntArray = state.table.ids[path]
    return ids


def live_tables(state: State, likelihood: Likelihood, features: Sequence[str]) -> pa.Table:
    """Return one row a live table."""
    table, live = state.table, live_columns(state)
    last_seen = table.last_seen[live]
    columns: dict[str, Any] = {
        "id": table.ids[live],
        "weight": table.stats[live, 0],
        "born": table.born[live],
        "last_seen": pa.array(last_seen, mask=last_seen < 0),
    }
    return with_parameters(columns, table.stats[live], likelihood, features)
