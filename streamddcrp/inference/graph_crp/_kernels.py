"""The compiled way of arrivals through all particles: weigh, choose, seat, forget, revise."""

from numba import njit

from streamddcrp._numerics import inner_njit
from streamddcrp.inference.graph_crp._kernels_concentration import count_parents
from streamddcrp.inference.graph_crp._kernels_layout import (
    CHOOSE,
    MERGE,
    N_BEST,
    OPTIMAL,
    RESAMPLE,
    REVISE_WHICH,
    STAMP,
    SYSTEMATIC,
)
from streamddcrp.inference.graph_crp._kernels_particles import (
    clear,
    copy,
    free_slot,
    leave,
    settle,
)
from streamddcrp.inference.graph_crp._kernels_revise import revise
from streamddcrp.inference.graph_crp._kernels_weigh import weigh
from streamddcrp.inference.smc._kernels_copies import ancestors_of, place_children
from streamddcrp.inference.smc._kernels_layout import (
    LOG_EVIDENCE,
    MOST_TABLES,
    N_NAMES,
    N_SEEN,
    SCORE,
)
from streamddcrp.inference.smc._kernels_merge import merge_equal
from streamddcrp.inference.smc._kernels_names import name_of, refresh_names
from streamddcrp.inference.smc._kernels_pool import born, drop, heir_of, hold
from streamddcrp.inference.smc._kernels_random import uniform
from streamddcrp.inference.smc._kernels_resample import (
    effective_size,
    n_best,
    optimal,
    stratified,
    systematic,
)

__all__ = ["predict_row", "step_rows"]


@inner_njit
def _seat(config, particles, pool, memo, names, recent, counts, scratch, x, p, k):
    """Seat the arrival at table k of a particle, -1: a new one; what others did is not redone."""
    n, family, hyper = counts[N_SEEN], config.family, config.hyper
    if k < 0:
        k = free_slot(particles, p)
        if scratch.newborn[0] < 0:
            name = name_of(n, recent.name, names, counts)
            scratch.newborn[0] = born(family, hyper, pool, memo, n, x, name)
        e = scratch.newborn[0]
        particles.opened[p] += 1
        hold(pool, e)
    else:
        before = particles.entry[p, k]
        e = heir_of(family, hyper, pool, memo, before, n, x)
        hold(pool, e)
        drop(pool, before)
    particles.entry[p, k] = e
    settle(particles, p, k, n)


@inner_njit
def _copies(particles, pool, children, n):
    """Put ``n`` children at the places of particles, as copies of their ancestors."""
    place_children(children.ancestor, n, children.used, children.place)
    for p in range(len(particles.weight)):
        if not children.used[p]:
            clear(particles, pool, p)
    for c in range(n):
        if children.place[c] != children.ancestor[c]:
            clear(particles, pool, children.place[c])
    for c in range(n):
        if children.place[c] != children.ancestor[c]:
            copy(particles, pool, children.ancestor[c], children.place[c])


@inner_njit
def _keep_best(config, particles, pool, memo, names, recent, counts, children, scratch, x, size):
    """Keep as many of all children as there are places, and seat the arrival in each."""
    n, P = counts[N_SEEN], len(particles.weight)
    if config.merge:
        merge_equal(children.key, children.weight, size, children.hashed, config.seed, n, MERGE)
    if config.scheme == N_BEST:
        kept = n_best(
            children.weight, size, P, children.work, children.chosen, children.kept_weight
        )
    else:
        u = uniform(config.seed, n, 0, RESAMPLE, 0)
        kept = optimal(children.weight, size, P, u, children.chosen, children.kept_weight)
    total = 0.0
    for c in range(kept):
        children.ancestor[c] = children.parent[children.chosen[c]]
        total += children.kept_weight[c]
    _copies(particles, pool, children, kept)
    for c in range(kept):
        child, p = children.chosen[c], children.place[c]
        particles.weight[p] = children.kept_weight[c] / total
        particles.key[p] = children.key[child]
        _seat(
            config, particles, pool, memo, names, recent, counts, scratch, x, p,
            children.table[child],
        )  # fmt: skip


@inner_njit
def _draw_one_each(
    config, particles, pool, memo, names, recent, counts, children, scratch, x, size
):
    """Draw one child of each particle; resample when few of them bear the weight."""
    n, P = counts[N_SEEN], len(particles.weight)
    a = 0
    for p in range(P):
        z, total = a, 0.0
        while z < size and children.parent[z] == p:
            total += children.weight[z]
            z += 1
        if total <= 0.0:
            clear(particles, pool, p)
            a = z
            continue
        rest = uniform(config.seed, n, p, CHOOSE, 0) * total
        chosen = a
        for c in range(a, z):
            if children.weight[c] > 0.0:
                chosen = c
                rest -= children.weight[c]
                if rest < 0.0:
                    break
        particles.weight[p] = total
        _seat(
            config, particles, pool, memo, names, recent, counts, scratch, x, p,
            children.table[chosen],
        )  # fmt: skip
        a = z
    if effective_size(particles.weight) < 0.5 * P:
        if config.scheme == SYSTEMATIC:
            u = uniform(config.seed, n, 0, RESAMPLE, 0)
            systematic(particles.weight, u, children.offspring)
        else:
            stratified(particles.weight, config.seed, n, RESAMPLE, children.offspring)
        _copies(particles, pool, children, ancestors_of(children.offspring, children.ancestor))
        particles.weight[:] = 1.0 / P


