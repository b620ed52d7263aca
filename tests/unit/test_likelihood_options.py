"""Conjugate families: options, refusals, and the choice from the first rows."""

import json
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

from streamddcrp import likelihoods
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.likelihoods import (
    Autoregression,
    BetaBernoulli,
    DirichletMultinomial,
    GammaPoisson,
    NormalGamma,
    NormalWishart,
    Product,
    Regression,
    choose_likelihood,
    likelihood_from_config,
    make_likelihood,
)
from streamddcrp.likelihoods.auto import counts_of, numbers_of, with_numbers

NAN = np.nan

each_family = pytest.mark.parametrize(
    "family",
    [
        NormalGamma([0.5, -1.0], [0.3, 1.0], [1.5, 2.0], [1.0, 0.4]),
        NormalWishart([0.5, -1.0], 0.3, [[2.0, 0.6], [0.6, 1.0]], 2.5),
        DirichletMultinomial(0.7, 2),
        DirichletMultinomial(1.3),
        GammaPoisson([0.4, 2.0], [0.5, 1.5]),
        BetaBernoulli([0.4, 2.0], [0.5, 1.5]),
        Autoregression(2, [0.5, -1.0], 1.0, 0.3, [1.5, 2.0], 1.0),
        Regression("y", [0.5, -1.0], [1.0, 2.0], 0.3, 1.5, [1.0], ["x", "y"]),
        Product([(NormalGamma(0.0, 1.0, 1.0, 1.0), [1]), (BetaBernoulli(), [0])]),
    ],
    ids=repr,
)


# --- Parameters ----------------------------------------------------------------------------------


@each_family
def test_descriptions_round_trip(family):
    config = json.loads(json.dumps(family.to_config()))
    for twin in (
        likelihood_from_config(config),
        type(family).from_config(config),
        make_likelihood(config),
        pickle.loads(pickle.dumps(family)),
        eval(repr(family)),
    ):
        assert twin == family
        assert hash(twin) == hash(family)
    assert config["family"] == type(family).__name__
    assert make_likelihood(family) is family


