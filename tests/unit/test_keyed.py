"""The keyed model: what it refuses, how much memory it takes, what a crash leaves."""

import copy
import pickle
import random
import subprocess
import sys
import tracemalloc
from datetime import UTC, datetime, timedelta
from functools import cache

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from river.checks import common

from streamddcrp import Keyed, SeqDDCRP
from streamddcrp.checkpoint import SqliteStore, decode_state, encode_state
from streamddcrp.errors import (
    CheckpointError,
    ConfigError,
    OrderError,
    SchemaError,
    StreamDDCRPError,
)

OPTIONS = {
    "likelihood": ("normal_gamma", 0.0, 0.05, 1.5, 0.5),
    "window": 4,
    "sweep_every": 2,
    "max_tables": 3,
}


def small(**options):
    return Keyed(SeqDDCRP(**OPTIONS), by="key", **options)


@cache
def one_model():
    """Bytes that a model of these options is counted for."""
    fleet = small()
    fleet.learn_many(table(["a"], [1]))
    return fleet._residents._size


def table(keys, values, **columns):
    return pa.table({"key": keys, "y": np.asarray(values, dtype=float), **columns})


def states(fleet):
    return {key: fleet.model_of(key).to_bytes() for key in fleet.keys}


def stream(n_keys, n_rows, seed=0):
    rng = np.random.default_rng(seed)
    return table(rng.integers(0, n_keys, n_rows), rng.normal(size=n_rows) * 9)


# -- keys ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        (["x", "", "ß\0"], pa.string()),
        (["x", "y", "z"], pa.large_string()),
        (["x", "y", "z"], pa.string_view()),
        ([10, 9, -(2**63)], pa.int64()),
        ([10, 9, 0], pa.uint8()),
    ],
)
@pytest.mark.parametrize("encoded", [False, True])
def test_keys_are_text_or_whole_numbers(keys, kind, encoded):
    parts = [pa.array(part, kind) for part in (keys, keys[:1] * 2)]
    if encoded and kind != pa.string_view():  # which Arrow does not encode
        parts = [part.dictionary_encode() for part in parts]
    fleet = small()
    out = fleet.step_many(pa.concat_tables([table(part, range(len(part))) for part in parts]))
    assert out["key"].to_pylist() == [*keys, keys[0], keys[0]]
    assert fleet.keys == sorted(keys)
    assert fleet.n_keys == 3
    fleet.learn_one({"key": keys[1], "y": 1.0})
    assert fleet.model_of(keys[1]).n_seen == 2
    assert fleet.summary()["key"].unique().to_pylist() == sorted(keys)
    assert fleet.predict_one({"key": keys[0], "y": 0.5}) == fleet.model_of(keys[0]).predict_one(
        {"y": 0.5}
    )


@pytest.mark.parametrize("key", [None, 1.5, True, b"x", 2**63, "\ud800", datetime(2024, 1, 1)])
def test_other_keys_are_refused(key):
    fleet = small()
    for call in (fleet.learn_one, fleet.predict_one, fleet.predict_proba_one, fleet.score_one):
        with pytest.raises(SchemaError, match=r"column 'key': .*a key must be text or a whole"):
            call({"key": key, "y": 1.0})
    assert fleet.keys == []


@pytest.mark.parametrize(
    ("keys", "match"),
    [
        (pa.array([1.0, 2.0]), "column 'key' has type double; a key must be"),
        (pa.array([True, False]), "column 'key' has type bool"),
        (pa.array([1, 2**63], pa.uint64()), "column 'key': Integer value"),
        (pa.array(["a", None]), "row 1, column 'key': missing"),
        (pa.array([None, None], pa.string()), "row 0, column 'key': missing"),
        (pa.array([None, 3]), "row 0, column 'key': missing"),
    ],
)
def test_other_columns_of_keys_are_refused(keys, match):
    fleet = small()
    fleet.learn_one({"key": "a", "y": 1.0})
    before = states(fleet)
    for call in (fleet.learn_many, fleet.step_many):
        with pytest.raises(SchemaError, match=match) as caught:
            call(table(keys, [1, 2]))
        assert caught.value.row == (int(match[4]) if match.startswith("row") else None)
    assert states(fleet) == before


