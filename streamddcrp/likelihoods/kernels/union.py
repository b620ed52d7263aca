"""Marginal likelihoods alone, for merge and split samplers; scores under mixtures.

No posterior is computed. Word counts cost the words of the smaller side, not special functions of
all words of both sides.
"""

import math

from streamddcrp.compilation import inner, kernel
from streamddcrp.likelihoods.kernels import families
from streamddcrp.likelihoods.kernels.special import Array, log_rising


@inner
def _words_gain(hyper: Array, stats: Array, more: Array) -> float:
    """Log m(both) / m(``stats``) of two vectors of word counts."""
    tokens, added, total = 0.0, 0.0, 0.0
    for d in range(1, len(stats)):
        tokens += stats[d]
        if more[d] > 0.0:
            added += more[d]
            total += log_rising(hyper[1] + max(stats[d], 0.0), more[d])
    return total - log_rising(hyper[2] + tokens, added)


@kernel
def log_marginal(family: int, hyper: Array, stats: Array, post: Array) -> float:
    """Log marginal likelihood of statistics (P,); ``post`` (Q,) is work space."""
    if family == families.DIRICHLET_MULTINOMIAL:
        tokens, total = 0.0, 0.0
        for d in range(1, len(stats)):
            if stats[d] > 0.0:
                tokens += stats[d]
                total += log_rising(hyper[1], stats[d])
        return total - log_rising(hyper[2], tokens)
    families.posterior(family, hyper, stats, post)
    return post[0]


@kernel
def log_union(
    family: int, hyper: Array, stats: Array, log_stats: float, more: Array, work: Array, post: Array
) -> float:
    """Log m(``stats`` + ``more``), given log m(``stats``); ``more`` should be the smaller."""
    if family == families.DIRICHLET_MULTINOMIAL:
        return log_stats + _words_gain(hyper, stats, more)
    for p in range(len(stats)):
        work[p] = stats[p] + more[p]
    families.posterior(family, hyper, work, post)
    return post[0]


@kernel
def log_without(
    family: int, hyper: Array, stats: Array, log_both: float, more: Array, post: Array
) -> float:
    """Log m(``stats``), given log m(``stats`` + ``more``)."""
    if family == families.DIRICHLET_MULTINOMIAL:
        return log_both - _words_gain(hyper, stats, more)
    families.posterior(family, hyper, stats, post)
    return post[0]


@kernel
def mixture_scores(
    family: int, hyper: Array, post: Array, log_weights: Array, X: Array, log_joint: Array,
    out: Array,
) -> None:  # fmt: skip
    """-log sum_m w_m p(x | m) of each row of ``X`` (N, D), to ``out`` (N,). O(N K D).

    Missing values of full covariances are imputed, see `families.fill`.
    """
    K = log_weights.shape[0]
    for i in range(X.shape[0]):
        filled = families.fill(family, hyper, post, X[i], K)
        families.log_predictives(family, hyper, post, X[i], K, log_joint)
        log_joint += log_weights
        top = log_joint.max()
        total = 0.0
        for m in range(K):
            total += math.exp(log_joint[m] - top)
        out[i] = filled - (top + math.log(total))
