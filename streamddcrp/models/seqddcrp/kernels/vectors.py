"""Sums over window rows and their possible columns, eight rows at a time.

Arrays of rows are padded to a multiple of `LANES`. Padding of links is zero and of log weights
-inf; padding of other arrays does not matter.
"""

import math

import numpy as np

from streamddcrp.compilation import kernel, leaf
from streamddcrp.lanes import (
    LANES,
    between,
    floored,
    lanes,
    larger,
    largest_of,
    load,
    store,
    sum_of,
    sums_of,
)
from streamddcrp.numerics import exp_lanes, log_lanes, natural, padded

NEVER = -1e300  # log of a probability that counts as zero


@leaf
def weigh_columns(out, weights, values, active, n_active, n):
    """out[j] = sum over active columns m of weights[m] * values[m, j], for j < n."""
    last = n_active - 1
    for at in range(0, n_active, 4):  # after the last one, repeat it with zero weight
        a, b = natural(active[at]), natural(active[min(at + 1, last)])
        c, d = natural(active[min(at + 2, last)]), natural(active[min(at + 3, last)])
        p, q = weights[a], weights[b] if at < last else 0.0
        r, s = weights[c] if at + 1 < last else 0.0, weights[d] if at + 2 < last else 0.0
        for j in range(0, n, LANES):
            one = p * load(values[a], j) + q * load(values[b], j)
            both = one + (r * load(values[c], j) + s * load(values[d], j))
            store(out, j, both if at == 0 else load(out, j) + both)


@leaf
def weigh_few(out, weights, values, active, n_active, sole, n):
    """As `weigh_columns`, if most rows j have values[m, j] only at their column ``sole[j]``."""
    for j in range(n):
        if sole[j] >= 0:
            out[j] = weights[sole[j]] * values[sole[j], j]
            continue
        out[j] = 0.0
        for at in range(n_active):
            out[j] += weights[active[at]] * values[active[at], j]
    for j in range(n, padded(n)):
        out[j] = 0.0


@kernel(_nrt=False)
def find_sole(sole, values, active, n_active, n):
    """Find the only column of each of ``n`` rows with a value, -1: several; count the former."""
    for j in range(n):
        sole[j] = -2
    for at in range(n_active):
        column = values[active[at]]
        for j in range(n):
            if column[j] > 0.0:
                sole[j] = active[at] if sole[j] == -2 else -1
    n_sole = 0
    for j in range(n):
        n_sole += sole[j] >= 0
    return n_sole


@kernel(_nrt=False)
def mix_few(values, links, active, n_active, r):
    """values[m, r] = sum of links[j] * values[m, j] over j < r, with few nonzero links."""
    for at in range(n_active):
        values[active[at], r] = 0.0
    for j in range(r):
        if links[j] > 0.0:
            for at in range(n_active):
                values[active[at], r] += links[j] * values[active[at], j]


@leaf
def add_scores(share, message, log_weight, n):
    """share[j] = log_weight[j] + message[j], for j < n; return the largest."""
    top = lanes(-np.inf)
    for j in range(0, n, LANES):
        score = load(log_weight, j) + load(message, j)
        store(share, j, score)
        top = larger(top, score)
    return largest_of(top)


@leaf
def rest_of_options(share, message, start, stop):
    """Remove options from ``start`` to ``stop``, padded to a multiple of `LANES`."""
    for j in range(start, stop):
        share[j], message[j] = -np.inf, 0.0


@leaf
def exp_and_sum(share, message, start, stop, top, floor):
    """Replace scores by exp(score - top), 0 below ``floor``; sum them, and them times messages."""
    total, mean = lanes(0.0), lanes(0.0)
    for j in range(start, stop, LANES):
        part = floored(exp_lanes(load(share, j) - top), floor)
        store(share, j, part)
        total = total + part
        mean = mean + part * load(message, j)
    return sum_of(total), sum_of(mean)


@leaf
def floor_and_sums(share, message, n, floor):
    """Set shares below ``floor`` to zero; return the sum, and that of shares times messages."""
    total, mean = lanes(0.0), lanes(0.0)
    for j in range(0, n, LANES):
        part = floored(load(share, j), floor)
        store(share, j, part)
        total = total + part
        mean = mean + part * load(message, j)
    return sum_of(total), sum_of(mean)


@leaf
def largest(values, n):
    """Largest of the first ``n`` entries; padding must not exceed it."""
    top = lanes(-np.inf)
    for j in range(0, n, LANES):
        top = larger(top, load(values, j))
    return largest_of(top)


