"""Merges of tables, docs/math/texts.md (3), their retirement, and the archive.

By the archive of the tables that were retired a story that comes back is recognised.
"""

import math

import numpy as np

from streamddcrp.compilation import leaf, uncounted
from streamddcrp.contract import BIRTH, MERGE, RETURN
from streamddcrp.data.kernels.words import release_word
from streamddcrp.models.text.kernels import layout
from streamddcrp.models.text.kernels import tables as index
from streamddcrp.models.text.kernels.events import BORN, CLOSED, grown, report, spell, texts_of
from streamddcrp.models.text.kernels.evidence import smoothing, word_scale
from streamddcrp.models.text.kernels.silence import is_over, reach
from streamddcrp.models.text.kernels.topics import broad_words, nearest_topic, with_prior
from streamddcrp.numerics import natural

RIVAL = 1e-3  # odds of the second choice of a document against the first that make it a rival
SMALL = 16  # documents up to which merges are tried more often
LEAST_ODDS = math.log(20.0)  # of a return
MARGIN = 6.0  # nats that a merge gains at least


@leaf
def urn(log_gamma, x, m):
    """Log Gamma(x + m) - log Gamma(x), where ``log_gamma`` holds it for small m."""
    if m < len(log_gamma):
        return log_gamma[m]
    return math.lgamma(x + m) - math.lgamma(x)


@leaf
def urns_gain(B, d, ua, ub, s, na, nb):
    """Return the part of (3) of two urns: of numbers of words, ``s`` of them shared, and tokens."""
    return (
        math.lgamma(B / d + ua + ub - s) - math.lgamma(B / d + ua) - math.lgamma(B / d + ub)
        + math.lgamma(B / d) - s * math.log(d)
        - math.lgamma(B + na + nb) + math.lgamma(B + na) + math.lgamma(B + nb) - math.lgamma(B)
    )  # fmt: skip


@leaf
def union_gain(config, sums, ua, ub, s, na, nb, mass_a, mass_b):
    """Return the part of (3) that is not of single words; masses are stored ones."""
    urns = urns_gain(sums[layout.CONCENTRATION], config.discount, ua, ub, s, na, nb)
    return with_prior(sums, urns, mass_a, mass_b)


@uncounted
def merge_gain(config, words, postings, tables, counts, sums, scratch, a, b):
    """Return the gain (3) of merging two tables."""
    if tables.n_words[a] > tables.n_words[b]:
        a, b = b, a
    g, x, gain, s = scratch.log_gamma, 1.0 - config.discount, 0.0, 0
    scale, least = word_scale(config, counts, sums), smoothing(config, sums)
    for j in range(index.list_words(postings, tables, a, words.listed)):
        w = words.listed[j]
        p = index.find(words, postings, w, b)
        if p >= 0:
            q = index.find(words, postings, w, a)
            ca, cb = postings.copies[natural(q)], postings.copies[natural(p)]
            gain -= math.log((words.df[natural(w)] + least) * scale)
            gain += urn(g, x, ca + cb - 1) - urn(g, x, ca - 1) - urn(g, x, cb - 1)
            s += 1
    return gain + union_gain(
        config, sums, tables.n_words[a], tables.n_words[b], s, tables.n_tokens[a],
        tables.n_tokens[b], tables.mass[a], tables.mass[b],
    )  # fmt: skip


@uncounted
def remember_rival(tables, weight, k, rival):
    """Note a table that was a good second choice of a document of table ``k``, or none."""
    at = tables.size[k] % layout.N_RIVALS
    tables.rival[k, at] = -1
    if rival >= 0 and rival != k and weight[rival] > RIVAL * weight[k]:
        tables.rival[k, at], tables.rival_id[k, at] = rival, tables.id[rival]


@uncounted
def pour(words, postings, tables, counts, sums, small, large):
    """Move all that table ``small`` holds into ``large``; the slot of ``small`` becomes free."""
    index.pour_words(words, postings, tables, counts, small, large)
    tables.n_tokens[large] += tables.n_tokens[small]
    tables.size[large] += tables.size[small]
    tables.copies[large] += tables.copies[small]
    tables.in_window[large] += tables.in_window[small]
    tables.mass[large] += tables.mass[small]
    tables.mass[small] = 0.0
    for g in range(tables.masses.shape[0]):
        tables.masses[g, large] += tables.masses[g, small]
        tables.masses[g, small] = 0.0
    tables.reported[large] = max(tables.reported[large], tables.reported[small])
    tables.quiet[large] = min(tables.quiet[large], tables.quiet[small])
    tables.longest[large] = max(tables.longest[large], tables.longest[small])
    tables.closed[large] &= tables.closed[small]
    tables.born[large] = min(tables.born[large], tables.born[small])
    tables.born_t[large] = min(tables.born_t[large], tables.born_t[small])
    tables.last_seen[large] = max(tables.last_seen[large], tables.last_seen[small])
    tables.last_t[large] = max(tables.last_t[large], tables.last_t[small])
    for e in range(layout.N_EXAMPLES):
        if tables.fit[small, e] > -np.inf:
            shown, n = tables.example[small, e], tables.example_length[small, e]
            fit, row = tables.fit[small, e], tables.example_row[small, e]
            keep_example(tables, large, shown, 0, n, fit, row)
    index.free_table(tables, counts, sums, small)


