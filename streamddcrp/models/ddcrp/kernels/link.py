"""Compiled Gibbs sampling: one link given all others.

All kernels take ``c``, a `ChainState`. The links of N customers are a functional graph:
``links[i]`` is one customer, or i itself. The customers that link to i form a doubly linked list:
``children[i]`` holds the first child of i, and the next and previous child of i's own parent, -1
for none. Self-links are not in the lists. Tables are slots: ``slot[i]``, with summed statistics
``stats`` (N, P) and log marginal likelihoods ``marginal`` (N,). ``free`` is a stack of free slots,
its height in ``free[N]``.

Work space is cleared only where it was touched: ``stack`` (N,), ``stamp`` (N + 1,) with the clock
in ``stamp[N]``, ``mass`` (N,) of zeros, ``touched`` (N,), ``score`` and ``joint`` (N + 1,),
``moved`` and ``work`` (P,), ``post`` (Q,), and where links are sequential ``below`` (N, P).

S are the customers below i, including i, once its link is cut; ``moved`` are their statistics and
m(S) their marginal likelihood. With s_k the weight of the links to table k, i joins k with weight
s_k m(S + k) / m(k), or stays with S with weight w m(S), where w is the weight of the self-link and
of the links to S (Blei and Frazier 2011, collapsed Gibbs sampling).
"""

import math

import numpy as np

from streamddcrp.compilation import entry, uncounted
from streamddcrp.likelihoods.kernels.families import add_stats
from streamddcrp.likelihoods.kernels.union import log_marginal, log_union, log_without
from streamddcrp.numerics import copy_row

# --- The graph of links ---------------------------------------------------------------------------


@uncounted
def attach(i, j, links, children):
    """Link i to j; it must have had no link."""
    links[i] = j
    if j != i:
        after = children[j, 0]
        children[i, 1], children[i, 2] = after, -1
        if after >= 0:
            children[after, 2] = i
        children[j, 0] = i


@uncounted
def detach(i, links, children):
    """Remove the link of i, which is then self-linked."""
    j = links[i]
    if j != i:
        after, before = children[i, 1], children[i, 2]
        if before >= 0:
            children[before, 1] = after
        else:
            children[j, 0] = after
        if after >= 0:
            children[after, 2] = before
    links[i] = i


@uncounted
def on_cycle(i, links, stamp):
    """Return whether the path from i returns to i."""
    n = len(links)
    stamp[n] += 1
    j = links[i]
    while j != i and stamp[j] != stamp[n]:
        stamp[j] = stamp[n]
        j = links[j]
    return j == i


@uncounted
def collect(i, children, stack, stamp):
    """Put i and all below it on the stack and stamp them; return their number."""
    stamp[-1] += 1
    stack[0] = i
    stamp[i] = stamp[-1]
    size, at = 1, 0
    while at < size:
        j = children[stack[at], 0]
        at += 1
        while j >= 0:
            stack[size] = j
            stamp[j] = stamp[-1]
            size += 1
            j = children[j, 1]
    return size


# --- One update -----------------------------------------------------------------------------------


@uncounted
def split_off(k, whole, moved, c):
    """Remove ``moved``, the statistics of S, from table k; return log m(S)."""
    if whole:
        return c.marginal[k]
    for p in range(len(moved)):
        c.stats[k, p] -= moved[p]
    c.marginal[k] = log_without(c.family, c.hyper, c.stats[k], c.marginal[k], moved, c.post)
    return log_marginal(c.family, c.hyper, moved, c.post)


@uncounted
def cut(i, c):
    """Cut the link of i and separate S, left on the stack without a cycle, from its table.

    Returns the size of S, whether S was the whole table, and log m(S), of ``c.moved``.
    """
    whole = on_cycle(i, c.links, c.stamp) if c.general else c.links[i] == i
    detach(i, c.links, c.children)
    size = collect(i, c.children, c.stack, c.stamp)
    if whole:
        copy_row(c.moved, c.stats[c.slot[i]])
    else:
        c.moved[:] = 0.0
        for m in range(size):
            add_stats(c.family, c.hyper, c.X[c.stack[m]], 1.0, c.moved)
    return size, whole, split_off(c.slot[i], whole, c.moved, c)


