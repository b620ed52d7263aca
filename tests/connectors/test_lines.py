"""Whole lines, however the bytes arrive."""

import io
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamddcrp.errors import SchemaError
from streamddcrp_connectors.run import lines
from streamddcrp_connectors.run.lines import LineReader, RotatedError

text = st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r\n", b" "]), max_size=40).map(b"".join)


class Drip(io.RawIOBase):
    """A pipe that hands over its bytes in pieces of given sizes."""

    def __init__(self, data, sizes):
        self.data, self.sizes = data, list(sizes)

    def read1(self, _):
        size = self.sizes.pop(0) if self.sizes else 1
        piece, self.data = self.data[:size], self.data[size:]
        return piece


@given(text, st.lists(st.integers(1, 9)), st.integers(1, 5), st.booleans())
def test_blocks_are_the_lines_of_the_stream(data, sizes, max_lines, live):
    reader = LineReader(Drip(data, sizes), "drip", live=live)
    blocks = list(reader.blocks(max_lines))
    assert b"".join(blocks) == data
    assert reader.position == len(data)
    counts = [block.count(b"\n") for block in blocks]
    assert all(block.endswith(b"\n") for block in blocks[:-1])
    assert all(count <= max_lines for count in counts)
    if not live:  # all blocks are full but the last one, and a rest without line feed
        assert all(count == max_lines for count in counts[:-2])


@given(text, st.lists(st.integers(1, 9)), st.integers(0, 12), st.integers(1, 5), st.booleans())
def test_lines_that_were_looked_at_come_all_the_same(data, sizes, size, max_lines, live):
    reader = LineReader(Drip(data, sizes), "drip", live=live)
    peeked = reader.peek(size)
    assert data.startswith(peeked)
    assert bool(peeked.strip()) == bool(data.strip())
    assert peeked == data or peeked.endswith(b"\n") or not peeked
    assert reader.position == 0
    skipped = peeked.find(b"\n") + 1
    reader.skip(skipped)
    assert b"".join(reader.blocks(max_lines)) == data[skipped:]
    assert reader.position == len(data)


def test_every_line_end_is_a_place_to_go_on(tmp_path):
    path = tmp_path / "rows"
    path.write_bytes(b"one\n\ntwo\r\nthree")
    for max_lines in (1, 2, 3):
        with path.open("rb", buffering=0) as file:
            reader = LineReader(file, str(path))
            places = [(block, reader.position) for block in reader.blocks(max_lines)]
        for i, (_, position) in enumerate(places):
            with path.open("rb", buffering=0) as file:
                again = LineReader(file, str(path))
                again.seek(position)
                rest = [(block, again.position) for block in again.blocks(max_lines)]
            assert rest == places[i + 1 :]


@pytest.mark.parametrize(
    ("before", "after", "fine"),
    [
        (b"1\n2", b"1\n2", True),
        (b"1\n2", b"1\n2\n3\n", True),
        (b"1\n2", b"1\n2\r\n3\n", True),
        (b"1\n2", b"1\n2\r\n", True),
        (b"1\n2\n", b"1\n2\n3\n", True),
        (b"1\n2", b"1\n23\n", False),
        (b"1\n2", b"1\n2,\n", False),
        (b"1\n2\n", b"1\n", False),
    ],
)
def test_a_file_that_changed_under_the_place_is_noticed(tmp_path, before, after, fine):
    path = tmp_path / "rows"
    path.write_bytes(after)
    with path.open("rb", buffering=0) as file:
        reader = LineReader(file, str(path))
        if fine:
            reader.seek(len(before))
            assert b"".join(reader.blocks(9)) == after[len(before) :]
        else:
            with pytest.raises(SchemaError, match=r"grown|shorter"):
                reader.seek(len(before))


def test_a_growing_file_gives_whole_lines_only(tmp_path):
    path = tmp_path / "rows"
    path.write_bytes(b"1\n2")
    got = []

    def write():
        for piece in (b"2\n3", b"", b"3\n", b"4\n5\n66"):
            time.sleep(0.05)
            with path.open("ab") as file:
                file.write(piece)

    writer = threading.Thread(target=write)
    writer.start()
    with path.open("rb", buffering=0) as file:
        reader = LineReader(file, str(path), follow=True, idle=0.3, poll=0.01)
        came = list(reader.blocks(10))
    writer.join()
    got = [block for block in came if block]
    assert len(came) > len(got)  # it says that nothing came
    assert b"".join(got) == b"1\n22\n33\n4\n5\n"
    assert all(block.endswith(b"\n") for block in got)
    assert reader.position == len(b"1\n22\n33\n4\n5\n")


@pytest.mark.parametrize("change", ["cut", "replace"])
def test_a_followed_file_must_stay_the_same_file(tmp_path, change):
    path = tmp_path / "rows"
    path.write_bytes(b"1\n2\n")
    with path.open("rb", buffering=0) as file:
        blocks = LineReader(file, str(path), follow=True, idle=0.1, poll=0.01).blocks(10)
        assert next(blocks) == b"1\n2\n"
        if change == "cut":
            path.write_bytes(b"")
        else:
            other = tmp_path / "other"
            other.write_bytes(b"1\n2\n3\n")
            other.replace(path)
        with pytest.raises(RotatedError, match="while it was being followed"):
            next(blocks)


def test_a_removed_file_is_waited_for_quietly(tmp_path):
    path = tmp_path / "rows"
    path.write_bytes(b"1\n")
    with path.open("rb", buffering=0) as file:
        blocks = LineReader(file, str(path), follow=True, idle=0.05, poll=0.01).blocks(10)
        next(blocks)
        path.unlink()
        assert set(blocks) == {b""}


def test_a_line_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(lines, "MAX_LINE", 1000)
    monkeypatch.setattr(lines, "_READ", 100)
    reader = LineReader(io.BytesIO(b"x\n" + b"y" * 5000), "bytes")
    with pytest.raises(SchemaError, match="a line of more than"):
        list(reader.blocks(1))
