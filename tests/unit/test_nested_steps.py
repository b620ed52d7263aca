"""Local and global steps of trees of topics and of components, against printed values."""

from copy import copy

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import gammaln

from streamddcrp.models.trees.component_state import (
    Prior,
    Weights,
    global_step,
    kl_of_all,
    local_step,
)
from streamddcrp.models.trees.components import MOVES, ComponentTree, View
from streamddcrp.models.trees.kernels.gain import fit_eta, merge_gains
from streamddcrp.models.trees.kernels.topics import LOCAL, N_NODES, N_SEEN
from streamddcrp.models.trees.nested_topics import NestedCRPTopics
from streamddcrp.models.trees.topic_moves import Trial, worth_keeping
from streamddcrp.models.trees.topic_tree import Settings, TopicTree
from streamddcrp.models.trees.tree import reconstruct
from tests.oracles.nested_tree import look_ahead
from tests.unit.test_nested_tree import LEVEL, PARENT

LAM = np.array([[6, 5, 4, 3], [3, 1, .5, 2], [.5, 2, 3, 1], [.5, .5, 1, 4], [2, 1, .5, .5],
                [1, .5, 2.5, .5]])  # fmt: skip
ALPHA = np.array([3.0, 2.0, 1.0])
WORDS, N = np.array([0, 2, 3]), np.array([2.0, 1.0, 3.0])


def test_the_lookahead_has_these_values():
    gains = []
    for end in range(6):
        path, i = [-1, -1, -1], end
        while i >= 0:
            path[LEVEL[i] - 1] = i
            i = PARENT[i]
        lam = np.array([[LAM[p, v] if p >= 0 else 0.5 for p in path] for v in WORDS])
        total = np.array([LAM[p].sum() if p >= 0 else 2.0 for p in path])
        phi, at_level = np.empty((3, 3)), np.empty(3)
        gains.append(look_ahead(N, lam, total, ALPHA, 2000, 1e-13, phi, at_level))
        if end == 3:
            want = [5.60080076972, 4.05375889235, 2.34544033792]
            assert at_level + ALPHA == pytest.approx(want, abs=3e-7)
    want = [-10.3701406249, -9.60849973864, -10.684071185, -8.98185418907, -9.55000431324,
            -10.6224600863]  # fmt: skip
    assert gains == pytest.approx(want, abs=1e-9)


def test_a_merge_gains_the_difference_of_evidences():
    def g(s):
        lam = 0.5 + s
        return (gammaln(lam).sum() - gammaln(lam.sum())) - (4 * gammaln(0.5) - gammaln(2.0))

    counts = np.array([[2, 0.5], [0.5, 0], [0, 3], [7, 1.5]])
    one, other = 2.0 * counts.T
    gain, pair = np.empty(1), (np.array([0]), np.array([1]))
    merge_gains(counts, counts.sum(axis=0), np.ones(2, int), *pair, 2.0, np.array([0.5]), 4, gain)
    assert gain[0] == pytest.approx(g(one + other) - g(one) - g(other), abs=1e-8)


def test_a_move_raises_the_bound_by_what_it_says_and_is_undone_otherwise():
    rng = np.random.default_rng(0)
    law = rng.dirichlet(np.full(30, 0.1), 4)
    model = NestedCRPTopics()
    model.learn_many(np.array([rng.multinomial(25, law[d % 4]) for d in range(60)]))
    tree, won = model._tree, 0
    for node in range(1, tree.n_nodes):
        which = np.flatnonzero(tree.window.docs.ends[: tree.window.n] == node)
        if len(which):
            before, gain = tree.bound(), Trial(tree).try_move([which], barred=node)
            assert tree.bound() - before == pytest.approx(gain, abs=1e-6)
            won += gain > 0.0
    assert won < tree.n_nodes  # some were undone


def test_the_prior_of_words_is_learned_to_where_the_evidence_is_highest():
    rng = np.random.default_rng(0)
    law = rng.dirichlet(np.full(40, 0.3), 30).T
    counts = np.concatenate([rng.poisson(60.0 * law), np.zeros((5, 30))]).astype(float)
    level, mode, eta = np.ones(30, int), np.array([0.5]), np.array([2.0])
    fit_eta(counts, counts.sum(axis=0), level, 30, 40, 1.0, mode, 500, 1e-12, eta)

    def value(e):
        n = counts[:40]
        words = (gammaln(e + n) - gammaln(e)).sum()
        total = gammaln(40 * e + n.sum(axis=0)) - gammaln(40 * e)
        return words - total.sum() + np.log(e) - e / mode[0]

    found = minimize_scalar(lambda e: -value(e), bounds=(0.01, 5.0), options={"xatol": 1e-10})
    assert eta[0] == pytest.approx(found.x, rel=1e-5)


