"""Themes: the second level, whose customers are stories; docs/math/texts.md (6) to (8).

A story is the set of its words, without those that a quarter of all stories have; a
theme is known by its stories alone, through the postings.
"""

import math

from streamddcrp.compilation import entry, leaf, uncounted
from streamddcrp.models.text.kernels import layout
from streamddcrp.models.text.kernels.events import MANY
from streamddcrp.models.text.kernels.evidence import LARGE, smoothing, word_scale
from streamddcrp.models.text.kernels.tables import list_words, places
from streamddcrp.models.text.kernels.topics import shared_gain

OWN = 1.0  # weight of a link of a story to itself, in links to other stories
# gamma at first, as a part of all words: rather too small, since themes are merged and never split
FIRST = 0.1
# steps of gamma and rounds of merges in a look, and the relative step that is none: with one round
# two sets of broad classes had an ARI of .22 and .17, so .42 and .38
ROUNDS, VISITS, STILL = 12, 2, 0.02
BETWEEN = 1024  # documents between two looks: with 256, a document takes a fifth longer
COMMON = 4  # a word of more than a quarter of the stories tells no theme
FEW = 16  # stories with a word, up to which its gain is a product
LEAST, MOST = 1e-3, 1.0  # at most, a theme is held to be as like all stories as if it had them all


@leaf
def gain_of_word(a, c, e):
    """Return `shared_gain`, in the time of one logarithm where few stories share the word."""
    less, more, product = min(c, e), max(c, e), 1.0
    if less > FEW:
        return shared_gain(a, c, e)
    for r in range(less):
        product *= (a + more + r) / (a + r)
    return math.log(product)


@leaf
def theme_weight(counts, sums):
    """Return gamma, in words."""
    return sums[layout.THEME_WEIGHT] * max(counts[layout.SUM_DF], 1)


@leaf
def per_weight(config, words, counts, sums, w):
    """Return 1 / (gamma p_w)."""
    scale = word_scale(config, counts, sums) * theme_weight(counts, sums)
    return 1.0 / ((words.df[w] + smoothing(config, sums)) * scale)


@leaf
def is_common(words, counts, w):
    """Return whether a word tells no theme, because over a quarter of the stories have it."""
    return COMMON * words.df[w] > counts[layout.N_LIVE] >= MANY


@uncounted
def count_stories(words, postings, tables, counts, w, own, there, out):
    """Write how many stories of each theme have word ``w``, without table ``own``.

    ``out`` is zero before; the themes with one are written to ``there``, and their number returned.
    """
    n, start = 0, words.start[w]
    if words.df[w] == 0 or is_common(words, counts, w):
        return 0
    for p in range(start, start + places(words, counts, w)):
        k = postings.table[p]
        if k < 0 or k == own or postings.copies[p] == 0 or tables.theme[k] < 0:
            continue
        g = tables.theme[k]
        if out[g] == 0:
            there[n] = g
            n += 1
        out[g] += 1
    return n


@uncounted
def weigh_themes(config, words, postings, tables, counts, sums, scratch, own, doc, U):
    """Write the log odds (6) of themes for a story of the words ``doc`` against a new one.

    ``own``: the slot of its table, in no theme now, or -1. Returns the best theme, or -1.
    """
    odds, there, having, gamma = (
        scratch.theme_odds, scratch.theme_there, scratch.theme_having, theme_weight(counts, sums),
    )  # fmt: skip
    product = scratch.theme_product
    for g in range(layout.MOST_THEMES):
        odds[g], product[g] = -math.inf, 1.0
        if tables.theme_size[g] > 0:
            odds[g] = math.log(tables.theme_size[g] / OWN)
            odds[g] -= shared_gain(gamma, tables.theme_words[g], U)
    for j in range(U):
        n = 0
        if doc[j] >= 0:
            n = count_stories(words, postings, tables, counts, doc[j], own, there, having)
        per = per_weight(config, words, counts, sums, doc[j]) if n > 0 else 0.0
        for i in range(n):
            g = there[i]
            product[g] *= 1.0 + having[g] * per
            having[g] = 0
            if product[g] > LARGE:
                odds[g] += math.log(product[g])
                product[g] = 1.0
    best = -1
    for g in range(layout.MOST_THEMES):
        odds[g] += math.log(product[g])
        if odds[g] > 0.0 and (best < 0 or odds[g] > odds[best]):
            best = g
    return best


@leaf
def theme_of(tables, k):
    """Return the id of the theme of table ``k``, NaN without a theme."""
    if k < 0 or tables.theme[k] < 0:
        return math.nan
    return float(tables.theme_id[tables.theme[k]])


@uncounted
def telling_words(words, postings, tables, counts, k):
    """Write the words of table ``k`` that tell its theme to ``words.listed``; return how many."""
    n = 0
    for j in range(list_words(postings, tables, k, words.listed)):
        w = words.listed[j]
        if not is_common(words, counts, w):
            words.listed[n] = w
            n += 1
    return n


@leaf
def enlist_story(tables, k, g, sign, U):
    """Put the story of table ``k``, of ``U`` telling words, into theme ``g``, or take it out."""
    tables.theme_size[g] += sign
    tables.theme_words[g] += sign * U
    tables.theme[k] = g if sign > 0 else -1


