"""Sums over the paths of an infinite tree, against values, enumeration and identities."""

import itertools

import numpy as np
import pytest
from scipy.special import betaln, digamma

from streamddcrp.models.trees.kernels.tree import (
    beta_parameters,
    fresh_level,
    log_path_chances,
    softmax,
    stick_bound,
    subtree_sums,
)
from streamddcrp.models.trees.tree import merged, paths_of, sorted_order, sticks
from tests.oracles.nested_tree import endpoint_scores

PARENT, LEVEL = np.array([-1, 0, 0, 1, 1, 2]), np.array([1, 2, 2, 3, 3, 3])
A, B = np.array([1, 5.5, 3.0, 4.0, 2.5, 3.0]), np.array([1, 4.0, 1.5, 2.5, 1.2, 1.0])
NODE, FRESH = np.array([-1, -2, -2.5, -0.7, -1.1, -0.4]), np.array([0.0, -3.0, -2.2])
Q = [
    0.005015513760618706, 0.010127647116140243, 0.0055114169144022465, 0.5815798854358464,
    0.1410043039304787, 0.2567612328425139,
]  # fmt: skip


def chances(parent, level, L, a, b, gamma, *, lookahead=False):
    out = np.empty(len(parent))
    log_path_chances(parent, level, len(parent), L, a, b, gamma, lookahead, out)
    return out


def scores(parent, level, L, prior, node, fresh):
    out = np.empty(len(parent))
    endpoint_scores(parent, level, len(parent), L, prior, node, fresh, out)
    return out


@pytest.mark.parametrize(
    ("gamma", "R"),
    [(0.5, 0.6260705709986626), (1.0, 0.5819767068693265), (2.0, 0.5670839816527226),
     (5.0, 0.5623889805114585)],
)  # fmt: skip
def test_a_fresh_level_sums_to(gamma, R):
    assert np.exp(fresh_level(gamma)) == pytest.approx(R, rel=1e-13)


def test_path_sums_have_these_values():
    prior = chances(PARENT, LEVEL, 3, A, B, 1.0)
    assert np.exp(prior).sum() == pytest.approx(0.700413309721444, rel=1e-12)
    assert prior[[0, 3]] == pytest.approx([-3.376650869577938, -1.123438389789331], rel=1e-12)
    log_s, q = scores(PARENT, LEVEL, 3, prior, NODE, FRESH), np.empty(6)
    assert softmax(log_s, 6, q) == pytest.approx(-4.281431451551965, rel=1e-12)
    assert q == pytest.approx(Q, rel=1e-12)


def test_sticks_have_these_values():
    size, a, b = np.empty((3, 6))
    beta_parameters(PARENT, 6, np.array(Q), 1.0, size, a, b)
    total = stick_bound(PARENT, LEVEL, 3, np.array(Q), 1.0)
    assert size[:3] == pytest.approx([1.0, 0.7327118364824653, 0.26227264975691617], rel=1e-12)
    assert a[1:] == pytest.approx(1.0 + size[1:], rel=1e-12)
    want = [1.2672881635175348, 1.0050155137606187, 1.151131951046619, 1.0101276471161402,
            1.0055114169144022]  # fmt: skip
    assert b[1:] == pytest.approx(want, rel=1e-12)
    assert total == pytest.approx(-2.159676018150685, rel=1e-12)


def test_lookahead_chances_sum_to_one():
    prior = chances(PARENT, LEVEL, 3, A, B, 1.0, lookahead=True)
    assert np.exp(prior).sum() == pytest.approx(1.0, rel=1e-13)
    assert prior[3] == pytest.approx(-1.03205152215, rel=1e-10)


def test_a_larger_concentration_expects_more_new_paths():
    mass, inner, before = np.array([0.0, 1.0, 0.0, 8.0, 3.0, 5.0]), LEVEL < 3, 0.0
    for gamma in (0.2, 0.7, 1.0, 3.0, 20.0):
        size, a, b = np.empty((3, 6))
        beta_parameters(PARENT, 6, mass, gamma, size, a, b)
        now = np.exp(chances(PARENT, LEVEL, 3, a, b, gamma, lookahead=True))[inner].sum()
        assert now > before
        before = now


