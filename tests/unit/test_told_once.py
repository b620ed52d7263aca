"""Where a user meets a limit, one line of the log says so, once."""

import numpy as np
import pytest

from streamddcrp import (
    DDCRPSampler,
    EmbeddingStream,
    NestedCRPComponents,
    NestedCRPTopics,
    Seasonal,
    SeqDDCRP,
    TemporalDPM,
    TextStream,
    TimeVaryingIBP,
)

RNG = np.random.default_rng(0)
STILL = np.c_[RNG.normal(size=(90, 2)), np.full(90, 2.5)]
ZERO = np.r_[RNG.normal(size=(20, 8)), np.zeros((2, 8))]
WIDE = RNG.normal(size=(90, 8)) * 10.0 ** np.linspace(-12, 12, 8)
TEXTS = [*["oil price up", "cup goal"] * 9, "", "!"]
FEW = {"n_particles": 2, "moves": 1, "window": 9}
LONG = np.concatenate([STILL, STILL])
OTHER = [f"a{i} b{i} c{i} d{i}" for i in range(16)] * 6
CASES = {
    "still, SeqDDCRP": (SeqDDCRP(warmup=64), STILL, "'2' never varied in the first 64 rows"),
    "still, DDCRPSampler": (DDCRPSampler(warmup=64), STILL, "'2' never varied in the first 64"),
    "still, TemporalDPM": (TemporalDPM(epoch=("rows", 9), warmup=40), STILL, "'2' never varied in"),
    "still, TimeVaryingIBP": (TimeVaryingIBP(**FEW), STILL, "'2' never varied in the first 50"),
    "still, NestedCRPComponents": (NestedCRPComponents(warmup=64), STILL, "'2' never varied in"),
    "still, Seasonal": (Seasonal(24), LONG, "'2' never varied in the first 128 rows"),
    "no label, texts": (TextStream(), TEXTS, "a row without words that tell has the label -1"),
    "no label, vectors": (EmbeddingStream(), ZERO, "without a direction, of zeros, has the label"),
    "no label, topics": (NestedCRPTopics(), TEXTS, "without known words has no path"),
    "wordless": (TemporalDPM(), TEXTS[:18] + [""] * 40, "have no words that tell: they open no"),
    "nodes": (NestedCRPTopics(max_nodes=6), OTHER[:9], "almost all of the 6 nodes that max_nodes"),
    "words": (
        NestedCRPTopics(max_words=9, window=4),
        OTHER,
        "more words than the 9 that max_words",
    ),
    "scales": (EmbeddingStream(), WIDE, "column '7' makes up 100%"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [7, 1000])
def test_it_is_told_once(name, size, caplog):
    model, rows, words = CASES[name]
    model = model.clone()
    for a in range(0, len(rows), size):
        model.learn_many(rows[a : a + size])
    assert caplog.text.count(words) == 1


def test_what_varies_is_not_told_of(caplog):
    SeqDDCRP(warmup=64).learn_many(STILL[:, :2])
    TextStream().learn_many(TEXTS[:-2])
    EmbeddingStream().learn_many(ZERO[:-2])
    Seasonal(24).learn_many(LONG[:, :2])
    TemporalDPM().learn_many(TEXTS)
    NestedCRPTopics().learn_many(OTHER)
    assert "never varied" not in caplog.text
    assert "-1" not in caplog.text
    assert "no words" not in caplog.text
    assert "max_" not in caplog.text
