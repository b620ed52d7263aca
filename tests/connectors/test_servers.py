"""Jobs between real servers: killed, cut off, refused; the server's own tools tell the outcome."""

import json
import random
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

import streamddcrp
from streamddcrp_connectors.cli import main
from tests.conftest import REPOSITORY

from .toy import Toy

COLUMNS = ["--time", "t", "--features", "a,b"]
JOB = """
import sys
import streamddcrp
from tests.connectors.toy import Toy
streamddcrp.SeqDDCRP = Toy
from streamddcrp_connectors.cli import main
main(sys.argv[1:])
"""


class Nats:
    """Where rows come from and go to, on NATS."""

    def __init__(self, server):
        self.server = server
        server.make("IN", "in")
        server.make("OUT", "out")
        self.source, self.sink = server.url("IN"), server.url("out")

    def publish(self, messages):
        self.server.publish("in", messages)

    def results(self):
        return self.server.read("OUT", "out")


class Redis:
    """The same on Redis."""

    def __init__(self, server):
        self.server = server
        self.source, self.sink = server.url("in"), server.url("out")

    def publish(self, messages):
        self.server.publish("in", messages)

    def results(self):
        return self.server.read("out")


KEPT = ["--checkpoint", "ck", "--idle", 0.2]
KINDS = {"nats": Nats, "redis": Redis}


@pytest.fixture(params=sorted(KINDS))
def place(request):
    return KINDS[request.param](request.getfixturevalue(f"{request.param}_server"))


@pytest.fixture
def do(monkeypatch, tmp_path):
    """Run the command in this process; return its exit code and what it said."""
    monkeypatch.setattr(streamddcrp, "SeqDDCRP", Toy)
    monkeypatch.chdir(tmp_path)

    def call(*arguments, **more):
        done = CliRunner().invoke(main, ["run", *map(str, arguments), *COLUMNS], env=more)
        return done.exit_code, done.stderr

    return call