def test_parameters_become_plain_numbers():
    family = NormalGamma(np.float32(0.5), np.array([1, 2]), [1.5, 2.5], 1)
    shown = repr(family)
    assert shown.startswith("NormalGamma(mean=0.5, kappa=(1.0, 2.0), shape=(1.5, 2.5), rate=1.0,")
    assert family == NormalGamma(0.5, (1.0, 2.0), (1.5, 2.5), 1.0)
    assert family.n_features == 2
    assert NormalGamma(0.0, 1.0, 1.0, 1.0).n_features is None


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (("normal_gamma", 0.0, 0.05, 1.5, 0.1), NormalGamma(0.0, 0.05, 1.5, 0.1)),
        (["normal_gamma", [0.0, 1.0], 0.05, 1.5, 0.1], NormalGamma([0.0, 1.0], 0.05, 1.5, 0.1)),
        (("normal_wishart", 0, 1, 2, 3), NormalWishart(0, 1, 2, 3)),
        (("dirichlet_multinomial", 0.5), DirichletMultinomial(0.5)),
        (("dirichlet_multinomial", 0.5, 9), DirichletMultinomial(0.5, 9)),
        (("gamma_poisson", 1.0, 0.5), GammaPoisson(1.0, 0.5)),
        (("beta_bernoulli", 1.0, 0.5), BetaBernoulli(1.0, 0.5)),
        ("beta_bernoulli", BetaBernoulli(0.5, 0.5)),
        (("gamma_poisson", 1.0), GammaPoisson(1.0, None)),
        (("autoregression", 2), Autoregression(2)),
        (("regression", ["a", "b"]), Regression(("a", "b"))),
        (
            ("product", {"normal_gamma": ["a", "b"], "beta_bernoulli": "on"}),
            Product([(NormalGamma(), ["a", "b"]), (BetaBernoulli(), ["on"])]),
        ),
        (
            ["product", [[["autoregression", 2], "a"], [["gamma_poisson", 1.0, 2.0], ["n"]]]],
            Product([(Autoregression(2), "a"), (GammaPoisson(1.0, 2.0), "n")]),
        ),
    ],
)
def test_likelihood_by_name(spec, expected):
    assert make_likelihood(spec) == expected


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        ("auto", "got 'auto'"),
        (("gamma_poisson", *[1.0] * 4), r"must be \('gamma_poisson', shape, rate, share\)"),
        (("student", 1.0), "normal_wishart"),
        ((), "likelihood must be"),
        (7, "likelihood must be"),
        ({"family": "Student"}, "unknown likelihood family 'Student'"),
        ({}, "unknown likelihood family None"),
        ({"family": "GammaPoisson", "shape": 1.0}, "must have the entries"),
        ({"family": "GammaPoisson", "shape": 1.0, "rate": 1.0, "b": 1.0}, "must have the entries"),
        (("gamma_poisson", -1.0, 1.0), "shape must be positive"),
    ],
)
def test_unusable_specifications(spec, match):
    with pytest.raises(ConfigError, match=match):
        make_likelihood(spec)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: NormalGamma("a", 1, 1, 1), "mean must be finite numbers, got 'a'"),
        (lambda: NormalGamma("1", 1, 1, 1), "mean must be finite numbers"),
        (lambda: NormalGamma(True, 1, 1, 1), "mean must be finite numbers"),
        (lambda: NormalGamma(0, None, 1, 1), "kappa must be finite numbers"),
        (lambda: NormalGamma(NAN, 1, 1, 1), "mean must be finite numbers"),
        (lambda: NormalGamma([[1], [1, 2]], 1, 1, 1), "mean must be finite numbers"),
        (lambda: NormalGamma([[1.0]], 1, 1, 1), "one number for each feature"),
        (lambda: NormalGamma([], 1, 1, 1), "one number for each feature"),
        (lambda: NormalGamma(0, 0, 1, 1), "kappa must be positive"),
        (lambda: NormalGamma(0, 1, [1, -1], 1), "shape must be positive"),
        (lambda: NormalGamma(0, 1, 1, np.inf), "rate must be finite"),
        (lambda: NormalGamma([0, 0], [1, 1, 1], 1, 1), "mean has 2, kappa has 3"),
        (lambda: NormalWishart(0, [1, 1], 1, 1), "kappa must be one positive number"),
        (lambda: NormalWishart(0, 1, -1, 1), "scatter must be positive"),
        (lambda: NormalWishart(0, 1, [1, 1], 1), "positive definite matrix"),
        (lambda: NormalWishart(0, 1, [[1, 2], [2, 1]], 2), "positive definite matrix"),
        (lambda: NormalWishart(0, 1, [[1, 0.5], [0, 1]], 2), "positive definite matrix"),
        (lambda: NormalWishart(0, 1, [[1, 0]], 2), "positive definite matrix"),
        (lambda: NormalWishart([0, 0], 1, 1, 1), "dof must exceed"),
        (lambda: NormalWishart([0, 0, 0], 1, np.eye(2), 3), "mean has 3, scatter has 2"),
        (lambda: DirichletMultinomial(0), "concentration must be positive"),
        (lambda: DirichletMultinomial([1, 2]), "concentration must be one positive number"),
        (lambda: DirichletMultinomial(1, 0), "n_categories must be a whole number"),
        (lambda: DirichletMultinomial(1, 2.5), "n_categories must be a whole number"),
        (lambda: DirichletMultinomial(1, True), "n_categories must be a whole number"),
        (lambda: GammaPoisson(0, 1), "shape must be positive"),
        (lambda: BetaBernoulli(1, -1), "b must be positive"),
    ],
)
def test_unusable_parameters(make, match):
    with pytest.raises(ConfigError, match=match):
        make()


@each_family
def test_widths_that_do_not_fit(family):
    if family.n_features is not None:
        with pytest.raises(SchemaError, match="parameters for 2 features, the data have 3"):
            family.hyper(3)
    with pytest.raises(SchemaError, match="shape"):
        family.suffstats(np.zeros((1, 1, 2)))
    with pytest.raises(SchemaError, match="to fit the statistics"):
        family.log_predictive([0.0], np.zeros(family.n_stats(2)))
    if not isinstance(family, DirichletMultinomial):  # every length is a number of categories
        with pytest.raises(SchemaError, match="build them with suffstats"):
            family.log_marginal(np.zeros((3, family.n_stats(2) + 1)))


def test_open_ended_widths_that_cannot_fit():
    with pytest.raises(SchemaError, match=r"dof 1\.5 is too small for 3 features"):
        NormalWishart(0.0, 1.0, 1.0, 1.5).hyper(3)
    with pytest.raises(SchemaError, match="hash the words"):
        DirichletMultinomial(1.0).hyper(2**20 + 1)


