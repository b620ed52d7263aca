"""What is no row at all: refused with a sentence, whatever the model, and nothing is learned."""

from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest

from streamddcrp import DDCRPSampler, GraphCRP, GroupDP, Keyed, SeqDDCRP, TimeVaryingIBP
from streamddcrp.errors import ConfigError, SchemaError, StreamDDCRPError
from tests.conformance.cases import CASES

ONE = (None, 5, "x", [1.0], (1, 2), object(), {1.5: 2.0}, {"a": object()}, np.arange(2.0), b"x",
       {None: 1.0})  # fmt: skip
MANY = (None, 5, 3.5, "x", object(), [None], [[1.0, "a"]], {}, {"a": 1}, [[[1.0]]], [{"a": "x"}],
        np.array(["a"]), pa.table({"z": ["x"]}), [b"x"], [object()], [5], pa.table({}))  # fmt: skip
FEW = {case.kind.__name__ + str(case.stream): case for case in CASES}.values()


@pytest.mark.parametrize("case", FEW, ids=lambda case: case.name)
def test_what_is_no_row_is_refused_or_taken_but_never_a_bare_error(case):
    model, stream = case.make(), case.some(1)
    n = len(stream) // 2
    case.step(model, stream[:n])
    x_more, more = stream.one(n)[1], stream[n : n + 1].more
    asked = [(m, x, x_more) for m in ("learn_one", "predict_one", "score_one") for x in ONE]
    asked += [(m, x, more) for m in case.methods for x in MANY]
    for method, x, given in asked:
        if hasattr(model, method):
            with suppress(StreamDDCRPError):
                getattr(model, method)(x, **given)


def test_rows_that_share_no_column_are_refused():
    model = SeqDDCRP(warmup=8)
    model.learn_many(pa.table({"a": [1.0, 2.0], "b": [1.0, 2.0]}))
    before = model.to_bytes()
    for learn in (
        lambda: model.learn_one({"c": 1.0}),
        lambda: model.predict_one({"c": 1.0}),
        lambda: model.learn_many(pa.table({"c": [1.0], "d": [2.0]})),
    ):
        with pytest.raises(SchemaError, match=r"none of .'c'"):
            learn()
    assert model.to_bytes() == before
    model.learn_one({"a": 1.0, "c": 1.0})
    model.learn_one({})  # all missing


def test_a_batch_that_lacks_columns_says_so_each_time(caplog):
    model = SeqDDCRP(warmup=8)
    model.learn_many(pa.table({"a": [1.0, 2.0], "b": [1.0, 2.0]}))
    for _ in range(2):
        caplog.clear()
        model.learn_many(pa.table({"a": [1.0]}))
        assert [r.message for r in caplog.records if "no column ('b')" in r.message]


@pytest.mark.parametrize("x", [None, [1.0], "x", 5])
def test_the_message_says_what_was_expected_and_what_came(x):
    for model in (SeqDDCRP(), Keyed(SeqDDCRP(), by="k")):
        with pytest.raises(SchemaError, match=f"row: expected a mapping.*got {type(x).__name__}"):
            model.learn_one(x)


def test_options_that_would_fill_the_memory_are_refused():
    for make in (
        lambda: SeqDDCRP(window=100_000_000),
        lambda: SeqDDCRP(sweep_every=100_000_000),
        lambda: SeqDDCRP(max_tables=10**9),
        lambda: DDCRPSampler(n_particles=10**9),
        lambda: TimeVaryingIBP(n_particles=10**9),
        lambda: TimeVaryingIBP(n_particles=1 << 16, window=100_000),
        lambda: GraphCRP(n_particles=1 << 16, window=1 << 15),
        lambda: GraphCRP(n_particles=1000, rejuvenate=1, moves=1 << 16),
        lambda: GroupDP(n_particles=1000, n_shared=1 << 16),
    ):
        with pytest.raises(ConfigError, match="whole number from"):
            make()
