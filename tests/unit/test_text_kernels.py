"""Steps of the text engine that its slow twin leaves out, each by definition."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from streamddcrp.models.text.config import make_config
from streamddcrp.models.text.engine import empty_state
from streamddcrp.models.text.kernels.clock import learn_scales, mix
from streamddcrp.models.text.kernels.layout import (
    ALPHA,
    CONCENTRATION,
    GROWTH,
    GROWTHS,
    LAST,
    LEAST_MERGED,
    N_ARCHIVED,
    N_LIVE,
    N_SEEN,
    N_SLOTS,
    N_SUMS,
    N_VECTORS,
    N_WORDS,
    PRIOR,
    SCALES,
    SHARES,
    SUM_DF,
    TIMED,
    TOTAL,
    TOTALS,
    UNIT,
)
from streamddcrp.models.text.kernels.moves import MARGIN, pour, recognise, try_merge
from streamddcrp.models.text.kernels.split import HEAD, gather, is_rare, split_gain, tally
from streamddcrp.models.text.text_stream import TextStream
from tests.conformance import streams
from tests.oracles.plain import plain
from tests.oracles.text_stream import SlowText, Table
from tests.unit.test_text_ddcrp import held, run, topics


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_a_step_of_the_scales(seed):
    """v_g (1 + r F_kg / (E_g F_k)) / (1 + r F_g / (E_g F)), pulled to the prior, of sum one."""
    rng = np.random.default_rng(seed)
    config = make_config(learned=True, clocked=bool(rng.integers(0, 2)))
    state, k, K = empty_state(config), 3, 7
    tables, v = state.tables, state.sums[N_SUMS:].reshape(N_VECTORS, -1)
    G = v.shape[1]
    v[SHARES] = shares = rng.dirichlet(np.ones(G))
    v[GROWTHS] = growth = rng.uniform(1.0, 9.0, G)
    masses = rng.exponential(3.0, (G, K))  # what documents weigh now
    tables.masses[:, :K] = masses * growth[:, None]
    v[TOTALS] = masses.sum(axis=1) * growth
    tables.mass[:K] = shares @ masses
    state.sums[TOTAL] = F = float((shares @ masses).sum())
    plain(learn_scales)(tables, state.sums, k)
    r, pull = 0.005, 0.003
    E = v[SCALES] / (shares @ v[SCALES])
    expected = shares * (1.0 + r * masses[:, k] / (E * (shares @ masses[:, k])))
    expected /= 1.0 + r * masses.sum(axis=1) / (E * F)
    expected += r * pull * (v[PRIOR] / E - expected)
    np.testing.assert_allclose(v[SHARES], expected / expected.sum(), rtol=1e-12)


@pytest.fixture(scope="module")
def stories_that_came_back():
    """Settings and a state with some tables in the archive, and live ones that share its words."""
    config = make_config(alpha=2.0, decay=9.0, lag=20)
    state, *_ = run(config, topics(7, 400, drift=0.02))
    assert state.counts[N_ARCHIVED] > 2
    return config, state


def log_odds(config, state, k):
    """Equation (3) for table ``k`` with each archived table, of whose words some were kept."""
    B, d, archive = float(state.sums[CONCENTRATION]), config.discount, state.archive
    mine, out = Counter(held(state, k)), {}
    lexicon = max(int(state.counts[N_WORDS]) + 1, 3000)
    total = state.counts[SUM_DF] + config.smoothing * lexicon

    def g(m):
        return math.lgamma(1.0 - d + m) - math.lgamma(1.0 - d)

    def h(u):
        return math.lgamma(B / d + u) - math.lgamma(B / d)

    def rising(n):
        return math.lgamma(B + n) - math.lgamma(B)

    for a in range(min(int(state.counts[N_ARCHIVED]), len(archive.id))):
        n = int(archive.n[a])
        theirs = dict(
            zip(archive.word[a, :n].tolist(), archive.copies[a, :n].tolist(), strict=True)
        )
        shared = [w for w in theirs if mine[w] > 0]
        if not shared:
            continue
        gain = -len(shared) * math.log(d)
        for w in shared:
            p = (state.words.df[w] + config.smoothing) / total
            gain += g(mine[w] + theirs[w] - 1) - g(mine[w] - 1) - g(theirs[w] - 1) - math.log(p)
        u, u_old, n_old = len(mine), int(archive.n_words[a]), int(archive.n_tokens[a])
        gain += h(u + u_old - len(shared)) - h(u) - h(u_old)
        gain -= rising(mine.total() + n_old) - rising(mine.total()) - rising(n_old)
        out[int(archive.id[a])] = gain
    return out


def test_a_story_is_recognised_at_odds_above_twenty(stories_that_came_back):
    """Odds by hand, times the prior weight of a table just let go over that of a new one."""
    config, state = stories_that_came_back
    compared = 0
    for k in state.tables.live[: state.counts[N_LIVE]].tolist():
        odds = log_odds(config, state, k)
        if state.tables.size[k] < LEAST_MERGED or not odds:
            continue
        best = max(odds, key=odds.__getitem__)
        for factor, expected in ((1.0 + 1e-6, best), (1.0 - 1e-6, -1)):
            retire = factor * 20.0 * config.alpha * math.exp(-odds[best])
            found = plain(recognise)(
                config._replace(retire=retire), state.words, state.postings, state.tables,
                state.archive, state.counts, state.sums, k,
            )  # fmt: skip
            assert found == expected
        compared += 1
    assert compared > 0
    assert not state.words.mark.any()


def test_what_is_poured_together():
    """Sums, the earlier beginning and the later end, with their times."""
    config = make_config(alpha=5.0, decay=60.0, lag=40)
    for seed in (2, 3, 4, 5):
        state, *_ = run(config, topics(seed, 150))
        tables = state.tables
        live = tables.live[: state.counts[N_LIVE]].tolist()
        large, small = sorted(live, key=lambda k: -tables.size[k])[:2][:: (-1) ** seed]
        for k in (large, small):  # times are those of the rows
            tables.born_t[k], tables.last_t[k] = 10.0 * tables.born[k], 10.0 * tables.last_seen[k]
        born = min(tables.born[large], tables.born[small])
        last = max(tables.last_seen[large], tables.last_seen[small])
        words = Counter(held(state, large)) + Counter(held(state, small))
        sums = {
            n: getattr(tables, n)[[large, small]].sum() for n in ("size", "n_tokens", "in_window")
        }
        mass = tables.mass[[large, small]].sum()
        plain(pour)(state.words, state.postings, tables, state.counts, state.sums, small, large)
        assert Counter(held(state, large)) == words
        assert {n: getattr(tables, n)[large] for n in sums} == sums
        assert tables.mass[large] == pytest.approx(mass, rel=1e-12)
        assert (tables.born[large], tables.born_t[large]) == (born, 10.0 * born)
        assert (tables.last_seen[large], tables.last_t[large]) == (last, 10.0 * last)
        assert small not in tables.live[: state.counts[N_LIVE]].tolist()


def test_a_merged_table_is_looked_at_after_another_document():
    """The older id; merges and splits are tried again with the next document at the earliest."""
    config = make_config(alpha=5.0, decay=60.0, lag=40)
    state, *_ = run(config, topics(2, 150))
    tables, window = state.tables, state.window
    live = tables.live[: state.counts[N_LIVE]].tolist()
    a, b = sorted(live, key=lambda k: -tables.size[k])[:2]
    tables.rival[a] = -1
    tables.rival[a, 2], tables.rival_id[a, 2] = b, tables.id[b]
    tables.next_split[[a, b]] = 4, 5
    state.counts[LAST] = b
    size, older = tables.size[[a, b]].sum(), tables.id[[a, b]].min()
    here = np.isin(window.table, [a, b])
    try_it = plain(try_merge, merge_gain=lambda *_: MARGIN + 1e-9)
    try_it(
        config, state.words, state.postings, tables, window, state.events, state.counts,
        state.sums, state.scratch, a,
    )  # fmt: skip
    (large,) = {a, b} & set(tables.live[: state.counts[N_LIVE]].tolist())
    assert (tables.id[large], tables.size[large]) == (older, size)
    assert tables.next_split[large] == size + 1
    assert tables.next_merge[large] <= size + 1
    assert (window.table[here] == large).all()
    assert state.counts[LAST] == large


def test_masses_and_alpha_of_now():
    """F_k = sum_g v_g F_kg; a new table weighs 6 % of the documents that come in the time a decay.

    Scales of time follow the rate of the last documents, but gain at most twice what is there.
    """
    config = make_config(learned=True, clocked=True, lag=30)
    state, K, n = empty_state(config), 5, 400
    rng, tables = np.random.default_rng(3), state.tables
    v = state.sums[N_SUMS:].reshape(N_VECTORS, -1)
    G = v.shape[1]
    v[SHARES], v[GROWTHS] = shares, growth = rng.dirichlet(np.ones(G)), rng.uniform(1.0, 9.0, G)
    masses = rng.exponential(0.1, (G, K))
    tables.masses[:, :K] = masses * growth[:, None]
    v[TOTALS] = masses.sum(axis=1) * growth
    state.counts[[N_SEEN, N_SLOTS]] = n, K
    state.sums[UNIT] = 2.0
    past = min(n, int(config.ages[-1]))
    t = np.cumsum(rng.exponential(0.5, n))  # four times as many as at first
    state.window.t[np.arange(n) % len(state.window.t)] = t
    now = float(t[-1]) + 0.1
    plain(mix)(config, tables, state.window, state.counts, state.sums, now, False)
    np.testing.assert_allclose(tables.mass[:K], shares @ masses, rtol=1e-12)
    assert state.sums[TOTAL] == pytest.approx(float((shares @ masses).sum()), rel=1e-12)
    rate = past * 2.0 / (now - t[n - past])
    expected = shares * v[SCALES]
    bounded = np.minimum(rate * expected, expected + 2.0 * shares * masses.sum(axis=1))
    reach = np.where(v[TIMED] > 0.0, bounded, expected).sum()
    assert rate > 2.0
    assert state.sums[ALPHA] == pytest.approx(config.share * reach, rel=1e-12)


def test_a_word_is_rare_if_few_tables_have_it_in_as_many_of_their_documents():
    state, _, _ = run(make_config(lag=50, decay=40.0), topics(5, n=300))
    counts, tables, halves = state.counts, state.tables, state.scratch_halves
    live, seen = tables.live[: counts[N_LIVE]].tolist(), set()
    most = max(1.0, HEAD * len(live))
    words = {k: held(state, k) for k in live}
    for k in live:
        size = int(tables.size[k])
        for w, n in words[k].items():
            halves.met[0], halves.total[0] = w, n
            parts = [words[j].get(w, 0) / tables.size[j] for j in live]
            rare = sum(part > HEAD * n / size for part in parts) <= most
            found = plain(is_rare)(state.words, state.postings, tables, counts, halves, 0, size)
            assert found == rare
            seen.add((rare, int(state.words.df[w]) > most))
    assert {(True, False), (True, True), (False, True)} <= seen


def test_a_prediction_leaves_the_numbers_of_words_free_in_the_order_of_before():
    """The last one is among them after 60 of these texts, which are read again."""
    model = TextStream(lag=30, decay=40.0)
    for text in streams.texts_without_spaces(57812).rows[:70]:
        model.learn_one(text)
        state = model.to_bytes()
        model.predict_one("quite new words")
        assert model.to_bytes() == state


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_classes_of_long_texts_are_found_in_spite_of_their_threads(seed):
    """Three classes, twenty threads with words of their own: the rule of stories finds these."""
    rng, n = np.random.default_rng(seed), 600
    shares, thread = rng.dirichlet(np.ones(1500), size=3), rng.permutation(n) // 30
    y, found = rng.permutation(np.arange(n // 30) % 3)[thread], []
    rows = [
        " ".join(f"t{thread[i]}x{j}" for j in rng.permutation(16)[:8])
        + "".join(f" w{j}" for j in rng.choice(1500, 60, p=shares[y[i]]))
        for i in range(n)
    ]
    for long in (40.0, np.inf):
        model = TextStream(scale="topic", lag=200)
        model._config = model._config._replace(long=long)
        model.learn_many(rows)
        found.append(adjusted_rand_score(y, model.final_labels(window=True)["label"].to_numpy()))
    assert found[0] == 1.0
    assert found[1] < 0.7


def test_a_split_of_topics_gains_what_the_union_of_the_halves_would_lose():
    """By the marginal likelihoods of the halves and of both, and the weights of their documents."""
    config = make_config(alpha=5.0, decay=60.0, lag=40)._replace(long=0.0)
    state, *_ = run(config, topics(9, 150))
    tables, window, halves = state.tables, state.window, state.scratch_halves
    counts, sums = state.counts, state.sums
    live = tables.live[: counts[N_LIVE]].tolist()
    words = {k: Counter(held(state, k)) for k in live}
    k = max(live, key=lambda k: tables.size[k])
    n, n_met = plain(gather)(
        config, state.words, state.postings, tables, window, counts, sums, halves, k,
        counts[N_SEEN] - 1,
    )  # fmt: skip
    assert n >= 8
    halves.side[:n] = np.arange(n) < n // 2  # the newest leave
    docs, tokens, mass = plain(tally)(window, halves, n, n_met)
    assert docs == n // 2
    found = plain(split_gain)(
        config, state.words, tables, counts, sums, halves, state.scratch.log_gamma, k, n_met,
        tokens, mass,
    )  # fmt: skip
    own = zip(halves.met[:n_met].tolist(), halves.own[:n_met].tolist(), strict=True)
    there = Table(-1, +Counter(dict(own)), docs)
    here = Table(0, words[k] - there.words, int(tables.size[k]) - docs)
    others = [Table(i, words[j], int(tables.size[j])) for i, j in enumerate(live, 1) if j != k]
    weights = {-1: mass / sums[GROWTH], 0: (tables.mass[k] - mass) / sums[GROWTH]}
    assert min(weights.values()) > 1.5
    twin = SlowText(alpha=sums[ALPHA], long=0.0)
    twin.tables, twin.weight = [there, here, *others], lambda table, now: weights[table.id]
    assert found == pytest.approx(-twin.gain(there, here, 0), rel=1e-9)
