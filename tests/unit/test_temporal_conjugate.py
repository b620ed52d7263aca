"""Conjugate families that forget, against the families' own plain methods and digits by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_t

from streamddcrp.errors import ConfigError
from streamddcrp.likelihoods import (
    Autoregression,
    BetaBernoulli,
    GammaPoisson,
    NormalGamma,
    NormalWishart,
)
from streamddcrp.models.temporal.emissions.conjugate import ConjugateDecay, ConjugateStats
from streamddcrp.models.temporal.engine import Engine
from streamddcrp.models.temporal.window import Settings

FAMILIES = [
    NormalWishart(0.0, 0.5, 2.0, 4.0),
    NormalGamma(0.0, 0.1, 2.0, 1.0),
    GammaPoisson(1.0, 0.5),
    BetaBernoulli(0.5, 0.5),
]


def draw_rows(rng, family, n, D=2):
    if isinstance(family, GammaPoisson):
        return rng.poisson(rng.choice([1.0, 9.0], (n, 1)), (n, D)) * 1.0
    if isinstance(family, BetaBernoulli):
        return rng.integers(0, 2, (n, D)) * 1.0
    return rng.choice([-4.0, 4.0], (n, 1)) + rng.normal(size=(n, D))


@st.composite
def windows(draw):
    """A law, rows of a window, assignments, what was known before, births."""
    rng = np.random.default_rng(draw(st.integers(0, 10**9)))
    family = draw(st.sampled_from(FAMILIES))
    law = ConjugateDecay(family, 2, draw(st.sampled_from([0.4, 0.9, 1.0])))
    rows = [draw_rows(rng, family, n) for n in draw(st.lists(st.integers(0, 5), min_size=1))[:4]]
    if isinstance(family, NormalGamma):
        rows = [np.where(rng.random(X.shape) < 0.1, np.nan, X) for X in rows]
    begins = rng.integers(-1, len(rows), 3)
    resp = [rng.dirichlet(np.ones(3), len(X)) * (begins <= e) for e, X in enumerate(rows)]
    old = law.stats(draw_rows(rng, family, 6), rng.random((6, 3)))
    starts = ConjugateStats(np.where(begins[:, None] < 0, old.sums, 0.0))
    stats = ConjugateStats(
        np.stack([law.stats(X, q).sums for X, q in zip(rows, resp, strict=True)])
    )
    return law, rows, resp, stats, starts, begins


def test_forgetting_digits():
    """O6: three weighted rows, an expectation and a predictive, then what an epoch leaves."""
    family = NormalWishart(0.0, 0.5, [[2.0, 0.0], [0.0, 2.0]], 4.0)
    law = ConjugateDecay(family, 2, 0.8)
    sums = law.stats(
        np.array([[1.0, 0.0], [2.0, 1.0], [0.0, 3.0]]), np.array([[1.0], [0.5], [0.25]])
    ).sums
    x = np.array([0.5, -0.2])
    assert family.expected_log_lik(x, sums) == pytest.approx(-2.6722391091, abs=5e-11)
    assert family.log_predictive(x, sums) == pytest.approx(-2.3550712804, abs=5e-11)
    smoothed = law.smooth(
        ConjugateStats(np.zeros((1, 1, len(sums[0])))), ConjugateStats(sums), np.array([-1])
    )
    faded = law.frozen(smoothed).sums
    assert (law.ahead(smoothed, 2).sums == 0.8**2 * faded).all()
    mean, kappa, dof = np.array([0.8421052632, 0.5263157895]), 1.9, 5.4
    assert family.point_estimates(faded)["mean"][0] == pytest.approx(mean, abs=5e-11)
    scatter = np.array([[3.0526315789, -0.0421052632], [-0.0421052632, 3.6736842105]])
    t = multivariate_t(mean, (kappa + 1.0) / (kappa * (dof - 1.0)) * scatter, dof - 1.0)
    assert family.log_predictive(x, faded) == pytest.approx(t.logpdf(x), abs=1e-9)


@given(windows())
def test_evidence_and_what_is_known_by_definition(window):
    law, rows, resp, stats, starts, begins = window
    s = law.smooth(stats, starts, begins)
    rho, family = law.rho, law.likelihood
    known = starts.sums
    for e, more in enumerate(stats.sums):
        before, known = rho * known, rho * known + more
        gain = family.log_marginal(known) - family.log_marginal(before)
        assert s.log_z[e] == pytest.approx(np.where(more[:, 0] > 1e-8, gain, 0.0), abs=1e-7)
        near = rho ** (e + 1) * starts.sums
        near = near + sum(rho ** abs(e - j) * part for j, part in enumerate(stats.sums))
        assert s.near[e] == pytest.approx(near, rel=1e-10, abs=1e-10)
        ell = law.expected(rows[e], s, e, begins, resp[e])
        for i, x in enumerate(rows[e]):
            expected = np.where(begins > e, -np.inf, family.expected_log_lik(x, near))
            assert ell[i] == pytest.approx(expected, rel=1e-8, abs=1e-8)
    if rho == 1.0:  # static: the evidence telescopes
        total = family.log_marginal(known) - family.log_marginal(starts.sums)
        assert s.log_z.sum(axis=0) == pytest.approx(total, abs=1e-6)


@given(windows())
def test_a_window_goes_on_from_what_was_frozen(window):
    law, _, _, stats, starts, begins = window
    whole = law.smooth(stats, starts, begins)
    first = ConjugateStats(stats.sums[:1])
    frozen = law.frozen(law.smooth(first, starts, begins))
    rest = law.smooth(ConjugateStats(stats.sums[1:]), frozen, begins - 1)
    assert rest.filtered == pytest.approx(whole.filtered[1:], rel=1e-12, abs=1e-12)
    assert rest.log_z == pytest.approx(whole.log_z[1:], abs=1e-9)


@given(st.integers(0, 10**6), st.sampled_from(FAMILIES))
def test_seats_are_the_slow_ones(seed, family):
    """Every seat by its definition, and the same bits in any cutting."""
    rng = np.random.default_rng(seed)
    law = ConjugateDecay(family, 2)
    X = draw_rows(rng, family, 12)
    known = law.stats(draw_rows(rng, family, 8), rng.random((8, 2)))
    past = [3.0, 0.4]
    seats = law.seating(np.array(past), known).seat(X, 1e-3, 0.5, 1000)
    sums, size = list(known.sums), [0.0, 0.0]
    for i, x in enumerate(X):
        log_weight = np.log(1e-3 + np.array(past) + size)
        s = log_weight + family.log_predictive(x, np.array(sums))
        new = 0.5 + float(family.log_predictive(x, 0.0 * sums[0])[0])
        assert seats.scores[i] == pytest.approx(-np.logaddexp.reduce([*s, new]), abs=1e-9)
        p_new = math.exp(new + seats.scores[i])
        assert seats.chances[i, 0] == pytest.approx(p_new, rel=1e-8)
        if new >= max(s):
            past.append(0.0)
            size.append(0.0)
            sums.append(0.0 * sums[0])
            q = np.eye(len(size))[-1]
        else:
            q = np.exp(s - s.max())
            q = np.where(q >= law.least, q, 0.0)
            q /= q.sum()
        assert seats.q[i, : len(q)] == pytest.approx(q, abs=1e-9)
        for k in range(len(q)):
            size[k] += seats.q[i, k]
            sums[k] = sums[k] + seats.q[i, k] * family.suffstats(x)
    assert seats.q.shape[1] == len(size)
    parts = law.seating(np.array([3.0, 0.4]), known)
    for start in range(0, 12, 5):
        some = parts.seat(X[start : start + 5], 1e-3, 0.5, 1000)
        assert (some.q == seats.q[start : start + 5, : some.q.shape[1]]).all()
        assert (some.scores == seats.scores[start : start + 5]).all()


@given(windows(), st.integers(0, 10**6))
def test_parting_is_the_slow_one(window, seed):
    """Five rounds of statistics and sharing, by the emission's other methods."""
    law, rows, resp, _, starts, begins = window
    rng = np.random.default_rng(seed)
    epoch = max(int(rng.integers(0, len(rows))), int(begins[0]))
    both = np.array([begins[0], epoch])
    own = [q[:, :1] for q in resp]
    sides = [(rng.random(len(X)) < 0.5) * float(e >= epoch) for e, X in enumerate(rows)]
    before, kappa = 3.0 * rng.random((2, 2, 3)), np.array([0.6, 0.1])
    before[:, 1] = 0.0
    known = ConjugateStats(np.stack([starts.sums[0], 0.0 * starts.sums[0]]))
    past = 1e-3, kappa, before[:, :, 0].copy()
    shared, smoothed = law.split(rows, own, sides, past, known, both)
    slow = [w * np.stack([1.0 - side, side], axis=1) for w, side in zip(own, sides, strict=True)]
    for r in range(6):
        sums = np.stack([law.stats(X, q).sums for X, q in zip(rows, slow, strict=True)])
        s = law.smooth(ConjugateStats(sums), known, both)
        counts = [*before[:, :, 0], *(q.sum(axis=0) for q in slow)]
        for e in range(max(begins[0], 0), len(rows) if r < 5 else 0):
            past = sum(kappa[d] * counts[2 + e - 1 - d] for d in range(2))
            p = law.expected(rows[e], s, e, both, slow[e]) + np.log(1e-3 + past + counts[2 + e])
            p = np.exp(p - p.max(axis=1, keepdims=True, initial=-np.inf))
            slow[e] = own[e] * p / p.sum(axis=1, keepdims=True)
    for ours, theirs in zip(shared, slow, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-8)
    assert smoothed.log_z == pytest.approx(s.log_z, abs=1e-6)


