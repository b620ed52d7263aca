"""Compiled sums over sampled partitions: co-clustering, and local search for a point estimate."""

import numpy as np

from streamddcrp.compilation import kernel


@kernel
def number_tables(labels, out):
    """Renumber tables (S, N) of samples 0, 1, .. by first customers; return their numbers (S,)."""
    S, N = labels.shape
    n_tables = np.zeros(S, np.int64)
    slot = np.empty(N, np.int64)
    for s in range(S):
        slot[:] = -1
        for i in range(N):
            if slot[labels[s, i]] < 0:
                slot[labels[s, i]] = n_tables[s]
                n_tables[s] += 1
            out[s, i] = slot[labels[s, i]]
    return n_tables


@kernel
def add_together(tables, weights, out):
    """Add ``weights`` (S,) to all pairs (N, N) that share a table in a sample; both triangles."""
    S, N = tables.shape
    last = np.empty(N, np.int64)  # the latest customer of each table
    before = np.empty(N, np.int64)  # the previous customer of the same table
    for s in range(S):
        last[:] = -1
        for i in range(N):
            k = tables[s, i]
            before[i] = last[k]
            last[k] = i
            j = before[i]
            while j >= 0:
                out[i, j] += weights[s]
                j = before[j]
    for i in range(N):
        out[i, i] = 1.0
        out[:i, i] = out[i, :i]


@kernel
def contingency(place, rows, counts, sizes):
    """Count customers in each pair of a table of the estimate and a table of a sample.

    ``place`` (N,): each customer's table in the estimate, -1 if not placed; ``rows`` (N, S): row of
    ``counts`` (T, K) for the customer's table in each sample; ``sizes`` (K,).
    """
    counts[:] = 0
    sizes[:] = 0
    for i in range(len(place)):
        k = place[i]
        if k >= 0:
            sizes[k] += 1
            for row in rows[i]:
                counts[row, k] += 1


@kernel
def place_all(order, weights, step, rows, place, counts, sizes):
    """Move customers, one after the other, to the table of least expected loss.

    f(n + 1) - f(n) = ``step[n]`` (N,); ``weights`` (S,) of samples sum to one; ``order``: the
    customers to move; others as in `contingency`, kept up to date. Returns the numbers of customers
    that changed tables and that were visited; less than all if no empty table was left.
    """
    n_moved = 0
    cost = np.empty(len(sizes))
    used = 0
    for k in range(len(sizes)):
        if sizes[k] > 0:
            used = k + 1
    for visit in range(len(order)):
        i = order[visit]
        if used == len(sizes) and sizes.min() > 0 and len(sizes) < len(place):
            return n_moved, visit
        here = place[i]
        if here >= 0:
            sizes[here] -= 1
            for row in rows[i]:
                counts[row, here] -= 1
        offered = min(used + 1, len(sizes))
        cost[:offered] = 0.0
        for s in range(len(weights)):
            row = counts[rows[i, s]]
            for k in range(offered):
                cost[k] -= weights[s] * step[row[k]]
        best, least = here, np.inf
        if here >= 0:  # stay unless another table is better by more than rounding
            least = step[sizes[here]] + 2.0 * cost[here]
            least -= 1e-12 * (abs(least) + 1.0)
        for k in range(offered):
            total = step[sizes[k]] + 2.0 * cost[k]
            if total < least:
                best, least = k, total
        sizes[best] += 1
        for row in rows[i]:
            counts[row, best] += 1
        place[i] = best
        used = max(used, best + 1)
        n_moved += best != here
    return n_moved, len(order)