@pytest.mark.parametrize(
    ("batch", "match"),
    [
        (np.zeros((2, 2)), "a ndarray has no column 'key'"),
        ([{"key": "a", "y": 1.0}, 7], "row 1: expected a dict of features, got a int"),
        (pa.table({"y": [1.0]}), "expected one column 'key', the key, and others .* are 'y'"),
        (pa.table({"key": ["a"]}), "and others to learn from; the columns are 'key'"),
        (pa.table([["a"], ["b"]], names=["key", "key"]), "expected one column 'key'"),
        (pa.table({}), "the columns are none"),
        (table(["a", "b"], [1, np.inf]), "row 1, key 'b': column 'y': inf is not finite"),
        (table(["a"], [1], z=["text"]), "key 'a': column 'z': expected numbers"),
    ],
)
def test_batches_that_cannot_be_used_are_refused(batch, match):
    fleet = small()
    with pytest.raises(SchemaError, match=match):
        fleet.learn_many(batch)
    assert fleet.keys == []


@pytest.mark.parametrize(
    "form",
    [
        lambda rows: rows.to_pydict(),
        lambda rows: rows.to_pylist(),
        pl.from_arrow,
        lambda rows: pl.from_arrow(rows).lazy(),
    ],
    ids=["dict of columns", "list of dicts", "frame", "lazy frame"],
)
def test_batches_come_in_every_form_that_has_named_columns(form):
    rows = table(["a", "b", "a"], [1.0, 2.0, 3.0])
    expected, fleet = small().step_many(rows), small()
    assert fleet.step_many(form(rows)).equals(expected)
    fleet.learn_many(form(rows))
    assert fleet.model_of("a").n_seen == 4


def test_results_carry_key_and_time():
    stamps = np.array(["2024-01-01", "2024-01-02", "2024-01-03"], "datetime64[s]")
    out = small().step_many(table(["a", "b", "a"], [1.0, 2.0, 3.0]), stamps)
    assert out.schema.names[:3] == ["key", "time", "label"]
    assert out["time"].to_numpy().tolist() == stamps.tolist()


def test_keys_stay_of_one_kind(tmp_path):
    fleet = small()
    fleet.learn_one({"key": "7", "y": 1.0})
    with pytest.raises(SchemaError, match="key 7: the keys before were text"):
        fleet.learn_one({"key": 7, "y": 1.0})
    numbers = small()
    numbers.learn_many(table([7], [1.0]))
    numbers.save(tmp_path / "fleet")
    for model in (numbers, Keyed.load(tmp_path / "fleet")):
        with pytest.raises(SchemaError, match="key '7': the keys before were whole numbers"):
            model.step_many(table(["7"], [1.0]))
        assert model.keys == [7]


def test_an_unknown_key_predicts_like_a_new_model_and_leaves_nothing():
    fleet = small()
    fleet.learn_one({"key": "a", "y": 1.0})
    fresh = SeqDDCRP(**OPTIONS)
    assert fleet.predict_one({"key": "b", "y": 2.0}) == fresh.predict_one({"y": 2.0})
    assert fleet.predict_proba_one({"key": "b", "y": 2.0}) == fresh.predict_proba_one({"y": 2.0})
    assert fleet.keys == ["a"]
    with pytest.raises(KeyError):
        fleet.model_of("b")


def test_times_go_with_their_rows():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    stamps = [start + timedelta(hours=i) for i in range(40)]
    keys = ["a", "b", "b"] * 13 + ["a"]
    batch = table(keys, np.sin(range(40)))
    fleet = Keyed(SeqDDCRP(**OPTIONS, warmup=5), by="key")
    out = fleet.step_many(batch, pa.array(stamps))
    for key in "ab":
        mine = np.array(keys) == key
        alone = SeqDDCRP(**OPTIONS, warmup=5)
        rows = pa.table({"y": batch["y"].to_numpy()[mine]})
        expected = alone.step_many(rows, [t for t, m in zip(stamps, mine, strict=True) if m])
        assert out.filter(pa.array(mine)).drop_columns(["key"]).equals(expected)
        assert fleet.model_of(key).to_bytes() == alone.to_bytes()
    with pytest.raises(OrderError, match=r"row 1, key 'a': time .* is before"):
        fleet.learn_many(table(["b", "a"], [0, 0]), [stamps[-1], stamps[0]])
    with pytest.raises(SchemaError, match="row 1, time None is missing"):
        fleet.learn_many(table(["b", "a"], [0, 0]), [stamps[-1], None])
    with pytest.raises(SchemaError, match="one time a row, 2 in all"):
        fleet.learn_many(table(["b", "a"], [0, 0]), stamps[-1:])
    with pytest.raises(SchemaError, match="key 'a': t: the rows before came with times"):
        fleet.learn_one({"key": "a", "y": 1.0})


