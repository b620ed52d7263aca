"""Surprise relative to a reference: the formula, and that nothing moves it."""

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from streamddcrp import Reference, SeqDDCRP
from streamddcrp.errors import CheckpointError, ConfigError, SchemaError
from streamddcrp.likelihoods import DirichletMultinomial, make_likelihood

RNG = np.random.default_rng(0)
LEVEL = np.repeat([0.0, 30.0, 0.0], 40)[:, None]
GAUSSIAN = LEVEL + RNG.normal(size=(120, 2))
COUNTS = RNG.poisson(np.repeat([1.0, 8.0], 60)[:, None], (120, 3)).astype(float)
STREAMS = {
    "normal_gamma": (("normal_gamma", 0.0, 0.01, 1.5, 1.0), GAUSSIAN),
    "normal_wishart": (("normal_wishart", 0.0, 0.01, 1.0, 4.0), GAUSSIAN),
    "gamma_poisson": (("gamma_poisson", 1.0, 0.5), COUNTS),
    "beta_bernoulli": (("beta_bernoulli", 0.5, 0.5), (COUNTS > 4).astype(float)),
    "dirichlet_multinomial": (("dirichlet_multinomial", 0.5, 3), COUNTS),
    "autoregression": (("autoregression", 1, 0.0, 1.0, 0.05, 1.5, 1.0), GAUSSIAN),
}


@pytest.mark.parametrize("name", STREAMS)
def test_is_the_mixture_of_the_predictives_of_the_tables(name):
    option, X = STREAMS[name]
    model = SeqDDCRP(likelihood=option, learn_prior=False)
    model.learn_many(X)
    reference = model.reference()
    state = model._stream.state
    stats = state.table.stats[: state.n_tables]
    stats = stats[stats[:, 0] >= 5.0]
    weights = stats[:, 0] / stats[:, 0].sum()
    assert_allclose(reference.weights, weights, rtol=1e-15)
    holed = X.copy()
    if name != "normal_wishart":  # which fills in the prior mean
        holed[::7, 0] = np.nan
    family = make_likelihood(option)
    expected, past = [], family.prepare(X)[1]
    for x in holed:
        expected.append(-logsumexp(family.log_predictive(x, stats, past), b=weights))
        past = family.prepare(x[None], past)[1]
    columns = {str(d): pa.array(x, mask=np.isnan(x)) for d, x in enumerate(holed.T)}
    again = SeqDDCRP(
        likelihood=option, learn_prior=False
    )  # text as names, for a table with missing values
    again.learn_many(pa.table({str(d): x for d, x in enumerate(X.T)}))
    for reference in (again.reference(), Reference.from_bytes(again.reference().to_bytes())):
        assert_allclose(reference.score_many(pa.table(columns)), expected, rtol=1e-10, atol=1e-10)
    for row, value in zip(pa.table(columns).to_pylist(), expected, strict=True):
        assert reference.score_one(row) == pytest.approx(value, rel=1e-10, abs=1e-10)
        again.learn_one(row)
        reference.past = again._stream.past


def test_nothing_moves_it_and_it_moves_nothing():
    model = SeqDDCRP(warmup=30)
    model.learn_many(GAUSSIAN[:60])
    before = model.to_bytes()
    reference = model.reference()
    blob = reference.to_bytes()
    odd = np.full((200, 2), 100.0) + np.random.default_rng(1).normal(size=(200, 2))
    surprise = reference.score_many(odd)
    assert model.to_bytes() == before
    own = model.step_many(odd)["score"].to_numpy()
    assert own[-50:].max() < 10.0 < own[0]  # the model has taken it in ..
    assert surprise.min() > 10.0  # .. the reference has not
    assert reference.to_bytes() == blob
    np.testing.assert_array_equal(reference.score_many(odd), surprise)
    np.testing.assert_array_equal(Reference.from_bytes(blob).score_many(odd), surprise)
    with pytest.raises(CheckpointError):
        Reference.from_bytes(blob[:-1])


def test_tables_can_be_chosen():
    model = SeqDDCRP(likelihood=("normal_gamma", 0.0, 0.01, 1.5, 1.0))
    model.learn_many(GAUSSIAN)
    assert model.reference().ids.tolist() == [0, 1]
    only = model.reference([1])
    assert only.weights.tolist() == [1.0]
    low, high = only.score_many([[0.0, 0.0], [30.0, 30.0]])
    assert low > 100.0 > high
    with pytest.raises(ConfigError, match=r"\[0, 1\], got \[7\]"):
        model.reference([1, 7])
    with pytest.raises(ConfigError, match="got"):
        model.reference([])
    with pytest.raises(ConfigError, match="warm-up"):
        SeqDDCRP().reference()


def test_small_tables_are_left_out_unless_there_is_no_other():
    model = SeqDDCRP(likelihood=("normal_gamma", 0.0, 0.01, 1.5, 1.0))
    model.learn_many(GAUSSIAN[:3])
    assert model.reference().ids.tolist() == [0]
    model.learn_many(np.r_[GAUSSIAN[3:40], [[500.0, 500.0]]])
    assert model.n_tables == 2
    assert model.reference().ids.tolist() == [0]


def test_words_not_known_cost_what_the_prior_says():
    model = SeqDDCRP(likelihood=DirichletMultinomial(4.0))
    wide = SeqDDCRP(likelihood=DirichletMultinomial(4.0))
    for i in range(20):
        row = {f"w{i % 4}": 1, "common": 2}
        model.learn_one(row)
        wide.learn_one(row | {"new": 0, "newer": 0})
    reference, expected = model.reference(), wide.reference()
    blob = reference.to_bytes()
    for row in ({"new": 3, "w1": 1}, {"newer": 1, "new": 1}, {"common": 1}, {}):
        assert reference.score_one(row) == pytest.approx(expected.score_one(row), rel=1e-12)
    table = pa.table({"new": [1, 0], "w1": [0, 2]})
    assert_allclose(reference.score_many(table), expected.score_many(table), rtol=1e-12)
    assert reference.to_bytes() == blob


def test_rows_are_checked():
    model = SeqDDCRP(likelihood=("gamma_poisson", 1.0, 0.5))
    model.learn_many(pa.table({"n": [1, 2, 0, 3]}))
    reference = model.reference()
    blob = reference.to_bytes()
    with pytest.raises(SchemaError, match=r"row 1, column 'n'") as refused:
        reference.score_many(pa.table({"n": [1, -1]}))
    assert refused.value.row == 1
    with pytest.raises(SchemaError, match="text"):
        reference.score_one({"n": "many"})
    assert reference.score_one({"n": 1, "other": 5.0}) == reference.score_one({"n": 1})
    assert reference.score_one({}) == pytest.approx(0.0, abs=1e-12)  # nothing seen, nothing odd
    assert len(reference.score_many(pa.table({"n": pa.array([], pa.int64())}))) == 0
    assert reference.to_bytes() == blob
