"""Compiled sweeps over all links, reading the state, and griddy Gibbs; layouts as in `link`."""

import math

import numpy as np

from streamddcrp.compilation import kernel, uncounted
from streamddcrp.likelihoods.kernels.families import add_stats
from streamddcrp.likelihoods.kernels.union import log_marginal
from streamddcrp.models.ddcrp.kernels import link
from streamddcrp.models.ddcrp.kernels.branch import move_branch, place

_BLOCK = 1024  # customers visited in random order before the next block
_BRANCHES = 4  # general links: customers for each move of a branch in a sweep
_REFRESH = 64  # sweeps until statistics are summed again: increments lose 1e-11 in ten


@uncounted
def sweep_forward(rng, c):
    """Draw all links, first to last, if all earlier customers weigh the same."""
    n_touched = 0
    for i in range(len(c.links)):
        size, whole, log_moved = link.cut(i, c)
        link.redraw_counted(rng, i, size, n_touched, whole, log_moved, c.moved, c)
        k = c.slot[i]
        if c.mass[k] == 0.0:
            c.touched[n_touched] = k
            n_touched += 1
        c.mass[k] += c.candidates.weight[0]
    for m in range(n_touched):
        c.mass[c.touched[m]] = 0.0


@uncounted
def sweep_back(rng, counted, c):
    """Draw all links of a sequence, last to first.

    Customers below i have new links when i is drawn, so their statistics ``below`` (N, P) add up
    along the way; they are visited only when they change their table. ``counted``: see
    `redraw_counted`; the numbers fall by one at each step.
    """
    n = len(c.links)
    c.below[:] = 0.0
    n_touched = 0
    for i in range(n):
        add_stats(c.family, c.hyper, c.X[i], 1.0, c.below[i])
        if counted:
            k = c.slot[i]
            if c.mass[k] == 0.0:
                c.touched[n_touched] = k
                n_touched += 1
            c.mass[k] += c.candidates.weight[0]
    for i in range(n - 1, -1, -1):
        moved = c.below[i]
        whole = c.links[i] == i
        link.detach(i, c.links, c.children)
        log_moved = link.split_off(c.slot[i], whole, moved, c)
        if not counted:
            link.redraw(i, rng.random(), rng.random(), 0, whole, log_moved, moved, c)
        else:
            k = c.slot[i]
            c.mass[k] -= c.candidates.weight[0]
            if c.mass[k] == 0.0:
                m = 0
                while c.touched[m] != k:
                    m += 1
                n_touched -= 1
                c.touched[m] = c.touched[n_touched]
            link.redraw_counted(rng, i, 0, n_touched, whole, log_moved, moved, c)
        j = c.links[i]
        if j != i:
            for p in range(len(moved)):
                c.below[j, p] += moved[p]


@kernel
def sum_tables(c):
    """Sum the statistics of all tables again; fill the stack of free slots."""
    n = len(c.slot)
    c.stats[:] = 0.0
    for i in range(n):
        add_stats(c.family, c.hyper, c.X[i], 1.0, c.stats[c.slot[i]])
    c.free[n] = 0
    for k in range(n - 1, -1, -1):
        if c.stats[k, 0] > 0.0:
            c.marginal[k] = log_marginal(c.family, c.hyper, c.stats[k], c.post)
        else:
            c.free[c.free[n]] = k
            c.free[n] += 1


@kernel
def read_state(c, out_links, out_labels):
    """Write links and labels; return the log joint density and the number of tables."""
    shared, weight, first = c.candidates.shared, c.candidates.weight, c.order
    first[:] = -1
    log_joint = 0.0
    n_tables = 0
    for i in range(len(c.links)):
        j, k = c.links[i], c.slot[i]
        if j == i:
            f = c.own[0] if shared else c.own[i]
        else:
            f = weight[i - 1 - j] if shared else weight[place(i, j, c.candidates)]
        log_joint += math.log(f) - c.log_row[i]
        if first[k] < 0:
            first[k] = i
            n_tables += 1
            log_joint += c.marginal[k]
        out_links[i], out_labels[i] = j, first[k]
    return log_joint, n_tables


