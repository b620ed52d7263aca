"""Rows of several groups with auxiliary items: arrivals in all particles, and Gibbs sampling."""

import math

import numpy as np

from streamddcrp.compilation import entry, kernel, uncounted
from streamddcrp.contract import SCORE
from streamddcrp.likelihoods.kernels import families
from streamddcrp.models.graph.kernels import cells
from streamddcrp.models.graph.kernels import children as choices
from streamddcrp.models.graph.kernels.auxiliary import base_row, fill, move, n_clusters
from streamddcrp.models.graph.kernels.forget import forget_cluster
from streamddcrp.models.graph.kernels.revise import reweigh
from streamddcrp.numerics import copy_first, copy_row, log_add_exp
from streamddcrp.particles.kernels import names as at
from streamddcrp.particles.kernels.pool import EMPTY, drop
from streamddcrp.particles.kernels.random import draw, draw_log, uniform

NEW, AUXILIARY = -1, -2  # tables of children: new, and any with auxiliary items only


@uncounted
def _opening(config, grid, row, k, m, unknown, stamp):
    """E[1 / (alpha + m)] given k clusters, and the probability of a new one, for learned alpha.

    Items of an unknown node see the root's m with probability N_1 / (alpha + N_1), else open.
    """
    join, new = choices.factors(config, grid, row, k, m, stamp)
    if not unknown:
        return join, new
    join, top = 0.0, grid.log_total[choices.sums_at(config, grid, row, k, 0, stamp)]
    for j in range(len(config.nodes)):
        alpha = config.nodes[j]
        weight = math.exp(grid.base[row, j] + k * config.log_nodes[j] - top)
        join += weight * config.n_node / ((alpha + config.n_node) * (alpha + m))
    return join, 1.0 - m * join


@uncounted
def _base(config, state, p, size):
    """Weights for a row of a group of ``size`` rows: docs/math/graphs.md (8a).

    Returns that of a row of the group; that of a new cluster; and that of a table of any group,
    relative to the first.
    """
    n_tables = state.particles.n_aux[p, : state.particles.n_tables[p]].sum()
    row = base_row(state.grid, p)
    join, new = choices.factors(
        config, state.grid, row, n_tables, size, state.counts[choices.STAMP]
    )
    share = new / (config.gamma + n_tables)
    return join, config.gamma * share, share / join


@uncounted
def _shared_from(particles, p, k):
    """Return the first cluster from k on that tables have, or ``TABLES``."""
    while k < particles.n_tables[p] and particles.n_aux[p, k] == 0:
        k += 1
    return k if k < particles.n_tables[p] else cells.TABLES


@uncounted
def _open_tables(config, state, g):
    """Draw whether the arrival opens a table of its group, in the particles of the children."""
    particles, own, children = state.particles, state.own, state.children
    for c in range(children.n[0]):
        p, k = children.place[c], children.to[c]
        if config.markov:
            g = particles.last[p] + 1
        opens = 1.0
        if k >= 0:
            _, _, tie = _base(config, state, p, cells.row_total(own, p, g))
            opens, at_own = (
                tie * particles.n_aux[p, k],
                cells.place_of(own, p, cells.TABLES * g + k),
            )
            if cells.table_at(own, p, at_own, g) == k:
                opens /= opens + own.items[p, at_own]
            else:
                opens = 1.0
        u = uniform(config.seed, state.counts[at.N_SEEN], p, choices.WHICH_EMPTY, 0)
        state.scratch.opens[c] = u < opens


