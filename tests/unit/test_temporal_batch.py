"""Batch fits of the temporal mixture: the window engine with everything in its window."""

import numpy as np
import pytest

from benchmarks.epochs import agreement, drifting_gaussians
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.models.temporal.batch import best_start, fit_temporal_dpm
from streamddcrp.models.temporal.batch import whole_window as whole
from streamddcrp.models.temporal.emissions.drift import GaussianDrift, guesses
from streamddcrp.models.temporal.engine import Engine
from streamddcrp.models.temporal.window import Settings, count_settings, past_weights

KAPPA = past_weights(("exponential", 1.0), 3)


def true_law():
    return GaussianDrift.known(*(np.full(2, value) for value in (0.0, 36.0, 0.0625, 1.0)))


def test_generator_digits():
    stream = drifting_gaussians(0)
    assert stream.rows[0][0] == pytest.approx([2.32878961, -1.22541503], abs=5e-9)
    assert stream.rows[39][79] == pytest.approx([-4.31940727, -8.82581645], abs=5e-9)
    assert sum(X.sum() for X in stream.rows) == pytest.approx(654.0294804756, abs=1e-6)


def test_deferred_sweeps_of_a_long_window_are_the_batch():
    """O9 (b): a stream with lag T - 1 holds what the batch holds, and sweeps alike."""
    rows = drifting_gaussians(2).rows[:8]
    settings = Settings(alpha=1.0, past_weights=KAPPA, lag=7, n_sweeps=0)
    stream = Engine(settings, true_law())
    for X in rows:
        stream.learn(X)
    resp = [q.copy() for q in stream.resp]
    batch = whole(settings, stream.emission, rows, resp, stream.ids.copy(), stream.born.copy())
    for _ in range(3):
        stream.sweep(2)
        batch.sweep(2)
        for ours, theirs in zip(batch.resp, stream.resp, strict=True):
            assert np.abs(ours - theirs).max() <= 1e-10
    for ours, theirs in zip(batch.smooth(), stream.smooth(), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-10)


def test_learned_weights_of_a_batch_reach_as_far_back_as_those_of_a_stream():
    """Weights that are learned may get longer than those they begin with; the past must, too."""
    rows = drifting_gaussians(2).rows[:6]
    settings = Settings(alpha=1.0, past_weights=KAPPA, lag=5, n_sweeps=0, learn_decay=True)
    stream = Engine(settings, true_law())
    for X in rows:
        stream.learn(X)
    resp = [q.copy() for q in stream.resp]
    batch = whole(settings, stream.emission, rows, resp, stream.ids.copy(), stream.born.copy())
    assert batch.before.shape == stream.before.shape == (7, len(stream.ids), 3)
    batch.settings = stream.settings  # with the weights that it has learned
    now = batch.moments(resp)
    assert (batch.decayed(now, batch.before) == stream.decayed(now, stream.before)).all()


def test_a_converged_stream_is_a_fixed_point_of_the_batch():
    """Section 9: streaming with lag T - 1, swept until it rests, does not move in a batch."""
    rows = drifting_gaussians(2).rows[:8]
    stream = Engine(Settings(alpha=1.0, past_weights=KAPPA, lag=7), true_law())
    for X in rows:
        stream.learn(X)
    stream.sweep(150, exact=True)
    settings = Settings(**count_settings(1.0, None, 3), slots=1000, lag=3)
    resp = [q.copy() for q in stream.resp]
    batch = whole(settings, true_law(), rows, resp, stream.ids, stream.born)
    batch.sweep(40, exact=True)
    gaps = [np.abs(a - b).max() for a, b in zip(batch.resp, stream.resp, strict=True)]
    assert max(gaps) < 1e-6


def test_batch_is_no_worse_than_its_start():
    stream = drifting_gaussians(2)
    fit = fit_temporal_dpm(stream.rows[:20])
    assert fit.converged
    epoch, pooled = agreement(stream.ids[:20], fit.labels)
    best, best_pooled = agreement(stream.ids[:20], stream.oracle[:20])
    assert epoch > best - 0.03
    assert pooled > best_pooled - 0.1
    # a monitor, not a bound: it may fall by its own error
    rises = np.diff(fit.objective_trace)
    assert rises.min() > -1e-3 * 20 * 80
    assert fit.objective_trace[-1] > fit.objective_trace[0] - 1.0
    assert fit.emission.noise == pytest.approx(np.ones(2), rel=0.15)


