"""The paper's own schedule: random order, a dense inverse, one rank-1 revision a customer.

Algorithm 1 of Bartunov and Vetrov (2014) with the self-link corrected: setting c_i = i cuts every
other path, so its score is log p(c_i = i) + a_ii, not the sum over tables. O(N^3) a sweep and
(N, N) memory; `fit_seqddcrp` reaches the same fixed points without either.
"""

import numpy as np

from streamddcrp.decay import make_decay
from streamddcrp.models.seqddcrp.batch import _Batch, link_prior
from streamddcrp.reachability import LaplacianInverse


def fit_in_random_order(X, likelihood, *, alpha, decay, seed, tol, max_sweeps=200):
    """Sweep in random order until the bound rests; return a `SeqDDCRPFit`."""
    X, rng = np.ascontiguousarray(X, dtype=float), np.random.default_rng(seed)
    prior = link_prior(make_decay(decay), alpha, len(X))
    batch = _Batch(X, likelihood.family, likelihood.hyper(X.shape[1]), prior, "singletons")
    n, width = batch.links.shape
    row = np.minimum(np.arange(n), batch.prior.log_weight.shape[0] - 1)
    log_prior = np.full((n, n), -np.inf)
    inverse = LaplacianInverse()
    for i in range(n):
        j = np.arange(max(0, i - width), i)
        log_prior[i, j] = batch.prior.log_weight[row[i], j - i + width] - batch.prior.log_total[i]
        log_prior[i, i] = batch.prior.log_alpha - batch.prior.log_total[i]
        links = np.zeros(i)
        links[j] = batch.links[i, j - i + width]
        inverse.append(links)
    bound = batch.restore()
    trace = []
    settled = 0
    while len(trace) < max_sweeps and settled < 2:
        expected = np.zeros((n, n))  # E log p(x_s | theta_k)
        own = np.flatnonzero(batch.birth)
        for s in range(n):
            expected[s, own] = likelihood.expected_log_lik(X[s], batch.stats[: batch.n_tables])
        for i in rng.permutation(n):
            R = inverse.to_dense()
            received = R[i:, i] @ expected[i:]  # a_i: what the table of i would receive
            gamma = log_prior[i, : i + 1].copy()
            gamma[:i] += R[:i, :i] @ (received[:i] * batch.birth[:i])
            gamma[i] = gamma[i] + received[i] if batch.birth[i] > 0 else -np.inf
            q = np.exp(gamma - gamma.max())
            q /= q.sum()
            if q[i] < 1e-8:
                q[i] = 0.0
                q /= q.sum()
            batch.birth[i] = q[i]
            j = np.arange(max(0, i - width), i)
            batch.links[i, j - i + width] = q[j]
            inverse.revise(i, q[:i])
        before, bound = bound, batch.restore()
        trace.append(bound)
        settled = settled + 1 if bound - before <= tol * abs(bound) else 0
    return batch.result(trace, settled == 2)
