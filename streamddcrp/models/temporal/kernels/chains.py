"""Chains: clusters that begin, continue between epochs, and end; and their joint density.

A chain is alive while the decayed count of its past is positive: while fewer than ``len(kappa)``
successive epochs lack rows of it. Parameters are integrated out, docs/math/temporal.md (3), (11),
(13). ``fore`` holds the knowledge of a chain from epochs before the present one, from where ratios
of densities start.
"""

import math

import numpy as np

from streamddcrp.compilation import kernel
from streamddcrp.likelihoods.kernels.families import add_stats, posterior
from streamddcrp.models.temporal.kernels.text import log_rise

GAUSSIAN, CONJUGATE, WORDS = 0, 1, 2
_LOG_2PI = math.log(2.0 * math.pi)


@kernel
def _add_row(law, rows, i, sign, out):
    """Add the statistics (P,) of a row or, with ``sign`` -1, remove them."""
    if law.kind == GAUSSIAN:
        D = rows.X.shape[1]
        for d in range(D):
            x = rows.X[i, d]
            if not math.isnan(x):
                out[d] += sign
                out[D + d] += sign * x
                out[2 * D + d] += sign * x * x
    elif law.kind == CONJUGATE:
        add_stats(law.family, law.hyper, rows.X[i], sign, out)
    else:
        for p in range(rows.offsets[i], rows.offsets[i + 1]):
            out[rows.words[p]] += sign * rows.counts[p]
            out[-1] += sign * rows.counts[p]


@kernel
def add(law, rows, chains, t, i, k, sign):
    """Add a row of epoch t to chain k or, with ``sign`` -1, remove it."""
    chains.sizes[t, k] += sign
    _add_row(law, rows, i, sign, chains.stats[t, k])
    if chains.sizes[t, k] == 0.0:
        chains.stats[t, k] = 0.0  # removes rounding errors


@kernel
def _absorb(law, now, run, post):
    """Return the log evidence of an epoch's rows given ``run``, and add them to it."""
    out = 0.0
    if law.kind == GAUSSIAN:
        D = len(run) // 2
        for d in range(D):
            n = now[d]
            if n > 0.0:
                R, P = law.noise[d], run[D + d]
                centre = now[D + d] / n
                gap, gain = centre - run[d], P / (P + R / n)
                scatter = max(0.0, now[2 * D + d] - n * centre * centre)
                out -= 0.5 * (
                    n * (_LOG_2PI + math.log(R))
                    + math.log1p(n * P / R)
                    + (gap * gap * (1.0 - gain) * n + scatter) / R
                )
                run[d] += gain * gap
                run[D + d] = gain * R / n
    elif law.kind == CONJUGATE:
        posterior(law.family, law.hyper, run, post)
        out -= post[0]
        run += now
        posterior(law.family, law.hyper, run, post)
        out += post[0]
    else:
        for w in range(len(now) - 1):
            if now[w] > 0.0:
                out += log_rise(law.prior[w] + run[w], now[w])
        if now[-1] > 0.0:
            out -= log_rise(law.prior_size + run[-1], now[-1])
        run += now
    return out


@kernel
def _pass(law, run):
    """Advance a chain's knowledge by an epoch, which fades it."""
    if law.kind == GAUSSIAN:
        D = len(run) // 2
        for d in range(D):
            run[D + d] += law.drift[d]
    else:
        run *= law.rho


@kernel
def tail(law, rows, chains, head, k, t, i):
    """Log evidence of ``k``'s rows from epoch t on, i with them, after ``head``'s before t."""
    chains.run[:] = chains.fore[head]
    born = chains.last[head] >= 0
    out = 0.0
    for e in range(t, max(t, chains.end[k]) + 1):
        more = e == t and i >= 0
        if more or chains.sizes[e, k] > 0.0:
            chains.now[:] = chains.stats[e, k]
            if more:
                _add_row(law, rows, i, 1.0, chains.now)
            out += _absorb(law, chains.now, chains.run, chains.post)
            born = True
        if born:
            _pass(law, chains.run)
    return out


@kernel
def smoothed(law, chains, k, t, mean, var):
    """Fill mean and variance (D,) of a Gaussian chain's means in epoch t given all of its rows."""
    D = len(mean)
    for d in range(D):
        R, J, h = law.noise[d], 0.0, 0.0  # precision, and times the mean, of later rows
        for e in range(chains.end[k], t, -1):
            J += chains.stats[e, k, d] / R
            h += chains.stats[e, k, D + d] / R
            fading = 1.0 / (1.0 + law.drift[d] * J)
            J *= fading
            h *= fading
        P = chains.fore[k, D + d]
        J += 1.0 / P + chains.stats[t, k, d] / R
        h += chains.fore[k, d] / P + chains.stats[t, k, D + d] / R
        mean[d], var[d] = h / J, 1.0 / J


@kernel
def mean_gain(law, x, mean, var):
    """Return the gain of a chain's `tail` by a row (D,) of numbers, given `smoothed` without it."""
    out = 0.0
    for d in range(len(x)):
        if not math.isnan(x[d]):
            V = var[d] + law.noise[d]
            out -= 0.5 * (_LOG_2PI + math.log(V) + (x[d] - mean[d]) ** 2 / V)
    return out


