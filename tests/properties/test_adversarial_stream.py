"""A million unkind rows: nothing is lost, nothing turns NaN, no sweep lowers the bound."""

import numpy as np
import pytest

from streamddcrp import SeqDDCRP
from streamddcrp.likelihoods.kernels import families
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
    K = state.n_tables
    for positive, _ in parts(config, state):
        assert (positive > 0.0).all()
    assert np.isfinite(bound(config, state))
    settle(config, state)  # an arrival leaves tables it hardly touches to the next block
    before, rest = bound(config, state), state.table.stats[:K].copy()
    room = rounding(config, state)
    sweep(
        config, state.rows, state.groups, state.atoms, state.table, state.counts, state.scratch, 0
    )
    settle(config, state)
    moved = (state.table.stats[:K] != rest).any(axis=1)  # the others' terms are the same bits
    room = (room + rounding(config, state))[moved].sum() + 2e-9 * size(state)
    if room < 1.0:
        assert bound(config, state) >= before - room
    return room < 1.0 and bool(moved.any())


def parts(config, state):
    """Yield, by part of the family, what is positive in each table, and the slope of `rounding`.

    A log marginal falls by shape / rate with a rate, by dof / 2 of the inverse with a scatter.
    """
    K, hyper = state.n_tables, config.hyper
    for i in range(families.n_parts(config.family, hyper)):
        code, h, _, s, q = families.part_of(config.family, hyper, i)
        D, stats, post = int(hyper[h]), state.table.stats[:K, s + 1 :], state.table.post[:K, q:]
        if code == families.NORMAL_GAMMA:
            post = post[:, 1 : 1 + 8 * D].reshape(K, D, 8)
            steep = post[:, :, 2] / post[:, :, 3] * stats[:, 2 * D : 3 * D]
            yield post[:, :, 1:4], steep.sum(axis=1)  # kappa, shape, rate
            continue
        assert code == families.NORMAL_WISHART
        below, (root, squares) = np.tril_indices(D), np.zeros((2, K, D, D))
        root[:, *below] = post[:, 6 + D : 6 + D + len(below[0])]  # of the inverse of the scatter
        squares[:, *below] = squares.swapaxes(1, 2)[:, *below] = stats[:, D : D + len(below[0])]
        inverse = root.swapaxes(1, 2) @ root
        steep = 0.5 * post[:, 2] * (np.abs(inverse) * np.abs(squares)).sum(axis=(1, 2))
        diagonal = np.diagonal(root, axis1=1, axis2=2)
        yield np.column_stack([post[:, 1:3], diagonal]), steep  # kappa, dof, roots


def rounding(config, state):
    """How far each table's log marginal (K,) can be off.

    Sums of squares are kept about the mean of the first rows. A rate, or an entry of a scatter, is
    off by some eps of the sum of squares, a log marginal by its slope as much.
    """
    return 2.0**-50 * sum(steep for _, steep in parts(config, state))


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
