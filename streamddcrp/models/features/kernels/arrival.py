"""Arrivals of the time-varying Indian buffet process, and annealing over the first of them.

A particle's features stand in slots; slot 0 is the baseline, which every row has (its prior
variance is 0 where there is none). ``owners`` holds, for the last 2 r + 1 rows, the features a row
has as bits. A feature without an owner among the last r rows is dead and leaves its slot.
"""

import math

from streamddcrp.compilation import entry, uncounted
from streamddcrp.models.features.kernels.names import name_features
from streamddcrp.models.features.kernels.rejuvenate import rejuvenate, resample_row
from streamddcrp.models.features.kernels.slots import (
    LIVE,
    LOG_DENSITY,
    N_ACTIVE,
    N_FEATURES,
    N_SEEN,
    P_NEW,
    ROW,
    SHAPE,
    rescale,
)
from streamddcrp.models.features.kernels.update import settle
from streamddcrp.models.features.kernels.weigh import most_new, weigh
from streamddcrp.particles.kernels.random import uniform


@entry
def step_rows(
    config, particles, rows, names, counts, sums, work, X, seen, t, done, out, out_id, out_prob
):
    """Predict and learn rows ``done`` on; return how many are done, fewer where slots run out.

    ``X`` (N, D): 0 where a value is missing; ``seen`` (N, D): 1 where there is one; ``t`` (N,) is
    written beside events. ``out`` (N, 3); ``out_id``, ``out_prob`` (N, 64): public ids of the live
    features (-1 behind the last) and the probability of each.
    """
    for n in range(done, len(X)):
        if not _room(config, particles, counts):
            return n
        n_dims = int(seen[n].sum())
        n_pool = weigh(config, particles, counts, sums, work, X[n], seen[n], n_dims)
        _report(particles, names, counts, work, out[n], out_id[n], out_prob[n])
        settle(config, particles, rows, counts, sums, work, X[n], seen[n], n_dims, n_pool)
        if config.moves > 0:
            for i in range(counts[N_ACTIVE]):
                rejuvenate(config, particles, rows, counts, sums, work, i)
                rescale(config, particles, sums, work, i, counts[N_SEEN], 0)
        counts[N_SEEN] += 1
        name_features(config, particles, names, counts, work, t[n])
    return len(X)


@entry
def predict(config, particles, names, counts, sums, work, X, seen, out, out_id, out_prob, out_fit):
    """Predict rows (N, D), each as if it came next, and learn nothing.

    ``out_fit`` (N, D) : the rows without their noise, as the features explain them.
    """
    for n in range(len(X)):
        n_dims = int(seen[n].sum())
        weigh(config, particles, counts, sums, work, X[n], seen[n], n_dims)
        _report(particles, names, counts, work, out[n], out_id[n], out_prob[n])
        out_fit[n] = 0.0
        for i in range(counts[N_ACTIVE]):
            w = math.exp(work.total[i] - work.increment[0])
            for k in range(particles.n_owners.shape[1]):
                p = work.marginal[i, k] if k > 0 else 1.0
                if k == 0 or particles.n_owners[i, k] > 0:
                    for d in range(X.shape[1]):
                        out_fit[n, d] += w * p * particles.mean[i, k, d]


@uncounted
def _room(config, particles, counts):
    """Whether every particle has slots for as many new features as a row may bring."""
    n_new = most_new(config, counts[N_SEEN])
    K = particles.n_owners.shape[1]
    if config.most_slots <= K:
        return True
    for i in range(counts[N_ACTIVE]):
        n = 0
        for k in range(1, K):
            n += particles.n_owners[i, k] > 0
        if 1 + n + n_new > K:
            return False
    return True


@uncounted
def _report(particles, names, counts, work, out, out_id, out_prob):
    """Write the prediction of a row."""
    n_live = 0
    for g in range(len(names.label)):
        work.place_of[g] = -1
        if names.label[g] >= 0 and names.weight[g] >= LIVE and n_live < len(out_id):
            work.place_of[g] = n_live
            out_id[n_live] = names.label[g]
            out_prob[n_live] = 0.0
            n_live += 1
    out_id[n_live:] = -1
    out[LOG_DENSITY] = work.increment[0]
    out[P_NEW] = 0.0
    out[N_FEATURES] = n_live
    for i in range(counts[N_ACTIVE]):
        w = math.exp(work.total[i] - work.increment[0])
        out[P_NEW] += w * work.marginal[i, 0]
        for k in range(1, particles.n_owners.shape[1]):
            g = particles.name[i, k]
            if g >= 0 and work.place_of[g] >= 0:
                out_prob[work.place_of[g]] += w * work.marginal[i, k]


@entry
def anneal(config, particles, rows, counts, sums, work, shapes, rates, log_weight):
    """Anneal particles through priors of the noise variance; sum their log importance weights.

    After each change of prior as many rows as the window has, at random, and all scales are
    resampled under it. Neal, "Annealed importance sampling", Statistics and Computing 2001.
    ``shapes``, ``rates`` (L + 1,): of the inverse gamma priors; the particles were made under the
    first. ``log_weight`` (>= particles,): 0; afterwards the log importance weights.
    """
    t = counts[N_SEEN] - 1
    n_window = min(t + 1, config.order)
    half = sums[SHAPE] - shapes[0]  # half the number of values
    step = config.moves
    for level in range(1, len(shapes)):
        a, b = shapes[level], rates[level]
        sums[SHAPE] = a + half
        for i in range(counts[N_ACTIVE]):
            gain = particles.rate[i] - rates[level - 1]
            log_weight[i] += _log_factor(a, b, half, gain) - _log_factor(
                shapes[level - 1], rates[level - 1], half, gain
            )
            particles.rate[i] = b + gain
            for k in range(n_window):
                u = uniform(config.seed, t, i, ROW, step + k)
                row = t - min(int(u * n_window), n_window - 1)
                resample_row(config, particles, rows, sums, work, i, t, row, step + k)
            rescale(config, particles, sums, work, i, t, level)
        step += n_window


@uncounted
def _log_factor(a, b, half, gain):
    """Log of the evidence's factor that depends on the prior of the noise variance."""
    return (
        math.lgamma(a + half) - math.lgamma(a) + a * math.log(b) - (a + half) * math.log(b + gain)
    )


@entry
def rename(config, particles, names, counts, work, time):
    """Give ids to the features of particles that were joined from two runs."""
    name_features(config, particles, names, counts, work, time)
