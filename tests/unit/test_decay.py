"""Decays: hand-computed values, horizons, short forms, refusals, dense prior links."""

import pickle

import numpy as np
import pytest

from streamddcrp import errors
from streamddcrp.decay import (
    Decay,
    Exponential,
    LinearWindow,
    Logistic,
    NoDecay,
    Product,
    Scaled,
    Sum,
    UserDecay,
    Window,
    decay_from_config,
    make_decay,
)
from streamddcrp.numerics import (
    CALLER_GIVEN,
    EXPONENTIAL,
    LINEAR_WINDOW,
    LOGISTIC,
    NO_DECAY,
    WINDOW,
)
from tests.oracles.links import prior_links

INF = np.inf


@pytest.mark.parametrize(
    ("decay", "expected"),
    [
        (NoDecay(), [0.0, 0.0, 0.0, 0.0]),
        (Window(3), [0.0, 0.0, -INF, -INF]),
        (Exponential(2), [0.0, -0.5, -1.5, -5.0]),
        (Logistic(2), [-0.126928011, -0.3132616875, -1.3132616875, -8.0003354064]),
        (Logistic(4, 2), [-0.126928011, -0.2014132780, -0.4740769842, -3.0485873516]),
        (LinearWindow(4), [0.0, -0.2876820725, -1.3862943611, -INF]),
    ],
)
def test_log_weights_at_0_1_3_10(decay, expected):
    np.testing.assert_allclose(decay.log_weight([0, 1, 3, 10]), expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(decay.weight([0, 1, 3, 10]), np.exp(expected), rtol=1e-9)
    assert decay.log_weight(INF) == -INF
    assert decay.log_weight([[1.0, 3.0]]).shape == (1, 2)
    assert np.shape(decay.weight(1.0)) == ()


@pytest.mark.parametrize(
    ("decay", "code", "location", "scale"),
    [
        (NoDecay(), NO_DECAY, 0.0, 1.0),
        (Window(3), WINDOW, 3.0, 1.0),
        (Exponential(2), EXPONENTIAL, 0.0, 2.0),
        (Logistic(2), LOGISTIC, 2.0, 1.0),
        (Logistic(-1, 3), LOGISTIC, -1.0, 3.0),
        (LinearWindow(4), LINEAR_WINDOW, 4.0, 1.0),
        (Window(3) + Window(2), CALLER_GIVEN, 0.0, 1.0),
        (Window(3) * Window(2), CALLER_GIVEN, 0.0, 1.0),
        (2 * Window(3), CALLER_GIVEN, 0.0, 1.0),
        (UserDecay(np.ones_like), CALLER_GIVEN, 0.0, 1.0),
    ],
)
def test_parameters_of_the_compiled_function(decay, code, location, scale):
    assert (decay.code, decay.location, decay.scale) == (code, location, scale)


def test_exponential_survives_underflow():
    assert Exponential(1e-300).log_weight(1e300) == -INF
    assert Exponential(1.0).log_weight(1e6) == -1e6
    assert Exponential(1.0).weight(1e6) == 0.0
    assert Logistic(0.0, 1e-300).log_weight(1e300) == -INF


@pytest.mark.parametrize(
    ("decay", "eps", "expected"),
    [
        (NoDecay(), 1e-3, INF),
        (Window(3), 1e-3, 3.0),
        (LinearWindow(4), 0.25, 3.0),
        (Exponential(2), 1e-3, 2 * np.log(1e3)),
        (Logistic(2), 1e-3, 2 + np.log((1 + np.exp(-2)) / 1e-3 - 1)),
        (Logistic(-5), 0.5, -5 + np.log((1 + np.exp(5)) / 0.5 - 1)),
        (Window(3) + Window(7), 0.6, 3.0),
        (Window(3) + Window(7), 0.5, 7.0),
        (Window(3) + NoDecay(), 1e-3, INF),
        (Window(3) + 1e-4 * NoDecay(), 1e-3, 3.0),
        (Exponential(2) * Exponential(2), 1e-3, np.log(1e3)),
        (Window(3) * Exponential(100), 1e-3, 3.0),
        (5 * Exponential(2), 1e-3, 2 * np.log(1e3)),
        (UserDecay(lambda d: 1 / (1 + d)), 1e-3, 999.0),
        (UserDecay(np.ones_like), 1e-3, INF),
    ],
)
def test_horizon(decay, eps, expected):
    assert decay.horizon(eps) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (None, NoDecay()),
        ("none", NoDecay()),
        (("none",), NoDecay()),
        (("exponential", 8.0), Exponential(8.0)),
        (["window", 5], Window(5)),
        (("logistic", 3.0), Logistic(3.0)),
        (("logistic", 3.0, 0.5), Logistic(3.0, 0.5)),
        (("linear_window", 4), LinearWindow(4.0)),
        (Window(2), Window(2)),
        ({"family": "exponential", "scale": 2}, Exponential(2.0)),
        (np.ones_like, UserDecay(np.ones_like)),
    ],
)
def test_make_decay(spec, expected):
    assert make_decay(spec) == expected


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        ("expo", "'none', 'window', 'exponential'.*got 'expo'"),
        ("exponential", "takes scale; got none"),
        (("logistic",), "takes location, scale; got none"),
        (("none", 1.0), "takes no parameter"),
        (("exponential", 1.0, 2.0), "takes scale; got"),
        (("exponential", -1.0), "scale must be a positive number, got -1.0"),
        (("exponential", "8"), "got '8'"),
        (("window", 0), "width must be"),
        (("window", INF), "width must be"),
        (("window", True), "width must be"),
        (("window", None), "width must be"),
        (("logistic", np.nan), "location must be a finite number"),
        ((8.0, "exponential"), "expected a pair"),
        ((), "expected a pair"),
        (8.0, "expected a pair"),
        (Window, "expected a pair"),
        ({"scale": 8.0}, "got None"),
        ({"family": "exponential", "width": 8.0}, "takes scale"),
        ({"family": "sum", "terms": [{"family": "none"}]}, "list of two decays"),
        ({"family": "product", "terms": []}, "list of two decays"),
        ({"family": "scaled", "factor": 1.0}, 'takes "factor" and "decay"'),
    ],
)
def test_make_decay_refuses(spec, match):
    with pytest.raises(errors.ConfigError, match=match):
        make_decay(spec)