def messages(n, start=0):
    return [
        json.dumps({"t": i // 2, "a": i * 7 % 11, "b": None if i % 5 == 0 else i % 3}).encode()
        for i in range(start, start + n)
    ]


def start(folder, *arguments, **more):
    return subprocess.Popen(
        [sys.executable, "-c", JOB, "run", *map(str, arguments), *COLUMNS],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={"PYTHONPATH": f"{REPOSITORY}:{REPOSITORY}/connectors", "PATH": "/usr/bin:/bin"} | more,
    )  # fmt: skip


def finish(process, seconds=600):
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err


def stop(process):
    """Ask a job to end; return what it said, and the seconds until it was done.

    What comes then is Python's own end, which takes a quarter of a second of the processor.
    """
    since = time.monotonic()
    process.send_signal(signal.SIGTERM)
    said = heard(process, " -> ", "stopped while waiting")
    seconds = time.monotonic() - since
    code, _, rest = finish(process)
    assert code == 0, said + rest
    return said + rest, seconds


def heard(process, *words):
    """Read what a job says until one of these words comes."""
    said = ""
    while not any(word in said for word in words):
        line = process.stderr.readline()
        assert line, said
        said += line
    return said


def expected(folder, sent):
    """Return what a job gives that reads the same rows from a file."""
    folder.mkdir()
    (folder / "rows.jsonl").write_bytes(b"".join(line + b"\n" for line in sent))
    code, _, err = finish(start(folder, "rows.jsonl", "--sink", "out.jsonl"))
    assert code == 0, err
    return (folder / "out.jsonl").read_bytes().splitlines()


def until(true, seconds=600):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.02)


def killed(folder, place, sent, n_kills, n_restarts, seed):
    """Publish rows while the job, and the server, are killed; return the results."""
    folder.mkdir()
    draw = random.Random(seed)
    job = [place.source, "--sink", place.sink, "--checkpoint", "ck"]
    events = ["kill"] * n_kills + ["restart"] * n_restarts
    draw.shuffle(events)
    process = start(folder, *job)
    step = len(sent) // (len(events) + 1)
    for number, event in enumerate(events):
        place.publish(sent[number * step : (number + 1) * step])
        if event == "kill":
            time.sleep(draw.uniform(0.0, 1.5))
            process.kill()
            finish(process)
            process = start(folder, *job)
        else:
            time.sleep(draw.uniform(0.0, 0.3))
            place.server.stop()
            place.server.start()
    place.publish(sent[len(events) * step :])
    until(lambda: len(place.results()) >= len(sent))
    process.send_signal(signal.SIGTERM)
    code, _, err = finish(process)
    assert code == 0, err
    return place.results()


def test_killed_jobs_and_servers_lose_and_repeat_nothing(tmp_path, place):
    sent = messages(400)
    whole = expected(tmp_path / "alone", sent)
    assert killed(tmp_path / "job", place, sent, n_kills=2, n_restarts=1, seed=1) == whole


@pytest.mark.slow
def test_fifty_kills_and_ten_restarts(tmp_path, place):
    sent = messages(4000)
    whole = expected(tmp_path / "alone", sent)
    assert killed(tmp_path / "job", place, sent, n_kills=50, n_restarts=10, seed=2) == whole


def test_a_slow_stream_is_answered_at_once_and_stopped_at_once(tmp_path, place):
    process = start(tmp_path, place.source, "--sink", place.sink, "--checkpoint", "ck")
    place.publish(messages(1))
    until(lambda: len(place.results()) == 1)
    since = time.monotonic()
    place.publish(messages(1, 1))
    until(lambda: len(place.results()) == 2)
    assert time.monotonic() - since < 2.0  # with the reader's own connections
    assert stop(process)[1] < 2.0


def test_a_server_that_is_away_is_waited_for(tmp_path, place):
    place.publish(messages(5))
    place.server.stop()
    process = start(tmp_path, place.source, "--sink", place.sink, "--checkpoint", "ck")
    said = heard(process, "is not available")
    time.sleep(0.5)  # it tries again
    place.server.start()
    said += heard(process, "is back after")
    until(lambda: len(place.results()) == 5)
    place.server.stop()
    said += heard(process, "is not available")
    rest, seconds = stop(process)
    assert seconds < 2.0
    assert (said + rest).count("is not available") == 2, said + rest  # once each time
    assert "Traceback" not in rest
    place.server.start()


def test_messages_that_were_removed_before_they_were_read(tmp_path, place, do):
    arguments = [place.source, "--sink", "out.jsonl", *KEPT]
    place.publish(messages(10))
    code, err = do(*arguments)
    assert code == 0, err
    place.publish(messages(10, 10))
    if isinstance(place, Redis):
        place.server.client.xtrim("in", maxlen=5, approximate=False)
    else:
        place.server.do(lambda stream: stream.purge_stream("IN", seq=16))
    code, err = do(*arguments)
    assert code == 2
    assert "removed" in err or "are gone" in err
    assert "new checkpoint folder" in err


def test_poison_is_set_aside_and_new_rows_are_read_on(tmp_path, place, do):
    place.publish([*messages(3), b'{"t": 1, "a"', b"\xff\xff\xff\xff??", *messages(2, 3)])
    arguments = [place.source, "--sink", "out.jsonl", *KEPT]
    code, err = do(*arguments, "--on-error", "stop")
    assert code == 2
    assert "row 3: not valid JSON" in err
    code, err = do(*arguments)
    assert code == 0, err
    assert "set aside row 3: not valid JSON" in err
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 5
    assert len((tmp_path / "ck" / "refused.jsonl").read_text().splitlines()) == 2


def test_from_new_begins_where_the_stream_ends(tmp_path, place, do):
    place.publish(messages(10))
    spec = f"{place.source}?from=new"
    arguments = [spec, "--sink", "out.jsonl", *KEPT]
    code, err = do(*arguments)
    assert code == 0, err
    place.publish(messages(4, 10))  # while no job runs
    code, err = do(*arguments)
    assert code == 0, err
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 4


def test_results_share_their_place_with_others(place, do, tmp_path):
    """What others wrote after it does not hide how far the job came."""
    arguments = [place.source, "--sink", place.sink, *KEPT]
    for n in range(3):
        place.publish(messages(20, 20 * n))
        code, err = do(*arguments)
        assert code == 0, err
        assert "already holds rows" not in err
        place.server.publish("out", [b'{"from": "others"}'])
    found = [json.loads(line) for line in place.results()]
    assert [row["row"] for row in found if "row" in row] == list(range(60))
    assert sum("from" in row for row in found) == 3
    (tmp_path / "ck" / "state.sqlite").unlink()
    code, err = do(*arguments)
    assert "already holds rows; those of this new job are appended" in err


def test_what_is_not_there_is_named(nats_server, do):
    code, err = do(nats_server.url("ABSENT"))
    assert code == 2
    assert "stream not found; make it first" in err
    nats_server.make("IN", "in")
    code, err = do(nats_server.url("IN"), "--sink", nats_server.url("out"))
    assert code == 2
    assert "make" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_wrong_password_is_refused_and_not_shown(tmp_path, request, do, kind):
    server = request.getfixturevalue(f"{kind}_server")
    if kind == "redis":
        server.client.config_set("requirepass", "correct")
        spec = server.url("in")
    else:
        server.make("IN", "in")
        server.stop()
        server.options = ("--user", "me", "--pass", "correct")
        server.start()
        spec = server.url("IN").replace("127", "me@127")
    arguments = [f"{spec}?password_env=PW", "--sink", "out.jsonl", *KEPT]
    for more, words in (({}, "names PW, which is not set"), ({"PW": "wr0ng"}, "refuses the user")):
        code, err = do(*arguments, **more)
        assert code == 2
        assert words in err
        assert "wr0ng" not in err
    code, err = do(*arguments, PW="correct")
    assert code == 0, err
    kept = (tmp_path / "ck" / "state.sqlite").read_bytes()
    assert b"correct" not in kept
