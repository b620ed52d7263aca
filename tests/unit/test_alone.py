"""Rows that come one by one go a shorter way, which changes no bit."""

import copy
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from streamddcrp import SeqDDCRP
from streamddcrp.errors import StreamDDCRPError
from streamddcrp.records import nbytes_of

N = 500
GIVEN = ("normal_gamma", 0.0, 0.05, 1.5, 1.0)
STAMPS = [datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=i) for i in range(N)]
TIMES = np.cumsum(np.random.default_rng(1).exponential(size=N)).tolist()


def rows(skewed=False):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, 2)) + 5.0 * rng.integers(0, 4, size=N)[:, None]
    if skewed:
        X[:, 0] = np.exp(X[:, 0] / 4.0)
    found = [{"b": float(b), "a": float(a)} for a, b in X]
    found[400] = {"a": 1.0, "b": None}
    return found


def answers(model, rows, times, *, shorter):
    """Return what a model says to rows and to faulty ones, and its state at the end."""

    def ask(call, *given):
        if not shorter:
            model._alone = None
        try:
            said.append(call(*given))
        except StreamDDCRPError as error:
            said.append(str(error))

    said = []
    for i, (row, t) in enumerate(zip(rows, times, strict=True)):
        if i % 3 != 1:
            ask(model.predict_one, row, t)
            ask(model.score_one, row, t)
        if i % 5 == 0:
            ask(model.predict_proba_one, row, t)
        if i == 450:
            for a in (float("inf"), float("nan"), 2e100, "x"):
                ask(model.learn_one, {"a": a, "b": 1.0}, t)
            ask(model.learn_one, {"c": 1.0}, t)
            ask(model.score_one, {"a": 5e99, "b": -5e99}, t)
            ask(model.learn_one, row, 5.0 if t is None else None)
            ask(model.learn_one, row, times[3] if t is not None else "x")
        ask(model.learn_one, row, t)
    return repr(said), model.to_bytes()


@pytest.mark.parametrize(
    ("options", "skewed", "times"),
    [
        ({}, False, [None] * N),
        ({}, True, [None] * N),
        ({"likelihood": GIVEN, "max_tables": 3}, False, [None] * N),
        ({"season": None}, False, TIMES),
        ({}, False, STAMPS),
    ],
)
def test_it_gives_the_bits_of_the_longer_way(options, skewed, times):
    short = answers(SeqDDCRP(**options), rows(skewed), times, shorter=True)
    assert short == answers(SeqDDCRP(**options), rows(skewed), times, shorter=False)


def test_usual_rows_go_it():
    model = SeqDDCRP(likelihood=GIVEN)
    for row in rows()[:3]:
        model.learn_one(row)
    assert model._alone is not None


def test_new_words_widen_it():
    words = [{"a": i % 3, "b": i % 2, "c": 1} for i in range(40)]
    words = [dict(list(row.items())[: 1 + i // 15]) for i, row in enumerate(words)]
    options = {"likelihood": ("dirichlet_multinomial", 0.5)}
    short = answers(SeqDDCRP(**options), words, [None] * 40, shorter=True)
    assert short == answers(SeqDDCRP(**options), words, [None] * 40, shorter=False)


def test_rows_alone_among_batches_that_move_the_state():
    """Room for more tables is made while copies are made and batches come between."""
    rng, likelihood = np.random.default_rng(0), ("normal_gamma", 0.0, 1e-4, 5.0, 2.0)
    X = rng.normal(100.0 * (rng.permutation(60) % 30 - 15)[:, None], 1.0, (60, 2))
    found = [{"a": float(a), "b": float(b)} for a, b in X]
    options = {"likelihood": likelihood, "alpha": 1.0, "gamma": 50.0, "learn_prior": False}
    one, many = (SeqDDCRP(**options) for _ in range(2))
    for i in range(0, 60, 3):
        one.predict_one(found[i])
        one.learn_one(found[i])
        copied = copy.deepcopy(one)
        if i % 2:
            one, copied = copied, one
        other = copied.to_bytes()
        one.step_many(pa.table({"a": X[i + 1 : i + 3, 0], "b": X[i + 1 : i + 3, 1]}))
        assert copied.to_bytes() == other
        assert one._stream.nbytes == nbytes_of(one._stream.state)
        copied.learn_one(found[i + 1])
        copied.learn_one(found[i + 2])
        assert copied.to_bytes() == one.to_bytes()
    many.learn_many(pa.table({"a": X[:, 0], "b": X[:, 1]}))
    assert one.to_bytes() == many.to_bytes()
    assert len(one._stream.state.table.ids) == 32  # at first 16
