"""Annealing: particles led from a law with much noise to the one that is meant."""

import math

from streamddcrp.compilation import entry, uncounted
from streamddcrp.models.features.kernels.layout import N_ACTIVE, N_SEEN, ROW, SHAPE
from streamddcrp.models.features.kernels.names import name_features
from streamddcrp.models.features.kernels.rejuvenate import redraw
from streamddcrp.models.features.kernels.scales import rescale
from streamddcrp.particles.kernels.random import uniform


@entry
def anneal(config, particles, rows, counts, sums, work, shapes, rates, log_weight):
    """Lead particles through priors of the noise variance; sum up what each gains.

    After each change of prior all rows of the window, in random order and number, and all scales
    are drawn anew under it. Neal, "Annealed importance sampling", Statistics and Computing 2001.

    Parameters
    ----------
    shapes, rates : ndarray of float64, shape (L + 1,)
        Of the inverse gamma priors, the first one that under which the particles were made.
    log_weight : ndarray of float64, shape (>= particles,)
        0; afterwards what each particle's weight is multiplied by, a log.
    """
    t = counts[N_SEEN] - 1
    n_window = min(t + 1, config.order)
    half = sums[SHAPE] - shapes[0]  # half the number of values
    step = config.n_redrawn
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
                redraw(config, particles, rows, sums, work, i, t, row, step + k)
            rescale(config, particles, sums, work, i, t, level)
        step += n_window


@uncounted
def _log_factor(a, b, half, gain):
    """Log of what the evidence owes to the prior of the noise variance, given the features."""
    return (
        math.lgamma(a + half) - math.lgamma(a) + a * math.log(b) - (a + half) * math.log(b + gain)
    )


@entry
def name_anew(config, particles, names, counts, work, time):
    """Give ids to the features of particles that were put together."""
    name_features(config, particles, names, counts, work, time)
