"""Compiled collapsed Gibbs sampling: one link given all others.

The links of N customers are a functional graph: ``links[i]`` is one customer, i itself if it is
self-linked. Whoever links to a customer is in a doubly linked list that starts there: ``kids[i]``
holds the first child of i, and the next and the previous child of i's own parent, -1 where there is
none. Self-links are not in the lists. Tables are slots: ``slot[i]``, with summed statistics
``stats`` (N, P) and log marginal likelihoods ``marginal`` (N,). ``free`` is a stack of free slots,
its height in ``free[N]``.

Work space, cleared where it was touched only: ``stack`` (N,), ``stamp`` (N + 1,) with the clock in
``stamp[N]``, ``mass`` (N,) of zeros, ``touched`` (N,), ``score`` and ``joint`` (N + 1,),
``moved`` and ``work`` (P,), ``post`` (Q,), and where links are sequential ``below`` (N, P). Links
that are possible come as `Candidates` lays them out: ``shared``, ``start``, ``customer``,
``weight``, ``own``.
"""

import math

import numpy as np

from streamddcrp.compilation import entry, uncounted
from streamddcrp.likelihoods.kernels.families import add_stats
from streamddcrp.likelihoods.kernels.union import log_marginal, log_union, log_without
from streamddcrp.numerics import copy_row

# --- The graph of links ---------------------------------------------------------------------------


@uncounted
def attach(i, j, links, kids):
    """Link i to j; it must have had no link."""
    links[i] = j
    if j != i:
        after = kids[j, 0]
        kids[i, 1], kids[i, 2] = after, -1
        if after >= 0:
            kids[after, 2] = i
        kids[j, 0] = i


@uncounted
def detach(i, links, kids):
    """Take the link of i away: i is then as if self-linked."""
    j = links[i]
    if j != i:
        after, before = kids[i, 1], kids[i, 2]
        if before >= 0:
            kids[before, 1] = after
        else:
            kids[j, 0] = after
        if after >= 0:
            kids[after, 2] = before
    links[i] = i


@uncounted
def on_cycle(i, links, stamp):
    """Return whether the path from i comes back to i."""
    n = len(links)
    stamp[n] += 1
    j = links[i]
    while j != i and stamp[j] != stamp[n]:
        stamp[j] = stamp[n]
        j = links[j]
    return j == i


@uncounted
def collect(i, kids, stack, stamp):
    """Put i and all below it on the stack and stamp them; return how many."""
    stamp[-1] += 1
    stack[0] = i
    stamp[i] = stamp[-1]
    size, at = 1, 0
    while at < size:
        j = kids[stack[at], 0]
        at += 1
        while j >= 0:
            stack[size] = j
            stamp[j] = stamp[-1]
            size += 1
            j = kids[j, 1]
    return size


# --- One update -----------------------------------------------------------------------------------


@uncounted
def part(k, whole, family, hyper, stats, marginal, moved, post):
    """Take ``moved``, the statistics of a customer and all below, out of their table k.

    ``whole``: there is nobody else at it. Returns the log marginal likelihood of ``moved``.
    """
    if whole:
        return marginal[k]
    for p in range(len(moved)):
        stats[k, p] -= moved[p]
    marginal[k] = log_without(family, hyper, stats[k], marginal[k], moved, post)
    return log_marginal(family, hyper, moved, post)


@uncounted
def cut(
    i, general, family, hyper, X, links, kids, slot, stats, marginal, stack, stamp, moved, post
):  # fmt: skip
    """Take the link of i away and part all below it, which are put on the stack, from their table.

    Returns how many they are, whether nobody else was at the table, and the log marginal likelihood
    of their statistics ``moved``. No cycle is left among them.
    """
    whole = on_cycle(i, links, stamp) if general else links[i] == i
    detach(i, links, kids)
    size = collect(i, kids, stack, stamp)
    if whole:
        copy_row(moved, stats[slot[i]])
    else:
        moved[:] = 0.0
        for m in range(size):
            add_stats(family, hyper, X[stack[m]], 1.0, moved)
    log_moved = part(slot[i], whole, family, hyper, stats, marginal, moved, post)
    return size, whole, log_moved


@uncounted
def score_tables(
    n_touched, log_moved, family, hyper, stats, marginal, mass, touched, moved, work, post, joint,
    score,
):  # fmt: skip
    """Score joining each table touched, log s_k m(S + k) / (m(S) m(k)), after the cut."""
    for m in range(n_touched):
        k = touched[m]
        joint[m] = log_union(family, hyper, stats[k], marginal[k], moved, work, post)
        score[m] = math.log(mass[k]) + (joint[m] - marginal[k] - log_moved)


@uncounted
def choose(u, n, score):
    """Draw one of n options by their log weights; return it and the log of their sum."""
    top = -np.inf
    for m in range(n):
        top = max(top, score[m])
    total = 0.0
    for m in range(n):
        total += math.exp(score[m] - top)
    rest = u * total
    for m in range(n - 1):
        rest -= math.exp(score[m] - top)
        if rest < 0.0:
            return m, top + math.log(total)
    return n - 1, top + math.log(total)


@uncounted
def settle(
    i, j, k, log_joint, size, whole, log_moved, links, kids, slot, stats, marginal, free, stack,
    stamp, moved,
):  # fmt: skip
    """Link i to j and seat all below it at slot k, or, where they are, by themselves (k = -1).

    ``whole``: they own their slot. ``size``: how many of them are on the stack, 0: none is yet.
    """
    n = len(links)
    home = slot[i]
    if k < 0:
        k = home
        if not whole:
            free[n] -= 1
            k = free[free[n]]
            copy_row(stats[k], moved)
            marginal[k] = log_moved
    else:
        for p in range(len(moved)):
            stats[k, p] += moved[p]
        marginal[k] = log_joint
        if whole:
            free[free[n]] = home
            free[n] += 1
    if k != home:
        if size == 0:
            size = collect(i, kids, stack, stamp)
        for m in range(size):
            slot[stack[m]] = k
    attach(i, j, links, kids)


