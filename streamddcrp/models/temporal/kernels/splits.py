"""Candidate splits of components, and the sharing of their rows (docs/math/temporal.md (9)).

Rows of texts are placed by correspondence analysis, whose first axis shows the largest differences.
The smaller side leaves, and a few rounds move single rows to where their words are more probable.
Numeric rows are cut by 2-means along a direction, and rounds of sharing follow. The result is only
a proposal.
"""

import math

import numpy as np

from streamddcrp.compilation import kernel
from streamddcrp.likelihoods.kernels.families import expected_log_lik, posteriors
from streamddcrp.models.temporal.kernels.numbers import conjugate_stats, drift_stats, kalman
from streamddcrp.models.temporal.kernels.text import log_rise

ROUNDS = 5  # of sharing rows of numbers between the halves of a split
_TURNS = 12  # of the power iteration
_ROUNDS = 4  # of moving rows
_STILL = 0.01  # share of the rows; rounds that move fewer are the last
_LONE = 1.0  # expected rows that a side must have at least


@kernel
def two_means(x, w):
    """Split weighted numbers (N,) by 2-means; return the means, or NaN if all are one."""
    low, high = np.inf, -np.inf
    n = 0
    for i in range(len(x)):
        if w[i] > 0.1:
            low, high = min(low, x[i]), max(high, x[i])
            n += 1
    if n < 2:
        return np.nan, np.nan
    for _ in range(20):
        cut = 0.5 * (low + high)
        below, above, sum_below, sum_above = 0.0, 0.0, 0.0, 0.0
        for i in range(len(x)):
            if x[i] > cut:
                above += w[i]
                sum_above += w[i] * x[i]
            else:
                below += w[i]
                sum_below += w[i] * x[i]
        if above <= 0.0 or below <= 0.0:
            return np.nan, np.nan
        was = cut
        low, high = sum_below / below, sum_above / above
        if 0.5 * (low + high) == was:
            break
    return low, high


@kernel
def split_drift(rows, past, begins, starts, law, shared, stats, out):
    """Share the rows of a component between two candidates, smoothing in between.

    ``rows``: those of all epochs (N, D), about the mean at birth, where each epoch begins (E + 1,),
    and the component's share of each row (N, 1); ``shared`` (N, 2): those of the two (updated).
    ``past``: pseudo-count of a slot, and weights (W,) and expected rows (W, 2) of the epochs before
    the window. ``stats``: work; others as in `kalman`, for two.
    """
    X, first, own = rows
    a0, kappa, before = past
    E, W, D = len(first) - 1, len(kappa), X.shape[1]
    size, mean, var, noise = stats.size, out.mean, out.var, law[2]
    log_weight = np.empty(2)
    for r in range(ROUNDS + 1):
        for e in range(E):
            drift_stats(
                X[first[e] : first[e + 1]], shared[first[e] : first[e + 1]], size[e],
                stats.n_values[e], stats.total[e], stats.square[e],
            )  # fmt: skip
        kalman(stats, begins, starts, law, out)
        if r == ROUNDS:
            return
        for e in range(max(begins[0], 0), E):
            for k in range(2):
                weight = a0 + size[e, k]
                for d in range(W):
                    weight += kappa[d] * (size[e - 1 - d, k] if d < e else before[W + e - 1 - d, k])
                log_weight[k] = math.log(weight)
                for c in range(D):
                    log_weight[k] -= 0.5 * var[e, k, c] / noise[c]
            if begins[1] > e:
                log_weight[1] = -np.inf
            for i in range(first[e], first[e + 1]):
                gain = log_weight[1] - log_weight[0]
                for c in range(D):
                    x = X[i, c]
                    near, far = x - mean[e, 0, c], x - mean[e, 1, c]
                    if math.isnan(x):
                        gain += 0.5 * (var[e, 1, c] - var[e, 0, c]) / noise[c]
                    else:
                        gain += 0.5 * (near * near - far * far) / noise[c]
                if gain > 0.0:
                    leaves = 1.0 / (1.0 + math.exp(-gain))
                    stays = math.exp(-gain) * leaves
                else:
                    stays = 1.0 / (1.0 + math.exp(gain))
                    leaves = math.exp(gain) * stays
                shared[i, 0], shared[i, 1] = own[i, 0] * stays, own[i, 0] * leaves


