"""Components of a conjugate family whose statistics fade: rows seated, scored and parted.

What a component knows is a vector of sufficient statistics ``S_t = rho S_{t-1} + C_t``: the
posterior's natural parameters move towards the prior's, ``rho eta + (1 - rho) eta_0``, between
epochs. Families are those of `streamddcrp.likelihoods`, by their code.
"""

import math

import numpy as np

from streamddcrp.compilation import kernel
from streamddcrp.likelihoods.kernels.families import (
    add_stats,
    expected_log_lik,
    expected_log_liks,
    log_predictive,
    log_predictives,
    posterior,
    posteriors,
)

_NONE = 1e-8  # expected rows below which an epoch says nothing
_HELD = 0.5  # decayed rows from which a component was there in the past


@kernel
def conjugate_stats(family, hyper, X, q, out):
    """Sum the statistics of rows (N, D) under assignments (N, K) into ``out`` (K, P)."""
    out[:] = 0.0
    row = np.empty(out.shape[1])
    for i in range(X.shape[0]):
        row[:] = 0.0
        add_stats(family, hyper, X[i], 1.0, row)
        for k in range(q.shape[1]):
            if q[i, k] > 0.0:
                for p in range(len(row)):
                    out[k, p] += q[i, k] * row[p]


@kernel
def conjugate_evidence(family, hyper, stats, starts, rho, post, out):
    """Log evidence of each epoch's rows given those before, which have faded.

    ``stats`` (E, K, P), ``starts`` (K, P): of the epochs and of what was before; ``post`` (Q,):
    work space; ``out`` (E, K).
    """
    faded = np.empty(stats.shape[2])
    for k in range(stats.shape[1]):
        faded[:] = starts[k]
        for e in range(stats.shape[0]):
            faded *= rho
            out[e, k] = 0.0
            if stats[e, k, 0] > _NONE:
                posterior(family, hyper, faded, post)
                out[e, k] = -post[0]
                faded += stats[e, k]
                posterior(family, hyper, faded, post)
                out[e, k] += post[0]


@kernel
def conjugate_expected(family, hyper, X, stats, begins, epoch, post, out):
    """Fill expected log likelihoods (N, K) of rows at components with statistics (K, P).

    -inf where a component is born later than ``epoch``; ``post`` (K, Q) is work space.
    """
    K = stats.shape[0]
    posteriors(family, hyper, stats, K, post)
    for i in range(X.shape[0]):
        expected_log_liks(family, hyper, post, X[i], K, out[i])
    for k in range(K):
        if begins[k] > epoch:
            out[:, k] = -np.inf


@kernel
def seat_conjugate(
    family, hyper, X, start, K, a0, log_new, least, past, size, stats, post, prior, log_weight, q,
    scores, chances,
):  # fmt: skip
    """Seat rows one after the other; open a component where a new one is the likeliest.

    ``past, size, log_weight`` (C,), ``stats`` (C, P), ``post`` (C, Q): of the components, decayed
    past counts, rows of this epoch so far, log of their weights, statistics and posteriors;
    ``prior`` (Q,): posterior of no rows. ``q`` (N, C), ``scores`` (N,), ``chances`` (N, 2) as in
    `Seats` out. Returns rows done and components; less than all rows where there is no room.
    """
    N, C = X.shape[0], len(size)
    for k in range(K):
        log_weight[k] = math.log(a0 + past[k] + size[k])  # the same bits as below
    for i in range(start, N):
        new = log_new + log_predictive(family, hyper, prior, X[i])
        log_predictives(family, hyper, post, X[i], K, q[i])
        top = new
        for k in range(K):
            q[i, k] += log_weight[k]
            top = max(top, q[i, k])
        if top == new and K == C:
            return i, K
        best, mass, young, kept = -np.inf, 0.0, 0.0, 0.0
        for k in range(K):
            best = max(best, q[i, k])
        for k in range(K):
            part = math.exp(q[i, k] - top)
            mass += part
            if past[k] < _HELD:
                young += part
        part = math.exp(new - top)
        scores[i] = -(top + math.log(mass + part))
        chances[i, 0] = part / (mass + part)
        chances[i, 1] = (young + part) / (mass + part)
        if top == new:
            q[i, :K] = 0.0
            past[K], size[K], q[i, K] = 0.0, 0.0, 1.0
            stats[K] = 0.0
            K += 1
        else:
            for k in range(K):
                part = math.exp(q[i, k] - best)
                q[i, k] = part if part >= least else 0.0
                kept += q[i, k]
            for k in range(K):
                q[i, k] /= kept
        for k in range(K):
            if q[i, k] > 0.0:
                size[k] += q[i, k]
                log_weight[k] = math.log(a0 + past[k] + size[k])
                add_stats(family, hyper, X[i], q[i, k], stats[k])
                posterior(family, hyper, stats[k], post[k])
    return N, K