@uncounted
def typicality(words, postings, tables, k, doc, U):
    """Return the cosine of a document and the others of its table, and two unlike ones."""
    shared = 0
    for j in range(U):
        shared += postings.copies[natural(index.find(words, postings, doc[j], k))] - 1
    return shared / ((tables.size[k] + 1.0) * math.sqrt(U))


@uncounted
def keep_example(tables, k, text, start, n, fit, row):
    """Keep ``n`` bytes of a text from ``start`` (modulo its length) on if it fits a table well."""
    mask, worst = len(text) - 1, 0
    for e in range(layout.N_EXAMPLES):
        if tables.fit[k, e] > -np.inf and tables.example_length[k, e] == n:
            j = 0
            while j < n and tables.example[k, e, j] == text[(start + j) & mask]:
                j += 1
            if j == n:
                return
        if tables.fit[k, e] < tables.fit[k, worst]:
            worst = e
    if fit > tables.fit[k, worst]:
        for j in range(n):
            tables.example[k, worst, j] = text[(start + j) & mask]
        tables.example_length[k, worst], tables.example_row[k, worst] = n, row
        tables.fit[k, worst] = fit


@uncounted
def try_merge(config, words, postings, tables, window, events, counts, sums, scratch, a):
    """Merge table ``a`` with that of its rivals, or of all topics, that gains most by it."""
    size = tables.size[a]
    tables.next_merge[a] = size + 1 + size // (4 if size < SMALL else 2)
    best, largest, n_all = -1, MARGIN, broad_words(config, tables, counts)
    if n_all > 0:
        best = nearest_topic(words, postings, tables, counts, sums, scratch, a, n_all)
    for j in range(0 if n_all > 0 else layout.N_RIVALS):
        b = tables.rival[a, j]
        again = False
        for i in range(j):
            again |= tables.rival[a, i] == b and tables.rival_id[a, i] == tables.rival_id[a, j]
        if b < 0 or again or tables.id[b] != tables.rival_id[a, j]:
            continue
        if not index.is_live(tables, counts, b) or tables.size[b] < layout.LEAST_MERGED:
            continue
        gain = merge_gain(config, words, postings, tables, counts, sums, scratch, a, b)
        if gain > largest or (best >= 0 and gain == largest and tables.id[b] < tables.id[best]):
            best, largest = b, gain
    if best < 0:
        return
    small, large = (a, best) if tables.n_words[a] < tables.n_words[best] else (best, a)
    older, younger = min(tables.id[a], tables.id[best]), max(tables.id[a], tables.id[best])
    first, second = (a, best) if tables.id[a] == older else (best, a)
    if tables.closed[first] and not tables.closed[second]:
        report(words, postings, tables, window, events, counts, sums, first, RETURN, older)
    if tables.reported[second] >= BORN:
        if tables.reported[first] < BORN:
            report(words, postings, tables, window, events, counts, sums, first, BIRTH, -1)
        report(words, postings, tables, window, events, counts, sums, second, MERGE, older)
    at = counts[layout.N_MERGES] % len(events.younger)
    events.younger[at], events.older[at] = younger, older
    counts[layout.N_MERGES] += 1
    following = min(tables.next_merge[small], tables.next_merge[large])
    pour(words, postings, tables, counts, sums, small, large)
    tables.id[large] = older
    tables.next_merge[large] = min(following, tables.size[large] + 1)
    tables.next_split[large] = max(tables.next_split[large], tables.size[large] + 1)
    for i in range(len(window.table)):
        if window.table[i] == small:
            window.table[i] = large
    if counts[layout.LAST] == small:
        counts[layout.LAST] = large
    if grown(config, tables, large, texts_of(tables, large)) >= 0:
        report(words, postings, tables, window, events, counts, sums, large, BIRTH, -1)


