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


def by_hand(labels, hold):
    """Return the changes with a counter, row by row."""
    found, present, run = [], None, 0
    for i, label in enumerate(labels):
        run = run + 1 if i and label == labels[i - 1] else 1
        if run == hold and label != present:
            if present is not None:
                found.append(i - hold + 1)
            present = label
    return found


@given(labels=st.lists(st.integers(0, 2), max_size=30), hold=st.integers(1, 4))
def test_label_changes_are_those_found_by_hand(labels, hold):
    assert label_changes(labels, hold).tolist() == by_hand(labels, hold)


def test_a_run_has_at_least_one_row():
    with pytest.raises(ConfigError, match="hold must be"):
        label_changes([1, 2], hold=0)
