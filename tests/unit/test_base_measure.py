"""The empirical-Bayes step is an M-step: no parameter can be moved alone to a better value."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import gammaln, psi

from streamddcrp.likelihoods import BetaBernoulli, NormalGamma, Regression
from streamddcrp.likelihoods.kernels import families
from streamddcrp.likelihoods.kernels.prior import learn_prior
from tests.oracles.families import RegressionTwin

PSEUDO, ENOUGH = 2.0, 4.0


def expected_log_prior(mean, kappa, shape, rate, table):
    """E log p(w, precision | prior) at the posterior (M, L, a, b) of one table and output."""
    M, L, a, b = table
    log_precision, gap = psi(a) - np.log(b), M - mean
    square = a / b * gap @ (kappa * gap) + np.trace(np.linalg.inv(L) * kappa)
    coefficients = 0.5 * (np.log(kappa).sum() + len(M) * log_precision - square)
    gamma = shape * np.log(rate) - gammaln(shape) + (shape - 1) * log_precision - rate * a / b
    return coefficients + gamma


def objective(prior, start, tables, parameter):
    """The tables' part, and the pseudo-tables' part about one parameter."""
    mean, kappa, shape, rate = prior
    mean0, kappa0, _, rate0 = start
    total = sum(
        expected_log_prior(mean[d], kappa[d], shape[d], rate[d], output)
        for table in tables
        for d, output in enumerate(table)
    )
    precision = shape / rate0
    pseudo = {
        "mean": -0.5 * (precision[:, None] * kappa * (mean - mean0) ** 2).sum(),
        "kappa": 0.5 * (np.log(kappa) - kappa / kappa0).sum(),
        "rate": (shape * np.log(rate) - rate * precision).sum(),
    }
    return total + PSEUDO * pseudo[parameter]


class Gamma:
    """NormalGamma with its prior as arrays mean, kappa (D, 1), shape, rate (D,)."""

    mean, kappa, shape, rate = [0.5, -1.0], [0.3, 1.0], [1.5, 2.0], [1.0, 0.4]
    family = NormalGamma(mean, kappa, shape, rate)
    n_features = 2

    def prior(self, hyper):
        mean, kappa, shape, rate = hyper[3:].reshape(7, 2)[:4]
        return mean[:, None], kappa[:, None], shape, rate

    def outputs(self, X):
        """Posterior (M, L, a, b) of each output under the prior at the start."""
        twin = RegressionTwin((0, 1), *map(np.array, (self.mean, [1.0, 1.0])), 1.0, None, None)
        for d in range(2):
            twin.kappa, twin.shape, twin.rate = self.kappa[d], self.shape, self.rate
            yield twin.posterior(d, X, np.ones(len(X)))


class Linear:
    """Two regressions on one column; prior as arrays mean, kappa (2, 2), shape, rate (2,)."""

    args = (0, 2), [0.5, -1.0, 2.0], [1.0, 2.0, 0.5], 0.3, [1.5, 2.0], [1.0, 0.4]
    family = Regression(*args)
    n_features = 3

    def prior(self, hyper):
        cells = hyper[3:].reshape(2, 6)
        return cells[:, :2], cells[:, 2:4], cells[:, 4], cells[:, 5]

    def outputs(self, X):
        twin = RegressionTwin(
            self.args[0], *map(np.array, self.args[1:3]), 0.3, *map(np.array, self.args[4:])
        )
        for t, target in enumerate(twin.targets):
            M, L, a, b = twin.posterior(t, X, np.ones(len(X)))
            yield M - np.r_[twin.mean[target], 0.0], L, a, b  # the kernels' outputs are centred


def tables(rng, n_features, sizes):
    for n in sizes:
        level, slope = rng.normal(0.0, 3.0, n_features), rng.normal(0.0, 2.0)
        X = level + rng.normal(size=(n, n_features)) * rng.uniform(0.1, 2.0, n_features)
        X[:, 0] += slope * X[:, 1]
        X[rng.random(X.shape) < 0.1] = np.nan
        yield X


def learned(case, data):
    """Return hyper at the start and after one step, from the data of each table."""
    family = case.family
    start = family.hyper(case.n_features)
    hyper, sizes = start.copy(), np.array([float(len(X)) for X in data])
    stats = np.array([family.suffstats(X).sum(axis=0) for X in data])
    post = np.zeros((len(data), families.n_post(family.family, hyper)))
    families.posteriors(family.family, hyper, stats, len(data), post)
    assert learn_prior(family.family, hyper, start, post, sizes, len(data))
    return start, hyper


@pytest.mark.parametrize("case", [Gamma(), Linear()], ids=["normal_gamma", "regression"])
@pytest.mark.parametrize("seed", range(5))
def test_no_parameter_alone_can_be_moved_to_a_better_value(case, seed):
    rng = np.random.default_rng(seed)
    data = list(tables(rng, case.n_features, [5, 30, 3, 12, 100]))
    start, hyper = learned(case, data)
    drawn = [list(case.outputs(X)) for X in data if len(X) > ENOUGH]

    best, first = case.prior(hyper), case.prior(start)
    assert np.array_equal(best[2], first[2])  # the shape is held fixed
    assert np.all(best[3] > 0.02 * first[3])  # the floor of the rate is not at work here

    def check(parameter, index, change):
        at = {"mean": 0, "kappa": 1, "rate": 3}[parameter]
        values = []
        for step in (-1e-3, 0.0, 1e-3):
            moved = [part.copy() for part in best]
            moved[at][index] = change(moved[at][index], step)
            values.append(objective(moved, first, drawn, parameter))
        assert values[1] > max(values[0], values[2])
        # a maximum: the slope is nil against the curvature, to the error of a central difference
        assert abs(values[2] - values[0]) < 1e-2 * (2 * values[1] - values[0] - values[2])

    for d in range(2):
        check("rate", d, lambda value, step: value * (1.0 + step))
        for i in range(best[0].shape[1]):
            check("mean", (d, i), lambda value, step: value + step)
    for i in range(best[0].shape[1]):
        check("kappa", (slice(None), i), lambda value, step: value * (1.0 + step))


@pytest.mark.parametrize("case", [Gamma(), Linear()], ids=["normal_gamma", "regression"])
def test_few_rows_say_nothing(case):
    start = case.family.hyper(case.n_features)
    hyper, post = start.copy(), np.full((2, families.n_post(case.family.family, start)), np.nan)
    sizes = np.array([4.0, 0.5])
    assert not learn_prior(case.family.family, hyper, start, post, sizes, 2)
    assert np.array_equal(hyper, start)


def test_a_coefficient_of_any_size_does_not_move_the_prior():
    """A regressor of next to nothing has one; squares of what it explains would overflow."""
    case, rng = Linear(), np.random.default_rng(0)
    family, data = case.family, [*tables(rng, 3, [30, 30])]
    start = family.hyper(3)
    stats = np.array([family.suffstats(X).sum(axis=0) for X in data])
    post = np.zeros((2, families.n_post(family.family, start)))
    families.posteriors(family.family, start, stats, 2, post)
    for value in (1e80, np.inf, np.nan):
        hyper = start.copy()
        post[1, 1] = value  # the first coefficient of the first output
        assert learn_prior(family.family, hyper, start, post, np.array([30.0, 30.0]), 2)
        moved = case.prior(hyper)[0] != case.prior(start)[0]
        assert moved.tolist() == [[False, True], [True, True]]
        assert np.isfinite(hyper).all()


def test_other_families_keep_their_prior():
    family = BetaBernoulli(0.5, 0.5)
    start = family.hyper(2)
    hyper, post = start.copy(), np.zeros((1, 9))
    assert not learn_prior(family.family, hyper, start, post, np.array([50.0]), 1)
    assert np.array_equal(hyper, start)


def test_a_table_without_spread_does_not_take_the_prior_along():
    rng = np.random.default_rng(0)
    data = [np.full((10_000, 2), 0.5), rng.normal(size=(50, 2)), rng.normal(size=(50, 2))]
    start, hyper = learned(Gamma(), data)
    _, _, _, rate = Gamma().prior(hyper)
    assert_allclose(rate, 0.02 * Gamma().prior(start)[3])


def exact(hyper, rows):
    """The posterior (mean about the centre, rate) of one column, in fractions."""
    center, m, kappa, _, rate = map(Fraction, hyper[1:6].tolist())
    y, m = [Fraction(x) - center for x in rows.tolist()], m - center
    mean = (kappa * m + sum(y)) / (kappa + len(y))
    return mean, rate + (sum((v - mean) ** 2 for v in y) + kappa * (mean - m) ** 2) / 2


@pytest.mark.parametrize("kappa", [1e-30, 1e-3, 0.3, 1e6])
@pytest.mark.parametrize("far", [0.0, -3.0, 1e6, -1e12])
@pytest.mark.parametrize("scale", [1e-12, 1.0])
def test_a_prior_that_moved_far_off_takes_no_digits(scale, far, kappa):
    """Tables near the centre keep theirs when others pull the prior away."""
    rows = 0.25 + scale * np.random.default_rng(0).normal(size=40)
    family = NormalGamma(0.25, kappa, 1.5, scale**2)
    hyper, stats = family.hyper(1), family.suffstats(rows[:, None]).sum(axis=0)
    hyper[2] += far * scale  # the mean; the centre stays
    post = np.zeros((1, families.n_post(family.family, hyper)))
    families.posteriors(family.family, hyper, stats[None], 1, post)
    mean, rate = exact(hyper, rows)
    y, m = rows - 0.25, hyper[2] - 0.25
    # with u = 2^-53, sums of 40 rows are right to 42 u of the sum of sizes
    size = (np.abs(y).sum() + kappa * abs(m)) / (kappa + 40)
    assert post[0, 1] == pytest.approx(float(mean), rel=0.0, abs=2.0**-47 * size)
    # and a rate to 128 u of all it adds, which is below 7 sum y^2 + 9 rate, or 32 rates here
    assert y @ y < 3.0 * float(rate)
    assert post[0, 4] == pytest.approx(float(rate), rel=2.0**-41, abs=0.0)
    # the marginal alone comes from the same rate: some terms in another order, each to an ulp
    size = 21.5 * abs(np.log(post[0, 4])) + 1.5 * abs(np.log(hyper[5])) + abs(post[0, 0]) + 200.0
    alone = families.log_marginal(family.family, hyper, stats, np.empty(post.shape[1]))
    assert alone == pytest.approx(post[0, 0], rel=0.0, abs=2.0**-49 * size)
