"""``streamddcrp run --check`` says what a run would do, and writes nothing."""

import json
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from streamddcrp_connectors.cli import main

from .servers import free_port

JOB = """
source = "in.jsonl"
time = "t"
features = ["a", "b"]
model = "ddcrp"
sink = "out.jsonl"
alarms = "alarms.jsonl"
checkpoint = "state"
on-error = "dead-letter=bad.jsonl"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"t": i, "a": float(i % 2), "b": 0.5}) for i in range(40)]
    lines[3] = '{"t": 3, "a": "odd", "b": 1}'
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "job.toml").write_text(JOB)
    return tmp_path


def invoke(*arguments):
    return CliRunner().invoke(main, ["run", "--config", "job.toml", *arguments])


def test_it_says_what_it_would_do_and_writes_nothing(folder):
    before = sorted(folder.iterdir())
    result = invoke("--check")
    assert result.exit_code == 0, result.output
    said = dict(line.split(": ", 1) for line in result.stdout.splitlines())
    assert said["rows read"] == "10, refused: 1"
    assert said["row 3"].startswith("column 'a' must be a number")
    assert said["first row"] == "t 0.0, a 0.0, b 0.5"
    assert said["columns"] == "time t; features a, b"
    assert said["model"].startswith("DDCRPSampler")
    assert (said["sink"], said["alarms"]) == ("out.jsonl", "alarms.jsonl")
    assert said["checkpoint"] == "state, a new job"
    assert sorted(folder.iterdir()) == before


def test_it_says_where_a_job_goes_on(folder):
    assert invoke("--no-progress").exit_code == 0
    kept = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    result = invoke("--check")
    assert "checkpoint: state, goes on at row 40" in result.stdout
    assert all(path.read_bytes() == content for path, content in kept.items())
    other = invoke("--check", "--features", "a")
    assert other.exit_code == 2
    assert "was made with other columns" in other.output


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--features", "a,z"], "no column 'z'"),
        (["--sink", "in.jsonl"], "both the sink and the source"),
        (["--alarms", "http://127.0.0.1:{}/hook"], "cannot be reached"),
        (["http-push://127.0.0.1:1/rows?journal=j"], "gives each message only once"),
        (["--model", "no-such"], "--model must be one of"),
    ],
)
def test_what_a_run_would_refuse_it_refuses(folder, arguments, reason):
    before = sorted(folder.iterdir())
    result = invoke("--check", *(text.format(free_port()) for text in arguments))
    assert result.exit_code == 2
    assert reason in result.output
    assert sorted(folder.iterdir()) == before


def test_columns_that_objects_lack(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = ['{"t": 0, "a": 1, "b": 2}'] * 6000  # more than the sample, which shows all columns
    lines += ['{"t": 0, "a": 1}', '{"t": 0, "c": 1}']
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    arguments = ["run", "in.jsonl", "--time", "t", "--features", "a,b", "--model", "ddcrp",
                 "--on-error", "dead-letter=bad.jsonl", "--sink", "o.jsonl"]  # fmt: skip

    def refused(*more):
        result = CliRunner().invoke(main, [*arguments, "--overwrite", *more])
        assert result.exit_code == 0, result.output
        return [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]

    assert [line["row"] for line in refused()] == [6000, 6001]
    (only,) = refused("--missing-columns", "null")
    assert only["reason"] == "none of the columns a, b"


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="a signal of POSIX systems")
def test_a_hangup_reloads_how_alarms_are_told(folder):
    """Alarms are silent by a new file; one that cannot be read changes nothing."""
    job, log = folder / "job.toml", folder / "log"
    job.write_text(JOB + "follow = true\n")
    command = [sys.executable, "-m", "streamddcrp_connectors", "run", "--config", "job.toml"]
    with log.open("w") as said:
        process = subprocess.Popen([*command, "--alarm-rate", "0.02"], stderr=said, cwd=folder)

    def until(happened):
        end = time.monotonic() + 60
        while not happened():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.05)

    def add(*rows):
        """Add rows, and wait until the results have the last of them."""
        with (folder / "in.jsonl").open("a") as file:
            file.writelines(json.dumps({"t": i, "a": a, "b": 0.5}) + "\n" for i, a in rows)
        until(lambda: f'"row": {rows[-1][0]},' in (folder / "out.jsonl").read_text())

    def told(first):
        """Add 200 rows, the last but one far away; return how many alarms were told of by now.

        Alarms are written after the results of their rows, and before those of later rows.
        """
        last = first + 199
        add(*((i, i % 7 / 7) for i in range(first, last - 1)), (last - 1, 1e3 * last))
        add((last, last % 7 / 7))
        return len((folder / "alarms.jsonl").read_text().splitlines())

    try:
        until((folder / "out.jsonl").exists)
        assert told(40) == 1
        (folder / "quiet.toml").write_text('[[silence]]\nreason = "cleaning"\n')
        job.write_text(job.read_text() + "silences = 'quiet.toml'\nalarm-rate = 0.4\n")
        process.send_signal(signal.SIGHUP)
        until(lambda: "reloaded how alarms begin and are told" in log.read_text())
        assert told(240) == 1  # nor of the end of the one that was told
        job.write_text("follow = 3 =")
        process.send_signal(signal.SIGHUP)
        until(lambda: "nothing was reloaded: " in log.read_text())
        assert told(440) == 1
        process.terminate()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
