"""Compiled Gibbs sampling of links with the parameters of tables as part of the state.

Links, tables and work space are those of `kernels.link`. ``eta`` (N, P) holds parameters as
`likelihoods.kernels.draw` writes them, log p(rows | theta) = eta . stats; ``holder[k]`` is the row
that belongs to the table at slot k. S are the customers below i once its link is cut. Joining k
has the weight s_k p(x_S | theta_k); the weight of staying by themselves, w alpha and what S itself
attracts, is

* PER_CUSTOMER: w p(x_S | theta_i). Every customer holds a parameter, which counts while it opens a
  table; sequential links only.
* AUXILIARY: w / r p(x_S | theta) for each of r parameters from the prior, ``aux`` (r, P); the first
  is the table's own where S was a table before the cut.
* PARTIAL: w m(S); the parameter is then drawn given x_S.
"""

import math

from streamddcrp.compilation import inner, kernel
from streamddcrp.likelihoods.kernels.draw import draw_parameters
from streamddcrp.likelihoods.kernels.families import posterior
from streamddcrp.likelihoods.kernels.union import log_union
from streamddcrp.models.ddcrp.kernels.link import choose, cut, draw_link, settle, weigh
from streamddcrp.models.ddcrp.kernels.sweep import found_tables, read_state
from streamddcrp.numerics import copy_row, dot

PER_CUSTOMER = 0
AUXILIARY = 1
PARTIAL = 2
_REFRESH = 64  # sweeps after which statistics are summed anew


@inner
def renew(variant, family, hyper, slot, stats, holder, work, post, seen, rng, eta):
    """Draw the parameters of all tables given their members, and unused ones from the prior."""
    n = len(slot)
    seen[:] = 0
    if variant == PER_CUSTOMER:
        work[:] = 0.0
        posterior(family, hyper, work, post)
        for i in range(n):
            if holder[slot[i]] != i:
                draw_parameters(family, hyper, work, post, rng, eta[i])
    for i in range(n):
        k = slot[i]
        if seen[k] == 0:
            seen[k] = 1
            posterior(family, hyper, stats[k], post)
            draw_parameters(family, hyper, stats[k], post, rng, eta[holder[k]])


@inner
def offer(
    variant, i, home, stay, log_moved, n_touched, family, hyper, moved, work, post, eta, holder,
    aux, rng, score,
):  # fmt: skip
    """Score the ways of staying by themselves, from place ``n_touched`` on; return their number."""
    if variant == PARTIAL:
        score[n_touched] = math.log(stay) + log_moved
        return 1
    work[:] = 0.0
    posterior(family, hyper, work, post)
    n_aux = 1 if variant == PER_CUSTOMER else len(aux)
    for a in range(n_aux):
        if variant == PER_CUSTOMER:
            copy_row(aux[a], eta[i])
        elif a == 0 and home >= 0:
            copy_row(aux[a], eta[holder[home]])
        else:
            draw_parameters(family, hyper, work, post, rng, aux[a])
        score[n_touched + a] = math.log(stay / n_aux) + dot(aux[a], moved, len(moved))
    return n_aux


@inner
def update_with_parameters(
    i, variant, rng, general, shared, start, customer, weight, own, family, hyper, X, links, kids,
    slot, stats, marginal, free, stack, stamp, mass, touched, score, moved, work, post, eta, holder,
    aux,
):  # fmt: skip
    """Draw the link of customer i given all others and the parameters."""
    size, whole, log_moved = cut(
        i, general, family, hyper, X, links, kids, slot, stats, marginal, stack, stamp, moved, post
    )  # fmt: skip
    stay, n_touched = weigh(
        i, general, shared, start, customer, weight, own, links, slot, stamp, mass, touched
    )
    for m in range(n_touched):
        k = touched[m]
        score[m] = math.log(mass[k]) + dot(eta[holder[k]], moved, len(moved))
    n_ways = offer(
        variant, i, slot[i] if whole else -1, stay, log_moved, n_touched, family, hyper, moved,
        work, post, eta, holder, aux, rng, score,
    )  # fmt: skip
    m, _ = choose(rng.random(), n_touched + n_ways, score)
    k = touched[m] if m < n_touched else -1
    chosen = draw_link(
        rng.random(), i, k, stay, n_touched, general, shared, start, customer, weight, own, links,
        slot, stamp, mass, touched,
    )  # fmt: skip
    log_joint = 0.0
    if k >= 0:
        log_joint = log_union(family, hyper, stats[k], marginal[k], moved, work, post)
    settle(
        i, chosen, k, log_joint, size, whole, log_moved, links, kids, slot, stats, marginal, free,
        stack, stamp, moved,
    )  # fmt: skip
    if k >= 0:
        return
    k = slot[i]
    holder[k] = i if variant == PER_CUSTOMER else k
    if variant == PARTIAL:
        posterior(family, hyper, stats[k], post)
        draw_parameters(family, hyper, stats[k], post, rng, eta[k])
    else:
        eta[holder[k]] = aux[m - n_touched]


@kernel
def draw_with_parameters(
    n_draws, thin, in_order, variant, rng, general, shared, start, customer, weight, own, log_row,
    family, hyper, X, links, kids, slot, stats, marginal, free, stack, stamp, mass, touched, score,
    moved, work, post, order, age, eta, holder, aux, out_links, out_labels, out_n_tables,
    out_log_joint,
):  # fmt: skip
    """Do what `kernels.sweep.draw` does; a sweep ends with new parameters for all tables."""
    n = len(links)
    if age[0] == 0:
        renew(variant, family, hyper, slot, stats, holder, work, post, order, rng, eta)
    for s in range(n_draws):
        for _ in range(thin):
            for i in range(n):
                order[i] = i
            if not in_order:
                for i in range(n - 1, 0, -1):
                    j = int(rng.random() * (i + 1))
                    order[i], order[j] = order[j], order[i]
            for i in order:
                update_with_parameters(
                    i, variant, rng, general, shared, start, customer, weight, own, family, hyper,
                    X, links, kids, slot, stats, marginal, free, stack, stamp, mass, touched, score,
                    moved, work, post, eta, holder, aux,
                )  # fmt: skip
            age[0] += 1
            if age[0] % _REFRESH == 0:
                found_tables(family, hyper, X, slot, free, post, stats, marginal)
            renew(variant, family, hyper, slot, stats, holder, work, post, order, rng, eta)
        if len(out_links) > 0:
            out_log_joint[s], out_n_tables[s] = read_state(
                shared, start, customer, weight, own, log_row, links, slot, marginal, order,
                out_links[s], out_labels[s],
            )  # fmt: skip
