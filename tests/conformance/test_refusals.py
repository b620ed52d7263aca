"""What is refused changes nothing, and the error says where it is."""

import math
from datetime import datetime, timedelta

import pytest

from streamddcrp.errors import OrderError, SchemaError
from tests.conformance.laws import equal_outputs, law, unscored

DAY = timedelta(days=1)


def refused(case, model, stream, error, match, row=None, *, methods=None):
    """A batch is refused by every method, which says where, and changes nothing."""
    before = model.to_bytes()
    for method in methods or case.methods:
        with pytest.raises(error, match=match) as caught:
            getattr(model, method)(stream.rows, **stream.more)
        wanted = len(stream) + row if isinstance(row, int) and row < 0 else row
        assert row is ... or caught.value.row == wanted
        assert model.to_bytes() == before


@law(where=lambda case: case.refused)
@pytest.mark.parametrize("cut", [0, 5, 35, 40])
def test_a_refused_batch_changes_nothing(case, cut):
    stream = case.some(6)
    cut = min(cut, len(stream) - 8)
    model = case.learned(stream[:cut])
    for refusal in case.refused:
        if cut or not refusal.begun:
            bad = refusal.spoil(stream[cut:])
            refused(case, model, bad, SchemaError, refusal.match, refusal.row)
    good, twin = stream[cut : cut + 5], case.learned(stream[:cut])
    assert equal_outputs(case, [case.step(model, good)], case.step(twin, good))


@law(where=lambda case: case.odd)
def test_a_refused_row_changes_nothing(case):
    stream = case.some(6)
    model = case.learned(stream[:8])
    before = model.to_bytes()
    _, more = stream.one(8)
    for x, match in case.odd:
        with pytest.raises(SchemaError, match=match):
            case.learn_one(model, x, more)
        assert model.to_bytes() == before


@law(where=lambda case: case.times != "none")
@pytest.mark.parametrize("cut", [0, 5, 40])
def test_times_that_cannot_be_are_refused(case, cut):
    stream = case.stream(7)
    cut = min(cut, len(stream) - 8)
    model, rest = case.learned(stream[:cut]), stream[cut : cut + 5]
    first = rest.t[0]

    def at(*t):
        return type(rest)(rest.rows, list(t), rest.side)

    later = [first + 10.0 * i for i in range(5)]
    for value in (math.nan, math.inf, None, "noon", True):
        refused(case, model, at(*later[:3], value, later[4]), SchemaError, "row 3", 3)
    refused(case, model, at(*later[:4]), SchemaError, "one time a row, 5 in all")
    if case.ordered:
        refused(case, model, at(first, later[1], first, *later[3:]), OrderError, "row 2", 2)
    if cut:
        refused(case, model, rest.untimed, SchemaError, "with times")
        x, more = stream.one(cut)
        before = model.to_bytes()
        predicts = case.can("dated") and not unscored(case.look(model, x, more))
        for call in (case.learn_one, *[case.look] * predicts) if case.ordered else ():
            with pytest.raises(OrderError):
                call(model, x, more | {"t": stream.t[cut - 1] - 1000.0})
        with pytest.raises(SchemaError, match="with times"):
            case.learn_one(model, x, {name: part for name, part in more.items() if name != "t"})
        assert model.to_bytes() == before


@law(where=lambda case: case.times != "none" and case.ordered)
def test_time_stamps_that_fall_are_shown_as_such(case):
    rest = case.stream(7)[:3]
    noon = datetime(2026, 1, 1, 12)
    fallen = type(rest)(rest.rows, [noon, noon + 2 * DAY, noon + DAY], rest.side)
    shown = r"time 2026-01-02 12:00:00 UTC is (late|before 2026-01-03 12:00:00 UTC)"
    refused(case, case.make(), fallen, OrderError, shown, 2)


@law(where=lambda case: case.times == "optional")
def test_times_do_not_come_later(case):
    stream = case.stream(7)
    model = case.learned(stream[:40].untimed)
    before = model.to_bytes()
    refused(case, model, stream[40:45], SchemaError, "without times")
    for call in (case.learn_one, *[case.look] * case.can("dated")):
        with pytest.raises(SchemaError, match="without times"):
            call(model, *stream.one(40))
    assert model.to_bytes() == before
