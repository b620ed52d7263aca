"""The journal: what was put is there, in order and once, whatever dies or is cut off."""

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from streamddcrp.errors import CheckpointError, ConfigError
from streamddcrp_connectors.live.journal import Entry, Journal, JournalFullError

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # hundreds of flushes take their time
ENTRIES = st.builds(
    Entry, st.binary(max_size=40), st.sampled_from([b"", b"a", b"b"]), st.booleans()
)


class Model(RuleBasedStateMachine):
    """A journal of tiny segments against a list."""

    def __init__(self):
        super().__init__()
        self.temporary = TemporaryDirectory(dir=MEMORY)
        self.folder = Path(self.temporary.name)
        self.put, self.first, self.keys = [], 0, []
        self.open()

    def open(self):
        self.journal = Journal(self.folder, segment_bytes=120, remembered=1)

    @rule(entries=st.lists(ENTRIES, max_size=5))
    def append(self, entries):
        new = self.journal.put_all(entries)
        expected = []
        known = self.keys
        for message, key, first in entries:
            expected.append(first or not key or key not in known)
            if expected[-1]:
                self.put.append(message)
                known = [*(other for other in known if other != key), key] if key else known
        self.keys = known[-1:]
        assert new == expected

    @rule(back=st.integers(0, 12))
    def trim(self, back):
        before = max(0, len(self.put) - back)
        self.journal.trim(before)
        assert self.journal.first <= max(before, self.first)
        self.first = self.journal.first

    @rule(junk=st.binary(max_size=30))
    def reopen_with_a_torn_tail(self, junk):
        self.journal.close()
        last = max(self.folder.glob("*.journal"))
        with last.open("ab") as file:
            file.write(junk)
        self.open()

    @rule()
    def die_while_a_segment_is_made(self):
        self.journal.close()
        whole = max(self.folder.glob("*.journal")).read_bytes()
        path = self.folder / f"{len(self.put) + 1000:020d}.journal"
        path.write_bytes(whole[:10])
        self.open()

    @rule(back=st.integers(0, 20))
    def read(self, back):
        start = max(self.first, len(self.put) - back)
        assert list(self.journal.read(start)) == list(enumerate(self.put))[start:]

    @invariant()
    def nothing_is_missing(self):
        assert self.journal.end == len(self.put)
        assert self.journal.first == self.first
        assert self.journal.n_bytes == sum(p.stat().st_size for p in self.folder.glob("*.journal"))

    def teardown(self):
        self.journal.close()
        self.temporary.cleanup()


TestModel = Model.TestCase
TestModel.settings = settings(stateful_step_count=20, deadline=None)


@pytest.fixture(scope="module")
def segment(tmp_path_factory):
    """A segment of 20 messages, and the byte at which each ends."""
    folder = tmp_path_factory.mktemp("journal")
    journal = Journal(folder)
    ends = []
    for i in range(20):
        journal.put(bytes([i]) * i)
        ends.append(journal.n_bytes)
    journal.close()
    return min(folder.glob("*.journal")).read_bytes(), ends


@given(cut=st.integers(0, 700), flip=st.booleans())
def test_cut_or_damaged_anywhere_keeps_what_came_before(segment, cut, flip):
    data, ends = bytearray(segment[0]), segment[1]
    cut = min(cut, len(data) - 1)
    if flip:
        data[cut] ^= 0x10
    else:
        del data[cut:]
    with TemporaryDirectory(dir=MEMORY) as folder:
        Path(folder, f"{0:020d}.journal").write_bytes(data)
        journal = Journal(Path(folder))
        whole = sum(end <= cut for end in ends)
        assert list(journal.read(0)) == [(i, bytes([i]) * i) for i in range(whole)]
        journal.put(b"after")
        assert list(journal.read(whole)) == [(whole, b"after")]
        journal.close()


def test_damage_before_the_last_segment_is_an_error(tmp_path):
    journal = Journal(tmp_path, segment_bytes=100)
    for _ in range(10):
        journal.put(b"x" * 60)
    journal.close()
    first = min(tmp_path.glob("*.journal"))
    first.write_bytes(first.read_bytes()[:-1])
    journal = Journal(tmp_path)
    with pytest.raises(CheckpointError, match="is damaged"):
        list(journal.read(0))
    journal.close()