@kernel
def split_conjugate(rows, past, begins, starts, law, shared, stats):
    """Share the rows of a component between two candidates, as `split_drift` does."""
    X, first, own = rows
    a0, kappa, before = past
    family, hyper, prior, rho = law
    E, W = len(first) - 1, len(kappa)
    log_weight, near, post = np.empty(2), np.empty_like(starts), np.empty((2, len(prior)))
    for r in range(ROUNDS + 1):
        for e in range(E):
            part = slice(first[e], first[e + 1])
            conjugate_stats(family, hyper, X[part], shared[part], stats[e])
        if r == ROUNDS:
            return
        for e in range(max(begins[0], 0), E):
            near[:] = rho ** (e + 1) * starts
            for s in range(E):
                near += rho ** abs(e - s) * stats[s]
            posteriors(family, hyper, near, 2, post)
            for k in range(2):
                count = stats[e, k, 0]
                for d in range(W):
                    s = e - 1 - d
                    count += kappa[d] * (stats[s, k, 0] if s >= 0 else before[W + s, k])
                log_weight[k] = math.log(a0 + count)
            if begins[1] > e:
                log_weight[1] = -np.inf
            for i in range(first[e], first[e + 1]):
                gain = log_weight[1] - log_weight[0]
                if gain > -np.inf:
                    gain += expected_log_lik(family, hyper, post[1], X[i])
                    gain -= expected_log_lik(family, hyper, post[0], X[i])
                least = math.exp(-abs(gain))
                leaves = 1.0 / (1.0 + least) if gain > 0.0 else least / (1.0 + least)
                shared[i, 0], shared[i, 1] = own[i, 0] * (1.0 - leaves), own[i, 0] * leaves


@kernel
def _first_axis(bags, own, rows, place, weight, centre, along):
    """Place rows on the first axis of their correspondence analysis, into ``along`` (N,).

    Row i stands at ``x_i / sqrt(n_i) - sqrt(n_i) centre``, each word weighed by ``weight``; its
    mass is ``own``. The search begins at the row that stands farthest out.
    """
    offsets, words, counts = bags.offsets, bags.words, bags.counts
    n_words = len(weight)
    axis, fresh = np.zeros(n_words), np.empty(n_words)
    far, farthest = -1.0, rows[0]
    base = 0.0
    for j in range(n_words):
        base += centre[j] * centre[j]
    for i in rows:
        n, square, cross = 0.0, 0.0, 0.0
        for p in range(offsets[i], offsets[i + 1]):
            j = place[words[p]]
            n += counts[p]
            square += (counts[p] * weight[j]) ** 2
            cross += counts[p] * weight[j] * centre[j]
        distance = own[i] * (square / n - 2.0 * cross + n * base) if n > 0.0 else 0.0
        if distance > far:
            far, farthest = distance, i
    for p in range(offsets[farthest], offsets[farthest + 1]):
        j = place[words[p]]
        axis[j] = counts[p] * weight[j]
    for _ in range(_TURNS):
        inner = 0.0
        for j in range(n_words):
            inner += centre[j] * axis[j]
        fresh[:] = 0.0
        shift = 0.0
        for i in rows:
            n, value = 0.0, 0.0
            for p in range(offsets[i], offsets[i + 1]):
                j = place[words[p]]
                n += counts[p]
                value += counts[p] * weight[j] * axis[j]
            if n == 0.0:
                along[i] = 0.0
                continue
            root = math.sqrt(n)
            value = value / root - root * inner
            along[i] = value
            shift += own[i] * root * value
            for p in range(offsets[i], offsets[i + 1]):
                j = place[words[p]]
                fresh[j] += own[i] * value / root * counts[p] * weight[j]
        norm = 0.0
        for j in range(n_words):
            fresh[j] -= shift * centre[j]
            norm += fresh[j] * fresh[j]
        if norm <= 0.0:
            return
        for j in range(n_words):
            axis[j] = fresh[j] / math.sqrt(norm)


