"""Clusters that live for ever and get new values for ever: no array of a model grows with them."""

import numpy as np
import pytest

from tests.fuzz.living import living, sizes
from tests.fuzz.rows import one_each

# A reference and window features learn no clusters; words are bounded elsewhere.
LEFT_OUT = ("Keyed", "Reference", "Alarm", "WindowFeatures", "NestedCRPTopics")
CASES = [
    case
    for case in one_each()
    if not case.name.startswith(LEFT_OUT) and np.ndim(case.stream(1).rows) == 2
]


@pytest.mark.parametrize("n", [3_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_array_grows(case, n):
    """From the middle of the stream to its end, but for one doubling of what has room to spare."""
    model, before, step = case.make(), {}, min(n // 6, 1_000)
    for first in range(0, n, step):
        case.step(model, living(case, first, step))
        getattr(model, "events", list)()
        getattr(model, "final_labels", list)()
        if first < n // 2:
            before = {k: max(v, before.get(k, 0)) for k, v in sizes(model).items()}
    grown = {k: (before[k], v) for k, v in sizes(model).items() if v > 2 * before.get(k, v) + 4096}
    assert grown == {}