def test_an_empty_batch_has_the_columns_of_the_results():
    fleet = small()
    out = fleet.step_many(table(pa.array([], pa.string()), []))
    assert out.num_rows == 0
    assert out.schema.equals(fleet.step_many(table(["a"], [1.0])).schema)


# -- all or nothing --------------------------------------------------------------------------------


@pytest.mark.parametrize("n_models", [0, 1, 2, 3, 4, 5, 100])
@pytest.mark.parametrize("saved", [False, True])
def test_a_refused_batch_changes_no_key(tmp_path, n_models, saved):
    """Models of the batch and others, in memory and put aside, dirty and saved."""
    memory = max(1, n_models * one_model())
    fleet = small(memory_limit=memory, store=tmp_path / "store")
    for key in "dazcy":
        fleet.learn_many(table([key] * 3, [1, 2, 3]))
    if saved:
        fleet.save()
    fleet.learn_many(table(list("azaz"), [4, 5, 6, 7]))
    twin = copy.deepcopy(fleet)
    bad = table(list("abcdezae"), [1, 2, 3, 4, 5, 6, np.inf, 1])
    with pytest.raises(SchemaError, match="row 6, key 'a': column 'y': inf is not finite"):
        fleet.learn_many(bad)
    late = table(list("abcdef"), [1, 2, 3, 4, 5, np.inf])
    with pytest.raises(SchemaError, match="row 5, key 'f'") as caught:
        fleet.step_many(late)
    assert caught.value.row == 5
    assert states(fleet) == states(twin)
    assert fleet.step_many(bad[:6]).equals(twin.step_many(bad[:6]))
    assert states(fleet) == states(twin)


def test_models_that_make_room_for_a_refused_batch_are_kept():
    fleet = small(memory_limit=3 * one_model())
    fleet.learn_many(table(["a"], [1]))
    fleet.learn_many(table(["z"], [2]))
    assert fleet._residents._size == 2 * one_model()  # so that there is room for one copy
    before = states(fleet)
    with pytest.raises(SchemaError, match="row 3, key 'd'"):
        fleet.learn_many(table(list("bcad"), [1, 2, 3, np.inf]))
    assert states(fleet) == before


def test_any_other_failure_is_undone_too(monkeypatch):
    fleet = small(memory_limit=1)
    fleet.learn_many(table(list("ab"), [1, 2]))
    before = states(fleet)
    learn = SeqDDCRP.learn_many

    def interrupted(self, batch, t=None):
        learn(self, batch, t)
        if batch["y"][0].as_py() == 3.0:
            raise KeyboardInterrupt

    monkeypatch.setattr(SeqDDCRP, "learn_many", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fleet.learn_many(table(list("abc"), [1, 2, 3]))
    assert states(fleet) == before


# -- memory ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("memory", "size"), [
    (5_000_000, 5e6), ("5MB", 5e6), ("5000 kB", 5e6), ("4.5 mib", 4.5 * 2**20), ("2GiB", 2**31),
])  # fmt: skip
def test_memory_is_given_in_bytes(memory, size):
    assert small(memory_limit=memory)._residents._memory == size


@pytest.mark.parametrize("memory", [0, -1, "MB", "5TB", "a lot", None, "1e9"])
def test_other_sizes_are_refused(memory):
    with pytest.raises(ConfigError, match="memory_limit must be "):
        small(memory_limit=memory)


