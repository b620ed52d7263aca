"""What a document says about the tables: docs/math/texts.md (1), (2a), (2b)."""

import math

import numpy as np

from streamddcrp.compilation import column, leaf, uncounted
from streamddcrp.contract import LABEL, LABEL_PROB, LIVE_TABLES, P_CHANGE, P_NEW, SCORE
from streamddcrp.models.text.kernels import layout
from streamddcrp.models.text.kernels.tables import find, places
from streamddcrp.numerics import natural

LARGE = 1e100  # products above, and prior odds below its inverse, are scaled


@leaf
def smoothing(config, sums):
    """Return b of the base measure (1): how many tables more a word is taken to be in."""
    return max(config.smoothing, config.breadth * sums[layout.CONCENTRATION])


@leaf
def word_scale(config, counts, sums):
    """Return what (df_w + b) is multiplied by to give p_w (1), V being 3,000 at least."""
    return 1.0 / (
        counts[layout.SUM_DF]
        + smoothing(config, sums) * max(counts[layout.N_WORDS] + 1, layout.LEAST_WORDS)
    )


@leaf
def relative_new(config, B, U):
    """Return the U-th root of the part of a new table in (2b)."""
    h = 0.5 * (U - 1)
    return (B + config.discount * h) / (B + h)


@column
def prepare(config, tables, sums, U, inverse, ratio, out):
    """Write what does not depend on the words of a document of length ``U``, slot by slot.

    ``inverse`` is 1 / (B + d u_k + delta), ``ratio`` the U-th root of the part of (2b), ``out`` the
    prior odds; these are zero for free slots.
    """
    d, h, mass, n_words, n_tokens = (
        config.discount, 0.5 * (U - 1), tables.mass, tables.n_words, tables.n_tokens,
    )  # fmt: skip
    B = sums[layout.CONCENTRATION]
    unit = 1.0 / (sums[layout.ALPHA] * sums[layout.GROWTH])
    per_new = 1.0 / relative_new(config, B, U)
    for k in range(len(out)):
        up = B + d * (n_words[k] + h)
        down = B + n_tokens[k] + h
        per_both = 1.0 / (up * down)  # one division for two
        inverse[k], ratio[k] = down * per_both, up * up * per_both * per_new
        out[k] = mass[k] * unit


@leaf
def raise_by(out, ratio, U, n):
    """Multiply ``out`` by ``ratio`` to the power of the last ``n`` bits of U; leave ratio^(2^n)."""
    for _ in range(n):
        if U & 1:
            for k in range(len(out)):
                out[k] *= ratio[k]
        for k in range(len(ratio)):
            ratio[k] *= ratio[k]
        U >>= 1


@uncounted
def weigh_short(config, words, postings, tables, counts, sums, scratch, doc, U, everything):
    """Weigh tables for a document of few words: only those that hold one of them."""
    d, B, scale = config.discount, sums[layout.CONCENTRATION], word_scale(config, counts, sums)
    product, inverse, weight = scratch.product, scratch.inverse, scratch.weight
    touched, table, copies = scratch.touched, postings.table, postings.copies
    starts, dfs, mass, b = words.start, words.df, tables.mass, smoothing(config, sums)
    n_words, n_tokens, gone, h = tables.n_words, tables.n_tokens, scratch.gone, 0.5 * (U - 1)
    n, slots = 0, counts[layout.N_SLOTS]
    unit = 1.0 / (sums[layout.ALPHA] * sums[layout.GROWTH])
    per_new = 1.0 / relative_new(config, B, U)
    if everything:
        ratio, out = scratch.ratio[:slots], weight[:slots]
        prepare(config, tables, sums, U, inverse[:slots], ratio, out)
        bits = 0
        while U >> bits:
            bits += 1
        raise_by(out, ratio, U, bits)
    for j in range(U):
        w = natural(doc[j])
        df = dfs[w] if doc[j] >= 0 else 0
        if df - gone[j] <= 0:
            continue
        per_p = 1.0 / ((df - gone[j] + b) * scale)
        start = starts[w]
        for p in range(natural(start), natural(start + places(words, counts, w))):
            if copies[p] == 0:  # none, or of the table that the document was lifted from
                continue
            k = natural(table[p])
            if product[k] == 0.0:  # not touched yet
                if everything:
                    odds = weight[k]
                else:
                    up, odds = B + d * (n_words[k] + h), mass[k] * unit
                    inverse[k] = 1.0 / up
                    rest, bits = up / (B + n_tokens[k] + h) * per_new, U
                    while bits > 0:
                        odds *= rest if bits & 1 else 1.0
                        rest *= rest
                        bits >>= 1
                product[k] = max(odds, 1e-100)
                touched[n] = k
                n += 1
            product[k] *= 1.0 + (copies[p] - d) * per_p * inverse[k]
    for i in range(n):
        k = natural(touched[i])
        weight[k] = product[k]
        product[k] = 0.0
    return n


