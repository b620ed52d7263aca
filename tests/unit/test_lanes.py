"""Eight numbers at once: compiled as without, and what the kernels add up by them."""

import numpy as np
import pytest

from streamddcrp.compilation import entry
from streamddcrp.decay import Exponential
from streamddcrp.lanes import (
    LANES,
    between,
    floored,
    lanes,
    larger,
    largest_of,
    load,
    load_column,
    power_of,
    solved,
    store,
    sum_of,
    sums_of,
    times_power,
)
from streamddcrp.likelihoods import NormalGamma
from streamddcrp.models.seqddcrp.kernels.vectors import shift, sum_exp
from streamddcrp.models.seqddcrp.state import arrays_of, state_from_arrays
from streamddcrp.numerics import exp_lanes, log_lanes
from tests.oracles.plain import plain
from tests.properties.test_stream_bound import engine, learned


@entry
def everything(A, columns, row, at, out):
    a, b = load(A[0], at), load(A[1], at)
    store(out, 0, a + b)
    store(out, 8, 2.0 * a - b * a)
    store(out, 16, larger(a, b) - 1.0)
    store(out, 24, floored(a, 0.5))
    store(out, 32, between(a, row, 6))
    store(out, 40, load_column(A, row, at))
    store(out, 48, solved(a, columns))
    store(out, 56, times_power(a, lanes(6755399441055744.0 + 3.0)))
    store(out, 64, sums_of(a, b, a + 1.0, b + 2.0, 1.0 - a, b - 3.0, a * b, lanes(0.25)))
    store(out, 72, exp_lanes(-30.0 * a))
    store(out, 80, log_lanes(a) / (b + 1.0))
    store(out, 88, power_of(a))
    out[96], out[97] = sum_of(a), largest_of(b)


@entry
def logs_of(x, out):
    for j in range(0, len(x), LANES):
        store(out, j, log_lanes(load(x, j)))


def test_compiled_lanes_are_what_arrays_are():
    A = np.random.default_rng(0).uniform(size=(16, 24))
    strict = np.tril(A[:LANES, :LANES], -1)
    found, expected = np.zeros(104), np.zeros(104)
    everything(A, strict.T.copy(), 3, 8, found)
    plain(everything)(A, strict.T.copy(), 3, 8, expected)
    a, b = A[0, 8:16], A[1, 8:16]
    np.testing.assert_allclose(
        found, expected, rtol=1e-14, atol=1e-15
    )  # a product and a sum may be one
    np.testing.assert_allclose(found[72:80], np.exp(-30.0 * a), rtol=6e-16)
    np.testing.assert_array_equal(found[56:64], 8.0 * a)
    np.testing.assert_array_equal(found[40:48], A[3:11, 8])
    np.testing.assert_array_equal(found[32:40], [*[0.0] * 3, *a[3:6], 0.0, 0.0])
    np.testing.assert_allclose(found[48:56], np.linalg.solve(np.eye(LANES) - strict, a), rtol=1e-12)
    np.testing.assert_allclose(found[80:88], np.log(a) / (b + 1.0), rtol=1e-15)
    np.testing.assert_array_equal(found[88:96], np.round(np.log2(a)))
    assert found[96] == pytest.approx(a.sum(), rel=1e-15)
    assert found[97] == b.max()


def test_what_underflows_is_not_negative():
    x = np.array([0.0, -699.0, -701.0, -1e300, -np.inf, -745.0, -1e-300, 1.0])
    found = plain(exp_lanes)(x)
    np.testing.assert_allclose(found, np.exp(np.maximum(x, -700.0)), rtol=6e-16)


def test_logs_are_right_to_the_last_digit():
    rng = np.random.default_rng(2)
    root = np.sqrt(0.5) + np.spacing(0.5) * np.arange(-400, 400)  # where the power of two changes
    near = 1.0 + 10.0 ** rng.uniform(-16, -1, 800) * rng.choice([-1.0, 1.0], 800)
    wide = np.exp(rng.uniform(-690, 709, 800))
    x = np.concatenate([root, near, wide, 2.0 ** np.arange(-900, 900, 9)])
    found, expected = np.empty(len(x)), np.log(x.astype(np.longdouble))
    logs_of(x, found)
    assert np.max(np.abs(found - expected) / np.spacing(np.abs(np.log(x)))) < 1.0
    logs_of(np.array([0.0, -1.0, -np.inf, 1e-310, 5e-324, 1e-301, 1e-300, 1.0]), found[:8])
    np.testing.assert_allclose(found[:8], [*[np.log(1e-300)] * 7, 0.0], rtol=1e-15)


@pytest.mark.parametrize(("start", "stop"), [(0, 1), (3, 20), (8, 16), (7, 23), (5, 6)])
def test_sums_begin_and_end_anywhere(start, stop):
    x = np.random.default_rng(1).normal(size=24)
    found = plain(sum_exp)(x, start, stop)
    assert found == pytest.approx(np.exp(x[start:stop]).sum(), rel=1e-14)


@pytest.mark.parametrize("n", [0, 3, 8])
def test_shift(n):
    x = np.arange(32.0)
    plain(shift)(x, x, n, 13)
    np.testing.assert_array_equal(x[:13], np.arange(n, n + 13.0))


def test_arrays_of_a_state_begin_where_lines_of_the_memory_do():
    _, state = engine(NormalGamma(0.0, 0.05, 1.5, 0.5), Exponential(6.0), window=5)
    for group in (state.rows, state.groups, state.scratch):
        for array in group:
            assert array.__array_interface__["data"][0] % 64 == 0


@pytest.mark.parametrize("window", [5, 21])
def test_what_stands_beyond_the_links_of_a_row_does_not_matter(window):
    """States that were stored before held there what older rows had left."""
    config, state = engine(NormalGamma(0.0, 0.05, 1.5, 0.5), Exponential(6.0), window=window)
    assert state.rows.links.shape[1] % LANES == 0
    X, t = np.random.default_rng(3).normal(size=(90, 1)), np.arange(90.0)
    X[::7] += 9.0
    state = learned(config, state, X[:60], t[:60])
    for r in range(len(state.rows.x)):
        assert not state.rows.links[r, r:].any()
        assert (state.rows.log_weight[r, r:] == -np.inf).all()
    arrays = arrays_of(state)
    above = np.triu_indices(len(arrays["rows.links"]))
    arrays["rows.links"][above] = 0.5
    arrays["rows.log_weight"][above] = -1.0
    other = state_from_arrays(config, arrays)
    state = learned(config, state, X[60:], t[60:])
    other = learned(config, other, X[60:], t[60:])
    for name, expected in arrays_of(state).items():
        np.testing.assert_array_equal(arrays_of(other)[name], expected, err_msg=name)