@kernel
def draw(
    n_draws, thin, forward, rng, counted, c, out_links, out_labels, out_n_tables, out_log_joint
):
    """Sweep ``thin`` times before each of ``n_draws`` draws, which are written to the outputs.

    ``forward``: from the first customer to the last. Otherwise sequential links are drawn from the
    last one on, and general ones in random order within each block; then, if they have few
    candidates, at most N^1/2 on average, branches of N / 4 random customers are moved.
    """
    n, order = len(c.links), c.order
    sparse = c.general and len(c.candidates.customer) <= n**1.5
    n_branches = (n + _BRANCHES - 1) // _BRANCHES if sparse and not forward else 0
    for s in range(n_draws):
        for _ in range(thin):
            if forward and counted:
                sweep_forward(rng, c)
            elif forward or c.general:
                order[:n] = np.arange(n)
                for block in range(0, 0 if forward else n, _BLOCK):
                    for i in range(min(block + _BLOCK, n) - 1, block, -1):
                        j = block + int(rng.random() * (i - block + 1))
                        order[i], order[j] = order[j], order[i]
                for i in order:
                    link.update(i, rng.random(), rng.random(), c)
                for _ in range(n_branches):
                    move_branch(int(rng.random() * n), rng.random(), rng.random(), c)
            else:
                sweep_back(rng, counted, c)
            c.age[0] += 1
            if c.age[0] % _REFRESH == 0:
                sum_tables(c)
        if len(out_links) > 0:
            out_log_joint[s], out_n_tables[s] = read_state(c, out_links[s], out_labels[s])


# --- Griddy Gibbs: likelihood of tables or links under the candidates of one decay ----------------


@kernel
def partition_term(candidates, labels):
    """Sum, over customers that open no table, log sum_{j in it} f_ij: docs/math/ddcrp.md (5)."""
    shared, customer, weight = candidates.shared, candidates.customer, candidates.weight
    total = 0.0
    for i in range(len(labels)):
        if labels[i] == i:
            continue
        first, count = link.span(i, candidates)
        mass = 0.0
        for q in range(first, first + count):
            j = i - 1 - q if shared else customer[q]
            if labels[j] == labels[i]:
                mass += weight[q]
        if mass == 0.0:
            return -np.inf
        total += math.log(mass) + candidates.log_scale[0 if shared else i]
    return total


@kernel
def link_term(candidates, links):
    """Sum log f_ij over links to others, docs/math/ddcrp.md (4); -inf if one is impossible."""
    start, weight, log_scale = candidates.start, candidates.weight, candidates.log_scale
    total = 0.0
    for i in range(len(links)):
        j = links[i]
        if j == i:
            continue
        if candidates.shared:
            if i - 1 - j >= len(weight):
                return -np.inf
            total += math.log(weight[i - 1 - j]) + log_scale[0]
        else:
            q = place(i, j, candidates)
            if start[i] == start[i + 1] or candidates.customer[q] != j:
                return -np.inf
            total += math.log(weight[q]) + log_scale[i]
    return total


@kernel
def redraw_links(rng, c):
    """Draw all links given tables: in proportion to the weights within the table."""
    shared, customer, weight = c.candidates.shared, c.candidates.customer, c.candidates.weight
    c.children[:] = -1
    for i in range(len(c.links)):
        first, count = link.span(i, c.candidates)
        mass = 0.0
        for q in range(first, first + count):
            j = i - 1 - q if shared else customer[q]
            if c.slot[j] == c.slot[i]:
                mass += weight[q]
        chosen = i  # the opener of the table has no one before it
        rest = rng.random() * mass
        for q in range(first, first + count):
            j = i - 1 - q if shared else customer[q]
            if c.slot[j] == c.slot[i]:
                chosen = j
                rest -= weight[q]
                if rest < 0.0:
                    break
        link.attach(i, chosen, c.links, c.children)
