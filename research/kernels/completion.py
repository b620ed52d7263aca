"""Compiled completion of documents by draws of a tree of topics."""

import numpy as np

from streamddcrp.compilation import kernel
from streamddcrp.models.trees.kernels import gibbs


@kernel
def complete(
    rng, burn_in, n_draws, words, first, held, held_first, out, alpha, prior, parent, level, docs,
    tokens, counts,
):  # fmt: skip
    """Add up the probabilities of held-out tokens over draws of a document's path and levels.

    Each document is added, resampled ``burn_in + n_draws`` times given the tree, and taken away.
    After each of the last draws the probability sum_l theta_l beta_lw of its held-out tokens
    ``held`` is added to ``out``: theta = (alpha + n_d) / sum, beta = (eta + n_w) / (V eta + n).
    There must be free slots for a path.
    """
    _, eta, whole = prior
    L, N = len(alpha), len(first) - 1
    path = np.full((N, L), -1)
    corpus = words, first, np.empty(len(words), np.int64), path
    tree, work = (parent, level, docs, tokens, counts), gibbs._work(len(level), L, first)
    n_at = work[0]
    for d in range(N):
        for r in range(burn_in + n_draws):
            gibbs._visit(rng, d, corpus, alpha, prior, tree, work)
            if r < burn_in:
                continue
            scale = alpha.sum() + n_at.sum()
            for j in range(held_first[d], held_first[d + 1]):
                for l in range(L):
                    k = path[d, l]
                    beta = (eta[l] + counts[held[j], k]) / (whole[l] + tokens[k])
                    out[j] += (alpha[l] + n_at[l]) / scale * beta
        gibbs._count(d, -1.0, corpus, tree)
        gibbs._enter(d, -1.0, path, level, docs)
