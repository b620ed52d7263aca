"""A customer's link drawn anew: one update of the collapsed Gibbs sampler in one particle."""

import math

from streamddcrp.compilation import inner
from streamddcrp.likelihoods.kernels.families import (
    add_stats,
    log_predictive,
    log_predictives,
    posterior,
)
from streamddcrp.models.ddcrp.kernels.filter_tables import (
    carried_factor,
    close_table,
    draw_link,
    draw_table,
    masses_of,
    open_table,
)
from streamddcrp.particles.kernels.layout import FIRST, N_SEEN
from streamddcrp.particles.kernels.names import name_of


@inner
def _mark_followers(ring, p, i, stop, out_inside):
    """Mark the customers whose links lead to i, which come after it; return how many, i included.

    Links lead back in time, so one pass forward finds them all.
    """
    mask = len(ring.t) - 1
    out_inside[0] = True
    size = 1
    for j in range(i + 1, stop):
        link = ring.link[p, j & mask]
        out_inside[j - i] = i <= link < j and out_inside[link - i]
        size += out_inside[j - i]
    return size


@inner
def _add(stats, sign, out):
    for s in range(len(stats)):
        out[s] += sign * stats[s]


@inner
def update(
    config, particles, tables, ring, recent, names, counts, sums, scratch, p, i, u_table, u_link
):
    """Cut the link of customer i and draw it anew, given all other links.

    With S the customers that hang on i, and T_k the tables without them, i links to itself with
    weight alpha m(S), to some member of table k with weight s_k m(T_k + S) / m(T_k).
    """
    stop, mask, L = counts[N_SEEN], len(ring.t) - 1, len(recent.x)
    family, hyper = config.family, config.hyper
    stats, post, taken = tables.stats[p], tables.post[p], scratch.taken
    mass, score = scratch.mass, scratch.score
    K = particles.n_tables[p]
    old = ring.label[p, i & mask]
    opens = ring.link[p, i & mask] == i  # then S is the whole table
    size = _mark_followers(ring, p, i, stop, scratch.inside)
    x = recent.x[i % L]
    factor = carried_factor(config, sums, ring.t[i & mask])
    masses_of(config, counts, ring, recent, tables, i, p, K, factor, mass)
    # cut
    if opens:
        taken[:] = stats[old]
    else:
        taken[:] = 0.0
        for j in range(i, stop):
            if scratch.inside[j - i]:
                add_stats(family, hyper, recent.x[j % L], 1.0, taken)
        scratch.kept_stats[:] = stats[old]
        scratch.kept_post[:] = post[old]
        _add(taken, -1.0, stats[old])
        posterior(family, hyper, stats[old], post[old])
    # score
    if size == 1:
        own = log_predictive(family, hyper, scratch.prior_post, x)
        log_predictives(family, hyper, post, x, K, score)
    else:
        posterior(family, hyper, taken, scratch.taken_post)
        own = scratch.taken_post[0]
        for k in range(K):
            if mass[k] > 0.0:
                scratch.joint[:] = stats[k]
                _add(taken, 1.0, scratch.joint)
                posterior(family, hyper, scratch.joint, scratch.joint_post)
                score[k] = scratch.joint_post[0] - post[k, 0]
    top = own
    for k in range(K):
        if mass[k] > 0.0:
            top = max(top, score[k])
    for k in range(K):
        mass[k] = mass[k] * math.exp(score[k] - top) if mass[k] > 0.0 else 0.0
    k = draw_table(u_table, config.alpha * math.exp(own - top), mass, K)
    if k < 0:
        ring.link[p, i & mask] = i
    else:
        ring.link[p, i & mask] = draw_link(
            config, counts, ring, recent, tables, i, p, k, factor, u_link
        )
    # join
    if k == old:
        stats[old] = scratch.kept_stats
        post[old] = scratch.kept_post
        return
    if k < 0:
        if opens:
            return
        k = open_table(particles, tables, p, name_of(i, recent.name, names, counts))
    _add(taken, 1.0, stats[k])
    posterior(family, hyper, stats[k], post[k])
    tables.retained[p, k] += size
    tables.retained[p, old] -= size
    for j in range(i, stop):
        if scratch.inside[j - i]:
            ring.label[p, j & mask] = k
    if opens:
        close_table(particles, tables, ring, p, old, counts[FIRST], stop)