@pytest.mark.parametrize(
    ("family", "bad"),
    [
        (NormalGamma(0, 1, 1, 1), [np.inf, -np.inf, 1e200]),
        (NormalWishart(0, 1, 1, 2), [np.inf, -np.inf, 1e200]),
        (DirichletMultinomial(1.0), [-1.0, 0.5, np.inf, 1e17]),
        (GammaPoisson(1, 1), [-1.0, -0.5, np.inf, 1e17]),
        (BetaBernoulli(1, 1), [-1.0, 0.5, 2.0, np.inf]),
    ],
)
def test_rows_outside_the_support(family, bad):
    X = np.array([[0.0, 1.0], [NAN, 0.0], [1.0, NAN]])
    family.check_rows(X)
    family.check_rows(X[:0])
    for value in bad:
        Y = X.copy()
        Y[1, 1] = value
        with pytest.raises(SchemaError, match="row 1, column 1") as caught:
            family.check_rows(Y)
        assert caught.value.row == 1
        with pytest.raises(SchemaError, match="row 1, column 'load'"):
            family.check_rows(Y, ["time", "load"])


# --- Numbers from the first rows -----------------------------------------------------------------


@pytest.mark.parametrize(
    "family", [NormalGamma(), NormalWishart(), GammaPoisson(), Autoregression(), Regression(1)]
)
def test_parameters_left_out_are_taken_from_rows(family):
    X = np.random.default_rng(7).poisson([3.0, 5.0], size=(40, 2)).astype(float)
    assert not family.is_scaled
    with pytest.raises(ConfigError, match="lacks parameters"):
        family.hyper(2)
    scaled = family.scaled(X)
    assert scaled.is_scaled
    assert scaled.n_features == 2
    assert scaled.scaled(X + 1.0) is scaled
    S = scaled.suffstats(X).sum(axis=0)
    assert np.isfinite(scaled.log_predictive(X[0], S)).all()
    assert likelihood_from_config(json.loads(json.dumps(family.to_config()))) == family


def test_a_feature_by_itself_is_scaled_alike_with_and_without_correlation():
    """The marginal of one feature under NormalWishart is that of NormalGamma."""
    X = np.random.default_rng(8).normal([3.0, -1.0], [2.0, 0.5], size=(50, 2))
    wishart, gamma = NormalWishart().scaled(X), NormalGamma().scaled(X)
    assert_allclose(np.diag(wishart.scatter), 2.0 * np.array(gamma.rate))
    assert wishart.dof - 1.0 == 2.0 * gamma.shape
    assert (wishart.mean, wishart.kappa) == (gamma.mean, gamma.kappa)


# --- Choice from the first rows ------------------------------------------------------------------


def test_automatic_choice_by_kind_of_data():
    rng = np.random.default_rng(8)
    bits = rng.integers(0, 2, size=(30, 3)).astype(float)
    bits[0, 0] = NAN
    assert choose_likelihood(bits, types=["bool"] * 3)[0] == BetaBernoulli(0.5, 0.5)
    assert kinds_of(bits) == ["GammaPoisson"] * 3  # a two may follow
    counts = np.array([[0.0, 4.0, 0.0], [2.0, 8.0, 0.0], [1.0, NAN, 0.0]])
    family, reason = choose_likelihood(counts)
    assert isinstance(family, GammaPoisson)
    assert_allclose(family.rate, [1.0, 1.0 / 6.0, 6.0])
    assert reason == "GammaPoisson for all columns (counts), by the first 3 rows"
    for other in (counts + 0.5, -counts[:, :2], counts + 10.0):
        assert isinstance(choose_likelihood(other)[0], NormalGamma)
    moving = counts[:, :2]
    for types in (["float"] * 2, ["int"] * 2):
        assert choose_likelihood(moving, types=types)[0] == choose_likelihood(moving)[0]


def kinds_of(X, types=None):
    """Name of the family of each column."""
    family = choose_likelihood(X, types=types)[0]
    parts = family.parts if isinstance(family, Product) else [(family, range(len(X[0])))]
    found = {c: type(part).__name__ for part, columns in parts for c in columns}
    return [found[c] for c in range(len(X[0]))]


