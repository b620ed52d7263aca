"""Compiled moments of, and draws from, the prior of links.

``links`` are `Candidates`; ``total[i]`` is the sum of customer i's link weights and self-link
weight, in the scale of the row.
"""

import numpy as np

from streamddcrp.compilation import kernel


@kernel
def _width(links, i):
    if links.shared:
        return min(i, len(links.weight))
    return links.start[i + 1] - links.start[i]


@kernel
def _link(links, i, q):
    """Return candidate ``q`` of row ``i``, from the last on, with its weight."""
    if links.shared:
        return i - 1 - q, links.weight[q]
    at = links.start[i + 1] - 1 - q
    return links.customer[at], links.weight[at]


@kernel
def number_of_tables(own, out):
    """Distribution of the number of tables, docs/math/ddcrp.md (7), from self-links (N,)."""
    out[:] = 0.0
    out[0] = 1.0
    low, high = 0, 0
    for i in range(len(own)):
        p = own[i]
        high += 1
        for k in range(high, low, -1):
            out[k] = out[k] * (1.0 - p) + out[k - 1] * p
        out[low] *= 1.0 - p
        while out[high] < 1e-20:
            out[high] = 0.0
            high -= 1
        while out[low] < 1e-20:
            out[low] = 0.0
            low += 1


@kernel
def path_lengths(links, counted, total, out):
    """Count customers expected on the path of each to its root: r_i = 1 + sum_j A_ij r_j."""
    seen = 0.0
    for i in range(len(total)):
        reached = 0.0
        if counted:
            if i > 0:
                reached = links.weight[0] * seen
        else:
            for q in range(_width(links, i)):
                j, w = _link(links, i, q)
                reached += w * out[j]
        out[i] = 1.0 + reached / total[i]
        seen += out[i]


@kernel
def share_table(links, total, out):
    """Probability (N, N) that two customers share a table: docs/math/ddcrp.md (7); O(N^2 W)."""
    for i in range(len(total)):
        out[i, :i] = 0.0
        for q in range(_width(links, i)):
            t, w = _link(links, i, q)
            share = w / total[i]
            for j in range(i):
                out[i, j] += share * out[t, j]
        out[i, i] = 1.0
        for j in range(i):
            out[j, i] = out[i, j]


@kernel
def draw_links(links, total, rng, out):
    """Draw the links of all customers, once for each row of ``out`` (S, N)."""
    for s in range(len(out)):
        for i in range(len(total)):
            left = rng.random() * total[i]
            out[s, i] = i
            for q in range(_width(links, i)):
                j, w = _link(links, i, q)
                left -= w
                if left < 0.0:
                    out[s, i] = j
                    break


@kernel
def measure(links, table, out):
    """Count tables (S, 0), and average the sizes of customers' tables and subtrees, per sample."""
    S, N = links.shape
    children, below, size = np.empty(N, np.int64), np.empty(N, np.int64), np.empty(N, np.int64)
    for s in range(S):
        children[:] = 0
        size[:] = 0
        below[:] = 1
        for i in range(N):
            children[links[s, i]] += 1
            size[table[s, i]] += 1
        for leaf in range(N):
            i = leaf
            while children[i] == 0:  # everything through i is counted: i is done
                children[i] = -1
                parent = links[s, i]
                below[parent] += below[i]
                children[parent] -= 1
                if parent > leaf:
                    break  # to be visited later
                i = parent
        out[s] = 0.0
        for i in range(N):
            if children[i] > 0:  # on a cycle, which the whole table passes
                below[i] = size[table[s, i]]
            out[s, 0] += size[i] > 0
            out[s, 1] += size[table[s, i]] / N
            out[s, 2] += below[i] / N
