"""What users see of particles: the tables that they have, whatever the model."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from streamddcrp.contract import LIVE
from streamddcrp.estimator.views import with_parameters
from streamddcrp.likelihoods import Likelihood
from streamddcrp.particles.names import Names
from streamddcrp.typing import FloatArray, IntArray


def probabilities(state: Any, p_new: float) -> dict[int, float]:
    """Return the probability of each table of any particle after a prediction; -1 is a new one."""
    held = np.flatnonzero(state.names.n_holders)
    openers, probs = state.names.opener[held], state.scratch.at_name[held]
    return dict(zip(openers.tolist(), probs.tolist(), strict=True)) | {-1: p_new}


def live_names(names: Names) -> IntArray:
    """Return the names of live tables, the oldest first."""
    live = np.flatnonzero(names.weight >= LIVE)
    return live[np.argsort(names.opener[live])]


def summary_of(
    names: Names,
    total: FloatArray,
    likelihood: Likelihood,
    features: Sequence[str],
    more: dict[str, Any] | None = None,
) -> pa.Table:
    """Return one row a live table; its statistics are means over the particles that have it.

    Parameters
    ----------
    names : Names
    total : ndarray of float64, shape (N, P)
        Statistics of each name, summed over the particles with their weights.
    likelihood : Likelihood
    features : sequence of str
    more : dict, optional
        Further columns, of live tables.
    """
    live = live_names(names)
    last_seen, prob = names.last_seen[live], names.weight[live]
    columns = {
        "id": names.opener[live],
        "size": np.ascontiguousarray(total[live, 0]),
        "prob": prob,
        "born": names.opener[live],
        "last_seen": pa.array(last_seen, mask=last_seen < 0),
        **(more or {}),
    }
    return with_parameters(columns, total[live] / prob[:, None], likelihood, features)
