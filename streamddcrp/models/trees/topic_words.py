"""The words that tell the topics of a tree apart."""

from collections.abc import Sequence

import numpy as np

from streamddcrp.data.documents import Word
from streamddcrp.models.trees.topics import TopicTree


def telling_words(tree: TopicTree, names: Sequence[Word], n: int) -> list[list[tuple[Word, float]]]:
    """Return words of each topic with their probability in it, (K) lists of ``n`` at most.

    Those with the largest part in the divergence come first: of a leaf's words from all below its
    parent; of all words below an inner node, since few are its own, from those below its parent;
    of the root's from all.
    """
    V, K = len(names), tree.n_nodes
    own = tree.counts[:V, :K] * tree.scale
    below = own.copy()
    for i in range(K - 1, 0, -1):
        below[:, tree.parent[i]] += below[:, i]
    out = []
    for i in range(K):
        mine, others = below[:, i] if i else own[:, 0], below[:, max(int(tree.parent[i]), 0)]
        some = np.flatnonzero(mine > 0.5)
        share = mine[some] / max(float(mine.sum()), 1e-300)
        rest = others[some] / max(float(others.sum()), 1e-300)
        weight = share * (np.log(share / rest) + 1e-3)
        best = some[np.lexsort((some, -weight))[:n]]
        eta = float(tree.settings.eta[tree.level[i] - 1])
        probs = (eta + own[best, i]) / (V * eta + float(own[:, i].sum()))
        out.append([(names[v], float(p)) for v, p in zip(best, probs, strict=True)])
    return out
