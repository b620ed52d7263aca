"""Select particles: resampling, exact merging, and the places of copies."""

import numpy as np

from streamddcrp.compilation import kernel
from streamddcrp.particles.kernels.random import uniform


@kernel
def effective_size(weight):
    """Effective sample size, (sum w)^2 / sum w^2."""
    total, squares = 0.0, 0.0
    for w in weight:
        total += w
        squares += w * w
    return total * total / squares


@kernel
def optimal(weight, n, n_keep, u, out_child, out_weight):
    """Keep ``n_keep`` of ``n`` children, docs/math/graphs.md (4): no bias, least squared error.

    With c such that sum_m min(w_m / c, 1) = n_keep, children of weight above c are kept as they
    are; each of the others is kept with probability w_m / c, and then has weight c (Fearnhead and
    Clifford, JRSS B 2003). ``weight`` (>= n,): zeros are never kept; ``u`` in (0, 1). Returns the
    number kept: fewer if fewer have a weight.
    """
    positive, tail = 0, 0.0
    for m in range(n):
        if weight[m] > 0.0:
            positive += 1
            tail += weight[m]
    if positive <= n_keep:
        kept = 0
        for m in range(n):
            if weight[m] > 0.0:
                out_child[kept] = m
                out_weight[kept] = weight[m]
                kept += 1
        return kept
    # From c = total / n_keep down: each round keeps what is above c and so lowers c.
    heavy, c = 0, tail / n_keep
    while True:
        found, rest = 0, 0.0
        for m in range(n):
            if weight[m] > c:
                found += 1
            else:
                rest += weight[m]
        if found <= heavy or found >= n_keep or rest <= 0.0:
            break
        heavy, c = found, rest / (n_keep - found)
    kept, light, upto = 0, 0, 0.0
    to_draw = n_keep - heavy
    waiting = positive - heavy
    for m in range(n):
        if weight[m] > c:
            if kept < n_keep:
                out_child[kept] = m
                out_weight[kept] = weight[m]
                kept += 1
        elif weight[m] > 0.0:
            upto += weight[m] / c
            # rounding may leave the last ones without a place on the grid
            if light < to_draw and (upto > u + light or waiting <= to_draw - light):
                out_child[kept] = m
                out_weight[kept] = c
                kept += 1
                light += 1
            waiting -= 1
    return kept


@kernel
def systematic(weight, u, out_offspring):
    """Draw as many particles as there are by normalised weights, on a grid with one offset."""
    P = len(weight)
    drawn, upto, heaviest = 0, 0.0, 0
    for p in range(P):
        upto += weight[p]
        out_offspring[p] = 0
        while drawn < P and drawn + u < P * upto:
            out_offspring[p] += 1
            drawn += 1
        if weight[p] > weight[heaviest]:
            heaviest = p
    out_offspring[heaviest] += P - drawn


@kernel
def merge_equal(key, weight, n, table, seed, t, purpose):
    """Give the weight of children with equal keys to one of them, drawn by weight; others get 0.

    Equal keys must imply the same future distribution; then no expectation changes. ``key`` (>=
    n,): 64 bits from `hash_of`; ``table``: work space, (a power of two >= 2 n,). Returns the number
    of children that still have a weight.
    """
    table[:] = -1
    mask = np.uint64(len(table) - 1)
    one = np.uint64(1)
    distinct = 0
    for m in range(n):
        if weight[m] <= 0.0:
            continue
        at = key[m] & mask
        while table[at] >= 0 and key[table[at]] != key[m]:
            at = (at + one) & mask
        other = table[at]
        if other < 0:
            table[at] = m
            distinct += 1
            continue
        both = weight[other] + weight[m]
        if uniform(seed, t, m, purpose, 0) * both < weight[m]:
            weight[m] = both
            weight[other] = 0.0
            table[at] = m
        else:
            weight[other] = both
            weight[m] = 0.0
    return distinct


@kernel
def ancestors_of(offspring, out_ancestor):
    """List ancestors in ascending order, once for each offspring; return their number."""
    n = 0
    for p in range(len(offspring)):
        for _ in range(offspring[p]):
            out_ancestor[n] = p
            n += 1
    return n


@kernel
def place_children(ancestor, n, used, out_place):
    """Give each of ``n`` children a particle's place; an ancestor's first child keeps its place.

    Further children take the places of childless particles, so a caller copies only where
    ``out_place[m] != ancestor[m]``. ``ancestor`` is ascending; ``used`` (P,): which are taken.
    """
    used[:] = False
    for m in range(n):
        used[ancestor[m]] = True
    free = 0
    for m in range(n):
        if m == 0 or ancestor[m] != ancestor[m - 1]:
            out_place[m] = ancestor[m]
        else:
            while used[free]:
                free += 1
            used[free] = True
            out_place[m] = free
