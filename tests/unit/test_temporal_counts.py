"""Counts of the temporal mixture: prior, operators, update and objective against slow twins."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamddcrp.models.temporal.kernels.counts import (
    LOG_ZERO,
    MEAN,
    VAR,
    count_terms,
    decay_moments,
    expected_past,
    log_gamma_step,
    moments_of_rows,
    sweep_epoch,
    trigamma,
)
from tests.oracles import temporal

C1 = ((0, 1), (0, 0, 2), (1, 2))
Q3 = [
    [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]],
    [[0.5, 0.25, 0.25], [0.05, 0.05, 0.9], [0.3, 0.4, 0.3]],
    [[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]],
]
ELL3 = [
    [[0, -1, -2], [-1.5, 0, -0.5]],
    [[-0.2, -0.4, -0.6], [-2, -2, 0], [-1, -0.8, -0.9]],
    [[0, -0.7, -1.4], [-1, -1, -0.1]],
]
ORDERS = ["exact", "cvb0", "taylor2", "zc"]
KAPPA3 = temporal.kernel(2.0, 2)
STEP = 0.6


def arrays(parts):
    return [np.array(part, float) for part in parts]


def window_moments(q, kappa):
    """Moments of counts (T, K, 3) and of their decayed past, by the definition of a count."""
    T, K = len(q), q[0].shape[1]
    now = np.zeros((T, K, 3))
    past = np.zeros((T, K, 3))
    for t in range(T):
        for k in range(K):
            now[t, k] = temporal.moments([(p, 1.0) for p in q[t][:, k]])
            past[t, k] = temporal.moments(temporal.items(q, t, k, kappa, now=False))
    return now, past


def no_rows_before(q, kappa):
    """Moments (W, K, 3) of the epochs before the first."""
    return np.zeros((len(kappa), q[0].shape[1], 3))


def kernel_sweep(q, ell, alpha, kappa, *, stale=0.0, epochs=None):
    """Sweep epochs in turn by the compiled kernel."""
    K = q[0].shape[1]
    for t in range(len(q)) if epochs is None else epochs:
        now, _ = window_moments(q, kappa)
        sweep_epoch(
            q[t], ell[t], t, now, no_rows_before(q, kappa), np.array(kappa), alpha / K, stale, 0.0,
            np.empty(K),
        )  # fmt: skip


def compiled_expectations(a0, of, *, plain=False):
    """E log(a0 + X), E h(X) with a step of STEP and E log Gamma(a0 + X) by the kernel."""
    weights = sorted({w for _, w in of}, reverse=True)
    counts = [temporal.moments([(p, 1.0) for p, w in of if w == weight]) for weight in weights]
    now = np.array(counts[::-1], float).reshape(-1, 1, 3)
    if plain:
        now[:, :, LOG_ZERO] = -np.inf
    before, kappa = np.zeros((len(weights), 1, 3)), np.array(weights)
    log, step, rise = (
        expected_past(a0, of_f, before, now, kappa, len(now), 0, 0)[2] for of_f in (1.0, STEP, 0.0)
    )
    return log, step, rise + math.lgamma(a0)


@st.composite
def soft_windows(draw):
    """Assignments from even to all but hard, likelihoods from none to strong, empty epochs."""
    rng = np.random.default_rng(draw(st.integers(0, 10**9)))
    sizes = draw(st.lists(st.integers(0, 5), min_size=1, max_size=5))
    K = draw(st.integers(1, 4))
    sharp = draw(st.sampled_from([0.3, 3.0, 30.0, 300.0]))
    q = []
    for n in sizes:
        s = sharp * rng.standard_normal((n, K))
        p = np.exp(s - s.max(axis=1, keepdims=True, initial=-np.inf))
        q.append(p / p.sum(axis=1, keepdims=True))
    ell = [draw(st.sampled_from([0.0, 1.0, 50.0])) * rng.standard_normal((n, K)) for n in sizes]
    alpha = draw(st.sampled_from([1e-3, 0.5, 4.0]))
    kappa = temporal.kernel(draw(st.sampled_from([0.5, 2.0, 100.0])), draw(st.integers(1, 4)))
    return q, ell, alpha, kappa


# -- O1: the prior --------------------------------------------------------------------------------


def test_joint_digits():
    kappa = temporal.kernel(2.0, 2)
    assert kappa == pytest.approx([0.6065306597, 0.3678794412], abs=5e-11)
    counts = [np.bincount(labels, minlength=3) for labels in C1]
    assert temporal.decayed(counts, 1, kappa) == pytest.approx(
        [0.6065306597, 0.6065306597, 0.0], abs=5e-11
    )
    assert temporal.decayed(counts, 2, kappa) == pytest.approx(
        [1.5809407606, 0.3678794412, 0.6065306597], abs=5e-11
    )
    changed = [((0, 1), (k, 0, 2), (1, 2)) for k in range(3)]
    logs = np.array([temporal.log_joint(c, 3, 1.2, kappa) for c in changed])
    assert logs == pytest.approx([-9.7498742636, -9.8576248697, -9.6381848309], abs=5e-11)
    weight = np.exp(logs - logs.max())
    assert weight / weight.sum() == pytest.approx(
        [0.3315631147, 0.2976944357, 0.3707424496], abs=5e-11
    )
    assert temporal.log_joint_infinite(C1, 1.2, kappa) == pytest.approx(-8.4252639231, abs=5e-11)
    other = temporal.kernel(1.7, 2)
    assert temporal.log_joint(C1, 3, 1.3, other) == pytest.approx(-9.6273961695, abs=5e-11)
    assert temporal.log_joint_infinite(C1, 1.3, other) == pytest.approx(-8.6086156893, abs=5e-11)


# -- O2: operators --------------------------------------------------------------------------------

ITEMS2 = [(0.3, 1.0), (0.02, 1.0), (0.5, math.exp(-0.5))]
LOG2 = [-0.8067432038, -0.3239791396, -0.6313410496, -0.8069018551]
STEP2 = [-0.7750041363, -0.3459545290, -0.6018387537, -0.7751134869]


def test_operator_digits():
    assert temporal.moments(ITEMS2) == pytest.approx(
        [0.6232653299, 0.3215698603, -1.0700248318], abs=5e-11
    )
    for order, log, step in zip(ORDERS, LOG2, STEP2, strict=True):
        assert temporal.expected_log(0.1, ITEMS2, order) == pytest.approx(log, abs=5e-11)
        assert temporal.expected_step(0.1, math.exp(-0.5), ITEMS2, order) == pytest.approx(
            step, abs=5e-11
        )


@given(
    st.lists(
        st.tuples(st.floats(0.0, 1.0), st.sampled_from([1.0, 0.6, 0.2])), min_size=0, max_size=8
    ),
    st.sampled_from([1e-6, 1e-3, 0.1, 2.0]),
)
def test_compiled_operators_are_the_slow_ones(of, a0):
    slow = [
        temporal.expected_log(a0, of, "zc"),
        temporal.expected_step(a0, STEP, of, "zc"),
        temporal.expected_lgamma(a0, of, "zc"),
    ]
    assert compiled_expectations(a0, of) == pytest.approx(slow, rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("y", [1e-3, 0.3, 7.0, 90_000.0, 110_000.0, 3e7])
def test_steps_of_log_gamma(y):
    from scipy.special import gammaln, polygamma

    assert trigamma(y) == pytest.approx(polygamma(1, y), rel=1e-11)
    # a difference of log gammas loses 1e-16 of their size
    size = 1e-15 * abs(gammaln(y)) + 1e-12
    assert log_gamma_step(y, 0.4) == pytest.approx(gammaln(y + 0.4) - gammaln(y), abs=size)


# -- O3: the update -------------------------------------------------------------------------------

SCORES3 = {
    "exact": (
        [0.1466279926, 0.5960262596, 0.3918548290],
        [0.7426684158, 0.6083379725, 0.2815289087],
    ),
    "cvb0": (
        [0.3527944793, 0.7560373879, 0.5154975738],
        [0.8732011438, 0.7496551247, 0.5070777060],
    ),
    "taylor2": (
        [0.1392158309, 0.6417257998, 0.3523699809],
        [0.7752622049, 0.6320622072, 0.3303727814],
    ),
    "zc": ([0.1445718066, 0.5953256111, 0.3904749530], [0.7418109872, 0.6066531119, 0.2785476483]),
}
SWEPT3 = {
    "exact": [
        [0.5715758049, 0.3295721782, 0.0988520169],
        [0.1212617953, 0.1095844194, 0.7691537853],
        [0.2266332446, 0.1827604706, 0.5906062848],
    ],
    "cvb0": [
        [0.5848495053, 0.3220147870, 0.0931357078],
        [0.1214626944, 0.1123548410, 0.7661824646],
        [0.2353695149, 0.1961266327, 0.5685038524],
    ],
    "taylor2": [
        [0.5632081261, 0.3424614861, 0.0943303878],
        [0.1216718737, 0.1114380408, 0.7668900855],
        [0.2296701989, 0.1871884904, 0.5831413107],
    ],
    "zc": [
        [0.5712822073, 0.3298497097, 0.0988680831],
        [0.1212805007, 0.1096528109, 0.7690666884],
        [0.2263355720, 0.1825487471, 0.5911156809],
    ],
}


def test_moment_digits():
    now, past = window_moments(arrays(Q3), KAPPA3)
    compiled = np.zeros((3, 3, 3))
    for t, q in enumerate(arrays(Q3)):
        moments_of_rows(q, compiled[t])
    assert compiled == pytest.approx(now, abs=1e-14)
    mean = [[0.8, 1.0, 0.2], [0.85, 0.7, 1.45], [0.8, 0.5, 0.7]]
    var = [[0.3, 0.32, 0.18], [0.5075, 0.475, 0.4875], [0.4, 0.37, 0.33]]
    log_zero = [
        [-1.3093333200, -1.8325814637, -0.2107210313],
        [-1.1011154189, -0.8498009906, -2.9469421094],
        [-1.1394342832, -0.5798184953, -1.0216512475],
    ]
    assert now[:, :, MEAN] == pytest.approx(np.array(mean), abs=1e-13)
    assert now[:, :, VAR] == pytest.approx(np.array(var), abs=1e-13)
    assert now[:, :, LOG_ZERO] == pytest.approx(np.array(log_zero), abs=5e-11)
    at_two = [
        [0.8098546137, 0.2272994014, -2.4104487389],
        [0.7924509030, 0.2180500252, -2.6823824544],
        [0.9530453448, 0.2037015786, -3.1576631407],
    ]
    assert past[2] == pytest.approx(np.array(at_two), abs=5e-11)


@given(soft_windows(), st.integers(0, 3))
def test_decayed_moments_go_on_from_those_before(window, gone):
    """Moments of the past, the first epochs known by their moments only."""
    q, _, _, kappa = window
    gone = min(gone, len(q))
    now, past = window_moments([*q, np.zeros((0, q[0].shape[1]))], kappa)
    W, K = len(kappa), q[0].shape[1]
    before = np.concatenate([np.zeros((W, K, 3)), now[:gone]])[gone:]
    out = np.empty((len(q) - gone + 1, K, 3))
    decay_moments(before, now[gone:-1], np.array(kappa), out)
    assert out == pytest.approx(past[gone:], abs=1e-12)


@pytest.mark.parametrize("order", ORDERS)
def test_update_digits(order):
    q = arrays(Q3)
    first, second = SCORES3[order]
    assert temporal.prior_scores(q, 0, 0, 1.2, KAPPA3, order) == pytest.approx(first, abs=5e-11)
    assert temporal.prior_scores(q, 1, 1, 1.2, KAPPA3, order) == pytest.approx(second, abs=5e-11)
    temporal.sweep(q, arrays(ELL3), 1.2, KAPPA3, order)
    swept = [q[0][0], q[1][1], q[2][1]]
    assert np.array(swept) == pytest.approx(np.array(SWEPT3[order]), abs=5e-11)


def test_compiled_update_digits():
    q = arrays(Q3)
    kernel_sweep(q, arrays(ELL3), 1.2, KAPPA3)
    swept = [q[0][0], q[1][1], q[2][1]]
    assert np.array(swept) == pytest.approx(np.array(SWEPT3["zc"]), abs=5e-11)


@given(soft_windows())
def test_compiled_sweep_is_the_slow_one(window):
    q, ell, alpha, kappa = window
    slow = [rows.copy() for rows in q]
    for t in range(len(q)):
        kernel_sweep(q, ell, alpha, kappa, epochs=[t])
        temporal.sweep_epoch(slow, ell, t, alpha, kappa, "zc")
        assert q[t] == pytest.approx(slow[t], rel=0.0, abs=3e-12)
        slow[t] = q[t].copy()


@pytest.mark.parametrize("sure", [1, 2])
def test_a_sweep_beside_an_epoch_of_sure_rows_is_the_slow_one(sure):
    """What is older than rows that are there for certain is not looked at."""
    rng = np.random.default_rng(sure)
    q = [rng.dirichlet(np.ones(2), 3) for _ in range(4)]
    q[sure] = np.eye(2)[[0, 0, 0, 1, 1]]
    ell = [np.zeros((len(rows), 2)) for rows in q]
    kappa = temporal.kernel(0.5, 3)
    for t in (0, 3):
        slow = [rows.copy() for rows in q]
        temporal.sweep_epoch(slow, ell, t, 0.01, kappa, "zc")
        kernel_sweep(q, ell, 0.01, kappa, epochs=[t])
        assert q[t] == pytest.approx(slow[t], rel=0.0, abs=3e-12)


@given(soft_windows())
def test_compiled_sweep_keeps_the_moments(window):
    """What the kernel leaves in its arrays is what its rows say."""
    q, ell, alpha, kappa = window
    kept, _ = window_moments(q, kappa)
    now = kept.copy()
    K = q[0].shape[1]
    sweep_epoch(
        q[0], ell[0], 0, now, no_rows_before(q, kappa), np.array(kappa), alpha / K, 0.0, 0.0,
        np.empty(K),
    )  # fmt: skip
    again, _ = window_moments(q, kappa)
    assert now[0] == pytest.approx(again[0], abs=1e-12)
    assert (now[1:] == kept[1:]).all()


@given(soft_windows(), st.integers(1, 3))
def test_epochs_before_the_window_count_by_their_moments(window, gone):
    q, ell, alpha, kappa = window
    gone = min(gone, len(q) - 1)
    W, K = len(kappa), q[0].shape[1]
    now, _ = window_moments(q, kappa)
    before = np.concatenate([np.zeros((W, K, 3)), now[:gone]])[gone:]
    whole, part = np.empty((len(q), K)), np.empty((len(q) - gone, K))
    count_terms(no_rows_before(q, kappa), now, np.array(kappa), alpha / K, whole)
    count_terms(before, now[gone:], np.array(kappa), alpha / K, part)
    assert (part == whole[gone:]).all()
    swept = q[gone].copy()
    kernel_sweep(q, ell, alpha, kappa, epochs=[gone])
    sweep_epoch(
        swept, ell[gone], 0, now[gone:], before, np.array(kappa), alpha / K, 0.0, 0.0, np.empty(K)
    )
    assert (swept == q[gone]).all()


@pytest.mark.parametrize("seed", range(5))
def test_interpolated_look_ahead(seed):
    """The look-ahead taken anew only when a count moved is right to 5e-3 nats."""
    rng = np.random.default_rng(seed)
    K, kappa = 6, temporal.kernel(2.0, 3)
    s = 2.0 * rng.standard_normal((5, 60, K))
    q = list(np.exp(s) / np.exp(s).sum(axis=2, keepdims=True))
    ell = [np.zeros((60, K))] * 5
    exact, quick = [rows.copy() for rows in q], [rows.copy() for rows in q]
    kernel_sweep(exact, ell, 0.6, kappa, stale=0.0, epochs=[1])
    kernel_sweep(quick, ell, 0.6, kappa, stale=0.01, epochs=[1])
    gap = np.log(exact[1]) - np.log(quick[1])
    assert np.abs(gap - gap.mean(axis=1, keepdims=True)).max() < 5e-3
    assert np.abs(gap).mean() < 1e-3


# -- O4: the objective ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "value"),
    list(zip(ORDERS, [-8.9588090530, -10.2259283514, -9.0359875398, -8.9421855017], strict=True)),
)
def test_objective_digits(order, value):
    assert temporal.expected_log_joint(arrays(Q3), 1.2, KAPPA3, order) == pytest.approx(
        value, abs=5e-11
    )


def test_count_terms_are_the_monitor():
    now, _ = window_moments(arrays(Q3), KAPPA3)
    out = np.empty((3, 3))
    count_terms(no_rows_before(arrays(Q3), KAPPA3), now, np.array(KAPPA3), 0.4, out)
    sizes = [2, 3, 2]
    totals = [1.2 + temporal.decayed(sizes, t, KAPPA3) for t in range(3)]
    shared = sum(
        math.lgamma(total) - math.lgamma(total + n) for total, n in zip(totals, sizes, strict=True)
    )
    assert out.sum() + shared == pytest.approx(-8.9421855017, abs=5e-11)


def test_empty_slot_adds_nothing():
    """O9 (e)."""
    q = [np.hstack([rows, np.zeros((len(rows), 1))]) for rows in arrays(Q3)]
    now, _ = window_moments(q, KAPPA3)
    before, kappa = no_rows_before(q, KAPPA3), np.array(KAPPA3)
    out, without = np.empty((3, 4)), np.empty((3, 3))
    count_terms(before, now, kappa, 0.4, out)
    count_terms(before[:, :3], now[:, :3], kappa, 0.4, without)
    assert (out[:, 3] == 0.0).all()
    assert (out[:, :3] == without).all()


# -- how near expectations are to the exact ones --------------------------------------------------


def term_and_exact(a0, past, count):
    """What a count adds to the objective, by the kernel and by enumeration; ``past``: p, weight."""
    weights = sorted({w for _, w in past}, reverse=True)
    rows = [[p for p, w in past if w == weight] for weight in reversed(weights)] + [count]
    now = np.array([[temporal.moments([(p, 1.0) for p in epoch])] for epoch in rows], float)
    out = np.empty((len(rows), 1))
    count_terms(np.zeros((len(weights), 1, 3)), now, np.array(weights), a0, out)
    exact = temporal.expected_lgamma(a0, past + [(p, 1.0) for p in count], "exact")
    return out[-1, 0], exact - temporal.expected_lgamma(a0, past, "exact")


@pytest.mark.parametrize("weight", [1e-6, math.exp(-5.0), 0.108, 0.368])
@pytest.mark.parametrize("q", [1e-6, 0.0033, 0.05, 0.9])
def test_one_row_beside_a_faint_past_is_exact(weight, q):
    """A row that was sure is known by the probability SURE of none, which adds at most 15 of it."""
    of = [(1.0, weight)]
    term, exact = term_and_exact(0.00037, of, [q])
    assert exact == pytest.approx(q * math.log(0.00037 + weight), abs=1e-12)
    assert term == pytest.approx(exact, abs=15.0 * temporal.SURE)
    items = [*of, (q, 1.0)]
    found = compiled_expectations(0.00037, items)
    slow = [
        temporal.expected_log(0.00037, items, "exact"),
        temporal.expected_step(0.00037, STEP, items, "exact"),
        temporal.expected_lgamma(0.00037, items, "exact"),
    ]
    assert found == pytest.approx(slow, abs=15.0 * temporal.SURE)


def some_rows(sure, crumbs, share):
    return [1.0] * sure + [share] * crumbs


@given(
    st.lists(
        st.builds(
            some_rows, st.sampled_from([0, 0, 1, 5]), st.sampled_from([0, 1, 5]),
            st.sampled_from([0.0033, 0.05, 0.3]),
        ),
        min_size=4, max_size=4,
    ),
    st.sampled_from([0.2, 0.5, 1.0, 2.0, 5.0]),
    st.sampled_from([0.00037, 0.001, 0.1, 1.0]),
)  # fmt: skip
def test_counts_on_any_past_are_near_the_exact_ones(epochs, decay, a0):
    """Sure rows and crumbs in any of four epochs, from a short memory to a long one."""
    *past, count = epochs
    kappa = temporal.kernel(decay, len(past))
    items = [(p, w) for rows, w in zip(past, kappa, strict=True) for p in rows]
    term, exact = term_and_exact(a0, items, count)
    assert term == pytest.approx(exact, abs=0.05)


@given(soft_windows(), st.sampled_from([0.2, 0.5, 2.0]), st.integers(0, 4))
def test_scores_of_a_row_are_near_the_exact_ones(window, decay, t):
    """Log odds of one row, off by the errors of one expectation and two for each later epoch."""
    q, _, alpha, _ = window
    t, K, kappa = t % len(q), q[0].shape[1], temporal.kernel(decay, 3)
    if not len(q[t]):
        return
    exact = np.array(temporal.prior_scores(q, t, 0, alpha, kappa, "exact"))
    swept = [rows.copy() for rows in q]
    # the likelihoods take back what is exact: all shares should be even
    kernel_sweep(swept, [-np.tile(exact, (len(rows), 1)) for rows in q], alpha, kappa, epochs=[t])
    n = 2 * (1 + 2 * min(len(kappa), len(q) - 1 - t))
    assert np.abs(np.log(K * swept[t][0])).max() < n * 0.05