DECAYS = [
    NoDecay(),
    Window(3),
    Exponential(2),
    Logistic(2, 0.5),
    LinearWindow(4),
    Sum(Window(3), Exponential(2)),
    Product(Scaled(2.0, Window(3)), Sum(NoDecay(), Logistic(1))),
]


@pytest.mark.parametrize("decay", DECAYS, ids=str)
def test_described_decays_come_back(decay):
    assert decay_from_config(decay.to_config()) == decay
    assert pickle.loads(pickle.dumps(decay)) == decay
    assert hash(decay) == hash(decay_from_config(decay.to_config()))
    assert eval(repr(decay)) == decay


def test_user_decay_has_no_description():
    for decay in UserDecay(np.ones_like), Window(2) + UserDecay(np.ones_like):
        with pytest.raises(errors.ConfigError, match="Python function"):
            decay.to_config()


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda d: 1.0, "returned shape"),
        (lambda d: 1.0 if d < 3 else 0.0, "must take arrays"),
        (lambda d: -d - 1, "not negative"),
        (lambda d: np.full_like(d, np.nan), "returned nan"),
        (lambda d: np.full_like(d, INF), "returned inf"),
        (lambda d: 0 * d, "0 at distance 0"),
        (3.0, "expected a function"),
    ],
)
def test_user_decay_is_checked(function, match):
    with pytest.raises(errors.ConfigError, match=match):
        UserDecay(function)