@leaf
def multiply(copies, d, per_p, inverse, product):
    """Multiply by the factors of a wide word, slot by slot."""
    for k in range(len(copies)):
        above = copies[k] - d
        above = above if above > 0.0 else 0.0
        product[k] *= 1.0 + above * per_p * inverse[k]


@leaf
def settle(product, out, ratio, shift):
    """Multiply ``out`` by ``ratio``; keep the numbers in range, ``shift`` counting LARGE."""
    for k in range(len(out)):
        much, x = product[k], out[k] * ratio[k]
        product[k] = much * (1.0 / LARGE) if much > LARGE else much
        out[k] = x * LARGE if x < 1.0 / LARGE else x
        shift[k] += (1.0 if much > LARGE else 0.0) - (1.0 if x < 1.0 / LARGE else 0.0)


@uncounted
def weigh_long(config, words, postings, tables, counts, sums, scratch, doc, U):
    """Weigh tables for a document of many words, which most of them share."""
    d, scale, slots = config.discount, word_scale(config, counts, sums), counts[layout.N_SLOTS]
    product, inverse, weight = scratch.product[:slots], scratch.inverse[:slots], scratch.weight
    ratio, shift, touched = scratch.ratio[:slots], scratch.shift[:slots], scratch.touched
    table, copies, weight = postings.table, postings.copies, weight[:slots]
    b = smoothing(config, sums)
    product[:], shift[:] = 1.0, 0.0
    prepare(config, tables, sums, U, inverse, ratio, weight)
    raise_by(weight, ratio, U, layout.BITS)
    for j in range(U):
        w = natural(doc[j])
        df = words.df[w] - scratch.gone[j] if doc[j] >= 0 else 0
        if df > 0:
            start, n = words.start[w], places(words, counts, w)
            per_p = 1.0 / ((df + b) * scale)
            if words.wide[w]:
                multiply(copies[start : start + n], d, per_p, inverse, product)
            else:
                for p in range(natural(start), natural(start + n)):
                    if copies[p] > 0:
                        k = natural(table[p])
                        product[k] *= 1.0 + (copies[p] - d) * per_p * inverse[k]
        if j % layout.CHUNK == layout.CHUNK - 1:
            settle(product, weight, ratio, shift)
    n, top = 0, 0.0
    for i in range(counts[layout.N_LIVE]):
        k = natural(tables.live[i])
        if product[k] != 1.0 or shift[k] > 0.0:
            top = max(top, shift[k]) if weight[k] > 0.0 else top
            touched[n] = k
            n += 1
    for k in range(slots):
        behind = top - shift[k]
        x = 1.0 if behind == 0.0 else (1.0 / LARGE if behind == 1.0 else 0.0)
        weight[k] *= product[k] * x
        product[k] = 0.0
    return n, top * math.log(LARGE)


