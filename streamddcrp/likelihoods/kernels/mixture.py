"""Compiled scores of rows under a fixed mixture of tables."""

import math

from streamddcrp.compilation import kernel
from streamddcrp.likelihoods.kernels.families import log_predictives


@kernel
def mixture_scores(family, hyper, post, log_weights, X, log_joint, out):
    """-log sum_m w_m p(x | m) of each row. O(N K D).

    Parameters
    ----------
    post : ndarray, shape (K, Q)
    log_weights : ndarray, shape (K,)
    X : ndarray, shape (N, D)
    log_joint : ndarray, shape (K,)
        Work space.
    out : ndarray, shape (N,)
    """
    K = log_weights.shape[0]
    for i in range(X.shape[0]):
        log_predictives(family, hyper, post, X[i], K, log_joint)
        log_joint += log_weights
        top = log_joint.max()
        total = 0.0
        for m in range(K):
            total += math.exp(log_joint[m] - top)
        out[i] = -(top + math.log(total))
