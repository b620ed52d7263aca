"""The state format: exact round trips, and refusal of everything that was not written by it."""

import hashlib
import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from streamddcrp.checkpoint import SqliteStore, decode_state, encode_state, read_blob, write_atomic
from streamddcrp.checkpoint.codec import DTYPES
from streamddcrp.errors import CheckpointError, ConfigError

arrays_of_any_kind = st.dictionaries(
    st.text(st.characters(codec="utf-8"), max_size=8),
    st.sampled_from(DTYPES).flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0))
    ),
    max_size=5,
)
plain_meta = st.dictionaries(
    st.text(max_size=5),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=5,
    ),
    max_size=4,
)


def example_blob() -> bytes:
    arrays = {"stats": np.arange(6.0).reshape(2, 3), "ids": np.array([3, 1], dtype=np.int64)}
    return encode_state("toy", 1, arrays, {"n": 3, "rng": 2**100})


@given(arrays_of_any_kind, plain_meta)
def test_round_trip_is_exact(arrays, meta):
    found, found_meta = decode_state(encode_state("toy", 1, arrays, meta), "toy")
    assert found_meta == meta
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()  # NaN payloads and signs of zero too
        assert found[name].flags.c_contiguous
        assert found[name].flags.writeable


@given(arrays_of_any_kind, plain_meta)
def test_same_state_gives_same_bytes(arrays, meta):
    reversed_meta = dict(reversed(list(meta.items())))
    assert encode_state("toy", 1, arrays, meta) == encode_state("toy", 1, arrays, reversed_meta)


def test_non_contiguous_and_big_endian_arrays_are_normalised():
    given_arrays = {"t": np.arange(6.0).reshape(2, 3).T, "b": np.arange(3, dtype=">i8")}
    found, _ = decode_state(encode_state("toy", 1, given_arrays, {}), "toy")
    np.testing.assert_array_equal(found["t"], given_arrays["t"])
    np.testing.assert_array_equal(found["b"], given_arrays["b"])
    assert found["b"].dtype == np.dtype("<i8")


def test_non_finite_settings_survive():
    _, meta = decode_state(encode_state("toy", 1, {}, {"last": -math.inf}), "toy")
    assert meta == {"last": -math.inf}


def test_every_single_bit_flip_is_refused():
    blob = example_blob()
    for position in range(len(blob)):
        for bit in range(8):
            damaged = bytearray(blob)
            damaged[position] ^= 1 << bit
            with pytest.raises(CheckpointError):
                decode_state(bytes(damaged), "toy")


def test_every_truncation_is_refused():
    blob = example_blob()
    for length in range(len(blob)):
        with pytest.raises(CheckpointError, match="truncated"):
            decode_state(blob[:length], "toy")
        with pytest.raises(CheckpointError, match="truncated"):
            decode_state(blob[length + 1 :], "toy")


@given(arrays_of_any_kind, st.data())
def test_any_damage_is_refused(arrays, data):
    blob = encode_state("toy", 1, arrays, {"n": 1})
    start = data.draw(st.integers(0, len(blob) - 1))
    stop = data.draw(st.integers(start, len(blob)))
    patch = data.draw(st.binary(max_size=20))
    damaged = blob[:start] + patch + blob[stop:]
    if damaged != blob:
        with pytest.raises(CheckpointError):
            decode_state(damaged, "toy")


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused(blob):
    with pytest.raises(CheckpointError):
        decode_state(blob, "toy")


@given(st.binary(max_size=400))
def test_a_correct_checksum_over_rubbish_is_refused(body):
    with pytest.raises(CheckpointError, match="not a state"):
        decode_state(sealed(body), "toy")


def sealed(body: bytes, magic: bytes = b"SDDCRP03") -> bytes:
    return body + magic + hashlib.sha256(body + magic).digest()


HEAD = {"model": "toy", "version": 1, "meta": {}, "arrays": [["a", "<f8", [2]]]}


def by_hand(head=HEAD, data=bytes(16)):
    """Write a state by hand, with a right checksum."""
    text = json.dumps(head).encode()
    return sealed(len(text).to_bytes(4, "little") + text + data)


