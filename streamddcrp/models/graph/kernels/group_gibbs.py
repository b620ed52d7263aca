"""Collapsed Gibbs sampling of the clusters of rows in groups."""

import math

import numpy as np

from streamddcrp.compilation import entry, kernel
from streamddcrp.likelihoods.kernels import families
from streamddcrp.models.graph.kernels.auxiliary import fill, free_slot, move
from streamddcrp.models.graph.kernels.cells import add_to, spread, take_from
from streamddcrp.models.graph.kernels.children import WHICH_EMPTY
from streamddcrp.numerics import log_add_exp
from streamddcrp.particles.kernels.random import draw_log, uniform


@entry
def sweep_rows(config, state, X, group, labels, n):
    """Resample every row's cluster once, and after each row ``config.moves`` auxiliary items.

    docs/math/graphs.md, Caron and Doucet 2009, section 4.1. Rows with the label -1 are not seated
    yet: the first sweep draws the auxiliary items from the prior, then seats the rows one by one.
    ``n`` : rows drawn in earlier sweeps, which fixes the random numbers.
    """
    particles, own, aux = state.particles, state.own, state.aux
    groups, clusters, scratch = state.groups, state.clusters, state.scratch
    family, hyper, log_weight = config.family, config.hyper, scratch.log_weight
    entries, items, mine = particles.entry[0], scratch.items, scratch.n_users
    size, stats, post = clusters.size, clusters.stats, clusters.post
    if n == 0:
        for a in range(groups.n[0]):
            fill(config, state, a, a)
    for b in range(len(X)):
        x, g, old = X[b], group[b], labels[b]
        a = groups.node[g]
        if old >= 0:
            take_from(own, 0, g, old)
            size[old] -= 1
            families.add_stats(family, hyper, x, -1.0, stats[old])
            if size[old] > 0:
                families.posterior(family, hyper, stats[old], post[old])
            else:
                entries[old] = -1
        K = particles.n_tables[0]
        spread(aux, 0, a, K, items)
        spread(own, 0, g, K, mine)
        alone = families.log_predictive(family, hyper, clusters.prior, x)
        for k in range(K):
            m = items[k] + mine[k]
            log_weight[k] = -np.inf
            if m > 0:
                density = alone
                if entries[k] >= 0:
                    density = families.log_predictive(family, hyper, post[k], x)
                log_weight[k] = math.log(m) + density
        log_weight[K] = math.log(config.alpha) + alone
        new = draw_log(log_weight, K + 1, uniform(config.seed, n + b, 0, WHICH_EMPTY, 0))
        if new == K:
            new = free_slot(particles, 0)
        if size[new] == 0:
            stats[new] = 0.0
            entries[new] = new
        labels[b] = new
        add_to(own, 0, g, new, 1)
        size[new] += 1
        families.add_stats(family, hyper, x, 1.0, stats[new])
        families.posterior(family, hyper, stats[new], post[new])
        for number in range(config.moves):
            move(config, state, 0, n + b, number)


@kernel
def mixture_densities(family, hyper, X, group, weight, stats, post, log_density, out):
    """Log of sum_k weight[g, k] p(x | table k) of rows (M,); zero ``stats`` are a new table."""
    K = len(stats)
    families.posteriors(family, hyper, stats, K, post)
    for m in range(len(X)):
        families.log_predictives(family, hyper, post, X[m], K, log_density)
        out[m] = -np.inf
        for k in range(K):
            share = weight[group[m], k]
            if share > 0.0:
                out[m] = log_add_exp(out[m], math.log(share) + log_density[k])
