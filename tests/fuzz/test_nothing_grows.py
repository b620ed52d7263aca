"""Clusters that live for ever and get new values for ever: no array of a model grows with them."""

import numpy as np
import pytest

from tests.fuzz.living import follow
from tests.fuzz.rows import one_each

# A reference and window features learn no clusters; words are bounded elsewhere.
LEFT_OUT = ("Keyed", "Reference", "Alarm", "WindowFeatures", "NestedCRPTopics")
CASES = [
    case
    for case in one_each()
    if not case.name.startswith(LEFT_OUT) and np.ndim(case.stream(1).rows) == 2
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_array_grows(case):
    """`tests.fuzz.living` follows all cases for a million rows."""
    *_, grown = follow(case, 3_000, np.inf)
    assert grown == {}