def test_halves_part_what_is_two_and_leave_what_is_one():
    rng = np.random.default_rng(1)
    law = ConjugateDecay(FAMILIES[0], 2)
    z = np.repeat([0, 1], [20, 10])
    X = np.stack([rng.normal(size=30), 9.0 * z + rng.normal(size=30)], axis=1)
    sides = law.halves([X, X], [np.ones((30, 1))] * 2, 0, None, 1)
    assert not sides[0].any()
    assert sides[1].tolist() == (z == 1).tolist()
    assert law.halves([X[:1]], [np.ones((1, 1))], 0, None, 0) is None
    assert law.halves([np.ones((5, 2))], [np.ones((5, 1))], 0, None, 0) is None


def test_the_speed_of_forgetting_is_learned():
    """Still clusters are remembered, running ones forgotten."""
    rng = np.random.default_rng(2)
    rho = []
    for step in (0.0, 4.0):
        law = ConjugateDecay(NormalGamma(0.0, 0.01, 2.0, 1.0), 2)
        engine = Engine(Settings(alpha=0.1, past_weights=(0.6, 0.4), lag=1), law)
        for t in range(15):
            engine.learn(np.array([step * t, 0.0]) + rng.normal(size=(20, 2)))
        rho.append(engine.emission.rho)
        assert ConjugateDecay(law.likelihood, 2, 0.6).forgotten(None, None, None).rho == 0.6
    assert rho == [0.95, 0.5]


def test_what_cannot_be():
    with pytest.raises(ConfigError, match="no order"):
        ConjugateDecay(Autoregression(1), 2)
    for forget in (0.0, 1.5, -1.0):
        with pytest.raises(ConfigError, match="forget"):
            ConjugateDecay(FAMILIES[0], 2, forget)
