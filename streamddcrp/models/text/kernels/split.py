"""Splits of tables that hold two stories, by minus the gain of merging the halves.

That gain is (3), or that of `kernels.topics`.

A document alone never leaves a mixture, whose words it shares. So a table that has grown by half is
examined: the documents with a word of many of them leave for a half of their own; then single
documents change sides where (2) says so, twice. Only documents of the window move; what older ones
left stays with the other half.

The gain alone would split stories into chapters, too, down to messages that were passed on. If a
word is in a good part of the documents of both halves, but of few other tables, the halves are
about the same, and the table stays one.

Cost: some tables in a hundred documents are looked at, one costs a few times its words.
"""

import math

import numpy as np

from streamddcrp.compilation import uncounted
from streamddcrp.contract import BIRTH, SPLIT
from streamddcrp.models.text.kernels import layout
from streamddcrp.models.text.kernels import tables as index
from streamddcrp.models.text.kernels.clock import shift, weight_now
from streamddcrp.models.text.kernels.events import BORN, NOTICED, UNKNOWN, grown, report, texts_of
from streamddcrp.models.text.kernels.evidence import smoothing, word_scale
from streamddcrp.models.text.kernels.moves import keep_example, union_gain, urn
from streamddcrp.models.text.kernels.topics import broad_words, halves_gain, texts_with, with_prior
from streamddcrp.numerics import holds, natural

LEAST_PART, SHARE = 3, 0.2  # documents of a half, and their part in those of the table
HEAD = 0.25  # a word in a larger part of the documents of both halves holds a table together
COMMON = 0.15  # part of the documents that have a word, or lack it, if a half is to begin with it
FAR = -0.06  # nats a word by which a split may lose before documents change sides
ROUNDS = 2
LATER = 2  # a split is tried again when a table has grown by one in so many


@uncounted
def gather(config, words, postings, tables, window, counts, sums, halves, k, newest):
    """List the documents of a table in the window, the newest first, and their words.

    Returns the number of documents, with places in ``halves.member``, and that of different words:
    the documents' words ``halves.token`` are from ``halves.begin`` on, as places in ``halves.met``.
    """
    size, mask = len(window.table), len(window.text) - 1
    n, end, n_met, at = 0, 0, 0, (newest + 1) % size
    for _ in range(min(newest + 1, size)):
        at = (at if at > 0 else size) - 1
        if window.table[natural(at)] != k:
            continue
        U = window.length[at]
        if end + U > len(halves.token):
            break
        if tables.masses.shape[0] > 0:
            window.weight[at] = weight_now(window.weights, sums, at)
        halves.member[n], halves.begin[n] = at, end
        n += 1
        for j in range(U):
            w = window.text[(window.start[at] + j) & mask]
            if words.mark[w] == 0:
                halves.met[n_met], halves.present[n_met] = w, 0
                n_met += 1
                words.mark[w] = n_met
            place = words.mark[w] - 1
            halves.token[end + j] = place
            halves.present[place] += 1
        end += U
    halves.begin[n] = end
    whole = n == tables.size[k]
    for j in range(n_met):
        w = halves.met[j]
        words.mark[w] = 0
        if config.long < math.inf:
            halves.everywhere[j] = texts_with(words, postings, counts, w)
        if whole:
            halves.total[j] = halves.present[j]
        else:
            halves.total[j] = postings.copies[index.find(words, postings, w, k)]
    return n, n_met


@uncounted
def tally(window, halves, n, n_met):
    """Count the words of the documents that leave; return these, their words and stored weight."""
    docs, tokens, mass = 0, 0, 0.0
    halves.own[:n_met] = 0
    for r in range(n):
        if halves.side[r]:
            docs += 1
            mass += window.weight[halves.member[r]]
            for p in range(halves.begin[r], halves.begin[r + 1]):
                halves.own[halves.token[p]] += 1
                tokens += 1
    return docs, tokens, mass