@pytest.mark.parametrize("n_rows", [200, 2])
def test_memory_is_bounded(n_rows):
    """Many keys a batch, and few: what Python holds stays within the setting.

    On top come the model in use and the one that is read or written, the names of the keys, the
    rows of a batch and their results, and Python's own cache of 4096 attribute names.
    """
    n_keys, memory = 150, 20 * one_model()
    fleet = small(memory_limit=memory)
    parts = [stream(n_keys, n_rows, seed) for seed in range(400 // n_rows)]
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for part in parts:
        fleet.step_many(part)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert fleet.n_keys > 130
    assert fleet._residents._size <= memory
    assert peak < memory + 2 * one_model() + 300 * fleet.n_keys + 1000 * n_rows + 4096 * 64
    assert peak > memory / 2  # it is used, too


def test_a_model_larger_than_the_memory_stays_while_it_is_used():
    fleet = small(memory_limit=1)
    fleet.learn_many(table(list("abab"), [1, 2, 3, 4]))
    assert len(fleet._residents._models) == 1
    assert fleet.keys == ["a", "b"]


def test_models_that_do_not_tell_their_size_are_measured_by_their_state(monkeypatch):
    monkeypatch.delattr(SeqDDCRP, "nbytes")
    fleet = small(memory_limit=200_000)
    fleet.learn_many(stream(9, 50))
    assert 0 < fleet._residents._size < 200_000
    assert len(fleet._residents._models) > 1


# -- looking at it ---------------------------------------------------------------------------------


def test_summary_has_a_row_a_live_table_of_each_key():
    fleet = Keyed(SeqDDCRP(warmup=4), by="key", memory_limit=1)
    fleet.learn_many(table(list("aabbbb"), [1, 2, 0, 1, 2, 3]))
    summary = fleet.summary()
    assert summary["key"].to_pylist() == ["b"] * len(fleet.model_of("b").summary())
    assert summary.drop_columns(["key"]).equals(fleet.model_of("b").summary())
    assert small().summary().column_names[:3] == ["key", "id", "weight"]


def test_objective_and_tables_are_sums():
    fleet = small()
    fleet.learn_many(stream(5, 60))
    models = [fleet.model_of(key) for key in fleet.keys]
    assert fleet.objective == pytest.approx(sum(model.objective for model in models), rel=1e-14)
    assert fleet.n_tables == sum(model.n_tables for model in models)


def test_a_copy_of_a_model_is_independent():
    fleet = small()
    fleet.learn_many(table(["a"], [1.0]))
    before = states(fleet)
    fleet.model_of("a").learn_one({"y": 2.0})
    assert states(fleet) == before


# -- checkpoints -----------------------------------------------------------------------------------


def test_a_saved_copy_goes_on(tmp_path):
    fleet = small(memory_limit=2 * one_model())
    fleet.learn_many(stream(9, 100))
    fleet.save(tmp_path / "a", cursor={"row": 100})
    fleet.save(tmp_path / "a", cursor={"row": 100})
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    twins = [Keyed.load(tmp_path / "a"), pickle.loads(pickle.dumps(fleet)), copy.deepcopy(fleet)]
    assert twins[0].cursor == {"row": 100}
    assert twins[0].memory_limit == fleet.memory_limit
    more = stream(12, 100, seed=1)
    out = fleet.step_many(more)
    for twin in twins:
        assert twin.step_many(more).equals(out)
        assert states(twin) == states(fleet)


def test_a_copy_encodes_only_what_changed_since_the_last(monkeypatch):
    fleet = small()
    fleet.learn_many(stream(20, 100))
    blob, encoded = fleet.to_bytes(), []
    to_bytes = SeqDDCRP.to_bytes
    monkeypatch.setattr(SeqDDCRP, "to_bytes", lambda m: encoded.append(m.n_seen) or to_bytes(m))
    fleet.learn_one({"key": 3, "y": 1.0})
    later = fleet.to_bytes()
    assert encoded == [0, fleet.model_of(3).n_seen]  # that of new keys, and one
    other = Keyed.from_bytes(blob)
    other.learn_one({"key": 3, "y": 1.0})
    assert states(Keyed.from_bytes(later)) == states(other) == states(fleet)


def test_a_store_can_be_loaded_and_saved_beside_itself(tmp_path):
    with small(store=tmp_path / "store") as fleet:
        fleet.learn_many(stream(3, 30))
        fleet.save(tmp_path / "store", cursor=30)  # the same as save(cursor=30)
        fleet.save(tmp_path / "copy")
        expected = states(fleet)
    for name in ("store", "copy"):
        assert states(Keyed.load(tmp_path / name)) == expected
    with small(store=tmp_path / "store") as fleet:
        assert states(fleet) == expected
        assert fleet.cursor == 30


def test_an_open_store_is_shared(tmp_path):
    with SqliteStore(tmp_path / "store") as store:
        fleet = small(store=store, memory_limit=1)
        fleet.learn_many(stream(3, 30))
        fleet.save(cursor=1)
        assert store.offset("run") == 1
        assert store.keys("model") == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("options", "by", "match"),
    [
        ({**OPTIONS, "alpha": 0.7}, "key", "made with other options of SeqDDCRP"),
        (OPTIONS, "pump", "was made with SeqDDCRP by 'key', not SeqDDCRP by 'pump'"),
    ],
)
def test_a_store_of_another_model_is_refused(tmp_path, options, by, match):
    with small(store=tmp_path / "store") as fleet:
        fleet.learn_many(stream(3, 30))
        fleet.save()
        expected = states(fleet)
    with pytest.raises(CheckpointError, match=match):
        Keyed(SeqDDCRP(**options), by=by, store=tmp_path / "store")
    assert states(Keyed.load(tmp_path / "store")) == expected


def test_files_of_something_else_are_refused(tmp_path):
    with pytest.raises(CheckpointError, match="no such file"):
        Keyed.load(tmp_path / "absent")
    assert not list(tmp_path.iterdir())
    with SqliteStore(tmp_path / "other") as store:
        store.commit("model", {"a": b"1"}, "run", 1)
    with pytest.raises(CheckpointError, match="holds nothing that a Keyed saved"):
        Keyed.load(tmp_path / "other")
    with pytest.raises(CheckpointError, match="holds states that no Keyed saved"):
        small(store=tmp_path / "other")
    fleet = small()
    fleet.learn_many(stream(3, 30))
    fleet.save(tmp_path / "good")
    blob = (tmp_path / "good").read_bytes()
    (tmp_path / "bad").write_bytes(blob.replace(b"SDDCRP03", b"SDDCRP04"))
    with pytest.raises(CheckpointError, match="is damaged"):
        Keyed.load(tmp_path / "bad")


def test_saving_needs_a_place(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="needs a store"):
        small().save()
    with pytest.raises(CheckpointError, match="cannot"):
        small().save(tmp_path / "file" / "below")
    fleet = small(store=tmp_path / "store")
    with pytest.raises(CheckpointError, match="in use by another run"):
        small(store=tmp_path / "store")
    fleet.close()
    small(store=tmp_path / "store").close()


def test_options_that_cannot_be_used_are_named():
    with pytest.raises(ConfigError, match="by must be text"):
        Keyed(SeqDDCRP(), by=0)
    unstorable = Keyed(SeqDDCRP(decay=lambda d: np.exp(-d)), by="key")
    with pytest.raises(ConfigError, match="function"):
        unstorable.save("never written")


def test_kill_leaves_the_last_save(tmp_path):
    """States spilled and dirty when the process dies do not touch what was saved."""
    program = (
        "import os, signal, sys\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from tests.unit.test_keyed import small, stream\n"
        "fleet = small(store=sys.argv[1], memory_limit=200_000)\n"
        "for i in range(fleet.cursor or 0, 6):\n"
        "    fleet.learn_many(stream(20, 60, seed=i))\n"
        "    if i == int(sys.argv[3]): os.kill(os.getpid(), signal.SIGKILL)\n"
        "    fleet.save(cursor=i + 1)\n"
    )
    for kill_at in ("3", "9"):
        command = [sys.executable, "-c", program, str(tmp_path / "store"), ".", kill_at]
        killed = subprocess.run(command, check=False).returncode
        assert killed == (0 if kill_at == "9" else -9)
    whole = small()
    for i in range(6):
        whole.learn_many(stream(20, 60, seed=i))
    with small(store=tmp_path / "store") as fleet:
        assert states(fleet) == states(whole)


# -- river -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "check",
    [
        "check_learn_one", "check_pickling", "check_shuffle_features_no_impact",
        "check_predict_one_before_any_learn", "check_no_state_aliasing_with_input",
        "check_clone_is_independent", "check_seeding_is_idempotent", "check_bounded_memory_growth",
    ],
)  # fmt: skip
def test_river_checks(check):
    """Those that leave the key in its place."""
    rng = random.Random(0)
    rows = [({"key": f"k{t % 3}", "a": rng.gauss(3 * (t % 5), 1)}, None) for t in range(300)]
    getattr(common, check)(small(), rows)


