"""Sums over the paths of a topic tree, and the gain of a document on one path."""

import numpy as np

from streamddcrp.compilation import kernel
from streamddcrp.models.trees.kernels.gain import evidence_gain, meet, start


@kernel
def endpoint_scores(parent, level, K, L, prior, node, fresh, out):
    """Log S of every endpoint: prior + contributions ``node`` (K,) of its path + ``fresh`` (L,).

    ``fresh[l]`` is the contribution of a node of level l + 1 that is not kept.
    """
    total = np.empty(K)
    for i in range(K):
        total[i] = node[i] + (total[parent[i]] if i else 0.0)
        out[i] = prior[i] + total[i]
        for l in range(level[i], L):
            out[i] += fresh[l]


@kernel
def look_ahead(n, lam, total, alpha, rounds, tol, phi, at_level):
    """Let a document and the topics of one path meet; return the gain of the bound.

    Parameters
    ----------
    n : ndarray, shape (U,)
        Counts of the document's words.
    lam : ndarray, shape (U, L)
        Dirichlet parameters of its words at the nodes of the path.
    total : ndarray, shape (L,)
        Sums of the nodes' parameters over all words.
    alpha : ndarray, shape (L,)
        Dirichlet prior of the proportions of levels.
    rounds, tol
        At most so many, until no more than this share of the words moves between levels.
    phi, at_level : ndarray, shape (U, L) and (L,)
        Get the levels of the words and their sums N.
    """
    start(n, lam, total, alpha, phi, at_level)
    meet(n, lam, total, alpha, rounds, tol, phi, at_level)
    return evidence_gain(n, lam, total, alpha, phi, at_level)
