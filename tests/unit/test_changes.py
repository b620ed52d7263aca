"""At most one change point in a run."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamddcrp import change_points, label_changes
from streamddcrp.errors import ConfigError

PROBABILITIES = st.lists(st.one_of(st.floats(0.0, 1.0), st.just(float("nan"))), max_size=60)


def slow(p, threshold, armed):
    rows = []
    for i, value in enumerate(p):
        if armed and value > threshold:
            rows.append(i)
            armed = False
        elif value < 1.0 - threshold:
            armed = True
    return rows, armed


@given(p=PROBABILITIES, threshold=st.sampled_from([0.5, 0.7, 0.9]), cut=st.integers(0, 60))
def test_equals_a_loop_for_any_cutting(p, threshold, cut):
    rows, armed = change_points(p, threshold)
    assert (rows.tolist(), armed) == slow(p, threshold, True)
    first, between = change_points(p[:cut], threshold)
    second, last = change_points(p[cut:], threshold, armed=between)
    assert [*first, *(second + min(cut, len(p)))] == rows.tolist()
    assert last == armed


def test_takes_a_column_with_nulls():
    column = pa.array([None, 0.1, 0.95, None, 0.99])
    assert change_points(column)[0].tolist() == [2]


def test_refuses_thresholds_at_which_both_sides_could_hold():
    with pytest.raises(ConfigError, match="threshold"):
        change_points(np.zeros(3), 0.4)


def by_hand(labels, hold, share):
    """Return the changes by counting the regime's rows anew for each row."""
    found, first = [], hold
    for i in range(len(labels)):
        before, run = labels[first : max(i - hold + 1, 0)], labels[max(i - hold + 1, 0) : i + 1]
        usual = {k for k in before if before.count(k) >= share * len(before)}
        if len(before) >= hold and usual.isdisjoint(run):
            first = i - hold + 1
            found.append(first)
    return found


@given(
    labels=st.lists(st.integers(0, 3), max_size=40),
    hold=st.integers(1, 4),
    share=st.sampled_from([0.0, 0.1, 0.3, 1.0]),
)
def test_label_changes_are_those_found_by_hand(labels, hold, share):
    assert label_changes(labels, hold, share).tolist() == by_hand(labels, hold, share)


@pytest.mark.parametrize(("options", "words"), [((0,), "hold must be"), ((3, 1.5), "share must")])
def test_refuses_rules_that_say_nothing(options, words):
    with pytest.raises(ConfigError, match=words):
        label_changes([1, 2], *options)
