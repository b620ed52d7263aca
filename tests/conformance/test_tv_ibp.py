"""TimeVaryingIBP: features that are found, gaps, units."""

import math

import numpy as np
import pytest

from streamddcrp import TimeVaryingIBP
from tests.conformance.streams import causes

SMALL = {"window": 12, "n_particles": 8, "moves": 3, "warmup": 20}


def test_features_are_found_and_explained():
    X = causes(3, offset=20.0).rows
    model = TimeVaryingIBP(window=30, n_particles=20, moves=10)
    model.learn_many(X)
    assert model.n_features >= 2
    assert all(0.15 < sd < 0.6 for sd in model.noise.values())
    fit = np.column_stack([c.to_numpy() for c in model.reconstruct(X[-30:]).columns])
    assert np.sqrt(((fit - X[-30:]) ** 2).mean()) < 0.6
    rates = model.transform_many(X[-30:])
    assert rates.num_columns == model.n_features
    summary = model.summary()
    assert summary.column_names[:4] == ["id", "prob", "owners", "born"]
    assert set(summary["id"].to_pylist()) <= set(model.loadings())
    assigned = model.assignments()
    assert assigned["row"].to_pylist() == list(range(120))
    assert assigned["final"].to_pylist().count(False) == 29
    kinds = {e.kind for e in model.events()}
    assert "birth" in kinds
    assert model.events() == []


def test_gaps_are_filled():
    X = causes(4).rows
    model = TimeVaryingIBP(**SMALL, missing=True)
    model.learn_many(X)
    x = dict(enumerate(X[-1].tolist()))
    filled = model.reconstruct_one(x | {1: None})
    assert filled[1] == pytest.approx(x[1], abs=1.5)


@pytest.mark.parametrize("seed", range(4))
def test_loadings_a_thousand_times_the_noise_leave_no_rounding(seed):
    """Features of one column can be told apart by rows only; rows are taken out of all of them."""
    rng = np.random.default_rng(seed)
    loadings = 1000.0 * rng.normal(size=(5, 1))
    X = (rng.random((300, 5)) < 0.4) @ loadings + rng.normal(size=(300, 1))
    model = TimeVaryingIBP(**SMALL, alpha=3.0, sigma_x=1.0, sigma_y=1000.0, baseline=seed % 2 > 0)
    assert np.isfinite(model.step_many(X).column("score").to_numpy()).all()
    particles = model._engine.state.particles
    spread = particles.cov[:, range(particles.cov.shape[1]), range(particles.cov.shape[1])]
    assert (spread[particles.n_owners > 0] > 0.0).all()


@pytest.mark.slow
def test_memory_is_flat_over_100_000_rows():
    model = TimeVaryingIBP(n_particles=5, moves=1)
    sizes = []
    for seed in range(100):
        model.learn_many(causes(seed % 10, 1000).rows)
        sizes.append((model.nbytes, len(model.to_bytes())))
    early, late = np.array(sizes[:50]).max(axis=0), np.array(sizes[50:]).max(axis=0)
    assert (late <= 1.5 * early).all()


def test_one_column_in_large_units():
    rng = np.random.default_rng(0)
    x = np.where(rng.random(300) < 0.4, 5.0, 0.0) + 0.3 * rng.normal(size=300)
    model = TimeVaryingIBP(n_particles=20, moves=5)
    model.learn_many(1e6 * x[:, None] + 3e8)
    assert 0.25e6 < model.noise[0] < 0.35e6
    loading = max(model.summary()["loading_0"].to_pylist(), key=abs)
    assert abs(loading) == pytest.approx(5e6, rel=0.1)


@pytest.mark.parametrize("scale", [1e-150, 1e-6, 1e6, 1e90])
@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_scales_do_not_matter(scale, offset):
    X = causes(5, offset=100.0 * offset).rows
    model, other = TimeVaryingIBP(**SMALL), TimeVaryingIBP(**SMALL)
    a, b = model.step_many(X), other.step_many(scale * X)
    shift = X.shape[1] * math.log(scale)
    score, scaled = (out["score"].to_numpy(zero_copy_only=False)[20:] for out in (a, b))
    assert np.isfinite(scaled).all()
    assert np.median(np.abs(scaled - shift - score)) < 1e-3  # rounding may change a draw


