"""Forged states under a valid checksum: refused, or used without harm. `make fuzz` tries more."""

import copy
import functools
import operator

import numpy as np
import pytest

from streamddcrp import Seasonal
from streamddcrp.checkpoint import encode_state
from streamddcrp.errors import CheckpointError
from tests.fuzz.forge import subjects
from tests.fuzz.run import BAD, Worker, campaign

HUGE = (1 << 62) - 1
# What once crashed, hung or read elsewhere: model, array, place and value.
FOUND = [
    ("SeqDDCRP, plain", "atoms.active", 0, HUGE),
    ("SeqDDCRP, plain", "atoms.active", 0, 141),
    ("SeqDDCRP, plain", "groups.atom", 0, 99),
    ("SeqDDCRP, plain", "atoms.frozen_births", 0, -1e300),
    ("SeqDDCRP, plain", "rows.births", 0, -1e300),
    ("SeqDDCRP, plain", "counts", 5, 1 << 40),
    ("TextStream, short", "window.length", 0, HUGE),
    ("TextStream, short", "window.table", 0, 1000),
    ("TextStream, short", "postings.at", 3, -7),
    ("TextStream, short", "words.start", 2, 1 << 30),
    ("TextStream, short", "tables.live", 0, 1 << 20),
    ("GraphCRP, given", "particles.label", 0, 1000),
    ("GraphCRP, given", "particles.entry", 0, 1 << 40),
    ("GraphCRP, given", "pool.name", 0, 1 << 40),
    ("GraphCRP, given", "particles.near", 0, 5),
    ("GraphCRP, given", "particles.held", 0, 5),
    ("GroupDP, two layers", "groups.node", 0, 77),
    ("GroupDP, two layers", "groups.seen", 0, 1 << 40),
    ("GroupDP, two layers", "groups.n", 0, 1 << 40),
    ("GroupDP, two layers", "own.cell", 0, 1 << 40),
    ("GroupDP, two layers", "own.cell", 1, 0),
    ("GroupDP, two layers", "own.n", 0, 0),
    ("GroupDP, two layers", "aux.items", 0, 9),
    ("GroupDP, Markov chain", "own.cell", -1, 77 << 24),
    ("DDCRPSampler, window decay", "ring.label", 0, 1 << 33),
    ("DDCRPSampler, given", "tables.name", 0, 1 << 33),
    ("TimeVaryingIBP, all learned", "names.holder", 0, 1 << 33),
    ("TimeVaryingIBP, all learned", "particles.scale", 1, 1 << 33),
    ("EmbeddingStream, default", "window.table", 0, 1 << 33),
    ("NestedCRPTopics, counts", "window.ends", 0, 1 << 33),
    ("NestedCRPTopics, counts", "parent", 3, 3),
    ("NestedCRPComponents, numbers", "parent", 1, 1),
    ("Alarm", "counts", 1, 1 << 40),
    ("LinkLanguageModel, numbers", "memory.word", 0, 1 << 40),
    ("TemporalDPM, rows (warm-up)", "waiting.number", 4, 2),
    ("TemporalDPM, texts", "model.born", 0, 1 << 40),
    ("TemporalDPM, rho", "model.boilerplate.numbers", 2, 0.5),
    ("TemporalDPM, texts", "model.boilerplate.words", 0, -7),
    ("TemporalDPM, texts", "model.boilerplate.sizes", 0, HUGE),
    ("TemporalDPM, texts", "model.tracks.size", 0, 2),
    ("TemporalDPM, texts", "model.copies.row", 0, 1),
    ("TemporalDPM, texts", "model.copies.size", 0, HUGE),
    ("TemporalDPM, texts", "model.copies.copies", 0, -1),
    ("TemporalDPM, texts", "model.open.words", 17, 12),  # a copy that is not told
    ("TemporalDPM, known", "model.starts.mean", 0, np.inf),
    ("SeqDDCRP, season found (warm-up)", "season.kept.t", -1, 1e18),
    ("SeqDDCRP, window decay", "groups.arrival", slice(None), 256),
    ("SeqDDCRP, window decay", "groups.arrival", 0, 0),
    ("SeqDDCRP, plain", "groups.arrival", 0, 4096),
    ("TemporalDPM, texts", "model.open.words", 0, 1 << 40),
    ("TextStream, short", "events.kind", 0, 5),
    ("EmbeddingStream, rho", "events.kind", 0, 6),
    ("SeqDDCRP, mixed", "hyper", 1, 1.0),  # number of parts
    ("SeqDDCRP, mixed", "hyper", 6, 1e9),  # where a part begins in a row
    ("SeqDDCRP, own past", "hyper", 2, 7.0),  # coefficients
    ("SeqDDCRP, other column", "hyper", 1, 1e15),
    ("SeqDDCRP, two columns", "hyper", 2, 1e9),  # degrees of freedom, which are not learned
    ("SeqDDCRP, plain", "hyper", 5, 0.0),  # weight, which is
    ("Reference", "hyper", 1, -1e300),  # centre
]
# The same for settings, and the name that the refusal gives.
SETTINGS = [
    ("SeqDDCRP, own past, holes (warm-up)", ("family", "order"), 3000, "order"),
    ("GraphCRP, parents, own past (warm-up)", ("options", "n_particles"), 10**6, "n_particles"),
    ("GroupDP, two layers", ("filter", "nodes"), ["x", "y", "z"], "nodes"),
    ("GraphCRP, given", ("n_seen",), 298, "n_seen"),
    ("DDCRPSampler, no decay (warm-up)", ("n_seen",), 5, "n_seen"),
    ("TemporalDPM, rows", ("place", "count"), 1 << 40, "place"),
    ("TemporalDPM, period (warm-up)", ("place", "mark"), -1e300, "place"),
    ("TemporalDPM, rows", ("place", "closed"), {}, "closed"),
    ("TemporalDPM, family", ("model", "track_values"), ["sd", "x"], "values.x"),
    ("TemporalDPM, texts", ("model", "events", 0, "kind"), "sweep", "events"),
    ("SeqDDCRP, mixed (warm-up)", ("types",), ["int"], "types"),
    ("SeqDDCRP, own past (warm-up)", ("first_time",), None, "first_time"),
    ("SeqDDCRP, default (warm-up)", ("types", 1), "", "types"),
    ("SeqDDCRP, window decay (warm-up)", ("types",), "", "types"),
    ("SeqDDCRP, season found (warm-up)", ("warmup",), None, "warm-up"),
    ("TimeVaryingIBP, given noise", ("filter", "log_unit"), None, "log_unit"),
    ("DDCRPSampler, two columns", ("filter", "first_time"), None, "first_time"),
    ("Seasonal, holes", ("clocked",), True, "clocked"),
    ("NestedCRPComponents, numbers", ("growth", "columns", "row"), 7, "growth"),
    ("NestedCRPTopics, texts", ("events", 10, "index"), None, "events"),
    ("NestedCRPComponents, numbers", ("options", "depth"), 3, "leaves"),
    ("WindowFeatures, given", ("hop",), 1, "hop"),
    ("WindowFeatures, default", ("hop",), 1, "hop"),
    ("NestedCRPTopics, texts", ("next_tidy",), 0, "next_tidy"),
    ("RegimeAnomalyDetector, averaged", ("reference_after",), float("nan"), "reference_after"),
    ("LinkLanguageModel, numbers", ("base_measure", "n_words"), 1 << 40, "n_words"),
    ("SeqDDCRP, many columns", ("laws", "looked"), 63, "rows of laws"),
]
# Arrays that once had any type and shape, or could be left out.
ARRAYS = [
    ("TemporalDPM, rho", "model.starts.words.shape", lambda a: a.astype(np.float32)),
    ("TemporalDPM, values", "model.tracks.values.sd", lambda a: a[None]),
    ("TemporalDPM, rows", "model.tracks.values.mean", lambda a: a[1:]),
    ("TemporalDPM, rows", "model.tracks.mass", lambda a: a[:0]),
    ("TemporalDPM, texts", "model.sizes.value", lambda a: a[None]),
    ("TemporalDPM, family", "model.final.labels", lambda a: a[None]),
    ("EmbeddingStream, rho", "counts", None),
    ("TextStream, short", "finals", lambda a: a.astype(np.float64)),
    ("TextStream, short", "line_span", lambda a: a[:0]),
    ("TextStream, short", "line_labels", lambda a: a.astype(np.int32)),
    ("TextStream, short", "word_length", lambda a: a[None]),
    ("TextStream, short", "word_letters", lambda a: a.astype(np.float64)),
    ("TextStream, short", "word_stops", lambda a: a[:0]),
    ("EmbeddingStream, rho", "finals", lambda a: a.astype(np.float64)),
    ("NestedCRPComponents, numbers (warm-up)", "waiting", lambda a: a * np.nan),
]
BY_NAME = {subject.name: subject for subject in subjects()}
# The first case of each class, after some rows and in its warm-up.
ONE_EACH = {(s.case.kind.__name__, type(s).__name__): s for s in [*BY_NAME.values()][::-1]}


