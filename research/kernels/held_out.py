"""Compiled densities of held-out rows under one sampled partition, or one variational posterior.

The M test rows come after N training rows. Their links are a sparse matrix by rows: ``ptr``
(M + 1,), ``to`` and ``share``, one entry per link; ``to`` < N is a training row, N + l test row l.
``opens`` (M,) is the chance of a new table; each row with its ``opens`` sums to one.
"""

import math

import numpy as np

from research.kernels.draw import mean_parameters
from streamddcrp.compilation import kernel
from streamddcrp.likelihoods.kernels import families
from streamddcrp.numerics import log_add_exp
from streamddcrp.particles.kernels.random import draw

_n_post = kernel(families.n_post)


@kernel
def seat(family, hyper, X, tables, reached, ptr, to, share, slot, stats, mass):
    """Gather the tables that test rows link to: ``stats`` (K, P), and links' ``mass`` (M, K + 1).

    ``tables`` (N,) is the table of each training row, below N; ``reached`` (N,) whether some test
    row may link to it; ``slot`` (N,) work space. Returns the number of tables gathered.
    """
    N = len(tables)
    slot[:] = -1
    n_tables = 0
    for i in range(N):
        if reached[i] and slot[tables[i]] < 0:
            slot[tables[i]] = n_tables
            n_tables += 1
    stats[:n_tables] = 0.0
    for i in range(N):
        k = slot[tables[i]]
        if k >= 0:
            families.add_stats(family, hyper, X[i], 1.0, stats[k])
    mass[:] = 0.0
    for m in range(len(ptr) - 1):
        for at in range(ptr[m], ptr[m + 1]):
            if to[at] < N:
                mass[m, slot[tables[to[at]]]] += share[at]
    return n_tables


@kernel
def table_densities(family, hyper, X, stats, n_tables, plug_in, post, eta, row, out):
    """Log density (M, K + 1) of test rows at tables and a new one, perhaps at posterior means."""
    families.posteriors(family, hyper, stats, n_tables, post)
    row[:] = 0.0
    families.posterior(family, hyper, row, post[n_tables])
    if plug_in:
        for k in range(n_tables):
            mean_parameters(family, hyper, post[k], eta[k])
    for m in range(len(X)):
        if not plug_in:
            families.log_predictives(family, hyper, post, X[m], n_tables + 1, out[m])
            continue
        row[:] = 0.0
        families.add_stats(family, hyper, X[m], 1.0, row)
        for k in range(n_tables):
            total = 0.0
            for p in range(len(row)):
                total += eta[k, p] * row[p]
            out[m, k] = total
        out[m, n_tables] = families.log_predictive(family, hyper, post[n_tables], X[m])


@kernel
def pass_on(ptr, to, share, opens, n_train, n_tables, mass):
    """Replace links to test rows by the tables they lead to: docs/math/ddcrp.md (8)."""
    for m in range(len(opens)):
        mass[m, n_tables] = opens[m]
        for at in range(ptr[m], ptr[m + 1]):
            if to[at] >= n_train:
                before = to[at] - n_train
                for k in range(n_tables + 1):
                    mass[m, k] += share[at] * mass[before, k]


@kernel
def mix(mass, log_lik, n_tables, out):
    """Log of sum_k mass[m, k] exp(log_lik[m, k]) of each row."""
    for m in range(len(out)):
        out[m] = -np.inf
        for k in range(n_tables + 1):
            if mass[m, k] > 0.0:
                out[m] = log_add_exp(out[m], math.log(mass[m, k]) + log_lik[m, k])


@kernel
def _options(ptr, to, share, opens, n_train, n_tables, mass, m, chosen, n_open, out):
    """Write the chances of tables for row ``m``, those before it seated, a new one last; count."""
    out[:n_tables] = mass[m, :n_tables]
    out[n_tables : n_tables + n_open] = 0.0
    for at in range(ptr[m], ptr[m + 1]):
        if to[at] >= n_train:
            out[chosen[to[at] - n_train]] += share[at]
    out[n_tables + n_open] = opens[m]
    return n_tables + n_open + 1