@uncounted
def weigh(config, words, postings, tables, counts, sums, scratch, doc, U, everything):
    """Weigh the tables that share a word with a document, against a new one.

    Leaves the slots in ``scratch.touched``, their weights exp(s_k - top) in ``scratch.weight``, and
    with ``everything`` those of the others, by (2b) alone. Returns how many they are, and top.
    """
    if U > layout.CHUNK:
        return weigh_long(config, words, postings, tables, counts, sums, scratch, doc, U)
    n = weigh_short(config, words, postings, tables, counts, sums, scratch, doc, U, everything)
    return n, 0.0


@leaf
def before(tables, weight, k, other):
    """Return whether table ``k`` weighs more than another one, or as much and is older."""
    if other < 0 or weight[k] > weight[other]:
        return True
    return weight[k] == weight[other] and tables.id[k] < tables.id[other]


@uncounted
def best_of(tables, scratch, n):
    """Return the slots of the largest weight and of the second; -1 where there is none."""
    best = second = np.int64(-1)
    weight = scratch.weight
    for i in range(n):
        k = np.int64(scratch.touched[i])
        if best >= 0 and second >= 0 and weight[natural(k)] < weight[natural(second)]:
            continue
        if before(tables, weight, k, best):
            best, second = k, best
        elif before(tables, weight, k, second):
            second = k
    return best, second


@leaf
def sum_of(x):
    """Add numbers up in four lanes, which is faster than one after the other."""
    a = b = c = d = 0.0
    whole = len(x) // 4 * 4
    for i in range(0, whole, 4):
        a, b, c, d = a + x[i], b + x[i + 1], c + x[i + 2], d + x[i + 3]
    for i in range(whole, len(x)):
        a += x[i]
    return a + b + (c + d)


@uncounted
def describe(config, words, tables, counts, sums, scratch, doc, U, top, best, out):
    """Write the predictions for a document that `weigh` weighed, by column of the output."""
    last, new, weight = counts[layout.LAST], math.exp(-top), scratch.weight
    total = new + sum_of(weight[: counts[layout.N_SLOTS]])
    of_last = weight[last] if last >= 0 else 0.0
    root = relative_new(config, sums[layout.CONCENTRATION], U)
    scale = word_scale(config, counts, sums)
    base, factor, b = U * math.log(root), 1.0, smoothing(config, sums)
    for j in range(U):
        df = words.df[natural(doc[j])] if doc[j] >= 0 else 0
        factor *= (df + b) * scale
        if j % layout.CHUNK == layout.CHUNK - 1 or j == U - 1:
            base += math.log(factor)
            factor = 1.0
    prior = math.log(
        sums[layout.ALPHA] / (sums[layout.ALPHA] + sums[layout.TOTAL] / sums[layout.GROWTH])
    )
    opens = best < 0 or weight[best] <= new
    out[LABEL] = counts[layout.NEXT_ID] if opens else tables.id[best]
    out[LABEL_PROB] = (new if opens else weight[best]) / total
    out[SCORE] = -(math.log(total) + top + base + prior)
    out[P_NEW] = new / total
    out[P_CHANGE] = 1.0 - of_last / total if last >= 0 else np.nan
    out[LIVE_TABLES] = counts[layout.N_LIVE]


@uncounted
def learn_concentration(config, words, postings, tables, counts, sums, k, doc, U):
    """Move B towards the stationary point of the predictive density of a document in its table."""
    B, d, scale = sums[layout.CONCENTRATION], config.discount, word_scale(config, counts, sums)
    spread, b, news = B + d * tables.n_words[k], smoothing(config, sums), 0.0
    for j in range(U):
        p = find(words, postings, doc[j], k)
        if p >= 0:
            p_w = (words.df[natural(doc[j])] + b) * scale
            news += B * p_w / (spread * p_w + max(postings.copies[natural(p)] - d, 0.0))
        else:
            news += B / spread
    sums[layout.B_TABLES] += news
    sums[layout.B_TOKENS] += U / (B + tables.n_tokens[k] + 0.5 * U)
    sums[layout.CONCENTRATION] = max(1.0, sums[layout.B_TABLES] / sums[layout.B_TOKENS])
