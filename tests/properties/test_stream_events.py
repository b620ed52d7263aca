"""What a stream reports, and what it learns alpha from, by definition from every row's links."""

import math

import numpy as np
import pytest

from streamddcrp.contract import (
    BIRTH,
    LABEL,
    LABEL_PROB,
    LIVE_TABLES,
    P_CHANGE,
    P_NEW,
    RESTART,
    RETURN,
    SCORE,
)
from streamddcrp.decay import Exponential, NoDecay
from streamddcrp.likelihoods import NormalGamma
from streamddcrp.likelihoods.kernels.families import log_predictive
from streamddcrp.models.seqddcrp.kernels.layout import (
    DEAD_BIRTHS,
    FROZEN_OPENINGS,
    FROZEN_RATE,
    LOG_ALPHA,
    N_EVENTS,
    N_ROWS,
    NEXT_ID,
    REGIME,
    SETTLED,
    SINCE_BLOCK,
)
from tests.oracles.dense_stream import DenseStream
from tests.properties.test_stream_bound import engine, gaussian_stream

RUN = 2  # rows that make a run
FAMILY = NormalGamma(0.0, 0.05, 1.5, 0.5)
NOTHING = np.zeros(FAMILY.n_stats(1))


def change_of_run(twin, regime):
    """Probability that the last two rows sit elsewhere than at ``regime``; the last row's table."""
    A, births, order, Z = twin.tables()
    n = len(A)
    best = order[int(Z[-1].argmax())]
    if regime not in order[: len(order) - len(twin.retired)]:
        return (math.nan if n == 1 else 0.0), best, True
    k, window = order.index(regime), int(twin.state.counts[N_ROWS])
    if window < RUN:
        return 0.0, best, False
    changed, start = 1.0, n - RUN
    for i in range(start, n):
        elsewhere = A[i, :start] @ (1.0 - Z[:start, k]) + A[i, start:i].sum()
        elsewhere += sum(s for m, s in births[i].items() if m != regime)
        changed *= elsewhere
    return changed, best, changed > 0.5


def follow(regime, merged):
    while regime in merged:
        regime = merged[regime]
    return regime


@pytest.mark.parametrize("recall", [True, False])
@pytest.mark.parametrize("decay", [NoDecay(), Exponential(6.0)], ids=repr)
def test_the_change_of_regime_is_by_definition(decay, recall):
    """P_CHANGE, and the table of the regime through merges, for arrivals that end no block."""
    compared = changes = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        narrow = NormalGamma(0.0, 0.05, 1.5, 0.02)  # so that tables are merged later
        config, state = engine(narrow, decay, recall=recall)
        twin = DenseStream(config, state, decay, narrow)
        for i, x in enumerate(gaussian_stream(rng, 140)):
            regime = int(twin.state.counts[REGIME])
            found = twin.learn(x, i)[P_CHANGE]
            now = int(twin.state.counts[REGIME])
            if twin.state.counts[SINCE_BLOCK] > 0:
                expected, best, moved = change_of_run(twin, regime)
                assert found == pytest.approx(expected, rel=1e-9, abs=1e-11, nan_ok=True)
                assert now == (best if moved else regime)
                compared += 1
                changes += moved
            elif found <= 0.5:
                assert now == follow(regime, twin.merged)
    assert compared > 500
    assert changes > 12


def test_returns_are_reported_after_a_window_without_the_state():
    """Every birth and return of a stream without blocks; some returns are just beyond a window."""
    config, state = engine(FAMILY, NoDecay(), window=5, sweep_every=90)
    twin = DenseStream(config, state, NoDecay(), FAMILY)
    rng, last_in, born, expected, gaps = np.random.default_rng(1), {}, set(), [], []
    for i, z in enumerate(np.repeat(rng.integers(0, 4, 80), rng.integers(1, 4, 80))[:80]):
        state = int(twin.learn(rng.normal(12.0 * z, 1.0, 1), i)[SETTLED])
        _, _, order, Z = twin.tables()
        best = order[int(Z[-1].argmax())]
        if best not in born:
            expected.append((BIRTH, best, i))
            last_in[best] = i
        born.add(best)
        gaps.append(i - last_in.get(state, i))  # or one that a row may yet open
        if gaps[-1] > config.window and state in born:  # users know of it
            expected.append((RETURN, state, i))
        last_in[state] = i
    n, events = int(twin.state.counts[N_EVENTS]), twin.state.events
    found = zip(events.kind[:n], events.label[:n], events.arrival[:n], strict=True)
    events = [tuple(map(int, event)) for event in found]
    assert [event for event in events if event[0] != RESTART] == expected
    assert {config.window, config.window + 1} <= set(gaps)