@uncounted
def split_gain(config, words, tables, counts, sums, halves, g, k, n_met, tokens, mass):
    """Return minus the gain that merging the halves would have once they are two."""
    x, gain, there, shared = 1.0 - config.discount, 0.0, 0, 0
    n_all = broad_words(config, tables, counts)
    if n_all > 0:
        gain = halves_gain(halves, n_met, tokens, tables.n_tokens[k] - tokens, n_all)
        return -with_prior(sums, gain, mass, tables.mass[k] - mass)
    b = smoothing(config, sums)
    for j in range(n_met):
        a, c = halves.own[j], halves.total[j]
        if a == 0:
            continue
        there += 1
        if a < c:
            shared += 1
            gain += math.log(words.df[halves.met[j]] + 1.0 + b)
            gain += urn(g, x, a - 1) + urn(g, x, c - a - 1)
            gain -= urn(g, x, c - 1)
    every = counts[layout.SUM_DF] + shared + b * max(counts[layout.N_WORDS] + 1, layout.LEAST_WORDS)
    here = tables.n_words[k] - there + shared
    return gain - shared * math.log(every) - union_gain(
        config, sums, there, here, shared, tokens, tables.n_tokens[k] - tokens, mass,
        tables.mass[k] - mass,
    )  # fmt: skip


@uncounted
def is_rare(words, postings, tables, counts, halves, place, size):
    """Return whether few tables hold a word in about as many of their documents as this one."""
    w, most, n = halves.met[place], max(1.0, HEAD * counts[layout.N_LIVE]), 0
    if words.df[w] <= most:
        return True
    start, part = words.start[w], halves.total[place] / size
    for p in range(start, start + index.places(words, counts, w)):
        k = postings.table[p]
        n += k >= 0 and postings.copies[p] > HEAD * part * tables.size[k]
    return n <= most


@uncounted
def holds_together(words, postings, tables, counts, halves, n_met, docs, size):
    """Return whether a word that few tables hold is in a good part of both halves."""
    for j in range(n_met):
        a, c = halves.own[j], halves.total[j]
        if (
            a > HEAD * docs
            and c - a > HEAD * (size - docs)
            and is_rare(words, postings, tables, counts, halves, j, size)
        ):
            return True
    return False


@uncounted
def settle(config, words, tables, window, counts, sums, halves, k, n, n_met):
    """Move documents to the half where they are likelier by (2), a few times."""
    d, B, scale = config.discount, sums[layout.CONCENTRATION], word_scale(config, counts, sums)
    own, total, token, begin, side = (
        halves.own, halves.total, halves.token, halves.begin, halves.side,
    )  # fmt: skip
    docs, tokens, mass = tally(window, halves, n, n_met)
    b = smoothing(config, sums)
    there, here = 0, tables.n_words[k]
    for j in range(n_met):
        there += own[j] > 0
        here -= own[j] == total[j]
        halves.base[j] = (words.df[halves.met[j]] + 1.0 + b) * scale
    for _ in range(ROUNDS):
        moved = False
        for r in range(n):
            left = side[r]
            if docs == 1 if left else tables.size[k] - docs == 1:
                continue
            U, weight = begin[r + 1] - begin[r], window.weight[halves.member[r]]
            for p in range(begin[r], begin[r + 1]):
                j = token[p]
                if left:
                    own[j] -= 1
                    there -= own[j] == 0
                else:
                    here -= own[j] + 1 == total[j]
            if left:
                docs, tokens, mass = docs - 1, tokens - U, mass - weight
            h = 0.5 * (U - 1)
            up_there, up_here = B + d * (there + h), B + d * (here + h)
            down_there, down_here = B + tokens + h, B + tables.n_tokens[k] - tokens - U + h
            odds = max(mass, 1e-100) / max(tables.mass[k] - mass - weight, 1e-100)
            value = math.log(odds) + U * math.log(up_there * down_here / (up_here * down_there))
            factor, last = 1.0, begin[r + 1] - 1
            for p in range(begin[r], begin[r + 1]):
                j = token[p]
                a, c = own[j], total[j] - own[j] - 1
                if a > 0:
                    factor *= 1.0 + (a - d) / (up_there * halves.base[j])
                if c > 0:
                    factor /= 1.0 + (c - d) / (up_here * halves.base[j])
                if (p - begin[r]) % layout.CHUNK == layout.CHUNK - 1 or p == last:
                    value += math.log(factor)
                    factor = 1.0
            side[r] = value > 0.0
            moved |= side[r] != left
            for p in range(begin[r], begin[r + 1]):
                j = token[p]
                if side[r]:
                    own[j] += 1
                    there += own[j] == 1
                else:
                    here += own[j] + 1 == total[j]
            if side[r]:
                docs, tokens, mass = docs + 1, tokens + U, mass + weight
        if not moved:
            return


