"""Adversarial rows and mutated files, a few of each; `tests.fuzz.rows` and `.readers` try more."""

import pytest

from tests.conformance.cases import CASES
from tests.fuzz.readers import readers
from tests.fuzz.rows import attack

SOME = ("SeqDDCRP, auto", "GroupDP, given", "GraphCRP, parents, given", "TextStream, documents",
        "NestedCRPTopics, texts", "Keyed, numbers", "Alarm")  # fmt: skip


@pytest.mark.parametrize("case", [c for c in CASES if c.name in SOME], ids=lambda c: c.name)
def test_adversarial_rows_do_no_harm(case):
    came = attack(case, 7, 300, 20.0)
    assert came["found"] == []
    assert came["learned"] > 100


def test_mutated_files_are_read_or_refused(tmp_path):
    outcomes = set()
    for reader in readers(tmp_path):
        for seed in range(12):
            outcome, message, _ = reader.attempt(seed)
            assert outcome.startswith(("read", "refused")), (reader.name, seed, message)
            outcomes.add(outcome)
    assert len(outcomes) == 3
