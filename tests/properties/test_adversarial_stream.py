"""A million unkind rows: nothing is lost, nothing turns NaN, no sweep lowers the bound."""

import numpy as np
import pytest

from streamddcrp import SeqDDCRP
from streamddcrp.likelihoods import NormalGamma
from streamddcrp.models.seqddcrp.engine import bound
from streamddcrp.models.seqddcrp.kernels.layout import N_SEEN
from streamddcrp.models.seqddcrp.kernels.state import forward, refresh_totals
from streamddcrp.models.seqddcrp.kernels.sweep import sweep
from tests.properties.test_stream_extremes import assert_sound, batch_of

CONSTANT = 3.25


def unkind(rng, kind, n):
    """Rows of three columns, the last one constant."""
    X = rng.normal(size=(n, 3))
    X[:, 0] += 4.0 * rng.integers(0, 3, n)
    if kind == "huge offset":
        X[:, :2] += 1e9
    elif kind == "constant":
        X[:] = rng.normal()
    elif kind == "repeats":
        X[:] = X[rng.integers(0, 3, n)]
    elif kind == "tiny":
        X[:, :2] *= 1e-12
    elif kind == "giant":
        X[:, :2] *= 1e12
    elif kind == "all scales":
        X[:, :2] *= 10.0 ** rng.uniform(-12, 12, (n, 1))
    elif kind == "giant jumps":
        X[:, :2] += np.where(np.arange(n) % 2, 1e12, -1e12)[:, None]
    elif kind == "far outliers":
        X[rng.integers(0, n, 5), :2] = rng.choice([1e100, -1e100, 1e40])
    elif kind == "holes":
        X[:, :2][rng.random((n, 2)) < 0.5] = np.nan
    X[:, 2] = CONSTANT
    return X


KINDS = [
    "plain", "huge offset", "constant", "repeats", "tiny", "giant", "all scales", "giant jumps",
    "far outliers", "holes",
]  # fmt: skip


def check(model, n_seen):
    stream = model._stream
    config, state = stream.config, stream.state
    assert model.n_seen == n_seen == int(state.counts[N_SEEN])
    assert_sound(state)
    K, D = state.n_tables, stream.n_features
    if not isinstance(stream.likelihood, NormalGamma):  # chosen where columns depend on each other
        assert np.isfinite(bound(config, state))
        return 1
    posterior = state.table.post[:K, 1 : 1 + 8 * D].reshape(K, D, 8)
    assert (posterior[:, :, 1:4] > 0.0).all()  # kappa, shape, rate
    assert np.isfinite(bound(config, state))
    settle(config, state)  # an arrival leaves tables it hardly touches to the next block
    before, rest = bound(config, state), state.table.stats[:K].copy()
    room = rounding(state, D)
    sweep(
        config, state.rows, state.groups, state.atoms, state.table, state.counts, state.scratch, 0
    )
    settle(config, state)
    moved = (state.table.stats[:K] != rest).any(axis=1)  # the others' terms are the same bits
    room = (room + rounding(state, D))[moved].sum() + 2e-9 * size(state)
    if room < 1.0:
        assert bound(config, state) >= before - room
    return room < 1.0 and bool(moved.any())


def rounding(state, D):
    """How far each table's log marginal (K,) can be off.

    Sums of squares are kept about the mean of the first rows. A rate is off by some eps of the sum
    of squares, a log marginal by shape / rate as much.
    """
    K = state.n_tables
    posterior = state.table.post[:K, 1 : 1 + 8 * D].reshape(K, D, 8)
    squares = state.table.stats[:K, 1 + 2 * D : 1 + 3 * D]
    return (posterior[:, :, 2] * 2.0**-50 * squares / posterior[:, :, 3]).sum(axis=1)


def size(state):
    """Return the sum of the bound's terms, each without its sign."""
    return np.abs(state.table.post[: state.n_tables, 0]).sum() + np.abs(state.rows.term).sum()


def settle(config, state):
    forward(state.rows, state.groups, state.atoms, state.counts, state.scratch, 0)
    refresh_totals(
        config, state.rows, state.atoms, state.table, state.counts, state.sums, state.scratch
    )


@pytest.mark.parametrize("first", KINDS)
def test_unkind_rows(first):
    rng = np.random.default_rng(0)
    model = SeqDDCRP()
    n = checked = 0
    for kind in [first, *rng.permutation(KINDS)]:
        X = unkind(rng, kind, 300)
        out = model.step_many(batch_of(X))
        n += len(X)
        assert len(out) == len(X)
        assert np.isfinite(
            out["score"].to_numpy(zero_copy_only=False)[256 if n == 300 else 0 :]
        ).all()
        checked += check(model, n)
    assert checked > 0


@pytest.mark.slow
def test_a_million_unkind_rows():
    rng = np.random.default_rng(1)
    model, checked = SeqDDCRP(), 0
    for batch in range(500):
        out = model.step_many(batch_of(unkind(rng, rng.choice(KINDS), 2000)))
        scores = out["score"].to_numpy(zero_copy_only=False)
        assert np.isfinite(scores[8 if batch == 0 else 0 :]).all()
        checked += check(model, 2000 * (batch + 1))
    assert checked > 50