@kernel
def part_conjugate(
    rounds, family, hyper, rho, X, first, own, a0, kappa, before, begins, starts, shared, stats,
    near, post,
):  # fmt: skip
    """Share the rows of a component between two that it may be.

    Parameters
    ----------
    rounds : int
    rho : float
    X : ndarray, shape (N, D)
        Rows of the component in all epochs of the window.
    first : ndarray of int64, shape (E + 1,)
        First row of every epoch, and N.
    own : ndarray, shape (N, 1)
        What the component has of each row.
    a0 : float
    kappa : ndarray, shape (W,)
    before : ndarray, shape (W, 2)
        Expected rows of the epochs before the window.
    begins : ndarray of int64, shape (2,)
    starts : ndarray, shape (2, P)
        What is known from before the window.
    shared : ndarray, shape (N, 2)
        What the two have (updated).
    stats : ndarray, shape (E, 2, P)
        Out: statistics of what they have.
    near, post : ndarray, shapes (2, P) and (2, Q)
        Work space.
    """
    E, W = len(first) - 1, len(kappa)
    log_weight = np.empty(2)
    for r in range(rounds + 1):
        for e in range(E):
            part = slice(first[e], first[e + 1])
            conjugate_stats(family, hyper, X[part], shared[part], stats[e])
        if r == rounds:
            return
        for e in range(max(begins[0], 0), E):
            near[:] = rho ** (e + 1) * starts
            for s in range(E):
                near += rho ** abs(e - s) * stats[s]
            posteriors(family, hyper, near, 2, post)
            for k in range(2):
                count = stats[e, k, 0]
                for d in range(W):
                    s = e - 1 - d
                    count += kappa[d] * (stats[s, k, 0] if s >= 0 else before[W + s, k])
                log_weight[k] = math.log(a0 + count)
            if begins[1] > e:
                log_weight[1] = -np.inf
            for i in range(first[e], first[e + 1]):
                gain = log_weight[1] - log_weight[0]
                if gain > -np.inf:
                    gain += expected_log_lik(family, hyper, post[1], X[i])
                    gain -= expected_log_lik(family, hyper, post[0], X[i])
                least = math.exp(-abs(gain))
                leaves = 1.0 / (1.0 + least) if gain > 0.0 else least / (1.0 + least)
                shared[i, 0], shared[i, 1] = own[i, 0] * (1.0 - leaves), own[i, 0] * leaves


@kernel
def conjugate_unions(family, hyper, stats, slack, post, close):
    """Mark pairs that may be one component: what evidence they lose, their counts may make up for.

    ``stats`` (K, P); ``post`` (Q,): work space; ``close`` (K, K) of bool out, for pairs a < b.
    """
    K = stats.shape[0]
    log_m = np.empty(K)
    for k in range(K):
        posterior(family, hyper, stats[k], post)
        log_m[k] = post[0] + math.lgamma(stats[k, 0] + _NONE)
    both = np.empty(stats.shape[1])
    for a in range(K):
        for b in range(a + 1, K):
            both[:] = stats[a] + stats[b]
            posterior(family, hyper, both, post)
            gain = post[0] + math.lgamma(both[0] + _NONE) - log_m[a] - log_m[b]
            close[a, b] = gain > -slack


@kernel
def conjugate_gains(family, hyper, stats, starts, rhos, post, out):
    """Add to ``out`` (G,) the log evidence of an epoch's rows for each way to forget.

    ``stats``, ``starts`` (K, P): of the epoch and of what was before; ``rhos`` (G,).
    """
    work = np.empty(stats.shape[1])
    for k in range(stats.shape[0]):
        if stats[k, 0] > _NONE and starts[k, 0] > _NONE:
            for g in range(len(rhos)):
                work[:] = rhos[g] * starts[k]
                posterior(family, hyper, work, post)
                out[g] -= post[0]
                work += stats[k]
                posterior(family, hyper, work, post)
                out[g] += post[0]
