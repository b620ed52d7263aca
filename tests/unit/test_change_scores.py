"""Scores of segmentations and alarms, against cases counted by hand."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.change_scores import covering, f1, hits, nab, onsets, rates, sigmoid, window_score

CHANGES = st.sets(st.integers(1, 29))


def by_sets(true, found, n):
    """Covering with sets of rows."""

    def segments(rows):
        edges = [0, *sorted(rows), n]
        return [set(range(a, b)) for a, b in pairwise(edges)]

    best = [(len(a), max(len(a & b) / len(a | b) for b in segments(found))) for a in segments(true)]
    return sum(size * jaccard for size, jaccard in best) / n


@given(true=CHANGES, found=CHANGES)
def test_covering_is_that_of_sets(true, found):
    assert covering(true, found, 30) == pytest.approx(by_sets(true, found, 30), rel=1e-12)
    assert covering(true, true | {0}, 30) == 1.0


def test_a_change_found_serves_one_true_change():
    assert hits({10, 12}, {11}, 5) == 1
    assert hits({10, 12}, {11, 14}, 2) == 2
    assert hits({10}, {16}, 5) == 0
    assert hits({10}, {15}, 5) == 1


def test_f1_by_hand():
    # found 0, 20, 40; the union is 0, 20, 60: precision 2/3; recalls 1 and 2/3
    assert f1([[20], [20, 60]], [21, 40], 5) == pytest.approx(2 / (3 / 2 + 6 / 5))
    assert f1([[]], [], 5) == 1.0
    assert f1([[], [50]], [], 5) == pytest.approx(2 / (1 + 4 / 3))


def test_rates_by_hand():
    true = np.array([0, 0, 0, 0, 1, 1, 1, 1], dtype=bool)
    alarm = np.array([1, 0, 0, 0, 0, 1, 1, 1], dtype=bool)
    assert rates(true, alarm) == (0.75, 0.25, 0.25)
    assert rates(true, ~true & False) == (0.0, 0.0, 1.0)


def test_onsets():
    assert onsets(np.array([1, 1, 0, 1, 0, 1], dtype=bool)) == [0, 3, 5]
    assert onsets(np.zeros(0, dtype=bool)) == []


def test_window_scores_by_hand():
    window = np.zeros(200, dtype=bool)
    window[50:61] = window[150:161] = True
    perfect = window_score(window, [50, 150])
    assert perfect == (2, 2, 0, pytest.approx(2.0))
    nothing = window_score(window, [])
    assert nothing == (0, 2, 0, -2.0)
    assert nab([perfect, perfect]) == pytest.approx(100.0)
    assert nab([nothing]) == 0.0
    late = window_score(window, [10, 55, 58, 65, 149])
    shape = (1 / (1 + math.exp(-2.5)) * 2 - 1) / sigmoid(-1.0)
    costs = 0.11 * (-1 + (2 / (1 + math.exp(2.5)) - 1) - 1)
    assert late == (1, 2, 3, pytest.approx(shape - 1.0 + costs))
    assert window_score(np.zeros(9, dtype=bool), [3]) == (0, 0, 1, pytest.approx(-0.11))
