"""At most one change point in a run."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamddcrp import change_points, label_changes
from streamddcrp.errors import ConfigError
from tests.oracles.segments import segmentations

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


@given(
    labels=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40)), min_size=1, max_size=9),
    hold=st.integers(1, 25),
)
@example(labels=[(0, 30), (1, 30), (0, 30)], hold=10)
@example(labels=[(0, 60), (1, 9), (0, 60), (1, 10), (0, 9)], hold=10)
def test_label_changes_are_those_of_the_most_probable_segmentation(labels, hold):
    rows = [label for label, length in labels for _ in range(length)]
    found = label_changes(rows, hold).tolist()
    scores = {tuple(changes): score for changes, score in segmentations(rows, hold)}
    assert scores[tuple(found)] >= max(scores.values()) - 1e-9


def test_a_regime_is_a_mixture_of_tables_and_may_visit_others():
    mixture, other = [0, 0, 1, 0, 1] * 20, [2, 0, 2, 2, 2] * 20
    assert label_changes([*mixture, 3, 3, 3, *mixture, *other]).tolist() == [203]
    assert label_changes([*mixture, *other, *mixture]).tolist() == [100, 200]
    assert label_changes(mixture).tolist() == label_changes([]).tolist() == []
    fault = [*mixture, *18 * [3], *mixture]
    assert label_changes(fault).tolist() == [100, 118]
    assert label_changes(fault, hold=24).tolist() == []


def test_remembers_the_beginnings_that_count():
    rng = np.random.default_rng(5)
    rows = np.concatenate([3 * r + rng.integers(0, 3, 900) for r in (0, 1, 0)])
    assert label_changes(rows).tolist() == [900, 1800]  # 600 runs in each


def test_refuses_regimes_without_rows():
    with pytest.raises(ConfigError, match="hold must be"):
        label_changes([1, 2], 0)
