"""One particle: its tables, the labels of the last items, copies of it."""

from streamddcrp.compilation import uncounted
from streamddcrp.numerics import copy_row
from streamddcrp.particles.kernels.pool import drop


@uncounted
def clear(particles, pool, p):
    """Empty a particle's place."""
    for k in range(particles.n_tables[p]):
        if particles.entry[p, k] >= 0:
            drop(pool, particles.entry[p, k])
    particles.n_tables[p] = 0
    particles.weight[p] = 0.0


@uncounted
def copy(particles, pool, p, to):
    """Make the empty place ``to`` a copy of particle p."""
    entry, near, held, holders = particles.entry, particles.near, particles.held, pool.holders
    K = particles.n_tables[p]
    particles.n_tables[to] = K
    particles.opened[to] = particles.opened[p]
    particles.key[to] = particles.key[p]
    for k in range(K):
        e = entry[p, k]
        if e >= 0:
            holders[e] += 1
        entry[to, k] = e
        near[to, k] = near[p, k]
        held[to, k] = held[p, k]
    copy_row(particles.label[to], particles.label[p])


@uncounted
def free_slot(entry, near, held, n_tables, p):
    """Place for a new table: one that no item in memory is labelled with."""
    K = n_tables[p]
    k = 0
    while k < K and (entry[p, k] >= 0 or held[p, k] > 0):
        k += 1
    if k == K:
        n_tables[p] = K + 1
    near[p, k] = 0
    held[p, k] = 0
    return k


@uncounted
def leave(particles, pool, i_window, i_memory):
    """Let an item leave the window, and one leave memory; negative: none. Tables left alone die."""
    entry, near, held, n_tables = (
        particles.entry,
        particles.near,
        particles.held,
        particles.n_tables,
    )
    weight, label = particles.weight, particles.label
    R = label.shape[1]
    for p in range(len(weight)):
        if weight[p] <= 0.0:
            continue
        if i_window >= 0:
            k = label[p, i_window % R]
            near[p, k] -= 1
            if near[p, k] == 0:
                drop(pool, entry[p, k])
                entry[p, k] = -1
        if i_memory >= 0:
            held[p, label[p, i_memory % R]] -= 1
        K = n_tables[p]
        while K > 0 and entry[p, K - 1] < 0 and held[p, K - 1] == 0:
            K -= 1
        n_tables[p] = K
