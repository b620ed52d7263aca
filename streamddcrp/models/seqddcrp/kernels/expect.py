"""What a row is expected to belong to before it is seen."""

import math

import numpy as np

from streamddcrp.compilation import entry
from streamddcrp.models.seqddcrp.kernels.arrival import NUMBER, weigh_tables
from streamddcrp.models.seqddcrp.kernels.layout import LOG_ALPHA, N_TABLES, NEW_BETA, STATE


@entry
def log_priors(config, rows, groups, atoms, table, counts, sums, scratch, t, given, out):
    """Write log priors of tables at ``t``, a new one behind; return the present state's column."""
    K, weight = counts[N_TABLES], scratch.weight
    log_total = weigh_tables(config, rows, groups, atoms, counts, sums, scratch, t, given, 0)
    scratch.asked[NUMBER] = -1.0  # what `predict` left for the next row is written over
    home, likely = -1, 0
    for m in range(K):
        out[m] = math.log(weight[m]) if weight[m] > 0.0 else -np.inf
        if out[m] > out[likely]:
            likely = m
        if table.ids[m] == counts[STATE]:
            home = m
    out[K] = sums[LOG_ALPHA] - log_total + math.log(sums[NEW_BETA])
    return home if home >= 0 else likely
