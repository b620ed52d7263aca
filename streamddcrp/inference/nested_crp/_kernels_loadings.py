"""Compiled parts of the local step of component trees."""

import numpy as np
from numba import njit

__all__ = ["collect", "endpoint_terms"]


@njit(cache=True)
def endpoint_terms(pull, paths, level, cov, out):
    """Add half of h' Sig h to every endpoint's score, h the pull of its nodes on a point.

    ``pull`` (N, K): tau ((t - m_mu) . m_i - D S_i,mu); ``cov`` (K, L, L); ``out`` (N, K).
    """
    for n in range(pull.shape[0]):
        for k in range(len(level)):
            total = 0.0
            for i in range(level[k]):
                a = pull[n, paths[k, i]]
                part = 0.5 * cov[k, i, i] * a
                for j in range(i):
                    part += cov[k, i, j] * pull[n, paths[k, j]]
                total += a * part
            out[n, k] += total


@njit(cache=True)
def collect(pull, paths, level, cov, q, least, loadings, yy):
    """Add expected loadings (N, K), and their products to ``yy`` (K + 1, K + 1).

    Endpoints of probability ``least`` or less are left out.
    """
    x = np.empty(paths.shape[1])
    for n in range(pull.shape[0]):
        for k in range(len(level)):
            share = q[n, k]
            if share <= least:
                continue
            for i in range(level[k]):
                x[i] = 0.0
                for j in range(level[k]):
                    x[i] += cov[k, i, j] * pull[n, paths[k, j]]
            for i in range(level[k]):
                loadings[n, paths[k, i]] += share * x[i]
                yy[0, paths[k, i] + 1] += share * x[i]
                for j in range(level[k]):
                    yy[paths[k, i] + 1, paths[k, j] + 1] += share * x[i] * x[j]
    for k in range(len(level)):
        share = 0.0
        for n in range(pull.shape[0]):
            if q[n, k] > least:
                share += q[n, k]
        for i in range(level[k]):
            for j in range(level[k]):
                yy[paths[k, i] + 1, paths[k, j] + 1] += share * cov[k, i, j]
