"""An archive of the tables that were let go, by which a story that comes back is recognised."""

import math

from streamddcrp.compilation import uncounted
from streamddcrp.data.kernels.words import release_word
from streamddcrp.models.text.kernels.evidence import word_scale
from streamddcrp.models.text.kernels.layout import CONCENTRATION, LEAST_MERGED, N_ARCHIVED, N_KEPT
from streamddcrp.models.text.kernels.tables import find, list_words, tidy_word

LEAST_ODDS = math.log(20.0)  # of a return


@uncounted
def archive_table(config, words, postings, tables, archive, counts, k, lexicon, named):
    """Keep the words that tell a table from the others: c_kw log(1 / p_w) is largest."""
    size = len(archive.id)
    a = counts[N_ARCHIVED] % size
    if counts[N_ARCHIVED] >= size:
        for j in range(archive.n[a]):
            w = archive.word[a, j]
            words.held[w] -= 1
            if tidy_word(words, postings, w) and named:
                release_word(lexicon, w)
    scale, n = word_scale(config, counts), 0
    for i in range(list_words(postings, tables, k, words.listed)):
        w = words.listed[i]
        copies = postings.copies[find(words, postings, w, k)]
        weight = -copies * math.log((words.df[w] + config.smoothing) * scale)
        if n < N_KEPT or weight > archive.weight[a, n - 1]:
            j = n if n < N_KEPT else n - 1
            while j > 0 and archive.weight[a, j - 1] < weight:
                archive.weight[a, j] = archive.weight[a, j - 1]
                archive.word[a, j] = archive.word[a, j - 1]
                archive.copies[a, j] = archive.copies[a, j - 1]
                j -= 1
            archive.weight[a, j], archive.word[a, j] = weight, w
            archive.copies[a, j] = copies
            n = min(n + 1, N_KEPT)
    archive.id[a], archive.n[a] = tables.id[k], n
    archive.n_tokens[a], archive.n_words[a] = tables.n_tokens[k], tables.n_words[k]
    for j in range(n):
        words.held[archive.word[a, j]] += 1
    counts[N_ARCHIVED] += 1


@uncounted
def recognise(config, words, postings, tables, archive, counts, sums, k):
    """Return the id of the archived table that table ``k`` is most likely to be, or -1.

    The odds against a new one: the gain (3) of its words with those that were kept, the other ones
    of the archived table being taken as different, and the prior weights of an archived table,
    which is that of one that is just let go, and of a new one. They have to be above 20.
    """
    d, B, scale = config.discount, sums[CONCENTRATION], word_scale(config, counts)
    if tables.size[k] < LEAST_MERGED:
        return -1
    listed = list_words(postings, tables, k, words.listed)
    for i in range(listed):
        w = words.listed[i]
        words.mark[w] = postings.copies[find(words, postings, w, k)]
    best, most, x = -1, LEAST_ODDS - math.log(config.retire / config.alpha), 1.0 - d
    u, n = tables.n_words[k], tables.n_tokens[k]
    for a in range(min(counts[N_ARCHIVED], len(archive.id))):
        shared, gain = 0, 0.0
        for j in range(archive.n[a]):
            w, old = archive.word[a, j], archive.copies[a, j]
            new = words.mark[w]
            if new > 0:
                shared += 1
                gain -= math.log((words.df[w] + config.smoothing) * scale)
                gain += math.lgamma(x + new + old - 1.0) + math.lgamma(x)
                gain -= math.lgamma(x + new - 1.0) + math.lgamma(x + old - 1.0)
        if shared == 0:
            continue
        u_old, n_old = archive.n_words[a], archive.n_tokens[a]
        gain += (
            math.lgamma(B / d + u + u_old - shared) + math.lgamma(B / d)
            - math.lgamma(B / d + u) - math.lgamma(B / d + u_old) - shared * math.log(d)
            - math.lgamma(B + n + n_old) + math.lgamma(B + n) + math.lgamma(B + n_old)
            - math.lgamma(B)
        )  # fmt: skip
        if gain > most:
            best, most = archive.id[a], gain
    for i in range(listed):
        words.mark[words.listed[i]] = 0
    return best
