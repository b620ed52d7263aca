"""EmbeddingStream: stories as directions, enumeration of the formula."""

import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.metrics import adjusted_rand_score

from streamddcrp import EmbeddingStream
from streamddcrp.errors import SchemaError


def stream(seed, n=240, d=64, noise=0.04):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 3, n) + (np.arange(n) > 120)
    return np.eye(d)[label] + rng.normal(0.0, noise, (n, d)), label


def test_stories_are_found():
    X, label = stream(0, 600)
    model = EmbeddingStream(lag=50)
    model.learn_many(X)
    reported = model.final_labels(window=True)
    assert reported["row"].to_pylist() == list(range(600))
    assert adjusted_rand_score(label, reported["label"].to_numpy()) > 0.98
    assert model.n_tables == model.summary().num_rows


@pytest.mark.parametrize("clocked", [False, True])
def test_births_and_ends_are_told(clocked):
    X = np.eye(64)[np.repeat([0, 1, 2], 200)] + np.random.default_rng(0).normal(0, 0.04, (600, 64))
    t = 1e9 + 7.0 * np.arange(600) if clocked else None
    model, events, finals = EmbeddingStream(lag=20, decay=10.0), [], []
    for a in range(0, 600, 50):
        out = model.step_many(X[a : a + 50], None if t is None else t[a : a + 50])
        finals += [label for label in out["final_label"].to_pylist() if label is not None]
        events += model.events()
        model = EmbeddingStream.from_bytes(model.to_bytes())
    assert model.events() == []
    births = {event.label: event for event in events if event.kind == "birth"}
    closed = {event.label: event for event in events if event.kind == "closed"}
    candidates = {event.label: event for event in events if event.kind == "candidate"}
    assert len(candidates) + len(births) + len(closed) == len(events)
    assert {i for i in finals if finals.count(i) >= 3} <= set(births)
    assert all(birth.size == 3 for birth in births.values())
    assert all(candidates[i].size == 2 for i in births)
    assert all(candidates[i].index < birth.index for i, birth in births.items())
    assert set(closed) >= set(births) - set(model.summary()["id"].to_pylist())
    large = np.flatnonzero(np.bincount(finals) >= 150).tolist()
    assert len(large) == 3
    rows = np.array(finals)
    for label in large[:2]:
        first, last = np.flatnonzero(rows == label)[[0, -1]].tolist()
        assert births[label].first <= first
        assert births[label].index == first + 2
        assert (closed[label].last, closed[label].size) == (last, len(rows[rows == label]))
        for event in births[label], closed[label]:
            assert event.t == (event.index if t is None else t[event.index])


def log_density(X, rho):
    """Log density of vectors of one story: the mean is summed out of each dimension."""
    m, D = X.shape
    cov = (rho + (1.0 - rho) * np.eye(m)) / D
    return multivariate_normal(np.zeros(m), cov).logpdf(X.T).sum()


