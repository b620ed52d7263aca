"""The text engine against the numbers of its specification and a slow twin."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln

from streamddcrp import TextStream
from streamddcrp.contract import LABEL, P_NEW, SCORE, SPLIT
from streamddcrp.data.words import WordTable, joined
from streamddcrp.errors import ConfigError
from streamddcrp.models.text.config import make_config
from streamddcrp.models.text.engine import arrays_of, empty_state, predict, state_from_arrays, step
from streamddcrp.models.text.kernels.layout import (
    ALPHA,
    CONCENTRATION,
    FINAL_LABEL,
    GROWTH,
    HISTORY,
    N_ARCHIVED,
    N_EVENTS,
    N_LIVE,
    N_MERGES,
    N_SEEN,
    N_WORDS,
    NEXT_LOOK,
    SUM_DF,
    TOTAL,
)
from streamddcrp.models.text.kernels.tables import list_words
from tests.oracles.plain import plain
from tests.oracles.text_stream import SlowText, Table


def topics(seed, n=400, n_topics=6, drift=0.0):
    """Documents of topics that come and go, a few empty; lists of distinct words."""
    rng = np.random.default_rng(seed)
    own = [rng.choice(120, 12, replace=False) for _ in range(n_topics)]
    out = []
    for i in range(n):
        z = (rng.integers(0, 3) + int(drift * i)) % n_topics
        words = rng.choice(own[z], rng.integers(0, 7))
        noise = rng.integers(0, 120, rng.integers(0, 3))
        out.append(list(dict.fromkeys(np.r_[words, noise].astype(int).tolist())))
    return out


def long_documents(seed, n, drift=0.0):
    """Documents of nineteen words, three of them out of twelve that are everywhere."""
    rng = np.random.default_rng(seed)
    own = [rng.choice(2000, 24, replace=False) + 12 for _ in range(40)]
    parts = [(rng.permutation(12)[:3], rng.permutation(own[(z + int(drift * i)) % 40])[:16])
             for i, z in enumerate(rng.integers(0, 40, n))]  # fmt: skip
    return [np.concatenate(part).tolist() for part in parts]


def run(config, documents, t=None):
    """Learn lists of numbers as words; return state, table of words and output."""
    state, table = empty_state(config), WordTable(())
    t = np.arange(float(len(documents))) if t is None else t
    return state, table, step(config, state, table, *bytes_of(documents), t, listed=True)


def beside(config, documents, twin):
    """As `run`, one document after the other, beside a twin; also what that one says of each."""
    state, table, out, said = empty_state(config), WordTable(()), [], []
    for i, x in enumerate(documents):
        out.append(step(config, state, table, *bytes_of([x]), np.array([float(i)]), listed=True))
        old = np.flatnonzero(state.window.newer == i)
        said.append((*twin.learn(x, *(i - 1 - (i - 1 - old) % len(state.window.t))), twin.aside))
    return state, table, np.concatenate(out), said


def held(state, k):
    """Words of a table with their counts, by its list of words."""
    words, postings, out = state.words, state.postings, {}
    n, listed = int(state.tables.n_words[k]), np.empty(len(words.df), np.int32)
    assert plain(list_words)(postings, state.tables, k, listed) == n
    for w in listed[:n].tolist():
        places = range(words.start[w], words.start[w] + n_places(state, w))
        p = next(p for p in places if postings.table[p] == k)
        assert postings.word[postings.at[p]] == w
        out[w] = int(postings.copies[p])
    return out


@pytest.mark.parametrize(
    ("seed", "options"),
    [
        (2, {"alpha": 5.0, "decay": 60.0, "lag": 40}),
        (1, {"alpha": 1.0, "decay": 25.0, "lag": 30}),
        (2, {"alpha": 30.0, "decay": 500.0, "lag": 60}),
        (10, {"alpha": 2.0, "decay": 9.0, "lag": 20}),
        (17, {"alpha": 5.0, "decay": 60.0, "lag": 40, "footer": [500, 501, 502]}),
        (5, {"alpha": 5.0, "decay": 60.0, "lag": 40, "breadth": 0.03}),
        (5, {"alpha": 5.0, "decay": 60.0, "lag": 40, "long": 0.0}),
        (5, {"alpha": 5.0, "decay": 60.0, "lag": 40, "long": 3.55}),
    ],
)
def test_it_does_what_the_slow_twin_does(seed, options):
    footer, breadth = options.pop("footer", []), options.pop("breadth", 0.0)
    long = options.pop("long", math.inf)
    config = make_config(**options)._replace(breadth=breadth, long=long)
    documents = [x + footer for x in topics(seed, 220, drift=0.02)]
    twin = SlowText(
        alpha=options["alpha"], decay=options["decay"], breadth=breadth, long=long,
        ages=config.ages.tolist(),
    )  # fmt: skip
    state, table, out, reported = beside(config, documents, twin)
    assert (twin.b > 0.25) == (breadth > 0.0)
    labels, scores, asides = zip(*reported, strict=True)
    assert out[:, LABEL].tolist() == list(labels)
    assert out[:, SCORE] == pytest.approx(scores, rel=1e-9, abs=1e-9)
    aside = {word for words in asides for word in words}
    final = out[:, FINAL_LABEL]
    assert final[~np.isnan(final)].tolist() == twin.final
    n = int(state.counts[N_MERGES])
    log = zip(state.events.younger[:n].tolist(), state.events.older[:n].tolist(), strict=True)
    assert list(log) == twin.merges
    kinds = state.events.kind[: state.counts[N_EVENTS]] == SPLIT
    split = [column[: state.counts[N_EVENTS]][kinds] for column in state.events[1:3]]
    assert list(zip(*(column.tolist() for column in split), strict=True)) == twin.splits
    assert twin.splits or options["alpha"] == 30.0  # all of one story there
    assert aside >= set(footer)
    assert aside
    found = np.flatnonzero(state.words.aside)
    assert {int(table[w]): state.words.aside[w] for w in found} == pytest.approx(twin.aside)
    assert state.sums[CONCENTRATION] == pytest.approx(twin.B, rel=1e-9)
    live = state.tables.live[: state.counts[N_LIVE]]
    kept = {
        int(state.tables.id[k]): {int(table[w]): n for w, n in held(state, k).items()} for k in live
    }
    assert kept == {table.id: dict(+table.words) for table in twin.tables}


P = np.array([0.1, 0.2, 0.05, 0.3, 0.15, 0.2])


class Given(SlowText):
    """A twin whose base measure is given."""

    def p(self, w):
        return P[w]

    def weight(self, table, now):
        return 1.0


def test_numbers_of_the_specification():
    twin = Given(alpha=1.0, d=0.5)
    twin.B = 2.0
    a = Table(0)
    a.words.update({0: 3, 1: 1, 2: 2})
    h = twin.odds(a, [0, 2, 4], 0)
    new = 3 * math.log((2.0 + 0.5) / (2.0 + 1.0))
    assert new == pytest.approx(-0.546964670382, abs=1e-11)
    assert h + new == pytest.approx(1.688276983714, abs=1e-11)
    b = Table(1)
    b.words.update({0: 2, 2: 1, 3: 1, 5: 4})
    assert twin.gain(a, b, 0) == pytest.approx(0.671944972909, abs=1e-11)
    twin.B, twin.d = 40.0, 0.6
    assert twin.gain(a, b, 0) == pytest.approx(0.250154888360, abs=1e-11)


def test_predictions_are_as_the_formulas_say():
    """Documents longer than a chunk, and words that nobody knows, against (2a) and (2b)."""
    config = make_config(alpha=4.0, decay=80.0, lag=60)
    documents = topics(7, 150)
    twin = SlowText(alpha=4.0, decay=80.0, ages=config.ages.tolist())
    state, table, *_ = beside(config, documents, twin)
    for words in ([3], list(range(0, 120, 5)), list(range(17)), [5, 900, 9, 901], [900]):
        out, probs = predict(config, state, table, bytes_of([words])[0], 150.0, listed=True)
        ids = state.tables.id[state.tables.live[: len(probs)]].tolist()
        odds = dict(zip(ids, np.log(probs / out[P_NEW]), strict=True))
        counted = [w for w in words if w not in twin.aside]
        now = twin.clock + (not twin.copied(words))
        want = {t.id: twin.odds(t, counted, now) for t in twin.tables}
        assert odds == pytest.approx(want, rel=1e-9, abs=1e-9)
        assert probs.sum() + out[P_NEW] == pytest.approx(1.0, rel=1e-12)
        assert out[SCORE] == pytest.approx(twin.score(words, now), rel=1e-9)


class Held(SlowText):
    """A twin that takes over the tables of an engine."""

    def __init__(self, state, **options):
        super().__init__(**options)
        self.state, self.B = state, float(state.sums[CONCENTRATION])
        for k in state.tables.live[: state.counts[N_LIVE]].tolist():
            self.tables.append(Table(int(state.tables.id[k]), Counter(held(state, k))))
            self.mass[int(state.tables.id[k])] = float(state.tables.mass[k] / state.sums[GROWTH])
        sizes = Counter(w for table in self.tables for w in table.words)
        self.sizes, self.total = sizes, sizes.total()

    def p(self, w):
        return (self.sizes[w] + self.b) / (self.total + self.b * max(len(self.sizes) + 1, 3000))

    def weight(self, table, now):
        return self.mass[table.id] * math.exp(-1.0 / self.decay)


def test_words_that_are_everywhere_are_weighed_by_columns():
    config, documents = make_config(alpha=30.0, decay=60.0, lag=40), long_documents(4, 150)
    state, table = empty_state(config), WordTable(())
    state.counts[NEXT_LOOK] = 1 << 60  # they are boilerplate
    data, offsets = bytes_of(documents)
    step(config, state, table, data, offsets, np.arange(150.0), listed=True)
    twin = Held(state, alpha=30.0, decay=60.0)
    assert state.words.wide.any()
    index = {word: w for w, word in enumerate(table.decode(np.arange(len(table))))}
    for x in long_documents(5, 10):
        out, probs = predict(config, state, table, bytes_of([x])[0], 150.0, listed=True)
        ids = state.tables.id[state.tables.live[: len(probs)]].tolist()
        odds = dict(zip(ids, np.log(probs / out[P_NEW]), strict=True))
        words = [index.get(str(w), -1 - w) for w in x]
        want = {k.id: twin.odds(k, words, twin.clock + 1) for k in twin.tables}
        assert odds == pytest.approx(want, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("n", [20, 150, 600])
def test_odds_beyond_the_range_of_numbers(n):
    """Stories of their own words: a text of one of them is e^1000 times likelier there."""
    rng = np.random.default_rng(n)
    own = [np.arange(z * n, (z + 1) * n) for z in range(4)]
    documents = [
        np.r_[rng.permutation(own[z])[: n - 2], 4 * n + rng.permutation(9)[:5]].tolist()
        for z in rng.integers(0, 4, 80)
    ]
    config = make_config(alpha=2.0, decay=60.0, lag=30)._replace(copies=False)
    state, table = empty_state(config), WordTable(())
    state.counts[NEXT_LOOK] = 1 << 60
    data, offsets = bytes_of(documents)
    step(config, state, table, data, offsets, np.arange(80.0), listed=True)
    twin = Held(state, alpha=2.0, decay=60.0)
    index = {word: w for w, word in enumerate(table.decode(np.arange(len(table))))}
    for x in (documents[-1], documents[-1][: n // 2] + own[0][: n // 3].tolist(), [*own[0], 9**9]):
        words = list(dict.fromkeys(x))
        out, probs = predict(config, state, table, bytes_of([words])[0], 80.0, listed=True)
        known = [index.get(str(w), -1 - w) for w in words]
        odds = np.array([twin.odds(k, known, 80) for k in twin.tables])
        total, U = np.logaddexp.reduce([0.0, *odds]), len(known)
        assert probs == pytest.approx(np.exp(odds - total), rel=1e-9, abs=1e-12)
        root = (twin.B + twin.d * (U - 1) / 2) / (twin.B + (U - 1) / 2)
        base = sum(math.log(twin.p(w)) for w in known) + U * math.log(root)
        mass = sum(twin.weight(k, 80) for k in twin.tables)
        want = -(total + math.log(2.0 / (2.0 + mass)) + base)
        assert out[SCORE] == pytest.approx(want, rel=1e-9)


@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_counts_postings_and_masses_agree_whatever_comes(data, seed):
    """Random streams, cut at random, restored at random: every sum is what its parts make."""
    options = {
        "alpha": data.draw(st.sampled_from([0.5, 5.0, 30.0])),
        "decay": data.draw(st.sampled_from([3.0, 20.0, 200.0])),
        "lag": data.draw(st.integers(1, 40)),
    }
    make = data.draw(st.sampled_from([topics, long_documents]))
    config, documents = make_config(**options), make(seed, 200, drift=0.05)
    state, table = empty_state(config), WordTable(())
    cuts = sorted(data.draw(st.lists(st.integers(0, 200), max_size=4)))
    for a, b in zip([0, *cuts], [*cuts, 200], strict=True):
        rows = np.arange(float(a), float(b))
        step(config, state, table, *bytes_of(documents[a:b]), rows, listed=True)
        if data.draw(st.booleans()):
            words = table.state()
            state = state_from_arrays(config, arrays_of(state, len(words["word_length"])))
            table = WordTable.restore(words)
        check(config, state, table, documents[max(0, b - HISTORY * config.ages[-1]) : b])


def test_a_wide_word_follows_the_slots():
    """Common words, then so many stories without them that their blocks have to grow by much."""
    config = make_config(alpha=30.0, decay=500.0, lag=400)
    others = [list(range(3000 + 5 * i, 3005 + 5 * i)) for i in range(140)]
    documents = long_documents(4, 150) + others + long_documents(6, 30)
    state, table = empty_state(config), WordTable(())
    for a in range(0, 320, 40):
        part, rows = documents[a : a + 40], np.arange(a, a + 40.0)
        step(config, state, table, *bytes_of(part), rows, listed=True)
        check(config, state, table, documents[: a + 40])
    wide = np.flatnonzero(state.words.wide)
    assert len(wide)
    assert (1 << state.words.room[wide]).max() >= state.counts[N_LIVE] > 128


def n_places(state, w):
    """Places of a word's block that may have postings."""
    return 1 << state.words.room[w] if state.words.wide[w] else state.words.df[w]


