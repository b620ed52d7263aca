"""A scaler that learns as it goes, in front of the model, is noticed, and nothing else."""

import logging

import numpy as np
import pytest
from river import preprocessing

from streamddcrp import SeqDDCRP
from streamddcrp.data.scaled import looks_scaled_on_the_way

SCALERS = {
    "spread": preprocessing.StandardScaler,
    "fading spread": preprocessing.AdaptiveStandardScaler,
    "range": preprocessing.MinMaxScaler,
}


def scaled(scaler, X):
    """Return rows as a river pipeline hands them on: each is learned, then transformed."""
    rows = []
    for row in X.tolist():
        x = dict(enumerate(row))
        scaler.learn_one(x)
        rows.append(list(scaler.transform_one(x).values()))
    return np.array(rows)


def streams(rng, n=64):
    """Return streams of data as people have them, the last four with awkward first rows."""
    level = np.repeat([0.0, 6.0, 2.0, 6.0], n // 4)[:, None]
    plain = {
        "regimes": level + rng.normal(size=(n, 3)),
        "one column": level + rng.normal(size=(n, 1)),
        "walk": rng.normal(size=(n, 2)).cumsum(axis=0),
        "skewed": rng.lognormal(size=(n, 2)),
    }
    idle = plain["regimes"].copy()
    idle[:2] = 0.0
    flags = (rng.random((n, 3)) < 0.5).astype(float)
    flags[:2] = [[0.0] * 3, [1.0] * 3]
    counts = rng.poisson(3.0, (n, 2)).astype(float)
    counts[:2] = [[0.0] * 2, [1.0] * 2]
    shares = np.round(rng.random((n, 1)), 1)
    shares[:2, 0] = 0.0, 1.0
    return plain, {"idle": idle, "flags": flags, "counts": counts, "rounded shares": shares}


@pytest.mark.parametrize("name", SCALERS)
@pytest.mark.parametrize("seed", range(5))
def test_scalers_that_learn_as_they_go_are_noticed(name, seed):
    plain, _ = streams(np.random.default_rng(seed))
    for kind, X in plain.items():
        if X.shape[1] > 1 or name == "spread":
            assert looks_scaled_on_the_way(scaled(SCALERS[name](), X)), kind


@pytest.mark.parametrize("seed", range(5))
def test_data_and_rows_scaled_beforehand_are_not_taken_for_it(seed):
    plain, odd = streams(np.random.default_rng(seed))
    for kind, X in (plain | odd).items():
        assert not looks_scaled_on_the_way(X), kind
        assert not looks_scaled_on_the_way((X - X.mean(axis=0)) / X.std(axis=0)), kind
        assert not looks_scaled_on_the_way((X - X.min(axis=0)) / np.ptp(X, axis=0)), kind


def test_the_log_says_so_once(caplog):
    X = np.random.default_rng(1).normal(size=(300, 2)) + 5.0
    with caplog.at_level(logging.WARNING, logger="streamddcrp"):
        SeqDDCRP().step_many(X)
        assert not caplog.records
        model = SeqDDCRP()
        model.learn_many(scaled(preprocessing.StandardScaler(), X))
    assert ["they came from a scaler" in record.message for record in caplog.records] == [True]
