"""Unkind streams for every model: no NaN, no negative variance, flat memory, no slow row."""

from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from streamddcrp import (
    Alarm,
    DDCRPSampler,
    EmbeddingStream,
    GraphCRP,
    GroupDP,
    Keyed,
    LinkLanguageModel,
    NestedCRPComponents,
    NestedCRPTopics,
    Reference,
    RegimeAnomalyDetector,
    Seasonal,
    SeqDDCRP,
    TemporalDPM,
    TextStream,
    TimeVaryingIBP,
    WindowFeatures,
)
from tests.conformance.kinds import features_of, judge, surprise
from tests.conformance.streams import Stream
from tests.fuzz.unkind import GAPS, ROW, ROWS, TEXTS, assert_sane, assert_summary, batch_of, slowest


def reference():
    """Return what a model keeps of ordinary rows."""
    model = SeqDDCRP(warmup=64)
    model.learn_many(batch_of(np.random.default_rng(1).normal(size=(200, 3))))
    return model.reference()


GRAPH = partial(GraphCRP, window=20, n_particles=10)
NUMBERS = {  # class: how it is made, whether values may be missing, rows of the slow test
    "SeqDDCRP": (partial(SeqDDCRP, warmup=64), True, 100_000),
    "SeqDDCRP, season": (partial(SeqDDCRP, warmup=64, season=9), True, 50_000),
    "DDCRPSampler": (DDCRPSampler, True, 50_000),
    "GraphCRP": (GRAPH, True, 50_000),
    "GraphCRP, discount": (partial(GRAPH, alpha=1.0, discount=0.3), True, 50_000),
    "GraphCRP, three": (partial(GRAPH, alpha=1.0, n_clusters=3), True, 50_000),
    "GraphCRP, three in all": (
        partial(GRAPH, alpha=1.0, n_clusters=3, whole_graph=True),
        True,
        50_000,
    ),
    "GroupDP": (partial(GroupDP, n_shared=5, n_particles=10), True, 50_000),
    "GroupDP, chain": (partial(GroupDP, n_shared=5, n_particles=10, markov=True), True, 50_000),
    "TimeVaryingIBP": (partial(TimeVaryingIBP, n_particles=20, moves=5, missing=True), True, 5_000),
    "EmbeddingStream": (partial(EmbeddingStream, lag=50), False, 100_000),
    "TemporalDPM": (partial(TemporalDPM, epoch=("rows", 50)), True, 50_000),
    "NestedCRPComponents": (partial(NestedCRPComponents, warmup=40), False, 20_000),
    "RegimeAnomalyDetector": (lambda: RegimeAnomalyDetector(SeqDDCRP(warmup=64)), True, 50_000),
    "Reference": (reference, True, 100_000),
    "Alarm": (partial(Alarm, 0.02, 4), False, 100_000),
    "Keyed": (partial(Keyed, SeqDDCRP(warmup=64), by="key"), True, 20_000),
    "Seasonal": (partial(Seasonal, period=9), True, 100_000),
    "WindowFeatures": (WindowFeatures, False, 100_000),
}
WORDS = {
    "TextStream": (partial(TextStream, lag=50), 20_000),
    "TemporalDPM": (partial(TemporalDPM, epoch=("rows", 100)), 5_000),
    "NestedCRPTopics": (partial(NestedCRPTopics, window=60, max_nodes=64), 3_000),
    "LinkLanguageModel": (partial(LinkLanguageModel, base_measure=100_000), 20_000),
}
STEPS = {  # how a batch and a row are learned, where not by `step_many` and `learn_one`
    "Reference": (lambda model, X: surprise(model, Stream(X)), Reference.score_one),
    "Alarm": (
        lambda alarm, X: judge(alarm, Stream(X["c0"])), lambda alarm, x: alarm.step_many([x["c0"]])
    ),
    "WindowFeatures": (lambda model, X: features_of(model, Stream(X)), WindowFeatures.learn_one),
    "LinkLanguageModel": (
        lambda model, texts: model.step_many(" ".join(texts)), LinkLanguageModel.learn_many
    ),
}  # fmt: skip
BY_STEP = {"TemporalDPM", "NestedCRPComponents"}
WAIT = 300  # rows after which no model waits any more


def steps_of(name, model):
    """Return how a batch and a row are learned."""
    kind = type(model)
    return STEPS.get(name) or (kind.step_many, kind.learn_one)


def follow(model, step, make_rows, n, pieces, more):
    """Let a model learn rows in pieces; check what it says; return its sizes on the way."""
    sizes = []
    for rows in np.array_split(np.arange(n), pieces):
        batch = make_rows(rows)
        side = {name: values[rows].tolist() for name, values in more.items()}
        out = step(model, batch, **side)
        assert_sane(out, max(0, WAIT - int(rows[0])))
        sizes.append(len(model.to_bytes()))
    if hasattr(model, "summary"):
        assert_summary(model.summary())
    if hasattr(model, "events"):
        model.events()
    type(model).from_bytes(model.to_bytes())
    return sizes


def numbers(name, kind, n, pieces):
    make, _, _ = NUMBERS[name]
    rng = np.random.default_rng(0)
    X = (ROWS | GAPS)[kind](rng, n)
    if kind == "one missing":
        X[0, 1] = 0.0
    names = np.array(["a", "b"])[np.arange(n) % 2]
    more = {"group": names} if name == "GroupDP" else {}
    model = make()

    def make_rows(rows):
        batch = batch_of(X[rows])
        return batch.append_column("key", pa.array(names[rows])) if name == "Keyed" else batch

    step, learn = steps_of(name, model)
    sizes = follow(model, step, make_rows, n, pieces, more)
    learn = partial(learn, model, **({"group": "a"} if more else {}))
    table = make_rows(np.arange(n)[-100:]).to_pylist()
    assert slowest(learn, table, by_step=name in BY_STEP) < ROW
    return sizes


def texts(name, kind, n, pieces):
    model = WORDS[name][0]()
    rows = TEXTS[kind](np.random.default_rng(0), n)
    step, learn = steps_of(name, model)
    sizes = follow(model, step, lambda some: [rows[i] for i in some], n, pieces, {})
    assert slowest(partial(learn, model), rows[-100:], by_step=name in BY_STEP) < ROW
    return sizes


def kinds_for(name):
    return [*ROWS, *(GAPS if NUMBERS[name][1] else ())]


@pytest.mark.parametrize("name", NUMBERS)
def test_unkind_rows(name):
    for kind in kinds_for(name):
        try:
            numbers(name, kind, 400, 3)
        except Exception as error:
            error.add_note(f"kind: {kind}")
            raise


@pytest.mark.parametrize("name", WORDS)
def test_unkind_texts(name):
    for kind in TEXTS:
        try:
            texts(name, kind, 300, 3)
        except Exception as error:
            error.add_note(f"kind: {kind}")
            raise


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), [(n, k) for n in NUMBERS for k in kinds_for(n)])
def test_long_streams_of_unkind_rows(name, kind):
    sizes = numbers(name, kind, NUMBERS[name][2], 20)
    # rooms are powers of two; the rest is in use, and that is bounded
    assert max(sizes[10:]) <= 2.0 * max(sizes[2:10]) + 50_000


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), [(n, k) for n in WORDS for k in TEXTS])
def test_long_streams_of_unkind_texts(name, kind):
    sizes = texts(name, kind, WORDS[name][1], 20)
    if kind not in ("all new", "one new") or name == "TextStream":  # topics keep their words
        assert max(sizes[10:]) <= 2.0 * max(sizes[2:10]) + 200_000
