"""The command line: what it prints, where it stops, how it is stopped, how quickly it starts."""

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from importlib.metadata import EntryPoint, entry_points
from itertools import pairwise

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import streamddcrp
from streamddcrp.errors import ConfigError
from streamddcrp_connectors import __main__
from streamddcrp_connectors.cli import main
from streamddcrp_connectors.run.loop import open_store
from tests.conftest import REPOSITORY

from .data import WRITERS, rows, write_csv
from .toy import Toy

STARTS = """
import signal
from streamddcrp_connectors.__main__ import main
signal.signal(signal.SIGINT, signal.SIG_DFL)
print("begins", flush=True)
main()
"""
COLUMNS = ["--time", "t", "--key", "k", "--features", "a, b"]


@pytest.fixture
def invoke(monkeypatch, tmp_path):
    """Run the command in this process with the toy model."""
    monkeypatch.setattr(streamddcrp, "SeqDDCRP", Toy)
    monkeypatch.chdir(tmp_path)

    def call(*arguments, **more):
        return CliRunner().invoke(main, [str(argument) for argument in arguments], **more)

    return call


def test_results_go_to_standard_output(invoke, good):
    result = invoke("run", good, *COLUMNS)
    assert result.exit_code == 0
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["row"] for line in lines] == list(range(60))
    assert result.stderr == "60 rows -> standard output\n"


@pytest.mark.parametrize("kind", sorted(WRITERS))
@pytest.mark.parametrize("sink", ["out.jsonl", "out.parquet", "out.arrow"])
def test_every_source_and_sink(invoke, tmp_path, kind, sink):
    source = WRITERS[kind](tmp_path / f"rows.{kind}", rows(30))
    arguments = ["--sink", sink, "--checkpoint", "ck", "--batch-rows", 7]
    result = invoke("run", source, *COLUMNS, *arguments)
    assert result.exit_code == 0, result.stderr
    assert result.stderr == f"30 rows -> {sink}\n"
    again = invoke("run", source, *COLUMNS, *arguments)
    assert again.exit_code == 0, again.stderr


@pytest.mark.parametrize(("rate", "wanted"), [(0.01, "100"), (0.0001, "1,000")])
def test_a_run_too_short_for_its_alarms_says_so(invoke, good, tmp_path, rate, wanted, caplog):
    arguments = ["--alarms", tmp_path / "a.jsonl", "--alarm-rate", rate]
    invoke("run", good, *COLUMNS, *arguments, "--sink", tmp_path / "out.jsonl")
    assert f"needs about {wanted} rows that are alike" in caplog.text


def test_standard_input(invoke, good):
    with_file = invoke("run", good, *COLUMNS).stdout
    assert invoke("run", "-", *COLUMNS, input=good.read_bytes()).stdout == with_file
    refused = invoke("run", "-", *COLUMNS, "--checkpoint", "ck", input=good.read_bytes())
    assert refused.exit_code == 2
    assert "cannot be read a second time" in refused.stderr
    assert "--follow" in refused.stderr


def test_bad_rows_are_set_aside_and_counted(invoke, csv, tmp_path):
    result = invoke(
        "run", csv, *COLUMNS, "--sink", "out.parquet", "--on-error", "dead-letter=bad.jsonl"
    )
    assert result.exit_code == 0
    dead = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    table = pq.read_table(tmp_path / "out.parquet")
    assert len(dead) + table.num_rows == 60
    assert set(dead[0]) == {"row", "reason", "values"}
    assert result.stderr == f"60 rows, {len(dead)} refused -> out.parquet\n"


def test_options_come_from_a_toml_file(invoke, good, tmp_path):
    (tmp_path / "model.toml").write_text("warmup = 10\n")
    lines = invoke("run", good, "--time", "t", "--features", "a", "--model", "model.toml").stdout
    scores = [json.loads(line)["score"] for line in lines.splitlines()]
    assert scores[:10] == [None] * 10
    assert None not in scores[10:]


def test_a_model_by_key_within_little_memory(invoke, good):
    arguments = ["--time", "t", "--features", "a,b", "--model", "seqddcrp"]
    usual = invoke("run", good, *arguments, "--key", "k").stdout
    assert {json.loads(line)["key"] for line in usual.splitlines()} == {"x", "y", "zz"}
    assert invoke("run", good, *arguments, "--by", "k", "--memory-limit", "1").stdout == usual
    assert refused(
        invoke("run", good, *arguments, "--by", "k", "--memory-limit", "some"), "memory_limit must"
    )


