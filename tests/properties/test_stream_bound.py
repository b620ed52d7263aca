"""The streamed bound is the dense (N, N) bound of the links that were really made."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamddcrp.compilation import entry_point
from streamddcrp.contract import FADE, LABEL
from streamddcrp.decay import Exponential, LinearWindow, Logistic, NoDecay, UserDecay, Window
from streamddcrp.likelihoods import NormalGamma, NormalWishart
from streamddcrp.models.seqddcrp.config import halo_of, make_config
from streamddcrp.models.seqddcrp.engine import bound, given_weights, groups_of, run
from streamddcrp.models.seqddcrp.kernels.amend import amend
from streamddcrp.models.seqddcrp.kernels.divide import divide
from streamddcrp.models.seqddcrp.kernels.layout import (
    FOLLOWED,
    N_COLUMNS,
    N_EVENTS,
    N_ROWS,
    N_SEEN,
    N_TABLES,
    REDRAWN,
    RETURN_LEAD,
    SPEED,
    WANDER_LEAD,
)
from streamddcrp.models.seqddcrp.kernels.moves import _move, look_back, merge
from streamddcrp.models.seqddcrp.kernels.state import (
    activate,
    forward,
    open_column,
    refresh_active,
    refresh_totals,
    settle,
)
from streamddcrp.models.seqddcrp.kernels.sweep import sweep
from streamddcrp.models.seqddcrp.state import empty_state
from tests.oracles.dense_stream import DenseStream
from tests.oracles.plain import plain


def gaussian_stream(rng, n, d=1):
    """Regimes of random length, some of which return."""
    means = rng.normal(0, 4, (4, d))
    label = np.repeat(rng.integers(0, 4, n), rng.integers(1, 25, n))[:n]
    return means[label] + rng.normal(0, 1, (n, d)) * rng.choice([0.3, 1.0], (n, 1))


def overlapping(rng, n, d=1):
    """Independent draws from three overlapping clusters."""
    return rng.normal(0, 1, (n, d)) + 3.0 * rng.integers(-1, 2, (n, 1))


def engine(likelihood, decay, d=1, clocked=False, **options):
    settings = {
        "alpha": 0.2, "gamma": 3.0, "recall": True, "window": 12, "sweep_every": 4,
        "n_sweeps": 1, "look_back": 8, "birth_threshold": 0.05, "max_tables": 64,
    } | options  # fmt: skip
    tied, halo = halo_of(decay, settings["alpha"], settings["window"], clocked=clocked)
    config = make_config(
        family=likelihood.family,
        hyper=likelihood.hyper(d),
        decay=(decay.code, decay.location, decay.scale),
        tied=tied,
        halo=halo,
        **settings,
    )
    return config, empty_state(config)


def learned(config, state, X, t, given=None):
    """Return the state after rows (N, D) at times (N,)."""
    given = np.empty((1, 0)) if given is None else np.ascontiguousarray(given)
    return run(config, state, np.ascontiguousarray(X), t, given, np.empty((len(X), N_COLUMNS)))


DECAYS = [
    NoDecay(),
    Exponential(2.5),
    Exponential(20.0),
    Window(6),
    LinearWindow(9.5),
    Exponential(4.0) * Window(8),
    UserDecay(lambda d: 1.0 / (1.0 + d) * (d < 7)),
]


@pytest.mark.parametrize("decay", DECAYS, ids=lambda d: type(d).__name__)
@given(
    seed=st.integers(0, 2**32 - 1),
    window=st.integers(1, 16),
    sweep_every=st.integers(1, 9),
    n_sweeps=st.integers(0, 2),
    recall=st.booleans(),
)
def test_streamed_bound_equals_dense_bound(decay, seed, window, sweep_every, n_sweeps, recall):
    rng = np.random.default_rng(seed)
    X = gaussian_stream(rng, 60)
    likelihood = NormalGamma(0.0, 0.05, 1.5, 0.5)
    config, state = engine(
        likelihood, decay, window=window, sweep_every=sweep_every, n_sweeps=n_sweeps, recall=recall
    )
    twin = DenseStream(config, state, decay, likelihood)
    for i, x in enumerate(X):
        times = np.array([float(i)])
        twin.learn(x, i, given_weights(decay, config, twin.state, times, clocked=False))
        if i % 13 == 12 or i == len(X) - 1:
            # Retired tables may keep 1e-12 of a row; 60 rows of |log p| < 1e4 give 1e-6 of 1e2.
            twin.assert_bound(bound(config, twin.state))


@given(seed=st.integers(0, 2**32 - 1), recall=st.booleans(), missing=st.booleans())
def test_corrected_rows_are_exact(seed, recall, missing):
    """The bound is that of the corrected rows, and the sweep does not lower it."""
    rng = np.random.default_rng(seed)
    X = gaussian_stream(rng, 60)
    likelihood = NormalGamma(0.0, 0.05, 1.5, 0.5)
    decay = Exponential(4.0)
    config, state = engine(likelihood, decay, window=16, recall=recall)
    twin = DenseStream(config, state, decay, likelihood)
    for i, x in enumerate(X):
        twin.learn(x, i)
        if i % 7 == 6:
            back = int(rng.integers(1, 1 + twin.state.counts[N_ROWS]))
            twin.X[-back] = np.array([np.nan if missing else rng.choice(X[:, 0])])
            at_first = twin.bound()
            at = int(twin.state.counts[N_ROWS]) - back
            entry_point(amend)(*groups_of(config, twin.state), at, twin.X[-back].copy())
            twin.assert_bound(bound(config, twin.state))
            assert twin.bound() >= at_first - 1e-6


@given(seed=st.integers(0, 2**32 - 1), recall=st.booleans(), learn_prior=st.booleans())
def test_with_columns_that_count_in_part(seed, recall, learn_prior):
    rng = np.random.default_rng(seed)
    X = gaussian_stream(rng, 60, d=3)
    decay = Exponential(5.0)
    likelihood = NormalGamma(0.0, 0.05, 1.5, 0.5, 0.0, 0.7, None, (1.0, 0.5, 0.1))
    config, state = engine(likelihood, decay, d=3, recall=recall, learn_prior=learn_prior)
    twin = DenseStream(config, state, decay, likelihood)
    for i, x in enumerate(X):
        twin.learn(x, i)
    twin.assert_bound(bound(config, twin.state))


@given(seed=st.integers(0, 2**32 - 1), recall=st.booleans())
def test_with_time_stamps(seed, recall):
    rng = np.random.default_rng(seed)
    decay = Exponential(5.0)
    X = gaussian_stream(rng, 60, d=2)
    t = np.cumsum(rng.exponential(1.0, len(X)) * (rng.random(len(X)) < 0.8))
    likelihood = NormalWishart([0.0, 0.0], 0.05, np.eye(2), 4.0)
    config, state = engine(likelihood, decay, d=2, clocked=True, recall=recall)
    twin = DenseStream(config, state, decay, likelihood)
    for x, time in zip(X, t, strict=True):
        twin.learn(x, time)
    twin.assert_bound(bound(config, twin.state))


@pytest.mark.parametrize("max_tables", [6, 64])
def test_retired_atoms_stay_in_the_bound(max_tables):
    """Retired for want of room, or because atoms that are away are known not to come back."""
    rng = np.random.default_rng(3)
    likelihood = NormalGamma(0.0, 0.001, 1.5, 0.1)
    decay = Exponential(1.5)
    config, state = engine(
        likelihood, decay, window=4, sweep_every=2, max_tables=max_tables, look_back=0
    )
    if max_tables > 6:
        state.sums[[RETURN_LEAD, REDRAWN, FOLLOWED]] = -20.0, 1e6, 1e6
    twin = DenseStream(config, state, decay, likelihood)
    for block in range(14):
        for x in rng.normal(40.0 * (5 * block % 14), 1.0, (50, 1)):
            twin.learn(x, len(twin.X))
    assert len(twin.retired) > 10
    twin.assert_bound(bound(config, twin.state))


@pytest.mark.parametrize("decay", [NoDecay(), Exponential(5.0), Window(6)], ids=repr)
def test_merges_are_exact(decay):
    """Frozen history included; each stream here makes some merges."""
    n_merged = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        likelihood = NormalGamma(0.0, 0.05, 1.5, 0.02)  # narrow: the first regime is cut in pieces
        config, state = engine(likelihood, decay)
        twin = DenseStream(config, state, decay, likelihood)
        for i, x in enumerate(gaussian_stream(rng, 160)):
            before = len(twin.merged)
            twin.learn(
                x, i, given_weights(decay, config, twin.state, np.array([float(i)]), clocked=False)
            )
            if len(twin.merged) > before or i % 40 == 39:
                twin.assert_bound(bound(config, twin.state))
        n_merged += len(twin.merged)
    assert n_merged >= 5


@given(seed=st.integers(0, 2**32 - 1), recall=st.booleans())
def test_statistics_and_table_probabilities(seed, recall):
    rng = np.random.default_rng(seed)
    likelihood = NormalGamma(0.0, 0.05, 1.5, 0.5)
    decay = Exponential(5.0)
    config, state = engine(likelihood, decay, recall=recall)
    twin = DenseStream(config, state, decay, likelihood)
    for i, x in enumerate(gaussian_stream(rng, 50)):
        twin.learn(x, i)
    K, w = int(twin.state.counts[N_TABLES]), int(twin.state.counts[N_ROWS])
    A, births, _, Z = twin.tables()
    np.testing.assert_allclose(A.sum(1) + [sum(b.values()) for b in births], 1.0, rtol=1e-12)
    np.testing.assert_allclose(Z.sum(1), 1.0, rtol=1e-10)
    np.testing.assert_allclose(twin.state.rows.probs[:K, :w].T, Z[-w:, :K], rtol=1e-9, atol=1e-11)
    stats = Z[:, :K].T @ likelihood.suffstats(np.array(twin.X))
    scale = np.abs(likelihood.suffstats(np.array(twin.X))).sum(0)
    assert (np.abs(twin.state.table.stats[:K] - stats) <= 1e-10 * scale).all()


@pytest.mark.parametrize("decay", [NoDecay(), Exponential(6.0), Window(5), Logistic(3.0)], ids=repr)
@given(seed=st.integers(0, 2**32 - 1), recall=st.booleans())
def test_no_sweep_lowers_the_bound(decay, seed, recall):
    rng = np.random.default_rng(seed)
    likelihood = NormalGamma(0.0, 0.05, 1.5, 0.5)
    config, state = engine(likelihood, decay, window=20, n_sweeps=0, recall=recall)
    twin = DenseStream(config, state, decay, likelihood)
    for i, x in enumerate(gaussian_stream(rng, 45)):
        twin.learn(x, i)
    s = twin.state
    before = bound(config, s)
    for start in (0, 7, 15, 0):
        refresh_totals(config, s.rows, s.atoms, s.table, s.counts, s.sums, s.scratch)
        sweep(config, s.rows, s.groups, s.atoms, s.table, s.counts, s.scratch, start)
        forward(s.rows, s.groups, s.atoms, s.counts, s.scratch, start)
        refresh_totals(config, s.rows, s.atoms, s.table, s.counts, s.sums, s.scratch)
        after = bound(config, s)
        # A restricted option costs at most its probability, 1e-8 a row, in nats.
        assert after >= before - 1e-9 * abs(before) - 1e-6
        before = after


@pytest.mark.parametrize("decay", [Exponential(2.0), Window(4)], ids=repr)
@pytest.mark.parametrize("memory", [np.inf, 60.0])
def test_splits_are_exact(decay, memory):
    """An atom split off its shadow, the rows evicted long ago included."""
    n_splits = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        likelihood = NormalGamma(0.0, 0.05, 1.5, 1.5)
        config, state = engine(
            likelihood, decay, d=3, alpha=20.0, look_back=0, max_tables=1, memory=memory
        )
        twin = DenseStream(config, state, decay, likelihood)
        for i, x in enumerate(overlapping(rng, 300, 3)):
            if i == 50:  # all in one broad table so far
                twin.config = config._replace(max_tables=64, birth_threshold=1.0 - 1e-9)
            before = twin.n_splits
            given = given_weights(decay, config, twin.state, np.array([float(i)]), clocked=False)
            twin.learn(x, i, given)
            if twin.n_splits > before or i % 50 == 49:
                twin.assert_bound(bound(config, twin.state))
        n_splits += twin.n_splits
    assert n_splits > 2


@pytest.mark.parametrize("memory", [np.inf, 800.0])
@pytest.mark.parametrize(("before", "after"), [(24, 40), (100, 60)])
def test_the_larger_part_of_a_split_keeps_the_id(before, after, memory):
    """Two regimes at one table, for want of room; the later one is split off once there is some."""
    likelihood, decay = NormalGamma(0.0, 0.05, 1.5, 1.5), Exponential(2.0)
    config, state = engine(
        likelihood, decay, d=3, alpha=20.0, look_back=0, max_tables=1, memory=memory
    )
    twin = DenseStream(config, state, decay, likelihood)
    means = np.repeat([0.0, 5.0], [before, after + 40])
    for i, x in enumerate(np.random.default_rng(0).normal(means[:, None], 1.0, (len(means), 3))):
        if i == before + after:
            twin.config = config._replace(max_tables=64, birth_threshold=1.0 - 1e-9)
        label = int(twin.learn(x, i)[LABEL])
    assert twin.n_splits == 1
    assert twin.n_swaps == (after > before)
    assert (label == 0) == (after > before)
    twin.assert_bound(bound(config, twin.state))


@pytest.mark.parametrize("decay", [Exponential(2.0), Window(4)], ids=repr)
def test_what_visitors_have_lost_is_exact(decay):
    """Three regimes by turns, each somewhat off where it was; all visits after long absences."""
    n_faded = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        likelihood = NormalGamma(0.0, 0.05, 1.5, 0.5)
        config, state = engine(likelihood, decay, memory=60.0)
        state.sums[WANDER_LEAD] = 20.0
        twin = DenseStream(config, state, decay, likelihood)
        means = np.repeat(np.tile([0.0, 8.0, 16.0], 4) + rng.normal(0.0, 0.5, 12), 40)
        for i, x in enumerate(rng.normal(means, 1.0)):
            given = given_weights(decay, config, twin.state, np.array([float(i)]), clocked=False)
            before = int(twin.state.counts[N_EVENTS])
            twin.learn([x], i, given)
            kinds = twin.state.events.kind[before : int(twin.state.counts[N_EVENTS])]
            if FADE in kinds or i % 40 == 39:
                n_faded += int((kinds == FADE).sum())
                twin.assert_bound(bound(config, twin.state))
    assert n_faded >= 9


@pytest.mark.parametrize("decay", [Exponential(8.0), Window(6)], ids=repr)
@pytest.mark.parametrize("recall", [True, False])
def test_what_moving_tables_forget_is_exact(decay, recall):
    """Two clusters that move on, stay, and move on."""
    n_changes = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        likelihood = NormalGamma(0.0, 0.05, 1.5, 0.5)
        config, state = engine(likelihood, decay, memory=48.0, recall=recall)
        twin = DenseStream(config, state, decay, likelihood)
        steps = np.repeat([0.05, 0.0, 0.05], [150, 250, 100])
        means = np.cumsum(steps) + 12.0 * rng.integers(0, 2, len(steps))
        fast = {}
        for i, x in enumerate(rng.normal(means, 1.0)):
            given = given_weights(decay, config, twin.state, np.array([float(i)]), clocked=False)
            twin.learn([x], i, given)
            changed = any(twin.fast[k] != was for k, was in fast.items())
            if changed or i % 50 == 49:
                n_changes += changed
                twin.assert_bound(bound(config, twin.state))
            fast = dict(twin.fast)
    assert n_changes >= 4


@pytest.mark.parametrize("decay", [Exponential(2.0), NoDecay()], ids=repr)
def test_splits_by_what_halves_predict_are_exact(decay):
    """Where rows come in no order, and links then reach further."""
    n_forgotten, slowest = 0, 1.0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        likelihood = NormalGamma(0.0, 0.1, 2.0, 6.0)
        far = 16.0 if isinstance(decay, Exponential) else 0.0
        config, state = engine(
            likelihood, decay, d=2, alpha=0.02, window=64, memory=80.0, far=far, look_back=16
        )
        twin = DenseStream(config, state, decay, likelihood)
        for i, x in enumerate(rng.normal(3.5 * rng.integers(0, 2, (500, 2)), 1.0)):
            before = twin.n_forgotten
            twin.learn(x, i)
            if twin.n_forgotten > before or i % 50 == 49:
                twin.assert_bound(bound(config, twin.state))
        n_forgotten += twin.n_forgotten
        slowest = min(slowest, twin.state.sums[SPEED])
    assert n_forgotten >= 3
    assert slowest == (0.125 if far else 1.0)


@pytest.mark.parametrize("recall", [True, False])
@pytest.mark.parametrize("decay", [Exponential(20.0), Window(30)], ids=repr)
def test_divisions_are_exact_and_raise_the_bound(decay, recall):
    """Rows of two kinds in random order, all at one table: no run of them is of one kind."""
    rng = np.random.default_rng(0)
    likelihood = NormalGamma(0.0, 0.05, 1.5, 1.5)
    config, state = engine(
        likelihood, decay, d=2, recall=recall, look_back=0, max_tables=1, window=24
    )
    twin = DenseStream(config, state, decay, likelihood)
    kind = rng.integers(0, 2, 50)
    for i, k in enumerate(kind):
        given = given_weights(decay, config, twin.state, np.array([float(i)]), clocked=False)
        twin.learn(rng.normal(8.0 * k, 1.0, 2), i, given)
    config = config._replace(look_back=32, max_tables=64)
    state, before = twin.state, bound(config, twin.state)
    divide(
        config, state.rows, state.groups, state.atoms, state.table, state.events, state.counts,
        state.sums, state.scratch,
    )  # fmt: skip
    assert state.n_tables == 2
    assert bound(config, state) > before
    twin.assert_bound(bound(config, state))
    w = int(state.counts[N_ROWS])
    new = state.rows.probs[1, :w] > 0.5
    assert new.any()
    assert len(set(kind[-w:][new])) == 1


def test_a_run_returns_to_its_table():
    """Sweeps call no absent table back: a run that began at another one stays there."""
    rng = np.random.default_rng(0)
    likelihood, decay = NormalGamma(0.0, 0.05, 1.5, 0.5), Exponential(1.0)
    config, state = engine(likelihood, decay, look_back=0, window=24)
    twin = DenseStream(config, state, decay, likelihood)
    means = np.repeat([0.0, 5.0, 20.0, 0.0], [40, 4, 20, 16])
    for i, x in enumerate(rng.normal(means, 1.0)):
        twin.learn([x], i)
    state, counts = twin.state, twin.state.counts
    rows, groups, atoms, table = state.rows, state.groups, state.atoms, state.table
    home, few = 0, int(np.abs(table.post[: counts[N_TABLES], 1] - 5.0).argmin())
    assert few > 0
    moved, w = state.scratch.moved, int(counts[N_ROWS])
    moved[:w] = np.arange(w) >= w - 16
    plain(_move)(rows, counts, moved, int(atoms.active[0]), few)  # where they do not belong
    plain(activate)(atoms, counts, few)
    table.last_seen[home] = 20  # long ago
    for _ in range(3):
        plain(settle)(config, rows, groups, atoms, table, counts, state.sums, state.scratch, 0)
        sweep(config, rows, groups, atoms, table, counts, state.scratch, 0)
    plain(settle)(config, rows, groups, atoms, table, counts, state.sums, state.scratch, 0)
    assert (rows.probs[few, w - 16 : w] > 0.9).all()
    before, n_tables = bound(config, state), int(counts[N_TABLES])
    config = config._replace(look_back=32)
    plain(look_back)(
        config, rows, groups, atoms, table, state.events, counts, state.sums, state.scratch
    )
    assert (rows.probs[home, w - 16 : w] > 0.9).all()
    assert counts[N_TABLES] == n_tables
    assert bound(config, state) > before
    twin.assert_bound(bound(config, state))


@given(
    seed=st.integers(0, 2**32 - 1), alpha_rate=st.sampled_from([0.5, 10.0]), look_back=st.booleans()
)
def test_what_is_learned_keeps_the_bound_exact(seed, alpha_rate, look_back):
    """Alpha, the base measure and forgetting, all at once, with moves."""
    rng = np.random.default_rng(seed)
    likelihood = NormalGamma(0.0, 0.05, 1.5, 0.5)
    decay = Exponential(4.0)
    config, state = engine(
        likelihood, decay, alpha_rate=alpha_rate, learn_prior=True, memory=10.0,
        look_back=8 * look_back,
    )  # fmt: skip
    twin = DenseStream(config, state, decay, likelihood)
    for i, x in enumerate(gaussian_stream(rng, 70)):
        twin.learn(x, i)
    assert np.ptp(twin.alpha) > 0.0
    twin.assert_bound(bound(config, twin.state))


def test_empty_tables_go_and_no_merge_lowers_the_bound():
    """Empty columns behind the last that is used leave the bound as it is, and must not collect."""
    likelihood, decay = NormalGamma(0.0, 0.05, 1.5, 0.02), Exponential(5.0)
    for seed in range(6):
        config, state = engine(likelihood, decay, window=8)
        twin = DenseStream(config, state, decay, likelihood)
        for i, x in enumerate(gaussian_stream(np.random.default_rng(seed), 60)):
            twin.learn(x, i)
        state = twin.state
        counts, rest = state.counts, (state.sums, state.scratch)
        parts = (state.rows, state.groups, state.atoms, state.table)
        plain(settle)(config, *parts, counts, *rest, 0)
        n_tables, n_empty = int(counts[N_TABLES]), seed % 3
        for _ in range(n_empty):
            plain(open_column)(*parts, counts, int(counts[N_SEEN]))
        plain(refresh_active)(state.rows, state.groups, state.atoms, counts)
        before = bound(config, state)
        while plain(merge)(config, *parts, state.events, counts, *rest, 0.0):
            plain(settle)(config, *parts, counts, *rest, 0)
            after = bound(config, state)
            assert after >= before - 1e-12 * abs(before)
            before = after
        assert counts[N_TABLES] <= n_tables
        assert (state.table.stats[: counts[N_TABLES], 0] > 0.0).all()