@pytest.mark.parametrize(("name", "array", "place", "value"), FOUND)
def test_what_was_found_is_refused(name, array, place, value):
    subject = BY_NAME[name]
    arrays, meta = dict(subject.parts[0]), subject.parts[1]
    arrays[array] = arrays[array].copy()
    with np.errstate(over="ignore"):
        arrays[array].reshape(-1)[place] = value
    outcome, message = subject.load(arrays, meta)[:2]
    assert outcome == "refused", message
    name = array.removeprefix("memory.").removeprefix("model.")
    assert name in message or "hold together" in message


@pytest.mark.parametrize(("name", "way", "value", "said"), SETTINGS)
def test_settings_that_were_found_are_refused(name, way, value, said):
    subject = BY_NAME[name]
    meta = copy.deepcopy(subject.parts[1])
    holder = functools.reduce(operator.getitem, way[:-1], meta)
    holder[way[-1]] = value
    outcome, message = subject.load(subject.parts[0], meta)[:2]
    assert outcome == "refused", message
    assert said in message


@pytest.mark.parametrize(("name", "array", "change"), ARRAYS)
def test_arrays_that_were_found_are_refused(name, array, change):
    subject = BY_NAME[name]
    arrays, meta = dict(subject.parts[0]), subject.parts[1]
    stored = arrays.pop(array)
    if change is not None:
        arrays[array] = change(stored)
    outcome, message = subject.load(arrays, meta)[:2]
    assert outcome == "refused", message
    assert array.removeprefix("model.") in message