def test_constant_and_strange_columns():
    X = causes(6, 200).rows
    X[:, 0] = 7.0
    X[:, 1] = np.where(np.arange(200) < 100, 0.0, X[:, 1])
    X[150] = 1e6
    out = TimeVaryingIBP(**SMALL).step_many(X)
    assert np.isfinite(out["score"].to_numpy(zero_copy_only=False)[20:]).all()
    out = TimeVaryingIBP(**SMALL).step_many(np.zeros((60, 3)))
    assert np.isfinite(out["score"].to_numpy(zero_copy_only=False)[20:]).all()


def test_ids_last_where_two_features_are_on_in_the_same_rows():
    """For a whole window, so that only their loadings tell them apart."""
    t = np.arange(400)
    on = np.column_stack([t % 90 < 40, t % 60 < 20, t > 250])
    loadings = np.array([[4.0, 0.0, 1.0], [0.0, -2.0, 1.5], [-1.0, 0.0, -3.0]])
    noise = 0.2 * np.random.default_rng(0).normal(size=(400, 3))
    model = TimeVaryingIBP(n_particles=30, moves=5)
    model.learn_many([20.0, 5.0, 50.0] + on @ loadings + noise)
    sets = model.assignments()["features"].to_pylist()
    found = np.array([[i in one for one in sets] for i in model.summary()["id"].to_pylist()])
    for k in range(3):  # a feature or what is on without it: the baseline decides
        same = (found == on[:, k]).mean(axis=1)
        assert max(same.max(), 1.0 - same.min()) > 0.97


@pytest.mark.parametrize("seed", [0, 2])
def test_rows_of_all_scales_leave_a_rate(seed):
    """Taking a row of 1e49 away left a rate of the noise of 0, by which was divided."""
    rng = np.random.default_rng(seed)
    X = rng.choice([-1.0, 1.0], (600, 4)) * 10.0 ** rng.uniform(-300, 99, (600, 1))
    X[:40] = rng.normal(size=(40, 4))
    model = TimeVaryingIBP(window=12, n_particles=8, moves=3, warmup=20)
    out = model.step_many(X)
    assert np.isfinite(out["score"].drop_null().to_numpy()).all()
    assert (model._engine.state.particles.rate > 0.0).all()


@pytest.mark.parametrize("first", [1e-300, 1e-60, 1e-49, 1.0])
def test_no_jump_kills_the_particles(first):
    """A row that is further off than 1e150 units counts as that far: squares stay numbers."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 3)) * first
    X[40:] = np.clip(1e99 * rng.standard_cauchy((20, 3)), -1e100, 1e100)
    model = TimeVaryingIBP(**SMALL)
    assert np.isfinite(model.step_many(X)["score"].drop_null().to_numpy()).all()
    assert TimeVaryingIBP.from_bytes(model.to_bytes()).log_evidence == model.log_evidence


@pytest.mark.slow
def test_no_particle_has_two_features_of_one_name():
    """Light particles with both of two names that were merged counted the label twice."""
    rng = np.random.default_rng(4)
    model = TimeVaryingIBP(window=12, n_particles=8, moves=3, warmup=20)
    model.learn_many(rng.normal(size=(40, 4)))
    for _ in range(100):
        X = rng.uniform(-1.0, 1.0, (200, 4)) * rng.choice([1e99, 1e39, 1e15, 1.0, 1e-300])
        out = model.step_many(X)
        assert max(out["label_prob"].drop_null().to_pylist(), default=0.0) <= 1.0
        state = model._engine.state
        for name in state.particles.name[: int(state.counts[1])]:  # those that are active
            named = name[name >= 0]
            assert len(set(named.tolist())) == len(named)
