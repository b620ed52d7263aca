"""The page that walks a newcomer along the way of a batch names every file on it, and no other."""

import re
from pathlib import Path

import streamddcrp_connectors
from streamddcrp_connectors.request import Request
from streamddcrp_connectors.run.command import execute
from tests.tracing import files_entered

from .data import rows, write_csv

PACKAGE = Path(streamddcrp_connectors.__file__).parent
PAGE = Path(__file__).resolve().parents[2] / "docs" / "way-of-a-batch.md"


def files_on_the_way(folder):
    source = write_csv(folder / "rows.csv", rows(40))
    request = Request(
        str(source), time="t", features=("a",), sink=str(folder / "out.jsonl"),
        alarms=str(folder / "alarms.jsonl"), checkpoint=str(folder / "state"), progress=False,
    )  # fmt: skip
    done = []
    entered = files_entered(PACKAGE, lambda: done.append(execute(request)))
    assert done == [0]
    return entered


def test_the_page_names_the_files_on_the_way(tmp_path):
    text = PAGE.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    named = set(re.findall(r"`([\w/]+\.py)`", text))
    for name in named:
        assert (PACKAGE / name).is_file(), name
    missing = files_on_the_way(tmp_path) - named - {"run/silences.py"}  # which no alarm had
    assert not missing
