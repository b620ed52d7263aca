"""The SQLite store: commits are whole, survive a kill, and damage or sharing is noticed."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from streamddcrp.checkpoint import SqliteStore
from streamddcrp.checkpoint import store as store_module
from streamddcrp.errors import CheckpointError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "state.sqlite"


def test_parts_that_read_the_same_have_different_digests():
    digest = store_module._digest
    assert len({digest("ab", "c"), digest("a", "bc"), digest("abc"), digest("abc", b"")}) == 4


def test_new_store_is_empty(path):
    with SqliteStore(path) as store:
        assert store.offset("rows") is None
        assert store.get("model", "a") is None
        assert store.keys("model") == []


def test_commits_survive_closing(path):
    with SqliteStore(path) as store:
        store.commit("model", {"a": b"1", "": b"\x00"}, "rows", {"row": 1})
        store.commit("model", {"a": b"2"}, "rows", {"row": 2})
        store.commit("other", {"a": b"3"}, "lines", [1, None, "x"])
    with SqliteStore(path) as store:
        assert store.keys("model") == ["", "a"]
        assert store.get("model", "a") == b"2"
        assert store.get("model", "") == b"\x00"
        assert store.get("other", "a") == b"3"
        assert store.offset("rows") == {"row": 2}
        assert store.offset("lines") == [1, None, "x"]


@contextmanager
def failing_at_the_cursor(monkeypatch, failure):
    """Make a commit fail after its states were written and before its cursor was."""
    real = store_module._digest

    def digest(*parts):
        return failure() if parts[0] == "rows" else real(*parts)

    with monkeypatch.context() as patched:
        patched.setattr(store_module, "_digest", digest)
        yield


def refuse():
    raise sqlite3.OperationalError


def interrupt():
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("failure", "error"), [(refuse, CheckpointError), (interrupt, KeyboardInterrupt)]
)
def test_failed_commit_changes_nothing(path, monkeypatch, failure, error):
    with SqliteStore(path) as store:
        store.commit("model", {"a": b"1"}, "rows", 1)
        with failing_at_the_cursor(monkeypatch, failure), pytest.raises(error):
            store.commit("model", {"a": b"2", "b": b"2"}, "rows", 2)
        with pytest.raises(TypeError):
            store.commit("model", {"a": b"2"}, "rows", object())
        assert (store.keys("model"), store.get("model", "a")) == (["a"], b"1")
        assert store.offset("rows") == 1
        store.commit("model", {"a": b"3"}, "rows", 3)
        assert (store.get("model", "a"), store.offset("rows")) == (b"3", 3)


def test_what_is_put_aside_is_read_and_lost_without_a_commit(path):
    with SqliteStore(path) as store:
        store.commit("model", {"a": b"1", "b": b"1"}, "rows", 1)
        store.put_aside("model", [("a", b"2"), ("c", b"2")])
        store.put_aside("other", [("a", b"3")])
        assert store.keys("model") == ["a", "b", "c"]
        assert [store.get("model", key) for key in "abc"] == [b"2", b"1", b"2"]
    with SqliteStore(path) as store:
        assert store.keys("model") == ["a", "b"]
        assert [store.get("model", key) for key in "abc"] == [b"1", b"1", None]
        assert store.get("other", "a") is None


def test_a_commit_takes_in_what_was_put_aside(path, monkeypatch):
    with SqliteStore(path) as store:
        store.commit("model", {"a": b"1", "b": b"1"}, "rows", 1)
        store.put_aside("model", [("a", b"2"), ("b", b"2")])
        with failing_at_the_cursor(monkeypatch, interrupt), pytest.raises(KeyboardInterrupt):
            store.commit("model", {"b": b"3"}, "rows", 2)
        assert [store.get("model", key) for key in "ab"] == [b"2", b"2"]
        store.commit("model", iter([("b", b"3")]), "rows", 2)
        assert [store.get("model", key) for key in "ab"] == [b"2", b"3"]
    with SqliteStore(path) as store:
        assert [store.get("model", key) for key in "ab"] == [b"2", b"3"]


def test_a_failed_block_undoes_what_it_put_aside(path):
    with SqliteStore(path) as store:
        store.commit("model", {"a": b"1"}, "rows", 1)
        store.put_aside("model", [("b", b"1")])

        def fail():
            with store.undoing():
                store.put_aside("model", [("a", b"2"), ("b", b"2")])
                store.put_aside("model", [("c", b"2")])
                raise KeyError

        with pytest.raises(KeyError):
            fail()
        assert [store.get("model", key) for key in "abc"] == [b"1", b"1", None]
        with store.undoing():
            store.put_aside("model", [("a", b"2")])
        assert store.get("model", "a") == b"2"


def test_a_temporary_store_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("SQLITE_TMPDIR", str(tmp_path))
    with SqliteStore() as store:
        store.put_aside("model", [("a", bytes(10_000_000))])
        assert len(store.get("model", "a")) == 10_000_000
    assert list(tmp_path.iterdir()) == []


def test_a_second_run_is_refused(path):
    with SqliteStore(path), pytest.raises(CheckpointError, match="in use by another run"):
        SqliteStore(path)
    SqliteStore(path).close()


@pytest.mark.parametrize(
    "statement",
    [
        "update state set blob = x'ff'",
        "update state set key = 'b'",
        "update cursor set offset = '9'",
        "update cursor set source = 'lines'",
    ],
)
def test_altered_rows_are_refused(path, statement):
    with SqliteStore(path) as store:
        store.commit("model", {"a": b"1"}, "rows", 1)
    raw = sqlite3.connect(path)
    raw.execute(statement)
    raw.commit()
    raw.close()
    with SqliteStore(path) as store, pytest.raises(CheckpointError, match="damaged"):
        [store.offset("lines"), store.offset("rows"), *map(store.get, ["model"] * 2, "ab")]


def test_any_damaged_byte_of_a_value_is_noticed(path):
    """A flipped bit gives the right value, an error or an absent entry; never a wrong value."""
    with SqliteStore(path) as store:
        store.commit("model", {"a": bytes(range(256))}, "rows", {"row": 12345})
    original = path.read_bytes()
    draw = random.Random(1)
    for _ in range(200):
        damaged = bytearray(original)
        damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
        path.write_bytes(bytes(damaged))
        try:
            with SqliteStore(path) as store:
                assert store.get("model", "a") in (bytes(range(256)), None)
                assert store.offset("rows") in ({"row": 12345}, None)
        except CheckpointError:
            pass
        for leftover in path.parent.glob("state.sqlite-*"):
            leftover.unlink()


def test_a_store_that_is_dropped_is_closed():
    store = SqliteStore()
    database = store._db
    del store
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        database.execute("select 1")


def test_files_that_are_no_store_are_refused(path, tmp_path):
    path.parent.mkdir()
    path.write_bytes(b"not a database, only text " * 100)
    with pytest.raises(CheckpointError, match="cannot open"):
        SqliteStore(path)
    foreign = tmp_path / "foreign.sqlite"
    raw = sqlite3.connect(foreign)
    raw.execute("create table theirs(x)")
    raw.commit()
    raw.close()
    with pytest.raises(CheckpointError, match="another program"):
        SqliteStore(foreign)
    newer = tmp_path / "newer.sqlite"
    SqliteStore(newer).close()
    raw = sqlite3.connect(newer)
    raw.execute("pragma user_version=99")
    raw.commit()
    raw.close()
    with pytest.raises(CheckpointError, match="newer streamddcrp"):
        SqliteStore(newer)


def test_unwritable_place_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot open"):
        SqliteStore(tmp_path / "file" / "state.sqlite")
    with pytest.raises(CheckpointError, match="cannot open"):
        SqliteStore(tmp_path)  # a folder


def test_kill_in_the_middle_leaves_a_whole_commit(path):
    """After kill -9 the states and the cursor are of one commit."""
    program = (
        "import sys, os\n"
        "from streamddcrp.checkpoint import SqliteStore\n"
        "store = SqliteStore(sys.argv[1])\n"
        "n = store.offset('rows') or 0\n"
        "while True:\n"
        "    n += 1\n"
        "    states = {str(k): str(n).encode() * 1000 for k in range(50)}\n"
        "    store.commit('model', states, 'rows', n)\n"
        "    print(n, flush=True)\n"
    )
    last = 0
    for wait in (1, 7, 20):
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(wait):
            last = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        with SqliteStore(path) as store:
            n = store.offset("rows")
            assert n >= last  # what was reported as committed is there
            assert {store.get("model", str(k)) for k in range(50)} == {str(n).encode() * 1000}


class StoreAgainstDictionary(RuleBasedStateMachine):
    """Any sequence of commits, failures and re-openings equals a plain dictionary."""

    @initialize()
    def start(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "state.sqlite"
        self.store = SqliteStore(self.path)
        self.states: dict[str, bytes] = {}
        self.aside: dict[str, bytes] = {}
        self.cursor = None

    @rule(
        dirty=st.dictionaries(
            st.text(st.characters(codec="utf-8"), max_size=2), st.binary(max_size=9)
        ),
        offset=st.integers() | st.dictionaries(st.text(max_size=3), st.integers()),
    )
    def commit(self, dirty, offset):
        self.store.commit("model", dirty, "rows", offset)
        self.states |= self.aside | dirty
        self.aside = {}
        self.cursor = offset

    @rule(
        states=st.dictionaries(
            st.text(st.characters(codec="utf-8"), max_size=2), st.binary(max_size=9)
        )
    )
    def put_aside(self, states):
        self.store.put_aside("model", states.items())
        self.aside |= states

    @rule()
    def fail(self):
        with failing_at_the_cursor(pytest.MonkeyPatch(), refuse), pytest.raises(CheckpointError):
            self.store.commit("model", {"a": b"lost"}, "rows", "lost")

    @rule()
    def reopen(self):
        self.store.close()
        self.store = SqliteStore(self.path)
        self.aside = {}

    @invariant()
    def equal(self):
        if hasattr(self, "store"):
            assert {
                key: self.store.get("model", key) for key in self.store.keys("model")
            } == self.states | self.aside
            assert self.store.offset("rows") == self.cursor

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()
            self.folder.cleanup()


TestStoreAgainstDictionary = StoreAgainstDictionary.TestCase
TestStoreAgainstDictionary.settings = settings(stateful_step_count=15)
