"""How well the words of a document fit the nodes of a topic tree; arrays as in `kernels.gibbs`."""

import math

from streamddcrp.compilation import inner

_FOLD = 16  # factors below 1e6 and above 1e-6 that are multiplied before a logarithm is taken


@inner
def fit_words(d, words, first, z, law, level, tokens, counts, n_at, fit, product):
    """Log marginal of the document's words of a level, under every node of it and a new one.

    The new node's is in slot K + l. ``n_at`` (L,) is filled with the number of words of each level;
    ``product`` (K + L,) is work.
    """
    _, eta, total = law
    K, L = len(level), len(n_at)
    n_at[:] = 0.0
    fit[:] = 0.0
    product[:] = 1.0
    for l in range(L):
        last, repeat, factors = -1, 0.0, 0
        for j in range(first[d], first[d + 1]):
            if z[j] != l:
                continue
            w = words[j]
            repeat = repeat + 1.0 if w == last else 0.0
            last = w
            n_at[l] += 1.0
            for k in range(K):
                if level[k] == l:
                    product[k] *= counts[w, k] + eta + repeat
            product[K + l] *= eta + repeat
            factors += 1
            if factors == _FOLD:
                _fold(l, K, level, fit, product)
                factors = 0
        _fold(l, K, level, fit, product)
        for k in range(K):
            if level[k] == l:
                base = total + tokens[k]
                fit[k] -= math.lgamma(base + n_at[l]) - math.lgamma(base)
        fit[K + l] -= math.lgamma(total + n_at[l]) - math.lgamma(total)


@inner
def _fold(l, K, level, fit, product):
    for k in range(K):
        if level[k] == l:
            fit[k] += math.log(product[k])
            product[k] = 1.0
    fit[K + l] += math.log(product[K + l])
    product[K + l] = 1.0


@inner
def total_fits(L, parent, level, fit):
    """Add up the fits of all levels for every endpoint, in place.

    An endpoint is a leaf, or an inner node below which the path is new.
    """
    K = len(level)
    for l in range(1, L):
        for k in range(K):
            if level[k] == l:
                fit[k] += fit[parent[k]]
    for l in range(L - 1):
        rest = 0.0
        for below in range(l + 1, L):
            rest += fit[K + below]
        for k in range(K):
            if level[k] == l:
                fit[k] += rest


@inner
def guess_fit(d, words, first, alpha, law, parent, level, tokens, counts, mix, product, total):
    """Log fit of the document under every endpoint if its levels had their prior weights.

    sum_j log sum_l alpha_l / sum(alpha) beta_l,wj, by the counts of all others; ``mix`` and
    ``product`` (K,) are work.
    """
    _, eta, whole = law
    K, L = len(level), len(alpha)
    scale = alpha.sum()
    product[:] = 1.0
    total[:] = 0.0
    factors = 0
    for j in range(first[d], first[d + 1]):
        w, rest = words[j], 1.0
        for l in range(L):
            share = alpha[l] / scale
            rest -= share
            new = max(rest, 0.0) * eta / whole
            for k in range(K):
                if level[k] == l:
                    x = share * (eta + counts[w, k]) / (whole + tokens[k])
                    if l > 0:
                        x += mix[parent[k]]
                    mix[k] = x
                    product[k] *= x + new
        factors += 1
        if factors == _FOLD or j == first[d + 1] - 1:
            factors = 0
            for k in range(K):
                if level[k] >= 0:
                    total[k] += math.log(product[k])
                    product[k] = 1.0