@leaf
def exp_less(out, values, less, n):
    """out[j] = exp(values[j] - less), for j < n; return the sum."""
    total = lanes(0.0)
    for j in range(0, n, LANES):
        part = exp_lanes(load(values, j) - less)
        store(out, j, part)
        total = total + part
    return sum_of(total)


@leaf
def log_mean(weights, least, logs, n):
    """Log of the mean of exp(logs[j]), j < n, with weights + least."""
    top, total, whole = -np.inf, lanes(0.0), lanes(0.0)
    for j in range(n):
        top = max(top, logs[j])
    for j in range(0, n, LANES):
        weight = load(weights, j) + least
        total = total + between(weight * exp_lanes(load(logs, j) - top), 0, n - j)
        whole = whole + between(weight, 0, n - j)
    return top + math.log(sum_of(total) / sum_of(whole))


@leaf
def scaled_less(out, values, less, factor, n):
    """out[j] = factor (values[j] - less), for j < n."""
    for j in range(0, n, LANES):
        store(out, j, factor * (load(values, j) - less))


@leaf
def shift(out, values, n, stop):
    """out[j] = values[n + j], for j < stop."""
    if n % LANES == 0:
        for j in range(0, stop, LANES):
            store(out, j, load(values, n + j))
    else:
        for j in range(stop):
            out[j] = values[n + j]


@leaf
def sum_exp(values, start, stop):
    """Sum of the exps of the entries from ``start`` to ``stop``."""
    total = lanes(0.0)
    for j in range(start // LANES * LANES, stop, LANES):
        total = total + between(exp_lanes(load(values, j)), start - j, stop - j)
    return sum_of(total)


@leaf
def entropy_terms(q, log_p, n):
    """Sum of q (log p - log q) over the first ``n`` entries; beyond them ``q`` is zero."""
    total = lanes(0.0)
    for j in range(0, n, LANES):
        part = load(q, j)
        total = total + part * (larger(load(log_p, j), lanes(NEVER)) - log_lanes(part))
    return sum_of(total)


@leaf
def take_logs(values, n):
    """Replace the first ``n`` values by their logs."""
    for j in range(0, n, LANES):
        store(values, j, log_lanes(load(values, j)))


@leaf
def add_logs(out, values, start, stop):
    """Add the logs of the values from ``start`` to ``stop``."""
    for j in range(start // LANES * LANES, stop, LANES):
        more = between(log_lanes(load(values, j)), start - j, stop - j)
        store(out, j, load(out, j) + more)


@leaf
def add_scaled(out, factor, values, start, stop):
    """Add ``factor`` times the values from ``start`` to ``stop``."""
    for j in range(start, stop, LANES):
        store(out, j, load(out, j) + factor * load(values, j))


@leaf
def dot_one(a, b, n):
    """Dot product of ``n`` entries, with zero padding."""
    total = lanes(0.0)
    for j in range(0, n, LANES):
        total = total + load(a, j) * load(b, j)
    return sum_of(total)


@leaf
def dot_four(x, a, b, c, d, n):
    """Dot products of ``n`` entries of ``x`` with four others, with zero padding."""
    p, q, r, s = lanes(0.0), lanes(0.0), lanes(0.0), lanes(0.0)
    for j in range(0, n, LANES):
        value = load(x, j)
        p = p + value * load(a, j)
        q = q + value * load(b, j)
        r = r + value * load(c, j)
        s = s + value * load(d, j)
    return sum_of(p), sum_of(q), sum_of(r), sum_of(s)


@leaf
def dot_rows(matrix, row, values, n):
    """Dot products of the first ``n`` entries of `LANES` rows of a matrix with the same values."""
    links = matrix[row:]
    a, b, c, d = lanes(0.0), lanes(0.0), lanes(0.0), lanes(0.0)
    e, f, g, h = lanes(0.0), lanes(0.0), lanes(0.0), lanes(0.0)
    for j in range(0, n, LANES):
        value = load(values, j)
        a = a + value * load(links[0], j)
        b = b + value * load(links[1], j)
        c = c + value * load(links[2], j)
        d = d + value * load(links[3], j)
        e = e + value * load(links[4], j)
        f = f + value * load(links[5], j)
        g = g + value * load(links[6], j)
        h = h + value * load(links[7], j)
    return sums_of(a, b, c, d, e, f, g, h)


@kernel(fastmath={"reassoc", "contract"})
def dot_rest(a, b, n):
    """Sum of a[j] (1 - b[j]) over the first ``n`` entries."""
    total = 0.0
    for j in range(n):
        total += a[j] * (1.0 - b[j])
    return total