def test_automatic_choice_of_columns_of_several_kinds():
    real, flag, count = [0.5, -1.5, 2.5, 0.1], [0.0, 1.0, 1.0, 0.0], [0.0, 3.0, 1.0, 2.0]
    gamma, bernoulli, poisson = "NormalGamma", "BetaBernoulli", "GammaPoisson"
    mixed = np.column_stack([real, flag, real])
    types = ["float", "bool", "float"]
    family, reason = choose_likelihood(mixed, types=types, names=["a", "on", "b"])
    assert family.parts[0] == (NormalGamma().scaled(mixed[:, [0, 2]]), (0, 2))
    assert family.parts[1] == (BetaBernoulli(), (1,))
    assert reason == (
        "NormalGamma for a, b (numbers), BetaBernoulli for on (zeros and ones), by the first 4 rows"
    )
    # a column of zeros and ones may yet see a two; truth values cannot
    three = np.column_stack([real, flag, count])
    assert kinds_of(three) == [gamma, poisson, poisson]
    assert kinds_of(three, ["float", "bool", "int"]) == [gamma, bernoulli, poisson]
    assert kinds_of(three, ["float", "float", "int"]) == [gamma, poisson, poisson]
    never = np.column_stack([real, np.zeros(4)])
    assert kinds_of(never) == [gamma, poisson]
    assert kinds_of(never, ["float"] * 2) == [gamma, gamma]  # at rest, it may wake below zero
    assert kinds_of(never, ["float", "bool"]) == [gamma, bernoulli]
    # nothing is known of an empty column: the most general of the families there
    empty = np.full(4, NAN)
    assert kinds_of(np.column_stack([empty, flag])) == [poisson, poisson]
    assert kinds_of(np.column_stack([empty, flag]), ["float", "bool"]) == [bernoulli, bernoulli]
    assert kinds_of(np.column_stack([empty, flag, count])) == [poisson] * 3
    assert kinds_of(np.column_stack([empty, count, real])) == [gamma, poisson, gamma]


def test_the_reason_names_few_columns():
    X = np.column_stack([np.linspace(0.1, 0.9, 20)] * 30 + [np.arange(20) % 2])
    reason = choose_likelihood(X)[1]
    assert reason.startswith(
        "NormalGamma for 0, 1, 2, 3, 4, 5, 6, 7, .. 30 in all (numbers), Gamma"
    )


def test_automatic_choice_follows_units():
    X = np.random.default_rng(9).normal(size=(50, 2))
    family, reason = choose_likelihood(X)
    assert_allclose(family.mean, X.mean(axis=0))
    assert_allclose(family.rate, 0.075 * X.var(axis=0))
    assert reason == "NormalGamma for all columns (numbers), by the first 50 rows"
    scaled, _ = choose_likelihood(X * [1e-6, 1e9] + [1.0, 0.0])
    assert_allclose(scaled.rate, np.array(family.rate) * [1e-12, 1e18], rtol=1e-8)
    distant, _ = choose_likelihood(X + 1e9)
    assert_allclose(distant.rate, family.rate, rtol=1e-5)  # data are rounded at 1e-7


def test_automatic_choice_of_columns_that_do_not_vary():
    X = np.column_stack([np.full(20, 0.1), np.full(20, 1e6 + 0.1), np.full(20, NAN), np.arange(20)])
    X[1:, 1] += 1e-10 * np.arange(19)
    family, reason = choose_likelihood(X - 0.5)
    assert reason.endswith("; 0, 1, 2 did not vary and got a nominal variance")
    assert_allclose(family.rate[0], 0.075e-4)
    assert_allclose(family.rate[1], 0.075e-4 * 1e12, rtol=1e-5)
    assert_allclose(family.rate[2], 0.075)
    assert family.rate[3] > 1.0
    single, _ = choose_likelihood([[-30.0, 0.5]])
    assert_allclose(single.rate, [0.075 * 900.0, 0.075])
    assert isinstance(choose_likelihood([[NAN]])[0], NormalGamma)


@pytest.mark.parametrize("shape", [(0, 2), (3, 0), (3,)])
def test_automatic_choice_needs_rows(shape):
    with pytest.raises(SchemaError, match="at least one row and column"):
        choose_likelihood(np.zeros(shape))


def test_exported_names():
    assert likelihoods.__all__ == sorted(likelihoods.__all__)
    for name in likelihoods.__all__:
        assert getattr(likelihoods, name).__doc__


@pytest.mark.parametrize("odd", [[1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 0], [0, 1, 0, 1]])
def test_columns_become_numbers_beside_those_that_are(odd):
    family = Product([(NormalGamma(), [0, 3]), (GammaPoisson(), [1, 2])])
    found = with_numbers(family, np.array(odd, dtype=bool))
    wanted = np.array(odd, dtype=bool) | [True, False, False, True]
    assert numbers_of(found, 4).tolist() == wanted.tolist()
    assert counts_of(found, 4).tolist() == (~wanted).tolist()
