"""Compiled Gibbs sampling of links where the parameters of tables are part of the state.

All kernels take ``c``, a `ChainState`, as `streamddcrp.models.ddcrp.kernels.link` does.
With parameters as part of the state, ``eta`` (N, P) holds them as `draw` writes
them, log p(rows | theta) = eta . stats; ``holder[k]`` is the row of the table at slot k. Joining k
has the weight s_k p(x_S | theta_k); the weight of staying with S is

* PER_CUSTOMER: w p(x_S | theta_i). Every customer holds a parameter, which counts while it opens a
  table; sequential links only. Bartunov and Vetrov (2014), eq. 4.
* AUXILIARY: w / r p(x_S | theta) for each of r parameters from the prior, ``aux`` (r, P); the first
  is the table's own where S was a table before the cut. Neal (2000), algorithm 8.
* PARTIAL: w m(S); the parameter is then drawn given x_S.
"""

import math

from research.kernels.draw import draw_parameters
from streamddcrp.compilation import kernel, uncounted
from streamddcrp.likelihoods.kernels.families import posterior
from streamddcrp.likelihoods.kernels.union import log_union
from streamddcrp.models.ddcrp.kernels import link, sweep
from streamddcrp.numerics import copy_row, dot

PER_CUSTOMER = 0
AUXILIARY = 1
PARTIAL = 2


@uncounted
def renew(variant, rng, eta, holder, c):
    """Draw the parameters of all tables given their members, and unused ones from the prior."""
    n, seen = len(c.slot), c.order
    seen[:] = 0
    if variant == PER_CUSTOMER:
        c.work[:] = 0.0
        posterior(c.family, c.hyper, c.work, c.post)
        for i in range(n):
            if holder[c.slot[i]] != i:
                draw_parameters(c.family, c.hyper, c.work, c.post, rng, eta[i])
    for i in range(n):
        k = c.slot[i]
        if seen[k] == 0:
            seen[k] = 1
            posterior(c.family, c.hyper, c.stats[k], c.post)
            draw_parameters(c.family, c.hyper, c.stats[k], c.post, rng, eta[holder[k]])


@uncounted
def offer(variant, i, old, stay, log_moved, n_touched, rng, eta, holder, aux, c):
    """Score the ways of staying with S, from place ``n_touched`` on; return their number."""
    if variant == PARTIAL:
        c.score[n_touched] = math.log(stay) + log_moved
        return 1
    c.work[:] = 0.0
    posterior(c.family, c.hyper, c.work, c.post)
    n_aux = 1 if variant == PER_CUSTOMER else len(aux)
    for a in range(n_aux):
        if variant == PER_CUSTOMER:
            copy_row(aux[a], eta[i])
        elif a == 0 and old >= 0:
            copy_row(aux[a], eta[holder[old]])
        else:
            draw_parameters(c.family, c.hyper, c.work, c.post, rng, aux[a])
        c.score[n_touched + a] = math.log(stay / n_aux) + dot(aux[a], c.moved, len(c.moved))
    return n_aux


@uncounted
def update_with_parameters(i, variant, rng, eta, holder, aux, c):
    """Draw the link of customer i given all others and the parameters."""
    size, whole, log_moved = link.cut(i, c)
    stay, n_touched = link.weigh(i, c)
    for m in range(n_touched):
        k = c.touched[m]
        c.score[m] = math.log(c.mass[k]) + dot(eta[holder[k]], c.moved, len(c.moved))
    old = c.slot[i] if whole else -1
    n_ways = offer(variant, i, old, stay, log_moved, n_touched, rng, eta, holder, aux, c)
    m, _ = link.choose(rng.random(), n_touched + n_ways, c.score)
    k = c.touched[m] if m < n_touched else -1
    chosen = link.draw_link(rng.random(), i, k, stay, n_touched, c)
    log_joint = 0.0
    if k >= 0:
        log_joint = log_union(c.family, c.hyper, c.stats[k], c.marginal[k], c.moved, c.work, c.post)
    link.relink(i, chosen, k, log_joint, size, whole, log_moved, c.moved, c)
    if k >= 0:
        return
    k = c.slot[i]
    holder[k] = i if variant == PER_CUSTOMER else k
    if variant == PARTIAL:
        posterior(c.family, c.hyper, c.stats[k], c.post)
        draw_parameters(c.family, c.hyper, c.stats[k], c.post, rng, eta[k])
    else:
        copy_row(eta[holder[k]], aux[m - n_touched])


@kernel
def draw_with_parameters(
    n_draws, thin, in_order, variant, rng, c, eta, holder, aux, out_links, out_labels, out_n_tables,
    out_log_joint,
):  # fmt: skip
    """Do what `draw` does; a sweep ends with new parameters for all tables."""
    n, order = len(c.links), c.order
    if c.age[0] == 0:
        renew(variant, rng, eta, holder, c)
    for s in range(n_draws):
        for _ in range(thin):
            for i in range(n):
                order[i] = i
            if not in_order:
                for i in range(n - 1, 0, -1):
                    j = int(rng.random() * (i + 1))
                    order[i], order[j] = order[j], order[i]
            for i in order:
                update_with_parameters(i, variant, rng, eta, holder, aux, c)
            c.age[0] += 1
            if c.age[0] % sweep._REFRESH == 0:
                sweep.sum_tables(c)
            renew(variant, rng, eta, holder, c)
        if len(out_links) > 0:
            out_log_joint[s], out_n_tables[s] = sweep.read_state(c, out_links[s], out_labels[s])
