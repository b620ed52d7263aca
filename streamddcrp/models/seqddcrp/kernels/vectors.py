"""Sums over the active columns, four at a time, which reads what they share only once."""

from streamddcrp.compilation import kernel, leaf
from streamddcrp.numerics import natural


@leaf
def weigh_columns(out, weights, values, active, n_active, n):
    """out[j] = sum over active columns m of weights[m] * values[m, j], for j < n."""
    for j in range(n):
        out[j] = 0.0
    last = n_active - 1
    for at in range(0, n_active, 4):  # beyond the last one, it again with no weight
        a, b = active[at], active[min(at + 1, last)]
        c, d = active[min(at + 2, last)], active[min(at + 3, last)]
        q = weights[b] if at < last else 0.0
        r = weights[c] if at + 1 < last else 0.0
        s = weights[d] if at + 2 < last else 0.0
        add_four(out, weights[a], values[a], q, values[b], r, values[c], s, values[d], n)


@leaf
def weigh_few(out, weights, values, active, n_active, sole, n):
    """Do `weigh_columns` where most rows j have values[m, j] at their column ``sole[j]`` only."""
    for j in range(n):
        if sole[j] >= 0:
            out[j] = weights[sole[j]] * values[sole[j], j]
            continue
        out[j] = 0.0
        for at in range(n_active):
            out[j] += weights[active[at]] * values[active[at], j]


@kernel(_nrt=False)
def find_sole(sole, values, active, n_active, n):
    """Find the only active column where each of ``n`` rows has a value; -1: it has several.

    Returns
    -------
    int : how many rows have only one
    """
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
    """values[m, r] = sum of links[j] * values[m, j] over j < r, few of which are linked to."""
    for at in range(n_active):
        values[active[at], r] = 0.0
    for j in range(r):
        if links[j] > 0.0:
            for at in range(n_active):
                values[active[at], r] += links[j] * values[active[at], j]


@leaf
def add_four(out, p, a, q, b, r, c, s, d, n):
    """Add p a + q b + r c + s d to the first ``n`` entries."""
    for j in range(n):
        out[j] += (p * a[j] + q * b[j]) + (r * c[j] + s * d[j])


@leaf
def add_scaled(out, factor, values, start, stop):
    """Add ``factor`` times the values from ``start`` to ``stop``."""
    for j in range(natural(start), natural(stop)):
        out[j] += factor * values[j]


@kernel(fastmath={"reassoc", "contract"})
def dot_four(x, a, b, c, d, n):
    """Dot products of the first ``n`` entries of ``x`` with four others."""
    p, q, r, s = 0.0, 0.0, 0.0, 0.0
    for j in range(n):
        p += x[j] * a[j]
        q += x[j] * b[j]
        r += x[j] * c[j]
        s += x[j] * d[j]
    return p, q, r, s


@kernel(fastmath={"reassoc", "contract"})
def dot_rest(a, b, n):
    """Sum of a[j] (1 - b[j]) over the first ``n`` entries."""
    total = 0.0
    for j in range(n):
        total += a[j] * (1.0 - b[j])
    return total


@kernel(fastmath={"reassoc", "contract"})
def share_out(share, total, message, n, links, n_links):
    """Divide the first ``n`` shares by their total, copy the links; return the mean message."""
    scale, mean = 1.0 / total, 0.0
    for j in range(n_links):
        share[j] *= scale
        links[j] = share[j]
        mean += share[j] * message[j]
    for j in range(n_links, n):
        share[j] *= scale
        mean += share[j] * message[j]
    return mean