def test_alpha_is_learned_from_the_openings_and_the_rates_of_all_rows():
    """The fixed-point step of each block: log alpha moves by 4 log(openings / rate), at most .2.

    Openings and sum of 1 / S over rows in the window, and over evicted ones with memory 500 rows.
    """
    decay, alpha_rate = Exponential(8.0), 2.0
    config, state = engine(FAMILY, decay, alpha_rate=alpha_rate)
    twin = DenseStream(config, state, decay, FAMILY)
    frozen_openings = frozen_rate = 0.0
    keep, steps = 1.0 - config.sweep_every / 500.0, []
    for i, x in enumerate(gaussian_stream(np.random.default_rng(5), 120)):
        before = int(twin.state.counts[N_ROWS])
        log_alpha = float(twin.state.sums[LOG_ALPHA])
        twin.learn(x, i)
        w, n = int(twin.state.counts[N_ROWS]), len(twin.X)
        t = np.array(twin.t)
        rate = [
            1.0 / (twin.alpha[j] + decay.weight(t[j] - t[:j]).sum() if j else twin.alpha[0])
            for j in range(n)
        ]
        np.testing.assert_allclose(twin.state.rows.rate[:w], rate[n - w :], rtol=1e-10)
        if twin.state.counts[SINCE_BLOCK] > 0:
            assert twin.state.sums[LOG_ALPHA] == log_alpha
            continue
        evicted = before + 1 - w
        _, births, _, _ = twin.tables()
        opened = [sum(b.values()) for b in births]
        frozen_rate += sum(rate[n - w - evicted : n - w])
        frozen_openings += sum(opened[n - w - evicted : n - w])
        openings = 1.0 + frozen_openings + sum(opened[n - w :])
        total = alpha_rate + frozen_rate + sum(rate[n - w :])
        step = 4.0 * (math.log(openings / total) - log_alpha)
        steps.append(abs(step))
        step = min(max(step, -0.2), 0.2)
        assert twin.state.sums[LOG_ALPHA] == pytest.approx(log_alpha + step, rel=1e-9, abs=1e-11)
        frozen_openings, frozen_rate = keep * frozen_openings, keep * frozen_rate
        assert twin.state.sums[FROZEN_RATE] == pytest.approx(frozen_rate, rel=1e-9)
        assert twin.state.sums[FROZEN_OPENINGS] == pytest.approx(frozen_openings, rel=1e-9)
    assert min(steps) < 0.2 < max(steps)


@pytest.mark.parametrize("recall", [True, False])
@pytest.mark.parametrize("decay", [NoDecay(), Exponential(20.0)], ids=repr)
def test_predictions_are_by_definition(decay, recall):
    """p(x) = sum_m pi_m p(x | m) + pi_new m(x), with pi from the links to every row so far.

    A link leads to row j's atom, a birth to one of the atoms by the urn: pi_m = (sum_j f_j Z_jm +
    alpha E beta_m) / S with (6a) of docs/math/atoms.md. A new label has the weight (6b). The
    tables' posteriors are taken over: an arrival may leave them stale.
    """
    config, state = engine(FAMILY, decay, recall=recall, gamma=3.0)
    twin = DenseStream(config, state, decay, FAMILY)
    for i, x in enumerate(gaussian_stream(np.random.default_rng(8), 70)):
        s, t = twin.state, np.array(twin.t)
        K, alpha = s.n_tables, math.exp(s.sums[LOG_ALPHA])
        f, (_, _, _, Z) = decay.weight(i - t), twin.tables()
        births = s.atoms.births[:K]
        tail = s.sums[DEAD_BIRTHS] + births.sum() - np.cumsum(births)
        c = births.sum() + s.sums[DEAD_BIRTHS]
        beta = births / (config.gamma + c) if recall else np.zeros(K)
        pi = (f @ Z[:, :K] + alpha * beta if i else alpha * beta) / (alpha + f.sum())
        new = alpha * (config.gamma / (config.gamma + c) if recall else 1.0) / (alpha + f.sum())
        density = [
            log_predictive(config.family, config.hyper, s.table.post[m], x) for m in range(K)
        ]
        weight = np.append(pi, new) * np.exp([*density, FAMILY.log_predictive(x, NOTHING)[0]])
        ids = [*s.table.ids[:K].tolist(), int(s.counts[NEXT_ID])]
        live = int((s.table.stats[:K, 0] >= 0.5).sum())
        out = twin.learn(x, i)
        assert out[SCORE] == pytest.approx(-math.log(weight.sum()), rel=1e-9, abs=1e-9)
        weight /= weight.sum()
        assert out[P_NEW] == pytest.approx(weight[-1], rel=1e-8, abs=1e-14)
        seated = weight.copy()
        if recall:
            by_sticks = np.prod((config.gamma + tail) / (1.0 + config.gamma + births + tail))
            seated[-1] *= by_sticks * (config.gamma + c) / config.gamma
        label = int(seated.argmax())
        assert out[LABEL_PROB] == pytest.approx(weight[label], rel=1e-8)
        assert out[LABEL] == ids[label]
        assert out[LIVE_TABLES] == live
    assert twin.state.n_tables > 1