def check(config, state, table, window):
    words, postings, tables, counts = state.words, state.postings, state.tables, state.counts
    live = tables.live[: counts[N_LIVE]]
    by_word = {
        (w, int(postings.table[p])): int(postings.copies[p])
        for w in np.flatnonzero(words.df).tolist()
        for p in range(words.start[w], words.start[w] + n_places(state, w))
        if postings.copies[p] > 0
    }
    for w, k in by_word:
        if words.wide[w]:
            assert postings.table[words.start[w] + k] == k
    by_table = {(w, int(k)): c for k in live for w, c in held(state, k).items()}
    assert by_word == by_table
    assert min(by_word.values(), default=1) >= 1
    assert words.df.sum() == counts[SUM_DF] == len(by_word) == tables.n_words[live].sum()
    assert np.count_nonzero(words.df) == counts[N_WORDS]
    assert tables.n_tokens[live].sum() == sum(by_word.values())
    assert sorted(tables.place[live].tolist()) == list(range(len(live)))
    first = max(0, counts[N_SEEN] - HISTORY * config.ages[-1])
    at = np.arange(first, counts[N_SEEN]) % len(state.window.t)
    seated = state.window.table[at][state.window.table[at] >= 0]
    assert np.bincount(seated, minlength=len(tables.id)).tolist() == [
        int(tables.in_window[k]) if k in live else 0 for k in range(len(tables.id))
    ]
    mass = np.bincount(seated, state.window.weight[at][state.window.table[at] >= 0])
    growth = state.sums[GROWTH]
    there = np.unique(seated)
    assert (tables.mass[there] >= mass[there] - 1e-9 * growth).all()
    assert tables.mass[live].sum() == pytest.approx(state.sums[TOTAL], rel=1e-9, abs=1e-9 * growth)
    kept = np.flatnonzero((words.df > 0) | (words.held > 0))
    assert sorted(table.decode(kept)) == sorted(set(table.decode(kept)))
    assert len(table) == len(kept)
    n = min(int(counts[N_ARCHIVED]), len(state.archive.id))
    held_now = (state.window.length + state.window.aside)[at].sum()  # a copy's are its original's
    assert words.held.sum() == held_now + state.archive.n[:n].sum()


