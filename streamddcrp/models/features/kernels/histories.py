"""Prior odds of a feature's owners in the window: ratios of docs/math/graphs.md (10).

Row u has a feature that m of the r rows before it have with probability m / q, q = min(u, r) + 1; a
first owner counts 1 / q, and a feature without owners among r rows is dead.
"""

import math

import numpy as np

from streamddcrp.compilation import uncounted

ONE = np.uint64(1)


@uncounted
def history_odds(config, particles, i, t, k, out):
    """Write the log prior odds of feature ``k`` at each row of the window, given its other owners.

    ``out[j]`` is for row ``start + j``, ``start`` the oldest row of the window: infinity if the
    feature would be disconnected without the row, -infinity if the row is out of its reach.
    Changing a row changes the number m of each of the r later rows by one, up to the window's end.
    With M owners among the r rows before row u, and h = 1 if the row itself is one of them, the
    odds are a sum over later rows u of

        log (m + 1) - log m             if u is an owner, m = M - h (0 for the first one),
        log (q - m - 1) - log (q - m)   if it is not,

    and all rows together take O(r).
    """
    r, log, first = config.order, config.log, particles.first[i, k]
    owners, H = particles.owners[i], particles.owners.shape[1]
    slot, start = np.uint64(k), t + 1 - min(t + 1, r)
    m = particles.n_owners[i, k]  # of the last r rows
    at, before = t % H, (t + H - r) % H
    without, with_it = 0.0, 0.0  # sums over later rows, for a row that is no owner, and for one
    n_held = 0  # later owners that have one other among the r rows before them
    for u in range(t, start - 1, -1):
        q, has = min(u, r) + 1, (owners[at] >> slot) & ONE
        m -= 1 if has else 0
        if u >= r and (owners[before] >> slot) & ONE:
            m += 1
        at = at - 1 if at > 0 else H - 1
        before = before - 1 if before > 0 else H - 1
        odds = log[m] - log[q - m] if first < u else -log[q]  # -infinity out of reach
        if not has:
            out[u - start] = odds + without
            without += log[max(q - m - 1, 1)] - log[q - m]
            with_it += log[q - m] - log[q - m + 1]
        else:
            held = n_held > (1 if first == u else 0)
            out[u - start] = np.inf if held else odds + with_it
            if m > 0:
                without += log[m + 1] - log[m]
            if m > 1:
                with_it += log[m] - log[m - 1]
            n_held += m == 1


@uncounted
def log_alone(config, t, row):
    """Log probability, per unit of alpha, of a feature with ``row`` as its only owner up to t."""
    r, log = config.order, config.log
    young = min(t, r)  # up to here q grows by one from row to row
    p = -log[min(row, r) + 1]
    if row < young:
        p += log[row + 1] - log[young + 1]
    return p + max(min(row + r, t) - max(row, r), 0) * (log[r] - log[r + 1])


@uncounted
def log_poisson(log_rate, n, out):
    """Log probabilities of 0 .. n - 1."""
    log_p = -math.exp(log_rate)
    for k in range(n):
        if k > 0:
            log_p += log_rate - math.log(k)
        out[k] = log_p
