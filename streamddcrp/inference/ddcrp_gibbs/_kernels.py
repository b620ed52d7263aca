"""Compiled collapsed Gibbs sampling of links.

The links of N customers are a functional graph: ``links[i]`` is one customer, i itself if it is
self-linked. Whoever links to a customer is in a doubly linked list that starts there: ``kids[i]``
holds the first child of i, and the next and the previous child of i's own parent, -1 where there is
none. Self-links are not in the lists. Tables are slots: ``slot[i]``, with summed statistics
``stats`` (N, P) and log marginal likelihoods ``marginal`` (N,). ``free`` is a stack of free slots,
its height in ``free[N]``.

Work space, cleared where it was touched only: ``stack`` (N,), ``stamp`` (N + 1,) with the clock in
``stamp[N]``, ``mass`` (N,) of zeros, ``touched`` (N,), ``score`` and ``joint`` (N + 1,),
``moved`` and ``work`` (P,), ``post`` (Q,). Links that are possible come as `Candidates` lays them
out: ``shared``, ``start``, ``customer``, ``weight``, ``own``.
"""

import math

import numpy as np
from numba import njit

from streamddcrp._numerics import inner_njit
from streamddcrp.likelihoods._kernels import add_stats, posterior

__all__ = ["draw", "found_tables", "read_state", "update"]

_REFRESH = 64  # sweeps after which statistics are summed anew: increments lose 1e-11 in ten


# --- The graph of links ---------------------------------------------------------------------------


@inner_njit
def attach(i, j, links, kids):
    """Link i to j; it must have had no link."""
    links[i] = j
    if j != i:
        after = kids[j, 0]
        kids[i, 1], kids[i, 2] = after, -1
        if after >= 0:
            kids[after, 2] = i
        kids[j, 0] = i


@inner_njit
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


@inner_njit
def on_cycle(i, links, stamp):
    """Return whether the path from i comes back to i."""
    n = len(links)
    stamp[n] += 1
    j = links[i]
    while j != i and stamp[j] != stamp[n]:
        stamp[j] = stamp[n]
        j = links[j]
    return j == i


@inner_njit
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


@inner_njit
def cut(
    i, general, family, hyper, X, links, kids, slot, stats, marginal, stack, stamp, moved, post
):  # fmt: skip
    """Take the link of i away, and the customers below i out of their table if it falls apart.

    Returns how many customers are on the stack, their slot (-1: they have none), the log marginal
    likelihood of their statistics ``moved``. After the cut no cycle is left among them.
    """
    k = slot[i]
    whole = on_cycle(i, links, stamp) if general else links[i] == i
    detach(i, links, kids)
    size = collect(i, kids, stack, stamp)
    if whole:
        moved[:] = stats[k]
        return size, k, marginal[k]
    moved[:] = 0.0
    for m in range(size):
        add_stats(family, hyper, X[stack[m]], 1.0, moved)
    for p in range(len(moved)):
        stats[k, p] -= moved[p]
    posterior(family, hyper, stats[k], post)
    marginal[k] = post[0]
    posterior(family, hyper, moved, post)
    return size, -1, post[0]


@inner_njit
def score_tables(
    n_touched, log_moved, family, hyper, stats, marginal, mass, touched, moved, work, post, joint,
    score,
):  # fmt: skip
    """Score joining each table touched, log s_k m(S + k) / (m(S) m(k)), after the cut."""
    for m in range(n_touched):
        k = touched[m]
        for p in range(len(moved)):
            work[p] = stats[k, p] + moved[p]
        posterior(family, hyper, work, post)
        joint[m] = post[0]
        score[m] = math.log(mass[k]) + (post[0] - marginal[k] - log_moved)


@inner_njit
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


@inner_njit
def settle(
    i, j, k, log_joint, size, home, log_moved, links, kids, slot, stats, marginal, free, stack,
    moved,
):  # fmt: skip
    """Link i to j and seat the customers on the stack at slot k, or by themselves (k = -1)."""
    attach(i, j, links, kids)
    n = len(links)
    if k < 0:
        if home >= 0:
            return
        free[n] -= 1
        k = free[free[n]]
        stats[k] = moved
        marginal[k] = log_moved
    else:
        for p in range(len(moved)):
            stats[k, p] += moved[p]
        marginal[k] = log_joint
        if home >= 0:
            free[free[n]] = home
            free[n] += 1
    for m in range(size):
        slot[stack[m]] = k


@njit(cache=True)
def update(
    i, u_table, u_link, general, shared, start, customer, weight, own, family, hyper, X, links,
    kids, slot, stats, marginal, free, stack, stamp, mass, touched, score, joint, moved, work, post,
):  # fmt: skip
    """Draw the link of customer i given all others; ``u_table`` and ``u_link`` are uniforms.

    Returns the log of the summed weights over m(S): after subtracting the log of the row's scaled
    total and adding log m(S), for a customer without descendants, log p(x_i | the others).
    """
    size, home, log_moved = cut(
        i, general, family, hyper, X, links, kids, slot, stats, marginal, stack, stamp, moved, post
    )  # fmt: skip
    first = 0 if shared else start[i]
    count = min(i, len(weight)) if shared else start[i + 1] - first
    alone = own[0] if shared else own[i]
    clock = stamp[len(links)]
    stay = alone
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
    score_tables(
        n_touched, log_moved, family, hyper, stats, marginal, mass, touched, moved, work, post,
        joint, score,
    )  # fmt: skip
    score[n_touched] = math.log(stay)
    m, log_sum = choose(u_table, n_touched + 1, score)
    k = touched[m] if m < n_touched else -1
    # the link: among the candidates at table k, or among those below i and i itself
    rest = u_link * mass[k] if k >= 0 else u_link * stay - alone
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
    for t in range(n_touched):
        mass[touched[t]] = 0.0
    settle(
        i, chosen, k, joint[m], size, home, log_moved, links, kids, slot, stats, marginal, free,
        stack, moved,
    )  # fmt: skip
    return log_sum