@uncounted
def begin_with(halves, n, place):
    """Choose the documents with a word to leave."""
    for r in range(n):
        halves.side[r] = holds(halves.token[halves.begin[r] : halves.begin[r + 1]], place)


@uncounted
def choose_seeds(config, words, postings, tables, window, counts, sums, halves, g, k, n, n_met):
    """Find words with which the documents leave best; return how many."""
    found, size = 0, tables.size[k]
    for place in range(n_met):
        # With more, a good part of any half has the word.
        most = (1.0 - SHARE * (1.0 - HEAD)) * size
        if halves.total[place] > most and is_rare(
            words, postings, tables, counts, halves, place, size
        ):
            return 0
    for place in range(n_met):
        m = halves.present[place]
        if m < COMMON * n or m > (1.0 - COMMON) * n:
            continue
        if not is_rare(words, postings, tables, counts, halves, place, size):
            continue
        begin_with(halves, n, place)
        docs, tokens, mass = tally(window, halves, n, n_met)
        if holds_together(words, postings, tables, counts, halves, n_met, docs, size):
            continue
        gain = split_gain(config, words, tables, counts, sums, halves, g, k, n_met, tokens, mass)
        if gain < FAR * halves.begin[n]:
            continue
        i = found
        found = min(found + 1, layout.N_SEEDS)
        while i > 0 and halves.seed_gain[i - 1] < gain:
            i -= 1
            if i + 1 < layout.N_SEEDS:
                halves.seed[i + 1] = halves.seed[i]
                halves.seed_gain[i + 1] = halves.seed_gain[i]
        if i < layout.N_SEEDS:
            halves.seed[i], halves.seed_gain[i] = place, gain
    return found


