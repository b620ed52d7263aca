"""What a notebook shows of models and results: small, escaped, and true."""

import sys
import xml.etree.ElementTree as ET

import numpy as np
import pyarrow as pa
import pytest

import streamddcrp
from streamddcrp import Keyed, SeqDDCRP, TextStream, fit_seqddcrp
from streamddcrp.decay import Exponential
from streamddcrp.likelihoods import NormalGamma

HOSTILE = "<script>alert('&')</script>"
MODELS = ("Alarm", "DDCRPSampler", "EmbeddingStream", "GraphCRP", "GroupDP", "LinkLanguageModel",
          "NestedCRPComponents", "NestedCRPTopics", "Seasonal", "SeqDDCRP", "TemporalDPM",
          "TextStream", "TimeVaryingIBP")  # fmt: skip


def shown(thing):
    root = ET.fromstring(thing._repr_html_())
    return root, " ".join(root.itertext())


@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_has_learned_nothing(name):
    cls = getattr(streamddcrp, name)
    model = cls(rate=0.01) if name == "Alarm" else cls()
    root, text = shown(model)
    assert root[0].text == name
    assert "default options" in text or "rate=0.01" in text


def test_a_model_shows_changed_options_facts_and_summary(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)  # it does without
    model = SeqDDCRP(memory=200.0)
    level = np.repeat([0.0, 30.0, 0.0], 50) + np.random.default_rng(0).normal(size=150)
    model.learn_many(pa.table({HOSTILE: level}))
    root, text = shown(model)
    assert "memory=200" in text
    assert "rows learned: 150" in text
    assert f"alive now: {model.n_tables}" in text
    assert f"mean_{HOSTILE}" in text
    assert "<script" not in model._repr_html_()
    assert len(root.findall(".//tbody/tr")) == model.summary().num_rows
    assert len(model._repr_html_()) < 4_000


def test_many_tables_are_cut():
    model = TextStream()
    model.learn_many([f"word{k} word{k}b {HOSTILE}" for k in range(30)])
    root, text = shown(model)
    n = model.summary().num_rows
    assert len(root.findall(".//tbody/tr")) == min(n, 8)
    assert (f"{n - 8:,} more row" in text) == (n > 8)
    assert "<script" not in model._repr_html_()
    assert "words" in [cell.text for cell in root.findall(".//th")]


def test_a_model_within_is_named():
    _, text = shown(Keyed(SeqDDCRP(memory=200.0), by="k"))
    assert "model=SeqDDCRP, memory=200, by=k" in text


def test_keys_are_counted_and_no_state_is_read():
    fleet = Keyed(SeqDDCRP(), by="pump")
    for pump in "ab":
        fleet.learn_one({"pump": pump, "x": 1.0})
    root, text = shown(fleet)
    assert "keys: 2" in text
    assert not root.findall(".//table")


def test_results_show_their_fields():
    X = np.random.default_rng(0).normal(size=(20, 1))
    fit = fit_seqddcrp(X, NormalGamma(0.0, 0.1, 1.5, 1.0), alpha=0.1, decay=Exponential(5.0))
    root, text = shown(fit)
    assert root[0].text == "SeqDDCRPFit"
    assert f"{fit.bound:.4g}" in text
    assert len(root.findall(".//tbody/tr")) == len(fit.__dataclass_fields__) + 3  # properties