def bytes_of(documents):
    parts = [joined(map(str, x)) for x in documents]
    offsets = np.cumsum([0, *map(len, parts)])
    offsets.flags.writeable = False
    return np.frombuffer(b"".join(parts), np.uint8), offsets


def test_the_gain_is_that_of_the_joint():
    """(3) against the minimal-path joint of both tables and of their union."""
    rng = np.random.default_rng(4)
    d, B = 0.6, 11.0

    def joint(words):
        u, n = len(words), sum(words.values())
        tables = gammaln(B / d + u) - gammaln(B / d) + u * math.log(d)
        counts = sum(gammaln(c - d) - gammaln(1 - d) for c in words.values())
        base = sum(math.log(P[w]) for w in words)
        return tables + counts + base - gammaln(B + n) + gammaln(B)

    for _ in range(50):
        a, b = Table(0), Table(1)
        for table in (a, b):
            for w in rng.choice(6, 3, replace=False):
                table.words[int(w)] = int(rng.integers(1, 30))
        twin = Given(alpha=1.0, d=d)
        twin.B = B
        union = a.words + b.words
        want = joint(union) - joint(a.words) - joint(b.words)
        assert twin.gain(a, b, 0) == pytest.approx(want, rel=1e-12, abs=1e-12)


def test_probabilities_sum_to_one_and_masses_to_the_total():
    config = make_config(alpha=3.0, decay=30.0, lag=25)
    documents = topics(11, 300)
    state, _, out = run(config, documents)
    live = state.tables.live[: state.counts[N_LIVE]]
    assert state.tables.mass[live].sum() == pytest.approx(state.sums[TOTAL], rel=1e-12)
    assert ((out[:, P_NEW] >= 0.0) & (out[:, P_NEW] <= 1.0)).all()


