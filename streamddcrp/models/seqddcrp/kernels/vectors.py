"""Sums over the active columns, four at a time, which reads what they share only once."""

from streamddcrp.compilation import kernel, leaf


@leaf
def weigh_columns(out, weights, values, active, n_active, n):
    """out[j] = sum over active columns m of weights[m] * values[m, j], for j < n."""
    for j in range(n):
        out[j] = 0.0
    at = 0
    while at + 4 <= n_active:
        a, b, c, d = active[at], active[at + 1], active[at + 2], active[at + 3]
        add_four(
            out, weights[a], values[a], weights[b], values[b], weights[c], values[c], weights[d],
            values[d], n,
        )  # fmt: skip
        at += 4
    for rest in range(at, n_active):
        weight, row = weights[active[rest]], values[active[rest]]
        for j in range(n):
            out[j] += weight * row[j]


@leaf
def add_four(out, p, a, q, b, r, c, s, d, n):
    """Add p a + q b + r c + s d to the first ``n`` entries."""
    for j in range(n):
        out[j] += (p * a[j] + q * b[j]) + (r * c[j] + s * d[j])


@leaf
def add_scaled(out, factor, values, start, stop):
    """Add ``factor`` times the values from ``start`` to ``stop``."""
    for j in range(start, stop):
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
