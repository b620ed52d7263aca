"""Children of all particles for one arrival: where it may sit, and with what weight."""

import math

import numpy as np

from streamddcrp._numerics import inner_njit
from streamddcrp.inference.graph_crp._kernels_concentration import factors
from streamddcrp.inference.graph_crp._kernels_layout import STAMP
from streamddcrp.inference.smc._kernels_layout import (
    LABEL,
    LABEL_PROB,
    LIVE_TABLES,
    N_LIVE,
    N_SEEN,
    P_CHANGE,
    P_NEW,
    SCORE,
)
from streamddcrp.inference.smc._kernels_names import best_name
from streamddcrp.inference.smc._kernels_pool import newborn_of, score_of
from streamddcrp.inference.smc._kernels_random import hash_of
from streamddcrp.likelihoods._kernels import log_predictive

__all__ = ["weigh"]

NEGLIGIBLE = 1e-250  # weight of a particle that nothing can be expected of
OPENED = 3  # hashes the number of clusters a particle opened, where it tells of alpha


@inner_njit
def _members_near(particles, p, parents, out):
    """Count the parents at each table."""
    R = particles.label.shape[1]
    out[: particles.n_tables[p]] = 0
    for i in parents:
        out[particles.label[p, i % R]] += 1


@inner_njit
def _key(config, particles, pool, memo, p, k, newborn, leaving):
    """Hash of what the future depends on, once the arrival sits at table k (-1: a new one).

    ``leaving`` : item that leaves the window after this arrival; -1: none.
    """
    key = particles.key[p]
    if k >= 0:
        e = particles.entry[p, k]
        key ^= pool.mixed[e] ^ memo.heir_mixed[e]
    else:
        key ^= newborn
        if len(config.nodes) > 0:
            opened = particles.opened[p]
            key ^= hash_of(opened, OPENED) ^ hash_of(opened + 1, OPENED)
    if leaving >= 0:
        left = particles.label[p, leaving % particles.label.shape[1]]
        if left != k and particles.near[p, left] == 1:
            key ^= pool.mixed[particles.entry[p, left]]
    return key


@inner_njit
def weigh(
    config, particles, pool, memo, grid, names, counts, children, scratch, prior_post, x, parents,
    keyed, out,
):  # fmt: skip
    """Predict row ``x`` by all particles; return the number of children and the top log density.

    A child sits the arrival at a table with n_k > 0 of its m parents, with weight
    w_p E[n_k / (alpha + m)] p(x | table), or at a new one, w_p E[alpha / (alpha + m)] p(x). The sum
    of all is the predictive density, given here relative to exp(top). ``out`` : label, its
    probability, -log density, probability of a new table, of another table than the last row's,
    live tables.
    """
    n = counts[N_SEEN]
    counts[STAMP] += 1
    stamp = counts[STAMP]
    family, hyper = config.family, config.hyper
    own = log_predictive(family, hyper, prior_post, x)
    top = own
    for p in range(len(particles.weight)):
        if particles.weight[p] > NEGLIGIBLE:
            for k in range(particles.n_tables[p]):
                e = particles.entry[p, k]
                if e >= 0 and memo.scored[e] != stamp:
                    top = max(top, score_of(family, hyper, pool, memo, e, n, x, stamp))
                    scratch.lik[e] = -1.0
    m = len(parents) if config.given else min(n, config.r)
    leaving = n - config.r
    newborn = newborn_of(n) if keyed else np.uint64(0)
    own_lik = math.exp(own - top)
    at_name = scratch.at_name
    at_name[:] = 0.0
    size, total, new, stays = 0, 0.0, 0.0, 0.0
    for p in range(len(particles.weight)):
        if particles.weight[p] <= NEGLIGIBLE:
            continue
        join, opens = factors(config, grid, particles.opened[p], m, stamp)
        if config.given:
            _members_near(particles, p, parents, scratch.near)
        last = particles.label[p, (n - 1) % particles.label.shape[1]] if n > 0 else -1
        for k in range(-1, particles.n_tables[p]):
            if k < 0:
                weight = particles.weight[p] * opens * own_lik
                new += weight
            else:
                e = particles.entry[p, k]
                if e < 0:
                    continue
                near = scratch.near[k] if config.given else particles.near[p, k]
                if near == 0:
                    continue
                if scratch.lik[e] < 0.0:
                    scratch.lik[e] = math.exp(memo.score[e] - top)
                weight = particles.weight[p] * join * near * scratch.lik[e]
                at_name[pool.name[e]] += weight
                if k == last:
                    stays += weight
            total += weight
            children.parent[size] = p
            children.table[size] = k
            children.weight[size] = weight
            if keyed:
                children.key[size] = _key(config, particles, pool, memo, p, k, newborn, leaving)
            size += 1
    for g in range(len(at_name)):
        at_name[g] /= total
    label, best = best_name(names, at_name, new / total, n)
    out[LABEL] = label
    out[LABEL_PROB] = best
    out[SCORE] = -(top + math.log(total))
    out[P_NEW] = new / total
    out[P_CHANGE] = max(1.0 - stays / total, 0.0) if n > 0 else np.nan
    out[LIVE_TABLES] = counts[N_LIVE]
    for c in range(size):
        children.weight[c] /= total
    return size
