"""Trees of topics that begin with documents whose places are known."""

import numpy as np

from streamddcrp.data.documents import Bags
from streamddcrp.errors import ConfigError
from streamddcrp.models.trees.kernels.gain import local_bound
from streamddcrp.models.trees.kernels.topics import N_NODES, N_SEEN, N_WORDS, NEXT_ID, put_back
from streamddcrp.models.trees.topic_tree import TopicTree
from streamddcrp.models.trees.window import padded
from streamddcrp.typing import FloatArray, IntArray


def plant(tree: TopicTree, bags: Bags, slots: IntArray, phi: FloatArray) -> None:
    """Learn documents where they are said to belong; the tree must be a root.

    ``slots`` (N, L): of the nodes on their paths, as of `slots_of`; ``phi`` (words, L): levels
    of ``bags.words``.
    """
    (N, L), K = slots.shape, int(slots.max()) + 1
    while K > len(tree.parent) < tree.settings.max_nodes:
        tree.make_nodes()
    if len(tree.parent) < K:
        raise ConfigError(f"the tree to start from has {K} nodes, max_nodes is {len(tree.parent)}")
    for l in range(1, L):
        tree.parent[slots[:, l]], tree.level[slots[:, l]] = slots[:, l - 1], l + 1
    tree.ids[:K] = np.arange(K)
    V = int(bags.words.max(initial=-1)) + 1
    tree.counts = padded(tree.counts, max(V, len(tree.counts)), len(tree.parent))
    tree.whole[[N_NODES, NEXT_ID, N_WORDS, N_SEEN]] = K, K, V, N
    w = tree.window
    w.append(*bags, N)
    w.weights[:N] = 1.0
    own, alpha = np.zeros(N), tree.settings.alpha
    for d in range(N):
        spots = slice(bags.offsets[d], bags.offsets[d + 1])
        n = bags.counts[spots]
        own[d] = local_bound(n, phi[spots], alpha, n @ phi[spots], L, tree.settings.eta, V)
    ends = np.where(np.diff(bags.offsets) > 0, slots[:, -1], -1)
    put_back(np.arange(N), ends, own, phi, tree.arrays, w.arrays)
    tree.note_births(1)
    tree.next_tidy = N + tree.settings.window