@pytest.mark.parametrize(
    "bad",
    [{"alpha": 0.0}, {"alpha": math.nan}, {"decay": -1.0}, {"lag": 0}, {"lag": 2.5},
     {"decay": math.inf}, {"births": 0}, {"scale": "theme"}],
)  # fmt: skip
def test_settings_out_of_range_are_named(bad):
    with pytest.raises(ConfigError, match=next(iter(bad))):
        make_config(**bad)


def test_births_do_not_depend_on_the_unit_of_time():
    """A decay in time: alpha follows the rate of arrivals, whatever its unit."""
    documents = topics(5, 300)
    labels = []
    for unit in (1.0, 3600.0):
        config = make_config(decay=50.0 * unit, clocked=True, lag=40)
        state, _, out = run(config, documents, unit * np.arange(300.0))
        labels.append(out[:, LABEL].tolist())
        assert state.sums[ALPHA] == pytest.approx(3.0, rel=0.05)
    assert labels[0] == labels[1]


@pytest.mark.parametrize("gap", [1e4, 1e9, 1e300])
def test_a_long_silence_is_forgotten_and_not_an_error(gap):
    documents = topics(6, 120)
    t = np.arange(120.0)
    t[60:] += gap
    config = make_config(decay=10.0, clocked=True, lag=30)
    state, _, out = run(config, documents, t)
    assert np.isfinite(out[:, [LABEL, SCORE]]).all()
    assert np.isfinite(state.tables.mass).all()


def test_a_rate_is_not_known_where_documents_come_at_one_moment():
    model = TextStream(decay=("time", 10.0))
    model.learn_many(["one two three", "one two four"], [5.0, 5.0])
    assert set(model.summary()["rate"].to_pylist()) == {None}
    model.learn_many(["one two three"], [7.0])
    assert sum(model.summary()["rate"].to_pylist()) == pytest.approx(1.0)  # two gaps of 2 in all
