"""RegimeAnomalyDetector: what it is for."""

import numpy as np
import pytest
from river import checks

from streamddcrp import Alarm, RegimeAnomalyDetector, SeqDDCRP
from streamddcrp.errors import SchemaError
from tests.conformance.streams import jumps

GAUSSIAN = ("normal_gamma", 0.0, 0.05, 1.5, 0.5)


def test_alarms_are_checked_by_river():
    names = {check.__name__ for check in checks.yield_checks(RegimeAnomalyDetector())}
    assert {"check_roc_auc", "check_bounded_memory_growth"} <= names


@pytest.mark.parametrize("cut", [0, 35, 40, 60])
def test_a_refused_batch_leaves_the_model_that_was_handed_over(cut):
    model, X = SeqDDCRP(likelihood=GAUSSIAN, warmup=10, window=12), jumps(2).rows
    detector = RegimeAnomalyDetector(model, rate=0.05, reference_after=40)
    detector.learn_many(X[:cut])
    before = detector.to_bytes()
    for bad in {10, 45, 80, 100} - set(range(cut)):
        rows = X[cut:].copy()
        rows[bad - cut, 1] = np.inf
        with pytest.raises(SchemaError, match="column 1"):
            detector.step_many(rows)
        assert detector.to_bytes() == before
        assert detector.model is model
        assert model.n_seen == cut


def test_a_refused_row_behind_the_reference_is_named():
    X = jumps(2).rows
    X[60, 1] = np.inf
    with pytest.raises(SchemaError, match="row 60, column 1"):
        RegimeAnomalyDetector(reference_after=40).learn_many(X)


@pytest.mark.parametrize("column", [0, 1])
def test_later_failures_are_heard_as_the_first(column):
    """One during the first and others after it; of column 1 all are of one kind."""
    X, begins = np.random.default_rng(5).normal(size=(1900, 2)), [*range(1100, 1600, 100)]
    X[1100:1140, 1] += 8.0
    for begin in begins[1:]:
        X[begin : begin + 4, column] += 8.0
    if column == 0:
        begins.append(1145)
        X[1140:1170, 1] += 8.0
        X[1145:1170, 0] += 8.0
    out = SeqDDCRP(likelihood=GAUSSIAN).step_many(X)
    began = np.flatnonzero(Alarm(1e-3).step_many(out["score"], labels=out["label"]).began)
    assert all(((begin <= began) & (began < begin + 2)).any() for begin in begins)
    assert len(began) <= len(begins) + 3  # 1.6 are expected


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
    X = jumps(4).rows
    model = SeqDDCRP(warmup=20)
    model.learn_many(X)
    detector = RegimeAnomalyDetector(model, reference_after=50)
    expected = Alarm(0.001).step_many(model.reference().score_many(X))
    assert detector.step_many(X)["score"].to_numpy().tolist() == expected.score.tolist()


@pytest.mark.parametrize("cut", [300, 1])
def test_one_false_alarm_in_so_many_rows_or_in_a_time(cut):
    """An alarm's rate may be said as what it is: the same by rows, by times, and when loaded."""
    X = np.random.default_rng(5).normal(size=(900, 1))
    minutes = 60.0 * np.arange(900)
    found = []
    for options in ({"rate": 0.01}, {"per": "100 rows"}, {"per": "100min"}):
        detector = RegimeAnomalyDetector(SeqDDCRP(likelihood="normal_gamma"), **options)
        out = detector.step_many(X[:600], minutes[:600]).to_pylist()
        detector = RegimeAnomalyDetector.from_bytes(detector.to_bytes())
        assert detector.per == options.get("per")
        for a in range(600, 900, cut):
            out += detector.step_many(X[a : a + cut], minutes[a : a + cut]).to_pylist()
        found.append([(row["threshold"], row["began"], row["ended"]) for row in out])
    assert found[0] == found[1]
    began, ended = (sum(row[k] for row in found[2]) for k in (1, 2))
    assert 2 <= began <= 12
    assert 0 <= began - ended <= 1
    with pytest.raises(SchemaError, match="per='100min' is a time"):
        detector.learn_one({0: 1.0})
    assert detector._model.n_seen == 900
