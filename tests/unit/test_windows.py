"""The period of a signal and the features of its windows, against scipy and by hand."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import signal, stats

from streamddcrp.data.windows import FEATURES, NOISE, dominant_period, window_features


@given(
    period=st.floats(8.5, 30.0),
    phase=st.floats(0.0, 6.3),
    slope=st.floats(-0.05, 0.05),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
)
def test_period_of_a_wave_on_a_slope(period, phase, slope, scale):
    time = np.arange(250.0)
    wave = np.sin(2 * np.pi * time / period + phase) + slope * time
    found = dominant_period(scale * wave[:, None])
    # half a row of rounding, and a tenth of the distance between two bins, period^2 / N
    assert abs(found - period) <= 0.5 + 0.1 * period**2 / len(time)


def test_period_is_shared_by_columns_of_any_scale():
    time = np.arange(240.0)
    noise = np.random.default_rng(0).normal(size=240)
    X = np.column_stack([1e6 * noise, np.sin(2 * np.pi * time / 12), np.full(240, 3.0)])
    assert dominant_period(X) == 12


@pytest.mark.parametrize("value", [0.0, 1e9])
def test_a_constant_has_some_period_and_finite_features(value):
    X = np.full((300, 1), value)
    assert 8 <= dominant_period(X[:250]) <= 32
    features = window_features(X - value, 40, 10)
    assert features.shape == (27, len(FEATURES))
    assert np.isfinite(features).all()


def by_scipy(x):
    """Return the features of one window, shape (11,), from scipy's own definitions."""
    step = np.diff(x)
    spread, spread_step = x.std() + NOISE, step.std() + NOISE
    frequency, power = signal.periodogram(
        x, window=np.hanning(len(x)), detrend="constant", scaling="density"
    )
    bins = np.round(frequency * len(x)).astype(int)
    power *= (np.hanning(len(x)) ** 2).sum() / len(x) ** 2  # energy of the windowed values
    power[1 : (len(x) + 1) // 2] /= 2.0  # one-sided
    edges = [round(e) for e in np.geomspace(1, len(power), 7)]
    bands = [power[(bins >= a) & (bins < b)].sum() for a, b in pairwise(edges)]
    return np.array([
        x.mean(), np.log(spread), np.log(spread_step),
        stats.skew(x) * (x.std() / spread) ** 3, stats.skew(step) * (step.std() / spread_step) ** 3,
        *(0.5 * np.log(np.array(bands) + NOISE**2)),
    ])  # fmt: skip


@pytest.mark.parametrize("length", [40, 41, 96])
def test_features_are_those_of_scipy(length):
    X = np.random.default_rng(length).gamma(2.0, size=(300, 2)).cumsum(axis=0) % 7.0
    features = window_features(X, length, 15)
    assert features.shape == (1 + (300 - length) // 15, 2 * len(FEATURES))
    for i in 0, 3, len(features) - 1:
        window = X[15 * i : 15 * i + length]
        expected = np.concatenate([by_scipy(column) for column in window.T])
        np.testing.assert_allclose(features[i], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("period", range(3, 12))
def test_short_windows_have_all_bands(period):
    X = np.random.default_rng(0).normal(size=(200, 1))
    features = window_features(X, 4 * period, period)
    assert np.isfinite(features).all()
    assert (features.std(axis=0) > 0.0).all()