@pytest.mark.parametrize("gamma", [0.7, 1.0, 2.0])
def test_infinite_sums_are_those_of_many_explicit_children(gamma):
    """A tree of depth 3, of which 80 children a node are written out; the rest is below 1e-12."""
    M, rng = 80, np.random.default_rng(0)
    e_v = digamma(1.0) - digamma(1.0 + gamma)
    e_1 = -1.0 / gamma
    a, b = rng.uniform(1, 6, 6), rng.uniform(1, 6, 6)
    log_s = scores(PARENT, LEVEL, 3, chances(PARENT, LEVEL, 3, a, b, gamma), NODE, FRESH)
    kids = {0: [1, 2], 1: [3, 4], 2: [5]}
    total = np.full(6, -np.inf)
    for j, k in itertools.product(range(M), range(M)):
        one = kids[0][j] if j < 2 else None
        two = kids[one][k] if one is not None and k < len(kids[one]) else None
        value, end = NODE[0], 0
        for level, (parent, at, node) in enumerate([(0, j, one), (one, k, two)], 1):
            siblings = kids.get(parent, []) if parent is not None else []
            for older in range(at):
                i = siblings[older] if older < len(siblings) else None
                value += e_1 if i is None else digamma(b[i]) - digamma(a[i] + b[i])
            value += e_v if node is None else digamma(a[node]) - digamma(a[node] + b[node])
            value += FRESH[level] if node is None else NODE[node]
            end = end if node is None else node
        total[end] = np.logaddexp(total[end], value)
    rest = np.exp(e_1 * (M - 2))  # of a geometric series
    assert log_s == pytest.approx(total, abs=max(1e-12, 10 * rest))


def test_an_untouched_path_changes_nothing():
    """A new child at the end of its parent's stick, with prior parameters, leaves log Z alone."""
    log_s = scores(PARENT, LEVEL, 3, chances(PARENT, LEVEL, 3, A, B, 1.0), NODE, FRESH)
    parent, level = np.append(PARENT, [0, 6, 2]), np.append(LEVEL, [2, 3, 3])
    a, b = np.append(A, [1.0] * 3), np.append(B, [1.0] * 3)
    node = np.append(NODE, [FRESH[1], FRESH[2], FRESH[2]])
    more = scores(parent, level, 3, chances(parent, level, 3, a, b, 1.0), node, FRESH)
    assert np.logaddexp.reduce(more) == pytest.approx(np.logaddexp.reduce(log_s), abs=1e-13)


def test_larger_siblings_first_is_best():
    parent, level = np.array([-1, 0, 0, 0, 0]), np.array([1, 2, 2, 2, 2])
    masses = (40.0, 7.5, 3.0, 0.2)
    # the fresh level of the root's own mass is not in the printed values
    extra = 0.3 * fresh_level(1.0)
    values = {
        order: sticks(parent, level, np.array([0.3, *order]), 2, 1.0) - extra
        for order in itertools.permutations(masses)
    }
    assert max(values, key=values.__getitem__) == masses
    assert values[masses] == pytest.approx(-39.28716791597595, rel=1e-12)
    assert values[masses[::-1]] == pytest.approx(-46.44870172339504, rel=1e-12)


def test_stick_terms_are_the_divergence_and_the_expected_prior():
    """L_v + fresh levels = E log p(c | v) - KL(q(v) || p(v)) at the optimum."""
    rng = np.random.default_rng(1)
    mass, gamma = rng.gamma(1.0, 5.0, 6), 1.7
    size, a, b = np.empty((3, 6))
    beta_parameters(PARENT, 6, mass, gamma, size, a, b)
    prior = chances(PARENT, LEVEL, 3, a, b, gamma)
    a, b = a[1:], b[1:]
    both = digamma(a + b)
    kl = betaln(1.0, gamma) - betaln(a, b)
    kl += (a - 1.0) * (digamma(a) - both) + (b - gamma) * (digamma(b) - both)
    want = mass @ prior - kl.sum()
    assert sticks(PARENT, LEVEL, mass, 3, gamma) == pytest.approx(want, rel=1e-12)


def test_order_keeps_parents_before_children_and_sorts_siblings():
    parent = np.array([-1, 0, 0, 2, 1, 2, 1])
    level = np.array([1, 2, 2, 3, 3, 3, 3])
    mass = np.array([0.0, 0.0, 0.0, 5.0, 1.0, 7.0, 2.0])
    order = sorted_order(parent, level, mass)
    assert order.slots.tolist() == [0, 2, 1, 5, 3, 6, 4]
    assert order.parent.tolist() == [-1, 0, 0, 1, 1, 2, 2]
    assert order.to[order.slots].tolist() == list(range(7))
    keep = np.array([True, True, False, False, True, False, True])
    order = sorted_order(parent, level, mass, keep)
    assert order.slots.tolist() == [0, 1, 6, 4]
    assert order.to.tolist() == [0, 1, 0, 0, 3, 0, 2]
    assert paths_of(order.parent, order.level, 3).tolist() == [
        [0, -1, -1], [0, 1, -1], [0, 1, 2], [0, 1, 3],
    ]  # fmt: skip


def test_a_merge_takes_children_and_mass_along():
    parent, mass = merged(np.array([-1, 0, 0, 2]), np.array([0.0, 2.0, 1.0, 4.0]), 1, 2)
    assert parent.tolist() == [-1, 0, 0, 1]
    assert mass.tolist() == [0.0, 3.0, 0.0, 4.0]
    out = np.empty(4)
    subtree_sums(parent, 4, mass, out)
    assert out[0] == 7.0
