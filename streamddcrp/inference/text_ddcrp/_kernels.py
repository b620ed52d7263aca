"""What a document says about the tables: equations (1), (2a) and (2b)."""

import math

import numpy as np

from streamddcrp._numerics import leaf_njit, uncounted_njit
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
    N_SLOTS,
    N_WORDS,
    NEXT_ID,
    P_CHANGE,
    P_NEW,
    SCORE,
    SUM_DF,
    TOTAL,
)
from streamddcrp.inference.text_ddcrp._kernels_tables import places

__all__ = ["best_of", "describe", "weigh", "word_scale"]

LARGE = 1e100  # a product above is scaled down


@leaf_njit
def power(x, n):
    """x^n for a whole number n >= 0."""
    out = 1.0
    while n > 0:
        if n & 1:
            out *= x
        x *= x
        n >>= 1
    return out


@leaf_njit
def word_scale(config, counts):
    """Return what (df_w + b) is multiplied by to give p_w (1), V being 1,000 at least."""
    return 1.0 / (counts[SUM_DF] + config.smoothing * max(counts[N_WORDS] + 1, LEAST_WORDS))


@leaf_njit
def relative_new(config, B, U):
    """Return the U-th root of the part of a new table in (2b)."""
    h = 0.5 * (U - 1)
    return (B + config.discount * h) / (B + h)


@leaf_njit
def spread(config, tables, B, k, U):
    """Return B + d u_k + delta, and what is left of (2b) beside it: (B + n_k + (U - 1) / 2)."""
    h = 0.5 * (U - 1)
    return B + config.discount * (tables.n_words[k] + h), B + tables.n_tokens[k] + h


@uncounted_njit
def weigh_short(config, words, postings, tables, counts, sums, scratch, doc, U):
    """Weigh tables for a document of few words, looking at those that hold one alone."""
    d, B, scale = config.discount, sums[CONCENTRATION], word_scale(config, counts)
    product, inverse, weight = scratch.product, scratch.inverse, scratch.weight
    touched, table, copies = scratch.touched, postings.table, postings.copies
    starts, dfs, smoothing, mass = words.start, words.df, config.smoothing, tables.mass
    gone = scratch.gone
    n = 0
    unit = 1.0 / (sums[ALPHA] * sums[GROWTH])
    per_new = 1.0 / relative_new(config, B, U)
    for j in range(U):
        w = doc[j]
        df = dfs[w] if w >= 0 else 0
        if df - gone[j] <= 0:
            continue
        per_p = 1.0 / ((df - gone[j] + smoothing) * scale)
        start = starts[w]
        for p in range(start, start + places(words, counts, w)):
            if copies[p] == 0:  # none, or of the table that the document was lifted from
                continue
            k = table[p]
            if product[k] == 0.0:  # not touched yet
                up, down = spread(config, tables, B, k, U)
                inverse[k] = 1.0 / up
                rest = up / down * per_new
                product[k] = max(mass[k] * unit, 1e-100) * power(rest, U)
                touched[n] = k
                n += 1
            product[k] *= 1.0 + (copies[p] - d) * per_p * inverse[k]
    for i in range(n):
        k = touched[i]
        weight[k] = product[k]
        product[k] = 0.0
    return n


@leaf_njit
def multiply(copies, d, per_p, inverse, product):
    """Multiply by the factors of a wide word, slot by slot."""
    for k in range(len(copies)):
        above = copies[k] - d
        above = above if above > 0.0 else 0.0
        product[k] *= 1.0 + above * per_p * inverse[k]