# -- components ----------------------------------------------------------------------------------

M = np.array([[0.2, -0.1, 0], [1, 0.5, 0], [0, 1, 0.5], [1, -1, 0.25]])
PRIOR = Prior(1.0, 10.0, 10.0, 1.0, 1.0)
UP, DEEP = np.array([-1, 0, 0]), np.array([1, 2, 2])
X = np.array([[1, 0.3, -0.5], [-0.5, 0.8, 1], [1.2, -1.5, 0.2], [0.1, 0.1, 0.4]])


def weights():  # masses that give a = (-, 3, 2), b = (-, 2.5, 1.5)
    return Weights(M, np.diag([0.01, 0.02, 0.03, 0.04]), 4.0, 2.0, np.array([0.5, 2.0, 1.0]))


def test_points_on_a_tree_have_these_values():
    w = weights()
    found = local_step(X, UP, DEEP, 2, w, PRIOR)
    want = [-4.0618450692, -4.7106217685, -5.0247824802, -3.708135561]
    assert found.log_z == pytest.approx(want, abs=1e-9)
    assert kl_of_all(UP, w, PRIOR) == pytest.approx(31.944328374, abs=1e-8)
    s = found.stats
    assert s.yy[0] == pytest.approx([4, 0.35855836816, 0.43856266144, 0.36345604582], abs=1e-9)
    assert s.yy[1, 2] == pytest.approx(-0.70405794323, abs=1e-10)
    assert s.yt[2] == pytest.approx([-0.88971073688, 1.1944859975, 0.74151945979], abs=1e-9)
    assert s.fresh == pytest.approx(0.0011226509816, abs=1e-12)
    assert s.mass == pytest.approx([0.068481709879, 2.8201806353, 1.1113376548], abs=1e-9)
    new = global_step(s, w, PRIOR)
    assert new.M[3] == pytest.approx([0.6316300472, -0.98407803024, -0.17898581044], abs=1e-9)
    assert np.diag(new.S)[0] == pytest.approx(0.14101125026, abs=1e-10)
    assert (new.shape, new.rate) == pytest.approx((7.0, 5.4169644423), abs=1e-9)
    after = local_step(X, UP, DEEP, 2, new, PRIOR)
    assert after.log_z.sum() - kl_of_all(UP, new, PRIOR) == pytest.approx(-35.606138499, abs=1e-8)
    lost = ((X - reconstruct(X, np.ones(4, int), UP, DEEP, 2, M)) ** 2).sum(axis=1).mean()
    assert lost == pytest.approx(0.34071428571, abs=1e-10)


def test_each_update_of_components_raises_the_bound_and_rotations_leave_it():
    rng = np.random.default_rng(0)
    data = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 3))
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    w = weights()
    turned = Weights(w.M @ turn, w.S, w.shape, w.rate, w.mass)
    before = -np.inf
    for _ in range(20):
        found = local_step(data, UP, DEEP, 2, w, PRIOR)
        now = found.log_z.sum() - kl_of_all(UP, w, PRIOR)
        assert now >= before - 1e-9
        new = global_step(found.stats, w, PRIOR)
        only = Weights(new.M, new.S, w.shape, w.rate, w.mass)  # then the noise, then the sticks
        for one in (only, Weights(new.M, new.S, new.shape, new.rate, w.mass)):
            half = local_step(data, UP, DEEP, 2, one, PRIOR)
            then = half.log_z.sum() - kl_of_all(UP, one, PRIOR)
            assert then >= now - 1e-9
            now = then
        same = local_step(data @ turn, UP, DEEP, 2, turned, PRIOR)
        assert same.log_z == pytest.approx(found.log_z, abs=1e-8)
        w, turned, before = new, global_step(same.stats, turned, PRIOR), now


def test_the_order_of_points_does_not_matter():
    data = np.random.default_rng(1).normal(size=(50, 3))
    steps = []
    for rows in (data, data[::-1]):
        stats = local_step(rows, UP, DEEP, 2, weights(), PRIOR).stats
        steps.append(global_step(stats, weights(), PRIOR))
    for name in ("M", "S", "rate", "mass"):
        values = [getattr(one, name) for one in steps]
        np.testing.assert_allclose(*values, rtol=1e-10, atol=1e-12)


