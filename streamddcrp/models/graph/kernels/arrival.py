"""Arrivals through all particles: weigh the children, choose, seat, forget, revise."""

from streamddcrp.compilation import entry, uncounted
from streamddcrp.contract import SCORE
from streamddcrp.models.graph.kernels import children as choices
from streamddcrp.models.graph.kernels.revise import revise
from streamddcrp.numerics import copy_row
from streamddcrp.particles.kernels import names as naming
from streamddcrp.particles.kernels.pool import EMPTY, drop
from streamddcrp.particles.kernels.random import uniform
from streamddcrp.particles.kernels.resample import merge_equal


@uncounted
def _seat(state, i):
    """Seat arrival i in the particles of the children, after `extend_joined`."""
    particles, pool, children = state.particles, state.pool, state.children
    entry, successor, at = particles.entry, state.memo.successor, i % particles.label.shape[1]
    for c in range(children.n[0]):
        p, k = children.place[c], children.to[c]
        if k < 0:
            k, e = choices.free_slot(particles, p, particles.held), EMPTY
            particles.near[p, k] = 0
            particles.opened[p] += 1
        else:
            e = entry[p, k]
        entry[p, k] = successor[e]
        pool.holders[successor[e]] += 1
        if e != EMPTY:
            drop(pool, e)
        particles.label[p, at] = k
        particles.near[p, k] += 1
        particles.held[p, k] += 1


@uncounted
def _clear(state, p):
    particles, pool = state.particles, state.pool
    for k in range(particles.n_tables[p]):
        if particles.entry[p, k] >= 0:
            drop(pool, particles.entry[p, k])
    particles.n_tables[p] = 0
    particles.weight[p] = 0.0


@uncounted
def _copy(state, p, to):
    particles = state.particles
    K = particles.n_tables[p]
    particles.n_tables[to] = K
    particles.opened[to] = particles.opened[p]
    for k in range(K):
        e = particles.entry[p, k]
        if e >= 0:
            state.pool.holders[e] += 1
        particles.entry[to, k] = e
        particles.near[to, k] = particles.near[p, k]
        particles.held[to, k] = particles.held[p, k]
    copy_row(particles.label[to], particles.label[p])


@uncounted
def _keep_best(config, state, size):
    """Merge children with the same future; keep as many as there are places."""
    particles, children = state.particles, state.children
    ancestor, place, n = children.ancestor, children.place, state.counts[naming.N_SEEN]
    merge_equal(children.key, children.weight, size, children.hashed, config.seed, n, choices.MERGE)
    choices.choose(config, state, size)
    for p in range(len(particles.weight)):
        if not children.used[p]:
            _clear(state, p)
    for c in range(children.n[0]):
        if place[c] != ancestor[c]:
            _clear(state, place[c])
    for c in range(children.n[0]):
        if place[c] != ancestor[c]:
            _copy(state, ancestor[c], place[c])
    for c in range(children.n[0]):
        particles.weight[place[c]] = children.kept_weight[c]
        particles.key[place[c]] = children.key[children.chosen[c]]


@uncounted
def _note_last(state):
    particles, at_name, n = state.particles, state.scratch.at_name, state.counts[naming.N_SEEN]
    at, best = (n - 1) % particles.label.shape[1], -1
    at_name[:] = 0.0
    for p in range(len(particles.weight)):
        if particles.weight[p] > 0.0:
            g = state.pool.name[particles.entry[p, particles.label[p, at]]]
            at_name[g] += particles.weight[p]
            if best < 0 or at_name[g] > at_name[best]:
                best = g
    state.names.last_seen[best] = n - 1


@uncounted
def _leave(config, state, i_window, i_memory):
    """Remove items from the window and from memory; empty tables die, unless whole-graph."""
    particles = state.particles
    entry, near, held, label = particles.entry, particles.near, particles.held, particles.label
    R = label.shape[1]
    for p in range(len(particles.weight)):
        if particles.weight[p] <= 0.0:
            continue
        if i_window >= 0:
            k = label[p, i_window % R]
            near[p, k] -= 1
            if near[p, k] == 0 and not config.whole_graph:
                drop(state.pool, entry[p, k])
                entry[p, k] = -1
        if i_memory >= 0:
            held[p, label[p, i_memory % R]] -= 1
        K = particles.n_tables[p]
        while K > 0 and entry[p, K - 1] < 0 and held[p, K - 1] == 0:
            K -= 1
        particles.n_tables[p] = K


@entry
def predict_row(config, state, x, parents, out):
    """Predict a row with its parents; changes only work space."""
    top = choices.score_arrival(config, state, x)
    choices.weigh(config, state, parents, False, top, out)


@entry
def step_rows(config, state, X, t, parents, offsets, start, out):
    """Learn rows from ``start`` on; return the first one without room; parents may be empty.

    Those of row b are ``offsets[b]`` to ``offsets[b + 1]``; empty: they are the last items.
    """
    particles, grid, names, recent = state.particles, state.grid, state.names, state.recent
    events, counts, sums = state.events, state.counts, state.sums
    P, R = len(particles.weight), particles.label.shape[1]
    for b in range(start, X.shape[0]):
        n = counts[naming.N_SEEN]
        if (
            state.pool.n_free[0] <= P + 2 + config.moves * (2 * P + 2)
            or counts[naming.MOST_TABLES] + 1 + config.moves > particles.entry.shape[1]
            or counts[naming.N_NAMES] + 1 + config.rejuvenate > len(names.opener)
        ):
            return b
        mine = parents[offsets[b] : offsets[b + 1]] if config.given else parents[:0]
        top = choices.score_arrival(config, state, X[b])
        size = choices.weigh(config, state, mine, True, top, out[b])
        copy_row(recent.x[n % len(recent.x)], X[b])
        recent.name[n % R] = -1
        _keep_best(config, state, size)
        choices.extend_joined(config, state, recent.name, X[b])
        _seat(state, n)
        sums[naming.LOG_EVIDENCE] -= out[b, SCORE]
        counts[naming.N_SEEN] = n + 1
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
        naming.refresh_names(names, events, counts, n + 2 - max(config.rejuvenate, 1), t[b])
    return X.shape[0]
