"""scikit-learn's conventions: clone, fit, fit_predict, pipelines."""

import numpy as np
import pytest
from river import base
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline

import streamddcrp
from streamddcrp import (
    GraphCRP,
    Keyed,
    NestedCRPTopics,
    RegimeAnomalyDetector,
    SeqDDCRP,
    TextStream,
)

TRUE = np.repeat([0, 1, 0, 2], 100)
X = np.random.default_rng(0).normal(size=(400, 3)) + 6.0 * np.eye(3)[TRUE]
NEWS = ("oil price rises again", "court hears the judge")
TEXTS = [f"{NEWS[z % 2]} item{i}" for i, z in enumerate(TRUE)]


def test_options_are_read_and_changed():
    model = SeqDDCRP(window=64)
    model.learn_many(X)
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(window=32) is model
    assert model.window == 32
    assert model.n_seen == 0
    with pytest.raises(TypeError, match="nonsense"):
        model.set_params(nonsense=1)


RIVERS = [
    cls
    for cls in (getattr(streamddcrp, name) for name in streamddcrp.__all__)
    if isinstance(cls, type) and issubclass(cls, base.Base)
]


@pytest.mark.parametrize("cls", RIVERS)
def test_every_estimator_can_be_cloned(cls):
    model = Keyed(SeqDDCRP(window=32), by="machine") if cls is Keyed else cls()
    copy = clone(model)
    assert type(copy) is cls
    assert repr(copy) == repr(model)
    assert repr(copy.set_params(**model.get_params(deep=False))) == repr(model)


def test_changed_options_forget_a_model_within():
    detector = RegimeAnomalyDetector(SeqDDCRP(), average=2)
    detector.learn_many(X)
    detector.set_params(average=3)
    assert (detector.average, detector.model.n_seen) == (3, 0)


def test_fit_predict_is_one_pass_with_later_merges():
    model, stream = SeqDDCRP(), SeqDDCRP()
    labels = model.fit_predict(X)
    assert adjusted_rand_score(TRUE, labels) > 0.98
    assert set(labels) <= {row["id"] for row in model.summary().to_pylist()}  # none merged away
    stream.learn_many(X)
    assert stream.bound == model.bound
    np.testing.assert_array_equal(model.fit_predict(X), labels)  # and forgets what came before


def test_last_of_a_pipeline():
    labels = make_pipeline(PCA(2), SeqDDCRP()).fit_predict(X)
    assert adjusted_rand_score(TRUE, labels) > 0.98


def test_side_inputs_come_along():
    t = np.arange(400.0)
    assert SeqDDCRP().fit(X, t=t).labels_.shape == (400,)
    parents = [[i - 1] if i else [] for i in range(400)]
    assert GraphCRP(window=5, n_particles=5).fit(X, parents=parents).labels_.shape == (400,)


@pytest.mark.parametrize("model", [TextStream(), NestedCRPTopics()])
def test_texts(model):
    assert model.fit_predict(TEXTS).shape == (400,)


def test_fit_forgets_the_last_rows_and_their_columns():
    X = np.random.default_rng(0).normal(size=(40, 3))
    model = SeqDDCRP().fit(X)
    for again in (X[:1, :2], X[:, :1]):
        assert model.fit(again).to_bytes() == SeqDDCRP().fit(again).to_bytes()
