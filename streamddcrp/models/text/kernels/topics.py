"""Whether two broad tables are one topic, where texts are long: Dirichlet-multinomials.

docs/math/texts.md (3) asks whether two tables are one Pitman-Yor urn. Long texts of
one class never are, since each thread, author and byline has words of its own. So two broad tables
are taken as draws from distributions of words near that of all N words of the live tables, from a
Dirichlet distribution that weighs as much as these: a_w is how many of their texts have word w. If
c_w and e_w of the texts of the two have it, of m and n words, one table instead of two gains

    sum_w g(a_w, c_w, e_w) - g(N, m, n),  g(a, c, e) = log G(a + c + e) G(a) / (G(a + c) G(a + e)),

and the prior weights as in (3). G is the gamma function. A word that only one has gives nothing.
"""

import math

from streamddcrp.compilation import leaf, uncounted
from streamddcrp.models.text.kernels.layout import ALPHA, GROWTH, LEAST_MERGED, N_LIVE
from streamddcrp.models.text.kernels.tables import find, list_words, places


@leaf
def shared_gain(a, c, e):
    """Return g above."""
    return math.lgamma(a + c + e) + math.lgamma(a) - math.lgamma(a + c) - math.lgamma(a + e)


@leaf
def with_prior(sums, gain, mass_a, mass_b):
    """Add what one table instead of two gains in prior weight; masses are stored ones."""
    Fa, Fb = max(mass_a / sums[GROWTH], 1.0), max(mass_b / sums[GROWTH], 1.0)
    return gain + math.lgamma(Fa + Fb) - math.lgamma(Fa) - math.lgamma(Fb) - math.log(sums[ALPHA])


@uncounted
def broad_words(config, tables, counts):
    """Return N where the texts are long enough to be compared so, otherwise zero."""
    if config.long == math.inf:
        return 0
    n = texts = 0
    for i in range(counts[N_LIVE]):
        k = tables.live[i]
        n += tables.n_tokens[k]
        texts += tables.size[k]
    return n if n >= config.long * max(texts, 1) else 0


@uncounted
def texts_with(words, postings, counts, w):
    """Return how many texts of the live tables have word ``w``."""
    n, start = 0, words.start[w]
    for p in range(start, start + places(words, counts, w)):
        n += postings.copies[p]
    return n


@uncounted
def halves_gain(halves, n_met, n_there, n_here, n_all):
    """Return the gain of one table instead of two halves, of so many words, less the prior's."""
    gain = -shared_gain(n_all, n_there, n_here)
    for j in range(n_met):
        c = halves.own[j]
        if 0 < c < halves.total[j]:
            gain += shared_gain(halves.everywhere[j], c, halves.total[j] - c)
    return gain


@uncounted
def nearest_topic(words, postings, tables, counts, sums, scratch, a, n_all):
    """Return the table whose union with ``a`` gains most, or -1; O(postings of a's words)."""
    gain = scratch.ratio
    gain[:] = 0.0
    for j in range(list_words(postings, tables, a, words.listed)):
        w = words.listed[j]
        own = postings.copies[find(words, postings, w, a)]
        total = texts_with(words, postings, counts, w)
        for p in range(words.start[w], words.start[w] + places(words, counts, w)):
            if postings.copies[p] > 0:
                gain[postings.table[p]] += shared_gain(total, own, postings.copies[p])
    best, largest = -1, 0.0
    for i in range(counts[N_LIVE]):
        k = tables.live[i]
        if k == a or tables.size[k] < LEAST_MERGED:
            continue
        x = gain[k] - shared_gain(n_all, tables.n_tokens[a], tables.n_tokens[k])
        x = with_prior(sums, x, tables.mass[a], tables.mass[k])
        if x > largest or (best >= 0 and x == largest and tables.id[k] < tables.id[best]):
            best, largest = k, x
    return best
