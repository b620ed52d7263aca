"""Adversarial rows and mutated files, a few of each; `tests.fuzz.rows` and `.readers` try more."""

import pytest

import streamddcrp
from tests.conformance.cases import CASES
from tests.fuzz.adversary import Adversary, without
from tests.fuzz.readers import readers
from tests.fuzz.rows import attack, one_each

SOME = ("SeqDDCRP, auto", "GroupDP, given", "GraphCRP, parents, given", "TextStream, documents",
        "NestedCRPTopics, texts", "Keyed, numbers", "Alarm")  # fmt: skip


@pytest.mark.parametrize("case", [c for c in CASES if c.name in SOME], ids=lambda c: c.name)
def test_adversarial_rows_do_no_harm(case):
    came = attack(case, 7, 300, 20.0)
    assert came["found"] == []
    assert came["learned"] > 100


@pytest.mark.parametrize("case", one_each(), ids=lambda c: c.name)
def test_rows_of_one_kind_do_no_harm(case):
    for kind in Adversary(case, 0).kinds:
        came = attack(case, 3, 100, 20.0, kind=kind)
        assert came["found"] == [], kind


def test_long_streams_learn_in_batches_and_by_single_rows():
    case = next(c for c in CASES if c.name == "WindowFeatures, found")
    came = attack(case, 1, 5_000, 20.0, None, 0.1)
    assert came["found"] == []
    assert came["learned"] + came["refused"] >= 5_000
    assert 0 < came["alone"] < 2_500


@pytest.mark.parametrize("case", [c for c in CASES if c.name in SOME], ids=lambda c: c.name)
def test_a_stream_without_its_only_row_is_one_of_no_rows(case):
    stream = Adversary(case, 0).segment(1)[1]
    model, fresh = case.make(), case.make()
    assert case.step(model, without(stream, {0})).num_rows == 0
    assert not case.differences(model, fresh)


def test_no_public_class_is_left_out():
    chosen = {type(case.make()) for case in one_each()}
    public = [getattr(streamddcrp, name) for name in streamddcrp.__all__]
    ways = ("learn_one", "learn_many", "step_many", "score_many")
    learners = [c for c in public if isinstance(c, type) and any(hasattr(c, w) for w in ways)]
    assert len(learners) >= 17
    assert chosen >= {*learners}


def test_mutated_files_are_read_or_refused(tmp_path):
    outcomes = set()
    for reader in readers(tmp_path):
        for seed in range(12):
            outcome, message, _ = reader.attempt(seed)
            assert outcome.startswith(("read", "refused")), (reader.name, seed, message)
            outcomes.add(outcome)
    assert len(outcomes) == 3