def test_full_until_trimmed(tmp_path):
    journal = Journal(tmp_path, max_bytes=4000)
    n = 0
    while journal.n_bytes + 117 <= 4000:
        journal.put(b"x" * 100)
        n += 1
    with pytest.raises(JournalFullError, match=r"is full: .* wait for the run"):
        journal.put(b"x" * 100)
    assert n > 20
    assert journal.n_bytes <= 4000
    assert [number for number, _ in journal.read(0)] == list(range(n))
    journal.trim(n)
    journal.put(b"y")
    assert list(journal.read(n)) == [(n, b"y")]
    with pytest.raises(CheckpointError, match="do not belong together"):
        list(journal.read(0))
    with pytest.raises(CheckpointError, match="do not belong together"):
        list(journal.read(n + 2))
    journal.close()


def test_large_messages_come_and_go(tmp_path):
    """Whatever is left of the last segment, there is room once all is read."""
    journal = Journal(tmp_path, max_bytes=4000)
    for i in range(20):
        journal.put(bytes(2000 - 100 * (i % 7)))
        journal.trim(i + 1)
    assert journal.n_bytes < 4000
    with pytest.raises(ConfigError, match="larger than half"):
        journal.put(bytes(2001))
    journal.close()


def test_a_full_disk_leaves_no_half_message(tmp_path, monkeypatch):
    journal = Journal(tmp_path)
    journal.put(b"one")
    whole = journal._tail.append

    def half(data):
        whole(data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal._tail, "append", half)
    with pytest.raises(JournalFullError, match="No space left"):
        journal.put(b"two", b"key")
    monkeypatch.undo()
    assert journal.put(b"three", b"key")
    assert list(journal.read(0)) == [(0, b"one"), (1, b"three")]
    journal.close()
    journal = Journal(tmp_path)
    assert list(journal.read(0)) == [(0, b"one"), (1, b"three")]
    journal.close()


def test_a_flush_that_failed_ends_the_journal(tmp_path, monkeypatch):
    journal = Journal(tmp_path)

    def fail(_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(JournalFullError, match="Input/output"):
        journal.put(b"one")
    monkeypatch.undo()
    with pytest.raises(JournalFullError, match="Input/output"):
        journal.put(b"two")
    assert journal.end == 0
    journal.close()


def test_one_process_at_a_time(tmp_path):
    journal = Journal(tmp_path)
    with pytest.raises(ConfigError, match="another process"):
        Journal(tmp_path)
    journal.close()
    Journal(tmp_path).close()


def test_many_threads(tmp_path):
    journal = Journal(tmp_path, segment_bytes=2000)

    def send(name):
        for i in range(50):
            journal.put(f"{name}:{i}".encode(), f"{name}:{i // 2}".encode())

    threads = [threading.Thread(target=send, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    got = []
    while len(got) < 100 and journal.wait(len(got), 10):
        got += [message for _, message in journal.read(len(got))]
    for thread in threads:
        thread.join()
    for name in range(4):
        mine = [message for message in got if message.startswith(b"%d:" % name)]
        assert mine == [b"%d:%d" % (name, i) for i in range(0, 50, 2)]
    assert not journal.wait(100, 0)
    journal.close()


WRITER = """
import sys
from pathlib import Path
from streamddcrp_connectors.live.journal import Entry, Journal
journal = Journal(Path(sys.argv[1]), segment_bytes=500)
n = journal.end
while True:
    journal.put_all([Entry(b"%d" % i) for i in range(n, n + 3)])
    n += 3
    print(n, flush=True)
"""


def killed(folder, draw, times):
    """Let writers be killed at random moments; what they reported must be there."""
    reported = 0
    for _ in range(times):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(draw.randint(1, 30)):
            reported = int(writer.stdout.readline())
        os.kill(writer.pid, signal.SIGKILL)
        rest = writer.stdout.read().split()
        writer.stdout.close()
        writer.wait()
        reported = int(rest[-1]) if rest and rest[-1].isdigit() else reported
        journal = Journal(folder)
        assert journal.end >= reported
        numbers = [int(message) for _, message in journal.read(0)]
        assert numbers == list(range(journal.end))
        journal.close()


def test_writers_that_are_killed(tmp_path):
    killed(tmp_path, random.Random(0), 3)


@pytest.mark.slow
def test_writers_that_are_killed_thoroughly(tmp_path):
    killed(tmp_path, random.Random(1), 50)


def test_keys_outlive_their_segments(tmp_path):
    journal = Journal(tmp_path, segment_bytes=100, remembered=100)
    for i in range(20):
        journal.put(b"x" * 60, b"%d" % i)
    journal.trim(20)
    journal.close()
    journal = Journal(tmp_path, segment_bytes=100, remembered=100)
    assert journal.first > 10
    assert journal.put_all([Entry(b"", b"%d" % i) for i in range(20)]) == [False] * 20
    journal.close()
