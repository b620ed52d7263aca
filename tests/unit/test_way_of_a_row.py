"""The page that walks a newcomer along the way of one row is true, and short."""

import re
from pathlib import Path

import streamddcrp
from streamddcrp import SeqDDCRP
from tests.tracing import files_entered

CORE = Path(streamddcrp.__file__).parent
PAGE = Path(__file__).resolve().parents[2] / "docs" / "way-of-a-row.md"


def files_on_the_way():
    """Trace one row of a model past its warm-up; which of our files does Python enter?"""
    model = SeqDDCRP(likelihood="normal_gamma", warmup=8)
    rows = [{"flow": 0.1 * (i % 5)} for i in range(20)]
    for x in rows:
        model.learn_one(x)
    entered = files_entered(CORE, lambda: model.learn_one(rows[0]))
    return {name for name in entered if "kernels" not in name}


def test_the_page_names_the_files_on_the_way():
    text = PAGE.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    way = text[: text.index("## Where")]
    named = re.findall(r"^\d\. \*\*`streamddcrp/([\w/.]+)`", way, re.MULTILINE)
    assert len(named) <= 6
    # the lock, the backlog of events, rows for a picture, regimes of states and their numbers
    around = {f"estimator/{name}.py" for name in ("locked", "views", "recent")}
    around |= {"plots/segments.py", "models/seqddcrp/regimes.py"}
    assert files_on_the_way() - around <= set(named)


def test_the_files_that_the_page_names_exist():
    text = PAGE.read_text(encoding="utf-8")
    for name in re.findall(r"`((?:streamddcrp|connectors)/[\w/.]+\.py)`", text):
        assert (PAGE.parents[1] / name).is_file(), name
