"""Collapsed Gibbs sampling of the clusters on a whole decomposable graph."""

import math

from streamddcrp.compilation import inner, kernel
from streamddcrp.likelihoods.kernels.families import add_stats, log_predictive, posterior
from streamddcrp.particles.kernels.random import draw_log


@inner
def _root(link, i):
    while link[i] != i:
        i = link[i]
    return i


@inner
def _is_cut_vertex(k, cliques, labels, link):
    """Whether only k connects the rest of its cluster, judged by k's neighbours in it."""
    of_item, members, starts = cliques.of_item, cliques.members, cliques.starts
    first, last = cliques.item_starts[k], cliques.item_starts[k + 1]
    for a in range(first, last):
        for m in range(starts[of_item[a]], starts[of_item[a] + 1]):
            link[members[m]] = members[m]
    n_parts = 0
    for a in range(first, last):
        for m in range(starts[of_item[a]], starts[of_item[a] + 1]):
            i = members[m]
            if i != k and labels[i] == labels[k] and link[i] == i:
                n_parts += 1
                link[i] = -1 - i  # to be counted once
    if n_parts < 2:
        return False
    for a in range(first, last):
        for m in range(starts[of_item[a]], starts[of_item[a] + 1]):
            link[members[m]] = members[m]
    for a in range(first, last):
        one = -1
        for m in range(starts[of_item[a]], starts[of_item[a] + 1]):
            i = members[m]
            if i == k or labels[i] != labels[k]:
                continue
            if one < 0:
                one = i
                continue
            p, q = _root(link, one), _root(link, i)
            if p != q:
                link[q] = p
                n_parts -= 1
    return n_parts > 1


@inner
def _count(k, sets, labels, sign, config, work, n_near):
    """Add ``sign`` log n_j of the cliques, or separators, with k in them; list their clusters.

    Returns their number, and the log weight of any other cluster, to which the added values are
    relative.
    """
    of_item, members, starts = sets.of_item, sets.members, sets.starts
    alpha, discount, opens = config.alpha, config.discount, 0.0
    tally, seen, log_weight = work.tally, work.seen, work.log_weight
    for a in range(sets.item_starts[k], sets.item_starts[k + 1]):
        begin, end = starts[of_item[a]], starts[of_item[a] + 1]
        met = 0
        for m in range(begin, end):
            if members[m] != k:
                met += tally[labels[members[m]]] == 0
                tally[labels[members[m]]] += 1
        absent = math.log(alpha + discount * met) if discount > 0.0 else 0.0
        opens += sign * absent
        for m in range(begin, end):
            j = labels[members[m]]
            if members[m] == k or tally[j] == 0:
                continue
            new, more = True, sign * (math.log(tally[j] - discount) - absent)
            for b in range(n_near):
                if seen[b] == j:
                    new = False
                    log_weight[b] += more
            if new:
                seen[n_near] = j
                log_weight[n_near] = more
                n_near += 1
            tally[j] = 0
    return n_near, opens


@kernel
def sweep(config, X, order, sets, clusters, work, uniforms):
    """Resample every item's cluster once from its full conditional.

    The ratio of Caron and Doucet 2009, eq. 7, with and without the item, times its predictive
    density. With a discount d a count n becomes n - d, and a set of K clusters without this one
    counts alpha + d K. ``sets`` : cliques and separators.
    """
    family, hyper, discount = config.family, config.hyper, config.discount
    labels, size, stats, post = clusters.labels, clusters.size, clusters.stats, clusters.post
    (cliques, separators), seen, log_weight = sets, work.seen, work.log_weight
    for at in range(len(order)):
        k = order[at]
        x, old = X[k], labels[k]
        if size[old] > 1 and _is_cut_vertex(k, cliques, labels, work.link):
            continue
        add_stats(family, hyper, x, -1.0, stats[old])
        size[old] -= 1
        if size[old] > 0:
            posterior(family, hyper, stats[old], post[old])
        n, opens = _count(k, cliques, labels, 1.0, config, work, 0)
        n, less = _count(k, separators, labels, -1.0, config, work, n)
        opens += less
        for b in range(n):
            log_weight[b] += opens + log_predictive(family, hyper, post[seen[b]], x)
        if discount == 0.0:
            opens = math.log(config.alpha)
        log_weight[n] = opens + log_predictive(family, hyper, clusters.prior, x)
        chosen = draw_log(log_weight, n + 1, uniforms[at])
        if chosen < n:
            new = seen[chosen]
        else:
            new = 0
            if size[old] == 0:
                new = old
            while size[new] > 0:
                new += 1
            stats[new] = 0.0
        labels[k] = new
        size[new] += 1
        add_stats(family, hyper, x, 1.0, stats[new])
        posterior(family, hyper, stats[new], post[new])


@kernel
def draw_alpha(alpha, shape, rate, n_clusters, n_parents, times, rng):
    """Draw alpha ~ Gamma(shape, rate) given the clusters, by one gamma variable per parent count.

    The likelihood alpha^k prod_m (alpha + m)^(-c_m) is the marginal of u_m ~ Gamma(c_m, alpha + m).
    """
    total = rate
    for j in range(len(n_parents)):
        total += rng.gamma(times[j], 1.0 / (alpha + n_parents[j]))
    return rng.gamma(shape + n_clusters, 1.0 / total)
