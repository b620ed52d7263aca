"""Any number of threads may use one model; what it learns is what one thread would teach it."""

import copy
import multiprocessing
import pickle
import sys
import threading

import numpy as np
import pytest

from streamddcrp import Keyed, SeqDDCRP, TextStream
from streamddcrp.cached import Cached
from tests.conformance import streams
from tests.conformance.cases import CASES

ROWS = [
    f"oil {i % 7} price{i % 11} {'cup final' if i // 40 % 2 else 'vote poll'}" for i in range(240)
]


@pytest.fixture(autouse=True)
def _switch_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def run(*jobs):
    """Run functions in threads of their own; raise what one of them raises."""
    failed = []

    def guarded(job):
        try:
            job()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(job,), daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120.0)
        assert not thread.is_alive()
    if failed:
        raise failed[0]


def learn(model, rows):
    for row in rows:
        model.learn_one(row)


def test_predicting_in_another_thread_changes_nothing():
    alone, shared, over = TextStream(lag=20), TextStream(lag=20), threading.Event()
    learn(alone, ROWS)

    def ask():
        n = 0
        while not over.is_set():
            n += 1
            shared.predict_one(f"unknown{n} oil price{n % 11}")
            shared.summary()

    def teach():
        learn(shared, ROWS)
        over.set()

    run(teach, ask)
    assert shared.final_labels() == alone.final_labels()
    assert shared.log_score == alone.log_score


def test_four_writers():
    rng = np.random.default_rng(0)
    model = SeqDDCRP(warmup=16, window=16)
    parts = [[{"a": x} for x in rng.normal(size=60)] for _ in range(4)]
    run(*(lambda part=part: learn(model, part) for part in parts))
    assert model.n_seen == 240
    assert np.isfinite(model.bound)


def test_writers_of_a_fleet():
    model = Keyed(SeqDDCRP(warmup=8, window=8), by="key")
    rng = np.random.default_rng(1)
    parts = [[{"key": k, "a": x} for x in rng.normal(size=40)] for k in "pqr"]
    run(*(lambda part=part: learn(model, part) for part in parts))
    for part, key in zip(parts, "pqr", strict=True):
        alone = SeqDDCRP(warmup=8, window=8)
        learn(alone, [{"a": row["a"]} for row in part])
        assert model.model_of(key).to_bytes() == alone.to_bytes()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_public_method_waits_for_its_turn(case):
    """A thread that holds the lock of a model keeps others out of all that is public."""
    model = case.make()
    kind = type(model)
    public = [n for n in dir(kind) if not n.startswith("_")]
    own = [n for n in public if _module(getattr(kind, n)).startswith("streamddcrp")]
    assert "step_many" in own or "score_many" in own
    for name in own:
        value = getattr(kind, name)
        assert hasattr(getattr(value, "fget", value), "_holds_the_lock"), name


def _module(value):
    value = getattr(value, "fget", value)
    bound = getattr(value, "__self__", None)  # a class method makes a model
    return "" if isinstance(bound, type) else str(getattr(value, "__module__", ""))


def test_a_copy_has_a_lock_of_its_own():
    model = SeqDDCRP(warmup=8)
    learn(model, [{"a": float(x)} for x in streams.levels(0, 20).rows[:, 0]])
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        with model._lock:
            run(lambda other=other: other.learn_one({"a": 0.0}))
        assert other.n_seen == model.n_seen + 1


def test_a_fork_does_not_wait_for_what_a_thread_works_out():
    begun, go_on = threading.Event(), threading.Event()

    class Slow:
        @Cached
        def value(self):
            if threading.current_thread() is not threading.main_thread():
                begun.set()
                go_on.wait()
            return 7

    def work_out():
        return Slow().value

    thread = threading.Thread(target=work_out)
    thread.start()
    begun.wait()
    context = multiprocessing.get_context("fork")
    child = context.Process(target=work_out, daemon=True)
    child.start()
    child.join(20.0)
    go_on.set()
    thread.join()
    assert child.exitcode == 0