def common(seed, n, d, cosine, noise=0.3, n_stories=12):
    """Vectors of stories that come in turn, all with a direction in common; and their stories."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(n_stories, d))
    means *= math.sqrt((1.0 - cosine) / d)
    means[:, 0] += math.sqrt(cosine)
    y = rng.integers(0, n_stories, n)
    return means[y] + rng.normal(0.0, noise / math.sqrt(d), (n, d)), y


@pytest.mark.parametrize("rho", [0.2, 0.4])
@pytest.mark.parametrize("cosine", [0.0, 0.5])
def test_probabilities_are_those_of_the_gaussian(rho, cosine):
    """P(x | k) = P(x, X_k) / P(X_k), by scipy, with temper 1."""
    X = common(3, 110, 32, cosine)[0] if cosine else stream(3, 60, d=8, noise=0.2)[0]
    (n, D), alpha = X.shape, 3.0
    model = EmbeddingStream(lag=200, decay=40.0, alpha=alpha, rho=rho, temper=1.0)
    model.learn_many(X)
    labels = model.final_labels(window=True)["label"].to_numpy()
    mu = model.background
    b = float(mu @ mu)
    assert (b > 0.15) == (cosine > 0.0)
    unit = (X / np.linalg.norm(X, axis=1)[:, None] - mu) / math.sqrt(1.0 - b)
    x = unit[5:6]

    def joint(rows):
        return log_density(rows, rho)

    weights = {-1: alpha * math.exp(joint(x))}
    for k in sorted(set(labels.tolist())):
        own = np.flatnonzero(labels == k)
        like = math.exp(joint(np.vstack([unit[own], x])) - joint(unit[own]))
        weights[k] = np.exp(-(n - own) / 40.0).sum() * like
    total = sum(weights.values())
    got = model.predict_proba_one(dict(enumerate(X[5].tolist())))
    assert got == pytest.approx({k: w / total for k, w in weights.items()}, rel=1e-6, abs=1e-12)
    log_predictive = math.log(total / (alpha + np.exp(-(n - np.arange(n)) / 40.0).sum()))
    log_predictive -= 0.5 * D * math.log1p(-b)  # of x, not of x'
    alone = log_density(unit[5:6] * math.sqrt(1.0 - b) + mu, 0.4)  # any rho
    assert model.score_one(dict(enumerate(X[5].tolist()))) == pytest.approx(
        alone - log_predictive, rel=1e-6
    )


def test_stories_are_found_behind_a_common_direction_which_is_reported():
    X, y = common(0, 1_500, 100, 0.5)
    model = EmbeddingStream()
    model.learn_many(X)
    found = model.final_labels(window=True)["label"].to_numpy()
    assert adjusted_rand_score(y, found) > 0.95
    mu = model.background
    assert mu[0] / np.linalg.norm(mu) > 0.95
    assert 0.3 < mu @ mu < 0.6
    again = EmbeddingStream.from_bytes(model.to_bytes())
    np.testing.assert_array_equal(again.background, mu)


def test_a_few_stories_are_no_background():
    X, _ = stream(1, 600, d=64, noise=0.04)
    model = EmbeddingStream(lag=50)
    model.learn_many(X)
    assert not model.background.any()
    one = np.eye(64)[:1] + np.random.default_rng(2).normal(0.0, 0.1, (600, 64))
    for lag, other in ((50, one), (4, one), (50, X[:1] + np.zeros((300, 1)))):
        model = EmbeddingStream(lag=lag)  # nor is one story, or one vector
        model.learn_many(other)
        assert not model.background.any()


def test_a_decay_in_time_is_one_in_texts_where_they_come_evenly():
    X, _ = stream(2, 400, d=64, noise=0.2)
    by_count = EmbeddingStream(lag=50, decay=60.0, alpha=4.0)
    by_time = EmbeddingStream(lag=50, decay=("time", 180.0), alpha=4.0)
    a, b = by_count.step_many(X), by_time.step_many(X, 3.0 * np.arange(400))
    assert a["label"].equals(b["label"])
    assert a["final_label"].equals(b["final_label"])
    np.testing.assert_allclose(a["score"].to_numpy(), b["score"].to_numpy(), rtol=1e-9, atol=1e-9)
    with pytest.raises(SchemaError, match="the decay is a time"):
        EmbeddingStream(decay="1h").learn_many(X)


def test_a_decay_that_is_learned_follows_how_long_stories_last():
    rng = np.random.default_rng(4)
    scales = []
    for span in (60, 1_000):
        y = np.arange(4_000) // span * 4 + rng.integers(0, 4, 4_000)
        means = rng.normal(0.0, math.sqrt(0.5 / 64), (y.max() + 1, 64))
        model = EmbeddingStream(decay=None)
        model.learn_many(means[y] + rng.normal(0.0, math.sqrt(0.5 / 64), (4_000, 64)))
        scales.append(model.decay_scale)
    assert scales[0] < 0.5 * scales[1]


def test_what_is_kept_of_a_story_is_that_of_its_vectors():
    X, _ = stream(6, 300, noise=0.2)
    model = EmbeddingStream(lag=200, decay=100.0)
    model.learn_many(X)
    reported = model.summary().to_pylist()
    labels = model.final_labels(window=True)["label"].to_numpy()
    unit = X / np.linalg.norm(X, axis=1)[:, None]
    for row in reported:
        own = unit[labels == row["id"]]
        assert row["rows"] == len(own)
        products = (own @ own.T)[np.triu_indices(len(own), 1)]
        if len(own) == 1:
            assert row["cosine"] is None
        else:
            assert row["cosine"] == pytest.approx(products.mean(), abs=1e-9)


@pytest.mark.parametrize("rho", [0.2, 0.4, 0.7])
def test_stories_are_found_whatever_the_cosine_within(rho):
    rng = np.random.default_rng(0)
    label = rng.integers(0, 15, 1_500) + (np.arange(1_500) > 700) * 8
    means = rng.normal(0.0, math.sqrt(rho / 384), (23, 384))
    X = means[label] + rng.normal(0.0, math.sqrt((1.0 - rho) / 384), (1_500, 384))
    model = EmbeddingStream()
    model.learn_many(X)
    reported = model.final_labels(window=True)["label"].to_numpy()
    assert adjusted_rand_score(label, reported) > 0.98


@pytest.mark.parametrize(("n_stories", "cosine"), [(5, 0.2), (5, 0.3), (50, 0.3)])
def test_stories_that_no_pair_of_vectors_speaks_for_are_found(n_stories, cosine):
    """Two vectors say .5 nats, a story of one weighs log 30 more than another vector."""
    rng = np.random.default_rng(1)
    label = rng.integers(0, n_stories, 2_000)
    X = rng.normal(0.0, math.sqrt(cosine / 100), (n_stories, 100))[label]
    X += rng.normal(0.0, math.sqrt((1.0 - cosine) / 100), X.shape)
    model = EmbeddingStream()
    model.learn_many(X)
    reported = model.final_labels(window=True)["label"].to_numpy()
    assert adjusted_rand_score(label, reported) > 0.95


def test_a_scale_says_how_broad_a_story_is():
    """Twenty stories in four topics: cosines of .4 within a story, of .15 within a topic."""
    rng = np.random.default_rng(3)
    label = rng.integers(0, 20, 2_000)
    X = rng.normal(0.0, math.sqrt(0.15 / 200), (4, 200))[label % 4]
    X += rng.normal(0.0, math.sqrt(0.25 / 200), (20, 200))[label]
    X += rng.normal(0.0, math.sqrt(0.6 / 200), X.shape)
    found = {}
    for scale in ("event", "topic"):
        model = EmbeddingStream(scale=scale)
        model.learn_many(X)
        found[scale] = model.final_labels(window=True)["label"].to_numpy()
    assert adjusted_rand_score(label, found["event"]) > 0.95
    assert len(set(found["topic"].tolist())) < len(set(found["event"].tolist()))


def test_a_huge_vector_is_only_a_direction():
    model, twin = EmbeddingStream(lag=20), EmbeddingStream(lag=20)
    X, _ = stream(5)
    model.learn_many(X * 2.0**600)
    twin.learn_many(X)
    assert model.final_labels().equals(twin.final_labels())


def test_a_vector_of_zeros_has_no_story():
    rng = np.random.default_rng(5)
    X = np.tile(np.eye(64)[:3], (40, 1)) + rng.normal(0.0, 0.04, (120, 64))
    empty = np.flatnonzero(rng.random(120) < 0.2)
    with_zeros = X.copy()
    with_zeros[empty] = 0.0
    model = EmbeddingStream(lag=20)
    out = model.step_many(with_zeros)
    label = out["label"].to_numpy()
    assert set(label[empty].tolist()) == {-1}
    assert np.isnan(out["label_prob"].to_numpy(zero_copy_only=False)[empty]).all()
    assert (out["score"].to_numpy()[empty] == 0.0).all()
    final = model.final_labels(window=True)["label"].to_numpy()
    assert np.array_equal(final == -1, np.isin(np.arange(120), empty))
    assert model.n_tables == 3
    assert model.predict_one(dict(enumerate(np.zeros(64)))) == -1
    probs = model.predict_proba_one(dict(enumerate(np.zeros(64))))
    assert sum(probs.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(("factor", "told"), [(1.0, False), (1e6, True)])
def test_a_column_that_decides_alone_is_told_of(caplog, factor, told):
    X = np.random.default_rng(0).normal(size=(100, 8))
    X[:, 3] *= factor
    EmbeddingStream().learn_many(X)
    assert ("column '3' makes up 100%" in caplog.text) == told
