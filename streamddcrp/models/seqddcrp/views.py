"""What users see of a streaming state: live tables, labels of the window."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from streamddcrp.contract import LIVE
from streamddcrp.estimator.views import with_parameters
from streamddcrp.likelihoods import Likelihood
from streamddcrp.models.seqddcrp.kernels.layout import N_ROWS
from streamddcrp.models.seqddcrp.state import State
from streamddcrp.typing import IntArray


def live_columns(state: State) -> IntArray:
    """Return the columns of live tables."""
    return np.flatnonzero(state.table.stats[: state.n_tables, 0] >= LIVE)


def labels_in_window(state: State) -> IntArray:
    """Return the id of the most probable table of each row in the window, oldest first."""
    probs = state.rows.probs[: state.n_tables, : state.counts[N_ROWS]]
    ids: IntArray = state.table.ids[probs.argmax(axis=0)]
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