def test_copies_of_an_epoch_and_of_a_cluster_are_told_and_once():
    subject = BY_NAME["TemporalDPM, texts"]
    arrays, meta = subject.parts
    epoch, size, row, ids, n = (
        arrays[f"model.copies.{name}"] for name in ("epoch", "size", "row", "id", "copies")
    )
    first = {
        "epoch": np.r_[epoch[:1], epoch], "size": np.r_[size[:1], size],
        "row": np.r_[row[: size[0]], row],
    }  # fmt: skip
    none = {"epoch": epoch[1:], "size": size[1:], "row": row[size[0] :]}
    outcome, message = subject.load(
        arrays | {f"model.copies.{name}": array for name, array in none.items()}, meta
    )[:2]
    assert outcome == "refused", message
    assert "n_seen" in message
    for more in (first, {"id": np.r_[ids, ids], "copies": np.r_[n, n + 1]}):
        forged = arrays | {f"model.copies.{name}": array for name, array in more.items()}
        outcome, message = subject.load(forged, meta)[:2]
        assert outcome == "refused", message
        assert f"copies.{next(iter(more))}" in message


@pytest.mark.parametrize("name", ["RegimeAnomalyDetector, reference, averaged", "SeqDDCRP, plain"])
def test_arrays_of_an_earlier_state_do_no_harm(name):
    subject = BY_NAME[name]
    arrays, meta = subject.parts
    assert subject.try_forged(arrays | subject.others, meta)[0] not in BAD


def test_numbers_by_which_a_kernel_would_divide():
    subject = BY_NAME["EmbeddingStream, default"]
    arrays = subject.parts[0] | {"sums": 0.0 * subject.parts[0]["sums"]}
    outcome, message = subject.try_forged(arrays, subject.parts[1])
    assert outcome == "refused in use"
    assert "division by zero" in message


