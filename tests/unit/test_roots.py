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


@kernel
def _items(cube, bits, i, j):
    """Read and write at whole numbers of several kinds, from either end, alone and in rows."""
    square, small = cube[i], np.int8(j)
    row = square[small]
    total = row[np.uint8(1)] + cube[i, j, -1] + cube[i, small][0] + len(row) + square.size
    total += cube[0:2][i, j][0] + row.sum() + square[:, 0].sum() + row.strides[0] + square.nbytes
    cube[i, j, 0] = i
    cube[i, j][1] = True
    bits[i] = total > 0
    bits[-1] = bits[j]
    return total, square, bits[0]


@kernel
def _loops(x, n, step):
    """Ranges of one, two and three numbers, empty, left early, in each other, by name."""
    found = 0
    for i in range(n):
        for j in range(-1, i):
            if j == n - 2:
                break
            found = found * 3 + i * x[j] + 1
    for i in range(n, 0, step):
        found += i
    again = range(2, n)
    for k in 0, 1:
        for i in again:
            found = found * 2 + i + k
    for i in range(np.int32(n)):
        found += i * len(range(i))
    for i, item in enumerate(x):
        found -= i * item
    return found


@pytest.mark.parametrize(("i", "j"), [(0, 0), (1, 2), (-1, -3), (-2, 1)])
def test_items(i, j):
    ours, numpys = ((np.arange(24.0).reshape(2, 3, 4), np.zeros(3, bool)) for _ in range(2))
    found = _items(*ours, i, j)
    wanted = getattr(_items, "py_func", _items)(*numpys, i, j)
    assert found[0] == wanted[0]
    assert found[2] == wanted[2]
    assert np.shares_memory(found[1], ours[0])
    assert found[1].tolist() == wanted[1].tolist()
    for a, b in zip(ours, numpys, strict=True):
        assert a.tolist() == b.tolist()


@pytest.mark.parametrize("n", [-3, 0, 1, 2, 7])
@pytest.mark.parametrize("step", [-1, -2, 3])
def test_loops(n, step):
    x = np.arange(10)
    assert _loops(x, n, step) == getattr(_loops, "py_func", _loops)(x, n, step)


@needs_code
def test_a_step_of_nought_is_refused():
    with pytest.raises(ValueError, match="must not be zero"):
        _loops(np.arange(10), 3, 0)
