"""Dirichlet-multinomial components over an open vocabulary, by inverted lists of their words.

A component with counts S has the prior ``prior[w]`` on top, V words in all. Its evidence for a
row x, word distributions integrated out, is docs/math/temporal.md (13),

    sum_w [log Gamma(prior_w + S_w + x_w) - log Gamma(prior_w + S_w)]
    - log Gamma(prior + S + n) + log Gamma(prior + S)        (sums over words; n words in the row)

Only a component's own words differ from the prior, so a row costs its length times the components
that share a word with it, and one term for each other component.
"""

import math

import numpy as np

from streamddcrp.compilation import kernel
from streamddcrp.models.temporal.kernels.counts import seat_row
from streamddcrp.numerics import digamma

_NEGLIGIBLE = -30.0  # nats below the best at which a component adds nothing to a sum
_SHARE = 1e-9  # least share of a row that is removed from a component
_NEAR = 0.25  # common words of components that may be one: L1 distance below 1.5
_SLACK = 30.0  # nats that counts may gain from one component fewer, besides mixing
_TABLE = 64  # row lengths up to which the terms of all components are tabulated


@kernel
def log_rise(a, x):
    """Return log Gamma(a + x) - log Gamma(a) for a > 0, x >= 0."""
    if x == 1.0:
        return math.log(a)
    if x <= 16.0 and x == math.floor(x) and a < 1e15:
        product = 1.0
        for j in range(int(x)):
            product *= a + j
        return math.log(product)
    return math.lgamma(a + x) - math.lgamma(a)


@kernel
def inverted(bags, prior):
    """List the components of every word: heads (V + 1,), components, counts and log gains."""
    offsets, words, counts = bags.offsets, bags.words, bags.counts
    V, K = len(prior), len(offsets) - 1
    heads = np.zeros(V + 1, dtype=np.int64)
    for p in range(len(words)):
        heads[words[p] + 1] += 1
    heads = np.cumsum(heads)
    place = heads[:V].copy()
    component = np.empty(len(words), dtype=np.int64)
    count, gain = np.empty(len(words)), np.empty(len(words))
    for k in range(K):
        for p in range(offsets[k], offsets[k + 1]):
            w = words[p]
            j = place[w]
            place[w] += 1
            component[j], count[j] = k, counts[p]
            gain[j] = math.log1p(counts[p] / prior[w])
    return heads, component, count, gain


@kernel
def text_expected(rows, q, lists, sizes, prior, prior_size, out):
    """Evidence (N, K) of rows under components, without each row's own share of the counts.

    docs/math/temporal.md (13). ``q`` (N, K): the assignments of these counts; ``lists``: of
    `inverted`; ``sizes`` (K,): words of each; ``prior`` (V,) and its sum.
    """
    offsets, words, counts = rows.offsets, rows.words, rows.counts
    heads, component, count, gain = lists
    N, K = q.shape
    table = np.empty((_TABLE + 1, K))
    known = np.zeros(_TABLE + 1, dtype=np.bool_)
    for i in range(N):
        n, base = 0.0, 0.0
        for p in range(offsets[i], offsets[i + 1]):
            n += counts[p]
            base += log_rise(prior[words[p]], counts[p])
        whole = n == math.floor(n) and n <= _TABLE
        if whole:
            row = int(n)
            if not known[row]:
                known[row] = True
                for k in range(K):
                    table[row, k] = log_rise(prior_size + sizes[k], n)
        for k in range(K):
            own = q[i, k]
            if own > _SHARE:
                out[i, k] = base - log_rise(prior_size + max(sizes[k] - own * n, 0.0), n)
            elif whole:
                out[i, k] = base - table[row, k]
            else:
                out[i, k] = base - log_rise(prior_size + sizes[k], n)
        for p in range(offsets[i], offsets[i + 1]):
            w, x = words[p], counts[p]
            for j in range(heads[w], heads[w + 1]):
                k = component[j]
                own = q[i, k]
                if own > _SHARE:
                    left = prior[w] + max(count[j] - own * x, 0.0)
                    out[i, k] += log_rise(left, x) - log_rise(prior[w], x)
                elif x == 1.0:
                    out[i, k] += gain[j]
                else:
                    out[i, k] += log_rise(prior[w] + count[j], x) - log_rise(prior[w], x)


