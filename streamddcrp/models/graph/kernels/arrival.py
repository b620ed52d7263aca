"""Arrivals through all particles: weigh the children, choose, seat, forget, revise."""

from streamddcrp.compilation import entry, uncounted
from streamddcrp.contract import SCORE
from streamddcrp.models.graph.kernels import children as choices
from streamddcrp.models.graph.kernels.revise import free_slot, revise
from streamddcrp.numerics import copy_row
from streamddcrp.particles.kernels import resample
from streamddcrp.particles.kernels.names import (
    LOG_EVIDENCE,
    MOST_TABLES,
    N_NAMES,
    N_SEEN,
    refresh_names,
)
from streamddcrp.particles.kernels.pool import EMPTY, drop
from streamddcrp.particles.kernels.random import uniform


@uncounted
def _seat(state, i):
    """Seat arrival i in the particles of the children, after `extend_joined`."""
    particles, pool, memo, children = state.particles, state.pool, state.memo, state.children
    entry, near, held = particles.entry, particles.near, particles.held
    n_tables = particles.n_tables
    label, opened, successor = particles.label, particles.opened, memo.successor
    to, place = children.to, children.place
    holders, at = pool.holders, i % label.shape[1]
    for c in range(children.n[0]):
        p, k = place[c], to[c]
        if k < 0:
            k = free_slot(entry, near, held, n_tables, p)
            entry[p, k] = successor[EMPTY]
            holders[successor[EMPTY]] += 1
            opened[p] += 1
        else:
            e = entry[p, k]
            entry[p, k] = successor[e]
            holders[successor[e]] += 1
            drop(pool, e)
        label[p, at] = k
        near[p, k] += 1
        held[p, k] += 1


@uncounted
def _clear(state, p):
    """Empty a particle's place."""
    particles, pool = state.particles, state.pool
    for k in range(particles.n_tables[p]):
        if particles.entry[p, k] >= 0:
            drop(pool, particles.entry[p, k])
    particles.n_tables[p] = 0
    particles.weight[p] = 0.0


@uncounted
def _copy(state, p, to):
    """Make the empty place ``to`` a copy of particle p."""
    particles, pool = state.particles, state.pool
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
def _keep_best(config, state, size):
    """Merge children with the same future; keep as many of all as there are places."""
    particles, counts, children = state.particles, state.counts, state.children
    n, P = counts[N_SEEN], len(particles.weight)
    resample.merge_equal(
        children.key, children.weight, size, children.hashed, config.seed, n, choices.MERGE
    )
    u = uniform(config.seed, n, 0, choices.RESAMPLE, 0)
    kept = resample.optimal(children.weight, size, P, u, children.chosen, children.kept_weight)
    total = choices.list_kept(children, kept)
    ancestor, place = children.ancestor, children.place
    resample.place_children(ancestor, kept, children.used, place)
    for p in range(P):
        if not children.used[p]:
            _clear(state, p)
    for c in range(kept):
        if place[c] != ancestor[c]:
            _clear(state, place[c])
    for c in range(kept):
        if place[c] != ancestor[c]:
            _copy(state, ancestor[c], place[c])
    for c in range(kept):
        particles.weight[place[c]] = children.kept_weight[c] / total
        particles.key[place[c]] = children.key[children.chosen[c]]


@uncounted
def _note_last(state):
    """Note at which table the last arrival most probably sits."""
    particles, pool, names, counts = state.particles, state.pool, state.names, state.counts
    at_name = state.scratch.at_name
    weight, entry, label, n = particles.weight, particles.entry, particles.label, counts[N_SEEN]
    at, best = (n - 1) % label.shape[1], -1
    at_name[:] = 0.0
    for p in range(len(weight)):
        if weight[p] > 0.0:
            g = pool.name[entry[p, label[p, at]]]
            at_name[g] += weight[p]
            if best < 0 or at_name[g] > at_name[best]:
                best = g
    names.last_seen[best] = n - 1


@uncounted
def _has_room(config, state):
    """Whether there is room for any outcome of an arrival and of the revisions after it."""
    particles, pool, names, counts = state.particles, state.pool, state.names, state.counts
    new_tables = 1 + config.moves
    return (
        pool.n_free[0] > len(particles.weight) + 2 + config.moves * (2 * len(particles.weight) + 2)
        and counts[MOST_TABLES] + new_tables <= particles.entry.shape[1]
        and counts[N_NAMES] + 1 + config.rejuvenate <= len(names.opener)
    )


@uncounted
def _leave(config, state, i_window, i_memory):
    """Let an item leave the window, and one memory; empty tables die, but of the whole graph."""
    particles, pool = state.particles, state.pool
    entry, near, held = particles.entry, particles.near, particles.held
    n_tables = particles.n_tables
    weight, label = particles.weight, particles.label
    R = label.shape[1]
    for p in range(len(weight)):
        if weight[p] <= 0.0:
            continue
        if i_window >= 0:
            k = label[p, i_window % R]
            near[p, k] -= 1
            if near[p, k] == 0 and not config.whole_graph:
                drop(pool, entry[p, k])
                entry[p, k] = -1
        if i_memory >= 0:
            held[p, label[p, i_memory % R]] -= 1
        K = n_tables[p]
        while K > 0 and entry[p, K - 1] < 0 and held[p, K - 1] == 0:
            K -= 1
        n_tables[p] = K


@entry
def predict_row(config, state, x, parents, out):
    """Predict a row with its parents; only work space changes."""
    top = choices.score_arrival(config, state, x)
    choices.weigh(config, state, parents, False, top, out)


@entry
def step_rows(config, state, X, t, parents, offsets, start, out):
    """Learn rows from ``start`` on; return the first one without room; parents may be empty.

    Those of row b are from ``offsets[b]`` to ``offsets[b + 1]``; empty: they are the last items.
    """
    particles, grid, names, recent = state.particles, state.grid, state.names, state.recent
    events, counts, sums = state.events, state.counts, state.sums
    P, R = len(particles.weight), particles.label.shape[1]
    for b in range(start, X.shape[0]):
        n = counts[N_SEEN]
        if not _has_room(config, state):
            return b
        mine = parents[offsets[b] : offsets[b + 1]] if config.given else parents[:0]
        top = choices.score_arrival(config, state, X[b])
        size = choices.weigh(config, state, mine, True, top, out[b])
        copy_row(recent.x[n % len(recent.x)], X[b])
        recent.name[n % R] = -1
        _keep_best(config, state, size)
        choices.extend_joined(config, state, recent.name, X[b])
        _seat(state, n)
        sums[LOG_EVIDENCE] -= out[b, SCORE]
        counts[N_SEEN] = n + 1
        counts[choices.STAMP] += 1
        choices.count_parents(config, grid, 0, len(mine) if config.given else min(n, config.r))
        _leave(config, state, n - config.r, n + 1 - R)
        for move in range(config.moves):
            back = min(config.rejuvenate, n + 1)
            for p in range(P):
                if particles.weight[p] > 0.0:
                    u = uniform(config.seed, n, p, choices.REVISE_WHICH, move)
                    revise(config, state, p, n - int(u * back), move)
        choices.weigh_names(state)
        _note_last(state)
        refresh_names(names, events, counts, n + 2 - max(config.rejuvenate, 1), t[b])
    return X.shape[0]
