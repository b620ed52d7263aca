"""Dirichlet-multinomial texts in the temporal mixture: dense arithmetic and known streams."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.special import digamma, gammaln
from sklearn.metrics import adjusted_rand_score

from streamddcrp.models.temporal.batch import whole_window as whole
from streamddcrp.models.temporal.emissions import each
from streamddcrp.models.temporal.emissions.bags import Bags, as_rows
from streamddcrp.models.temporal.emissions.text import TextDecay, TextStats
from streamddcrp.models.temporal.engine import Engine
from streamddcrp.models.temporal.kernels.splits import split_gains, split_rows
from streamddcrp.models.temporal.moves import move
from streamddcrp.models.temporal.window import Settings

KAPPA = tuple(np.exp(-np.arange(1, 5) / 2.0))


def gen_text(seed, length, V=200, T=30, N=60):
    """Epochs of documents, half of their words from a topic that was born and may die."""
    g = np.random.default_rng(seed)
    live, w, born, epochs = {}, {}, 0, []
    for _ in range(T):
        for k in live:
            w[k] *= np.exp(0.2 * g.standard_normal())
        for k in sorted(live):
            if len(live) > 3 and g.random() < 0.05:
                del live[k], w[k]
        while len(live) < 3 or (len(live) < 8 and g.random() < 0.15):
            live[born] = g.dirichlet(np.full(V, 0.05))
            w[born] = g.gamma(3.0)
            born += 1
        ids = np.array(sorted(live))
        p = np.array([w[k] for k in ids])
        z = g.choice(len(ids), size=N, p=p / p.sum())
        X = np.stack([g.multinomial(length, 0.5 * live[ids[j]] + 0.5 / V) for j in z])
        epochs.append((X, ids[z]))
    return epochs


def labels_after_lag(engine, epochs):
    """Labels of all rows as they leave the window, or at the end."""
    found = []
    for X in epochs:
        if len(engine.rows) > engine.settings.lag:
            found.append(engine.ids[engine.resp[0].argmax(axis=1)])
        engine.learn(X)
    return found + [engine.ids[q.argmax(axis=1)] for q in engine.resp]


def quality(seeds, length, emission, lag=2):
    """Return the mean ARI of epochs and of all rows."""
    each, pooled = [], []
    for seed in seeds:
        stream = gen_text(seed, length)
        engine = Engine(Settings(1.0, KAPPA, lag=lag), emission)
        found = labels_after_lag(engine, [sparse.csr_array(X) for X, _ in stream])
        each += [adjusted_rand_score(z, a) for (_, z), a in zip(stream, found, strict=True)]
        y = np.concatenate([z for _, z in stream])
        pooled.append(adjusted_rand_score(y, np.concatenate(found)))
    return np.mean(each), np.mean(pooled)


def rise(a, x):
    return gammaln(a + x) - gammaln(a)


def dcm(x, S, prior):
    """Log evidence of counts after counts S, last axis words."""
    return rise(prior + S, x).sum(axis=-1) - rise((prior + S).sum(axis=-1), x.sum(axis=-1))


@pytest.fixture
def window():
    """Rows, assignments and what was before: three epochs, four components, eleven words."""
    g = np.random.default_rng(0)
    rows = [g.poisson(0.7, (n, 11)) * g.integers(1, 3, (n, 1)) for n in (6, 5, 7)]
    drawn = [g.dirichlet(np.full(4, 0.3), len(X)) for X in rows]
    kept = [np.where(q < 0.01, 0.0, q) for q in drawn]
    resp = [q / q.sum(axis=1, keepdims=True) for q in kept]
    starts = g.gamma(0.5, 2.0, (4, 11)) * (g.random((4, 11)) < 0.4)
    return rows, resp, starts


def smoothed(emission, window):
    rows, resp, starts = window
    parts = [emission.stats(sparse.csr_array(X), q) for X, q in zip(rows, resp, strict=True)]
    stats = TextStats(*(np.stack(column) for column in zip(*parts, strict=True)))
    before = TextStats(Bags.assigned(sparse.csr_array(starts), np.eye(4)), np.ones(4))
    return emission.smooth(stats, before, np.full(4, -1))


def test_generator():
    total = sum((X * np.arange(200)).sum() for X, _ in gen_text(0, 40))
    assert total == 6406836


def test_oracle_of_the_collapsed_score():
    emission = TextDecay(beta=0.1, n_words=4)
    known = sparse.csr_array([[2.0, 0.5, 0.0, 1.0]])
    before = emission.stats(known, np.ones((1, 1)))
    x = sparse.csr_array([[1.0, 0.0, 2.0, 0.0]])
    stats = TextStats(np.stack([Bags.empty(1)]), np.zeros((1, 1)))
    s = emission.smooth(stats, before, np.array([-1]))
    score = emission.expected(x, s, 0, np.array([-1]), np.zeros((1, 1)))
    assert score[0, 0] == pytest.approx(-6.1905016776, abs=1e-10)


@pytest.mark.parametrize("rho", [1.0, 0.8])
@pytest.mark.parametrize("beta", [0.3, None])
def test_scores_against_dense_arithmetic(window, rho, beta):
    rows, resp, starts = window
    emission = TextDecay(beta=beta, n_words=11, rho=rho, strength=4.0)
    if beta is None:
        emission = emission.learned(None, smoothed(emission, window), np.full(4, -1))
    s = smoothed(emission, window)
    prior, size = emission.prior(11)
    assert size == pytest.approx(prior.sum())
    C = [q.T @ X for q, X in zip(resp, rows, strict=True)]
    for e, (X, q) in enumerate(zip(rows, resp, strict=True)):
        S = rho ** (e + 1) * starts + sum(rho ** abs(e - u) * C[u] for u in range(3))
        own = q[:, :, None] * X[:, None, :]
        expected = dcm(X[:, None, :], np.maximum(S - own, 0.0), prior)
        begins = np.array([-1, e, e + 1, -1])
        found = emission.expected(sparse.csr_array(X), s, e, begins, q)
        assert (found[:, 2] == -np.inf).all()
        np.testing.assert_allclose(found[:, [0, 1, 3]], expected[:, [0, 1, 3]], rtol=1e-10)


def test_the_prior_climbs_the_evidence_and_weighs_ten_rows(window):
    emission = TextDecay(n_words=11, strength=4.0)
    value = -np.inf
    for _ in range(5):
        s = smoothed(emission, window)
        S = s.latest.to_dense(11)
        prior, _ = emission.prior(11)
        now = dcm(S, np.zeros((4, 11)), prior).sum()
        assert now > value - 0.1  # a quarter of a table a word is no part of the evidence
        value = now
        whole = np.floor(S)  # in between the digamma function is taken for straight
        rise = digamma(prior + whole) - digamma(prior) + (S - whole) / (prior + whole)
        tables = (prior * rise).sum(axis=0)
        emission = replace(emission.learned(None, s, np.full(4, -1)), strength=4.0)
        expected = (tables + 0.25) / (tables + 0.25).sum()
        np.testing.assert_allclose(emission.shares, expected, rtol=1e-9)
    rows, _, starts = window
    words = starts.sum() + sum(X.sum() for X in rows)
    found = emission.learned(None, smoothed(emission, window), np.full(4, -1))
    assert found.strength == pytest.approx(10.0 * words / (4 + 18))


@pytest.mark.parametrize("rho", [1.0, 0.8])
def test_evidence_by_brute_force(window, rho):
    rows, resp, starts = window
    emission = TextDecay(beta=0.3, n_words=11, rho=rho)
    s = smoothed(emission, window)
    S = starts
    for e, (X, q) in enumerate(zip(rows, resp, strict=True)):
        C = q.T @ X
        np.testing.assert_allclose(s.log_z[e], dcm(C, rho * S, 0.3 * np.ones(11)), rtol=1e-10)
        S = rho * S + C
        np.testing.assert_allclose(s.after(e).words.to_dense(11), S, atol=1e-12)
    if rho == 1.0:
        whole = dcm(sum(q.T @ X for q, X in zip(resp, rows, strict=True)), starts, np.full(11, 0.3))
        np.testing.assert_allclose(s.log_z.sum(axis=0), whole, rtol=1e-10)
    np.testing.assert_allclose(emission.frozen(s).words.to_dense(11), s.after(0).words.to_dense(11))
    np.testing.assert_allclose(emission.ahead(s, 2).words.to_dense(11), rho**2 * S, atol=1e-12)


def two_topics(n, seed=0):
    """Rows of twenty words of two topics that share half of their words, and which is whose."""
    rng = np.random.default_rng(seed)
    topic = rng.dirichlet(np.full(60, 0.1), 2)
    y = np.arange(n) % 2
    X = [rng.multinomial(20, 0.5 * topic[j] + 0.5 / 60) for j in y]
    return sparse.csr_array(np.stack(X)), y


def test_what_splitting_gains_by_dense_arithmetic():
    X, _ = two_topics(40)
    rng = np.random.default_rng(1)
    emission = TextDecay(beta=0.2, n_words=60)
    own, kept = rng.uniform(0.2, 1.0, 40), rng.poisson(0.5, (1, 60)).astype(float)
    starts = TextStats(Bags.assigned(sparse.csr_array(kept), np.ones((1, 1))), np.ones(1))
    resp = [own[:25, None], own[25:, None]]
    stats = TextStats(Bags.empty(1), np.zeros(1))
    alone = emission.smooth(TextStats(np.stack([stats.words] * 2), np.zeros((2, 1))), starts, None)
    sides = emission.halves([X[:25], X[25:]], resp, 0, alone, 0)
    side = np.concatenate(sides)

    def log_beta(counts):  # log of the integral over laws, by dense arithmetic
        a = counts + 0.2
        return gammaln(a).sum() - gammaln(a.sum())

    C = X.toarray()
    gone, stay = (own * side) @ C, kept[0] + (own * (1.0 - side)) @ C
    none = np.zeros(60)
    gain = log_beta(gone) + log_beta(stay) - log_beta(none) - log_beta(gone + stay)
    found, again = np.empty(1), np.zeros(40)
    rows, bag = as_rows(X), starts.words
    prior, size = emission.prior(60)
    split_gains(rows, own[:, None], 1.0, bag.entries, prior, size, found)
    np.testing.assert_allclose(found[0], gain, rtol=1e-9)
    args = own, np.arange(40), (bag.words, bag.counts), prior, size, np.full(60, -1), again
    np.testing.assert_allclose(split_rows(rows, *args), gain, rtol=1e-9)
    np.testing.assert_array_equal(again, side)


@pytest.mark.parametrize("lag", [0, 2])
def test_two_topics_that_began_as_one_are_split_where_the_objective_rises(lag):
    X, y = two_topics(90)
    rows = [X[:30], X[30:60], X[60:]][-lag - 1 :]
    y = y[90 - sum(len(part.indptr) - 1 for part in rows) :]
    resp = [np.ones((part.shape[0], 1)) for part in rows]
    emission = TextDecay(beta=0.2, n_words=60)
    engine = whole(Settings(1.0, KAPPA), emission, rows, resp, np.zeros(1, int), np.zeros(1, int))
    before = engine.objective().total
    assert move(engine)
    assert engine.objective().total > before + engine.settings.split_margin - 1e-9
    label = np.concatenate([engine.ids[q.argmax(axis=1)] for q in engine.resp])
    assert adjusted_rand_score(y, label) > 0.9
    assert [change.kind for change in engine.changes][:1] == ["split"]


def test_one_topic_is_not_split():
    X, y = two_topics(200)
    rows = [X[y == 0]]
    engine = whole(
        Settings(1.0, KAPPA), TextDecay(beta=0.2, n_words=60), rows, [np.ones((100, 1))],
        np.zeros(1, int), np.zeros(1, int),
    )  # fmt: skip
    assert not move(engine)
    assert engine.n_components == 1


def test_near_components_are_those_that_one_law_might_explain():
    rng = np.random.default_rng(4)
    topic = rng.dirichlet(np.full(12, 0.1), 3)
    laws = np.stack([rng.multinomial(300, topic[k % 3]) for k in range(8)]) * 0.7
    laws[7] = 0.0
    emission = TextDecay(beta=0.1, n_words=12)
    begins = np.array([-1, 0, 0, -1, 0, 0, -1, 0])
    rows = rng.uniform(3.0, 20.0, 8)
    stats = TextStats(np.stack([Bags.assigned(sparse.csr_array(laws), np.eye(8))]), rows[None])
    a, b = emission.near(emission.smooth(stats, emission.no_starts(8), begins), begins)

    def log_beta(counts):
        return gammaln(counts + 0.1).sum() - gammaln(counts.sum() + 1.2)

    none = log_beta(np.zeros(12))
    p = laws[:7] / laws[:7].sum(axis=1, keepdims=True)
    gap = np.abs(p[:, None] - p[None]).sum(axis=2)
    expected = set()
    for i in range(7):
        for j in range(i + 1, 7):
            gain = log_beta(laws[i] + laws[j]) + none - log_beta(laws[i]) - log_beta(laws[j])
            n = 1.0 + rows[[i, j]]
            ways = gammaln(n.sum() - 1.0) - gammaln(n).sum()
            one = gain + ways + 30.0 > 0.0
            if max(begins[i], begins[j]) >= 0 and gap[i, j] < 1.2 and one:
                expected.add((i, j))
    assert set(zip(a.tolist(), b.tolist(), strict=True)) == expected
    assert {(1, 4), (2, 5)} <= expected
    assert (0, 1) not in expected


def seated_slowly(X, past, S, prior_of, a0, log_new, least):
    """Seat rows by dense arithmetic; ``prior_of`` the number of words met."""
    past, S, size = list(past), [s.copy() for s in S], [0.0] * len(past)
    seats, scores, known = [], [], 0
    for x in X:
        known = max(known, int(np.flatnonzero(x).max(initial=-1)) + 1)
        prior = prior_of(known)
        V = len(prior)
        s = [np.log(a0 + past[k] + size[k]) + dcm(x[:V], S[k][:V], prior) for k in range(len(past))]
        new = log_new + dcm(x[:V], np.zeros(V), prior)
        scores.append(-np.logaddexp.reduce([*s, new]))
        if not s or new >= max(s):
            past.append(0.0)
            size.append(0.0)
            S.append(np.zeros(X.shape[1]))
            p = np.eye(len(past))[-1]
        else:
            p = np.exp(np.array(s) - max(s))
            p[p <= least] = 0.0
            p /= p.sum()
        for k, share in enumerate(p):
            size[k] += share
            S[k] = S[k] + share * x
        seats.append(p)
    return [np.pad(p, (0, len(past) - len(p))) for p in seats], scores


def test_seats_against_dense_arithmetic_and_any_cut():
    g = np.random.default_rng(3)
    X = np.tril(g.poisson(0.6, (40, 40)))[:, :30] + g.poisson(0.2, (40, 30))
    X[7] = 0
    past, S = np.array([2.0, 0.5]), g.poisson(0.5, (2, 30)) * np.r_[np.ones(12), np.zeros(18)]
    emission = TextDecay(beta=0.2, n_words=9)
    ahead = TextStats(Bags.assigned(sparse.csr_array(S), np.eye(2)), np.ones(2))
    first = max(9, ahead.words.width)
    seats, scores = seated_slowly(
        X, past, S, lambda known: np.full(max(first, known), 0.2), 0.01, 0.0, emission.least
    )
    for cuts in ([40], [1] * 40, [7, 1, 32]):
        seating = emission.seating(past, ahead)
        found, begin = [], 0
        for n in cuts:
            part = X[begin : begin + n]
            width = int(np.flatnonzero(part.any(axis=0)).max(initial=-1)) + 1
            found.append(seating.seat(sparse.csr_array(part[:, :width]), 0.01, 0.0, 1000))
            begin += n
        K = seating.n_components
        assert len(seats[0]) == K
        q = np.concatenate([np.pad(f.q, ((0, 0), (0, K - f.q.shape[1]))) for f in found])
        np.testing.assert_allclose(q, seats, atol=1e-9)
        np.testing.assert_allclose(np.concatenate([f.scores for f in found]), scores, rtol=1e-9)


@pytest.mark.parametrize("beta", [0.1, None])
def test_long_texts(beta):
    found = quality(range(4), 40, TextDecay(beta=beta, n_words=200))
    assert min(found) >= 0.99


def test_texts_of_twenty_words():
    found = quality(range(3), 20, TextDecay(beta=0.1, n_words=200))
    assert found[0] >= 0.97
    assert found[1] >= 0.97


@pytest.mark.slow
def test_quality_of_other_settings():
    assert quality(range(4), 40, TextDecay(beta=0.1, n_words=200), lag=0)[0] >= 0.99
    assert quality(range(4), 40, TextDecay(beta=0.1, n_words=200, rho=0.9))[0] >= 0.99
    assert quality(range(3), 10, TextDecay(beta=0.1, n_words=200))[0] >= 0.85


ODD = {
    "empty epoch": [[[1, 2, 0]], np.zeros((0, 3)), [[0, 1, 1]], np.zeros((0, 3))],
    "nothing at all": [np.zeros((0, 3))] * 4,
    "all-zero rows": [np.zeros((5, 3)), [[0, 0, 0], [1, 0, 0]], np.zeros((2, 3)), np.zeros((1, 3))],
    "one row": [[[4, 0, 1]]] * 4,
    "the same rows": [np.tile([[3, 0, 1]], (50, 1))] * 4,
    "large counts": [[[10**6, 0, 3], [0, 10**6, 1]]] * 4,
    "new words": [[[1, 0]], [[1, 0, 2]], [[0, 0, 0, 5]], [[1]]],
    "no words": [np.zeros((3, 0))] * 4,
}


@pytest.mark.parametrize("emission", [TextDecay(), TextDecay(beta=0.05, n_words=1, rho=0.9)])
@pytest.mark.parametrize("name", ODD)
def test_odd_epochs(name, emission):
    engine = Engine(Settings(1.0, KAPPA), emission)
    for _ in range(2):
        for rows in ODD[name]:
            X = sparse.csr_array(np.asarray(rows, dtype=float))
            scores = engine.learn(X)
            assert np.isfinite(scores).all()
            assert len(scores) == len(engine.resp[-1]) == X.shape[0]
            for q in engine.resp:
                assert np.isfinite(q).all()
                np.testing.assert_allclose(q.sum(axis=1), 1.0, atol=1e-9)
    if name == "the same rows":
        assert engine.n_components == 1


def test_a_word_that_a_start_holds_twice_counts_twice():
    """Only a forged state has one; its words must not outgrow the vocabulary."""
    twice = Bags((1,), 3, np.array([0, 5]), np.array([2, 0, 2, 2, 2]), np.arange(1.0, 6.0))
    once = Bags((1,), 3, np.array([0, 2]), np.array([2, 0]), np.array([13.0, 2.0]))
    X, q = sparse.csr_array([[1.0, 4.0, 2.0]]), np.ones((1, 1))
    emission = TextDecay(beta=0.1, n_words=3)
    stats = each(lambda part: np.stack([part]), emission.stats(X, q))
    found = [
        emission.smooth(stats, TextStats(start, np.ones(1)), np.array([-1])).log_z[0, 0]
        for start in (twice, once)
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-14)


def test_components_that_nobody_joins_leave_and_memory_with_them():
    g = np.random.default_rng(0)
    engine = Engine(Settings(5.0, KAPPA), TextDecay(n_words=50))
    sizes = []
    for t in range(120):
        words = g.integers(0, 50, (20, 6))
        X = np.stack(
            [np.bincount(w, minlength=50) for w in (words // 5 * 5 + t // 10 % 5)[:, :] % 50]
        )
        engine.learn(sparse.csr_array(X.astype(float)))
        sizes.append((engine.n_components, len(engine.starts.words.words)))
    assert max(sizes[60:]) <= (60, 60 * 50)
    assert len(set(engine.ids)) == engine.n_components


def test_bags_behave_as_dense_arrays():
    g = np.random.default_rng(1)
    A, B = (g.poisson(0.5, (6, 5)).astype(float) for _ in range(2))
    a, b = (Bags.assigned(sparse.csr_array(X), np.eye(6)) for X in (A, B))
    which = np.array([4, 0, 0, 5])
    np.testing.assert_array_equal(
        np.stack([a, b])[:, which].to_dense(5), np.stack([A, B])[:, which]
    )
    np.testing.assert_array_equal(np.concatenate([a, b]).to_dense(5), np.concatenate([A, B]))
    np.testing.assert_array_equal(np.take(a, which, axis=0).to_dense(5), A[which])
    np.testing.assert_array_equal((a + b).to_dense(5), A + B)
    np.testing.assert_array_equal(
        np.stack([a, b]).total(np.array([0.5, 2.0])).to_dense(5), A / 2 + 2 * B
    )
    np.testing.assert_array_equal(a.sizes(), A.sum(axis=1))
    first = np.arange(6)[:, None] < 3
    np.testing.assert_array_equal(np.where(first, a, b).to_dense(5), np.where(first, A, B))
    assert Bags.empty(3).sizes().tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(ValueError, match="cannot be added"):
        a + b[:2]


@pytest.mark.parametrize("V", [3, 8])  # fewer words are known, or more, than have a share
def test_words_that_nobody_uses_are_forgotten(V):
    law = TextDecay(n_words=5, shares=np.array([0.1, 0.4, 0.1, 0.2, 0.2]), rare=0.01)
    used = np.arange(V) != 1
    kept = law.keeping(used)
    assert kept.n_words == V - 1
    known = law.shares[:V][used[:5]]
    np.testing.assert_allclose(kept.shares, known / known.sum(), rtol=1e-15)
    np.testing.assert_allclose(kept.rare, 0.01 / known.sum(), rtol=1e-15)
