"""Products of families: parts, columns, refusals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.likelihoods import (
    Autoregression,
    BetaBernoulli,
    DirichletMultinomial,
    GammaPoisson,
    NormalGamma,
    Product,
    Regression,
)
from streamddcrp.likelihoods.kernels import families
from streamddcrp.likelihoods.kernels.prior import learn_prior

NAN = np.nan

PARTS = [
    (NormalGamma([0.5, -1.0], [0.3, 1.0], [1.5, 2.0], [1.0, 0.4]), [4, 0]),
    (BetaBernoulli(0.5, 1.0), [1]),
    (Autoregression(2, 0.0, 1.0, rate=1.0), [2]),
    (GammaPoisson(1.0, 0.5), [3]),
]
FAMILY = Product(PARTS)


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    X[:, 1], X[:, 3] = rng.integers(0, 2, n), rng.poisson(3.0, n)
    X[rng.random(X.shape) < 0.1] = NAN
    return X


def test_parts_add_up():
    X, past = rows(20), rows(2, seed=1)
    S = FAMILY.suffstats(X, past).sum(axis=0)
    apart = [part.suffstats(X[:, at], past[:, at]).sum(axis=0) for part, at in PARTS]
    assert_allclose(S, np.concatenate([[20.0], *apart]))
    for method in ("log_predictive", "expected_log_lik"):
        found = getattr(FAMILY, method)(X[-1], S, X[-3:-1])
        expected = sum(
            getattr(part, method)(X[-1, at], T, X[-3:-1, at])
            for (part, at), T in zip(PARTS, apart, strict=True)
        )
        assert_allclose(found, expected, rtol=1e-13)
    total = sum(part.log_marginal(T) for (part, _), T in zip(PARTS, apart, strict=True))
    assert_allclose(FAMILY.log_marginal(S), total, rtol=1e-13)
    estimates = FAMILY.point_estimates(S)
    for (part, at), T in zip(PARTS, apart, strict=True):
        for name, values in part.point_estimates(T).items():
            assert np.array_equal(estimates[name][:, at], values)
    assert np.isnan(estimates["sd"][0, [1, 3]]).all()


def test_lags_of_parts_of_several_orders():
    family = Product(
        [
            (Autoregression(3, 0.0, 1.0, rate=1.0), [1]),
            (Autoregression(1, 0.0, 1.0, rate=1.0), [2]),
            (NormalGamma(0.0, 1.0, 1.0, 1.0), [0]),
        ]
    )
    X = rows(12)[:, [0, 2, 4]]
    whole, end = family.prepare(X)
    assert end.shape == (3, 3)
    past, parts = None, []
    for i in range(12):
        one, past = family.prepare(X[i : i + 1], past)
        parts.append(one)
    assert np.array_equal(np.concatenate(parts), whole, equal_nan=True)
    assert np.array_equal(past, end, equal_nan=True)


def test_a_regressor_may_be_modelled_in_another_part():
    """p(x) p(y | x) is the joint density."""
    x = NormalGamma(0.0, 1.0, 1.0, 1.0)
    y = Regression(0, 0.0, 1.0, 1.0, 1.0, 1.0)
    X = rows(9)[:, :2]
    family = Product([(x, [0]), (y, [1, 0])])
    found = family.log_marginal(family.suffstats(X).sum(axis=0))
    expected = x.log_marginal(x.suffstats(X[:, :1]).sum(axis=0))
    expected += y.log_marginal(y.suffstats(X[:, ::-1]).sum(axis=0))
    assert_allclose(found, expected, rtol=1e-13)


def test_draws_are_those_of_the_parts():
    S = FAMILY.suffstats(rows(20)).sum(axis=0)
    drawn = FAMILY.sample(np.random.default_rng(3), S, 7)
    assert drawn.shape == (7, 5)
    FAMILY.check_rows(drawn)
    assert FAMILY.sample(np.random.default_rng(3), S).shape == (5,)
    apart = np.random.default_rng(3)
    first = 1
    for part, at in PARTS:
        last = first + part.n_stats(len(at))
        assert np.array_equal(drawn[:, at], part.sample(apart, S[first:last], 7))
        first = last


def test_the_base_measure_is_that_of_the_parts():
    tables = [rows(n, seed=n) for n in (6, 20, 50)]
    sizes = np.array([6.0, 20.0, 50.0])

    def learned(family, tables):
        hyper = family.hyper(tables[0].shape[1])
        stats = np.array([family.suffstats(X).sum(axis=0) for X in tables])
        start, post = hyper.copy(), np.zeros((3, families.n_post(family.family, hyper)))
        families.posteriors(family.family, hyper, stats, 3, post)
        return learn_prior(family.family, hyper, start, post, sizes, 3), hyper

    moved, hyper = learned(FAMILY, tables)
    assert moved
    apart = [learned(part, [X[:, at] for X in tables]) for part, at in PARTS]
    assert [part_moved for part_moved, _ in apart] == [True, False, True, False]
    assert np.array_equal(hyper[4 + 5 * 4 :], np.concatenate([own for _, own in apart]))


def test_numbers_left_out_come_from_rows_by_name():
    X = rows(30)
    names = ["load", "on", "level", "starts", "temp"]
    spec = {"normal_gamma": ["temp", "load"], "beta_bernoulli": "on", "gamma_poisson": "starts"}
    family = Product([*spec.items(), (("autoregression", 2), ["level"])])
    assert not family.is_scaled
    assert family.n_features is None
    scaled = family.scaled(X, names)
    assert scaled.is_scaled
    assert scaled.n_features == 5
    assert scaled.parts[0] == (NormalGamma().scaled(X[:, [4, 0]]), (4, 0))
    assert scaled.parts[3] == (Autoregression(2).scaled(X[:, [2]]), (2,))
    assert scaled.scaled(X) is scaled
    assert scaled.unscaled().parts[0] == (NormalGamma(), (4, 0))
    assert family.free_spread
    wide = scaled.spread_by(3.0, X).parts
    assert_allclose(wide[0][0].rate, np.multiply(3.0, scaled.parts[0][0].rate))
    assert wide[1] == scaled.parts[1]


@pytest.mark.parametrize(
    ("parts", "match"),
    [
        ([], "parts must be pairs"),
        (7, "parts must be pairs"),
        ([NormalGamma()], "parts must be pairs"),
        ([(NormalGamma(), [])], "parts must be pairs"),
        ([(NormalGamma(), [0, 0])], "parts must be pairs"),
        ([(NormalGamma(), [0.5])], "parts must be pairs"),
        ([("student", [0])], "likelihood must be"),
        ([(NormalGamma([0.0, 0.0], 1, 1, 1), [0])], "does not fit the columns"),
        ([(DirichletMultinomial(1.0, 3), [0, 1])], "does not fit the columns"),
        ([(Product([(NormalGamma(), [0])]), [0])], "does not fit the columns"),
    ],
)
def test_unusable_parts(parts, match):
    with pytest.raises(ConfigError, match=match):
        Product(parts)


def test_columns_that_are_not_there():
    family = Product([(NormalGamma(), ["a"]), (BetaBernoulli(), ["b"])])
    X = np.array([[0.5, 1.0, 3.0]])
    with pytest.raises(SchemaError, match=r"no column 'b'; the data have \['a', 'c', 'd'\]"):
        family.scaled(X, ["a", "c", "d"])
    with pytest.raises(SchemaError, match="column 'd' is in no part"):
        family.scaled(X, ["a", "b", "d"])
    with pytest.raises(SchemaError, match="no column 'a'; the data have 3 columns"):
        family.scaled(X)


def test_the_first_row_that_is_refused_is_named():
    X = rows(5)
    X[3, 1], X[2, 3] = 2.0, -1.0
    with pytest.raises(SchemaError, match="row 2, column 3: GammaPoisson expects") as caught:
        FAMILY.check_rows(X)
    assert caught.value.row == 2
    with pytest.raises(SchemaError, match="row 2, column 'd': GammaPoisson expects"):
        FAMILY.check_rows(X, list("abcde"))
