"""Compiled sweeps over all links, and reading the state; layouts as in `kernels.link`."""

import math

from streamddcrp.compilation import kernel, uncounted
from streamddcrp.likelihoods.kernels.families import add_stats
from streamddcrp.likelihoods.kernels.union import log_marginal
from streamddcrp.models.ddcrp.kernels.link import cut, detach, part, redraw, redraw_counted, update

_BLOCK = 1024  # customers visited in a random order before the next ones
_REFRESH = 64  # sweeps after which statistics are summed anew: increments lose 1e-11 in ten


@uncounted
def sweep_forward(
    rng, weight, own, family, hyper, X, links, kids, slot, stats, marginal, free, stack, stamp,
    mass, touched, score, joint, moved, work, post,
):  # fmt: skip
    """Draw all links, first to last, where all earlier customers weigh the same."""
    n_touched = 0
    for i in range(len(links)):
        size, whole, log_moved = cut(
            i, False, family, hyper, X, links, kids, slot, stats, marginal, stack, stamp, moved,
            post,
        )  # fmt: skip
        redraw_counted(
            rng, i, size, n_touched, whole, log_moved, own, family, hyper, links, kids, slot, stats,
            marginal, free, stack, stamp, mass, touched, score, joint, moved, work, post,
        )  # fmt: skip
        k = slot[i]
        if mass[k] == 0.0:
            touched[n_touched] = k
            n_touched += 1
        mass[k] += weight[0]
    for m in range(n_touched):
        mass[touched[m]] = 0.0


@uncounted
def sweep_back(
    rng, counted, shared, start, customer, weight, own, family, hyper, X, links, kids, slot, stats,
    marginal, free, stack, stamp, mass, touched, score, joint, work, post, below,
):  # fmt: skip
    """Draw all links of a sequence, last to first.

    Whoever is below i comes later and has its new link when it is i's turn. So the statistics of
    all below, ``below`` (N, P), add up along the way, whatever their number: they need be visited
    only where they change their table.

    ``counted``: see `redraw_counted`; the numbers fall by one at each step.
    """
    n = len(links)
    below[:] = 0.0
    n_touched = 0
    for i in range(n):
        add_stats(family, hyper, X[i], 1.0, below[i])
        if counted:
            k = slot[i]
            if mass[k] == 0.0:
                touched[n_touched] = k
                n_touched += 1
            mass[k] += weight[0]
    for i in range(n - 1, -1, -1):
        moved = below[i]
        whole = links[i] == i
        detach(i, links, kids)
        log_moved = part(slot[i], whole, family, hyper, stats, marginal, moved, post)
        if not counted:
            redraw(
                i, rng.random(), rng.random(), 0, whole, log_moved, False, shared, start, customer,
                weight, own, family, hyper, links, kids, slot, stats, marginal, free, stack, stamp,
                mass, touched, score, joint, moved, work, post,
            )  # fmt: skip
        else:
            k = slot[i]
            mass[k] -= weight[0]
            if mass[k] == 0.0:
                m = 0
                while touched[m] != k:
                    m += 1
                n_touched -= 1
                touched[m] = touched[n_touched]
            redraw_counted(
                rng, i, 0, n_touched, whole, log_moved, own, family, hyper, links, kids, slot,
                stats, marginal, free, stack, stamp, mass, touched, score, joint, moved, work, post,
            )  # fmt: skip
        j = links[i]
        if j != i:
            for p in range(len(moved)):
                below[j, p] += moved[p]


@kernel
def found_tables(family, hyper, X, slot, free, post, stats, marginal):
    """Sum statistics by slot anew; fill the stack of free slots."""
    n = len(slot)
    stats[:] = 0.0
    for i in range(n):
        add_stats(family, hyper, X[i], 1.0, stats[slot[i]])
    free[n] = 0
    for k in range(n - 1, -1, -1):
        if stats[k, 0] > 0.0:
            marginal[k] = log_marginal(family, hyper, stats[k], post)
        else:
            free[free[n]] = k
            free[n] += 1


@uncounted
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


@kernel
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


@kernel
def draw(
    n_draws, thin, forward, rng, general, counted, shared, start, customer, weight, own, log_row,
    family, hyper, X, links, kids, slot, stats, marginal, free, stack, stamp, mass, touched, score,
    joint, moved, work, post, below, order, age, out_links, out_labels, out_n_tables, out_log_joint,
):  # fmt: skip
    """Sweep ``thin`` times before each of ``n_draws`` draws, which are written to the outputs.

    Nothing is written to outputs without rows. ``forward``: from the first customer to the last.
    Else, sequential links are drawn from the last customer to the first; of others, the customers
    come in a random order within each block. ``age`` (1,) counts sweeps.
    """
    n = len(links)
    for s in range(n_draws):
        for _ in range(thin):
            if forward and counted:
                sweep_forward(
                    rng, weight, own, family, hyper, X, links, kids, slot, stats, marginal, free,
                    stack, stamp, mass, touched, score, joint, moved, work, post,
                )  # fmt: skip
            elif forward or general:
                for i in range(n):
                    order[i] = i
                for block in range(0, 0 if forward else n, _BLOCK):
                    for i in range(min(block + _BLOCK, n) - 1, block, -1):
                        j = block + int(rng.random() * (i - block + 1))
                        order[i], order[j] = order[j], order[i]
                for i in order:
                    update(
                        i, rng.random(), rng.random(), general, shared, start, customer, weight,
                        own, family, hyper, X, links, kids, slot, stats, marginal, free, stack,
                        stamp, mass, touched, score, joint, moved, work, post,
                    )  # fmt: skip
            else:
                sweep_back(
                    rng, counted, shared, start, customer, weight, own, family, hyper, X, links,
                    kids, slot, stats, marginal, free, stack, stamp, mass, touched, score, joint,
                    work, post, below,
                )  # fmt: skip
            age[0] += 1
            if age[0] % _REFRESH == 0:
                found_tables(family, hyper, X, slot, free, post, stats, marginal)
        if len(out_links) > 0:
            out_log_joint[s], out_n_tables[s] = read_state(
                shared, start, customer, weight, own, log_row, links, slot, marginal, order,
                out_links[s], out_labels[s],
            )  # fmt: skip