def test_events_that_were_read_are_not_reported_after_a_save(tmp_path):
    path = tmp_path / "fleet.sqlite"
    with small(store=path) as fleet:
        fleet.learn_many(stream(3, 40))
        fleet.save()
        assert fleet.events()
        fleet.save()
    with small(store=path) as again:
        assert again.events() == []
        assert all(again.model_of(key).events() == [] for key in again.keys)


@pytest.mark.parametrize(
    "change", [{"class": 3}, {"class": None}, {"by": 0.5}, {"memory": []}, {"integer": "x"},
               {"integer": True}],
)  # fmt: skip
def test_a_forged_header_is_refused(tmp_path, change):
    fleet = Keyed(SeqDDCRP(likelihood=("normal_gamma", 0.0, 0.05, 1.5, 0.5)), by="k")
    fleet.learn_one({"k": "a", "x": 1.0})
    fleet.save(tmp_path / "fleet")
    with SqliteStore(tmp_path / "fleet") as store:
        arrays, meta = decode_state(store.get("keyed", ""), "keyed")
        store.put_aside("keyed", [("", encode_state("keyed", 1, arrays, meta | change))])
        store.commit("keyed", [], "run", None)
    with pytest.raises(StreamDDCRPError):
        Keyed.load(tmp_path / "fleet")