@uncounted
def _children(config, state, g, a, unknown):
    """List children for group g below node a; return their number, and sums as in `children`."""
    particles, own, aux, memo = state.particles, state.own, state.aux, state.memo
    grid, children, at_name = state.grid, state.children, state.scratch.at_name
    at_name[:] = 0.0
    n_aux = config.n_root if a == 0 else config.n_node
    share = config.n_node / (config.alpha + config.n_node) if unknown else 1.0
    M, total, new, stays = 0, 0.0, 0.0, 0.0
    for p in range(len(particles.weight)):
        w = particles.weight[p]
        if w <= choices.NEGLIGIBLE:
            continue
        if config.markov:
            g = particles.last[p] + 1  # the last row's table, 0 at first
        size = cells.row_total(own, p, g)
        factor = share / (config.alpha + n_aux + size)
        opens = config.alpha * factor + (1.0 - share)
        if len(config.nodes) > 0:
            k, row, stamp = n_clusters(particles, p), base_row(grid, p), state.counts[choices.STAMP]
            factor, opens = _opening(config, grid, row, k, n_aux + size, unknown, stamp)
        empty, tie = 0.0, 1.0
        if config.gamma < np.inf:
            factor, opens, tie = _base(config, state, p, size)
        at_aux = cells.place_of(aux, p, cells.TABLES * a)
        at_own = cells.place_of(own, p, cells.TABLES * g)
        while True:  # over the tables of both, in order
            k_aux, k_own = cells.table_at(aux, p, at_aux, a), cells.table_at(own, p, at_own, g)
            if config.gamma < np.inf:
                k_aux = _shared_from(particles, p, at_aux)
            k, here = min(k_aux, k_own), 0.0
            if k == cells.TABLES:
                break
            if k_aux == k and config.gamma < np.inf:
                here += tie * particles.n_aux[p, k]
                at_aux = k + 1
            elif k_aux == k:
                here += aux.items[p, at_aux]
                at_aux += 1
            if k_own == k:
                here += own.items[p, at_own]
                at_own += 1
            e = particles.entry[p, k]
            if e < 0:
                empty += here
                continue
            child = w * factor * here * memo.lik[e]
            at_name[state.pool.name[e]] += child
            if k == particles.last[p]:
                stays += child
            total += child
            children.parent[M], children.table[M], children.weight[M] = p, k, child
            M += 1
        for kind in (NEW, AUXILIARY):
            prior = opens if kind == NEW else factor * empty
            if prior > 0.0:  # listed even if its density underflows
                child = w * memo.lik[EMPTY] * prior
                new += child
                total += child
                children.parent[M], children.table[M], children.weight[M] = p, kind, child
                M += 1
    return M, total, new, stays


@uncounted
def _weigh(config, state, g, a, unknown, top, out):
    """Weigh the children for an arrival of group g (-1: empty) below node a; return their number.

    All clusters with auxiliary items only share one child. ``unknown``: the node has no items yet.
    """
    M, total, new, stays = 0, 0.0, 0.0, 0.0
    for _ in range(2):
        M, total, new, stays = _children(config, state, g, a, unknown)
        if total > choices.LEAST:
            break
        top = choices.compare_anew(state, M)
    choices.report(state, M, top, total, new, stays, out)
    return M


@uncounted
def _clear(state, p):
    particles = state.particles
    for k in range(particles.n_tables[p]):
        if particles.entry[p, k] >= 0:
            drop(state.pool, particles.entry[p, k])
        particles.entry[p, k] = -1
        particles.n_aux[p, k] = 0
    particles.n_tables[p] = 0
    particles.weight[p] = 0.0
    state.own.n[p] = state.aux.n[p] = 0


@uncounted
def _copy(state, p, to):
    particles, base = state.particles, state.grid.base
    K = particles.n_tables[p]
    particles.n_tables[to] = K
    particles.last[to] = particles.last[p]
    copy_row(particles.label[to], particles.label[p])
    for k in range(K):
        e = particles.entry[p, k]
        particles.entry[to, k] = e
        particles.n_aux[to, k] = particles.n_aux[p, k]
        if e >= 0:
            state.pool.holders[e] += 1
    cells.copy_cells(state.own, p, to)
    cells.copy_cells(state.aux, p, to)
    if len(base) > 1:
        copy_row(base[to], base[p])


@uncounted
def _keep_best(config, state, size):
    """Keep as many children as there are places."""
    particles, children = state.particles, state.children
    ancestor, place = children.ancestor, children.place
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


@uncounted
def _seat(config, state, g, a):
    """Seat the arrival in the particles of the children, after `extend_joined`."""
    particles, own, aux, pool = state.particles, state.own, state.aux, state.pool
    grid, children, scratch = state.grid, state.children, state.scratch
    n, successor, entry = state.counts[at.N_SEEN], state.memo.successor, particles.entry
    if config.gamma < np.inf:
        _open_tables(config, state, g)
    m = config.n_root if a == 0 else config.n_node
    for c in range(children.n[0]):
        p, k, e = children.place[c], children.to[c], EMPTY
        if k >= 0:
            e = entry[p, k]
        elif k == NEW:
            k = choices.free_slot(particles, p, particles.n_aux)
        else:
            K = particles.n_tables[p]
            cells.spread(aux, p, a, K, scratch.items)
            for j in range(K):
                scratch.work[j] = scratch.items[j] if entry[p, j] < 0 else 0
            k = draw(scratch.work, K, uniform(config.seed, n, p, choices.WHICH_EMPTY, 0))
        if config.gamma < np.inf and scratch.opens[c]:
            particles.n_aux[p, k] += 1
        entry[p, k] = successor[e]
        pool.holders[successor[e]] += 1
        if e != EMPTY:
            drop(pool, e)
        if config.markov:
            g = particles.last[p] + 1
        if c < len(grid.base):  # once, if one row serves all particles
            choices.count_parents(config, grid, base_row(grid, p), m + cells.row_total(own, p, g))
        cells.add_to(own, p, g, k, 1)
        particles.last[p] = k
        particles.label[p, n % particles.label.shape[1]] = k


