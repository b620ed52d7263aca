"""Groups of arrays reach kernels by pointer, and mean what they mean in Python."""

import os
import sys
from typing import NamedTuple

import numpy as np
import pytest
from numba import typeof, types

from streamddcrp.array_groups import Group, grouped
from streamddcrp.compilation import entry_with, kernel, uncounted

compiled = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"


class Inner(NamedTuple):
    scale: float
    counts: np.ndarray


class Outer(NamedTuple):
    x: np.ndarray
    inner: Inner
    n: int
    shifted: bool


@uncounted
def _add(group, first, out):
    rows, columns = group.x.shape
    for i in range(first, rows):
        for j in range(columns):
            out[i] += group.inner.scale * group.x[i, j]
        group.inner.counts[i] += group.n
    return -1.0 if group.shifted else 1.0


@kernel
def _run(group, out):
    sign = _add(group, 1, out)
    return sign * _add(group, group.n, out) + group.x[0].sum()


def group(x):
    return Outer(x, Inner(0.5, np.zeros(len(x), np.int64)), 2, True)


def strided():
    return np.arange(24.0).reshape(4, 6)[:, ::2]


@pytest.mark.parametrize("x", [np.ascontiguousarray(strided()), strided(), np.zeros((4, 0))])
def test_a_kernel_reads_and_writes_the_arrays_of_a_group(x):
    """Also where an array is not contiguous, and the group goes by value."""
    given, out = group(x), np.zeros(4)
    result = _run(given, out)
    expected = 0.5 * x.sum(axis=1) * np.array([0, 1, 2, 2])
    np.testing.assert_array_equal(out, expected)  # sums of few small halves are exact
    np.testing.assert_array_equal(given.inner.counts, [0, 2, 4, 4])
    assert result == 1.0 + x[0].sum()


@pytest.mark.skipif(not compiled, reason="nothing is compiled")
def test_constants_and_short_integers_compile_a_kernel_of_groups_once():
    kind, vector = grouped(typeof(group(np.zeros((4, 3))))), types.float64[::1]
    assert isinstance(kind, Group)
    for first in types.literal(1), types.int64, types.int32:
        _add.get_call_template((kind, first, vector), {})
    assert len([s for s in _add.signatures if s[0] == kind]) == 1


class Flat(NamedTuple):
    shifted: bool
    x: np.ndarray
    still: bool
    counts: np.ndarray
    scale: float
    n: int


@kernel
def _sum(flat, more, out):
    flat.counts[0] += flat.n
    sign = -1.0 if flat.shifted and not flat.still else 1.0
    out[0] = sign * flat.scale * flat.x[1].sum() + more.x[0, 0]
    return flat.x.shape[1]


@pytest.mark.skipif(not compiled, reason="nothing is compiled")
def test_a_kernel_may_be_given_descriptions_of_groups():
    """They stand for the arrays, as these change, and for numbers as they were."""
    x = np.arange(12.0).reshape(4, 3)
    flat = Flat(True, x, False, np.zeros(1, np.int64), 0.5, 3)
    more, out, other = flat._replace(x=np.ones((1, 1))), np.zeros(1), np.zeros(1)
    assert entry_with(_sum, flat, more) is None  # nothing is compiled yet
    _sum(flat, more, out)
    run = entry_with(_sum, flat, more)
    x += 1.0
    for _ in range(3):
        assert run(other) == 3
    assert flat.counts[0] == 12
    _sum(flat, more, out)
    np.testing.assert_array_equal(out, other)
    np.testing.assert_array_equal(out, -0.5 * x[1].sum() + 1.0)


@pytest.mark.skipif(not compiled, reason="nothing is compiled")
def test_the_caller_keeps_its_arrays():
    """The kernel borrows the arrays of a group: it neither keeps nor releases them."""
    x = np.ones((4, 3))
    given = group(x)
    before = sys.getrefcount(x)
    for _ in range(5):
        _run(given, np.zeros(4))
    assert sys.getrefcount(x) == before


@pytest.mark.skipif(not compiled, reason="kernels are not compiled")
def test_arrays_that_cannot_be_written_need_no_kernel_of_their_own():
    """Those of Arrow, of files in memory and of pandas, in a group or not."""
    x = np.arange(12.0).reshape(4, 3)
    outs = [np.zeros(4), np.zeros(4)]
    _run(group(x), outs[0])
    n = len(_run.root.overloads)
    x.flags.writeable = False
    _run(group(x), outs[1])
    assert len(_run.root.overloads) == n
    np.testing.assert_array_equal(*outs)


@kernel
def _write_rows(group, at):
    x = group.x
    for i in range(group.n):
        x[i, at] = x[i - 1][at] + group.x[-1, i]
        x[at] = x[i]


def test_rows_of_an_array_in_a_group_are_places_in_it():
    ours, numpys = (group(np.arange(12.0).reshape(3, 4)) for _ in range(2))
    _write_rows(ours, 1)
    getattr(_write_rows, "py_func", _write_rows)(numpys, 1)
    np.testing.assert_array_equal(ours.x, numpys.x)
