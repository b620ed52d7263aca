"""WindowFeatures: where windows stand, and what they are for."""

from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from streamddcrp import Seasonal, SeqDDCRP, WindowFeatures
from streamddcrp.data.windows import FEATURES
from streamddcrp.errors import SchemaError
from tests.conformance.streams import waves


def matrix(features):
    return np.column_stack([column.to_numpy() for column in features.columns])


def test_the_last_window_is_that_of_the_last_row():
    features, _ = WindowFeatures().step_many(waves(400, 2))
    windows = WindowFeatures()
    for row in waves(400, 2).tolist():
        windows.learn_one(dict(enumerate(row)))
    assert windows.transform_one({}) == features.slice(len(features) - 1).to_pylist()[0]


def test_windows_stand_where_they_say():
    X = waves(400)
    windows = WindowFeatures(period=9)
    assert windows.window == 36
    features, positions = windows.step_many(X)
    assert positions.tolist() == list(range(35, 400, 9))
    means = matrix(features)[:, FEATURES.index("mean")]
    raw = np.array([X[p - 35 : p + 1].mean() for p in positions])
    expected = (raw - raw[:20].mean()) / raw[:20].std()
    # waves cancel, so these means are small: 36 roundings of values near 1 over their spread
    np.testing.assert_allclose(means, expected, rtol=1e-9, atol=36 * 2e-16 / raw[:20].std())


def test_nothing_comes_before_twenty_windows():
    windows = WindowFeatures(period=10)
    features, positions = windows.step_many(waves(229))
    assert (len(features), len(positions), windows.transform_one({})) == (0, 0, {})
    features, positions = windows.step_many(waves(1))
    assert positions.tolist() == list(range(39, 230, 10))
    first = matrix(features)
    np.testing.assert_allclose(first.mean(axis=0), 0.0, atol=1e-10)
    assert (first.std(axis=0) <= 1.0 + 1e-12).all()


@pytest.mark.parametrize("scale", [1e-8, 3.0, 1e8])
def test_shift_and_unit_do_not_matter(scale):
    X = waves(600)
    expected = matrix(WindowFeatures().step_many(X)[0])
    moved = matrix(WindowFeatures().step_many(scale * (X + 5.0))[0])
    # roundings of 5 in data of unit size, divided by a feature's spread, at least 0.01
    np.testing.assert_allclose(moved, expected, atol=1e-10)


def test_missing_values_repeat_the_value_before():
    X = waves(300, 2)
    holes = np.random.default_rng(1).random(X.shape) < 0.3
    holes[0] = False
    filled = X.copy()
    for i, d in zip(*np.nonzero(holes), strict=True):
        filled[i, d] = filled[i - 1, d]
    table = pa.table({str(d): pa.array(X[:, d], mask=holes[:, d]) for d in range(2)})
    expected, windows = WindowFeatures(period=9), WindowFeatures(period=9)
    features, _ = expected.step_many(pa.table({str(d): filled[:, d] for d in range(2)}))
    assert windows.step_many(table)[0].equals(features)
    assert windows.to_bytes() == expected.to_bytes()
    with pytest.raises(SchemaError, match="row 0, column 1: missing in the first row"):
        WindowFeatures().learn_one({"a": 1.0, "b": None})


def test_features_feed_a_clusterer():
    X = np.concatenate([waves(2000), waves(2000, period=4.5, seed=1)])
    windows = WindowFeatures()
    model = SeqDDCRP(likelihood=("normal_gamma", 0.0, 0.05, 1.5, 1.5))
    labels, places = [], []
    for part in np.array_split(X, 13):
        features, positions = windows.step_many(part)
        labels += model.step_many(features, positions)["label"].to_pylist()
        places += positions.tolist()
    labels, places = np.array(labels), np.array(places)
    before, after = labels[places < 2000], labels[places >= 2000 + windows.window]
    usual = np.bincount(before).argmax()
    assert np.mean(before == usual) > 0.9
    assert usual not in after


@pytest.mark.parametrize("make", [partial(WindowFeatures, period=5), partial(Seasonal, period=9)])
def test_values_whose_squares_overflow_are_refused(make):
    """They gave NaN, and states that could not be loaded."""
    model, X = make(), np.ones((60, 2))
    model.step_many(X[:20])
    before, X[7, 1] = model.to_bytes(), 1.7e308
    with pytest.raises(SchemaError, match=r"row 7, column '?1'?: expected a number") as caught:
        model.step_many(X)
    assert caught.value.row == 7
    assert model.to_bytes() == before


def test_values_far_beyond_the_first_have_features():
    """Cubes of 1e99, in spreads of 1e-150 of the first rows, gave NaN."""
    rng = np.random.default_rng(0)
    X = np.array([1e-150, 1e-60, 1.0]) * rng.normal(size=(400, 3))
    X[200:] *= 1e95
    X[300:] = rng.choice([-1.0, 1.0], (100, 3)) * 10.0 ** rng.uniform(-308, 99, (100, 1))
    windows = WindowFeatures(period=5)
    features, _ = windows.step_many(X)
    assert all(np.isfinite(column.to_numpy()).all() for column in features.columns)
    assert WindowFeatures.from_bytes(windows.to_bytes()).to_bytes() == windows.to_bytes()
