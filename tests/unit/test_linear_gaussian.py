"""Linear-Gaussian features: closed form, moment form, and the specification's numbers."""

import math

import numpy as np
import pytest

from streamddcrp.compilation import kernel
from streamddcrp.errors import ConfigError
from streamddcrp.likelihoods import LinearGaussian
from streamddcrp.likelihoods.kernels.linear_gaussian import (
    add_row,
    begin_feature,
    log_constant,
    log_density,
    remove_row,
)
from tests.oracles.feature_histories import log_marginal

Z = np.array([(1, 0), (1, 1), (0, 1), (1, 0)], float)
X = np.array([(0.35, 0.82, 0.33), (-1.3, 0.91, 0.45), (-0.54, 0.58, 0.36), (0.29, 0.03, 0.55)])
INCREMENTS = (-3.7057463831, -4.3486256690, -2.5010114103, -2.0628248623)
RHO = 0.25 / 1.3


@kernel
def forward(Z, X, ratio, shape, rate):
    """Rows added one by one; log densities, and what is left when the last ones are removed."""
    K, D = Z.shape[1], X.shape[1]
    cov, mean = np.zeros((K, K)), np.zeros((K, D))
    v, e, slots, on = np.zeros(K), np.zeros(D), np.arange(K), np.zeros(K, np.int64)
    for k in range(K):
        begin_feature(cov, mean, slots, k, k, ratio)
    logs = np.zeros(len(X))
    kept = cov.copy(), mean.copy()
    for n in range(2 * len(X) - 2):
        row = n if n < len(X) else 2 * len(X) - 1 - n
        m = 0
        for k in range(K):
            if Z[row, k] > 0.0:
                on[m] = k
                m += 1
        if n < len(X):
            s, square = add_row(cov, mean, slots, K, on, m, X[row], v, e)
            logs[n] = log_density(s, square, D, shape, rate) + log_constant(D, shape, rate)
            if shape > 0.0:
                shape += 0.5 * D
                rate += square / (2.0 * s)
            kept = (cov.copy(), mean.copy()) if n == len(X) - 1 else kept
        else:
            s, square = remove_row(cov, mean, slots, K, on, m, X[row], 1.0, v, e)
            if shape > 0.0:
                shape -= 0.5 * D
                rate -= square / (2.0 * s)
    return logs, kept, cov, mean, shape, rate


def test_increments_of_the_specification():
    logs, (cov, mean), *_ = forward(Z, X, RHO, 0.0, 0.25)
    np.testing.assert_allclose(logs, INCREMENTS, rtol=1e-9)
    assert logs.sum() == pytest.approx(-12.618208324653, rel=1e-12)
    np.testing.assert_allclose(
        mean,
        [[0.0655289766, 0.3948409371, 0.3510480888], [-0.869188656, 0.4995462392, 0.2093464858]],
        rtol=1e-8,
    )
    np.testing.assert_allclose(
        cov, [[0.3654747226, -0.1667077682], [-0.1667077682, 0.5321824908]], rtol=1e-9
    )


def test_unknown_noise_of_the_specification():
    logs = forward(Z, X, 0.5, 2.0, 1.5)[0]
    assert logs.sum() == pytest.approx(-13.328509413235, rel=1e-12)
    family = LinearGaussian(noise_shape=2.0, noise_rate=1.5, ratio=0.5)
    assert log_marginal(family, Z, X) == pytest.approx(-13.328509413235, rel=1e-12)


def test_closed_form_is_the_density_of_a_gaussian():
    family = LinearGaussian(0.5, math.sqrt(1.3))
    cov = 1.3 * Z @ Z.T + 0.25 * np.eye(4)
    exact = sum(
        -0.5 * x @ np.linalg.solve(cov, x)
        - 0.5 * np.linalg.slogdet(cov)[1]
        - 2.0 * math.log(2.0 * math.pi)
        for x in X.T
    )
    assert log_marginal(family, Z, X) == pytest.approx(exact, rel=1e-12)
    assert log_marginal(family, Z, X) == pytest.approx(-12.618208324653, rel=1e-12)
    assert log_marginal(family, np.zeros((4, 0)), X) < 0.0


@pytest.mark.parametrize(("shape", "rate"), [(0.0, 0.25), (2.0, 0.5)])
@pytest.mark.parametrize("ratio", [1e-6, 1e-4, 0.3, 10.0])
def test_removing_rows_undoes_adding_them(shape, rate, ratio):
    rng = np.random.default_rng(0)
    Z = (rng.random((12, 3)) < 0.5).astype(float)
    Z[:2] = 1.0
    X = rng.normal(size=(12, 4))
    _, _, cov, mean, shape_left, rate_left = forward(Z, X, ratio, shape, rate)
    (_, (cov_2, mean_2), *_) = forward(Z[:2], X[:2], ratio, shape, rate)
    rounding = 1e-12 + 2.0**-50 / ratio**2  # LEAST_RATIO
    np.testing.assert_allclose(cov, cov_2, atol=rounding * np.abs(cov_2).max())
    np.testing.assert_allclose(mean, mean_2, rtol=1e-6, atol=1e-6 + rounding)
    if shape > 0.0:
        assert shape_left == shape + 4.0
        assert rate_left > rate


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sigma_x": 1.0}, "both"),
        ({"sigma_x": -1.0, "sigma_y": 1.0}, "sigma_x"),
        ({"noise_rate": 0.0}, "noise_rate"),
        ({"ratio": ()}, "ratio"),
        ({"ratio": (1.0, 1.0)}, "ratio"),
        ({"ratio": (1.0, 1e-8)}, "1000 times sigma_x.*a larger sigma_x"),
        ({"sigma_x": 1.0, "sigma_y": 1e4}, "1000 times sigma_x.*a larger sigma_x"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(ConfigError, match=message):
        LinearGaussian(**options)