@uncounted
def weigh(
    i, general, shared, start, customer, weight, own, links, slot, stamp, mass, touched
):  # fmt: skip
    """Sum the weights of i's candidates by table into ``mass``.

    Returns
    -------
    stay : weight of i itself and of those below it
    n_touched : number of tables with a candidate, listed in ``touched``
    """
    first = 0 if shared else start[i]
    count = min(i, len(weight)) if shared else start[i + 1] - first
    clock = stamp[len(links)]
    stay = own[0] if shared else own[i]
    n_touched = 0
    for q in range(first, first + count):
        j = i - 1 - q if shared else customer[q]
        if general and stamp[j] == clock:
            stay += weight[q]
        else:
            k = slot[j]
            if mass[k] == 0.0:
                touched[n_touched] = k
                n_touched += 1
            mass[k] += weight[q]
    return stay, n_touched


@uncounted
def draw_link(
    u, i, k, stay, n_touched, general, shared, start, customer, weight, own, links, slot, stamp,
    mass, touched,
):  # fmt: skip
    """Draw a candidate at table ``k``, or where it is -1 one of i and those below it.

    Clears ``mass`` after `weigh`.
    """
    first = 0 if shared else start[i]
    count = min(i, len(weight)) if shared else start[i + 1] - first
    clock = stamp[len(links)]
    rest = u * mass[k] if k >= 0 else u * stay - (own[0] if shared else own[i])
    chosen = i
    if k >= 0 or rest >= 0.0:
        for q in range(first, first + count):
            j = i - 1 - q if shared else customer[q]
            below = general and stamp[j] == clock
            if (below and k < 0) or (not below and slot[j] == k):
                chosen = j
                rest -= weight[q]
                if rest < 0.0:
                    break
    for m in range(n_touched):
        mass[touched[m]] = 0.0
    return chosen


@uncounted
def redraw(
    i, u_table, u_link, size, whole, log_moved, general, shared, start, customer, weight, own,
    family, hyper, links, kids, slot, stats, marginal, free, stack, stamp, mass, touched, score,
    joint, moved, work, post,
):  # fmt: skip
    """Draw a link for i, whose own was cut; returns the log of the summed weights over m(S)."""
    stay, n_touched = weigh(
        i, general, shared, start, customer, weight, own, links, slot, stamp, mass, touched
    )
    score_tables(
        n_touched, log_moved, family, hyper, stats, marginal, mass, touched, moved, work, post,
        joint, score,
    )  # fmt: skip
    score[n_touched] = math.log(stay)
    m, log_sum = choose(u_table, n_touched + 1, score)
    k = touched[m] if m < n_touched else -1
    chosen = draw_link(
        u_link, i, k, stay, n_touched, general, shared, start, customer, weight, own, links, slot,
        stamp, mass, touched,
    )  # fmt: skip
    settle(
        i, chosen, k, joint[m], size, whole, log_moved, links, kids, slot, stats, marginal, free,
        stack, stamp, moved,
    )  # fmt: skip
    return log_sum


@entry
def update(
    i, u_table, u_link, general, shared, start, customer, weight, own, family, hyper, X, links,
    kids, slot, stats, marginal, free, stack, stamp, mass, touched, score, joint, moved, work, post,
):  # fmt: skip
    """Draw the link of customer i given all others; ``u_table`` and ``u_link`` are uniforms.

    O(|S| P + W + K L), S the customers below i. Returns the log of the summed weights over m(S):
    for a customer with nobody below, after adding log m(S) and subtracting the log of the row's
    scaled total, log p(x_i | the others).
    """
    size, whole, log_moved = cut(
        i, general, family, hyper, X, links, kids, slot, stats, marginal, stack, stamp, moved, post
    )  # fmt: skip
    return redraw(
        i, u_table, u_link, size, whole, log_moved, general, shared, start, customer, weight, own,
        family, hyper, links, kids, slot, stats, marginal, free, stack, stamp, mass, touched, score,
        joint, moved, work, post,
    )  # fmt: skip


@uncounted
def redraw_counted(
    rng, i, size, n_touched, whole, log_moved, own, family, hyper, links, kids, slot, stats,
    marginal, free, stack, stamp, mass, touched, score, joint, moved, work, post,
):  # fmt: skip
    """Do `redraw` where all earlier customers weigh the same: O(K), no label need be read.

    A table weighs as many as it has before i, which is its ``mass``, given: in a sweep in either
    direction it changes by one at each step, since an update moves nobody before i. The link within
    the table is drawn by trial and error, about i / (members before i) trials.
    """
    score_tables(
        n_touched, log_moved, family, hyper, stats, marginal, mass, touched, moved, work, post,
        joint, score,
    )  # fmt: skip
    score[n_touched] = math.log(own[0])
    m, _ = choose(rng.random(), n_touched + 1, score)
    k, j = -1, i
    if m < n_touched:
        k = touched[m]
        j = int(rng.random() * i)
        while slot[j] != k:
            j = int(rng.random() * i)
    settle(
        i, j, k, joint[m], size, whole, log_moved, links, kids, slot, stats, marginal, free,
        stack, stamp, moved,
    )  # fmt: skip
