"""Streams of vectors: same bits in any cutting, enumeration of the formula, clear errors."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import checks
from scipy.stats import multivariate_normal
from sklearn.metrics import adjusted_rand_score

from streamddcrp.errors import CheckpointError, ConfigError, SchemaError
from streamddcrp.estimators.embedding_stream import EmbeddingStream


def stream(seed, n=240, d=64, noise=0.04):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 3, n) + (np.arange(n) > 120)
    return np.eye(d)[label] + rng.normal(0.0, noise, (n, d)), label


def test_river():
    checks.check_estimator(EmbeddingStream(lag=20))


def test_stories_are_found():
    X, label = stream(0, 600)
    model = EmbeddingStream(lag=50)
    model.learn_many(X)
    told = model.final_labels(window=True)
    assert told["row"].to_pylist() == list(range(600))
    assert adjusted_rand_score(label, told["label"].to_numpy()) > 0.98
    assert model.n_tables == model.summary().num_rows


@given(data=st.data(), seed=st.integers(0, 2**32 - 1), rho=st.sampled_from([None, 0.3]))
@settings(max_examples=10)
def test_any_cutting_and_any_restart_give_the_same_bits(data, seed, rho):
    X, _ = stream(seed, noise=0.1)
    options = {"lag": 30, "decay": 40.0, "rho": rho}
    whole = EmbeddingStream(**options)
    expected = whole.step_many(X)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(X)), max_size=4)))
    model, parts = EmbeddingStream(**options), []
    for a, b in zip([0, *cuts], [*cuts, len(X)], strict=True):
        parts.append(model.step_many(X[a:b]))
        model.predict_one(dict(enumerate(X[0].tolist())))
        if data.draw(st.booleans()):
            model = EmbeddingStream.from_bytes(model.to_bytes())
    assert pa.Table.from_batches(parts).combine_chunks().to_batches()[0].equals(expected)
    assert model.to_bytes() == whole.to_bytes()


def test_probabilities_are_those_of_the_gaussian():
    """P(x | k) is N(v S, (1 + v) / kappa I): by scipy, with temper 1."""
    X, _ = stream(3, 60, d=8, noise=0.2)
    rho, alpha = 0.4, 3.0
    model = EmbeddingStream(lag=100, decay=40.0, alpha=alpha, rho=rho, temper=1.0)
    labels = np.array(model.step_many(X)["label"].to_pylist())
    unit = X / np.linalg.norm(X, axis=1)[:, None]
    x, D = unit[5], X.shape[1]
    sigma, kappa = (1 - rho) / rho, D / (1 - rho)
    weights = {}
    for k in sorted(set(labels.tolist())):
        own = np.flatnonzero(labels == k)
        v = 1.0 / (len(own) + sigma)
        like = multivariate_normal(v * unit[own].sum(axis=0), (1 + v) / kappa * np.eye(D)).pdf(x)
        weights[k] = np.exp(-(60 - own) / 40.0).sum() * like
    v = 1.0 / sigma
    weights[-1] = alpha * multivariate_normal(np.zeros(D), (1 + v) / kappa * np.eye(D)).pdf(x)
    total = sum(weights.values())
    got = model.predict_proba_one(dict(enumerate(X[5].tolist())))
    assert got == pytest.approx({k: w / total for k, w in weights.items()}, rel=1e-6, abs=1e-12)


def test_what_is_refused_changes_nothing():
    model = EmbeddingStream(lag=20)
    X, _ = stream(4)
    model.learn_many(X[:50])
    before = model.to_bytes()
    for bad in (0.0, math.inf, math.nan):
        rows = X[50:55].copy()
        rows[2] = bad
        with pytest.raises(SchemaError, match="row 2"):
            model.learn_many(rows)
    with pytest.raises(SchemaError, match="missing"):
        model.learn_one({0: 1.0})
    assert model.to_bytes() == before
    with pytest.raises(CheckpointError):
        EmbeddingStream.from_bytes(before[:-1])
    for bad in ({"rho": 1.0}, {"temper": 0.0}, {"lag": 0}, {"decay": -1.0}, {"alpha": 0.0}):
        with pytest.raises(ConfigError, match=next(iter(bad))):
            EmbeddingStream(**bad)


def test_a_huge_vector_is_only_a_direction():
    model, twin = EmbeddingStream(lag=20), EmbeddingStream(lag=20)
    X, _ = stream(5)
    model.learn_many(X * 2.0**600)
    twin.learn_many(X)
    assert model.final_labels().equals(twin.final_labels())