@kernel
def word_gain(law, rows, chains, k, t, i):
    """Return the gain of chain k's `tail` by a row of words, from these words alone."""
    out, total = 0.0, 0.0
    for p in range(rows.offsets[i], rows.offsets[i + 1]):
        total += rows.counts[p]
    for p in range(rows.offsets[i], rows.offsets[i + 1] + 1):
        whole = p == rows.offsets[i + 1]  # the sums over words come last
        w = chains.stats.shape[2] - 1 if whole else rows.words[p]
        x = total if whole else rows.counts[p]
        prior = law.prior_size if whole else law.prior[w]
        known, gain = chains.fore[k, w], 0.0
        for e in range(t, max(t, chains.end[k]) + 1):
            n = chains.stats[e, k, w]
            if e == t:
                gain += log_rise(prior + known + n, x)
            elif n > 0.0:
                gain += log_rise(prior + known + x, n) - log_rise(prior + known, n)
            known = law.rho * (known + n)
            x *= law.rho
        out += -gain if whole else gain
    return out


@kernel
def log_counts(law, chains, head, k, t, upto, more):
    """Log prior of ``k``'s counts in epochs t to ``upto``, ``more`` in t, after ``head``'s."""
    out = 0.0
    for e in range(t, min(upto, len(chains.sizes) - 1) + 1):
        m = chains.sizes[e, k] + (more if e == t else 0.0)
        if m > 0.0:
            past = 0.0
            for d in range(min(len(law.kappa), e)):
                s = e - 1 - d
                n = chains.sizes[s, k if s >= t else head] + (more if s == t else 0.0)
                past += law.kappa[d] * n
            if past > 0.0:
                out += math.lgamma(past + m) - math.lgamma(past)
            else:
                out += law.log_alpha + math.lgamma(m)
    return out


@kernel
def survey(chains, t, now):
    """Find every chain's last epoch before t, and its first and last from ``now`` on."""
    T, C = chains.sizes.shape
    for k in range(C):
        chains.last[k], chains.next[k], chains.end[k] = -1, T, -1
        for e in range(t):
            if chains.sizes[e, k] > 0.0:
                chains.last[k] = e
        for e in range(T - 1, now - 1, -1):
            if chains.sizes[e, k] > 0.0:
                chains.next[k] = e
                chains.end[k] = max(chains.end[k], e)


@kernel
def swap_tails(rows, chains, a, b, t):
    """Swap the rows from epoch t on of two slots, one of them perhaps empty."""
    for e in range(t, len(chains.sizes)):
        n = chains.sizes[e, a]
        chains.sizes[e, a], chains.sizes[e, b] = chains.sizes[e, b], n
        for p in range(chains.stats.shape[2]):
            s = chains.stats[e, a, p]
            chains.stats[e, a, p], chains.stats[e, b, p] = chains.stats[e, b, p], s
    for i in range(rows.first[t], len(chains.c)):
        if chains.c[i] == a:
            chains.c[i] = b
        elif chains.c[i] == b:
            chains.c[i] = a
    n = chains.next[a]
    chains.next[a], chains.next[b] = chains.next[b], n
    n = chains.end[a]
    chains.end[a], chains.end[b] = chains.end[b], n


@kernel
def recount(law, rows, chains):
    """Recount the rows of all chains, and reset their knowledge."""
    chains.sizes[:] = 0.0
    chains.stats[:] = 0.0
    for t in range(len(chains.sizes)):
        for i in range(rows.first[t], rows.first[t + 1]):
            if chains.c[i] >= 0:
                add(law, rows, chains, t, i, chains.c[i], 1.0)
    chains.fore[:] = chains.birth


@kernel
def advance(law, chains, t):
    """Add the rows of epoch t to the knowledge."""
    survey(chains, t, t)
    for k in range(len(chains.fore)):
        if chains.sizes[t, k] > 0.0:
            _absorb(law, chains.stats[t, k], chains.fore[k], chains.post)
        if chains.last[k] >= 0 or chains.sizes[t, k] > 0.0:
            _pass(law, chains.fore[k])


@kernel
def log_prior(law, rows, chains):
    """Log p of the chains, -inf if one is silent for too long; and their number."""
    T, C = chains.sizes.shape
    out, births = 0.0, 0.0
    for t in range(T):
        past = 0.0
        for d in range(min(len(law.kappa), t)):
            past += law.kappa[d] * (rows.first[t - d] - rows.first[t - 1 - d])
        A, N = math.exp(law.log_alpha) + past, rows.first[t + 1] - rows.first[t]
        out += math.lgamma(A) - math.lgamma(A + N)
    survey(chains, 0, 0)
    for k in range(C):
        if chains.next[k] < T:
            births += 1.0
            silent = 0
            for e in range(chains.next[k], chains.end[k] + 1):
                silent = 0 if chains.sizes[e, k] > 0.0 else silent + 1
                if silent == len(law.kappa):
                    return -np.inf, births
            out += log_counts(law, chains, k, k, 0, T - 1, 0.0)
    return out, births


@kernel
def log_evidence(law, rows, chains):
    """Log p of all rows given the chains."""
    T, C = chains.sizes.shape
    chains.fore[:] = chains.birth
    survey(chains, 0, 0)
    out = 0.0
    for k in range(C):
        if chains.next[k] < T:
            out += tail(law, rows, chains, k, k, 0, -1)
    return out
