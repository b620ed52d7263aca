"""Trees of components of binary rows: the bound by definition, its ascent, exact evidence."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import expit, logsumexp
from scipy.stats import beta

from streamddcrp import NestedCRPComponents, fit_nested_components
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.models.trees.binary_tree import BinaryTree, binary_prior
from streamddcrp.models.trees.component_state import sticks_of
from streamddcrp.models.trees.kernels.tree import log_path_chances


def rows(seed, N=60, D=6):
    """Binary rows on two paths, a root and one vector each."""
    rng = np.random.default_rng(seed)
    W = 2.0 * rng.normal(size=(3, D))
    psi = rng.normal(size=(N, 1)) * W[0] + rng.normal(size=(N, 1)) * W[rng.integers(1, 3, N)]
    return (rng.random((N, D)) < expit(psi)).astype(float)


def grown(seed, depth, gamma=1.3, **size):
    """Return a tree with branches, after some sweeps."""
    X = rows(seed, **size)
    tree = BinaryTree.founded(X, depth, binary_prior(gamma), 32)
    rng = np.random.default_rng(seed)
    tree.add(0, rng.normal(size=(depth - 1, X.shape[1])), 0.3 * len(X))
    tree.keep(tree.level == depth)
    if depth > 2:  # a node without leaves: its paths leave the tree below it
        tree.add(0, rng.normal(size=(1, X.shape[1])), 2.0)
    tree.sweep(3)
    return tree


def divergence_of_sticks(tree):
    """KL of q(v) by quadrature over v."""
    total = 0.0
    for a, b in zip(*(p[1:] for p in sticks_of(tree.parent, tree.weights.mass, tree.prior.gamma)),
                    strict=True):  # fmt: skip
        q, p = beta(a, b), beta(1.0, tree.prior.gamma)
        total += q.expect(lambda v, q=q, p=p: q.logpdf(v) - p.logpdf(v))
    return total


def by_definition(tree):
    """Sum the bound over rows, endpoints and columns, every expectation written out."""
    w, prior, L, K = tree.weights, tree.prior, tree.depth, tree.n_nodes
    T, xi = np.split(tree.X, 2, axis=1)
    N, D = T.shape
    a, b = sticks_of(tree.parent, w.mass, prior.gamma)
    chances, value = np.empty(K), 0.0
    log_path_chances(tree.parent, tree.level, K, L, a, b, prior.gamma, False, chances)
    for n in range(N):
        log_s = np.empty(K)
        for k in range(K):
            path = [i + 1 for i in tree.paths()[k] if i >= 0]
            J = len(path)
            M, S = np.zeros((L + 1, D)), prior.vector_var * np.eye(L + 1)  # outside: the prior
            M[: J + 1], S[: J + 1, : J + 1] = w.M[[0, *path]], w.S[np.ix_([0, *path], [0, *path])]
            # the optimal q(x): of the quadratic form that the bound is in x
            A, h = np.eye(L), np.zeros(L)
            for d in range(D):
                ww = np.outer(M[:, d], M[:, d]) + S
                A += 0.25 * ww[1:, 1:]
                h += (T[n, d] - expit(xi[n, d]) + 0.25 * xi[n, d]) * M[1:, d] - 0.25 * ww[1:, 0]
            V = np.linalg.inv(A)
            m = V @ h
            y = np.array([1.0, *m])
            yy = np.outer(y, y)
            yy[1:, 1:] += V
            here = -0.5 * (np.trace(V) + m @ m - L - np.linalg.slogdet(V)[1])  # -KL of q(x)
            for d in range(D):
                mean = y @ M[:, d]
                square = np.sum(yy * (np.outer(M[:, d], M[:, d]) + S))
                x, t = xi[n, d], T[n, d]
                here += np.log(expit(x) if t else expit(-x)) + (t - expit(x)) * (mean - x)
                here -= (square - 2.0 * x * mean + x * x) / 8.0
            log_s[k] = chances[k] + here
        value += logsumexp(log_s)
    cov, var = np.kron(w.S, np.eye(D)), np.repeat([prior.mean_var, *[prior.vector_var] * K], D)
    m = w.M.ravel()
    value -= 0.5 * (np.sum(np.diag(cov) / var + m * m / var) - len(m) + np.sum(np.log(var)))
    value += 0.5 * np.linalg.slogdet(cov)[1]
    return value - divergence_of_sticks(tree)


@pytest.mark.parametrize("depth", [2, 3])
def test_the_bound_is_what_it_is_by_definition(depth):
    tree = grown(depth, depth, N=12, D=4)
    assert tree.bound() == pytest.approx(by_definition(tree), rel=1e-9)


@given(st.integers(0, 10**6), st.sampled_from([2, 3]), st.floats(0.3, 4.0))
def test_no_step_lowers_the_bound(seed, depth, gamma):
    tree = grown(seed, depth, gamma, N=30)
    trace = [tree.bound()]
    for _ in range(4):
        tree.sweep(1)
        trace.append(tree.bound())
        tree.move_tangents(tree.local(tree.points))  # the points of tangency alone
        trace.append(tree.bound())
    assert min(np.diff(trace)) > -1e-9 * abs(trace[0])
    tree.keep(tree.level == depth)  # moves are for trees whose paths end in leaves
    before = tree.bound()
    tree.grow(seed)
    assert tree.bound() > before - 1e-9 * abs(before)


def log_evidence(values, gamma, n=40):
    """Return log p of binary values in one column at depth 2, over all partitions into leaves.

    Given mean m, root r and leaf c, psi of a row is N(m, r^2 + c^2): four nested quadratures.
    """
    x, w = hermegauss(n)
    w = w / w.sum()
    prior = binary_prior(gamma)
    m, v = np.sqrt(prior.mean_var) * x, prior.vector_var * x**2
    sd = np.sqrt(v[:, None] + v[None, :])  # root, leaf
    one = expit(m[:, None, None, None] + sd[None, :, :, None] * x) @ w  # mean, root, leaf

    def over(blocks, chance, rest):
        """Sum over partitions of products of blocks, by Chinese restaurant."""
        if not rest:
            out = np.full((n, n), chance)
            for block in blocks:
                out = out * (np.prod([one if t else 1.0 - one for t in block], axis=0) @ w)
            return out
        seen = sum(map(len, blocks))
        total = over([*blocks, rest[:1]], chance * gamma / (seen + gamma), rest[1:])
        for i, block in enumerate(blocks):
            more = [*blocks[:i], [*block, rest[0]], *blocks[i + 1 :]]
            total = total + over(more, chance * len(block) / (seen + gamma), rest[1:])
        return total

    return float(np.log(w @ over([], 1.0, values) @ w))


@pytest.mark.parametrize("values", [[1, 1, 1, 1], [1, 0, 1, 0], [0, 0, 0, 1], [1, 0]])
def test_the_bound_is_below_the_evidence(values):
    """And far above nothing: within a nat a value."""
    exact = log_evidence(values, 1.3)
    assert exact == pytest.approx(log_evidence(values, 1.3, 60), abs=1e-3)
    tree = BinaryTree.founded(np.array(values, float)[:, None], 2, binary_prior(1.3), 8)
    for _ in range(2):
        tree.sweep(200)
        assert exact - len(values) < tree.bound() < exact
        tree.add(0, np.array([[1.0]]), 1.0)  # another leaf


def test_rows_are_scored_and_rebuilt_as_probabilities():
    X = rows(3, N=400)
    fit = fit_nested_components(X[:300], depth=2, likelihood="bernoulli", max_nodes=6)
    model, new = fit.model, X[300:]
    assert np.diff(fit.bound_trace).min() > -1e-6
    p = model.reconstruct_many(new)
    assert ((p > 0.0) & (p < 1.0)).all()
    scores = [model.score_one(dict(enumerate(row))) for row in new]
    rate = X[:300].mean(axis=0)
    flat = -(new * np.log(rate) + (1.0 - new) * np.log1p(-rate)).sum(axis=1)
    assert min(scores) > 0.0
    assert np.mean(scores) < np.mean(flat)
    every = np.array([[i >> d & 1 for d in range(6)] for i in range(64)], float)
    log_p = -np.array([model.score_one(dict(enumerate(row))) for row in every])
    assert np.exp(log_p).sum() < 1.0  # bounds of probabilities that sum to one
    again = NestedCRPComponents.from_bytes(model.to_bytes())
    assert again.bound == model.bound


def test_other_values_are_refused():
    model = NestedCRPComponents(likelihood="bernoulli")
    with pytest.raises(SchemaError, match="0 or 1"):
        model.learn_many(np.array([[0.0, 1.0], [2.0, 1.0]]))
    with pytest.raises(ConfigError, match="likelihood"):
        NestedCRPComponents(likelihood="poisson")
