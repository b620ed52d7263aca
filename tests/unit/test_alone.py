"""Rows that come one by one go a shorter way, which changes no bit."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from streamddcrp import SeqDDCRP
from streamddcrp.errors import StreamDDCRPError

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
            for bad in ({"a": float("inf"), "b": 1.0}, {"a": "x", "b": 1.0}, {"c": 1.0}):
                ask(model.learn_one, bad, t)
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
