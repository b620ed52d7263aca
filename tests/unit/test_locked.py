"""Memory that runs out while a model learns, where there is no copy to go back to."""

import numpy as np
import pytest

from streamddcrp import RegimeAnomalyDetector, SeqDDCRP, WindowFeatures
from streamddcrp.errors import CheckpointError
from tests.fuzz.interrupts import arrays

ROWS = np.random.default_rng(0).normal(size=(90, 2))


def test_a_model_that_may_hold_a_part_of_its_rows_refuses_all_calls():
    model = WindowFeatures.from_bytes(WindowFeatures(period=5).to_bytes())  # it makes no copy
    with arrays(3), pytest.raises(MemoryError):
        model.step_many(ROWS)
    for call in (model.to_bytes, lambda: model.step_many(ROWS)):
        with pytest.raises(CheckpointError, match="memory ran out while this model learned"):
            call()


def test_a_detector_takes_back_what_its_model_cannot():
    detector, twin = (RegimeAnomalyDetector(SeqDDCRP(warmup=20)) for _ in range(2))
    for most in (100, 900):
        with arrays(most), pytest.raises(MemoryError):
            detector.step_many(ROWS)
    assert detector.to_bytes() == twin.to_bytes()
    assert detector.step_many(ROWS).equals(twin.step_many(ROWS))


def test_a_copy_is_made_where_it_costs_little():
    model = SeqDDCRP(likelihood=("normal_gamma", 0.0, 0.05, 1.5, 0.5))
    model.learn_many(ROWS[:2])
    copying, model._took = model._copying, 0.0
    model.learn_many(ROWS[2:3])
    assert model._copying == copying
    model._took = 1e3
    model.learn_many(ROWS[3:4])
    assert model._copying != copying
