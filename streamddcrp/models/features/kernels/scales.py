"""The scales of features: each has its own ratio of noise to loading variance, from a grid."""

import math

from streamddcrp.compilation import uncounted
from streamddcrp.models.features.kernels.layout import RESCALE, SHAPE
from streamddcrp.models.features.kernels.slots import live_slots
from streamddcrp.particles.kernels.random import uniform


@uncounted
def rescale(config, particles, sums, work, i, t, step):
    """Draw the ratio of each live feature given everything else, by a Gibbs step a feature.

    ``step`` tells draws of an arrival t apart.

    From ratio rho to rho + delta the evidence changes by the factor ((rho + delta) / rho)^(D/2)
    E exp(-delta ||Y_k||^2 / (2 s2)), which is a function of ``cov[k, k]`` and ``mean[k]``; the
    posterior by one rank: dead features, long marginalised out, do not matter.
    """
    G = len(config.ratios)
    if G == 1:
        return
    cov, mean = particles.cov[i], particles.mean[i]
    n, D = live_slots(particles, i, work.slots), mean.shape[1]
    for a in range(1, n):
        k = work.slots[a]
        old, spread, square = config.ratios[particles.scale[i, k]], cov[k, k], 0.0
        for d in range(D):
            square += mean[k, d] * mean[k, d]
        top = -math.inf
        for g in range(G):
            delta = config.ratios[g] - old
            wider = 1.0 + delta * spread
            gain = 0.5 * D * (math.log(config.ratios[g] / old) - math.log(wider))
            loss = delta * square / (2.0 * wider)
            if sums[SHAPE] > 0.0:
                gain -= sums[SHAPE] * math.log1p(max(loss / particles.rate[i], -1.0 + 1e-15))
            else:
                gain -= loss / particles.rate[i]
            work.lean[g] = gain
            top = max(top, gain)
        total = 0.0
        for g in range(G):
            work.lean[g] = math.exp(work.lean[g] - top)
            total += work.lean[g]
        u = total * uniform(config.seed, t, i, RESCALE, 64 * step + k)
        chosen = 0
        while chosen < G - 1 and u >= work.lean[chosen]:
            u -= work.lean[chosen]
            chosen += 1
        delta = config.ratios[chosen] - old
        if delta == 0.0:
            continue
        particles.scale[i, k] = chosen
        gain = delta / (1.0 + delta * spread)
        if sums[SHAPE] > 0.0:
            particles.rate[i] += 0.5 * gain * square
        for b in range(n):
            work.v[work.slots[b]] = cov[work.slots[b], k]
        for d in range(D):
            work.e[d] = mean[k, d]
        for b in range(n):
            j = work.slots[b]
            for d in range(D):
                mean[j, d] -= gain * work.v[j] * work.e[d]
            for c in range(n):
                cov[j, work.slots[c]] -= gain * work.v[j] * work.v[work.slots[c]]
