"""Coordinate ascent of topic trees against printed values, by hand, and its bound."""

import numpy as np
import pytest
from scipy.special import digamma

from research.benchmarks.nested_ascent import Ascent, factorised_step, path_step
from streamddcrp.errors import ConfigError
from streamddcrp.models.trees.kernels.tree import log_path_chances
from tests.unit.test_nested_steps import ALPHA, LAM, WORDS, N
from tests.unit.test_nested_tree import LEVEL, PARENT, A, B

OFFSETS = np.array([0, 3])


def elog_and_prior():
    prior = np.empty(6)
    log_path_chances(PARENT, LEVEL, 6, 3, A, B, 1.0, False, prior)
    elog = (digamma(LAM) - digamma(LAM.sum(axis=1))[:, None]).T.copy()
    return elog, np.full(3, digamma(0.5) - digamma(2.0)), prior


def local(step, tol):
    elog, fresh, prior = elog_and_prior()
    q, counts = np.empty((1, 6)), np.zeros((4, 6))
    z = step(OFFSETS, WORDS, N, PARENT, LEVEL, 3, prior, elog, fresh, ALPHA, 2000, tol, q, counts)
    return z, q[0], counts.T


def test_levels_conditional_on_the_path_have_these_values():
    z, q, counts = local(path_step, 1e-14)
    assert z == pytest.approx(-10.1409378259, abs=1e-9)
    want = [0.00724677442244, 0.0250487208932, 0.00614679085424, 0.789952592013, 0.121805640205,
            0.0497994816125]  # fmt: skip
    assert q == pytest.approx(want, rel=1e-8)
    assert counts[3] == pytest.approx([0.027330624824, 0, 0.12792807721, 1.07870269019], rel=1e-8)
    assert counts[0] == pytest.approx([1.07609887161, 0, 0.779947024167, 0.930795951339], rel=1e-8)


def test_factorised_levels_have_these_values_and_a_lower_bound():
    z, q, _ = local(factorised_step, -1.0)
    assert z == pytest.approx(-10.3607749332, abs=1e-8)  # printed before the last rounds
    assert q[[3, 4]] == pytest.approx([0.982977241622, 0.00910429571501], rel=1e-3)
    assert z < local(path_step, 1e-14)[0]


def corpus(seed=0, D=12, V=9):
    rng = np.random.default_rng(seed)
    rows = [np.flatnonzero(x) for x in rng.random((D, V)) < 0.6]
    offsets = np.cumsum([0, *map(len, rows)])
    return offsets, np.concatenate(rows), rng.integers(1, 5, offsets[-1]).astype(float)


def ascent(family, seed=1, V=9):
    rng = np.random.default_rng(seed)
    return Ascent(
        PARENT, LEVEL, ALPHA, np.array([1.0, 0.5, 0.2]), 1.3, rng.gamma(1.0, 2.0, (V, 6)),
        rng.gamma(1.0, 2.0, 6), family,
    )  # fmt: skip


@pytest.mark.parametrize("family", ["path", "factorised"])
def test_coordinate_ascent_never_lowers_the_bound(family):
    """Documents, then sticks, then topics, each by itself."""
    docs, fit = corpus(), ascent(family)
    before = -np.inf
    for sweep in range(12):
        # the factorised step starts its levels anew, so only what follows it is sure to rise
        found = fit.expect(*docs)
        now = found.local - fit.divergence()
        assert now >= before - 1e-8 or (family == "factorised" and sweep < 3)
        before = now
        if family == "path":
            fit.mass = found.q.sum(axis=0)
            half = fit.expect(*docs)
            assert half.local - fit.divergence() >= now - 1e-8
            found = half
            before = half.local - fit.divergence()
            fit.counts = found.counts
        else:
            fit.step(found)


def test_a_full_step_of_size_one_is_coordinate_ascent():
    docs, one, other = corpus(), ascent("path"), ascent("path")
    found = one.expect(*docs)
    one.step(found)
    # by hand: sums over documents, one at a time, the conjugate updates
    counts, mass = np.zeros((9, 6)), np.zeros(6)
    offsets, words, n = docs
    for d in range(len(offsets) - 1):
        part = slice(offsets[d], offsets[d + 1])
        alone = other.expect(np.array([0, len(words[part])]), words[part], n[part])
        counts += alone.counts
        mass += alone.q[0]
    assert one.counts == pytest.approx(counts, abs=1e-10)
    assert one.mass == pytest.approx(mass, abs=1e-10)
    # two halves of the corpus, each standing for all, half a step and then the rest
    other.step(found, rho=0.5, total=24.0)
    assert other.mass.sum() == pytest.approx(0.5 * ascent("path").mass.sum() + 12.0, rel=1e-12)


def test_a_factorised_bound_is_never_above():
    docs = corpus()
    path, factorised = (ascent(family).expect(*docs).local for family in ("path", "factorised"))
    assert path >= factorised


def test_families_have_names():
    with pytest.raises(ConfigError, match="family"):
        ascent("mean-field")
