"""Geweke's joint test of the sampler of topic trees."""

import numpy as np
import pytest

from streamddcrp.models.trees.gibbs import Corpus, Seats, State
from streamddcrp.models.trees.kernels.gibbs import log_joint, sweep
from tests.oracles.sampling import effective_size

SIZES, V = (3, 1, 4, 2, 3), 4
FIRST = np.concatenate([[0], np.cumsum(SIZES)])
N, GAMMA, ETA, ALPHA = len(SIZES), 0.9, 0.5, np.array([1.5, 1.0, 0.6])
LAW = (GAMMA, np.full(3, ETA), np.full(3, V * ETA))


def paths(rng):
    """Draw the paths of all documents from the nested CRP."""
    out, members, n = np.zeros((N, 3), np.int64), {}, 1
    for d in range(N):
        for l in (1, 2):
            branches = members.setdefault(int(out[d, l - 1]), {})
            weights = np.array([*branches.values(), GAMMA])
            k = rng.choice(len(weights), p=weights / weights.sum())
            node = [*branches][k] if k < len(branches) else n
            n += node == n
            branches[node] = branches.get(node, 0) + 1
            out[d, l] = node
    return out


def words_given(rng, path, z):
    """Draw all words given paths and levels, equal ones next to each other with their levels."""
    topics = {}
    words = np.empty(len(z), np.int64)
    for d in range(N):
        a, b = FIRST[d], FIRST[d + 1]
        for j in range(a, b):
            k = int(path[d, z[j]])
            if k not in topics:
                topics[k] = rng.dirichlet(np.full(V, ETA))
            words[j] = rng.choice(V, p=topics[k])
        order = a + np.argsort(words[a:b], kind="stable")
        words[a:b], z[a:b] = words[order], z[order]
    return words


def functions(path, z, words):
    """Moments of trees, levels and words, and of them together."""
    state = State.of(Corpus(words, FIRST, V), path, z)
    leaf = path[:, 2]
    together = (leaf[:, None] == leaf).sum()
    pairs = (state.counts**2).sum()
    value = log_joint(Seats(words, FIRST, z, path), ALPHA, LAW, state)
    return [
        (state.level >= 0).sum(), together, (path[:, 1] == path[0, 1]).sum(), z.mean(),
        (z == 2).sum(), pairs, value, words.mean(), together * (z == 2).sum(), words[0] * words[4],
    ]  # fmt: skip


@pytest.mark.slow
def test_joint_distribution():
    rng = np.random.default_rng(5)
    forward = []
    for _ in range(20_000):
        path = paths(rng)
        z = np.concatenate([rng.choice(3, n, p=rng.dirichlet(ALPHA)) for n in SIZES])
        forward.append(functions(path, z, words_given(rng, path, z)))
    back = []
    for _ in range(40_000):
        words = words_given(rng, path, z)
        state = State.of(Corpus(words, FIRST, V), path, z)
        assert sweep(rng, 0, 1, Seats(words, FIRST, z, path), ALPHA, LAW, state) == N
        back.append(functions(path, z, words))
    a, b = np.array(forward, float), np.array(back, float)
    n_eff = np.array([effective_size(trace) for trace in b.T])
    assert n_eff.min() > 1000
    error = np.sqrt(a.var(0) / len(a) + b.var(0) / n_eff)
    assert (np.abs(a.mean(0) - b.mean(0)) < 4.5 * error).all()
