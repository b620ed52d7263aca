"""The compiled way of arrivals through all particles: weigh, choose, seat, forget, revise."""

from streamddcrp.compilation import entry, uncounted
from streamddcrp.contract import SCORE
from streamddcrp.models.graph.kernels.concentration import count_parents
from streamddcrp.models.graph.kernels.layout import (
    CHOOSE,
    MERGE,
    N_BEST,
    RESAMPLE,
    REVISE_WHICH,
    STAMP,
    STRATIFIED,
    SYSTEMATIC,
)
from streamddcrp.models.graph.kernels.particles import clear, copy, free_slot, leave
from streamddcrp.models.graph.kernels.revise import revise
from streamddcrp.models.graph.kernels.weigh import NEGLIGIBLE, weigh
from streamddcrp.numerics import copy_row
from streamddcrp.particles.kernels.copies import ancestors_of, place_children
from streamddcrp.particles.kernels.layout import LOG_EVIDENCE, MOST_TABLES, N_NAMES, N_SEEN
from streamddcrp.particles.kernels.merge import merge_equal
from streamddcrp.particles.kernels.names import name_of, refresh_names
from streamddcrp.particles.kernels.pool import (
    EMPTY,
    extend_clusters,
    held_clusters,
    relative_liks,
    score_clusters,
    take,
)
from streamddcrp.particles.kernels.random import uniform
from streamddcrp.particles.kernels.resample import (
    effective_size,
    n_best,
    optimal,
    stratified,
    systematic,
)


@uncounted
def _list_heirs(entry, heir, which, pool, children):
    """Give a place to each cluster that comes about by the children; return how many there are."""
    to, place = children.to, children.place
    size = 0
    for c in range(children.n[0]):
        e = entry[place[c], to[c]] if to[c] >= 0 else EMPTY
        if heir[e] < 0:
            heir[e] = take(pool)
            which[size] = e
            size += 1
    return size


@uncounted
def _seat(particles, pool, memo, children, i):
    """Seat arrival i in the particles of the children; the clusters it joins have been made."""
    entry, near, held, n_tables = (
        particles.entry,
        particles.near,
        particles.held,
        particles.n_tables,
    )
    label, opened, heir = particles.label, particles.opened, memo.heir
    to, place = children.to, children.place
    holders, free, n_free = pool.holders, pool.free, pool.n_free
    at = i % label.shape[1]
    for c in range(children.n[0]):
        p, k = place[c], to[c]
        if k < 0:
            k = free_slot(entry, near, held, n_tables, p)
            entry[p, k] = heir[EMPTY]
            holders[heir[EMPTY]] += 1
            opened[p] += 1
        else:
            e = entry[p, k]
            entry[p, k] = heir[e]
            holders[heir[e]] += 1
            holders[e] -= 1
            if holders[e] == 0:
                free[n_free[0]] = e
                n_free[0] += 1
        label[p, at] = k
        near[p, k] += 1
        held[p, k] += 1


@uncounted
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


@uncounted
def _keep_best(config, particles, pool, counts, children, size):
    """Keep as many of all children as there are places."""
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
    weight, key, place, chosen = particles.weight, particles.key, children.place, children.chosen
    child_key, table, to = children.key, children.table, children.to
    for c in range(kept):
        weight[place[c]] = children.kept_weight[c] / total
        key[place[c]] = child_key[chosen[c]]
        to[c] = table[chosen[c]]
    children.n[0] = kept


@uncounted
def _draw_one_each(config, particles, pool, counts, children, size):
    """Draw one child of each particle."""
    n = counts[N_SEEN]
    a, kept = 0, 0
    for p in range(len(particles.weight)):
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
        children.place[kept] = p
        children.to[kept] = children.table[chosen]
        kept += 1
        a = z
    children.n[0] = kept


@uncounted
def _resample(config, particles, pool, children, n):
    """Draw particles by their weights when few of them bear the weight."""
    P = len(particles.weight)
    if effective_size(particles.weight) < 0.5 * P:
        if config.scheme == SYSTEMATIC:
            u = uniform(config.seed, n, 0, RESAMPLE, 0)
            systematic(particles.weight, u, children.offspring)
        else:
            stratified(particles.weight, config.seed, n, RESAMPLE, children.offspring)
        _copies(particles, pool, children, ancestors_of(children.offspring, children.ancestor))
        particles.weight[:] = 1.0 / P


