"""What a document says about the tables: equations (1), (2a) and (2b)."""

import math

import numpy as np

from streamddcrp._numerics import uncounted_njit
from streamddcrp.inference.text_ddcrp._kernels_layout import (
    ALPHA,
    CHUNK,
    CONCENTRATION,
    GROWTH,
    LABEL,
    LABEL_PROB,
    LAST,
    LEAST_WORDS,
    LIVE_TABLES,
    N_LIVE,
    N_WORDS,
    NEXT_ID,
    P_CHANGE,
    P_NEW,
    SCORE,
    SUM_DF,
    TOTAL,
)

__all__ = ["best_of", "describe", "weigh", "word_scale"]


@uncounted_njit
def power(x, n):
    """x^n for a whole number n >= 0."""
    out = 1.0
    while n > 0:
        if n & 1:
            out *= x
        x *= x
        n >>= 1
    return out


@uncounted_njit
def word_scale(config, counts):
    """Return what (df_w + b) is multiplied by to give p_w (1), V being 1,000 at least."""
    return 1.0 / (counts[SUM_DF] + config.smoothing * max(counts[N_WORDS] + 1, LEAST_WORDS))


@uncounted_njit
def relative_new(config, B, U):
    """Return the U-th root of the part of a new table in (2b)."""
    h = 0.5 * (U - 1)
    return (B + config.discount * h) / (B + h)


@uncounted_njit
def spread(config, tables, B, k, U):
    """Return B + d u_k + delta, and what is left of (2b) beside it: (B + n_k + (U - 1) / 2)."""
    h = 0.5 * (U - 1)
    return B + config.discount * (tables.n_words[k] + h), B + tables.n_tokens[k] + h


@uncounted_njit
def weigh(config, words, postings, tables, counts, sums, scratch, doc, U):
    """Weigh the tables that share a word with a document, against a new one.

    Leaves the slots in ``scratch.touched``, their weights exp(s_k - top) in ``scratch.weight``;
    that of a new table is exp(-top).

    Returns
    -------
    n : int
        How many they are.
    top : float
        The weights are to be multiplied by exp(top), which is 1 for a short document.
    """
    d, B, scale = config.discount, sums[CONCENTRATION], word_scale(config, counts)
    product, inverse, weight = scratch.product, scratch.inverse, scratch.weight
    touched, table, copies = scratch.touched, postings.table, postings.copies
    starts, dfs, smoothing, mass = words.start, words.df, config.smoothing, tables.mass
    gone = scratch.gone
    n, n_first = 0, min(U, CHUNK)
    unit = 1.0 / (sums[ALPHA] * sums[GROWTH])
    per_new = 1.0 / relative_new(config, B, U)
    for j in range(U):
        if j % CHUNK == 0 and j > 0:
            for i in range(n):
                k = touched[i]
                weight[k] += math.log(product[k])
                product[k] = 1.0
        w = doc[j]
        df = dfs[w] if w >= 0 else 0
        if df - gone[j] <= 0:
            continue
        per_p = 1.0 / ((df - gone[j] + smoothing) * scale)
        start = starts[w]
        for p in range(start, start + df):
            if copies[p] == 0:  # of the table that the document was lifted from
                continue
            k = table[p]
            if product[k] == 0.0:  # not touched yet
                up, down = spread(config, tables, B, k, U)
                inverse[k] = 1.0 / up
                rest = up / down * per_new
                product[k] = max(mass[k] * unit, 1e-100) * power(rest, n_first)
                weight[k] = (U - CHUNK) * math.log(rest) if U > CHUNK else 0.0
                touched[n] = k
                n += 1
            product[k] *= 1.0 + (copies[p] - d) * per_p * inverse[k]
    if U <= CHUNK:
        for i in range(n):
            k = touched[i]
            weight[k] = product[k]
            product[k] = 0.0
        return n, 0.0
    top = 0.0
    for i in range(n):
        k = touched[i]
        weight[k] += math.log(product[k])
        product[k] = 0.0
        top = max(top, weight[k])
    for i in range(n):
        weight[touched[i]] = math.exp(weight[touched[i]] - top)
    return n, top


@uncounted_njit
def best_of(tables, scratch, n):
    """Return the slot of the largest weight, the oldest table where there are several; or -1."""
    best, weight = -1, scratch.weight
    for i in range(n):
        k = scratch.touched[i]
        ties = best >= 0 and weight[k] == weight[best]
        if best < 0 or weight[k] > weight[best] or (ties and tables.id[k] < tables.id[best]):
            best = k
    return best


@uncounted_njit
def describe(config, words, tables, counts, sums, scratch, doc, U, n, top, best, out):
    """Write the predictions for a document that `weigh` weighed, by column of the output.

    Leaves the weights of all live tables, those without its words too, in ``scratch.inverse``.
    """
    B, product = sums[CONCENTRATION], scratch.product
    last, of_last, new = counts[LAST], 0.0, math.exp(-top)
    total = new
    for i in range(n):
        k = scratch.touched[i]
        total += scratch.weight[k]
        product[k] = 1.0
        scratch.inverse[k] = scratch.weight[k]
        if k == last:
            of_last = scratch.weight[k]
    unit = new / (sums[ALPHA] * sums[GROWTH])
    root = relative_new(config, B, U)
    for i in range(counts[N_LIVE]):
        k = tables.live[i]
        if product[k] == 0.0:  # none of the document's words: (2b) alone
            up, down = spread(config, tables, B, k, U)
            weight = tables.mass[k] * unit * power(up / (down * root), U)
            total += weight
            scratch.inverse[k] = weight
            if k == last:
                of_last = weight
        product[k] = 0.0
    scale = word_scale(config, counts)
    base, factor = U * math.log(root), 1.0
    for j in range(U):
        df = words.df[doc[j]] if doc[j] >= 0 else 0
        factor *= (df + config.smoothing) * scale
        if j % CHUNK == CHUNK - 1 or j == U - 1:
            base += math.log(factor)
            factor = 1.0
    prior = math.log(sums[ALPHA] / (sums[ALPHA] + sums[TOTAL] / sums[GROWTH]))
    opens = best < 0 or scratch.weight[best] <= new
    out[LABEL] = counts[NEXT_ID] if opens else tables.id[best]
    out[LABEL_PROB] = (new if opens else scratch.weight[best]) / total
    out[SCORE] = -(math.log(total) + top + base + prior)
    out[P_NEW] = new / total
    out[P_CHANGE] = 1.0 - of_last / total if last >= 0 else np.nan
    out[LIVE_TABLES] = counts[N_LIVE]
