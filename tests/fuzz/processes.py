"""``python -m tests.fuzz.processes``: joblib, and forks while other threads learn.

A model of each class learns a stream in workers of joblib, of processes, of forks and of threads;
and in processes that are forked while threads of this one are in the middle of learning. What it
says and its state must be those of a model that learned alone. Ends with 1 where they are not.
"""

import argparse
import sys
import threading
import time
import warnings
from functools import partial

import click
import joblib

from tests.conformance.cases import CASES
from tests.conformance.laws import equal_outputs
from tests.fuzz.rows import one_each
from tests.fuzz.run import in_child

BACKENDS = ("loky", "multiprocessing", "threading")
LIMIT = 120.0  # seconds after which a process hangs


def learn(number):
    """Return what the case of a number says of its stream, and the state after it."""
    warnings.simplefilter("ignore")
    case = CASES[number]
    model = case.make()
    out = case.step(model, case.some(3))
    return out, model.to_bytes()


def differs(number, found, expected):
    """Whether a worker says something else; the file of a store is never the same."""
    case = CASES[number]
    kind = type(case.make())
    one, other = (kind.from_bytes(state) for _, state in (found, expected))
    return not equal_outputs(case, [found[0]], expected[0]) or bool(case.differences(one, other))


def under_load(numbers, end):
    """Yield what forks say while threads learn all the time."""
    stop = threading.Event()

    def work(number):
        while not stop.is_set():
            learn(number)

    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in numbers[:3]]
    for thread in threads:
        thread.start()
    try:
        while time.monotonic() < end:
            for number in numbers:
                yield number, in_child(partial(learn, number), LIMIT)[0]
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="for forks under load")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    numbers = [CASES.index(case) for case in one_each()]
    expected = {number: learn(number) for number in numbers}
    bad = n = 0

    def judge(what, number, found):
        nonlocal bad, n
        n += 1
        if found is None or differs(number, found, expected[number]):
            bad += 1
            click.echo(f"{what}, {CASES[number].name}: {'ended' if found is None else 'differs'}")

    for backend in BACKENDS:
        found = joblib.Parallel(n_jobs=2, backend=backend)(map(joblib.delayed(learn), numbers))
        for number, one in zip(numbers, found, strict=True):
            judge(backend, number, one)
    for number, one in under_load(numbers, time.monotonic() + 60.0 * given.minutes):
        judge("fork", number, one)
    click.echo(f"{n} models in workers and forks: {bad} differ or ended")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
