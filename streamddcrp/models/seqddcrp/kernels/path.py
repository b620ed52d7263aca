"""The most probable path of tables through the window, for labels of past rows.

Under q each row has its own most probable table, so similar tables would alternate although the
regime has not changed. If regimes last and return, all rows are therefore labelled jointly by the
hidden Markov model of `kernels.states`, which stays or redraws a table:

    p(k | k') = (1 - rho) [k = k'] + rho beta_k,    emissions p(x_r | rows of table k).

An outlier, a row most probable at an unknown table, is no evidence on the regime. Viterbi's
recursion; O(W K P).
"""

import math

import numpy as np

from streamddcrp.compilation import entry, uncounted
from streamddcrp.contract import LIVE
from streamddcrp.likelihoods.kernels.families import log_predictives
from streamddcrp.models.seqddcrp.kernels.known import is_known
from streamddcrp.models.seqddcrp.kernels.layout import N_ROWS, N_TABLES
from streamddcrp.models.seqddcrp.kernels.states import LEAST_WEIGHT, regimes_last, switch_rate

UNLIKELY = math.log(1e-6)  # least log probability of a table at the first row


@uncounted
def home_of(rows, n_tables, r):
    """Return the most probable column of row ``r``."""
    home = 0
    for m in range(1, n_tables):
        if rows.probs[m, r] > rows.probs[home, r]:
            home = m
    return home


@uncounted
def _nearest(config, rows, atoms, table, counts, scratch, r, home):
    """Return the most probable known column of a new run of row ``r``, else ``home``."""
    log_predictives(
        config.family, config.hyper, table.post, rows.x[r], counts[N_TABLES], scratch.own
    )
    best, top = home, -np.inf
    for m in range(counts[N_TABLES]):
        if is_known(atoms, counts, m, 0) and table.stats[m, 0] >= LIVE:
            score = scratch.own[m] + math.log(max(atoms.beta[m], LEAST_WEIGHT))
            if score > top:
                best, top = m, score
    return best


@entry
def most_probable_path(config, rows, atoms, table, counts, sums, scratch, back, out):
    """Write each window row's column to ``out`` (W,); ``back`` (W, K) is work space."""
    w, K = counts[N_ROWS], counts[N_TABLES]
    rho = switch_rate(sums)
    scratch.asked[0] = -1.0  # its weights are overwritten
    score, own, n_known = scratch.weight, scratch.own, 0
    for m in range(K):
        p = rows.probs[m, 0]
        score[m] = max(math.log(p), UNLIKELY) if p > 0.0 else UNLIKELY
        if table.stats[m, 0] < LIVE or not is_known(atoms, counts, m, 0):
            score[m] = -np.inf
        else:
            n_known += 1
    if not config.recall or n_known == 0 or not regimes_last(config, counts, sums):
        for r in range(w):
            out[r] = home_of(rows, K, r)
            if not is_known(atoms, counts, out[r], 0):
                out[r] = _nearest(config, rows, atoms, table, counts, scratch, r, out[r])
        return
    for r in range(w):
        if is_known(atoms, counts, home_of(rows, K, r), 0):
            log_predictives(config.family, config.hyper, table.post, rows.x[r], K, own)
        else:
            own[:K] = 0.0
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