@uncounted
def settle_story(config, words, postings, tables, counts, sums, scratch, k):
    """Put the story of table ``k`` into the theme that is best for it, or into a new one."""
    own, U = tables.theme[k], telling_words(words, postings, tables, counts, k)
    if own >= 0:
        enlist_story(tables, k, own, -1, U)
    best = weigh_themes(config, words, postings, tables, counts, sums, scratch, k, words.listed, U)
    if best < 0 and own >= 0 and tables.theme_size[own] == 0:
        best = own
    g = 0
    while best < 0 and g < layout.MOST_THEMES:
        if tables.theme_size[g] == 0:
            best, tables.theme_id[g] = g, counts[layout.NEXT_THEME]
            counts[layout.NEXT_THEME] += 1
        g += 1
    for g in range(layout.MOST_THEMES if best < 0 else 0):  # no room for another one
        if best < 0 or scratch.theme_odds[g] > scratch.theme_odds[best]:
            best = g
    enlist_story(tables, k, best, 1, U)


@uncounted
def learn_weight(config, words, postings, tables, counts, sums, scratch):
    """Move gamma by a step of (8), over themes of more than one story; return its factor."""
    there, having, gamma = scratch.theme_there, scratch.theme_having, theme_weight(counts, sums)
    up = down = 0.0
    for w in range(len(words.df)):
        n = count_stories(words, postings, tables, counts, w, -1, there, having)
        weight = 1.0 / per_weight(config, words, counts, sums, w) if n > 0 else 0.0
        for i in range(n):
            for r in range(having[there[i]] if tables.theme_size[there[i]] > 1 else 0):
                up += weight / (weight + r)
            having[there[i]] = 0
    for g in range(layout.MOST_THEMES):
        for r in range(tables.theme_words[g] if tables.theme_size[g] > 1 else 0):
            down += gamma / (gamma + r)
    factor = up / down if down > 0.0 else 1.0
    before = sums[layout.THEME_WEIGHT]
    sums[layout.THEME_WEIGHT] = min(max(before * factor, LEAST), MOST)
    return sums[layout.THEME_WEIGHT] / before


@uncounted
def gather_gains(config, words, postings, tables, counts, sums, scratch):
    """Write what pairs of themes gain by being one (7)."""
    gain, there, having, gamma = (
        scratch.theme_gain, scratch.theme_there, scratch.theme_having, theme_weight(counts, sums),
    )  # fmt: skip
    gain[:] = 0.0
    for w in range(len(words.df)):
        n = count_stories(words, postings, tables, counts, w, -1, there, having)
        weight = 1.0 / per_weight(config, words, counts, sums, w) if n > 0 else 0.0
        for i in range(n):
            a, c = there[i], having[there[i]]
            for j in range(i):
                b = there[j]
                gain[max(a, b), min(a, b)] += gain_of_word(weight, c, having[b])
        for i in range(n):
            having[there[i]] = 0
    for a in range(layout.MOST_THEMES):
        m = tables.theme_size[a]
        for b in range(a):
            k = tables.theme_size[b]
            if m == 0 or k == 0:
                gain[a, b] = -math.inf
                continue
            gain[a, b] -= shared_gain(gamma, tables.theme_words[a], tables.theme_words[b])
            gain[a, b] += math.lgamma(m + k) - math.lgamma(m) - math.lgamma(k) - math.log(OWN)


@uncounted
def merge_themes(tables, counts, gain):
    """Join pairs of themes that gain, the largest gain first, each theme once; older ids stay.

    Returns whether any did.
    """
    merged = False
    while True:
        a = b = 0
        for i in range(layout.MOST_THEMES):
            for j in range(i):
                if gain[i, j] > max(gain[a, b], 0.0):
                    a, b = i, j
        if a == b:
            return merged
        merged = True
        for i in range(layout.MOST_THEMES):
            gain[a, i] = gain[i, a] = gain[b, i] = gain[i, b] = 0.0
        if tables.theme_id[a] > tables.theme_id[b]:
            a, b = b, a
        for i in range(counts[layout.N_LIVE]):
            k = tables.live[i]
            if tables.theme[k] == b:
                tables.theme[k] = a
        tables.theme_size[a] += tables.theme_size[b]
        tables.theme_words[a] += tables.theme_words[b]
        tables.theme_size[b] = tables.theme_words[b] = 0


@entry
def find_themes(config, words, postings, tables, counts, sums, scratch, order):
    """Visit all stories, in the slots ``order``, then learn gamma and merge themes."""
    tables.theme_size[:] = 0
    tables.theme_words[:] = 0
    for i in range(counts[layout.N_LIVE]):
        k = tables.live[i]
        if tables.theme[k] >= 0:
            U = telling_words(words, postings, tables, counts, k)
            enlist_story(tables, k, tables.theme[k], 1, U)
    for r in range(ROUNDS):
        for k in order[: len(order) * (r < VISITS)]:
            settle_story(config, words, postings, tables, counts, sums, scratch, k)
        factor = learn_weight(config, words, postings, tables, counts, sums, scratch)
        gather_gains(config, words, postings, tables, counts, sums, scratch)
        merged = merge_themes(tables, counts, scratch.theme_gain)
        if not merged and abs(factor - 1.0) < STILL:
            break
