"""The journal: what was put is there, in order and once, whatever dies or is cut off."""

import os
import random
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from streamddcrp.errors import CheckpointError, ConfigError
from streamddcrp_connectors.live.journal import NAME, Entry, Journal, JournalFullError

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # hundreds of flushes take their time
ENTRIES = st.builds(
    Entry, st.binary(max_size=40), st.sampled_from([b"", b"a", b"b"]), st.booleans()
)


class Model(RuleBasedStateMachine):
    """A journal against a list."""

    def __init__(self):
        super().__init__()
        self.temporary = TemporaryDirectory(dir=MEMORY)
        self.put, self.first, self.keys = [], 0, []
        self.open()

    def open(self):
        self.journal = Journal(Path(self.temporary.name), remembered=1)

    @rule(entries=st.lists(ENTRIES, max_size=5))
    def append(self, entries):
        expected = []
        for message, key, first in entries:
            expected.append(first or not key or key not in self.keys)
            if expected[-1]:
                self.put.append(message)
                if key:
                    self.keys = [*(other for other in self.keys if other != key), key]
        assert self.journal.put_all(entries) == expected

    @rule(back=st.integers(0, 12))
    def trim(self, back):
        before = max(0, len(self.put) - back)
        self.journal.trim(before)
        self.first = max(before, self.first)
        self.keys = self.keys[-1:]

    @rule()
    def reopen(self):
        self.journal.close()
        self.open()

    @rule(back=st.integers(0, 20))
    def read(self, back):
        start = max(self.first, len(self.put) - back)
        assert list(self.journal.read(start)) == list(enumerate(self.put))[start:]

    @invariant()
    def nothing_is_missing(self):
        assert self.journal.end == len(self.put)
        assert self.journal.first == self.first

    def teardown(self):
        self.journal.close()
        self.temporary.cleanup()


TestModel = Model.TestCase
TestModel.settings = settings(stateful_step_count=20, deadline=None)


def message(i):
    return bytes([i]) * 50 * i


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The files of a journal of 20 messages as a loss of power leaves them, and the log's sizes."""
    folder = tmp_path_factory.mktemp("journal")
    journal = Journal(folder)
    log = folder / f"{NAME}-wal"
    empty, sizes = log.stat().st_size, []
    for i in range(20):
        journal.put(message(i))
        sizes.append(log.stat().st_size)
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    journal.close()
    return found, empty, sizes


@given(place=st.floats(0, 1, exclude_max=True), flip=st.booleans())
def test_a_log_cut_or_damaged_anywhere_keeps_what_came_before(files, place, flip):
    found, empty, sizes = files
    data = bytearray(found[f"{NAME}-wal"])
    cut = empty + int(place * (len(data) - empty))
    if flip:
        data[cut] ^= 0x10
    else:
        del data[cut:]
    with TemporaryDirectory(dir=MEMORY) as folder:
        for name, kept in (found | {f"{NAME}-wal": data}).items():
            Path(folder, name).write_bytes(kept)
        journal = Journal(Path(folder))
        whole = sum(size <= cut for size in sizes)
        assert list(journal.read(0)) == [(i, message(i)) for i in range(whole)]
        journal.put(b"after")
        assert list(journal.read(whole)) == [(whole, b"after")]
        journal.close()


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """The file of a journal of 20 messages that was closed."""
    folder = tmp_path_factory.mktemp("journal")
    journal = Journal(folder)
    for i in range(20):
        journal.put(message(i))
    journal.close()
    return (folder / NAME).read_bytes()


@given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(0, 7))
def test_a_damaged_database_gives_no_wrong_message(database, place, flip):
    data = bytearray(database)
    data[int(place * len(data))] ^= 1 << flip
    with TemporaryDirectory(dir=MEMORY) as folder:
        Path(folder, NAME).write_bytes(data)
        try:
            journal = Journal(Path(folder))
        except (ConfigError, CheckpointError):
            return
        got = []
        with suppress(CheckpointError):
            got.extend(journal.read(journal.first))
        first = journal.first
        journal.close()
    assert got == [(i, message(i)) for i in range(first, first + len(got))]


def test_full_until_trimmed(tmp_path):
    journal = Journal(tmp_path, max_bytes=1 << 20)

    def fill():
        while journal.end < 100:
            journal.put(b"x" * 10_000, b"%d" % journal.end)

    with pytest.raises(JournalFullError, match=r"is full: \d+ messages wait for the run"):
        fill()
    n = journal.end
    assert 40 < n < 66  # five eighths of a mebibyte, in pages
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 1 << 20
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
    """Whatever came before, there is room once all is read."""
    journal = Journal(tmp_path, max_bytes=1 << 20)
    for i in range(40):
        journal.put(bytes((1 << 18) - 10_000 * (i % 7)))
        journal.trim(i + 1)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 1 << 20
    with pytest.raises(ConfigError, match="larger than a quarter"):
        journal.put(bytes((1 << 18) + 1))
    journal.close()


@pytest.mark.skipif(os.name != "posix", reason="limits of a process")
def test_a_full_disk_leaves_no_half_message(tmp_path):
    import resource

    journal = Journal(tmp_path)
    journal.put(b"one")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(JournalFullError, match="disk"):
            journal.put(bytes(200_000), b"key")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert journal.put(b"three", b"key")
    assert list(journal.read(0)) == [(0, b"one"), (1, b"three")]
    journal.close()
    journal = Journal(tmp_path)
    assert list(journal.read(0)) == [(0, b"one"), (1, b"three")]
    journal.close()
    with pytest.raises(JournalFullError, match="closed"):
        journal.put(b"four")


def test_one_process_at_a_time(tmp_path):
    journal = Journal(tmp_path)
    with pytest.raises(ConfigError, match="another process"):
        Journal(tmp_path)
    journal.close()
    Journal(tmp_path).close()


def test_messages_of_an_earlier_version_are_not_ignored(tmp_path):
    (tmp_path / "000000000000.journal").write_bytes(b"SDJ1")
    with pytest.raises(ConfigError, match="of a version before SQLite"):
        Journal(tmp_path)
    assert not (tmp_path / NAME).exists()


def test_many_threads(tmp_path):
    journal = Journal(tmp_path)

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
journal = Journal(Path(sys.argv[1]))
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


def test_keys_outlive_their_messages(tmp_path):
    journal = Journal(tmp_path, remembered=100)
    for i in range(20):
        journal.put(b"x" * 60, b"%d" % i)
    journal.trim(20)
    journal.close()
    journal = Journal(tmp_path, remembered=100)
    assert journal.first == 20
    assert journal.put_all([Entry(b"", b"%d" % i) for i in range(20)]) == [False] * 20
    journal.close()
