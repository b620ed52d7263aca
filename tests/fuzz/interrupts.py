"""``python -m tests.fuzz.interrupts``: Ctrl-C, and memory that runs out, while a model learns.

Each trial has a process of its own, in which a model learns a batch. A signal comes at a moment of
the clock; or numpy gets no memory for an array, and for none after it. Afterwards the model must be
as after the first rows of the batch, some or none of them, must be one that can be stored and
loaded, and must end as one that was left alone when it learns the rest. Ends with 1 where it does
not.
"""

import argparse
import collections
import ctypes
import signal
import sys
import time
import traceback
import warnings
from contextlib import contextmanager
from functools import cache, partial

import click
import numpy as np
from numba import cfunc
from numpy._core import _multiarray_umath

from tests.conformance.cases import CASES
from tests.conformance.laws import restored
from tests.fuzz.run import in_child

LIMIT = 120.0  # seconds after which a trial hangs
SET_HANDLER, HANDLER = 304, b"mem_handler"  # of numpy's table of functions
KEPT = []


@contextmanager
def alarm_after(seconds):
    """Raise KeyboardInterrupt in the main thread, as Ctrl-C does."""

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


class Allocator(ctypes.Structure):
    """What numpy asks for the memory of arrays (PyDataMem_Handler)."""

    _fields_ = (
        ("name", ctypes.c_char * 127), ("version", ctypes.c_uint8),
        *((name, ctypes.c_void_p) for name in ("count", "malloc", "calloc", "realloc", "free")),
    )  # fmt: skip


def of_c(name, n):
    """Return a function of C that takes and returns n numbers."""
    function = getattr(ctypes.CDLL(None), name)
    function.argtypes, function.restype = [ctypes.c_size_t] * n, ctypes.c_size_t
    return function


@cache
def allocator():
    """Return malloc, calloc, realloc and free that count their calls, and refuse after a limit."""
    malloc, calloc, realloc, free = map(of_c, ("malloc", "calloc", "realloc", "free"), (1, 2, 2, 1))

    def take(count, n):
        count[0] += 1
        return malloc(n) if count[0] <= count[1] else 0

    def take_clear(count, n, size):
        count[0] += 1
        return calloc(n, size) if count[0] <= count[1] else 0

    def move(count, at, n):
        count[0] += 1
        return realloc(at, n) if count[0] <= count[1] else 0

    def give(count, at, n):
        free(at)
        return 0

    of = ("", ", uintp", ", uintp", ", uintp")
    return [
        cfunc(f"uintp(CPointer(uintp), uintp{more})")(function)
        for function, more in zip((take, take_clear, move, give), of, strict=True)
    ]


@contextmanager
def arrays(most):
    """Count the arrays that are made, and refuse memory after a limit."""
    count = (ctypes.c_size_t * 2)(0, most)
    own = Allocator(
        b"counting", 1, ctypes.addressof(count), *(one.address for one in allocator()),
    )  # fmt: skip
    KEPT.append((own, count))  # arrays outlive this
    python = ctypes.pythonapi
    python.PyCapsule_New.restype = ctypes.py_object
    python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    table = python.PyCapsule_GetPointer(_multiarray_umath._ARRAY_API, None)
    at = ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))[SET_HANDLER]
    use = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(at)
    before = use(python.PyCapsule_New(ctypes.addressof(own), HANDLER, None))
    try:
        yield count
    finally:
        use(before)


def assert_prefix(case, stream, model, whole):
    """The model is as after some first rows; it can be stored, and end as ``whole`` did."""
    n = getattr(model, "n_seen", None)
    firsts = [n] if n is not None else [0, len(stream)]
    unlike = {n: case.differences(restored(model), prefix(case, stream, n)) for n in firsts}
    kept = [n for n in firsts if not unlike[n]]
    assert kept, f"not as after the first rows: {unlike}"
    if kept[0] < len(stream):
        case.step(model, stream[kept[0] :])
    assert case.differences(model, whole) == []


def prefix(case, stream, n):
    return case.learned(stream[:n]) if n else case.make()


def made_by(case, stream):
    """Return how many arrays learning a batch makes."""
    model = case.make()
    with arrays(sys.maxsize) as count:
        case.step(model, stream)
    return count[0]


def trial(case, stream, whole, limit):
    """Return what came of a batch under a limit, and what was wrong."""
    model, outcome = case.make(), "done"
    try:
        with limit:
            case.step(model, stream)
    except KeyboardInterrupt:
        outcome = "interrupted"
    except MemoryError:
        outcome = "out of memory"
    try:
        assert_prefix(case, stream, model, whole)
    except Exception:
        return outcome, traceback.format_exc(limit=-2)
    return outcome, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--most", type=int, default=2_200, help="trials in all")
    parser.add_argument("--memory", type=float, default=1 / 11, help="share without memory")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="beginning of the names of cases")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    rng, counts, bad, known = np.random.default_rng(given.seed), collections.Counter(), 0, []
    for case in CASES:
        if case.name.startswith(given.only):
            stream = case.some(given.seed + 4)
            case.learned(stream)  # compiles
            begun, whole = time.perf_counter(), case.learned(stream)
            took = time.perf_counter() - begun
            known.append((case, stream, whole, took, made_by(case, stream)))
    begun = time.monotonic()
    for n in range(given.most):
        if time.monotonic() - begun > 60.0 * given.minutes:
            break
        case, stream, whole, took, made = known[n % len(known)]
        if rng.random() < given.memory:
            most = int(rng.integers(made))
            kind, limit, what = "memory", arrays(most), f"{most} of {made} arrays"
        else:
            moment = took * rng.random()
            kind, limit, what = "interrupt", alarm_after(moment), f"{1e3 * moment:.2f} ms"
        found, ended = in_child(partial(trial, case, stream, whole, limit), LIMIT)
        outcome, wrong = found or (ended, ended)
        counts[kind, outcome.partition(":")[0]] += 1
        if wrong:
            bad += 1
            click.echo(f"{case.name}, trial {n}, after {what}: {outcome}: {wrong}")
    for (what, outcome), n in counts.most_common():
        click.echo(f"{what}: {outcome}: {n}")
    click.echo(f"{counts.total()} trials of {len(known)} models: {bad} left no prefix")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