@uncounted
def score_tables(n_touched, log_moved, moved, c):
    """Score joining each table touched after the cut: docs/math/ddcrp.md (3)."""
    for m in range(n_touched):
        k = c.touched[m]
        c.joint[m] = log_union(c.family, c.hyper, c.stats[k], c.marginal[k], moved, c.work, c.post)
        c.score[m] = math.log(c.mass[k]) + (c.joint[m] - c.marginal[k] - log_moved)


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
def relink(i, j, k, log_joint, size, whole, log_moved, moved, c):
    """Link i to j and move S to slot k, or to a slot of its own (k = -1).

    ``whole``: S owns its slot. ``size``: how many of S are on the stack, 0 if not listed yet.
    """
    n = len(c.links)
    old = c.slot[i]
    if k < 0:
        k = old
        if not whole:
            c.free[n] -= 1
            k = c.free[c.free[n]]
            copy_row(c.stats[k], moved)
            c.marginal[k] = log_moved
    else:
        for p in range(len(moved)):
            c.stats[k, p] += moved[p]
        c.marginal[k] = log_joint
        if whole:
            c.free[c.free[n]] = old
            c.free[n] += 1
    if k != old:
        if size == 0:
            size = collect(i, c.children, c.stack, c.stamp)
        for m in range(size):
            c.slot[c.stack[m]] = k
    attach(i, j, c.links, c.children)


@uncounted
def span(i, candidates):
    """Return the first place of customer i's candidates, and their number."""
    if candidates.shared:
        return 0, min(i, len(candidates.weight))
    return candidates.start[i], candidates.start[i + 1] - candidates.start[i]


@uncounted
def weigh(i, c):
    """Sum the weights of i's candidates by table into ``c.mass``.

    Returns the weight of i and those below it, and the number of tables in ``c.touched``.
    """
    shared, customer, weight = c.candidates.shared, c.candidates.customer, c.candidates.weight
    first, count = span(i, c.candidates)
    clock = c.stamp[len(c.links)]
    stay = c.own[0] if shared else c.own[i]
    n_touched = 0
    for q in range(first, first + count):
        j = i - 1 - q if shared else customer[q]
        if c.general and c.stamp[j] == clock:
            stay += weight[q]
        else:
            k = c.slot[j]
            if c.mass[k] == 0.0:
                c.touched[n_touched] = k
                n_touched += 1
            c.mass[k] += weight[q]
    return stay, n_touched


@uncounted
def draw_link(u, i, k, stay, n_touched, c):
    """Draw a candidate at table ``k``, or (-1) one of i and those below it; clears ``c.mass``."""
    shared, customer, weight = c.candidates.shared, c.candidates.customer, c.candidates.weight
    first, count = span(i, c.candidates)
    clock = c.stamp[len(c.links)]
    rest = u * c.mass[k] if k >= 0 else u * stay - (c.own[0] if shared else c.own[i])
    chosen = i
    if k >= 0 or rest >= 0.0:
        for q in range(first, first + count):
            j = i - 1 - q if shared else customer[q]
            below = c.general and c.stamp[j] == clock
            if (below and k < 0) or (not below and c.slot[j] == k):
                chosen = j
                rest -= weight[q]
                if rest < 0.0:
                    break
    for m in range(n_touched):
        c.mass[c.touched[m]] = 0.0
    return chosen


@uncounted
def redraw(i, u_table, u_link, size, whole, log_moved, moved, c):
    """Draw a link for i, which has none; return the log of the summed weights over m(S)."""
    stay, n_touched = weigh(i, c)
    score_tables(n_touched, log_moved, moved, c)
    c.score[n_touched] = math.log(stay)
    m, log_sum = choose(u_table, n_touched + 1, c.score)
    k = c.touched[m] if m < n_touched else -1
    chosen = draw_link(u_link, i, k, stay, n_touched, c)
    relink(i, chosen, k, c.joint[m], size, whole, log_moved, moved, c)
    return log_sum


@entry
def update(i, u_table, u_link, c):
    """Draw the link of customer i given all others; ``u_table`` and ``u_link`` are uniforms.

    Returns the log of the summed weights over m(S). For a customer with no one below, this plus
    log m(S) minus the log of the row's scaled total is log p(x_i | the others).
    """
    size, whole, log_moved = cut(i, c)
    return redraw(i, u_table, u_link, size, whole, log_moved, c.moved, c)


@uncounted
def redraw_counted(rng, i, size, n_touched, whole, log_moved, moved, c):
    """As `redraw` if all earlier customers weigh the same: O(K), without reading labels.

    The weight of a table, ``mass``, is its number of members before i; in a sweep it changes by one
    at each step. The link within the table is drawn by rejection.
    """
    score_tables(n_touched, log_moved, moved, c)
    c.score[n_touched] = math.log(c.own[0])
    m, _ = choose(rng.random(), n_touched + 1, c.score)
    k, j = -1, i
    if m < n_touched:
        k = c.touched[m]
        j = int(rng.random() * i)
        while c.slot[j] != k:
            j = int(rng.random() * i)
    relink(i, j, k, c.joint[m], size, whole, log_moved, moved, c)
