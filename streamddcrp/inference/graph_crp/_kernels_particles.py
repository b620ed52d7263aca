"""One particle: its tables, the labels of the last items, copies of it."""

from streamddcrp._numerics import inner_njit
from streamddcrp.inference.smc._kernels_pool import drop, hold

__all__ = ["clear", "copy", "free_slot", "leave", "settle"]


@inner_njit
def clear(particles, pool, p):
    """Empty a particle's place."""
    for k in range(particles.n_tables[p]):
        if particles.entry[p, k] >= 0:
            drop(pool, particles.entry[p, k])
    particles.n_tables[p] = 0
    particles.weight[p] = 0.0


@inner_njit
def copy(particles, pool, p, to):
    """Make the empty place ``to`` a copy of particle p."""
    K = particles.n_tables[p]
    particles.n_tables[to] = K
    particles.opened[to] = particles.opened[p]
    particles.key[to] = particles.key[p]
    for k in range(K):
        e = particles.entry[p, k]
        if e >= 0:
            hold(pool, e)
        particles.entry[to, k] = e
        particles.near[to, k] = particles.near[p, k]
        particles.held[to, k] = particles.held[p, k]
    particles.label[to] = particles.label[p]


@inner_njit
def free_slot(particles, p):
    """Place for a new table: one that no item in memory is labelled with."""
    K = particles.n_tables[p]
    k = 0
    while k < K and (particles.entry[p, k] >= 0 or particles.held[p, k] > 0):
        k += 1
    if k == K:
        particles.n_tables[p] = K + 1
    particles.near[p, k] = 0
    particles.held[p, k] = 0
    return k


@inner_njit
def settle(particles, p, k, i):
    """Label item i, which is in the window, with table k."""
    particles.label[p, i % particles.label.shape[1]] = k
    particles.near[p, k] += 1
    particles.held[p, k] += 1


@inner_njit
def leave(particles, pool, p, i_window, i_memory):
    """Let an item leave the window, and one leave memory (-1: none); a table left alone dies."""
    R = particles.label.shape[1]
    if i_window >= 0:
        k = particles.label[p, i_window % R]
        particles.near[p, k] -= 1
        if particles.near[p, k] == 0:
            drop(pool, particles.entry[p, k])
            particles.entry[p, k] = -1
    if i_memory >= 0:
        particles.held[p, particles.label[p, i_memory % R]] -= 1
    K = particles.n_tables[p]
    while K > 0 and particles.entry[p, K - 1] < 0 and particles.held[p, K - 1] == 0:
        K -= 1
    particles.n_tables[p] = K