@kernel
def split_rows(bags, own, rows, start, prior, prior_size, place, side):
    """Split the rows of a component; return the gain of evidence, -inf if one side stays empty.

    ``own`` (N,): its share of each of N rows; ``rows``: those that may leave; ``start``: words and
    counts that stay in any case; ``prior`` (V,) and its sum. ``place`` (V,): work, -1 everywhere
    before and after. ``side`` (N,) out: what part of each of ``rows`` leaves.
    """
    offsets, words, counts = bags.offsets, bags.words, bags.counts
    start_words, start_counts = start
    room = 0
    for i in rows:
        room += offsets[i + 1] - offsets[i]
    met = np.empty(room, dtype=np.int64)
    n_met, mass, size = 0, 0.0, 0.0
    every = np.zeros(room)
    for i in rows:
        mass += own[i]
        for p in range(offsets[i], offsets[i + 1]):
            w = words[p]
            if place[w] < 0:
                place[w] = n_met
                met[n_met] = w
                n_met += 1
            every[place[w]] += own[i] * counts[p]
            size += own[i] * counts[p]
    base, kept = np.empty(n_met), np.zeros(n_met)
    for j in range(n_met):
        base[j] = prior[met[j]]
    kept_size = 0.0
    for p in range(len(start_words)):
        kept_size += start_counts[p]
        if place[start_words[p]] >= 0:
            kept[place[start_words[p]]] = start_counts[p]
    every = every[:n_met]
    gain = -np.inf
    if size > 0.0:
        weight, centre = np.empty(n_met), np.empty(n_met)
        for j in range(n_met):
            weight[j] = math.sqrt((size + prior_size) / (every[j] + base[j]))
            centre[j] = weight[j] * every[j] / size
        _first_axis(bags, own, rows, place, weight, centre, side)
        whole, stays = (every, size, mass), (kept, kept_size)
        gain = _moved(bags, own, rows, place, (base, prior_size), whole, stays, side)
    for j in range(n_met):
        place[met[j]] = -1
    return gain


@kernel
def _moved(bags, own, rows, place, prior, whole, stays, side):
    """Start from the signs of ``side``, move rows; return the gain of evidence."""
    offsets, words, counts = bags.offsets, bags.words, bags.counts
    (base, prior_size), (every, size, mass), (kept, kept_size) = prior, whole, stays
    leaving = 0.0
    for i in rows:
        if side[i] > 0.0:
            leaving += own[i]
    sign = 1.0 if leaving <= 0.5 * mass else -1.0
    gone, n_gone, gone_size = np.zeros(len(base)), 0.0, 0.0
    for i in rows:
        side[i] = 1.0 if sign * side[i] > 0.0 else 0.0
        if side[i] == 0.0:
            continue
        n_gone += own[i]
        for p in range(offsets[i], offsets[i + 1]):
            gone[place[words[p]]] += own[i] * counts[p]
            gone_size += own[i] * counts[p]
    for _ in range(_ROUNDS):
        moved = 0.0
        for i in rows:
            if not _LONE <= n_gone <= mass - _LONE:
                return -np.inf
            out, stay = own[i] * side[i], own[i] * (1.0 - side[i])
            n, value = 0.0, 0.0
            for p in range(offsets[i], offsets[i + 1]):
                j, x = place[words[p]], counts[p]
                n += x
                there = max(gone[j] - out * x, 0.0)
                here = max(kept[j] + every[j] - gone[j] - stay * x, 0.0)
                value += log_rise(base[j] + there, x) - log_rise(base[j] + here, x)
            value += log_rise(prior_size + max(kept_size + size - gone_size - stay * n, 0.0), n)
            value -= log_rise(prior_size + max(gone_size - out * n, 0.0), n)
            value += math.log(max(n_gone - out, 1e-3) / max(mass - n_gone - stay, 1e-3))
            share = 1.0 / (1.0 + math.exp(-value)) if value > -700.0 else 0.0
            step = own[i] * (share - side[i])
            moved += abs(step)
            n_gone += step
            side[i] = share
            for p in range(offsets[i], offsets[i + 1]):
                gone[place[words[p]]] += step * counts[p]
                gone_size += step * counts[p]
        if moved < _STILL * mass:
            break
    if not _LONE <= n_gone <= mass - _LONE:
        return -np.inf
    gain = 0.0
    for j in range(len(base)):
        there = min(max(gone[j], 0.0), every[j])
        gain += log_rise(base[j], there) + log_rise(base[j] + kept[j], every[j] - there)
        gain -= log_rise(base[j] + kept[j], every[j])
    gain -= log_rise(prior_size, gone_size)
    gain -= log_rise(prior_size + kept_size, size - gone_size)
    return gain + log_rise(prior_size + kept_size, size)


@kernel
def split_gains(bags, q, least, starts, prior, prior_size, out):
    """Gain of evidence by a split of each component with ``least`` rows; ``out`` (K,)."""
    N, K = q.shape
    place = np.full(len(prior), -1, dtype=np.int64)
    own, side = np.empty(N), np.zeros(N)
    rows = np.empty(N, dtype=np.int64)
    for k in range(K):
        n, mass = 0, 0.0
        for i in range(N):
            own[i] = q[i, k]
            if own[i] > 0.0:
                rows[n] = i
                n += 1
                mass += own[i]
        out[k] = -np.inf
        if mass >= least:
            some = slice(starts.offsets[k], starts.offsets[k + 1])
            start = starts.words[some], starts.counts[some]
            out[k] = split_rows(bags, own, rows[:n], start, prior, prior_size, place, side)