@uncounted
def divide(config, words, postings, tables, window, events, counts, sums, halves, k, n, n_met):
    """Move the documents that leave to a new table; the larger half keeps the id."""
    docs, tokens, mass = tally(window, halves, n, n_met)
    row, t = counts[layout.N_SEEN] - 1, sums[layout.TIME]
    new = index.new_table(tables, counts, row, t)
    for j in range(n_met):
        if halves.own[j] > 0:
            w = halves.met[j]
            index.append(words, postings, tables, counts, w, new)
            postings.copies[index.find(words, postings, w, new)] = halves.own[j]
            p = index.find(words, postings, w, k)
            postings.copies[p] -= halves.own[j]
            if postings.copies[p] == 0:
                index.strike(words, postings, tables, counts, k, postings.at[p])
                index.drop(words, postings, counts, w, p)
    tables.n_tokens[new], tables.size[new], tables.mass[new] = tokens, docs, mass
    tables.n_tokens[k] -= tokens
    tables.size[k] -= docs
    tables.mass[k] = max(tables.mass[k] - mass, 0.0)
    size = len(window.table)
    seen_there = seen_here = False
    for r in range(n):  # the newest first
        at = halves.member[r]
        age = (row - at) % size
        if halves.side[r]:
            window.table[at] = new
            if tables.masses.shape[0] > 0:
                shift(tables.masses, window.weights, sums, k, at, -1.0)
                shift(tables.masses, window.weights, sums, new, at, 1.0)
            tables.in_window[new] += 1
            tables.in_window[k] -= 1
            tables.copies[new] += window.copies[at]
            tables.copies[k] -= window.copies[at]
            tables.born[new], tables.born_t[new] = row - age, window.t[at]
            if not seen_there:
                tables.last_seen[new], tables.last_t[new] = row - age, window.t[at]
            seen_there = True
        elif not seen_here:
            tables.last_seen[k], tables.last_t[k] = row - age, window.t[at]
            seen_here = True
    for e in range(layout.N_EXAMPLES):
        at, fit = tables.example_row[k, e] % size, tables.fit[k, e]
        if fit > -np.inf and tables.example_row[k, e] > row - size and window.table[at] == new:
            shown, length = tables.example[k, e], tables.example_length[k, e]
            keep_example(tables, new, shown, 0, length, fit, tables.example_row[k, e])
            tables.fit[k, e] = -np.inf
    if counts[layout.LAST] == k:
        counts[layout.LAST] = window.table[row % size]
    tables.theme[new] = tables.theme[k]
    tables.next_split[new] = tables.next_merge[new] = docs + 1 + docs // LATER
    part, rest, known = new, k, tables.reported[k] >= BORN
    if docs > tables.size[k]:
        part, rest = k, new
        tables.id[k], tables.id[new] = tables.id[new], tables.id[k]
        tables.reported[k], tables.reported[new] = UNKNOWN, tables.reported[k]
        tables.born[new], tables.born_t[new] = tables.born[k], tables.born_t[k]
    if known:
        tables.reported[part] = NOTICED
        report(words, postings, tables, window, events, counts, sums, part, SPLIT, tables.id[rest])
        if grown(config, tables, part, texts_of(tables, part)) >= 0:
            report(words, postings, tables, window, events, counts, sums, part, BIRTH, -1)


@uncounted
def try_split(config, words, postings, tables, window, events, counts, sums, halves, g, short):
    """Split the table whose turn it is by the largest gain; ``short``: arrays are, and it waits."""
    k = counts[layout.SPLIT_DUE]
    size = tables.size[k]
    counts[layout.SPLIT_DUE] = -1
    if not index.is_live(tables, counts, k) or size < tables.next_split[k]:
        return
    n, n_met = gather(
        config, words, postings, tables, window, counts, sums, halves, k, counts[layout.N_SEEN] - 1
    )
    seeds, best = 0, 0.0
    if n >= max(2 * LEAST_PART, SHARE * size):
        seeds = choose_seeds(
            config, words, postings, tables, window, counts, sums, halves, g, k, n, n_met
        )
    for i in range(seeds):
        begin_with(halves, n, halves.seed[i])
        settle(config, words, tables, window, counts, sums, halves, k, n, n_met)
        docs, tokens, mass = tally(window, halves, n, n_met)
        if min(docs, size - docs) < max(LEAST_PART, SHARE * size):
            continue
        if holds_together(words, postings, tables, counts, halves, n_met, docs, size):
            continue
        gain = split_gain(config, words, tables, counts, sums, halves, g, k, n_met, tokens, mass)
        if gain > best:
            best = gain
            for r in range(n):
                halves.best_side[r] = halves.side[r]
    if best > 0.0:
        need, listed = index.room_needed(words, counts, halves.met, n_met), index.list_room(n_met)
        short[0] = index.lacking(postings, tables, events, counts, need, listed, 1, 2)
        if short[0]:
            counts[layout.SPLIT_DUE] = k
            return
        flipped = n == size and halves.best_side[n - 1]  # the oldest document stays if it can
        for r in range(n):
            halves.side[r] = halves.best_side[r] != flipped
        divide(config, words, postings, tables, window, events, counts, sums, halves, k, n, n_met)
    tables.next_split[k] = tables.size[k] + 1 + tables.size[k] // LATER
