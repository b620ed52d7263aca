"""The compiled way of arrivals of several groups through all particles."""

import math

import numpy as np

from streamddcrp.compilation import entry, uncounted
from streamddcrp.contract import LABEL, LABEL_PROB, LIVE_TABLES, P_CHANGE, P_NEW, SCORE
from streamddcrp.models.graph.kernels.group_moves import fill, free_slot, move
from streamddcrp.numerics import copy_row
from streamddcrp.particles.kernels.copies import place_children
from streamddcrp.particles.kernels.layout import (
    LOG_EVIDENCE,
    MOST_TABLES,
    N_COUNTS,
    N_LIVE,
    N_NAMES,
    N_SEEN,
)
from streamddcrp.particles.kernels.names import best_name, name_of, refresh_names
from streamddcrp.particles.kernels.pool import EMPTY as NOBODY
from streamddcrp.particles.kernels.pool import (
    drop,
    extend_clusters,
    held_clusters,
    relative_liks,
    score_clusters,
    take,
)
from streamddcrp.particles.kernels.random import draw, uniform
from streamddcrp.particles.kernels.resample import optimal

STAMP = N_COUNTS  # of what was worked out last

RESAMPLE, WHICH_EMPTY = 0, 2  # random numbers; the others stand in `kernels.group_moves`
NEW, EMPTY = -1, -2  # tables of children: a new one, one that has auxiliary items only
NEGLIGIBLE = 1e-250


@uncounted
def _score(config, particles, pool, memo, counts, x):
    """Score the arrival at all clusters; return the log of the largest density."""
    counts[STAMP] += 1
    which, score = memo.which, memo.score
    size = held_clusters(
        particles.weight, particles.entry, particles.n_tables, NEGLIGIBLE, memo.seen, counts[STAMP],
        which,
    )  # fmt: skip
    score_clusters(
        config.family, config.hyper, pool.post, pool.members, x, counts[N_SEEN], which, size, score,
        memo.heir_mixed,
    )  # fmt: skip
    return relative_liks(which, size, score, memo.lik, memo.heir)


@uncounted
def _weigh(
    config, particles, pool, memo, groups, names, counts, children, scratch, g, a, share, top, out
):
    """List the children for an arrival of group g below node a; return how many there are.

    A cluster weighs (auxiliary items + items of the group), a new one alpha. All clusters that have
    auxiliary items only are one child. ``g`` -1: a group without items. ``share``: probability that
    the node says anything of it, else its cluster is new; below 1 where the node is unknown.
    ``top`` : log of the largest density of a table.
    """
    n = counts[N_SEEN]
    weight, entry, n_tables = particles.weight, particles.entry, particles.n_tables
    aux, own, last = particles.aux, particles.own, particles.last
    parent, table, child_weight = children.parent, children.table, children.weight
    at_name, lik, name = scratch.at_name, memo.lik, pool.name
    own_lik = lik[NOBODY]
    at_name[:] = 0.0
    size = groups.size[g] if g >= 0 else 0
    factor = share / (config.alpha + (config.n_root if a == 0 else config.n_node) + size)
    opens = config.alpha * factor + (1.0 - share)
    M, total, new, stays = 0, 0.0, 0.0, 0.0
    for p in range(len(weight)):
        w = weight[p]
        if w <= NEGLIGIBLE:
            continue
        empty = 0
        for k in range(n_tables[p]):
            e = entry[p, k]
            here = aux[p, a, k]
            if e < 0:
                empty += here
                continue
            if g >= 0:
                here += own[p, g, k]
            if here == 0:
                continue
            child = w * factor * here * lik[e]
            at_name[name[e]] += child
            if k == last[p]:
                stays += child
            total += child
            parent[M], table[M], child_weight[M] = p, k, child
            M += 1
        for kind in (NEW, EMPTY):
            child = w * own_lik * (opens if kind == NEW else factor * empty)
            if child > 0.0:
                new += child
                total += child
                parent[M], table[M], child_weight[M] = p, kind, child
                M += 1
    for i in range(len(at_name)):
        at_name[i] /= total
    for c in range(M):
        child_weight[c] /= total
    label, best = best_name(names, at_name, new / total, n)
    out[LABEL] = label
    out[LABEL_PROB] = best
    out[SCORE] = -(top + math.log(total))
    out[P_NEW] = new / total
    out[P_CHANGE] = max(1.0 - stays / total, 0.0) if n > 0 else np.nan
    out[LIVE_TABLES] = counts[N_LIVE]
    return M


@uncounted
def _clear(particles, pool, p):
    for k in range(particles.n_tables[p]):
        if particles.entry[p, k] >= 0:
            drop(pool, particles.entry[p, k])
        particles.entry[p, k] = -1
        particles.n_aux[p, k] = 0
    particles.n_tables[p] = 0
    particles.weight[p] = 0.0


@uncounted
def _copy(particles, pool, p, to, n_nodes, n_groups):
    K = particles.n_tables[p]
    particles.n_tables[to] = K
    for k in range(K):
        e = particles.entry[p, k]
        particles.entry[to, k] = e
        particles.n_aux[to, k] = particles.n_aux[p, k]
        if e >= 0:
            pool.holders[e] += 1
    for a in range(n_nodes):
        copy_row(particles.aux[to, a], particles.aux[p, a])
    for g in range(n_groups):
        copy_row(particles.own[to, g], particles.own[p, g])


