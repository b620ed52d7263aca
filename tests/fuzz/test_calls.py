"""Wrong values for public callables, a few for each; `tests.fuzz.calls` tries more."""

import numpy as np
import pytest

import streamddcrp
from streamddcrp.errors import ConfigError, StreamDDCRPError
from tests.fuzz import calls
from tests.fuzz.run import BAD

SOME = (
        "SeqDDCRP, auto", "TextStream, documents", "TemporalDPM, values", "LinkLanguageModel",
        "Keyed, numbers", "Alarm", "Seasonal", "NestedCRPTopics, texts", "GroupDP, given",
)  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("of", [calls.of_functions, calls.of_classes, calls.of_models])
def test_wrong_values_are_refused_by_name_and_change_nothing(of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some of them are paths
    refused = 0
    for subject in of():
        if of is calls.of_models and not subject.name.startswith(SOME):
            continue
        for seed in range(6):
            with np.errstate(all="ignore"):
                outcome, message, said = subject.attempt(seed)
            assert outcome not in BAD, (subject.name, seed, said, message)
            refused += outcome == "refused"
    assert refused > 50


def test_no_public_function_or_learner_is_left_out():
    public = {name for name in streamddcrp.__all__ if callable(getattr(streamddcrp, name))}
    assert {s.name for s in calls.of_functions() + calls.of_classes()} >= public


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: streamddcrp.Alarm(rate="1d"), ConfigError, "rate must be a number"),
        (lambda: streamddcrp.Distances(3, True), ConfigError, "by_time"),
        (lambda: streamddcrp.Keyed(streamddcrp.SeqDDCRP, by="key"), ConfigError, "model must"),
        (
            lambda: streamddcrp.RegimeAnomalyDetector(streamddcrp.TextStream()),
            ConfigError, "model must be of type SeqDDCRP or None",
        ),
        (
            lambda: streamddcrp.TemporalDPM(epoch=("rows", "x")),
            ConfigError, "epoch must be a number or text or a tuple of text and a whole number",
        ),
        (lambda: streamddcrp.TemporalDPM(alpha=1e-320), ConfigError, "alpha must be at least"),
        (lambda: streamddcrp.SeqDDCRP(optoin=1), TypeError, "optoin"),
        (lambda: streamddcrp.SeqDDCRP.load("a\0b"), StreamDDCRPError, "null"),
        (lambda: streamddcrp.SeqDDCRP().save("a\0b"), StreamDDCRPError, "null"),
        (lambda: streamddcrp.fit_language(None), ConfigError, "corpus must be of type Corpus"),
    ],
)  # fmt: skip
def test_wrong_values_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_fit_that_is_refused_leaves_the_model_as_it_was():
    rows = np.random.default_rng(0).normal(size=(300, 2))
    model = streamddcrp.SeqDDCRP().fit(rows)
    before = model.to_bytes()
    rows[200, 1] = np.inf
    with pytest.raises(StreamDDCRPError, match="row"):
        model.fit(rows)
    assert model.to_bytes() == before
    with pytest.raises(ConfigError, match="window"):
        model.set_params(window="wide")
    assert model.to_bytes() == before
