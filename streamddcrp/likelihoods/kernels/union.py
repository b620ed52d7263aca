"""Log marginal likelihoods alone, for samplers that merge and split tables.

Nothing of the posterior is computed. Rows of counts of words cost the words of the smaller side,
not the special functions of all words of both.
"""

from streamddcrp.compilation import inner, kernel
from streamddcrp.likelihoods.kernels.families import DIRICHLET_MULTINOMIAL, posterior
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
    if family == DIRICHLET_MULTINOMIAL:
        tokens, total = 0.0, 0.0
        for d in range(1, len(stats)):
            if stats[d] > 0.0:
                tokens += stats[d]
                total += log_rising(hyper[1], stats[d])
        return total - log_rising(hyper[2], tokens)
    posterior(family, hyper, stats, post)
    return post[0]


@kernel
def log_union(
    family: int, hyper: Array, stats: Array, log_stats: float, more: Array, work: Array, post: Array
) -> float:
    """Log m(``stats`` + ``more``), given log m(``stats``); ``more`` the smaller, best.

    ``work`` (P,) and ``post`` (Q,) are work space.
    """
    if family == DIRICHLET_MULTINOMIAL:
        return log_stats + _words_gain(hyper, stats, more)
    for p in range(len(stats)):
        work[p] = stats[p] + more[p]
    posterior(family, hyper, work, post)
    return post[0]


@kernel
def log_without(
    family: int, hyper: Array, stats: Array, log_both: float, more: Array, post: Array
) -> float:
    """Log m(``stats``), given log m(``stats`` + ``more``)."""
    if family == DIRICHLET_MULTINOMIAL:
        return log_both - _words_gain(hyper, stats, more)
    posterior(family, hyper, stats, post)
    return post[0]