def test_result_fits_together():
    rows = drifting_gaussians(5).rows[:10]
    rows[4] = np.zeros((0, 2))
    fit = fit_temporal_dpm(rows, max_sweeps=5)
    K = len(fit.ids)
    assert [q.shape for q in fit.q] == [(len(X), K) for X in rows]
    for q, labels in zip(fit.q, fit.labels, strict=True):
        assert q.sum(axis=1) == pytest.approx(np.ones(len(q)), abs=1e-9)
        assert (labels == fit.ids[q.argmax(axis=1)]).all()
    assert fit.smoothed.mean.shape == (10, K, 2)
    assert (fit.born >= 0).all()
    assert all(not q[:, fit.born > t].any() for t, q in enumerate(fit.q))
    assert (np.diff(fit.ids) > 0).all()
    again = fit_temporal_dpm(rows, fit.emission, max_sweeps=2)
    assert len(again.objective_trace) <= 2
    assert len(fit_temporal_dpm(rows, max_sweeps=1, progress=True).objective_trace) == 1


def test_a_fit_rests_where_exact_sweeps_do():
    rng = np.random.default_rng(3)
    rows = [rng.normal(0.0, 2.0, (20, 1)) for _ in range(5)]
    law = GaussianDrift.known(*(np.array([v]) for v in (0.0, 4.0, 0.2, 1.0)))
    options = {"alpha": 2.0, "decay": ("exponential", 1.0)}
    fit = fit_temporal_dpm(rows, law, **options, tol=1e-9, max_sweeps=2000)
    assert fit.converged
    assert min(q.max(axis=1).min() for q in fit.q) < 0.9  # some rows are shared
    settings = Settings(**count_settings(window=None, **options), slots=1000, lag=3)
    engine = whole(settings, fit.emission, rows, [q.copy() for q in fit.q], fit.ids, fit.born)
    engine.sweep(1, exact=True)
    gap = max(np.abs(q - found).max() for q, found in zip(fit.q, engine.resp, strict=True))
    assert gap < 1e-8


def test_epochs_of_plain_lists_and_of_nothing():
    fit = fit_temporal_dpm([[], [[0.0], [0.3], [9.0]], [], [[0.1], [9.2], [9.1]], []])
    assert [len(labels) for labels in fit.labels] == [0, 3, 0, 3, 0]
    one = fit_temporal_dpm([[[1.0, 2.0]]])
    assert [labels.tolist() for labels in one.labels] == [[0]]


def test_the_better_guess_goes_on():
    rows = drifting_gaussians(0).rows[:6]
    settings = Settings(alpha=1.0, past_weights=KAPPA, lag=2)
    laws = [GaussianDrift.scaled(rows[0], spread) for spread in (10.0, 0.03)]
    engines = [Engine(settings, one) for one in laws]
    assert best_start(engines, [np.zeros((0, 2)), *rows]) == 1
    assert [engine.epoch for engine in engines] == [4, 4]


def test_a_column_that_tells_nothing_keeps_its_variance():
    """Noise is guessed column by column; shifts and units do not matter."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 4, 80)
    X = np.stack([20.0 * label + rng.standard_normal(80), 5.0 * rng.standard_normal(80)], axis=1)
    found = guesses(X)
    assert [len(guess.noise) for guess in found] == [2] * 8
    assert (found[0].noise == X.var(axis=0)).all()
    assert all(guess.noise[1] > 0.05 * X[:, 1].var() for guess in found[:5])
    for guess, moved in zip(found, guesses(1e-6 * X + 7e-4), strict=True):
        assert moved.noise == pytest.approx(1e-12 * guess.noise, rel=1e-6)
    truth = [label[:40], label[40:]]
    fit = fit_temporal_dpm([X[:40], X[40:]])
    assert agreement(truth, fit.labels) == (1.0, 1.0)


@pytest.mark.parametrize("X", [np.ones((1, 2)), np.full((40, 2), 1e12), np.zeros((5, 1))])
def test_guesses_of_nearly_nothing(X):
    for guess in guesses(X):
        assert np.isfinite(guess.noise).all()
        assert (guess.noise > 0.0).all()
        assert (guess.drift > 0.0).all()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"alpha": 0.0}, "alpha"),
        ({"slots": 0}, "slots"),
        ({"lag": -1}, "lag"),
        ({"window": 0}, "window"),
        ({"decay": ("exponential", 0.01)}, "decay"),
        ({"max_sweeps": 0}, "max_sweeps"),
        ({"tol": -1.0}, "tol"),
    ],
)
def test_options_are_refused_by_name(options, word):
    epochs = [[[0.0], [1.0], [2.0]], [[0.5], [1.5]]]
    with pytest.raises(ConfigError, match=word):
        fit_temporal_dpm(epochs, **options)


def test_bad_rows_are_refused_by_place():
    with pytest.raises(SchemaError, match="epoch 1, row 1, column 0"):
        fit_temporal_dpm([[[0.0]], [[1.0], [np.inf]]])
    with pytest.raises(SchemaError, match="epoch 1, batch: expected 2 columns"):
        fit_temporal_dpm([[[0.0, 1.0]], [[1.0]]])
    with pytest.raises(SchemaError, match="no rows"):
        fit_temporal_dpm([[], []])