@uncounted
def archive_table(config, words, postings, tables, archive, counts, sums, k, lexicon):
    """Keep the words by which a table differs most from others: c_kw log(1 / p_w) is largest."""
    size = len(archive.id)
    a = counts[layout.N_ARCHIVED] % size
    if counts[layout.N_ARCHIVED] >= size:
        for j in range(archive.n[a]):
            w = archive.word[a, j]
            words.held[w] -= 1
            if index.tidy_word(words, postings, w):
                release_word(lexicon, w)
    scale, least, n = word_scale(config, counts, sums), smoothing(config, sums), 0
    for i in range(index.list_words(postings, tables, k, words.listed)):
        w = words.listed[i]
        copies = postings.copies[index.find(words, postings, w, k)]
        weight = -copies * math.log((words.df[w] + least) * scale)
        if n < layout.N_KEPT or weight > archive.weight[a, n - 1]:
            j = n if n < layout.N_KEPT else n - 1
            while j > 0 and archive.weight[a, j - 1] < weight:
                archive.weight[a, j] = archive.weight[a, j - 1]
                archive.word[a, j] = archive.word[a, j - 1]
                archive.copies[a, j] = archive.copies[a, j - 1]
                j -= 1
            archive.weight[a, j], archive.word[a, j] = weight, w
            archive.copies[a, j] = copies
            n = min(n + 1, layout.N_KEPT)
    archive.id[a], archive.n[a] = tables.id[k], n
    archive.n_tokens[a], archive.n_words[a] = tables.n_tokens[k], tables.n_words[k]
    for j in range(n):
        words.held[archive.word[a, j]] += 1
    counts[layout.N_ARCHIVED] += 1


@uncounted
def retire(config, words, postings, tables, window, archive, events, counts, sums, lexicon):
    """Close tables that are over; retire those of little weight without documents in the window."""
    least = config.retire * sums[layout.ALPHA] / config.alpha * sums[layout.GROWTH]
    i = 0
    while i < counts[layout.N_LIVE]:
        k = tables.live[i]
        if is_over(config, tables, counts, sums, k):
            report(words, postings, tables, window, events, counts, sums, k, CLOSED, -1)
        if tables.mass[k] >= least or tables.in_window[k] > 0:
            i += 1
            continue
        if tables.reported[k] >= BORN and tables.size[k] >= layout.LEAST_MERGED:
            archive_table(config, words, postings, tables, archive, counts, sums, k, lexicon)
        if tables.reported[k] >= BORN and not tables.closed[k]:
            report(words, postings, tables, window, events, counts, sums, k, CLOSED, -1)
        spell(events, counts, lexicon)
        n = index.list_words(postings, tables, k, words.listed)
        index.release_list(postings, tables, counts, k)
        for j in range(n):
            w = words.listed[j]
            index.drop(words, postings, counts, w, index.find(words, postings, w, k))
            if index.tidy_word(words, postings, w):
                release_word(lexicon, w)
        index.free_table(tables, counts, sums, k)  # another table takes its place in the list


@uncounted
def forget_unused(config, words, postings, tables, counts, sums, lexicon):
    """Forget words of live tables that no document had for as long as one of them counts."""
    oldest = counts[layout.N_SEEN] + math.log(config.retire) * reach(config, sums)
    for w in range(len(words.df)):
        if words.df[w] == 0 or words.held[w] > 0 or words.last[w] > oldest:
            continue
        while words.df[w] > 0:
            p = words.start[w]
            while postings.copies[p] == 0:
                p += 1
            k = np.int64(postings.table[p])
            tables.n_tokens[k] -= postings.copies[p]
            index.strike(words, postings, tables, counts, k, postings.at[p])
            index.drop(words, postings, counts, w, p)
        if index.tidy_word(words, postings, w):
            release_word(lexicon, w)


@uncounted
def recognise(config, words, postings, tables, archive, counts, sums, k):
    """Return the id of the archived table that table ``k`` is most likely to be, or -1.

    The odds against a new one: the gain (3) of its words with those that were kept, the other ones
    of the archived table being taken as different, and the prior weights of an archived table,
    which is that of one that is just let go, and of a new one. They have to be above 20.
    """
    d, B, scale = config.discount, sums[layout.CONCENTRATION], word_scale(config, counts, sums)
    least = smoothing(config, sums)
    if tables.size[k] < layout.LEAST_MERGED:
        return -1
    listed = index.list_words(postings, tables, k, words.listed)
    for i in range(listed):
        w = words.listed[i]
        words.mark[w] = postings.copies[index.find(words, postings, w, k)]
    best, most, x = -1, LEAST_ODDS - math.log(config.retire / config.alpha), 1.0 - d
    u, n = tables.n_words[k], tables.n_tokens[k]
    for a in range(min(counts[layout.N_ARCHIVED], len(archive.id))):
        shared, gain = 0, 0.0
        for j in range(archive.n[a]):
            w, old = archive.word[a, j], archive.copies[a, j]
            new = words.mark[w]
            if new > 0:
                shared += 1
                gain -= math.log((words.df[w] + least) * scale)
                gain += math.lgamma(x + new + old - 1.0) + math.lgamma(x)
                gain -= math.lgamma(x + new - 1.0) + math.lgamma(x + old - 1.0)
        if shared == 0:
            continue
        gain += urns_gain(B, d, u, archive.n_words[a], shared, n, archive.n_tokens[a])
        if gain > most:
            best, most = archive.id[a], gain
    for i in range(listed):
        words.mark[words.listed[i]] = 0
    return best
