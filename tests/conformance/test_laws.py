"""What every model promises, each law once for all cases."""

import copy
import math
import pickle
import time
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamddcrp
from streamddcrp import Keyed, Seasonal, SeqDDCRP
from streamddcrp.data.batches import batch_times
from streamddcrp.errors import CheckpointError
from tests.conformance.case import ABILITIES
from tests.conformance.cases import CASES
from tests.conformance.laws import equal_outputs, events_of, joined, law, restored, unscored
from tests.fuzz.interrupts import alarm_after, arrays, made_by, trial

LEARNING = ("learn_one", "learn_many", "step_many", "to_bytes")


def test_every_public_model_has_a_case():
    public = [getattr(streamddcrp, name) for name in streamddcrp.__all__]
    models = {x for x in public if isinstance(x, type) and any(hasattr(x, m) for m in LEARNING)}
    assert models == {case.kind for case in CASES}
    assert len({case.name for case in CASES}) == len(CASES)
    for case in CASES:
        assert set(case.lacks) <= ABILITIES.keys()


# -- learning --------------------------------------------------------------------------------------


@law()
def test_any_cutting_and_any_restart_give_the_same_bits(case):
    """In batches of any size, restored and asked in between."""

    @settings(max_examples=case.examples or settings().max_examples // 2)
    @given(data=st.data(), seed=st.integers(0, 2**32 - 1))
    def check(data, seed):
        timed = case.times == "needed" or (case.times == "optional" and data.draw(st.booleans()))
        stream = case.some(seed, timed=timed)
        stream = stream[: data.draw(st.just(len(stream)) | st.integers(1, len(stream)))]
        whole = case.make()
        expected, happened = case.step(whole, stream), events_of(case, whole)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
        model, parts, events = case.make(), [], []
        for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            if a < len(stream):
                case.look(model, *stream.one(a))
            parts.append(case.step(model, stream[a:b]))
            events += events_of(case, model)
            if data.draw(st.booleans()):
                model = restored(model)
        assert equal_outputs(case, parts, expected)
        assert sorted(events, key=lambda event: str(event.key)) == happened  # of keys in turn
        assert case.differences(model, whole) == []

    check()


@law()
@pytest.mark.parametrize(("seed", "n"), [(0, 3), (1, 30), (2, None)])
def test_rows_one_by_one_are_learned_as_in_a_batch(case, seed, n):
    stream = case.stream(seed)[:n]
    some = [stream] if case.times == "needed" else [stream.untimed]
    some += [stream] if case.times == "optional" else []
    for timed in some:
        whole, one_by_one = case.learned(timed), case.make()
        for i in range(len(timed)):
            case.learn_one(one_by_one, *timed.one(i))
        for model in (whole, one_by_one):
            events_of(case, model)
        assert case.differences(one_by_one, whole) == []


def _leads(case):
    return case is next(one for one in CASES if one.kind is case.kind)


@law(where=_leads)
def test_an_interrupt_leaves_a_prefix(case):
    """Whatever the moment, the model is as after some first rows, and can be stored and go on."""
    stream, start = case.some(4), time.perf_counter()
    whole = case.learned(stream)
    took = time.perf_counter() - start
    for share in (0.05, 0.4, 0.8):
        assert not trial(case, stream, whole, alarm_after(share * took))[1]


@law(where=_leads)
def test_memory_that_runs_out_leaves_a_prefix(case):
    """Whatever the array that gets none, as above; nothing is learned, or all is."""
    stream = case.some(4)
    whole, made = case.learned(stream), made_by(case, stream)
    outcomes = set()
    for share in (0.0, 0.05, 0.5, 0.9):
        outcome, wrong = trial(case, stream, whole, arrays(int(share * made)))
        assert not wrong
        outcomes.add(outcome)
    assert "out of memory" in outcomes


@law("foretell")
def test_step_many_is_predict_then_learn(case):
    stream = case.some(1)
    model, twin = case.make(), case.make()
    out = case.step(model, stream)
    if case.wait is not None:
        for name in {"score", "p_new"} & set(out.schema.names):
            assert out[name].null_count == case.wait
    reported, compared = out.to_pydict(), 0
    for i in range(len(stream)):
        x, more = stream.one(i)
        found = case.look(twin, x, more)
        blank = unscored(found)
        for name in found.keys() & reported.keys():
            value, compared = reported[name][i], compared + 1
            if value is None:
                assert blank or found[name] is None
            elif name in case.inexact and not (i == 0 and blank):
                assert found[name] == pytest.approx(value, rel=1e-12)
            elif name == "label" or i > 0 or not blank:
                # before the first row the number of features is unknown
                assert found[name] == value, (i, name)
        case.learn_one(twin, x, more)
    assert compared > len(stream) / 2
    assert case.differences(model, twin) == []


@law()
def test_scores_and_probabilities_are_in_range(case):
    out = case.step(case.make(), case.some(3))
    for name in {"label_prob", "score", "p_new", "p_change"} & set(out.schema.names):
        values = out[name].drop_null().to_numpy()
        assert np.isfinite(values).all()
        if name != "score":
            assert values.min(initial=0.0) >= -1e-15
            assert values.max(initial=0.0) <= 1.0 + 1e-12
    if case.can("change") and "p_change" in out.schema.names:
        new, change = (out[name].to_numpy(zero_copy_only=False) for name in ("p_new", "p_change"))
        assert not (new > change + 1e-15).any()  # nulls are NaN here, which no number exceeds


@law(where=lambda case: case.forms is not None)
def test_forms_of_a_batch_agree(case):
    stream, kept = case.some(4)[:70], []
    for forms in case.forms(stream):
        outputs = []
        first, models = next(iter(forms)), {}
        for name, rows in forms.items():
            models[name] = model = case.make()
            some = type(stream)(forms[first] if rows is None else rows, stream.t, stream.side)
            if rows is None:
                for i in range(len(stream)):
                    case.learn_one(model, *some.one(i))
            else:
                outputs.append(case.step(model, some))
        for name, model in models.items():
            assert case.differences(model, models[first]) == [], name
        assert all(out.equals(outputs[0]) for out in outputs)
        kept.append(outputs[0])
    for out in kept:
        if out.schema.names == kept[0].schema.names:
            assert _without_words(out).equals(_without_words(kept[0]))


def _without_words(out):
    """Leave out what names columns, which have other names in tables than in arrays."""
    return out.drop_columns([name for name in ("why",) if name in out.schema.names])


@law()
def test_an_empty_batch_changes_nothing(case):
    for cut in (0, 5, 40):
        stream = case.some(5)
        model = case.learned(stream[:cut])
        before = model.to_bytes()
        out = case.step(model, stream[:0])
        assert out.num_rows == 0
        assert model.to_bytes() == before
        if cut:
            assert out.schema.equals(case.step(model, stream[cut : cut + 1]).schema)


@law(where=lambda case: case.times != "none")
def test_times_come_in_any_form(case):
    """Time stamps are seconds since 1970."""
    stream = case.stream(6)[:40]
    seconds = 1_750_000_000 + np.floor(7.0 * stream.t)
    stamps = seconds.astype("datetime64[s]")
    forms = [
        seconds, stamps, stamps.tolist(), pa.array(seconds.astype(int)),
        pa.chunked_array([pa.array(stamps, pa.timestamp("ns", "UTC"))]),
    ]  # fmt: skip
    models = [case.make() for _ in forms]
    for model, t in zip(models, forms, strict=True):
        out = case.step(model, type(stream)(stream.rows, t, stream.side))
        if not isinstance(model, Seasonal):  # which returns the columns that it was given
            assert batch_times(out["time"], len(stream)).tolist() == seconds.tolist()
        assert case.differences(model, models[0]) == []
    one_by_one = case.make()
    for i in range(len(stream)):
        x, more = stream.one(i)
        case.learn_one(one_by_one, x, more | {"t": stamps.tolist()[i]})
    assert case.differences(one_by_one, models[0]) == []


# -- looking ---------------------------------------------------------------------------------------


def public_views(model):
    """Return what can be read of a model without arguments."""
    names = [name for name in dir(type(model)) if not name.startswith("_")]
    return {n: getattr(model, n) for n in names if isinstance(getattr(type(model), n), property)}


@law()
def test_looking_changes_nothing_and_needs_nothing_learned(case):
    stream = case.some(8)
    for cut in (0, 3, 12, 60):
        model = case.learned(stream[:cut])
        events_of(case, model)
        before = model.to_bytes()
        for i in (0, min(cut, len(stream) - 1)):
            x, more = stream.one(i)
            later = {"t": stream.t[-1]} if stream.t is not None else {}
            found = case.look(model, x, more | later)
            if "probs" in found:
                assert sum(found["probs"].values()) == pytest.approx(1.0, rel=1e-12)
                assert min(found["probs"].values()) >= 0.0
        public_views(model)
        for view in ("summary", "trajectories", "growth", "tree", "recent_labels"):
            getattr(model, view, dict)()
        assert events_of(case, model) == []
        assert model.to_bytes() == before, cut


@law(where=lambda case: hasattr(case.kind, "predict_many"))
def test_a_batch_is_looked_at_as_its_rows_are(case):
    stream = case.some(8)
    model, rest = case.learned(stream[:60]), stream[60:66]
    before, each = model.to_bytes(), [rest.one(i) for i in range(len(rest))]
    for many, one in ("predict_many", "predict_one"), ("score_many", "score_one"):
        found = getattr(model, many)(rest.rows, **rest.more)
        ask = getattr(model, one)
        np.testing.assert_array_equal(found, [ask(x, **more) for x, more in each])
    reasons = model.explain_many(rest.rows, **rest.more)
    assert list(reasons) == [model.explain_one(x, **more) for x, more in each]
    assert model.to_bytes() == before


@law("summary")
def test_the_summary_has_a_row_per_table(case):
    model, stream = case.make(), case.some(9)
    columns = model.summary().column_names
    assert model.summary().num_rows == model.n_tables <= 1  # a tree of topics has its root
    case.step(model, stream)
    assert model.summary().column_names[: len(columns)] == columns
    assert model.summary().num_rows == model.n_tables > 0
    assert math.isfinite(model.objective)
    ids = model.summary()["id"].to_pylist()
    assert len(set(ids)) == len(ids)


@law("events", "arrivals", where=lambda case: case.times != "none")
def test_events_have_the_time_of_their_arrival(case):
    stream, model, events = case.stream(10), case.make(), []
    for a in range(0, len(stream), 9):
        case.step(model, stream[a : a + 9])
        events += model.events()
    assert events
    for event in events:
        assert event.t == pytest.approx(stream.t[event.index], abs=1e-6)


@law("events")
def test_events_come_once_in_order_and_ids_are_never_used_again(case):
    stream, model = case.some(10), case.make()
    reported = []
    for a in range(0, len(stream), 9):
        case.step(model, stream[a : a + 9])
        reported += model.events()
        assert model.events() == []
    begun, ended, closed = set(), set(), set()
    for event in reported:
        here = (event.key, event.label)
        assert here not in ended
        assert event.kind != "closed" or here not in closed
        closed = closed | {here} if event.kind == "closed" else closed - {here}
        if event.kind in ("death", "merge"):
            ended.add(here)
        elif event.kind not in ("return", "closed"):
            assert (event.kind, *here) not in begun
            begun.add((event.kind, *here))
        assert 0 <= event.index < len(stream)
    if case.can("order"):
        for before, event in pairwise(reported):
            assert event.key != before.key or before.index <= event.index


# -- keeping ---------------------------------------------------------------------------------------


@law()
def test_files_and_damage(case, tmp_path):
    stream, path = case.some(11), tmp_path / "model"
    for cut in (0, 5, 60):
        model = case.learned(stream[:cut])
        model.save(path)
        saved = case.state(model)
        loaded = type(model).load(path)
        assert case.differences(loaded, model) == []
        rest = stream[cut:]
        assert equal_outputs(case, [case.step(loaded, rest)], case.step(model, rest))
        assert case.differences(loaded, model) == []
    blob = path.read_bytes()
    middle = len(blob) // 2
    flipped = bytes([blob[middle] ^ 1])
    for bad in (
        b"",
        blob[:40],
        blob[:-1],
        blob[:-100],
        blob[:middle] + flipped + blob[middle + 1 :],
    ):
        path.write_bytes(bad)
        try:
            assert case.state(type(model).load(path)) == saved  # it was no byte of the model
            assert not case.can("checksum")
        except CheckpointError:
            pass
    other = SeqDDCRP() if not isinstance(model, SeqDDCRP) else streamddcrp.DDCRPSampler()
    name = type(model).__name__ if case.can("checksum") else None
    with pytest.raises(CheckpointError, match=name):
        type(model).from_bytes(other.to_bytes())
    with pytest.raises(CheckpointError):
        type(model).load(tmp_path / "absent")


@law()
def test_copies_and_pickles_go_on_by_themselves(case):
    stream = case.some(12)[:90]
    for cut in (7, 60):
        model = case.learned(stream[:cut])
        before = model.to_bytes()
        twins = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
        for twin in twins:
            case.step(twin, stream[cut:])
        assert model.to_bytes() == before
        case.step(model, stream[cut:])
        for twin in twins:
            assert case.differences(twin, model) == []


@law("keyed")
def test_models_by_key_are_separate_ones(case):
    """Also when all but one of them are on disk."""
    stream = case.some(14)
    keys = np.random.default_rng(14).choice(["p", "q", "r"], len(stream))
    table = as_table(stream.rows)
    fleet, at = Keyed(case.make(), by="key", memory_limit=1), table.num_columns
    parts = []
    for a in range(0, len(stream), 25):
        here = slice(a, a + 25)
        batch = table[here].add_column(at, "key", pa.array(keys[here]))
        parts.append(fleet.step_many(batch, **stream[here].more))
    out = joined(parts)
    for key in "pqr":
        mine = np.flatnonzero(keys == key)
        t = None if stream.t is None else stream.t[mine]
        alone = case.make()
        expected = [alone.step_many(table.take(mine), t)]
        got = out.take(mine).drop_columns("key").combine_chunks().to_batches()
        assert equal_outputs(case, got, expected[0])
        assert case.differences(fleet.model_of(key), alone) == []
    assert fleet.keys == ["p", "q", "r"]
    if case.can("summary"):
        assert set(fleet.summary()["key"].to_pylist()) <= {"p", "q", "r"}


def as_table(rows):
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, list):
        return pa.table({"text": rows})
    return pa.table({str(d): np.ascontiguousarray(x) for d, x in enumerate(rows.T)})


@law("river")
def test_a_clone_has_learned_nothing(case):
    stream = case.some(13)[:80]
    model = case.learned(stream)
    clone = model.clone()
    assert case.differences(clone, case.make()) == []
    assert equal_outputs(case, [case.step(clone, stream)], case.step(case.make(), stream))
    assert case.differences(clone, model) == []


@law(where=lambda case: case.flat is not None)
def test_memory_is_flat(case):
    flat = case.flat
    stream = flat.stream()
    for timed in flat.times:
        model, sizes = case.make(), []
        for part in np.array_split(np.arange(len(stream)), flat.n):
            some = stream[part[0] : part[-1] + 1]
            case.step(model, some if timed else some.untimed)
            events_of(case, model)
            getattr(model, "final_labels", dict)()
            sizes.append((len(model.to_bytes()), getattr(model, "nbytes", 0)))
            assert sizes[-1][0] < flat.most(model)
            assert flat.check(model)
        early, late = np.array(sizes[: flat.early]), np.array(sizes[flat.early :])
        assert (late.max(axis=0) <= flat.growth * early.max(axis=0)).all()