@kernel
def joint_by_draws(
    family, hyper, X, ptr, to, share, opens, n_train, mass, stats, n_tables, log_lik, plug_in,
    n_draws, rng, out
):  # fmt: skip
    """Estimate the joint density of the first 1, ..., M test rows, without bias.

    Rows are seated one after the other, each with the probabilities of tables given itself; the
    product of their normalisers has the density as its mean. Where no row links to a test row and
    parameters are plugged in, every draw is exact. ``mass``, ``stats`` and ``log_lik`` as made by
    `seat` and `table_densities`; ``out`` (M,) is the log of the mean over draws.
    """
    M, P = len(opens), stats.shape[1]
    size = n_tables + M + 1
    chance, log_p = np.empty(size), np.empty(size)
    chosen = np.empty(M, np.int64)
    place = np.empty(size, np.int64)  # of a table's statistics with test rows; -1: has none
    added = np.empty((M + 1, P))
    post = np.empty((M + 1, _n_post(family, hyper)))
    out[:] = -np.inf
    for _ in range(n_draws):
        place[:] = -1
        n_open, n_added, log_r = 0, 0, 0.0
        for m in range(M):
            n = _options(ptr, to, share, opens, n_train, n_tables, mass, m, chosen, n_open, chance)
            top = -np.inf
            for k in range(n):
                log_p[k] = -np.inf
                if chance[k] > 0.0:
                    if place[k] >= 0:
                        log_p[k] = families.log_predictive(family, hyper, post[place[k]], X[m])
                    else:
                        log_p[k] = log_lik[m, min(k, n_tables)]
                    log_p[k] += math.log(chance[k])
                    top = max(top, log_p[k])
            if top == -np.inf:
                break
            total = 0.0
            for k in range(n):
                log_p[k] = math.exp(log_p[k] - top)
                total += log_p[k]
            log_r += top + math.log(total)
            out[m] = log_add_exp(out[m], log_r)
            k = draw(log_p, n, rng.random())
            chosen[m] = k
            if k == n - 1:
                n_open += 1
            elif plug_in and k < n_tables:
                continue  # its parameter is known
            if place[k] < 0:
                place[k] = n_added
                n_added += 1
                if k < n_tables:
                    added[place[k]] = stats[k]
                else:
                    added[place[k]] = 0.0
            families.add_stats(family, hyper, X[m], 1.0, added[place[k]])
            families.posterior(family, hyper, added[place[k]], post[place[k]])
    out -= math.log(n_draws)


@kernel
def joint_exact(
    family, hyper, X, ptr, to, share, opens, n_train, mass, stats, n_tables, log_lik, plug_in, out
):  # fmt: skip
    """Sum over all tables of all test rows; arguments as for `joint_by_draws`. O(tables^M)."""
    M = len(opens)
    size = n_tables + M + 1
    chance = np.empty((M, size))
    n_options, n_open = np.empty(M, np.int64), np.zeros(M + 1, np.int64)
    chosen = np.full(M, -1)
    log_p = np.zeros(M + 1)
    added = np.empty(stats.shape[1])
    post = np.empty(_n_post(family, hyper))
    out[:] = -np.inf
    m = 0
    while m >= 0:
        if chosen[m] < 0:  # entered from above
            n_options[m] = _options(
                ptr, to, share, opens, n_train, n_tables, mass, m, chosen, n_open[m], chance[m]
            )
        chosen[m] += 1
        k = chosen[m]
        if k == n_options[m]:
            chosen[m] = -1
            m -= 1
            continue
        if chance[m, k] <= 0.0:
            continue
        fresh = True
        for before in range(m):
            fresh &= chosen[before] != k
        if fresh or (plug_in and k < n_tables):
            density = log_lik[m, min(k, n_tables)]
        else:
            added[:] = 0.0
            if k < n_tables:
                added[:] = stats[k]
            for before in range(m):
                if chosen[before] == k:
                    families.add_stats(family, hyper, X[before], 1.0, added)
            families.posterior(family, hyper, added, post)
            density = families.log_predictive(family, hyper, post, X[m])
        log_p[m + 1] = log_p[m] + math.log(chance[m, k]) + density
        out[m] = log_add_exp(out[m], log_p[m + 1])
        if m + 1 < M:
            n_open[m + 1] = n_open[m] + (k == n_tables + n_open[m])
            m += 1
