"""Arrow messages that would take far more memory than they have bytes are refused unread."""

import struct

import numpy as np
import pyarrow as pa
import pytest

from streamddcrp_connectors.live.payloads import LARGEST, MOST_ROWS, Payloads
from streamddcrp_connectors.run.columns import Columns, refusals

MANY = LARGEST // 8 + 1
LONG = "x" * 100_000
COLUMNS = Columns(features=("a",))


def stream(table, compression=None):
    out = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(out, table.schema, options=options) as writer:
        writer.write_table(table)
    return out.getvalue().to_pybytes()


def decoded(message, columns=COLUMNS):
    """Return the number of good rows, and the reasons why others were refused."""
    batch, _ = Payloads(columns).decode([message], None)
    good, refused = refusals(batch)
    return good.num_rows - len(refused), {refusal.reason for refusal in refused.values()}


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_compressed_zeros_are_refused_by_what_they_unpack_to(compression):
    message = stream(pa.table({"a": np.zeros(MANY)}), compression)
    assert len(message) < LARGEST // 100
    before = pa.default_memory_pool().max_memory()
    good, (reason,) = decoded(message)
    assert good == 0
    assert f"unpacks to {8 * MANY:,} bytes" in reason
    assert pa.default_memory_pool().max_memory() == before  # nothing of it was unpacked


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_messages_of_ordinary_size_are_read_whatever_packs_them(compression):
    names = pa.array(["up", "down"]).take(pa.array(np.arange(1000) % 2))
    table = pa.table({"a": np.arange(1000.0), "k": names.dictionary_encode()})
    good, reasons = decoded(stream(table, compression), Columns(None, "k", ("a",)))
    assert (good, reasons) == (1000, set())


def test_a_dictionary_is_measured_too():
    words = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(["y" * (LARGEST + 1)]))
    good, (reason,) = decoded(stream(pa.table({"a": words}), "zstd"))
    assert good == 0
    assert "unpacks to" in reason


@pytest.mark.parametrize("kind", ["dictionary", "view"])
def test_one_long_text_that_many_rows_share(kind):
    n = LARGEST // len(LONG) + 1
    if kind == "dictionary":
        cells = pa.DictionaryArray.from_arrays(pa.array([0] * n), pa.array([LONG]))
    else:  # length, first letters, which buffer, where in it
        views = pa.py_buffer(struct.pack("<i4sii", len(LONG), b"xxxx", 0, 0) * n)
        held = [None, views, pa.py_buffer(LONG.encode())]
        cells = pa.Array.from_buffers(pa.string_view(), n, held)
    message = stream(pa.table({"a": cells}))
    assert len(message) < LARGEST // 100
    columns = Columns(features=("a",), text=True)
    good, (reason,) = decoded(message, columns)
    assert good == 0
    assert f"holds {n * (len(LONG) + 8):,} bytes" in reason
    few = stream(pa.table({"a": cells.slice(0, 3)}))
    assert decoded(few, columns) == (3, set())


@pytest.mark.parametrize("rows", [MOST_ROWS + 1, (1 << 31) - 1])
def test_columns_that_have_no_bytes_at_all(rows):
    nothing = pa.Array.from_buffers(pa.null(), rows, [None])
    message = stream(pa.table({"a": nothing}))
    assert len(message) < 1000
    good, (reason,) = decoded(message)
    assert good == 0
    assert f"{rows:,} rows" in reason


def test_many_columns_without_bytes():
    columns = {f"c{i}": pa.nulls(MOST_ROWS, pa.null()) for i in range(9)}
    good, (reason,) = decoded(stream(pa.table({"a": pa.nulls(MOST_ROWS), **columns})))
    assert good == 0
    assert "holds" in reason


def test_damaged_messages_are_refused_rows():
    message = stream(pa.table({"a": np.arange(100.0)}), "zstd")
    draw = np.random.default_rng(0)
    for _ in range(300):
        data = bytearray(message)
        for at in draw.integers(4, len(data), 3):
            data[at] = draw.integers(256)
        batch, _ = Payloads(COLUMNS).decode([bytes(data)], None)
        assert batch.num_rows <= MOST_ROWS
    for end in range(4, len(message), 7):
        Payloads(COLUMNS).decode([message[:end]], None)
