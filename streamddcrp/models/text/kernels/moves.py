"""Merges of tables, equation (3), and their retirement."""

import math

import numpy as np

from streamddcrp.compilation import leaf, uncounted
from streamddcrp.contract import DEATH, MERGE, record
from streamddcrp.data.kernels.words import release_word
from streamddcrp.models.text.kernels.archive import archive_table
from streamddcrp.models.text.kernels.evidence import word_scale
from streamddcrp.models.text.kernels.layout import (
    ALPHA,
    CONCENTRATION,
    GROWTH,
    LAST,
    LEAST_MERGED,
    N_EVENTS,
    N_EXAMPLES,
    N_LIVE,
    N_MERGES,
    N_RIVALS,
)
from streamddcrp.models.text.kernels.tables import (
    drop,
    find,
    free_table,
    is_live,
    list_words,
    pour_words,
    release_list,
    tidy_word,
)
from streamddcrp.numerics import natural

RIVAL = 1e-3  # odds of the second choice of a document against the first that make it a rival
SMALL = 16  # documents up to which merges are tried more often


@leaf
def urn(log_gamma, x, m):
    """Log Gamma(x + m) - log Gamma(x), where ``log_gamma`` holds it for small m."""
    if m < len(log_gamma):
        return log_gamma[m]
    return math.lgamma(x + m) - math.lgamma(x)


@leaf
def union_gain(config, sums, ua, ub, s, na, nb, mass_a, mass_b):
    """Return the part of (3) that is not of single words: of ``s`` shared ones, stored masses."""
    B, d = sums[CONCENTRATION], config.discount
    Fa, Fb = max(mass_a / sums[GROWTH], 1.0), max(mass_b / sums[GROWTH], 1.0)
    return (
        math.lgamma(B / d + ua + ub - s) - math.lgamma(B / d + ua) - math.lgamma(B / d + ub)
        + math.lgamma(B / d) - s * math.log(d)
        - math.lgamma(B + na + nb) + math.lgamma(B + na) + math.lgamma(B + nb) - math.lgamma(B)
        + math.lgamma(Fa + Fb) - math.lgamma(Fa) - math.lgamma(Fb) - math.log(sums[ALPHA])
    )  # fmt: skip


@uncounted
def merge_gain(config, words, postings, tables, counts, sums, scratch, a, b):
    """Return the gain (3) of merging two tables."""
    if tables.n_words[a] > tables.n_words[b]:
        a, b = b, a
    g, x, gain, s = scratch.log_gamma, 1.0 - config.discount, 0.0, 0
    scale = word_scale(config, counts)
    for j in range(list_words(postings, tables, a, words.listed)):
        w = words.listed[j]
        p = find(words, postings, w, b)
        if p >= 0:
            q = find(words, postings, w, a)
            ca, cb = postings.copies[natural(q)], postings.copies[natural(p)]
            gain -= math.log((words.df[natural(w)] + config.smoothing) * scale)
            gain += urn(g, x, ca + cb - 1) - urn(g, x, ca - 1) - urn(g, x, cb - 1)
            s += 1
    return gain + union_gain(
        config, sums, tables.n_words[a], tables.n_words[b], s, tables.n_tokens[a],
        tables.n_tokens[b], tables.mass[a], tables.mass[b],
    )  # fmt: skip


@uncounted
def remember_rival(tables, weight, k, rival):
    """Note a table that was a good second choice of a document that table ``k`` gets, or none."""
    at = tables.size[k] % N_RIVALS
    tables.rival[k, at] = -1
    if rival >= 0 and rival != k and weight[rival] > RIVAL * weight[k]:
        tables.rival[k, at], tables.rival_id[k, at] = rival, tables.id[rival]


