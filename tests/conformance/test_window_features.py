"""What a transformer of a stream promises: same bits for any cutting and restart, flat memory."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import checks

from streamddcrp import SeqDDCRP, WindowFeatures
from streamddcrp.data.windows import FEATURES
from streamddcrp.errors import CheckpointError, ConfigError, SchemaError

OPTIONS = {"found": {"warmup": 64}, "given": {"period": 5}, "default": {}}


def waves(n, d=1, period=9.0, seed=0):
    time = np.arange(n)[:, None] + 3.0 * np.arange(d)
    return np.sin(2 * np.pi * time / period) + 0.1 * np.random.default_rng(seed).normal(size=(n, d))


def matrix(features):
    return np.column_stack([column.to_numpy() for column in features.columns])


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@given(data=st.data(), n=st.integers(1, 500), d=st.integers(1, 3))
def test_any_cutting_and_any_restart_give_the_same_bits(options, data, n, d):
    X = waves(n, d)
    whole = WindowFeatures(**options)
    features, positions = whole.step_many(X)
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=6)))
    model = WindowFeatures(**options)
    parts, places = [], []
    for a, b in zip([0, *cuts], [*cuts, n], strict=True):
        part, place = model.step_many(X[a:b])
        assert len(part) == len(place)
        parts.append(part)
        places += place.tolist()
        if data.draw(st.booleans()):
            model = WindowFeatures.from_bytes(model.to_bytes())
    named = [part for part in parts if part.num_columns]  # no columns are known before a row
    assert pa.Table.from_batches(named).equals(pa.Table.from_batches([features]))
    assert places == positions.tolist()
    assert model.to_bytes() == whole.to_bytes()
    one_by_one = WindowFeatures(**options)
    for row in X.tolist():
        one_by_one.learn_one(dict(enumerate(row)))
    assert one_by_one.to_bytes() == whole.to_bytes()
    latest = one_by_one.transform_one({})
    assert latest == (features.slice(len(features) - 1).to_pylist() if len(features) else [{}])[0]


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


def test_memory_is_flat():
    windows = WindowFeatures()
    sizes = []
    for part in np.split(waves(20_000), 40):
        windows.step_many(part)
        sizes.append(len(windows.to_bytes()))
    rows = windows.window + windows.window // 4
    assert max(sizes[3:]) <= 8 * rows + 4_000


def test_missing_values_repeat_the_value_before():
    X = waves(300, 2)
    holes = np.random.default_rng(1).random(X.shape) < 0.3
    holes[0] = False
    filled = X.copy()
    for i, d in zip(*np.nonzero(holes), strict=True):
        filled[i, d] = filled[i - 1, d]
    table = pa.table({str(d): pa.array(X[:, d], mask=holes[:, d]) for d in range(2)})
    expected = WindowFeatures(period=9)
    features, _ = expected.step_many(pa.table({str(d): filled[:, d] for d in range(2)}))
    windows = WindowFeatures(period=9)
    parts = [windows.step_many(part)[0] for part in table.to_batches(max_chunksize=7)]
    assert pa.Table.from_batches(parts).equals(pa.Table.from_batches([features]))
    assert windows.to_bytes() == expected.to_bytes()
    with pytest.raises(SchemaError, match="row 0, column 1: missing in the first row"):
        WindowFeatures().learn_one({"a": 1.0, "b": None})


def test_a_refused_batch_changes_nothing():
    windows = WindowFeatures()
    windows.step_many(waves(300, 2))
    before = windows.to_bytes()
    bad = waves(20, 2)
    bad[7, 1] = np.inf
    with pytest.raises(SchemaError, match="row 7, column 1") as refused:
        windows.step_many(bad)
    assert refused.value.row == 7
    with pytest.raises(SchemaError, match="text"):
        windows.learn_one({0: "x", 1: 2.0})
    assert windows.to_bytes() == before


@pytest.mark.parametrize(
    ("options", "words"), [({"period": 2}, "period must be"), ({"warmup": 63}, "warmup must be")]
)
def test_bad_options_are_named(options, words):
    with pytest.raises(ConfigError, match=words):
        WindowFeatures(**options)


def test_checkpoint_files(tmp_path):
    windows = WindowFeatures()
    windows.step_many(waves(400))
    windows.save(tmp_path / "windows.state")
    assert WindowFeatures.load(tmp_path / "windows.state").to_bytes() == windows.to_bytes()
    with pytest.raises(CheckpointError):
        WindowFeatures.from_bytes(SeqDDCRP().to_bytes())


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


def test_river_checks():
    checks.check_estimator(WindowFeatures())
    checks.check_estimator(WindowFeatures(period=4))
