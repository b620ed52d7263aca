"""The particle engine: random numbers by counter, resampling, merging, copying."""

import numpy as np
import pytest

from streamddcrp.particles.kernels import random, resample

WEIGHTS = np.array([0.30, 0.25, 0.12, 0.08, 0.07, 0.06, 0.05, 0.04, 0.02, 0.01])


def words(*values):
    return [np.uint64(v) for v in values]


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_is_the_published_one(counter, key, expected):
    assert tuple(int(w) for w in random.philox(*words(*counter, *key))) == expected


@pytest.mark.parametrize("shape", [0.4, 1.0, 3.4])
def test_gamma_draws_have_the_moments_of_the_law(shape):
    n = 10_000
    draws = np.array([random.gamma(shape, 7, t, 1, 2, 3) for t in range(n)])
    assert draws.mean() == pytest.approx(shape, abs=4 * np.sqrt(shape / n))
    spread = np.sqrt((2 * shape**2 + 6 * shape) / n)  # of the variance's estimate
    assert draws.var() == pytest.approx(shape, abs=4 * spread)


def test_other_draws_have_the_moments_of_their_laws():
    n = 10_000
    u = np.array([random.uniform(7, t, 1, 2, 3) for t in range(n)])
    z = np.array([random.normal(7, t, 1, 2, 3) for t in range(n)])
    assert 0 < u.min() < u.max() < 1
    assert u.mean() == pytest.approx(0.5, abs=4 / np.sqrt(12 * n))
    assert (u < 0.25).mean() == pytest.approx(0.25, abs=4 * np.sqrt(0.25 * 0.75 / n))
    assert z.mean() == pytest.approx(0, abs=4 / np.sqrt(n))
    assert z.var() == pytest.approx(1, abs=4 * np.sqrt(2 / n))


def test_a_draw_depends_on_each_part_of_its_counter():
    base = (5, 1, 2, 3, 4)
    others = [(*base[:i], base[i] + 1, *base[i + 1 :]) for i in range(5)]
    others += [(5 + 2**40, 1, 2, 3, 4), (5, 1 + 2**40, 2, 3, 4)]
    assert len({random.uniform(*args) for args in [base, *others]}) == 8


def test_addition_wraps():
    top = np.uint64(2**64 - 1)
    assert random.add_wrapping(top, np.uint64(3)) == 2
    assert random.add_wrapping(np.uint64(2**32 - 1), np.uint64(1)) == 2**32


def kept(weights, n_keep, u):
    child, weight = np.zeros(n_keep, np.int64), np.zeros(n_keep)
    n = resample.optimal(weights, len(weights), n_keep, u, child, weight)
    return child[:n], weight[:n]


@pytest.mark.parametrize(
    ("u", "expected"), [(0.1, [0, 1, 2, 3, 5]), (0.5, [0, 1, 2, 4, 6]), (0.9, [0, 1, 3, 5, 8])]
)
def test_optimal_resampling_of_a_known_case(u, expected):
    child, weight = kept(WEIGHTS, 5, u)
    assert child.tolist() == expected
    np.testing.assert_allclose(weight, [0.30, 0.25, 0.15, 0.15, 0.15], rtol=1e-14)


@pytest.mark.parametrize("n_keep", [1, 2, 3, 7, 10, 15])
def test_optimal_resampling_has_no_bias(n_keep):
    n = 2000
    rng = np.random.default_rng(3)
    for weights in (WEIGHTS, rng.dirichlet(np.full(12, 0.3)), np.full(11, 1 / 11)):
        mean = np.zeros(len(weights))
        for i in range(n):
            child, weight = kept(weights, n_keep, (i + 0.5) / n)
            assert len(child) == min(n_keep, len(weights))
            assert len(set(child.tolist())) == len(child)
            assert weight.sum() == pytest.approx(weights.sum(), rel=1e-12)
            mean[child] += weight / n
        np.testing.assert_allclose(mean, weights, atol=2.0 / n)


def test_children_without_weight_never_stay():
    child, weight = kept(np.array([0.0, 0.5, 0.0, 0.5]), 3, 0.5)
    assert child.tolist() == [1, 3]
    assert weight.tolist() == [0.5, 0.5]


def test_equal_weights_give_each_particle_one_offspring_or_as_many_as_its_share():
    offspring = np.zeros(4, np.int64)
    resample.systematic(np.full(4, 0.25), 0.3, offspring)
    assert offspring.tolist() == [1, 1, 1, 1]
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    total = np.zeros(4)
    for t in range(4000):
        resample.systematic(weights, random.uniform(1, t, 0, 0, 0), offspring)
        assert offspring.sum() == 4
        assert (np.abs(offspring - 4 * weights) < 2).all()
        total += offspring
    np.testing.assert_allclose(total / 4000, 4 * weights, atol=4 * 0.7 / np.sqrt(4000))


def test_effective_size():
    assert resample.effective_size(np.full(7, 0.1)) == pytest.approx(7)
    assert resample.effective_size(np.array([0.5, 0.5, 0.0])) == pytest.approx(2)


def test_merging_keeps_the_weights_of_states_and_draws_the_one_that_stays():
    key = np.array([4, 4 + 16, 4, 9, 4 + 16, 4], np.uint64)
    weights = np.array([0.1, 0.2, 0.3, 0.05, 0.15, 0.2])
    stayed = np.zeros(6)
    for t in range(4000):
        weight = weights.copy()
        assert resample.merge_equal(key, weight, 6, np.zeros(16, np.int64), 1, t, 0) == 3
        for value in (4, 9, 20):
            assert weight[key == value].sum() == pytest.approx(weights[key == value].sum())
        stayed += weight > 0
    share = np.array([w / weights[key == k].sum() for k, w in zip(key, weights, strict=True)])
    np.testing.assert_allclose(stayed / 4000, share, atol=4 * 0.5 / np.sqrt(4000))


def test_only_further_children_are_copied():
    ancestor, place, used = np.array([1, 1, 3, 4, 4, 4]), np.zeros(6, np.int64), np.zeros(7, bool)
    resample.place_children(ancestor, 6, used, place)
    assert place.tolist() == [1, 0, 3, 4, 2, 5]
    assert used.tolist() == [True] * 6 + [False]
    offspring, out = np.array([0, 2, 0, 1]), np.zeros(3, np.int64)
    assert resample.ancestors_of(offspring, out) == 3
    assert out.tolist() == [1, 1, 3]