@uncounted
def _note_last(state):
    """Note the last arrival's table in the heaviest particle."""
    particles, best = state.particles, 0
    for p in range(len(particles.weight)):
        if particles.weight[p] > particles.weight[best]:
            best = p
    e = particles.entry[best, particles.last[best]]
    state.names.last_seen[state.pool.name[e]] = state.counts[at.N_SEEN] - 1


@entry
def predict_row(config, state, x, g, a, unknown, out):
    """Predict a row of a group; changes only work space."""
    top = choices.score_arrival(config, state, x)
    _weigh(config, state, g, a, unknown, top, out)


@entry
def step_rows(config, state, X, t, group, start, out):
    """Predict and learn rows from ``start`` on; return the first one without room."""
    particles, own, pool, groups = state.particles, state.own, state.pool, state.groups
    grid, names, recent, events = state.grid, state.names, state.recent, state.events
    counts, sums = state.counts, state.sums
    P = len(particles.weight)
    for b in range(start, X.shape[0]):
        n, g = counts[at.N_SEEN], group[b]
        a = groups.node[g]
        drawn = config.n_root * (n == 0) + config.n_node * (a >= groups.n[0])
        parts = counts[at.N_NAMES] >= config.max_tables and len(config.nodes) > 0
        if (
            pool.n_free[0] < P + 2
            or counts[at.MOST_TABLES] + drawn + 1 + config.moves > particles.entry.shape[1]
            or counts[at.N_NAMES] + 1 > len(names.opener)
            or cells.most_cells(own) == own.cell.shape[1]
            or (parts and len(grid.base) < P)
        ):
            return b
        if n == 0:
            groups.n[0] = 1
            fill(config, state, n, 0)
        while groups.n[0] <= a:
            groups.n[0] += 1
            fill(config, state, n + 1, groups.n[0] - 1)
        groups.n[1] = max(groups.n[1], g + 1)
        top = choices.score_arrival(config, state, X[b])
        M = _weigh(config, state, g, a, False, top, out[b])
        _keep_best(config, state, M)
        recent[0] = -1
        choices.extend_joined(config, state, recent, X[b])
        _seat(config, state, g, a)
        groups.size[g] += 1
        groups.seen[g] = n
        counts[choices.STAMP] += 1
        sums[at.LOG_EVIDENCE] -= out[b, SCORE]
        counts[at.N_SEEN] = n + 1
        for number in range(config.moves if config.gamma == np.inf else 0):
            for p in range(P):
                if particles.weight[p] > 0.0:
                    move(config, state, p, n, number)
        choices.weigh_names(state)
        _note_last(state)
        at.refresh_names(names, events, counts, n + 1, t[b])
        if counts[at.N_NAMES] > config.max_tables:
            forget_cluster(config, state)
            choices.weigh_names(state)
            at.refresh_names(names, events, counts, n + 1, t[b])
    return X.shape[0]


@entry
def amend(config, state, i, old, new):
    """As `reweigh`, for one of the last rows."""
    reweigh(config, state, i, old, new)


@uncounted
def _follow(config, state, g, after, K):
    """Weigh K tables, and a new one, of a row that enters from group g by the next row's table.

    docs/math/graphs.md (13). Neither of the two transitions is counted.
    """
    own, log_weight = state.own, state.scratch.log_weight
    n_aux, users = state.particles.n_aux[0, after], 0
    for c in range(own.n[0]):
        users += cells.table_of(own.cell[0, c]) == after
    opens = config.alpha if n_aux == 0 and users == 0 else n_aux
    for k in range(K + 1):
        m, total = opens, config.alpha + config.n_root
        if k < K and log_weight[k] > -np.inf:
            c, stays = cells.place_of(own, 0, cells.TABLES * (k + 1)), g == k + 1
            m, total = m + (stays and k == after), total + stays
            j = cells.table_at(own, 0, c, k + 1)
            while j < cells.TABLES:
                total += own.items[0, c]
                if j == after:
                    m += own.items[0, c]
                c += 1
                j = cells.table_at(own, 0, c, k + 1)
        log_weight[k] += math.log(m / total) if m > 0 else -np.inf


