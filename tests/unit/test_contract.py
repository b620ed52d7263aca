"""Engines of rows keep the contract; what all models report stands in the same columns."""

import numpy as np
import pytest

from streamddcrp import DDCRPSampler, GraphCRP, GroupDP, SeqDDCRP
from streamddcrp.contract import LABEL, LIVE_TABLES, N_OUTPUTS, P_NEW, SCORE, Engine, EventRing
from streamddcrp.models.features.engine import nothing_reported

LIKELIHOOD = ("normal_gamma", 0.0, 0.1, 1.5, 1.0)
X = np.repeat([[0.0], [9.0], [0.0]], 4, axis=0) + 0.1 * np.arange(12)[:, None]
MODELS = [
    (SeqDDCRP(likelihood=LIKELIHOOD), "_stream"),
    (DDCRPSampler(likelihood=LIKELIHOOD, n_particles=3), "_engine"),
    (GraphCRP(likelihood=LIKELIHOOD, n_particles=3), "_engine"),
    (GroupDP(likelihood=LIKELIHOOD, n_particles=3), "_engine"),
]


@pytest.mark.parametrize(("model", "place"), MODELS, ids=lambda value: type(value).__name__)
def test_engines_of_rows_keep_the_contract(model, place):
    model.learn_many(X[:6])
    engine = getattr(model, place)
    assert isinstance(engine, Engine)
    assert set(EventRing._fields) <= set(engine.state.events._fields)
    assert engine.state.counts.dtype == np.int64
    said = model.step_many(X[6:7])
    before = model.to_bytes()
    predicted = model.predict_one({0: X[7, 0]})
    assert model.to_bytes() == before  # predicting changes nothing
    out = model.step_many(X[7:])
    assert out["label"][0].as_py() == predicted
    assert said.schema == out.schema


def test_columns_do_not_collide():
    assert sorted({LABEL, SCORE, P_NEW, LIVE_TABLES}) == [0, 2, 3, 5]
    assert nothing_reported(2).out.shape == (2, N_OUTPUTS)