def refused(result, *parts):
    """One message on standard error, exit code 2, no traceback."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    said = "".join(line for line in result.stderr.splitlines(True) if " INFO " not in line)
    assert said.count("\n") == 1 + said.startswith("streamddcrp: left out: ")
    assert said.startswith("streamddcrp: ")
    for part in parts:
        assert part in result.stderr
    return True


def text(name, content):
    def write(folder):
        (folder / name).write_bytes(content)
        return name

    return write


def truncated(folder):
    path = WRITERS["parquet"](folder / "cut.parquet", rows(40))
    path.write_bytes(path.read_bytes()[:300])
    return path


SOURCES = {
    "no number for a time": (text("a.csv", b"t,a\n1,1\nnan,2\n"), ["row 1: column 't' is NaN"]),
    "infinite": (text("a.csv", b"t,a\n1,inf\n"), ["row 0: column 'a' is infinite"]),
    "narrow row": (text("a.csv", b"t,a\n1,1\n2\n"), ["row 1: 1 cells", "names 2 columns"]),
    "wide row": (text("a.csv", b"t,a\n1,1\n2,2,2\n"), ["row 1: 3 cells"]),
    "text": (text("a.csv", b"t,a\n1,one\n"), ["row 0: column 'a' must be a number", "got 'one'"]),
    "no time": (text("a.csv", b"t,a\n,1\n"), ["row 0: column 't' is empty"]),
    "no such column": (text("a.csv", b"t,b\n1,1\n"), ["no column 'a'", "it has t, b"]),
    "empty file": (text("a.csv", b""), ["a.csv is empty"]),
    "missing file": (lambda _: "absent.csv", ["cannot read absent.csv: No such file"]),
    "folder": (lambda folder: folder, ["is a folder"]),
    "truncated Parquet": (truncated, ["not a whole Parquet file"]),
    "malformed JSON": (
        text("a.jsonl", b'{"t": 1, "a": 1}\n{"t": 2, "a"\n'),
        ["row 1: not valid JSON", "character 12"],
    ),
    "JSON text": (text("a.jsonl", b'{"t": 1, "a": "x"}\n'), ["row 0: column 'a' must be a number"]),
    "compressed": (text("a.csv.gz", b"\x1f\x8b123"), ["a.csv.gz is damaged", "zlib"]),
}


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_bad_sources(invoke, tmp_path, name):
    make, parts = SOURCES[name]
    refused(
        invoke("run", make(tmp_path), "--time", "t", "--features", "a", "--sink", "out.jsonl"),
        *parts,
    )


def test_a_file_out_of_order_is_sorted_unless_errors_stop(invoke, tmp_path):
    path = text("a.csv", b"t,a\n2,1\n1,1\n")(tmp_path)
    arguments = ["run", path, "--time", "t", "--features", "a", "--sink", "out.jsonl"]
    result = invoke(*arguments)
    assert result.exit_code == 0
    assert "all rows are read, then sorted by t" in result.stderr
    stopped = invoke(*arguments, "--overwrite", "--on-error", "stop")
    refused(stopped, "row 1: time runs backwards")


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--features", "a,a"], ["column 'a' is named twice"]),
        (["--time", "a", "--features", "a"], ["column 'a' is named twice"]),
        (["--features", ""], ["no column ''"]),
        (["--time", "when"], ["no column 'when'; it has t, k, a, b"]),
        (["--features", "k"], ["column 'k' must be a number"]),
        (["--model", "absent.toml"], ["cannot read absent.toml"]),
        (
            ["--model", "typo.toml"],
            ["typo.toml (for seqddcrp): unknown option 'aplha'; valid are alpha, decay"],
        ),
        (["--model", "zero.toml"], ["alpha must be positive, got 0"]),
        (["--sink", "absent/out.jsonl"], ["no folder absent"]),
        (["--sink", "rows.csv.jsonl"], ["choose different files"]),
        (["--sink", "out.csv"], [".csv is not written"]),
        (["--checkpoint", "rows.csv"], ["cannot open the checkpoint"]),
        (
            ["--on-error", "ignore"],
            ["--on-error must be stop, dead-letter or dead-letter=FILE, got 'ignore'"],
        ),
        (["--on-error", "dead-letter="], ["--on-error must be"]),
        (["--on-error", "dead-letter=absent/x"], ["cannot write absent/x"]),
        (["--format", "parquet"], ["not a whole Parquet file"]),
        (["--format", "xml"], ["format must be one of", "got 'xml'"]),
    ],
)
def test_bad_arguments(invoke, csv, tmp_path, arguments, parts):
    (tmp_path / "typo.toml").write_text("aplha = 1.0\n")
    (tmp_path / "zero.toml").write_text("alpha = 0\n")
    (tmp_path / "rows.csv.jsonl").symlink_to(csv)
    before = csv.read_bytes()
    given = arguments if "--sink" in arguments else [*arguments, "--sink", "out.jsonl"]
    assert refused(invoke("run", csv, *given), *parts)
    assert csv.read_bytes() == before


@pytest.mark.parametrize("arguments", [["--batch-rows", "0"], ["--no-such-option"]])
def test_usage_errors(invoke, csv, arguments):
    result = invoke("run", csv, *arguments)
    assert result.exit_code == 2
    assert "Error: " in result.stderr


def test_a_refused_row_leaves_the_checkpoint_as_it_was(invoke, tmp_path):
    source = tmp_path / "rows.csv"
    source.write_text("t,a\n" + "".join(f"{i},1\n" for i in range(20)) + "20,oops\n")
    arguments = [
        "run",
        source,
        "--time",
        "t",
        "--sink",
        "out.jsonl",
        "--checkpoint",
        "ck",
        "--batch-rows",
        6,
    ]
    refused(invoke(*arguments), "row 20")
    before = (tmp_path / "out.jsonl").read_bytes()
    assert len(before.splitlines()) == 18
    refused(invoke(*arguments), "row 20")
    assert (tmp_path / "out.jsonl").read_bytes() == before
    result = invoke(*arguments, "--on-error", "dead-letter=bad.jsonl")
    assert result.exit_code == 0
    assert (tmp_path / "out.jsonl").read_bytes().startswith(before)
    other = invoke(*arguments[:-4], "--checkpoint", "ck", "--features", "a", "--key", "t")
    refused(other, "named twice")


def test_progress_is_shown_when_asked_for(invoke, good):
    shown = invoke("run", good, *COLUMNS, "--sink", "out.jsonl", "--progress")
    assert "rows/s" in shown.stderr
    assert "tables" in shown.stderr
    hidden = invoke("run", good, *COLUMNS, "--sink", "out.jsonl")
    assert "rows/s" not in hidden.stderr


def test_help_names_every_option(invoke):
    shown = invoke("run", "--help").output
    for option in (
        "--time",
        "--key",
        "--features",
        "--model",
        "--sink",
        "--checkpoint",
        "--batch-rows",
    ):
        assert option in shown
    assert "run" in invoke("--help").output
    assert invoke("--version").exit_code == 0
    assert invoke("no-such-command").exit_code == 2


def test_the_command_is_installed():
    assert entry_points(group="console_scripts", name="streamddcrp")
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    script = EntryPoint("streamddcrp", project["scripts"]["streamddcrp"], "console_scripts")
    assert script.load() is __main__.main


def test_ctrl_c_while_it_starts_leaves_no_traceback(tmp_path, good):
    """Python itself takes the first hundredths of a second."""
    for pause in (0.0, 0.1, 0.4):
        process = subprocess.Popen(
            [sys.executable, "-c", STARTS, "run", good, "--sink", "out.jsonl"],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout.readline() == "begins\n"
        time.sleep(pause)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=300)
        assert process.returncode in (-signal.SIGINT, 130), err
        assert "Traceback" not in err


def test_options_come_from_a_file_as_well(invoke, good, tmp_path):
    (tmp_path / "job.toml").write_text(
        f'source = "{good}"\ntime = "t"\nby = "k"\nfeatures = ["a", "b"]\nbatch-rows = 7\n'
        'sink = "other.jsonl"\n'
    )
    result = invoke("run", "--config", "job.toml", "--sink", "out.jsonl")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == "60 rows -> out.jsonl\n"
    assert "key" in json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])


@pytest.mark.parametrize(("said", "pages"), [("true", 1), ("false", 0), ('"127.0.0.1:0"', 1)])
def test_a_file_may_ask_for_the_page(invoke, good, tmp_path, monkeypatch, said, pages):
    opened = []

    def refuse(at, *_):
        opened.append(at)
        raise ConfigError(at)

    monkeypatch.setattr("streamddcrp_connectors.page.observer.opened", refuse)
    (tmp_path / "job.toml").write_text(f"live = {said}\n")
    invoke("run", good, *COLUMNS, "--config", "job.toml", "--sink", "out.jsonl")
    where = "127.0.0.1:8765" if said == "true" else "127.0.0.1:0"
    assert opened == [where] * pages


def test_all_that_a_run_says_is_json_if_asked_for(invoke, good, monkeypatch):
    pytest.importorskip("tornado")
    monkeypatch.setattr("streamddcrp_connectors.page.observer.LivePage.wait", lambda _: None)
    more = ("--log-format", "json", "--live", "127.0.0.1:0", "--checkpoint", "ck")
    done = invoke("run", good, *COLUMNS, "--sink", "out.jsonl", *more, "--no-progress")
    said = [json.loads(line) for line in done.stderr.splitlines()]
    assert "live page at" in said[0]["message"]
    assert "rows -> out.jsonl" in said[-1]["message"]
    assert {entry["level"] for entry in said} == {"INFO"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("soruce = 1", "unknown option 'soruce'; valid are"),
        ("time = [1]", "time must be text, a number, true or false"),
        ("[time]", "time must be text"),
        ("time = ", "not valid TOML"),
        ('batch-rows = "many"', "'many' is not a valid integer"),
    ],
)
def test_unusable_files_of_options(invoke, good, tmp_path, text, words):
    (tmp_path / "job.toml").write_text(text)
    result = invoke("run", good, "--config", "job.toml")
    assert result.exit_code == 2
    assert words in result.stderr


@pytest.mark.parametrize("text", ['alpha = "much"', "alpha = [1]", "[alpha]"])
def test_model_options_of_the_wrong_type_are_refused(invoke, good, tmp_path, text):
    (tmp_path / "model.toml").write_text(text)
    assert refused(invoke("run", good, *COLUMNS, "--model", "model.toml"), "wrong type")


def test_a_run_that_learned_nothing_fails(invoke, good, tmp_path):
    """One time far in the future, and all later rows are late."""
    source = tmp_path / "poisoned.csv"
    source.write_text(good.read_text())
    more = ["--on-error", "dead-letter=bad.jsonl", "--sink", "out.jsonl", "--overwrite"]
    result = invoke("run", source, "--time", "t", "--features", "k", *more)
    assert result.exit_code == 2
    assert "no row was learned: all were refused, the last because: column 'k'" in result.stderr
    table = [f"{i},x,1,1\n" for i in range(200)]
    source.write_text("t,k,a,b\n1e12,x,1,1\n" + "".join(table))
    result = invoke("run", source, "--time", "t", "--features", "a,b", *more)
    assert result.exit_code == 0
    assert "of 201 rows were refused, the last because: time runs backwards" in result.stderr
    result = invoke("run", source, "--time", "t", "--features", "a,b", *more, "--late", "as-now")
    assert "refused" not in result.stderr


def test_help_loads_nothing_heavy():
    program = (
        "import sys\n"
        "from streamddcrp_connectors.cli import main\n"
        "try:\n"
        "    main(['--help'])\n"
        "except SystemExit:\n"
        "    pass\n"
        "heavy = {'numba', 'numpy', 'pyarrow', 'river', 'scipy', 'matplotlib'}\n"
        "sys.exit(' '.join(heavy & set(sys.modules)) or 0)\n"
    )
    started = time.perf_counter()
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ran.stderr == ""
    assert "Commands:" in ran.stdout
    assert time.perf_counter() - started < 5  # measured 0.05 s; a loaded machine is slower


# -- the real model, in processes of its own ----------------------------------------------------

compiled = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT", "0") != "0", reason="the model is slow when not compiled"
)


@compiled
def test_a_run_of_numbers_loads_little(tmp_path):
    """And series of pandas have missing values once it is loaded, though Arrow began without."""
    source = write_csv(tmp_path / "rows.csv", rows(300))
    program = (
        "import sys\n"
        "from streamddcrp_connectors.cli import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    assert not end.code\n"
        "heavy = {'pandas', 'scipy.special', 'scipy.sparse', 'streamddcrp.models.text.engine'}\n"
        "found = heavy & set(sys.modules)\n"
        "import pyarrow as pa\n"
        "series = pa.table({'a': [1, None]}).to_pandas()['a']\n"
        "assert pa.array(series).null_count == 1\n"
        "sys.exit(' '.join(found) or 0)\n"
    )
    command = [sys.executable, "-c", program, "run", source, "--time", "t", "--features", "a,b"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def stored(folder):
    with open_store(folder) as store:
        return {key: store.get("model", key) for key in store.keys("model")}


def start(folder, *arguments, **more):
    command_line = [
        sys.executable,
        "-c",
        "from streamddcrp_connectors.cli import main; main()",
        "run",
    ]
    return subprocess.Popen(
        [*command_line, *map(str, arguments)],
        cwd=folder,
        stdin=more.pop("stdin", subprocess.DEVNULL),
        stdout=more.pop("stdout", subprocess.PIPE),
        stderr=more.pop("stderr", subprocess.PIPE),
        **more,
    )


def finish(process):
    out, err = process.communicate(timeout=300)
    return process.returncode, out, (err or b"").decode()


@compiled
@pytest.mark.parametrize("key", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_killed_runs_of_the_real_model(tmp_path, key):
    """kill -9 after random times, start again, until done: byte for byte the run left alone."""
    # a row from the far future would have all that follow refused
    made = [row for row in rows(2100, bad=0.02) if row["t"] < 1e5][:2000]
    source = write_csv(tmp_path / "rows.csv", made)
    columns = ["--time", "t", *(["--key", "k"] if key else []), "--features", "a,b"]
    arguments = [source, *columns, "--sink", "out.jsonl", "--checkpoint", "ck", "--batch-rows", 20]
    arguments += ["--on-error", "dead-letter=bad.jsonl"]
    alone, killed = tmp_path / "alone", tmp_path / "killed"
    for folder in (alone, killed):
        folder.mkdir()
    code, _, err = finish(start(alone, *arguments))
    assert code == 0, err
    n_killed = 0
    for share in (0.2, 0.7):
        process = start(killed, *arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        out = killed / "out.jsonl"
        goal = share * (alone / "out.jsonl").stat().st_size
        end = time.monotonic() + 120
        while process.poll() is None and not (out.exists() and out.stat().st_size > goal):
            assert time.monotonic() < end, "the run makes no progress"
            time.sleep(0.003)
        process.kill()
        n_killed += finish(process)[0] == -signal.SIGKILL
    assert n_killed
    code, _, err = finish(start(killed, *arguments))
    assert code == 0, err
    for name in ("out.jsonl", "bad.jsonl"):
        assert (killed / name).read_bytes() == (alone / name).read_bytes()
    assert stored(killed / "ck") == stored(alone / "ck")
    assert "2,000 rows" in err


@compiled
def test_a_closed_pipe_is_no_error(tmp_path):
    source = write_csv(tmp_path / "rows.csv", rows(5000))
    process = start(tmp_path, source, "--time", "t", "--features", "a,b", "--batch-rows", 50)
    assert process.stdout.readline().startswith(b'{"row": 0,')
    process.stdout.close()
    assert process.wait(timeout=300) == 0
    assert b"Traceback" not in process.stderr.read()
    assert b"Broken" not in process.stderr.read()
    process.stderr.close()


@compiled
def test_interrupted_while_following(tmp_path):
    source = write_csv(tmp_path / "rows.csv", rows(300))
    arguments = [source, "--time", "t", "--features", "a,b", "--sink", "out.parquet"]
    arguments += ["--checkpoint", "ck", "--follow", "--batch-rows", 50]
    for n_more in (0, 40):
        with source.open("a") as file:
            file.writelines(f"{1000 + i},x,1.0,2.0\n" for i in range(n_more))
        log = tmp_path / "ck" / "output.rows"
        least = log.stat().st_size + 1 if log.exists() else 1000
        process = start(tmp_path, *arguments)
        seen, since = -1, time.monotonic()
        while time.monotonic() - since < 2:  # until nothing more is written
            size = log.stat().st_size if log.exists() else -1
            if size != seen or size < least:
                seen, since = size, time.monotonic()
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        code, _, err = finish(process)
        assert code == 130
        assert "Traceback" not in err
        said = (
            f"{300 + n_more} rows -> out.parquet (interrupted; the same command goes on from here)"
        )
        assert err.splitlines()[-1] == said
        assert pq.read_table(tmp_path / "out.parquet").num_rows == 300 + n_more


def test_rows_from_a_pipe_are_not_held_back(tmp_path):
    reading, writing = os.pipe()
    process = start(tmp_path, "-", "--features", "a", stdin=reading)
    os.close(reading)
    os.write(writing, b"a\n1\n2\n")
    first = [json.loads(process.stdout.readline())["row"] for _ in range(2)]
    os.write(writing, b"3\n4")
    os.close(writing)
    code, out, err = finish(process)
    assert code == 0, err
    assert first == [0, 1]
    assert [json.loads(line)["row"] for line in out.splitlines()] == [2, 3]


def test_two_runs_cannot_share_a_checkpoint(tmp_path):
    source = write_csv(tmp_path / "rows.csv", rows(100))
    arguments = [
        source,
        "--time",
        "t",
        "--features",
        "a,b",
        "--checkpoint",
        "ck",
        "--sink",
        "out.jsonl",
    ]
    first = start(tmp_path, *arguments, "--follow")
    while not (tmp_path / "out.jsonl").exists():
        assert first.poll() is None, first.stderr.read()
        time.sleep(0.02)
    code, _, err = finish(start(tmp_path, *arguments, "--follow"))
    assert code == 2
    assert "is in use by another run" in err
    first.send_signal(signal.SIGINT)
    assert finish(first)[0] == 130


@compiled
def test_killed_while_a_file_grows(tmp_path):
    """Batches are cut by chance here: the results are those of one run over the finished file."""
    whole = write_csv(tmp_path / "whole.csv", rows(600, bad=0.05)).read_bytes()
    columns = ["--time", "t", "--key", "k", "--features", "a,b", "--sink", "out.jsonl"]
    columns += ["--checkpoint", "ck", "--on-error", "dead-letter=bad.jsonl"]
    alone, grown = tmp_path / "alone", tmp_path / "grown"
    for folder in (alone, grown):
        folder.mkdir()
    code, _, err = finish(start(alone, tmp_path / "whole.csv", *columns))
    assert code == 0, err
    goal = {name: (alone / name).read_bytes() for name in ("out.jsonl", "bad.jsonl")}
    source = tmp_path / "growing.csv"
    n_parts = 3
    ends = [len(whole) * part // n_parts for part in range(n_parts + 1)]
    process = None
    for begin, end in pairwise(ends):
        with source.open("ab", buffering=0) as file:
            for at in range(begin, end, 97):
                file.write(whole[at : min(at + 97, end)])
                if process is None:
                    process = start(grown, source, *columns, "--follow")
                time.sleep(0.01)
        if end < ends[-1]:
            process.kill()
            finish(process)
            process = start(grown, source, *columns, "--follow")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and any(
        not (grown / name).exists() or (grown / name).stat().st_size < len(text)
        for name, text in goal.items()
    ):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 130, err
    assert {name: (grown / name).read_bytes() for name in goal} == goal
    assert stored(grown / "ck") == stored(alone / "ck")


def test_other_models_by_name_and_in_a_file(tmp_path, good):
    out = tmp_path / "out.jsonl"
    result = CliRunner().invoke(
        main,
        [
            "run",
            str(good),
            *COLUMNS[:2],
            "--features",
            "a,b",
            "--model",
            "ddcrp",
            "--sink",
            str(out),
        ],
    )
    assert result.exit_code == 0, result.output
    assert len(out.read_text().splitlines()) == 60
    file = tmp_path / "model.toml"
    file.write_text('model = "ddcrp"\nn_particles = 3\n')
    result = CliRunner().invoke(
        main, ["run", str(good), *COLUMNS[:2], "--features", "a,b", "--model", str(file)]
    )
    assert result.exit_code == 0, result.output
    for model, words in (("crp", "ddcrp, embeddings"), (str(file), "model must be one of")):
        file.write_text('model = "crp"\n')
        result = CliRunner().invoke(main, ["run", str(good), *COLUMNS, "--model", model])
        assert result.exit_code == 2
        assert words in result.output
