"""Sums of sparse bags of words: bag b holds entries offsets[b] to offsets[b + 1]."""

import numpy as np

from streamddcrp.compilation import kernel


@kernel
def assigned(q, offsets, words, counts, width):
    """Sum the bags of components: q[i, k] times row i over the rows.

    Returns offsets (K + 1,), words and counts; words of a bag in the order in which they came.
    """
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
def weighted(offsets, words, counts, weights, K, width):
    """Sum of E groups of K bags, bag e * K + k with ``weights`` (E,); of weight 0: left out."""
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