@uncounted
def pour(words, postings, tables, counts, sums, small, large):
    """Move all that table ``small`` holds into ``large``; the slot of ``small`` becomes free."""
    pour_words(words, postings, tables, counts, small, large)
    tables.n_tokens[large] += tables.n_tokens[small]
    tables.size[large] += tables.size[small]
    tables.in_window[large] += tables.in_window[small]
    tables.mass[large] += tables.mass[small]
    tables.mass[small] = 0.0
    for g in range(tables.masses.shape[0]):
        tables.masses[g, large] += tables.masses[g, small]
        tables.masses[g, small] = 0.0
    tables.told[large] = tables.told[large] or tables.told[small]
    tables.born[large] = min(tables.born[large], tables.born[small])
    tables.born_t[large] = min(tables.born_t[large], tables.born_t[small])
    tables.last_seen[large] = max(tables.last_seen[large], tables.last_seen[small])
    tables.last_t[large] = max(tables.last_t[large], tables.last_t[small])
    for e in range(N_EXAMPLES):
        if tables.fit[small, e] > -np.inf:
            shown, n = tables.example[small, e], tables.example_length[small, e]
            fit, row = tables.fit[small, e], tables.example_row[small, e]
            keep_example(tables, large, shown, 0, n, fit, row)
    free_table(tables, counts, sums, small)


@uncounted
def keep_example(tables, k, text, start, n, fit, row):
    """Keep ``n`` bytes of a text from ``start`` (modulo its length) on if it fits a table well."""
    mask, worst = len(text) - 1, 0
    for e in range(N_EXAMPLES):
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
def try_merge(config, words, postings, tables, window, events, counts, sums, scratch, a, row, t):
    """Merge table ``a`` with that of its rivals that gains most by it."""
    size = tables.size[a]
    tables.next_merge[a] = size + 1 + size // (4 if size < SMALL else 2)
    best, largest = -1, 0.0
    for j in range(N_RIVALS):
        b = tables.rival[a, j]
        again = False
        for i in range(j):
            again |= tables.rival[a, i] == b and tables.rival_id[a, i] == tables.rival_id[a, j]
        if b < 0 or again or tables.id[b] != tables.rival_id[a, j]:
            continue
        if not is_live(tables, counts, b) or tables.size[b] < LEAST_MERGED:
            continue
        gain = merge_gain(config, words, postings, tables, counts, sums, scratch, a, b)
        if gain > largest or (best >= 0 and gain == largest and tables.id[b] < tables.id[best]):
            best, largest = b, gain
    if best < 0:
        return
    small, large = (a, best) if tables.n_words[a] < tables.n_words[best] else (best, a)
    older, younger = min(tables.id[a], tables.id[best]), max(tables.id[a], tables.id[best])
    record(events, counts, N_EVENTS, MERGE, younger, older, row, t)
    at = counts[N_MERGES] % len(events.younger)
    events.younger[at], events.older[at] = younger, older
    counts[N_MERGES] += 1
    following = min(tables.next_merge[small], tables.next_merge[large])
    pour(words, postings, tables, counts, sums, small, large)
    tables.id[large] = older
    tables.next_merge[large] = min(following, tables.size[large] + 1)
    tables.next_split[large] = max(tables.next_split[large], tables.size[large] + 1)
    for i in range(len(window.table)):
        if window.table[i] == small:
            window.table[i] = large
    if counts[LAST] == small:
        counts[LAST] = large


@uncounted
def retire(config, words, postings, tables, archive, events, counts, sums, lexicon, named):
    """Let go of the tables that are all but forgotten and have no document in the window."""
    least = config.retire * sums[ALPHA] / config.alpha * sums[GROWTH]
    i = 0
    while i < counts[N_LIVE]:
        k = tables.live[i]
        if tables.mass[k] >= least or tables.in_window[k] > 0:
            i += 1
            continue
        if tables.told[k] and tables.size[k] >= LEAST_MERGED:
            archive_table(config, words, postings, tables, archive, counts, k, lexicon, named)
        n = list_words(postings, tables, k, words.listed)
        release_list(postings, tables, counts, k)
        for j in range(n):
            w = words.listed[j]
            drop(words, postings, counts, w, find(words, postings, w, k))
            if tidy_word(words, postings, w) and named:
                release_word(lexicon, w)
        if tables.told[k]:
            row, t = tables.last_seen[k], tables.last_t[k]
            record(events, counts, N_EVENTS, DEATH, tables.id[k], -1, row, t)
        free_table(tables, counts, sums, k)  # another table takes its place in the list
