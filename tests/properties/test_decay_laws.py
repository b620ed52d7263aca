"""Laws of decays: closed under + and *, log space, monotone, true horizons, compiled twin."""

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamddcrp import numerics as _numerics
from streamddcrp.decay import (
    Decay,
    Exponential,
    LinearWindow,
    Logistic,
    NoDecay,
    UserDecay,
    Window,
    decay_from_config,
)

EPSILON = np.finfo(float).eps
EXP_ERROR = 745 * EPSILON  # exp amplifies rounding by |log f|, at most 745 before underflow

lengths = st.floats(1e-3, 1e3)
families = st.one_of(
    st.just(NoDecay()),
    st.builds(Window, lengths),
    st.builds(Exponential, lengths),
    st.builds(Logistic, st.floats(-20.0, 20.0), st.floats(1e-2, 1e2)),
    st.builds(LinearWindow, lengths),
)


def combine(parts):
    pairs = st.tuples(parts, parts)
    return st.one_of(
        pairs.map(lambda p: p[0] + p[1]),
        pairs.map(lambda p: p[0] * p[1]),
        st.tuples(st.floats(1e-3, 1e3), parts).map(lambda p: p[0] * p[1]),
    )


named = st.recursive(families, combine, max_leaves=4)
decays = st.one_of(named, lengths.map(lambda a: UserDecay(lambda d: 1.0 / (1.0 + d / a))))
distances = st.lists(st.floats(0.0, 1e4), min_size=1, max_size=20).map(np.array)


@given(decays, decays, distances, st.floats(1e-3, 1e3))
def test_closed_under_sum_product_and_multiples(f, g, d, a):
    for combined, expected in [
        (f + g, f.weight(d) + g.weight(d)),
        (f * g, f.weight(d) * g.weight(d)),
        (a * f, a * f.weight(d)),
        (f * a, a * f.weight(d)),
    ]:
        assert isinstance(combined, Decay)
        np.testing.assert_allclose(combined.weight(d), expected, rtol=4 * EXP_ERROR, atol=1e-300)


@given(decays, distances)
def test_log_space_agrees_with_weights(f, d):
    log_f = f.log_weight(d)
    assert log_f.dtype == np.float64
    assert log_f.shape == d.shape
    assert not np.isnan(log_f).any()
    np.testing.assert_allclose(np.exp(log_f), f.weight(d), rtol=EXP_ERROR, atol=1e-300)
    assert (f.weight(d) >= 0.0).all()


@given(decays, distances)
def test_weights_do_not_increase(f, d):
    log_f = f.log_weight(np.sort(d))
    assert np.isfinite(f.log_weight(0.0))
    slack = 8 * EPSILON * np.abs(log_f[:-1][np.isfinite(log_f[:-1])]).max(initial=1.0)
    with np.errstate(invalid="ignore"):  # -inf - -inf
        assert not (np.diff(log_f) > slack).any()


@given(decays, st.floats(1e-12, 0.999), st.floats(1e-9, 1e3))
def test_horizon_bounds_what_lies_beyond_and_is_the_smallest(f, eps, further):
    h = f.horizon(eps)
    bar = np.log(eps) + f.log_weight(0.0)
    slack = 16 * EPSILON * max(1.0, abs(float(bar)))
    assert h >= 0.0
    if np.isfinite(h):
        assert f.log_weight(h * (1.0 + 1e-9) + further) <= bar + slack
        if h > 0.0:
            assert f.log_weight(h * (1.0 - 1e-9)) >= bar - slack
    else:
        assert f.log_weight(1e15) >= bar - slack


@given(families, distances)
def test_compiled_twin(f, d):
    compiled = [_numerics.log_decay(f.code, f.location, f.scale, x) for x in d]
    np.testing.assert_allclose(f.log_weight(d), compiled, rtol=4 * EPSILON, atol=1e-300)


@given(named)
def test_descriptions_survive_json(f):
    assert decay_from_config(json.loads(json.dumps(f.to_config()))) == f