def test_what_is_written_by_hand_is_read():
    for data in bytes(16), pa.Codec("zstd").compress(bytes(16), asbytes=True):
        arrays, _ = decode_state(by_hand(data=data), "toy")
        assert arrays["a"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "arrays",
    [
        [["a", "<f8", [2]]] * 2,
        [["a", "<f8"]],
        [[None, "<f8", [2]]],
        [["a", None, [2]]],
        [["a", "|O", [2]]],
        [["a", "<U2", [2]]],
        [["a", "x", [2]]],
        *(
            [["a", "<f8", shape]]
            for shape in (
                None, [], [3], [-2], [-1, -2], [None], [2.0], [True, 2], [1] * 8 + [2],
                [2**62, 2**62], [0], "2",
            )
        ),
        None,
    ],
)  # fmt: skip
def test_what_are_no_arrays_is_refused(arrays):
    with pytest.raises(CheckpointError, match="not a state"):
        decode_state(by_hand(HEAD | {"arrays": arrays}), "toy")


@pytest.mark.parametrize("data", [b"", bytes(15), bytes(17), b"rubbish!!"])
def test_data_of_another_size_are_refused(data):
    for stored in data, pa.Codec("zstd").compress(data, asbytes=True):
        with pytest.raises(CheckpointError, match="not a state"):
            decode_state(by_hand(data=stored), "toy")


@pytest.mark.parametrize("missing", list(HEAD))
def test_missing_head_is_refused(missing):
    head = {key: value for key, value in HEAD.items() if key != missing}
    with pytest.raises(CheckpointError, match="not a state"):
        decode_state(by_hand(head), "toy")


def test_a_bomb_is_refused_before_it_is_unpacked(monkeypatch):
    """Whatever its head says; states of zeros are stored as they are."""
    zeros = encode_state("toy", 1, {"a": np.zeros(1 << 20)}, {})
    assert len(zeros) > 8 << 20
    assert not decode_state(zeros, "toy")[0]["a"].any()
    packed = pa.Codec("zstd").compress(bytes(8 << 20), asbytes=True)
    head = HEAD | {"arrays": [["a", "<f8", [1 << 20]]]}
    monkeypatch.setattr("streamddcrp.checkpoint.codec._CODEC", None)
    with pytest.raises(CheckpointError, match="wrong size"):
        decode_state(by_hand(head, packed), "toy")
    deep = b"[" * 100_000
    with pytest.raises(CheckpointError, match="not a state"):
        decode_state(sealed(len(deep).to_bytes(4, "little") + deep), "toy")


@pytest.mark.parametrize(
    "array", [np.array([object()]), np.array(["a"]), np.array([1 + 2j]), np.array([1], "M8[s]")]
)
def test_types_that_are_no_plain_numbers_are_refused(array):
    with pytest.raises(CheckpointError, match="'bad' has type"):
        encode_state("toy", 1, {"bad": array}, {})


def test_limits_of_a_state(monkeypatch):
    with pytest.raises(CheckpointError, match="axes"):
        encode_state("toy", 1, {"deep": np.zeros((1,) * 9)}, {})
    with pytest.raises(CheckpointError, match="at least 1"):
        encode_state("toy", 0, {}, {})
    with pytest.raises(CheckpointError, match="at most 4096 arrays"):
        encode_state("toy", 1, {str(i): np.zeros(1) for i in range(4097)}, {})
    blob = example_blob()
    monkeypatch.setattr("streamddcrp.checkpoint.codec.MAX_BYTES", 100)
    with pytest.raises(CheckpointError, match="at most 100"):
        encode_state("toy", 1, {"wide": np.zeros(100)}, {})
    with pytest.raises(CheckpointError, match="more than 100"):
        decode_state(blob, "toy")


@pytest.mark.parametrize("value", [{1, 2}, np.float64, b"bytes", object()])
def test_settings_that_are_no_json_are_refused(value):
    with pytest.raises(CheckpointError, match="plain JSON"):
        encode_state("toy", 1, {}, {"bad": value})


def test_another_model_is_refused():
    with pytest.raises(CheckpointError, match="of a 'toy' model, expected 'other'"):
        decode_state(example_blob(), "other")


