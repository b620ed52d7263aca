"""Compiled moves of whole branches: any member of S may hold the link, given all others.

`link.update` cuts the link of customer i and draws it again, so that S, the customers below i,
depend on i alone. Here any member u of S may hold the new link. The links from u to i are reversed,
and the posterior weight of u linking to j becomes

    r_u f_uj (as in `link`),  r_u = prod f_ba / f_ab over the links a -> b on the way from u to i,

because each is replaced by its opposite and every customer still has one link. Cutting the link of
u leads back to the same S with the same links, up to their direction, and to the same weights up to
a factor. With i drawn uniformly for each move, u is therefore cut as often as i was, and detailed
balance holds. (With i in a fixed order it would not. A cycle of two results from either member and
is cut at either.)

A whole table, with i on its cycle, can thus join another over any link between the two; with the
link of i alone, the single customer on its cycle must be within reach of the other table.
Sequential links cannot be reversed, so the step would be that of `link.update`.
"""

import math

import numpy as np

from streamddcrp.compilation import entry, uncounted
from streamddcrp.models.ddcrp.kernels import link


@uncounted
def place(i, j, candidates):
    """Find customer j among the candidates of i; else the place before its position."""
    low, high = candidates.start[i], candidates.start[i + 1]
    while low < high - 1:
        middle = (low + high) // 2
        if candidates.customer[middle] <= j:
            low = middle
        else:
            high = middle
    return low


@uncounted
def turn_weights(size, c):
    """Write r_u of the customers on the stack, i first, to ``c.turn``, the largest being 1."""
    customer, weight, turn = c.candidates.customer, c.candidates.weight, c.turn
    turn[c.stack[0]] = 0.0
    top = 0.0
    for m in range(1, size):
        u = c.stack[m]
        p = c.links[u]
        turn[u] = -np.inf
        if turn[p] > -np.inf and c.candidates.start[p] < c.candidates.start[p + 1]:
            back = place(p, u, c.candidates)
            if customer[back] == u:
                ratio = weight[back] / weight[place(u, p, c.candidates)]
                turn[u] = turn[p] + (math.log(ratio) if ratio != 1.0 else 0.0)
                top = max(top, turn[u])
    for m in range(size):
        u = c.stack[m]
        turn[u] = math.exp(turn[u] - top)


@uncounted
def weigh_branch(size, c):
    """Sum r_u f_uj over u in S by the table of j into ``c.mass``; see `link.weigh`."""
    customer, weight = c.candidates.customer, c.candidates.weight
    clock = c.stamp[len(c.links)]
    stay = 0.0
    n_touched = 0
    for m in range(size):
        u = c.stack[m]
        turn = c.turn[u]
        stay += turn * c.own[u]
        first, count = link.span(u, c.candidates)
        for q in range(first, first + count):
            j, w = customer[q], turn * weight[q]
            if c.stamp[j] == clock:
                stay += w
            elif w > 0.0:
                k = c.slot[j]
                if c.mass[k] == 0.0:
                    c.touched[n_touched] = k
                    n_touched += 1
                c.mass[k] += w
    return stay, n_touched


@uncounted
def draw_end(uniform, k, total, size, c):
    """Draw a member u of S and its link, to table ``k`` or, if that is -1, within S."""
    customer, weight = c.candidates.customer, c.candidates.weight
    clock = c.stamp[len(c.links)]
    rest = uniform * total
    at, chosen = c.stack[0], c.stack[0]
    for m in range(size):
        u = c.stack[m]
        turn = c.turn[u]
        if turn == 0.0:
            continue
        if k < 0:
            at, chosen = u, u
            rest -= turn * c.own[u]
            if rest < 0.0:
                return at, chosen
        first, count = link.span(u, c.candidates)
        for q in range(first, first + count):
            j = customer[q]
            inside = c.stamp[j] == clock
            if (inside and k < 0) or (not inside and c.slot[j] == k):
                at, chosen = u, j
                rest -= turn * weight[q]
                if rest < 0.0:
                    return at, chosen
    return at, chosen


@uncounted
def turn_around(u, i, c):
    """Reverse the links on the path from u to i, which has none; u then has none."""
    before, at = u, u
    while at != i:
        after = c.links[at]
        link.detach(at, c.links, c.children)
        if at != u:
            link.attach(at, before, c.links, c.children)
        before, at = at, after
    if i != u:
        link.attach(i, before, c.links, c.children)


@entry
def move_branch(i, u_table, u_link, c):
    """Cut the link of i and draw a link of any member of S; for general links only."""
    size, whole, log_moved = link.cut(i, c)
    turn_weights(size, c)
    stay, n_touched = weigh_branch(size, c)
    link.score_tables(n_touched, log_moved, c.moved, c)
    c.score[n_touched] = math.log(stay) if stay > 0.0 else -np.inf
    m, _ = link.choose(u_table, n_touched + 1, c.score)
    k = c.touched[m] if m < n_touched else -1
    u, j = draw_end(u_link, k, c.mass[k] if k >= 0 else stay, size, c)
    log_joint = c.joint[m] if k >= 0 else 0.0
    for t in range(n_touched):
        c.mass[c.touched[t]] = 0.0
    turn_around(u, i, c)
    link.relink(u, j, k, log_joint, size, whole, log_moved, c.moved, c)
