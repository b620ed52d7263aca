"""The detector: river's checks, same bits for any cutting and restart, and what it is for."""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import checks
from river.checks import common

from streamddcrp import Alarm, RegimeAnomalyDetector, SeqDDCRP
from streamddcrp.errors import CheckpointError, ConfigError, SchemaError
from tests.conformance.test_river import DATA_CHECKS

GAUSSIAN = ("normal_gamma", 0.0, 0.05, 1.5, 0.5)
DETECTORS = {
    "default": RegimeAnomalyDetector,
    "reference": lambda: RegimeAnomalyDetector(
        SeqDDCRP(likelihood=GAUSSIAN, warmup=10, window=12), rate=0.05, reference_after=40
    ),
    "reference, averaged": lambda: RegimeAnomalyDetector(
        SeqDDCRP(likelihood=("autoregression", 2), warmup=15, window=10),
        rate=0.05,
        average=4,
        reference_after=33,
    ),
    "averaged": lambda: RegimeAnomalyDetector(
        SeqDDCRP(likelihood=GAUSSIAN, window=8), rate=0.1, average=3
    ),
}


class Offline:
    """Five features in three levels; every fiftieth row is odd. Stands for river's download."""

    def __init__(self, n):
        rng = random.Random(0)
        self.rows = []
        for t in range(n):
            odd = t % 50 == 49
            center = 60.0 if odd else 3.0 * (t % 3)
            self.rows.append(({f"x{j}": rng.gauss(center, 1) for j in range(5)}, int(odd)))

    def __iter__(self):
        return iter(self.rows)


@pytest.mark.parametrize("name", DETECTORS)
def test_check_estimator(name, monkeypatch):
    monkeypatch.setattr(checks, "_yield_datasets", lambda model, scale=1: [Offline(100 * scale)])
    names = {check.__name__ for check in checks.yield_checks(DETECTORS[name]())}
    assert {"check_roc_auc", "check_bounded_memory_growth"} <= names
    checks.check_estimator(DETECTORS[name]())


@pytest.mark.parametrize("check", DATA_CHECKS)
@pytest.mark.parametrize("name", DETECTORS)
def test_data_checks(name, check):
    getattr(common, check)(DETECTORS[name](), Offline(300))


def stream(seed, n=120):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) + np.repeat(rng.normal(0, 5, (4, 2)), n // 4, axis=0)
    X[n // 2 : n // 2 + 10] += 50.0
    return X


@pytest.mark.parametrize("name", DETECTORS)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1), clocked=st.booleans())
def test_any_cutting_and_any_restart_give_the_same_bits(name, data, seed, clocked):
    X = stream(seed)
    t = np.cumsum(np.random.default_rng(seed).exponential(size=len(X))) if clocked else None
    whole = DETECTORS[name]()
    expected = whole.step_many(X, t)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(X)), max_size=5)))
    detector, parts = DETECTORS[name](), []
    for a, b in zip([0, *cuts], [*cuts, len(X)], strict=True):
        parts.append(detector.step_many(X[a:b], None if t is None else t[a:b]))
        if data.draw(st.booleans()):
            detector = RegimeAnomalyDetector.from_bytes(detector.to_bytes())
    assert pa.Table.from_batches(parts).combine_chunks().to_batches()[0].equals(expected)
    assert detector.to_bytes() == whole.to_bytes()


@pytest.mark.parametrize("name", DETECTORS)
def test_forms_of_a_batch_agree(name):
    X = stream(6)
    expected = DETECTORS[name]().step_many(X)
    table = pa.table({"b": X[:, 1], "a": X[:, 0]})
    swapped = pa.table({"a": X[:, 0], "b": X[:, 1]})
    out = DETECTORS[name]().step_many(table, np.arange(120.0))
    assert out.equals(DETECTORS[name]().step_many(swapped.to_reader(), np.arange(120)))
    assert DETECTORS[name]().step_many(X.tolist()).equals(expected)


@pytest.mark.parametrize("name", DETECTORS)
def test_step_many_is_score_then_learn(name):
    X = stream(1)
    detector, twin = DETECTORS[name](), DETECTORS[name]()
    for i, row in enumerate(detector.step_many(X).to_pylist()):
        x = dict(enumerate(X[i].tolist()))
        assert twin.threshold == row["threshold"]
        score = twin.score_one(x)
        assert score == (0.0 if row["score"] is None else row["score"])
        assert row["alarm"] == (score > twin.threshold)
        twin.learn_one(x)
    assert twin.to_bytes() == detector.to_bytes()


@pytest.mark.parametrize("bad", [10, 45, 80])
@pytest.mark.parametrize("cut", [0, 35, 40, 60])
def test_a_refused_batch_changes_nothing(cut, bad):
    detector = DETECTORS["reference"]()
    X = stream(2)
    detector.learn_many(X[:cut])
    before, model = detector.to_bytes(), detector.model
    X[bad, 1] = np.nan
    if bad < cut:
        return
    with pytest.raises(SchemaError, match="column 1"):
        detector.step_many(X[cut:])
    assert detector.to_bytes() == before
    assert detector.model is model
    assert model.n_seen == cut


def small_shift(n_odd=400):
    """One regime; then for a while 0.9 standard deviations off in each of eight columns."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2000, 8))
    X[1200 : 1200 + n_odd] += 0.9
    return X


def test_an_anomaly_that_lasts_is_seen_as_long_as_it_lasts():
    X = small_shift()
    alarm = {}
    for name, options in {
        "reference": {"reference_after": 500, "average": 20},
        "own": {"average": 20},
    }.items():
        out = RegimeAnomalyDetector(**options).step_many(X)
        alarm[name] = out["alarm"].to_numpy(zero_copy_only=False)
    inside = slice(1220, 1600)
    assert alarm["reference"][inside].mean() > 0.8
    assert alarm["own"][inside].mean() < 0.2
    assert alarm["reference"][:1200].sum() + alarm["reference"][1620:].sum() < 40


def test_a_new_reference_ends_an_alarm():
    X = small_shift(800)
    detector = RegimeAnomalyDetector(average=20, reference_after=500)
    detector.learn_many(X[:1400])
    assert detector.step_many(X[1400:1450])["alarm"].to_numpy(zero_copy_only=False).mean() > 0.8
    detector.take_reference()
    assert detector.threshold == np.inf
    assert not detector.step_many(X[1450:1900])["alarm"].to_numpy(zero_copy_only=False).any()


def test_a_model_that_has_learned_may_be_handed_over():
    X = stream(4)
    model = SeqDDCRP(warmup=20)
    model.learn_many(X)
    detector = RegimeAnomalyDetector(model, reference_after=50)
    expected = Alarm(0.001).step_many(model.reference().score_many(X))
    assert detector.step_many(X)["score"].to_numpy().tolist() == expected.score.tolist()


def test_files_and_bad_options(tmp_path):
    detector = DETECTORS["reference, averaged"]()
    detector.learn_many(stream(5))
    detector.save(tmp_path / "detector.state")
    restored = RegimeAnomalyDetector.load(tmp_path / "detector.state")
    assert restored.to_bytes() == detector.to_bytes()
    with pytest.raises(CheckpointError, match="Alarm"):
        Alarm.from_bytes(detector.to_bytes())
    with pytest.raises(ConfigError, match="reference_after"):
        RegimeAnomalyDetector(reference_after=5)
    with pytest.raises(ConfigError, match="rate"):
        RegimeAnomalyDetector(rate=1.0)