@pytest.mark.parametrize("version", [float("inf"), 1.5, True, None, "1"])
def test_a_version_is_a_whole_number(version):
    with pytest.raises(CheckpointError, match=r"not a state|version"):
        decode_state(by_hand(HEAD | {"version": version}), "toy")


def test_a_newer_version_is_refused():
    blob = encode_state("toy", 3, {}, {})
    with pytest.raises(CheckpointError, match="install a newer streamddcrp"):
        decode_state(blob, "toy", {1: lambda a, m: (a, m)})


def test_upgrades_run_in_order_from_the_stored_version():
    def to_two(arrays, meta):
        return {"x": arrays["x"] + 1}, {**meta, "path": [*meta["path"], 2]}

    def to_three(arrays, meta):
        return {"y": arrays["x"] * 10}, {**meta, "path": [*meta["path"], 3]}

    upgrades = {1: to_two, 2: to_three}
    x = {"x": np.array([1.0])}
    for version, value, path in [(1, 20.0, [2, 3]), (2, 10.0, [3])]:
        arrays, meta = decode_state(encode_state("toy", version, x, {"path": []}), "toy", upgrades)
        assert arrays["y"].tolist() == [value]
        assert meta["path"] == path
    arrays, meta = decode_state(encode_state("toy", 3, x, {"path": []}), "toy", upgrades)
    assert arrays["x"].tolist() == [1.0]
    with pytest.raises(CheckpointError, match="no longer reads"):
        decode_state(encode_state("toy", 1, x, {}), "toy", {2: to_three})


def test_write_atomic_replaces_and_leaves_nothing_behind(tmp_path: Path):
    target = tmp_path / "model.state"
    write_atomic(target, b"old")
    write_atomic(target, b"new")
    assert read_blob(target) == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["model.state"]


def test_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch):
    target = tmp_path / "model.state"
    write_atomic(target, b"old")

    def fail(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(CheckpointError, match="No space left"):
        write_atomic(target, b"new")
    assert read_blob(target) == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["model.state"]


def test_unusable_paths_are_reported(tmp_path: Path):
    with pytest.raises(CheckpointError, match="cannot write"):
        write_atomic(tmp_path / "absent" / "model.state", b"x")
    with pytest.raises(CheckpointError, match="cannot read"):
        read_blob(tmp_path / "absent")


KEY = "STREAMDDCRP_STATE_KEY"


def test_states_with_a_key(monkeypatch):
    arrays = {"a": np.arange(3)}
    plain = encode_state("toy", 1, arrays, {})
    monkeypatch.setenv(KEY, "a key of some length")
    keyed = encode_state("toy", 1, arrays, {})
    assert decode_state(keyed, "toy")[0]["a"].tolist() == [0, 1, 2]
    with pytest.raises(CheckpointError, match="without a key"):
        decode_state(plain, "toy")
    changed = bytearray(keyed)
    changed[len(keyed) // 2] ^= 1
    with pytest.raises(CheckpointError, match="HMAC"):
        decode_state(bytes(changed), "toy")
    monkeypatch.setenv(KEY, "another key of some length")
    with pytest.raises(CheckpointError, match="HMAC"):
        decode_state(keyed, "toy")
    monkeypatch.delenv(KEY)
    with pytest.raises(CheckpointError, match=f"set {KEY}"):
        decode_state(keyed, "toy")
    monkeypatch.setenv(KEY, "short")
    with pytest.raises(ConfigError, match="16 bytes"):
        encode_state("toy", 1, arrays, {})


def test_a_store_with_a_key(monkeypatch, tmp_path):
    monkeypatch.setenv(KEY, "a key of some length")
    with SqliteStore(tmp_path / "s.sqlite") as store:
        store.commit("model", {"a": b"state"}, "rows", {"row": 1})
    with SqliteStore(tmp_path / "s.sqlite") as store:
        assert store.get("model", "a") == b"state"
    monkeypatch.setenv(KEY, "another key of some length")
    with pytest.raises(CheckpointError, match="another STREAMDDCRP_STATE_KEY"):
        SqliteStore(tmp_path / "s.sqlite")
