"""Components of a conjugate family whose statistics fade: rows assigned and scored.

What a component knows is a vector of sufficient statistics ``S_t = rho S_{t-1} + C_t``: the
posterior's natural parameters move towards the prior's, ``rho eta + (1 - rho) eta_0``, between
epochs (temporal_dpm.md, 7b). Families are those of `streamddcrp.likelihoods`, by their code.
"""

import math

import numpy as np

from streamddcrp.compilation import kernel
from streamddcrp.likelihoods.kernels.families import (
    add_stats,
    expected_log_liks,
    log_predictive,
    log_predictives,
    posterior,
    posteriors,
)
from streamddcrp.models.temporal.kernels.counts import seat_row

_NONE = 1e-8  # expected rows below which an epoch says nothing


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
    """Assign rows one after the other, each by `seat_row`.

    ``log_weight`` (C,), ``stats`` (C, P), ``post`` (C, Q): of the components, log of their weights,
    statistics and posteriors (updated); ``prior`` (Q,): posterior of no rows. ``least, past, size``
    and ``q`` (N, C), ``scores`` (N,), ``chances`` (N, 2) out: see `seat_row`. Returns rows done and
    components; less than all rows where there is no room for one component more.
    """
    N, C = X.shape[0], len(size)
    for k in range(K):
        log_weight[k] = math.log(a0 + past[k] + size[k])  # the same bits as below
    for i in range(start, N):
        if K == C:
            return i, K
        new = log_new + log_predictive(family, hyper, prior, X[i])
        log_predictives(family, hyper, post, X[i], K, q[i])
        for k in range(K):
            q[i, k] += log_weight[k]
        stats[K] = 0.0  # of the component that may be opened
        K = seat_row(q[i], new, K, -np.inf, least, past, size, scores[i : i + 1], chances[i])
        for k in range(K):
            if q[i, k] > 0.0:
                log_weight[k] = math.log(a0 + past[k] + size[k])
                add_stats(family, hyper, X[i], q[i, k], stats[k])
                posterior(family, hyper, stats[k], post[k])
    return N, K


@kernel
def conjugate_unions(family, hyper, stats, slack, post, close):
    """Mark pairs that may be one component: their counts may make up for the evidence they lose.

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
    """Add to ``out`` (G,) the log evidence of an epoch's rows for each rate of forgetting.

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