@kernel
def bag_evidence(bags, starts, rho, prior, prior_size, out):
    """Log evidence (E, K) of components' words of each epoch given those of epochs before."""
    offsets, words, counts = bags.offsets, bags.words, bags.counts
    E, K = out.shape
    V = len(prior)
    total, met = np.zeros(V), np.empty(V, dtype=np.int64)
    fresh = np.ones(V, dtype=np.bool_)
    for k in range(K):
        n_met, size = 0, 0.0
        for p in range(starts.offsets[k], starts.offsets[k + 1]):
            w = starts.words[p]
            if fresh[w]:
                fresh[w] = False
                met[n_met] = w
                n_met += 1
            total[w] += starts.counts[p]
            size += starts.counts[p]
        for e in range(E):
            if rho < 1.0:
                size *= rho
                for j in range(n_met):
                    total[met[j]] *= rho
            value, n = 0.0, 0.0
            for p in range(offsets[e * K + k], offsets[e * K + k + 1]):
                w, x = words[p], counts[p]
                if fresh[w]:
                    fresh[w] = False
                    met[n_met] = w
                    n_met += 1
                value += log_rise(prior[w] + total[w], x)
                total[w] += x
                n += x
            out[e, k] = value - log_rise(prior_size + size, n)
            size += n
        for j in range(n_met):
            total[met[j]] = 0.0
            fresh[met[j]] = True


@kernel
def overlaps(bags, sizes, rows, young, lists, prior, prior_size):
    """Pair young components with others of similar words that could be one with them.

    Similar: sum_w min(p_w, p'_w) > ``_NEAR``. They could be one where the evidence of the words
    loses no more than their counts of ``rows`` (K,) may gain: the log of the number of ways to mix
    these, and ``_SLACK``.
    """
    offsets, words, counts = bags.offsets, bags.words, bags.counts
    heads, component, count, _ = lists
    K = len(sizes)
    common, gain = np.empty(K), np.empty(K)
    first, second = [0 for _ in range(0)], [0 for _ in range(0)]
    for b in range(K):
        if not young[b] or sizes[b] <= 0.0:
            continue
        common[:] = 0.0
        for p in range(offsets[b], offsets[b + 1]):
            share = counts[p] / sizes[b]
            for j in range(heads[words[p]], heads[words[p] + 1]):
                common[component[j]] += min(share, count[j] / sizes[component[j]])
        for a in range(K):
            if a == b or (a > b and young[a]):
                common[a] = 0.0
        gain[:] = 0.0
        for p in range(offsets[b], offsets[b + 1]):
            x, base = counts[p], prior[words[p]]
            for j in range(heads[words[p]], heads[words[p] + 1]):
                if common[component[j]] > _NEAR:
                    gain[component[j]] += log_rise(base + count[j], x) - log_rise(base, x)
        for a in range(K):
            if common[a] <= _NEAR:
                continue
            value = gain[a] + _SLACK + log_rise(prior_size, sizes[b])
            value -= log_rise(prior_size + sizes[a], sizes[b])
            value += log_rise(1.0 + rows[a], rows[b]) - math.lgamma(1.0 + rows[b])
            if value > 0.0:
                first.append(min(a, b))
                second.append(max(a, b))
    return np.array(first, dtype=np.int64), np.array(second, dtype=np.int64)


@kernel
def _digamma_rise(a, x):
    """Return digamma(a + x) - digamma(a), between integers x by interpolation."""
    if x > 16.0:
        return digamma(a + x) - digamma(a)
    total = 0.0
    while x >= 1.0:
        total += 1.0 / a
        a += 1.0
        x -= 1.0
    return total + x / a


@kernel
def word_tables(bags, prior, out):
    """Write the expected draws of each word from the prior by components, ``out`` (V,)."""
    out[:] = 0.0
    for p in range(len(bags.words)):
        a = prior[bags.words[p]]
        out[bags.words[p]] += a * _digamma_rise(a, bags.counts[p])


@kernel
def linked(bags, prior, lists):
    """Fill linked lists of the components of every word; return the number of entries."""
    offsets, words, counts = bags.offsets, bags.words, bags.counts
    head, following, component, count, gain = lists
    n = 0
    for k in range(len(offsets) - 1):
        for p in range(offsets[k], offsets[k + 1]):
            w = words[p]
            component[n], count[n] = k, counts[p]
            gain[n] = math.log1p(counts[p] / prior[w])
            following[n], head[w] = head[w], n
            n += 1
    return n


@kernel
def _add_to_list(w, k, x, prior, lists, used):
    """Add ``x`` of a word to a component; return the number of entries."""
    head, following, component, count, gain = lists
    j = head[w]
    while j >= 0 and component[j] != k:
        j = following[j]
    if j < 0:
        j = used
        used += 1
        component[j], count[j] = k, 0.0
        following[j], head[w] = head[w], j
    count[j] += x
    gain[j] = math.log1p(count[j] / prior[w])
    return used


