"""Kernels read and write arrays as numpy does, count references, and take few instructions."""

import os
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit, typeof
from numba.core.codegen import JITCodeLibrary

from streamddcrp.compilation import kernel, uncounted

compiled = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
needs_code = pytest.mark.skipif(not compiled, reason="nothing is compiled")
MADE = (kernel, uncounted)
FLAT, SQUARE = np.arange(7.0), np.arange(12).reshape(3, 4)
CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


class Given(NamedTuple):
    x: np.ndarray
    n: int


def item(a, i):
    return a[i]


def unsigned(a, i):
    return a[np.uint64(i)]


def constants(a, i):
    return a[1] + a[-2] * a[i]


def pair(a, i, j):
    return a[i, j] + 100 * a[-1, j] + 10000 * a[i, 0]


def kept_pair(a, i, j):
    k = (i, j)
    i = 0
    return a[k] + (1000 if a[k] > i else 0)


def chained(a, i, j):
    return a[i][j]


def row_sum(a, i):
    row, total = a[i], 0
    for j in range(len(row)):
        total = total * 3 + row[j]
    return total + row.shape[0]


def deep(a, i, j):
    total = a[i, j, 1] - a[i, -1][j]
    for part in range(1, a.shape[0]):
        for k in range(part, 3):
            total += a[part, j][k] * k
    return total


def chosen(a, b, which, i):
    c = a
    if which:
        c = b
    for _ in range(2):
        c, b = b, c
    return c[i]


def downwards(a, n):
    total = 0
    for i in range(n, -n, -1):
        total = total * 2 + a[i]
    for i in range(-n, 0):
        total = total * 2 + a[i]
    return total


def counted(n, m, step):
    """What loops over ranges go through: up, down, in steps known or not, one in the other."""
    total, last = 0, -7
    for i in range(n):
        for j in range(i, m):
            if j == 3:
                continue
            total = total * 3 + j
            if total > 10**9:
                break
        last = i
    for i in range(n, -m, -3):
        total = (total * 2 + i) % 1_000_003
    for i in range(-n, m, 2):
        total = (total * 2 + i) % 1_000_003
    for i in range(n, m, step):
        total = (total * 2 + i) % 1_000_003
    span = range(n, m)
    for i in span:
        total = (total + len(span) * i) % 1_000_003
    for i in range(np.uint64(1), np.uint64(abs(m))):
        total += int(i)
    return total, last


def part_sums(a, i, j):
    """Parts of an array between two places."""
    total = 0.0
    for part in (a[i:j], a[:j], a[i:], a[:], a[1:-1], a[-3:2], a[np.uint8(1) :]):
        total = total * 3 + len(part)
        for x in part:
            total = total * 2 + x
    return total


def row_parts(a, i, j):
    """Parts of rows, and rows between two places."""
    total, kept = 0.0, (1, slice(i, j))
    for part in (a[1, i:j], a[-1, 1:], a[i:j][0] if len(a[i:j]) > 0 else a[0], a[kept]):
        for x in part:
            total = total * 2 + x
    return total + a[i:j].shape[0] + a[i:j].shape[1] + a[i:j].size


def whole_ways(a, i, j):
    """Whole numbers of floats and truths, smaller and larger ones of two and of three."""
    x = float(i) / 2
    return (
        int(x) + int(-x) + int(i > j) + min(i, j) + 2 * max(i, j) + min(x, j) + max(x, float("nan"))
        if i > 0
        else max(float("nan"), x)
        if i < -5
        else min(i, j, 2) + max(np.int32(i), j) + len(a)
    )


READS = [
    *[(counted, (n, m, s)) for n, m, s in ((5, 6, 2), (-3, 4, 1), (4, -4, -2), (0, 0, 5))],
    *[
        (part_sums, (a, i, j))
        for a in (FLAT, FLAT[::2], FLAT[:0])
        for i, j in ((2, 5), (-3, 100), (5, 2), (-100, -1), (7, 7))
    ],
    *[
        (row_parts, (a, i, j))
        for a in (SQUARE, SQUARE.T, SQUARE[:, 1:])
        for i, j in ((0, 2), (1, -1), (-2, 9))
    ],
    *[(whole_ways, (FLAT, i, j)) for i, j in ((3, 4), (-2, 1), (-1, 9), (0, 0))],
    *[(item, (FLAT, i)) for i in (0, 6, -1, -7)],
    *[(item, (FLAT, kind(3))) for kind in (np.int8, np.uint8, np.int32, np.uint64)],
    (item, (FLAT, np.int8(-3))),
    (item, (np.array([True, False]), -1)),
    (item, (np.array([1 + 2j, 3j]), -2)),
    (item, (np.arange(4, dtype=np.uint8), -2)),
    (item, (FLAT[::2], -1)),
    (item, (FLAT[::-1], 1)),
    (unsigned, (FLAT, 4)),
    (constants, (FLAT, 2)),
    *[(pair, (SQUARE, i, j)) for i, j in ((1, 2), (-1, -4), (-3, 3))],
    (pair, (SQUARE.T, 1, 2)),
    (pair, (np.asfortranarray(SQUARE), -2, 2)),
    (pair, (SQUARE[:, 1:], 1, -2)),
    (kept_pair, (SQUARE, 2, -2)),
    (chained, (SQUARE, -2, -3)),
    (chained, (SQUARE.T, -2, 1)),
    (row_sum, (SQUARE, -1)),
    (row_sum, (SQUARE[:, ::2], 1)),
    (row_sum, (np.zeros((3, 0), np.int64), 1)),
    (deep, (CUBE, 1, 2)),
    (deep, (CUBE[:, :, :3], -1, 0)),
    (chosen, (FLAT, FLAT + 10, True, -2)),
    (chosen, (FLAT, FLAT + 10, False, 1)),
    (downwards, (FLAT, 5)),
]


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize(("function", "given"), READS)
def test_reading(made, function, given):
    assert made(function)(*given) == function(*given)
    for array in (a for a in given if isinstance(a, np.ndarray)):
        array.flags.writeable, before = False, array.flags.writeable
        try:
            assert made(function)(*given) == function(*given)
        finally:
            array.flags.writeable = before