@uncounted
def _note(particles, pool, names, counts, scratch):
    """Weigh the tables over the particles; note where the last arrival most probably sits."""
    n, R = counts[N_SEEN], particles.label.shape[1]
    weight, entry, n_tables, label = (
        particles.weight, particles.entry, particles.n_tables, particles.label,
    )  # fmt: skip
    name, total, n_holders, at_name = pool.name, names.weight, names.n_holders, scratch.at_name
    total[:] = 0.0
    n_holders[:] = 0
    at_name[:] = 0.0
    most, best = 0, -1
    for p in range(len(weight)):
        if weight[p] <= 0.0:
            continue
        most = max(most, n_tables[p])
        for k in range(n_tables[p]):
            if entry[p, k] >= 0:
                g = name[entry[p, k]]
                total[g] += weight[p]
                n_holders[g] += 1
        g = name[entry[p, label[p, (n - 1) % R]]]
        at_name[g] += weight[p]
        if best < 0 or at_name[g] > at_name[best]:
            best = g
    counts[MOST_TABLES] = most
    names.last_seen[best] = n - 1


@uncounted
def _has_room(config, particles, pool, names, counts):
    """Whether an arrival, and what is revised after it, finds places whatever happens."""
    new_tables = 1 + config.moves
    return (
        pool.n_free[0] > len(particles.weight) + 2 + config.moves * (2 * len(particles.weight) + 2)
        and counts[MOST_TABLES] + new_tables <= particles.entry.shape[1]
        and counts[N_NAMES] + 1 + config.lag <= len(names.opener)
    )


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


@entry
def predict_row(
    config, particles, pool, memo, grid, names, counts, children, scratch, x, parents, out
):
    """Predict a row with its parents; nothing that lasts is changed."""
    top = _score(config, particles, pool, memo, counts, x)
    weigh(
        config, particles, pool, memo, grid, names, counts, children, scratch, parents, False, top,
        out,
    )  # fmt: skip


@entry
def step_rows(
    config, particles, pool, memo, grid, names, recent, events, counts, sums, children, scratch, X,
    t, parents, offsets, start, out,
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
        top = _score(config, particles, pool, memo, counts, X[b])
        size = weigh(
            config, particles, pool, memo, grid, names, counts, children, scratch, mine,
            config.merge, top, out[b],
        )  # fmt: skip
        copy_row(recent.x[n % len(recent.x)], X[b])
        recent.name[n % R] = -1
        each = config.scheme in (SYSTEMATIC, STRATIFIED)
        if each:
            _draw_one_each(config, particles, pool, counts, children, size)
        else:
            _keep_best(config, particles, pool, counts, children, size)
        size = _list_heirs(particles.entry, memo.heir, memo.which, pool, children)
        extend_clusters(
            config.family, config.hyper, pool.stats, pool.post, pool.members, pool.mixed, pool.name,
            X[b], 1.0, n, memo.which, size, memo.heir,
        )  # fmt: skip
        if memo.heir[EMPTY] >= 0:
            pool.name[memo.heir[EMPTY]] = name_of(n, recent.name, names, counts)
        _seat(particles, pool, memo, children, n)
        if each:
            _resample(config, particles, pool, children, n)
        sums[LOG_EVIDENCE] -= out[b, SCORE]
        counts[N_SEEN] = n + 1
        counts[STAMP] += 1
        count_parents(config, grid, len(mine) if config.given else min(n, config.r))
        leave(particles, pool, n - config.r, n + 1 - R)
        for move in range(config.moves):
            back = min(config.lag, n + 1)
            for p in range(P):
                if particles.weight[p] > 0.0:
                    u = uniform(config.seed, n, p, REVISE_WHICH, move)
                    revise(
                        config, particles, pool, memo, grid, names, recent, counts, scratch, p,
                        n - int(u * back), move,
                    )  # fmt: skip
        _note(particles, pool, names, counts, scratch)
        refresh_names(names, events, counts, n + 2 - max(config.lag, 1), t[b])
    return X.shape[0]
