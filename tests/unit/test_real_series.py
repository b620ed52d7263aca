"""The published scores of saying nothing tell whether real series and scores are read rightly."""

import numpy as np
import pytest
from river import drift

from benchmarks import real_data
from benchmarks.change_peers import bocd, detector
from benchmarks.change_scores import covering, f1
from benchmarks.real_series import by_rows, by_windows, halves


@pytest.fixture
def _stored(shared_data, monkeypatch):
    monkeypatch.setattr(real_data, "DATA", shared_data)


@pytest.mark.usefixtures("_stored")
def test_no_change_on_tcpd():
    data = real_data.tcpd()
    assert [len(series.changes) for series in data] == [5] * 16
    cover = [np.mean([covering(c, [], len(s.X)) for c in s.changes]) for s in data]
    score = [f1(s.changes, [], 5) for s in data]
    assert np.mean(cover) == pytest.approx(0.595, abs=5e-4)
    assert np.mean(score) == pytest.approx(0.680, abs=5e-4)


@pytest.mark.usefixtures("_stored")
def test_no_change_on_tssb():
    data = real_data.tssb()
    assert len(data) == 38
    cover = [covering(s.changes[0], [], len(s.X)) for s in data]
    assert np.mean(cover) == pytest.approx(0.409, abs=5e-4)
    for series in data:
        assert set(np.flatnonzero(np.diff(series.states)) + 1) <= set(series.changes[0])


@pytest.mark.usefixtures("_stored")
def test_anomalies_are_where_they_belong():
    runs = real_data.skab()
    assert [run.X.shape[1] for run in runs] == [8] * 17
    assert [bool(run.anomaly[:400].any()) for run in runs] == [False] * 17
    assert [bool(run.anomaly.any()) for run in runs] == [True] * 16 + [False]
    assert sum(series.anomaly.any() for series in real_data.nab()) == 13
    (room,) = real_data.occupancy()
    assert len(room.changes[0]) == 66


def test_a_plain_shift_is_found_by_everyone():
    X = np.random.default_rng(0).normal(size=(300, 1))
    X[150:] += 8.0
    for found in by_rows(X, {})[0], detector(drift.PageHinkley, X), bocd(X):
        assert any(abs(row - 150) <= 30 for row in found), found


def test_a_change_of_shape_is_placed_by_windows():
    time = np.arange(4000.0)
    X = np.sin(2 * np.pi * time / 20)[:, None]
    X[2000:] = np.sign(X[2000:])
    X += 0.1 * np.random.default_rng(0).normal(size=X.shape)
    found, labels = by_windows(X, {"likelihood": ("normal_gamma", 0.0, 0.05, 1.5, 1.5)})
    assert len(labels) == 4000
    assert len(found) == 1
    assert abs(found[0] - 2000) <= 40


def test_halves():
    values = np.array([1.0, 2.0, 3.0])
    assert halves(lambda part: float(values[part].mean()), ".1f") == "2.0 (2.0, 2.0)"