@pytest.mark.parametrize("subject", ONE_EACH.values(), ids=lambda s: s.name)
def test_forged_states_do_no_harm(subject):
    assert subject.try_forged(*subject.parts)[0] == "accepted"  # compiles all kernels
    counts, _, bad = campaign([subject], seconds=60.0, first=10**6, most=12, report=str)
    assert not bad
    assert sum(counts.values()) == 12


@pytest.mark.slow
def test_twenty_thousand_forged_states():
    models = [*BY_NAME.values()]
    for subject in models:
        assert subject.try_forged(*subject.parts)[0] == "accepted"
    counts, _, bad = campaign(models, seconds=7200.0, first=2 * 10**6, most=20_000, report=str)
    assert not bad
    assert sum(counts.values()) == 20_000
    assert min(counts["refused"], counts["accepted"]) > 2000


@pytest.mark.parametrize("rows", [0, 7, 511])
def test_a_warm_up_has_a_length_that_the_options_allow(rows):
    subject = BY_NAME["SeqDDCRP, few tables (warm-up)"]
    arrays, meta = subject.parts
    outcome, message = subject.load(arrays, {**meta, "warmup": rows})[:2]
    assert outcome == "refused", message
    assert "warm-up" in message


@pytest.mark.parametrize(
    ("leads", "change"),
    [
        (np.zeros(3), {}),  # before the first search
        (np.array([np.nan]), {"rows": 128}),
        (np.zeros((2, 2)), {"rows": 128}),
        (np.array(0.0), {"rows": 128}),
        (np.zeros(0, np.int64), {"rows": 128}),
        (np.zeros(3), {"rows": 128, "learned": 128}),
        (np.zeros(0), {"rows": 128, "learned": 5}),
        (None, {"rows": 4097}),  # rows would be kept for ever
    ],
)
def test_a_search_for_periods_that_cannot_be(leads, change):
    seasons = Seasonal()
    seasons.learn_many(np.zeros((90, 1)))
    arrays, meta = seasons._state()
    meta["season"] |= {"learned": 0} | change
    n = meta["season"]["rows"]
    arrays |= {"season.kept.x": np.zeros((n, 1)), "season.kept.t": np.arange(float(n))}
    if leads is not None:
        arrays["season.leads"] = leads
    blob = encode_state("Seasonal", 1, arrays, meta)
    with pytest.raises(CheckpointError, match=r"season|leads|does not fit"):
        Seasonal.from_bytes(blob)


def test_rows_that_wait_have_groups():
    subject = BY_NAME["GroupDP, auto (warm-up)"]
    arrays, meta = subject.parts
    for coming in (0, [], meta["coming"][1:]):
        outcome, message = subject.load(arrays, {**meta, "coming": coming})[:2]
        assert outcome == "refused", message
        assert "groups of the warm-up" in message


def test_a_crash_and_a_hang_are_noticed():
    """The harness itself: a process that dies, and one that does not come back."""

    class Deadly:
        name = "deadly"

        def attempt(self, seed):
            import ctypes

            return ctypes.string_at(0)

    class Endless(Deadly):
        def attempt(self, seed):
            while True:
                pass

    worker = Worker([Deadly()])
    assert worker.run((0, 1))[:2] == ("crash", "SIGSEGV")
    worker = Worker([Endless()])
    assert worker.run((0, 1), limit=0.5)[0] == "hang"
    assert {"crash", "hang"} < {*BAD}


def test_a_seed_gives_the_same_forgery_again():
    subject = BY_NAME["Alarm"]
    one, other = (subject.forged(5)[2] for _ in range(2))
    assert one == other


def test_what_a_forged_state_says():
    subject = BY_NAME["SeqDDCRP, plain"]
    arrays, meta = subject.parts
    wrong = arrays["atoms.active"].copy()
    wrong[0] = 99
    outcome, message, error = subject.load(arrays | {"atoms.active": wrong}, meta)
    assert outcome == "refused"
    assert isinstance(error, CheckpointError)
    assert "'atoms.active'" in message
    assert "out of range (from 0 to <K)" in message
