"""Compiled sweeps of batch inference: banded links, live tables only, no matrix inverse.

Layout. Customer i may link to the W customers before it; ``links[i, d]`` is q(c_i = i - W + d) and
``birth[i]`` is q(c_i = i). Column k of Z (table opened by customer k) is stored for the customers
k .. k + length[k] - 1 that can sit there, in one pool; entries below `NEGLIGIBLE` are zero.

The message to a customer's table, G_i = sum_s R_si E log p(x_s | .), is linear in the expected
statistics T_i = sum_s R_si t(x_s) of the customers that reach i (its *cone*). Only the cones (N, P)
are therefore carried backward, whatever the number of tables:

    T_i = t(x_i) + sum_{s>i} A_si T_s,     G_ik = <E eta_k, T_i>.
"""

import math

import numpy as np

from streamddcrp.compilation import kernel
from streamddcrp.likelihoods.kernels.families import add_stats, natural_parameters, posterior
from streamddcrp.numerics import add, dot

NEGLIGIBLE = 1e-14  # smaller table probabilities are zero: below a row sum's rounding
LINK_FLOOR = math.exp(-23.0)  # a link below this share of the row's best option is set to zero


@kernel
def _push(links, cone, i):
    """Add the message of customer i along its links to the cones it links to."""
    W = links.shape[1]
    for j in range(max(0, i - W), i):
        a = links[i, j - i + W]
        if a > 0.0:
            add(cone[j], a, cone[i])


@kernel
def cone_statistics(family, hyper, X, links, cone):
    """Fill ``cone`` (N, P), docs/math/links.md (6), under fixed links. O(N W + nnz P)."""
    cone[:] = 0.0
    for i in range(X.shape[0] - 1, -1, -1):
        add_stats(family, hyper, X[i], 1.0, cone[i])
        _push(links, cone, i)


@kernel
def refresh_tables(family, hyper, stats, n_tables, post, natural):
    """Posteriors and natural parameters of every live table; return the sum of log marginals."""
    total = 0.0
    for m in range(n_tables):
        posterior(family, hyper, stats[m], post)
        natural_parameters(family, hyper, post, natural[m])
        total += post[0]
    return total


@kernel
def _update_row(
    i, links, birth, log_weight, log_total, log_alpha, birth_floor, cone, natural, slot,
    active, n_active, z, offset, length, score,
):  # fmt: skip
    """Exact coordinate update: log A_ij = log p_ij + G_i . Z_j, log s_i = log p_ii + G_ii."""
    W = links.shape[1]
    P = cone.shape[1]
    start = max(0, i - W)
    row = min(i, log_weight.shape[0] - 1)
    for d in range(start - i + W, W):
        score[d] = log_weight[row, d] - log_total[i]
    for a in range(n_active):
        k = active[a]
        if k >= i:
            continue
        g = 0.0
        for p in range(P):
            g += natural[slot[k], p] * cone[i, p]
        low, n = max(k, start), min(i, k + length[k]) - max(k, start)
        if n > 0:
            add(score[low - i + W :][:n], g, z[offset[k] + low - k :])
    own = -np.inf
    if birth[i] > 0.0:
        own = log_alpha - log_total[i]
        for p in range(P):
            own += natural[slot[i], p] * cone[i, p]
    top = own
    for d in range(start - i + W, W):
        top = max(top, score[d])
    total = 0.0
    for d in range(start - i + W, W):
        w = math.exp(score[d] - top)
        if w < LINK_FLOOR:
            w = 0.0
        links[i, d] = w
        total += w
    s = math.exp(own - top)
    if s < birth_floor:
        s = 0.0
    total += s
    for d in range(start - i + W, W):
        links[i, d] /= total
    birth[i] = s / total


@kernel
def descend(
    family, hyper, X, links, birth, log_weight, log_total, log_alpha, birth_floor, cone, natural,
    slot, z, offset, length, score,
):  # fmt: skip
    """Update every row, last to first, with Z fixed and cones built along the way."""
    N, W = links.shape
    # Table k matters to customers that may link to one who can sit there.
    first = np.full(N, -1, np.int64)
    following = np.empty(N, np.int64)
    for k in range(N):
        if birth[k] > 0.0:
            last = min(k + length[k] - 1 + W, N - 1)
            following[k] = first[last]
            first[last] = k
    active = np.empty(N, np.int64)
    n_active = 0
    cone[:] = 0.0
    for i in range(N - 1, -1, -1):
        k = first[i]
        while k >= 0:
            active[n_active] = k
            n_active += 1
            k = following[k]
        add_stats(family, hyper, X[i], 1.0, cone[i])
        _update_row(
            i, links, birth, log_weight, log_total, log_alpha, birth_floor, cone, natural, slot,
            active, n_active, z, offset, length, score,
        )  # fmt: skip
        _push(links, cone, i)
        for a in range(n_active):
            if active[a] == i:
                n_active -= 1
                active[a] = active[n_active]
                break