@uncounted_njit
def weigh_long(config, words, postings, tables, counts, sums, scratch, doc, U):
    """Weigh tables for a document of many words, which most of them share."""
    d, B, scale = config.discount, sums[CONCENTRATION], word_scale(config, counts)
    product, inverse, weight = scratch.product, scratch.inverse, scratch.weight
    copies, touched = postings.copies, scratch.touched
    unit = 1.0 / (sums[ALPHA] * sums[GROWTH])
    per_new = 1.0 / relative_new(config, B, U)
    for i in range(counts[N_LIVE]):
        k = tables.live[i]
        up, down = spread(config, tables, B, k, U)
        inverse[k], product[k], weight[k] = 1.0 / up, 1.0, U * math.log(up / down * per_new)
    for j in range(U):
        w = doc[j]
        df = words.df[w] - scratch.gone[j] if w >= 0 else 0
        if df > 0:
            start, n = words.start[w], places(words, counts, w)
            per_p = 1.0 / ((df + config.smoothing) * scale)
            if words.wide[w]:
                multiply(copies[start : start + n], d, per_p, inverse, product)
            else:
                for p in range(start, start + n):
                    if copies[p] > 0:
                        k = postings.table[p]
                        product[k] *= 1.0 + (copies[p] - d) * per_p * inverse[k]
        if j % CHUNK == CHUNK - 1:
            for i in range(counts[N_LIVE]):
                k = tables.live[i]
                if product[k] > LARGE:
                    product[k] /= LARGE / 2.0
                    weight[k] += math.log(LARGE / 2.0)
    n, top = 0, 0.0
    for i in range(counts[N_LIVE]):
        k = tables.live[i]
        if product[k] != 1.0:
            weight[k] += math.log(product[k] * max(tables.mass[k] * unit, 1e-100))
            top = max(top, weight[k])
            touched[n] = k
            n += 1
        product[k] = 0.0
    for i in range(n):
        weight[touched[i]] = math.exp(weight[touched[i]] - top)
    return n, top


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
    if U > CHUNK:
        return weigh_long(config, words, postings, tables, counts, sums, scratch, doc, U)
    n = weigh_short(config, words, postings, tables, counts, sums, scratch, doc, U)
    return n, 0.0


@leaf_njit
def before(tables, weight, k, other):
    """Tell whether table ``k`` weighs more than another one, or as much and is older."""
    if other < 0 or weight[k] > weight[other]:
        return True
    return weight[k] == weight[other] and tables.id[k] < tables.id[other]


@uncounted_njit
def best_of(tables, scratch, n):
    """Return the slots of the largest weight and of the second; -1 where there is none."""
    best = second = np.int64(-1)
    weight = scratch.weight
    for i in range(n):
        k = np.int64(scratch.touched[i])
        if before(tables, weight, k, best):
            best, second = k, best
        elif before(tables, weight, k, second):
            second = k
    return best, second


@leaf_njit
def weigh_alone(config, tables, B, root, unit, U, ratio, out):
    """Write the weights by (2b) alone of all slots, by columns; those of free slots are zero."""
    d, h, mass, n_words, n_tokens = (
        config.discount, 0.5 * (U - 1), tables.mass, tables.n_words, tables.n_tokens,
    )  # fmt: skip
    for k in range(len(out)):
        out[k] = mass[k] * unit
        ratio[k] = (B + d * (n_words[k] + h)) / ((B + n_tokens[k] + h) * root)
    while U > 0:
        if U & 1:
            for k in range(len(out)):
                out[k] *= ratio[k]
        U >>= 1
        if U > 0:
            for k in range(len(out)):
                ratio[k] *= ratio[k]


@leaf_njit
def sum_of(x):
    """Add numbers up in four lanes, which is faster than one after the other."""
    a = b = c = d = 0.0
    whole = len(x) // 4 * 4
    for i in range(0, whole, 4):
        a, b, c, d = a + x[i], b + x[i + 1], c + x[i + 2], d + x[i + 3]
    for i in range(whole, len(x)):
        a += x[i]
    return a + b + (c + d)


@uncounted_njit
def describe(config, words, tables, counts, sums, scratch, doc, U, n, top, best, out):
    """Write the predictions for a document that `weigh` weighed, by column of the output.

    Leaves the weights of all live tables, those without its words too, in ``scratch.inverse``.
    """
    B, last, new = sums[CONCENTRATION], counts[LAST], math.exp(-top)
    root, unit = relative_new(config, B, U), new / (sums[ALPHA] * sums[GROWTH])
    all_weights = scratch.inverse[: counts[N_SLOTS]]
    weigh_alone(config, tables, B, root, unit, U, scratch.ratio, all_weights)
    for i in range(n):
        all_weights[scratch.touched[i]] = scratch.weight[scratch.touched[i]]
    total, of_last = new + sum_of(all_weights), all_weights[last] if last >= 0 else 0.0
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
