"""Kernels pass on what others return and raise, and count the references that they hand out."""

import os
import sys

import numpy as np
import pytest

from streamddcrp.compilation import kernel

needs_code = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT", "0") != "0", reason="nothing is compiled"
)


@kernel
def _checked(x, n):
    if n < 0:
        raise ValueError("below zero")
    return x[:n], n / 2, (n, x)


@kernel
def _nothing(x, i):
    x[i] += 1


@kernel
def _through(x, n):
    part, half, (m, _) = _checked(x, n)
    _nothing(part, 0)
    return half + m + part[0]


@needs_code
def test_calls():
    """What a kernel gives another one, and the exception of one that is called by another."""
    x = np.arange(5.0)
    assert _through(x, 3) == 1.5 + 3 + 1.0
    assert x.tolist() == [1, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="below zero"):
        _through(x, -1)
    part, half, (n, again) = _checked(x, 2)
    assert np.shares_memory(part, x)
    assert np.shares_memory(again, x)
    assert (part.tolist(), half, n) == ([1, 1], 1.0, 2)


def write_rows(group, at):
    x = group.x
    for i in range(group.n):
        x[i, at] = x[i - 1][at] + group.x[-1, i]
        x[at] = x[i]


@kernel
def _keep(a, i, n):
    fresh = np.zeros((n, 2))
    kept = fresh[i]
    if i > 0:
        kept = a[i]
    kept[0] += 1.0
    return kept


@kernel
def _views(a, b, i):
    c = a if i > 0 else b
    row = c[i]
    again = row
    c = b
    return _keep(a, i, 3)[0] + again[0] + c[0, 0], c, again


@needs_code
def test_references_are_counted():
    """What comes back holds its array, or its owner; what was only looked at is let go."""
    a, b = np.ones((3, 2)), np.ones((3, 2))
    before = sys.getrefcount(a), sys.getrefcount(b)
    for i in 0, 1, -1, 2:
        for _ in range(10):
            _, c, row = _views(a, b, i)
            kept = _keep(a, i, 3)
        assert np.shares_memory(c, b)
        assert np.shares_memory(row, a if i > 0 else b)
        assert np.shares_memory(kept, a) == (i > 0)
        del c, row, kept
        assert (sys.getrefcount(a), sys.getrefcount(b)) == before


@needs_code
def test_rows_outlive_their_arrays():
    rows = [_keep(np.full((2, 50_000), float(i)), 1, 2) for i in range(20)]
    fresh = [_keep(np.ones((2, 2)), 0, 50_000) for _ in range(20)]
    assert [row[1] for row in rows] == list(range(20))
    assert all(row.tolist() == [1.0, 0.0] for row in fresh)