@uncounted
def _keep_best(config, particles, pool, memo, groups, counts, children, M):
    """Keep the children without bias; return how many clusters are to be made, in the list."""
    n, P = counts[N_SEEN], len(particles.weight)
    u = uniform(config.seed, n, 0, RESAMPLE, 0)
    kept = optimal(children.weight, M, P, u, children.chosen, children.kept_weight)
    ancestor, place, chosen, to = (
        children.ancestor, children.place, children.chosen, children.to,
    )  # fmt: skip
    total = 0.0
    for c in range(kept):
        ancestor[c] = children.parent[chosen[c]]
        to[c] = children.table[chosen[c]]
        total += children.kept_weight[c]
    place_children(ancestor, kept, children.used, place)
    for p in range(P):
        if not children.used[p]:
            _clear(particles, pool, p)
    for c in range(kept):
        if place[c] != ancestor[c]:
            _clear(particles, pool, place[c])
    for c in range(kept):
        if place[c] != ancestor[c]:
            _copy(particles, pool, ancestor[c], place[c], groups.n[0], groups.n[1])
    entry, heir, which, size = particles.entry, memo.heir, memo.which, 0
    for c in range(kept):
        particles.weight[place[c]] = children.kept_weight[c] / total
        e = entry[place[c], to[c]] if to[c] >= 0 else NOBODY
        if heir[e] < 0:
            heir[e] = take(pool)
            which[size] = e
            size += 1
    children.n[0] = kept
    return size


@uncounted
def _seat(config, particles, pool, memo, groups, counts, children, scratch, g, a):
    """Seat the arrival in the particles of the children; the clusters it joins have been made."""
    n, heir, to, place = counts[N_SEEN], memo.heir, children.to, children.place
    entry, n_aux, n_tables = particles.entry, particles.n_aux, particles.n_tables
    aux, own = particles.aux, particles.own
    for c in range(children.n[0]):
        p, k = place[c], to[c]
        if k >= 0:
            e = entry[p, k]
            entry[p, k] = heir[e]
            pool.holders[heir[e]] += 1
            drop(pool, e)
        else:
            if k == NEW:
                k = free_slot(entry, n_aux, n_tables, p)
            else:
                for j in range(n_tables[p]):
                    scratch.work[j] = aux[p, a, j] if entry[p, j] < 0 else 0
                k = draw(scratch.work, n_tables[p], uniform(config.seed, n, p, WHICH_EMPTY, 0))
            entry[p, k] = heir[NOBODY]
            pool.holders[heir[NOBODY]] += 1
        own[p, g, k] += 1
        particles.last[p] = k


@uncounted
def _note(particles, pool, names, counts):
    """Weigh the tables over the particles; note where the last arrival most probably sits."""
    weight, entry, n_tables, last = (
        particles.weight, particles.entry, particles.n_tables, particles.last,
    )  # fmt: skip
    total, n_holders, name = names.weight, names.n_holders, pool.name
    total[:] = 0.0
    n_holders[:] = 0
    most, best, best_p = 0, -1.0, 0
    for p in range(len(weight)):
        if weight[p] <= 0.0:
            continue
        most = max(most, n_tables[p])
        for k in range(n_tables[p]):
            if entry[p, k] >= 0:
                total[name[entry[p, k]]] += weight[p]
                n_holders[name[entry[p, k]]] += 1
        if weight[p] > best:
            best, best_p = weight[p], p
    counts[MOST_TABLES] = most
    names.last_seen[name[entry[best_p, last[best_p]]]] = counts[N_SEEN] - 1


@entry
def predict_row(
    config, particles, pool, memo, groups, names, counts, children, scratch, x, g, a, share, out
):
    """Predict a row of a group; nothing that lasts is changed."""
    top = _score(config, particles, pool, memo, counts, x)
    _weigh(
        config, particles, pool, memo, groups, names, counts, children, scratch, g, a, share, top,
        out,
    )  # fmt: skip


@entry
def step_rows(
    config, particles, pool, memo, groups, names, recent, events, counts, sums, children, scratch,
    X, t, group, start, out,
):  # fmt: skip
    """Predict and learn rows from ``start`` on; return the first one for which there is no room."""
    P = len(particles.weight)
    for b in range(start, X.shape[0]):
        n, g = counts[N_SEEN], group[b]
        a = groups.node[g]
        drawn = config.n_root * (n == 0) + config.n_node * (a >= groups.n[0])
        if (
            pool.n_free[0] < P + 2
            or counts[MOST_TABLES] + drawn + 1 + config.moves > particles.entry.shape[1]
            or counts[N_NAMES] + 1 > len(names.opener)
        ):
            return b
        if n == 0:
            groups.n[0] = 1
            fill(config, particles, scratch.work, n, 0)
        while groups.n[0] <= a:
            groups.n[0] += 1
            fill(config, particles, scratch.work, n + 1, groups.n[0] - 1)
        groups.n[1] = max(groups.n[1], g + 1)
        top = _score(config, particles, pool, memo, counts, X[b])
        M = _weigh(
            config, particles, pool, memo, groups, names, counts, children, scratch, g, a, 1.0, top,
            out[b],
        )  # fmt: skip
        size = _keep_best(config, particles, pool, memo, groups, counts, children, M)
        extend_clusters(
            config.family, config.hyper, pool.stats, pool.post, pool.members, pool.mixed, pool.name,
            X[b], 1.0, n, memo.which, size, memo.heir,
        )  # fmt: skip
        recent[0] = -1
        if memo.heir[NOBODY] >= 0:
            pool.name[memo.heir[NOBODY]] = name_of(n, recent, names, counts)
        _seat(config, particles, pool, memo, groups, counts, children, scratch, g, a)
        groups.size[g] += 1
        sums[LOG_EVIDENCE] -= out[b, SCORE]
        counts[N_SEEN] = n + 1
        for number in range(config.moves):
            for p in range(P):
                if particles.weight[p] > 0.0:
                    move(config, particles, groups, scratch, p, n, number)
        _note(particles, pool, names, counts)
        refresh_names(names, events, counts, n + 1, t[b])
    return X.shape[0]