@kernel
def _append(z, end, free, offset, length, capacity, k, value):
    """Append one entry to column k, moving a full column to twice the room.

    Room comes in powers of two; ``free[b]`` heads a chain of the pieces of size 2^b that columns
    have left, linked through their first entries.
    """
    if length[k] == capacity[k]:
        new = max(8, 2 * capacity[k])
        size = int(math.log2(new))
        at = free[size]
        if at >= 0:
            free[size] = int(z[at])
        else:
            at = end
            end += new
            if end > z.shape[0]:
                bigger = np.empty(end + z.shape[0] // 2)
                bigger[:at] = z[:at]
                z = bigger
        for a in range(length[k]):
            z[at + a] = z[offset[k] + a]
        if capacity[k] > 0:
            z[offset[k]] = free[size - 1]
            free[size - 1] = offset[k]
        offset[k] = at
        capacity[k] = new
    z[offset[k] + length[k]] = value
    length[k] += 1
    return z, end


@kernel
def ascend(
    update, family, hyper, X, links, birth, log_weight, log_total, log_alpha, birth_floor, cone,
    natural, slot, z, offset, length, score, stats,
):  # fmt: skip
    """Rebuild Z first to last; with ``update``, update each row along the way, filling ``cone``.

    Numbers the live tables (``slot``) and sums their statistics. Returns the pool of columns (a new
    one if it grew or shrank), the number of tables, and the bound's sum q(c_i) (log p - log q).
    """
    N, W = links.shape
    active = np.empty(N, np.int64)
    last = np.empty(N, np.int64)  # last customer that can sit at the table
    capacity = np.zeros(N, np.int64)
    new_slot = np.full(N, -1, np.int64)
    free = np.full(64, -1, np.int64)
    length[:] = 0
    n_active = 0
    n_tables = 0
    end = 0
    link_term = 0.0
    for i in range(N):
        start = max(0, i - W)
        if update:
            _update_row(
                i, links, birth, log_weight, log_total, log_alpha, birth_floor, cone, natural, slot,
                active, n_active, z, offset, length, score,
            )  # fmt: skip
        row = min(i, log_weight.shape[0] - 1)
        low = i
        for d in range(start - i + W, W):
            a = links[i, d]
            if a > 0.0:
                low = min(low, i - W + d)
                link_term += a * (log_weight[row, d] - log_total[i] - math.log(a))
        kept = 0
        for a in range(n_active):
            k = active[a]
            if i - last[k] > W:
                continue  # no row within reach can sit there
            active[kept] = k
            kept += 1
            value = 0.0
            at, n = max(k, low), min(i, k + length[k]) - max(k, low)
            if n > 0:
                value = dot(links[i, at - i + W :], z[offset[k] + at - k :], n)
            if value >= NEGLIGIBLE:
                for _ in range(i - last[k] - 1):
                    z, end = _append(z, end, free, offset, length, capacity, k, 0.0)
                z, end = _append(z, end, free, offset, length, capacity, k, value)
                last[k] = i
                add_stats(family, hyper, X[i], value, stats[new_slot[k]])
        n_active = kept
        if birth[i] > 0.0:
            link_term += birth[i] * (log_alpha - log_total[i] - math.log(birth[i]))
            active[n_active] = i
            n_active += 1
            last[i] = i
            new_slot[i] = n_tables
            stats[n_tables] = 0.0
            add_stats(family, hyper, X[i], birth[i], stats[n_tables])
            n_tables += 1
            z, end = _append(z, end, free, offset, length, capacity, i, birth[i])
    slot[:] = new_slot
    if z.shape[0] > 4 * end + 64:  # the first sweep from singletons needs far more than the rest
        z = z[: 2 * end].copy()
    return z, n_tables, link_term


@kernel
def merge_gains(
    family, hyper, links, birth, log_weight, log_total, log_alpha, slot, z, offset, length, stats,
    n_tables, post, out_gain, out_target,
):  # fmt: skip
    """Screen merges: the best earlier table for each opener, and the approximate gain.

    Opener k would link into table l instead of opening k: the collapsed marginals of the summed
    statistics, plus the row's new link term, minus its old one. Exact if k's customers sit nowhere
    else. ``out_gain`` is -inf if customer k opens no live table.
    """
    N, W = links.shape
    P = stats.shape[1]
    both = np.empty(P)
    alone = np.empty(n_tables)
    opener = np.empty(n_tables, np.int64)
    out_gain[:] = -np.inf
    out_target[:] = -1
    for k in range(N):
        if birth[k] > 0.0:
            opener[slot[k]] = k
    for m in range(n_tables):
        posterior(family, hyper, stats[m], post)
        alone[m] = post[0]
    for m in range(n_tables):
        k = opener[m]
        start = max(0, k - W)
        row = min(k, log_weight.shape[0] - 1)
        old = birth[k] * (log_alpha - log_total[k] - math.log(birth[k]))
        for d in range(start - k + W, W):
            if links[k, d] > 0.0:
                old += links[k, d] * (log_weight[row, d] - log_total[k] - math.log(links[k, d]))
        for o in range(m):
            l = opener[o]
            if l + length[l] <= start:
                continue
            mass = 0.0
            for j in range(max(l, start), min(k, l + length[l])):
                mass += math.exp(log_weight[row, j - k + W] - log_total[k]) * z[offset[l] + j - l]
            if mass <= 0.0:
                continue
            for p in range(P):
                both[p] = stats[m, p] + stats[o, p]
            posterior(family, hyper, both, post)
            gain = post[0] - alone[m] - alone[o] + math.log(mass) - old
            if gain > out_gain[k]:
                out_gain[k] = gain
                out_target[k] = l


@kernel
def relink(k, l, links, birth, log_weight, z, offset, length):
    """Let customer k, instead of opening a table, link to the customers of table l."""
    W = links.shape[1]
    start = max(0, k - W)
    row = min(k, log_weight.shape[0] - 1)
    top = -np.inf
    for j in range(max(l, start), min(k, l + length[l])):
        if z[offset[l] + j - l] > 0.0:
            top = max(top, log_weight[row, j - k + W])
    total = 0.0
    for j in range(start, k):
        w = 0.0
        if l <= j < l + length[l]:
            w = math.exp(log_weight[row, j - k + W] - top) * z[offset[l] + j - l]
        links[k, j - k + W] = w
        total += w
    for j in range(start, k):
        links[k, j - k + W] /= total
    birth[k] = 0.0