@kernel
def seat_text(rows, start, known, prior, terms, arrays, lists, out):
    """Assign rows one by one with `seat_row`, as `seat_drift` does.

    ``known``: components, entries of the lists and words so far, for the vocabulary grows with the
    rows, and the sum of the ``prior`` of these words. ``lists``: linked lists of the components of
    each word, -1 at their ends (updated). Returns rows done, and what is known then.
    """
    offsets, words, counts = rows.offsets, rows.words, rows.counts
    K, used, V, prior_size = known
    a0, log_new, least = terms
    past, size, weight, sizes = arrays
    head, following, component, count, gain = lists
    q, scores, chances = out
    N, C = len(offsets) - 1, len(size)
    for k in range(K):
        weight[k] = math.log(a0 + past[k] + size[k])  # the same bits as below
    for i in range(start, N):
        n, base, largest = 0.0, 0.0, V - 1
        for p in range(offsets[i], offsets[i + 1]):
            n += counts[p]
            base += log_rise(prior[words[p]], counts[p])
            largest = max(largest, words[p])
        if C == K or used + (offsets[i + 1] - offsets[i]) * (K + 1) > len(count):
            return i, (K, used, V, prior_size)
        while largest >= V:
            prior_size += prior[V]
            V += 1
        for k in range(K):
            q[i, k] = base + weight[k] - log_rise(prior_size + sizes[k], n)
        for p in range(offsets[i], offsets[i + 1]):
            w, x = words[p], counts[p]
            j = head[w]
            while j >= 0:
                if x == 1.0:
                    q[i, component[j]] += gain[j]
                else:
                    q[i, component[j]] += log_rise(prior[w] + count[j], x) - log_rise(prior[w], x)
                j = following[j]
        new = log_new + base - log_rise(prior_size, n)
        sizes[K] = 0.0  # of the component that may be opened
        K = seat_row(
            q[i], new, new != log_new, K, _NEGLIGIBLE, least, past, size, scores[i : i + 1],
            chances[i],
        )  # fmt: skip
        for k in range(K):
            share = q[i, k]
            if share > 0.0:
                sizes[k] += share * n
                weight[k] = math.log(a0 + past[k] + size[k])
                for p in range(offsets[i], offsets[i + 1]):
                    used = _add_to_list(words[p], k, share * counts[p], prior, lists, used)
    return N, (K, used, V, prior_size)


@kernel
def assigned(q, rows, width):
    """Sum bags of components, q[i, k] times row i: offsets (K + 1,), words as they came, counts."""
    offsets, words, counts = rows.offsets, rows.words, rows.counts
    N, K = q.shape
    size = np.zeros(K + 1, dtype=np.int64)
    room = 0
    for i in range(N):
        for k in range(K):
            if q[i, k] > 0.0:
                size[k + 1] += 1
                room += offsets[i + 1] - offsets[i]
    size = np.cumsum(size)
    row, place = np.empty(size[K], dtype=np.int64), size[:K].copy()
    for i in range(N):
        for k in range(K):
            if q[i, k] > 0.0:
                row[place[k]] = i
                place[k] += 1
    out_offsets = np.zeros(K + 1, dtype=np.int64)
    out_words, out_counts = np.empty(room, dtype=np.int64), np.empty(room)
    where = np.full(width, -1, dtype=np.int64)
    n = 0
    for k in range(K):
        begin = n
        for j in range(size[k], size[k + 1]):
            share = q[row[j], k]
            for p in range(offsets[row[j]], offsets[row[j] + 1]):
                w = words[p]
                if where[w] < begin:
                    where[w] = n
                    out_words[n], out_counts[n] = w, 0.0
                    n += 1
                out_counts[where[w]] += share * counts[p]
        out_offsets[k + 1] = n
    return out_offsets, out_words[:n].copy(), out_counts[:n].copy()


@kernel
def weighted(bags, weights, K, width):
    """Sum of E groups of K bags, bag e * K + k with ``weights`` (E,); of weight 0: left out."""
    offsets, words, counts = bags.offsets, bags.words, bags.counts
    E = len(weights)
    out_offsets = np.zeros(K + 1, dtype=np.int64)
    out_words, out_counts = np.empty(len(words), dtype=np.int64), np.empty(len(words))
    where = np.full(width, -1, dtype=np.int64)
    n = 0
    for k in range(K):
        begin = n
        for e in range(E):
            if weights[e] == 0.0:
                continue
            for p in range(offsets[e * K + k], offsets[e * K + k + 1]):
                w = words[p]
                if where[w] < begin:
                    where[w] = n
                    out_words[n], out_counts[n] = w, 0.0
                    n += 1
                out_counts[where[w]] += weights[e] * counts[p]
        out_offsets[k + 1] = n
    return out_offsets, out_words[:n].copy(), out_counts[:n].copy()
