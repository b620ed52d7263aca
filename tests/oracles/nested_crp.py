"""Tiny topic trees in full: every path, every level, by the textbook formulas."""

import itertools
import math
from collections import Counter

import numpy as np


def partitions(items):
    """Yield all partitions of a tuple, as tuples of tuples."""
    if not items:
        yield ()
        return
    first, rest = items[0], items[1:]
    for part in partitions(rest):
        yield ((first,), *part)
        for i, block in enumerate(part):
            yield (*part[:i], (first, *block), *part[i + 1 :])


def trees(docs, depth):
    """Yield all trees over documents: for every level below the root the blocks, as a nesting."""
    if depth == 1:
        yield ()
        return
    for part in partitions(docs):
        for below in itertools.product(*(trees(block, depth - 1) for block in part)):
            yield tuple(zip(part, below, strict=True))


def log_prior(tree, gamma):
    """Log probability of a tree: a CRP at the root and in every branch."""
    if not tree:
        return 0.0
    n = sum(len(block) for block, _ in tree)
    out = math.lgamma(gamma) - math.lgamma(gamma + n)
    for block, below in tree:
        out += math.log(gamma) + math.lgamma(len(block)) + log_prior(below, gamma)
    return out


def nodes_of(tree, docs):
    """Yield (level, documents) of every node, the root at level 0."""

    def walk(tree, level):
        for block, below in tree:
            yield level, tuple(sorted(block))
            yield from walk(below, level + 1)

    yield 0, tuple(sorted(docs))
    yield from walk(tree, 1)


def log_dirichlet(counts, prior):
    """Log probability of a sequence with these counts under a Dirichlet prior."""
    total = sum(prior)
    out = math.lgamma(total) - math.lgamma(total + sum(counts))
    for n, a in zip(counts, prior, strict=True):
        out += math.lgamma(a + n) - math.lgamma(a)
    return out


def log_joint(tree, levels, texts, gamma, eta, alpha, n_words):
    """Log p(tree) p(levels) p(words) for levels and words; eta of each level, or of all."""
    etas = np.broadcast_to(eta, len(alpha))
    out = log_prior(tree, gamma)
    for z in levels:
        out += log_dirichlet([z.count(l) for l in range(len(alpha))], alpha)
    for level, docs in nodes_of(tree, range(len(texts))):
        n = Counter(w for d in docs for w, l in zip(texts[d], levels[d], strict=True) if l == level)
        out += log_dirichlet([n[w] for w in range(n_words)], [etas[level]] * n_words)
    return out


def states(texts, gamma, eta, alpha, n_words):
    """Return all states and their posterior probabilities.

    A state is the frozen set of (level, documents) of its nodes and the levels of all tokens.
    """
    depth = len(alpha)
    docs = tuple(range(len(texts)))
    found, logs = [], []
    for tree in trees(docs, depth):
        shape = frozenset(nodes_of(tree, docs))
        for flat in itertools.product(range(depth), repeat=sum(map(len, texts))):
            rest = iter(flat)
            levels = [tuple(next(rest) for _ in text) for text in texts]
            found.append((shape, flat))
            logs.append(log_joint(tree, levels, texts, gamma, eta, alpha, n_words))
    p = np.exp(np.array(logs) - max(logs))
    return found, p / p.sum()


def shape_of(path):
    """Return the nodes (level, documents) of paths (N, L)."""
    path = np.asarray(path)
    return frozenset(
        (l, tuple(np.flatnonzero(path[:, l] == k).tolist()))
        for l in range(path.shape[1])
        for k in np.unique(path[:, l])
    )