def write(a, i, value):
    a[i] = value
    a[-1] = a[i]
    a[0] += 1


def write_pair(a, i, value):
    a[i, 1] = value
    a[-1, i] = a[i][1]
    a[0][i] -= 2
    a[i, i] *= 3


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64, np.int32, np.uint8])
@pytest.mark.parametrize("value", [5, 2.75, True])
@pytest.mark.parametrize("i", [1, -2, np.uint8(1)])
def test_writing(made, kind, value, i):
    for function, shape in (write, 5), (write_pair, (3, 3)):
        for step in 1, 2:  # contiguous, and not
            ours, numpys = (np.full(shape, 7, kind).repeat(2, -1)[..., ::step] for _ in range(2))
            made(function)(ours, i, value)
            function(numpys, i, value)
            np.testing.assert_array_equal(ours, numpys)


def fill(a, i, value):
    a[i : i + 2] = value
    a[-1:] = value
    a[:i] = 2
    a[5:1] = 9


def fill_rows(a, i, value):
    a[i] = value
    a[i, 1:] = 4
    a[0:1] = value
    a[-1, :i] = value


def fill_all(a, i, value):
    a[:] = value
    a[i, ...] = i


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("kind", [np.float64, np.int32])
@pytest.mark.parametrize("value", [5, 2.75, True])
@pytest.mark.parametrize("i", [1, -2])
def test_filling(made, kind, value, i):
    for function, shape in (fill, 5), (fill_rows, (3, 3)), (fill_all, (2, 3)):
        for step in 1, 2:
            ours, numpys = (np.full(shape, 7, kind).repeat(2, -1)[..., ::step] for _ in range(2))
            made(function)(ours, i, value)
            function(numpys, i, value)
            np.testing.assert_array_equal(ours, numpys)


@kernel
def _checked(x, n):
    if n < 0:
        raise ValueError("below zero")  # noqa: EM101
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


@pytest.mark.parametrize("made", MADE[:1])
def test_rows_of_groups(made):
    ours, numpys = SQUARE.copy(), SQUARE.copy()
    made(write_rows)(Given(ours, 3), 1)
    write_rows(Given(numpys, 3), 1)
    np.testing.assert_array_equal(ours, numpys)


def swap(records, i, j):
    first = records[i]
    records[i].n, records[j].n = records[j].n, first.n
    records[-1] = records[j]


@pytest.mark.parametrize("made", MADE)
def test_records(made):
    kind = np.dtype([("n", np.int64), ("x", np.float64)])
    given = np.array([(1, 0.5), (2, 1.5), (3, 2.5)], kind)
    made(swap)(given, 0, -2)
    assert given["n"].tolist() == [2, 1, 1]
    assert given["x"].tolist() == [0.5, 1.5, 1.5]


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


def guarded(a, i):
    total = 0.0
    try:
        total = a[i]
        if total > 3.0:
            raise ValueError
        total = a[i + 1]
    except Exception:
        total += a[-1]
    return total


@pytest.mark.parametrize("i", [0, 5])
def test_exceptions(i):
    assert kernel(guarded)(FLAT, i) == guarded(FLAT, i)


@needs_code
@pytest.mark.parametrize("function", ["item", "chained", "write"])
def test_bounds_are_checked_where_numba_is_asked_to(function, tmp_path):
    given = {"item": "FLAT, 7", "chained": "SQUARE, 0, 4", "write": "FLAT, 7, 1.0"}[function]
    program = (
        f"from tests.unit.test_lowering import *; from tests.unit.test_lowering import {function}\n"
        f"for made in MADE:\n    try:\n        made({function})({given})\n"
        f"    except IndexError: print('refused')"
    )
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["refused"] * 2


def lowered(monkeypatch, made, given):
    """Return what numba hands to LLVM."""
    codes, usual = [], JITCodeLibrary.add_ir_module

    def add(library, module):
        codes.append(str(module))
        usual(library, module)

    monkeypatch.setattr(JITCodeLibrary, "add_ir_module", add)
    made.compile(tuple(map(typeof, given)))
    monkeypatch.undo()
    return "".join(codes)


@needs_code
@pytest.mark.parametrize("function", [pair, chained, row_sum, part_sums, counted])
def test_fewer_instructions_than_numba(function, monkeypatch):
    """Before LLVM optimises; no reference is counted to what the caller holds."""
    given = (SQUARE, 1, 2)[: function.__code__.co_argcount]
    given = {part_sums: (FLAT, 1, 2), counted: (3, 4, 1)}.get(function, given)
    theirs = lowered(
        monkeypatch, njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)(function), given
    )
    ours = lowered(monkeypatch, kernel(function), given)
    assert "NRT_incref(" not in ours
    assert ours.count("\n") < 0.7 * theirs.count("\n")


@needs_code
def test_no_look_for_the_end_where_a_loop_counts_up(monkeypatch):
    def up(a, n):
        total = 0.0
        for i in range(1, n):
            total += a[i]
        return total

    def down(a, n):
        total = 0.0
        for i in range(n, 0, -1):
            total += a[i]
        return total

    found = [lowered(monkeypatch, uncounted(f), (FLAT, 5)).count(" select ") for f in (up, down)]
    assert found[0] + 1 == found[1]
