"""Births, deaths and growth of component tables."""

import numpy as np
import pytest

from streamddcrp.models.seqddcrp.kernels.table import close_component, open_component
from streamddcrp.models.seqddcrp.state import ComponentTable
from streamddcrp.records import empty, resized

LENGTHS = {"K": 4, "P": 2, "Q": 3}


def filled(n):
    table = empty(ComponentTable, LENGTHS)
    for k in range(n):
        open_component(table, k, 10 + k, 100 + k)
        table.stats[k] = table.frozen[k] = [k, 2.0 * k]
        table.post[k] = k
    return table


def test_growth_changes_no_number():
    table = filled(3)
    larger = resized(table, {**LENGTHS, "K": 9})
    assert len(larger.ids) == 9
    for new, old in zip(larger, table, strict=True):
        np.testing.assert_array_equal(new[:3], old[:3])


@pytest.mark.parametrize("m", [0, 1, 2])
def test_death_keeps_the_order_of_birth(m):
    table = filled(3)
    close_component(table, m, 3)
    left = [k for k in range(3) if k != m]
    assert table.ids[:2].tolist() == [10 + k for k in left]
    assert table.born[:2].tolist() == [100 + k for k in left]
    np.testing.assert_array_equal(table.stats[:2], [[k, 2.0 * k] for k in left])
    np.testing.assert_array_equal(table.frozen[:2], [[k, 2.0 * k] for k in left])
    np.testing.assert_array_equal(table.post[:2], [[k] * 3 for k in left])


def test_birth_is_empty_and_unseen():
    table = filled(4)
    open_component(table, 1, 50, 7)
    assert (table.ids[1], table.born[1], table.last_seen[1]) == (50, 7, -1)
    assert not table.stats[1].any()
    assert not table.frozen[1].any()
