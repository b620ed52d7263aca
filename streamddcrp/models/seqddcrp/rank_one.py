"""The paper's own schedule: random order, a dense inverse, one rank-1 revision a customer.

Algorithm 1 of Bartunov and Vetrov (2014) with the self-link corrected: setting c_i = i cuts every
other path, so its score is log p(c_i = i) + a_ii, not the sum over tables. O(N^3) a sweep and
(N, N) memory; `fit_seqddcrp` reaches the same fixed points without either.
"""

from typing import Any

import numpy as np

from streamddcrp.likelihoods.kernels.families import table_scores
from streamddcrp.reachability import LaplacianInverse


def fit_rank_one(
    batch: Any, max_sweeps: int, tol: float, rng: np.random.Generator
) -> tuple[list[float], bool]:
    """Sweep a ``_Batch`` in random order until it settles; return bounds, and if it did."""
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
    trace: list[float] = []
    settled = 0
    while len(trace) < max_sweeps and settled < 2:
        expected = np.zeros((n, n))  # E log p(x_s | theta_k)
        own = np.flatnonzero(batch.birth)
        scores = np.empty(batch.n_tables)
        for s in range(n):
            table_scores(
                batch.family, batch.hyper, batch.X[s], batch.stats[: batch.n_tables], True,
                batch.post, scores,
            )  # fmt: skip
            expected[s, own] = scores
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
    return trace, settled == 2