@inner_njit
def _note(particles, pool, names, counts, scratch):
    """Weigh the tables over the particles; note where the last arrival most probably sits."""
    n, R = counts[N_SEEN], particles.label.shape[1]
    names.weight[:] = 0.0
    names.n_holders[:] = 0
    scratch.at_name[:] = 0.0
    counts[MOST_TABLES] = 0
    best = -1
    for p in range(len(particles.weight)):
        if particles.weight[p] <= 0.0:
            continue
        counts[MOST_TABLES] = max(counts[MOST_TABLES], particles.n_tables[p])
        for k in range(particles.n_tables[p]):
            if particles.entry[p, k] >= 0:
                g = pool.name[particles.entry[p, k]]
                names.weight[g] += particles.weight[p]
                names.n_holders[g] += 1
        g = pool.name[particles.entry[p, particles.label[p, (n - 1) % R]]]
        scratch.at_name[g] += particles.weight[p]
        if best < 0 or scratch.at_name[g] > scratch.at_name[best]:
            best = g
    names.last_seen[best] = n - 1


@inner_njit
def _has_room(config, particles, pool, names, counts):
    """Whether an arrival, and what is revised after it, finds places whatever happens."""
    new_tables = 1 + config.moves
    return (
        pool.n_free[0] > len(particles.weight) + 2 + config.moves * (2 * len(particles.weight) + 2)
        and counts[MOST_TABLES] + new_tables <= particles.entry.shape[1]
        and counts[N_NAMES] + 1 + config.lag <= len(names.opener)
    )


@njit(cache=True)
def predict_row(
    config, particles, pool, memo, grid, names, counts, children, scratch, prior_post, x, parents,
    out,
):  # fmt: skip
    """Predict a row with its parents; nothing that lasts is changed."""
    weigh(
        config, particles, pool, memo, grid, names, counts, children, scratch, prior_post, x,
        parents, False, out,
    )  # fmt: skip


@njit(cache=True)
def step_rows(
    config, particles, pool, memo, grid, names, recent, events, counts, sums, children, scratch,
    prior_post, X, t, parents, offsets, start, out,
):  # fmt: skip
    """Predict and learn rows from ``start`` on; return the first one for which there is no room.

    ``parents`` : int64, arrival indices; those of row b from ``offsets[b]`` to ``offsets[b + 1]``.
    Both are empty where parents are the last items.
    """
    P, R = len(particles.weight), particles.label.shape[1]
    for b in range(start, X.shape[0]):
        n = counts[N_SEEN]
        if not _has_room(config, particles, pool, names, counts):
            return b
        mine = parents[offsets[b] : offsets[b + 1]] if config.given else parents[:0]
        size = weigh(
            config, particles, pool, memo, grid, names, counts, children, scratch, prior_post, X[b],
            mine, config.merge, out[b],
        )  # fmt: skip
        recent.x[n % len(recent.x)] = X[b]
        recent.name[n % R] = -1
        scratch.newborn[0] = -1
        if config.scheme in (OPTIMAL, N_BEST):
            _keep_best(
                config, particles, pool, memo, names, recent, counts, children, scratch, X[b], size
            )
        else:
            _draw_one_each(
                config, particles, pool, memo, names, recent, counts, children, scratch, X[b], size
            )
        sums[LOG_EVIDENCE] -= out[b, SCORE]
        counts[N_SEEN] = n + 1
        counts[STAMP] += 1
        count_parents(config, grid, len(mine) if config.given else min(n, config.r))
        for p in range(P):
            if particles.weight[p] > 0.0:
                leave(particles, pool, p, n - config.r, n + 1 - R)
        for move in range(config.moves):
            back = min(config.lag, n + 1)
            for p in range(P):
                if particles.weight[p] > 0.0:
                    u = uniform(config.seed, n, p, REVISE_WHICH, move)
                    revise(
                        config, particles, pool, memo, grid, names, recent, counts, scratch,
                        prior_post, p, n - int(u * back), move,
                    )  # fmt: skip
        _note(particles, pool, names, counts, scratch)
        refresh_names(names, events, counts, n + 2 - max(config.lag, 1), t[b])
    return X.shape[0]