def test_moves_leave_trees_and_raise_the_bound():
    """Every move gives a tree with all leaves at one level, parents first."""
    rng = np.random.default_rng(2)
    axes = np.eye(8)[2 + np.arange(300) % 6]  # one direction for all, and one of six
    data = rng.normal(size=(300, 8)) * (0.1 + 2.0 * axes + np.array([3.0, *[0.0] * 7]))
    tree = ComponentTree.founded(data, 3, Prior(1.0, 50.0, 50.0, 1e-3, 1e-3), 40)
    tree.sweep(3)
    made = set()
    for _ in range(12):
        before = tree.bound()
        tree.grow(0)
        assert tree.bound() >= before - 1e-9 * abs(before)
        for move in MOVES:
            trial = copy(tree)
            if move(trial, View.of(tree), rng):
                made.add(move.__name__)
                trial.sweep(1)
                K = trial.n_nodes
                assert (trial.parent[1:] < np.arange(1, K)).all()
                assert (trial.level[1:] == trial.level[trial.parent[1:]] + 1).all()
                inner = np.isin(np.arange(K), trial.parent)
                assert (trial.level[~inner] == 3).all()
                assert len(set(trial.ids.tolist())) == K == len(trial.weights.M) - 1
                assert trial.sizes()[0] == pytest.approx(300.0)
                assert np.isfinite(trial.bound())
        tree.n_seen += 1  # other proposals
    assert len(made) == len(set(MOVES))


def test_a_single_path_is_principal_components():
    rng = np.random.default_rng(0)
    data = rng.normal(size=(400, 8)) * np.array([9, 6, 4, 2, 1, 1, 1, 1.0])
    prior = Prior(1.0, 1e4, 1e4, 1e-3, 1e-3)
    tree = ComponentTree.founded(data, 3, prior, 3)
    tree.sweep(200)
    end = np.full(400, 2)
    got = reconstruct(data, end, tree.parent, tree.level, 3, tree.weights.M)
    centred = data - data.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)[2][:3]
    want = data.mean(axis=0) + centred @ axes.T @ axes
    assert got == pytest.approx(want, abs=0.02)


def test_a_node_stays_while_a_path_through_it_does():
    """An old inner node with few documents, whose leaf was born within the window."""
    tree = TopicTree.empty(Settings(1.0, np.array([1.0, 0.1, 0.1]), np.array([5.0, 2.0, 1.0])))
    tree.parent[:3], tree.level[:3] = (-1, 0, 1), (1, 2, 3)
    tree.born[:3], tree.mass[2] = (0, 0, 990), 1.2
    tree.whole[[N_NODES, N_SEEN]] = 3, 1000
    assert worth_keeping(tree).all()


def test_the_bound_is_that_of_the_window_after_nodes_went():
    """What every document adds is kept up to date when its leaf is dropped."""
    rng = np.random.default_rng(1)
    law = rng.dirichlet(np.full(60, 0.1), 6)
    model = NestedCRPTopics()
    model.learn_many(np.array([rng.multinomial(25, law[d % 6]) for d in range(200)]))
    tree, w = model._tree, model._tree.window
    keep = np.ones(tree.n_nodes, dtype=bool)
    keep[-1] = False
    tree.reorder(keep)
    assert tree.real[LOCAL] == pytest.approx(
        (w.docs.weights[: w.n] * w.docs.own[: w.n]).sum(), abs=1e-6
    )
    model.refine()
    assert tree.real[LOCAL] == pytest.approx(
        (w.docs.weights[: w.n] * w.docs.own[: w.n]).sum(), abs=1e-6
    )


def test_words_that_come_once_are_forgotten_and_others_stay():
    model = NestedCRPTopics(window=10, max_nodes=16)
    sizes = []
    for first in range(0, 2_000, 100):
        model.learn_many([f"all of {'ab'[i % 2]} word{i}" for i in range(first, first + 100)])
        sizes.append(len(model._vocabulary))
    assert max(sizes[10:]) == max(sizes[5:10]) < 300
    assert {"of", "word1999"} < set(model._vocabulary.words)
    again = NestedCRPTopics.from_bytes(model.to_bytes())
    for one in model, again:
        one.learn_many([f"all of a word{i}" for i in range(2_000, 2_300)])
    assert again.to_bytes() == model.to_bytes()
