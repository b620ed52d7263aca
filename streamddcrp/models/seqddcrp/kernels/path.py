"""The most probable path of tables through the window, for what settled rows are said to be.

Under q each row has a most probable table of its own. Where regimes last, near tables then take
turns though the regime has not changed. So where a row seldom opens a table, with probability
rho < 0.2, and tables return, the rows are labelled together, as by a hidden Markov model that stays
or draws a table again:

    p(k | k') = (1 - rho) [k = k'] + rho beta_k,    emissions p(x_r | rows of table k).

Viterbi's recursion; O(W K P).
"""

import math

import numpy as np

from streamddcrp.compilation import entry
from streamddcrp.contract import LIVE
from streamddcrp.likelihoods.kernels.families import log_predictives
from streamddcrp.models.seqddcrp.kernels.layout import N_ROWS, N_TABLES

STICKY = 0.2  # probability of opening a table from which rows are labelled one by one
LEAST_WEIGHT = 1e-6  # of a table for a new run
UNLIKELY = math.log(1e-6)  # least log probability of a table at the first row


@entry
def most_probable_path(config, rows, atoms, table, counts, scratch, back, out):
    """Write the column of each row of the window to ``out`` (W,); ``back`` (W, K) is work space."""
    w, K = counts[N_ROWS], counts[N_TABLES]
    rho = math.exp(rows.log_birth[w - 1])
    if rho >= STICKY or not config.recall:
        for r in range(w):
            out[r] = 0
            for m in range(K):
                if rows.probs[m, r] > rows.probs[out[r], r]:
                    out[r] = m
        return
    score, own = scratch.weight, scratch.own
    for m in range(K):
        p = rows.probs[m, 0]
        score[m] = max(math.log(p), UNLIKELY) if p > 0.0 else UNLIKELY
        if table.stats[m, 0] < LIVE:
            score[m] = -np.inf
    for r in range(w):
        log_predictives(config.family, config.hyper, table.post, rows.x[r], K, own)
        best = 0
        for m in range(K):
            if score[m] > score[best]:
                best = m
        top = score[best]
        for m in range(K):
            back[r, m] = m
            if r > 0 and score[m] > -np.inf:
                move = top + math.log(rho * max(atoms.beta[m], LEAST_WEIGHT))
                stay = score[m] + math.log1p(-rho)
                if move > stay:
                    back[r, m] = best
                score[m] = max(move, stay)
            score[m] += own[m]
    k = 0
    for m in range(K):
        if score[m] > score[k]:
            k = m
    for r in range(w - 1, -1, -1):
        out[r] = k
        k = back[r, k]
