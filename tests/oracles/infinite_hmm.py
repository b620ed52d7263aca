"""The infinite hidden Markov model of auxiliary items: all partitions of a few rows, enumerated."""

import math

import numpy as np

from tests.oracles.graph_crp import log_crp, partitions


def log_prior(labels, n_aux, alpha):
    """Log probability of a partition of the auxiliary items, which come first, and the rows.

    The auxiliary items and the rows that follow any one cluster are a clique, as are those with the
    first row, which follows none: Caron and Doucet 2009, eq. 7. A cluster without auxiliary items
    is in one clique only, or it would not be connected.
    """
    aux, follow = list(range(n_aux)), {}
    for t in range(n_aux, len(labels)):
        follow.setdefault(labels[t - 1] if t > n_aux else None, []).append(t)
    for j in set(labels) - {labels[i] for i in aux}:
        if sum(any(labels[t] == j for t in rows) for rows in follow.values()) > 1:
            return -math.inf
    total = len(set(labels)) * math.log(alpha) + log_crp(labels, aux, alpha)
    for rows in follow.values():
        total += log_crp(labels, aux + rows, alpha) - log_crp(labels, aux, alpha)
    return total


def posterior(X, n_aux, alpha, likelihood):
    """All partitions with their probabilities given the rows, and the log evidence."""
    rows = np.concatenate([np.full((n_aux, X.shape[1]), np.nan), X])
    rows, found, log_p = likelihood.suffstats(rows), [], []
    for labels in partitions(len(rows)):
        prior = log_prior(labels, n_aux, alpha)
        if prior > -math.inf:
            stats = [rows[np.array(labels) == j].sum(axis=0) for j in sorted(set(labels))]
            found.append(labels)
            log_p.append(prior + float(np.sum(likelihood.log_marginal(np.array(stats)))))
    log_z = float(np.logaddexp.reduce(log_p))
    return found, np.exp(np.array(log_p) - log_z), log_z
