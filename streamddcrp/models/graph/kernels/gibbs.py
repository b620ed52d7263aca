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
def _is_cut_vertex(k, graph, labels, link):
    """Whether only k connects the rest of its cluster, judged by k's neighbours in it."""
    near, set_at, n_parts = graph.near, graph.set_at, 0
    for m in range(graph.near_at[k], graph.near_at[k + 1]):
        link[near[m]] = near[m]
        n_parts += labels[near[m]] == labels[k]
    for h in range(graph.holder_at[k], graph.holder_at[k + 1]):
        s, one = graph.holders[h], -1
        if n_parts < 2 or graph.signs[s] < 0:  # cliques come first
            break
        for m in range(set_at[s], set_at[s + 1]):
            i = graph.sets[m]
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
def _count(k, graph, labels, config, work):
    """List the clusters around k; add log n_j over cliques, less log n_j over separators.

    Returns their number, and the log weight of any other cluster, to which the added values are
    relative.
    """
    members, set_at = graph.sets, graph.set_at
    alpha, discount, opens, less, n_near = config.alpha, config.discount, 0.0, 0.0, 0
    tally, seen, log_weight = work.tally, work.seen, work.log_weight
    for h in range(graph.holder_at[k], graph.holder_at[k + 1]):
        s = graph.holders[h]
        met, sign = 0, graph.signs[s]
        for m in range(set_at[s], set_at[s + 1]):
            if members[m] != k:
                met += tally[labels[members[m]]] == 0
                tally[labels[members[m]]] += 1
        absent = math.log(alpha + discount * met) if discount > 0.0 else 0.0
        if sign > 0:
            opens += absent
        else:
            less -= absent
        for m in range(set_at[s], set_at[s + 1]):
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
    return n_near, opens + less


@kernel
def sweep(config, X, order, graph, clusters, work, uniforms):
    """Resample every item's cluster once from its full conditional.

    The ratio of Caron and Doucet 2009, eq. 7, with and without the item, times its predictive
    density. With a discount d a count n becomes n - d, and a set of K clusters without this one
    counts alpha + d K. ``graph``: of `streamddcrp.data.graphs.flat`.
    """
    family, hyper, discount = config.family, config.hyper, config.discount
    labels, size, stats, post = clusters.labels, clusters.size, clusters.stats, clusters.post
    seen, log_weight = work.seen, work.log_weight
    for at in range(len(order)):
        k = order[at]
        x, old = X[k], labels[k]
        if size[old] > 1 and _is_cut_vertex(k, graph, labels, work.link):
            continue
        add_stats(family, hyper, x, -1.0, stats[old])
        size[old] -= 1
        if size[old] > 0:
            posterior(family, hyper, stats[old], post[old])
        n, opens = _count(k, graph, labels, config, work)
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