@uncounted
def _join(state, group, b, k, mine, opens, u):
    """Let a row with cluster ``k`` join the table of one of ``mine`` rows, or open one.

    In proportion to 1 each, and ``opens``: docs/math/graphs.md (8a). ``u``: a uniform number.
    """
    (table, size), labels = state.seats, state.clusters.labels
    left, at = int(u * (mine + opens)) if mine > 0 else 0, 0
    if left < mine:
        while group[at] != group[b] or labels[at] != k or left > 0:
            left -= group[at] == group[b] and labels[at] == k
            at += 1
        table[b] = table[at]
    else:
        while size[at] > 0:
            at += 1
        table[b] = at
        state.particles.n_aux[0, k] += 1
    size[table[b]] += 1


@entry
def sweep_rows(config, state, X, group, n):
    """Resample every row's cluster once, and after each row ``config.moves`` auxiliary items.

    docs/math/graphs.md, Caron and Doucet 2009, section 4.1. Rows with the label -1 are not seated
    yet: the first sweep draws the auxiliary items from the prior, then seats the rows one by one.
    With gamma, each row also has a table of its group, whose cluster it has (8a). ``n`` : rows
    drawn in earlier sweeps, which fixes the random numbers.
    """
    particles, own, aux = state.particles, state.own, state.aux
    groups, clusters, scratch = state.groups, state.clusters, state.scratch
    family, hyper, log_weight = config.family, config.hyper, scratch.log_weight
    entries, items, mine = particles.entry[0], scratch.items, scratch.n_users
    labels, size, stats, post = clusters.labels, clusters.size, clusters.stats, clusters.post
    if n == 0:
        for a in range(groups.n[0]):
            fill(config, state, a, a)
    for b in range(len(X)):
        x, g, old, after = X[b], group[b], labels[b], -1
        a = groups.node[g]
        if config.markov:
            g = labels[b - 1] + 1 if b > 0 else 0
            after = labels[b + 1] if old >= 0 and b + 1 < len(X) else -1
        if after >= 0:
            cells.take_from(own, 0, old + 1, after)
        if old >= 0:
            cells.take_from(own, 0, g, old)
            size[old] -= 1
            labels[b] = -1
            if config.gamma < np.inf:
                tables, at_table = state.seats
                at_table[tables[b]] -= 1
                particles.n_aux[0, old] -= at_table[tables[b]] == 0
            families.add_stats(family, hyper, x, -1.0, stats[old])
            if size[old] > 0:
                families.posterior(family, hyper, stats[old], post[old])
            else:
                entries[old] = -1
        K = particles.n_tables[0]
        cells.spread(aux, 0, a, K, items)
        cells.spread(own, 0, g, K, mine)
        alone = families.log_predictive(family, hyper, clusters.prior, x)
        tie, opens = 1.0, config.alpha
        if config.gamma < np.inf:
            copy_first(items, particles.n_aux[0], K)
            tie = config.alpha / (config.gamma + items[:K].sum())
            opens = config.gamma * tie
        for k in range(K):
            m = tie * items[k] + mine[k]
            log_weight[k] = -np.inf
            if m > 0:
                density = alone
                if entries[k] >= 0:
                    density = families.log_predictive(family, hyper, post[k], x)
                log_weight[k] = math.log(m) + density
        log_weight[K] = math.log(opens) + alone
        if after >= 0:
            _follow(config, state, g, after, K)
        new = draw_log(log_weight, K + 1, uniform(config.seed, n + b, 0, choices.WHICH_EMPTY, 0))
        if new == K:
            new = choices.free_slot(particles, 0, particles.n_aux)
        if size[new] == 0:
            stats[new] = 0.0
            entries[new] = new
        if config.gamma < np.inf:
            share, others = tie * particles.n_aux[0, new], mine[new] if new < K else 0
            u = uniform(config.seed, n + b, 0, choices.WHICH_EMPTY, 1)
            _join(state, group, b, new, others, share, u)
        labels[b] = new
        cells.add_to(own, 0, g, new, 1)
        if after >= 0:
            cells.add_to(own, 0, new + 1, after, 1)
        size[new] += 1
        families.add_stats(family, hyper, x, 1.0, stats[new])
        families.posterior(family, hyper, stats[new], post[new])
        for number in range(config.moves):
            move(config, state, 0, n + b, number)


@kernel
def mixture_densities(family, hyper, X, group, weight, stats, post, log_density, out):
    """Log of sum_k weight[g, k] p(x | table k) of rows (M,); zero ``stats`` are a new table."""
    K = len(stats)
    families.posteriors(family, hyper, stats, K, post)
    for m in range(len(X)):
        families.log_predictives(family, hyper, post, X[m], K, log_density)
        out[m] = -np.inf
        for k in range(K):
            share = weight[group[m], k]
            if share > 0.0:
                out[m] = log_add_exp(out[m], math.log(share) + log_density[k])
