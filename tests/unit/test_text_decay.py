"""The decay of texts learned: masses at each scale, and what is found where it was planted."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamddcrp.contract import LABEL, SCORE
from streamddcrp.data.words import WordTable
from streamddcrp.models.text.config import make_config, scales_of
from streamddcrp.models.text.engine import arrays_of, empty_state, state_from_arrays, step
from streamddcrp.models.text.kernels.layout import (
    GROWTHS,
    MIXED,
    N_LIVE,
    N_SUMS,
    N_VECTORS,
    SHARES,
    TOTAL,
    TOTALS,
)
from streamddcrp.models.text.text_stream import TextStream
from tests.unit.test_text_ddcrp import bytes_of, run, topics

CALIBRATE = 500


def planted(seed, n, decay, alpha, t):
    """Texts of a ddCRP whose weights fall to 1/e in ``decay``, and their times."""
    rng = np.random.default_rng(seed)
    mass, ids, labels = np.zeros(0), [], []
    for i in range(n):
        mass = mass * math.exp((t[i - 1] - t[i]) / decay) if i else mass
        k = int(np.searchsorted(np.cumsum(mass), rng.random() * (mass.sum() + alpha)))
        if k == len(mass):
            mass, ids = np.append(mass, 0.0), [*ids, (ids[-1] if ids else -1) + 1]
        mass[k] += 1.0
        labels.append(ids[k])
        keep = mass > 1e-12
        mass, ids = mass[keep], [x for x, kept in zip(ids, keep.tolist(), strict=True) if kept]
    words = rng.integers(0, 4000, (max(labels) + 1, 10))
    parts = [np.r_[rng.permutation(words[k])[:6], rng.integers(0, 4000, 2)] for k in labels]
    return [" ".join(f"w{w}" for w in part) for part in parts]


def swinging(seed, n):
    """Times in hours: a day of 8 texts an hour and one of 80 take turns."""
    rng = np.random.default_rng(seed)
    t, now = np.zeros(n), 0.0
    for i in range(n):
        now += rng.exponential(1.0 / (80.0 if now // 24.0 % 2 else 8.0))
        t[i] = now
    return t


def masses_by_history(config, t, slots):
    """Decayed numbers of documents by scale and table."""
    n, unit = len(t), 0.0
    scales, timed, _ = scales_of(config)
    ages = np.zeros((n, len(scales)))
    for i in range(n):
        step = np.ones(len(scales))
        if i and unit > 0.0:
            step[timed] = (t[i] - t[i - 1]) / unit
        ages[i] = (ages[i - 1] if i else 0.0) + step / scales
        if config.clocked and i == CALIBRATE:
            unit = (t[i] - t[0]) / i
    found = {}
    for i, k in enumerate(slots):
        found[k] = found.get(k, 0.0) + np.exp(ages[i] - ages[-1])
    return found


@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_masses_at_each_scale_are_those_of_the_history(data, seed):
    clocked = data.draw(st.booleans())
    config = make_config(
        decay=data.draw(st.sampled_from([8.0, 40.0])), clocked=clocked, learned=True,
        lag=data.draw(st.integers(1, 40) | st.integers(225, 240)),
        alpha=data.draw(st.sampled_from([None, 2.0])),
    )._replace(copies=False)  # fmt: skip
    n = 900 if clocked else 300
    documents = topics(seed, n, drift=0.05)
    t = np.cumsum(np.random.default_rng(seed).exponential(1.0, n) * (1 + 20 * (np.arange(n) > 700)))
    state, table = empty_state(config), WordTable(())
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=3)))
    for a, b in zip([0, *cuts], [*cuts, n], strict=True):
        step(config, state, table, *bytes_of(documents[a:b]), t[a:b], listed=True)
        if data.draw(st.booleans()):
            words = table.state()
            state = state_from_arrays(config, arrays_of(state, len(words["word_length"])))
            table = WordTable.restore(words)
    tables, sums = state.tables, state.sums
    live = tables.live[: state.counts[N_LIVE]]
    vectors = sums[N_SUMS:].reshape(N_VECTORS, -1)
    assert tables.masses[:, live].sum(1) == pytest.approx(vectors[TOTALS], rel=1e-9)
    assert tables.masses.sum(1) == pytest.approx(tables.masses[:, live].sum(1), rel=1e-12)
    assert tables.mass[live].sum() == pytest.approx(sums[TOTAL], rel=1e-9)
    shares = vectors[SHARES]
    assert (shares > 0.0).all()
    assert shares.sum() == pytest.approx(1.0, rel=1e-12)
    mixed = vectors[MIXED] @ tables.masses[:, live]
    assert tables.mass[live] == pytest.approx(mixed, rel=1e-9, abs=1e-12)
    if len(state.window.t) > n:  # else older documents may have changed their table with others
        history = masses_by_history(config, t, state.window.table[:n].tolist())
        for k in live.tolist():
            mass = tables.masses[:, k] / vectors[GROWTHS]
            assert mass == pytest.approx(history[k], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("decay", [40.0, 250.0, 1000.0])
def test_a_planted_decay_is_found(decay):
    n = 8000
    model = TextStream(decay=None)
    model.learn_many(planted(0, n, decay, max(0.03 * decay, 1.0), np.arange(float(n))))
    assert 0.5 * decay < model.decay_scale < 2.0 * decay


def test_a_planted_decay_in_time_is_found():
    """Weights that fall in hours, in which sixteen texts come or a hundred and sixty."""
    t = swinging(0, 8000)
    for decay in (2.0, 8.0):
        model = TextStream(decay=None)
        model.learn_many(planted(0, len(t), decay, 3.0, t), t)
        assert 0.5 * decay < model.decay_scale < 2.0 * decay


def test_stories_that_last_some_hours_are_better_predicted():
    """Fifteen stories at a time, each told for six hours: in 50 texts or 500."""
    t, rng = swinging(0, 6000), np.random.default_rng(0)
    births = np.sort(rng.uniform(-6.0, t[-1], int(15 * (t[-1] + 6.0) / 6.0)))
    chosen = [rng.integers(*np.searchsorted(births, (now - 6.0, now))) for now in t]
    words = rng.integers(0, 1000, (len(births), 8))
    texts = [" ".join(f"w{w}" for w in rng.permutation(words[k])[:4]) for k in chosen]
    learned, given, timed = (TextStream(decay=decay) for decay in (None, 500.0, ("time", 6.0)))
    learned.learn_many(texts, t)
    given.learn_many(texts)
    timed.learn_many(texts, t)
    nats = [-model.objective / len(t) for model in (learned, given, timed)]
    assert nats[0] < min(nats[1:]) - 0.2


def test_memory_is_the_decay_where_it_is_given():
    assert TextStream(decay=80.0).decay_scale == 80.0
    assert TextStream(decay="1d").decay_scale == 86400.0
    model = TextStream(decay=None)
    assert 250.0 < model.decay_scale < 1000.0
    model.learn_one("oil prices", 5.0)
    assert math.isnan(model.decay_scale)
    model.learn_one("oil prices", 7.0)
    assert 500.0 < model.decay_scale < 2000.0


@pytest.mark.parametrize("gap", [1e4, 1e9, 1e300])
def test_a_long_silence_is_no_error(gap):
    t = np.arange(700.0)
    t[600:] += gap
    documents = topics(6, 700)
    config = make_config(learned=True, clocked=True, lag=30)
    state, _, out = run(config, documents, t)
    assert np.isfinite(out[:, [LABEL, SCORE]]).all()
    assert np.isfinite(state.tables.masses).all()
    assert np.isfinite(state.sums).all()