# --- Sweeps ---------------------------------------------------------------------------------------


@inner_njit
def sweep_counted(
    rng, weight, own, family, hyper, X, links, kids, slot, stats, marginal, free, stack, stamp,
    mass, touched, score, joint, moved, work, post,
):  # fmt: skip
    """Draw all links, first to last, where all earlier customers weigh the same.

    A table then weighs as many customers as it has before i. An update moves only i and later ones,
    so these numbers grow by one at each step, and nobody's label need be read: O(K) a customer. The
    link within a table is drawn by trial and error, about i / (members before i) trials.
    """
    n_touched = 0
    for i in range(len(links)):
        size, home, log_moved = cut(
            i, False, family, hyper, X, links, kids, slot, stats, marginal, stack, stamp, moved,
            post,
        )  # fmt: skip
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
            i, j, k, joint[m], size, home, log_moved, links, kids, slot, stats, marginal, free,
            stack, moved,
        )  # fmt: skip
        k = slot[i]
        if mass[k] == 0.0:
            touched[n_touched] = k
            n_touched += 1
        mass[k] += weight[0]
    for t in range(n_touched):
        mass[touched[t]] = 0.0


@njit(cache=True)
def found_tables(family, hyper, X, slot, free, post, stats, marginal):
    """Sum statistics by slot anew; fill the stack of free slots."""
    n = len(slot)
    stats[:] = 0.0
    for i in range(n):
        add_stats(family, hyper, X[i], 1.0, stats[slot[i]])
    free[n] = 0
    for k in range(n - 1, -1, -1):
        if stats[k, 0] > 0.0:
            posterior(family, hyper, stats[k], post)
            marginal[k] = post[0]
        else:
            free[free[n]] = k
            free[n] += 1


@inner_njit
def place(i, j, start, customer):
    """Find customer j among the candidates of i."""
    low, high = start[i], start[i + 1]
    while low < high - 1:
        middle = (low + high) // 2
        if customer[middle] <= j:
            low = middle
        else:
            high = middle
    return low


@njit(cache=True)
def read_state(
    shared, start, customer, weight, own, log_row, links, slot, marginal, first, out_links,
    out_labels,
):  # fmt: skip
    """Write links and labels, the smallest index of each table; ``first`` (N,) is work space.

    ``log_row`` (N,) is the log of each row's scaled total. Returns the log joint density of rows
    and links, and the number of tables.
    """
    first[:] = -1
    log_joint = 0.0
    n_tables = 0
    for i in range(len(links)):
        j, k = links[i], slot[i]
        if j == i:
            f = own[0] if shared else own[i]
        else:
            f = weight[i - 1 - j] if shared else weight[place(i, j, start, customer)]
        log_joint += math.log(f) - log_row[i]
        if first[k] < 0:
            first[k] = i
            n_tables += 1
            log_joint += marginal[k]
        out_links[i], out_labels[i] = j, first[k]
    return log_joint, n_tables


@njit(cache=True)
def draw(
    n_draws, thin, in_order, rng, general, counted, shared, start, customer, weight, own, log_row,
    family, hyper, X, links, kids, slot, stats, marginal, free, stack, stamp, mass, touched, score,
    joint, moved, work, post, order, age, out_links, out_labels, out_n_tables, out_log_joint,
):  # fmt: skip
    """Sweep ``thin`` times before each of ``n_draws`` draws, which are written to the outputs.

    Nothing is written to outputs without rows. ``in_order``: from the first customer to the last,
    else in a random order, a new one for each sweep. ``age`` (1,) counts sweeps.
    """
    n = len(links)
    for s in range(n_draws):
        for _ in range(thin):
            if counted:
                sweep_counted(
                    rng, weight, own, family, hyper, X, links, kids, slot, stats, marginal, free,
                    stack, stamp, mass, touched, score, joint, moved, work, post,
                )  # fmt: skip
            else:
                for i in range(n):
                    order[i] = i
                if not in_order:
                    for i in range(n - 1, 0, -1):
                        j = int(rng.random() * (i + 1))
                        order[i], order[j] = order[j], order[i]
                for i in order:
                    update(
                        i, rng.random(), rng.random(), general, shared, start, customer, weight,
                        own, family, hyper, X, links, kids, slot, stats, marginal, free, stack,
                        stamp, mass, touched, score, joint, moved, work, post,
                    )  # fmt: skip
            age[0] += 1
            if age[0] % _REFRESH == 0:
                found_tables(family, hyper, X, slot, free, post, stats, marginal)
        if len(out_links) > 0:
            out_log_joint[s], out_n_tables[s] = read_state(
                shared, start, customer, weight, own, log_row, links, slot, marginal, order,
                out_links[s], out_labels[s],
            )  # fmt: skip