def test_user_decay_agrees_with_the_family():
    d = np.array([0.0, 0.5, 2.0, 7.0])
    mine = UserDecay(lambda d: np.exp(-d / 3))
    np.testing.assert_allclose(mine.log_weight(d), Exponential(3).log_weight(d), rtol=1e-14)
    assert mine.horizon(1e-6) == pytest.approx(Exponential(3).horizon(1e-6), rel=1e-12)


@pytest.mark.parametrize("distances", [-1.0, [1.0, np.nan], [[2.0, -INF]]])
@pytest.mark.parametrize("decay", [*DECAYS, UserDecay(np.ones_like)], ids=lambda d: str(d)[:12])
def test_bad_distances_are_refused(decay, distances):
    with pytest.raises(errors.SchemaError, match="distances: expected values >= 0"):
        decay.weight(distances)


@pytest.mark.parametrize("eps", [0.0, -1.0, 1.5, np.nan])
@pytest.mark.parametrize("decay", DECAYS, ids=str)
def test_bad_eps_is_refused(decay, eps):
    with pytest.raises(errors.ConfigError, match="eps"):
        decay.horizon(eps)


@pytest.mark.parametrize("factor", [0, -2.0, np.nan])
def test_bad_factor_is_refused(factor):
    with pytest.raises(errors.ConfigError, match="factor"):
        factor * Window(2)


def test_arithmetic_with_strangers_is_a_type_error():
    with pytest.raises(TypeError):
        Window(2) + 1
    with pytest.raises(TypeError):
        Window(2) * "x"


def test_a_decay_of_ones_own():
    class Stretched(Decay):
        location = 0.0
        scale = 1.0

        def log_weight(self, distances):
            return -np.sqrt(distances)

    decay = Stretched()
    assert decay.weight(4.0) == pytest.approx(np.exp(-2))
    assert decay.horizon(np.exp(-3)) == pytest.approx(9.0)
    assert make_decay(decay) is decay
    assert (decay + Window(1)).log_weight(9.0) == -3.0


def test_prior_links_of_oracle_o2():
    links = np.exp(prior_links(Exponential(2), 0.7, 5))
    np.testing.assert_allclose(
        links[4],
        [0.0665733245, 0.1097608561, 0.1809650582, 0.2983609407, 0.3443398205],
        rtol=0,
        atol=1e-10,
    )
    np.testing.assert_allclose(links[1, :2], [0.4642299476, 0.5357700524], rtol=0, atol=1e-10)
    assert np.array_equal(links, np.tril(links))
    np.testing.assert_allclose(links.sum(axis=1), 1.0, rtol=1e-15)


def test_prior_links_over_long_gaps():
    """Weights that underflow keep their ratios, and a row without links is a self-link."""
    log_prior = prior_links(Exponential(1.0), 1e-300, [0.0, 1.0, 2000.0])
    assert log_prior[2, 2] == 0.0
    assert log_prior[2, 1] == pytest.approx(-1999 - np.log(1e-300))
    assert log_prior[2, 1] - log_prior[2, 0] == pytest.approx(1.0)
    alone = prior_links(Window(1.0), 0.5, [0.0, 5.0])
    np.testing.assert_array_equal(alone, [[0.0, -INF], [-INF, 0.0]])
    assert prior_links(NoDecay(), 1.0, 0).shape == (0, 0)


def test_prior_links_refuses():
    with pytest.raises(errors.OrderError, match=r"time 1.0 of customer 1 is before 2.0") as caught:
        prior_links(NoDecay(), 1.0, [2.0, 1.0])
    assert caught.value.row == 1
    with pytest.raises(errors.ConfigError, match="alpha"):
        prior_links(NoDecay(), 0.0, 3)
    for times in (-1, True, [[1.0]], [0.0, np.nan]):
        with pytest.raises(errors.SchemaError, match="times"):
            prior_links(NoDecay(), 1.0, times)
