"""Arguments of the command line that cannot be used are refused in one line, with status 2."""

import pytest
from click.testing import CliRunner

from streamddcrp_connectors.cli import main

LAST = 2**63 - 1  # of the nanoseconds that a time stamp counts
TOML = {
    "arrays in arrays": "decay = " + "[" * 3000 + "]" * 3000,
    "tables in tables": "x = " + "{a = " * 3000 + "1" + "}" * 3000,
    "a long key": ".".join(["a"] * 50_000) + " = 1",
    "a NUL": 'sink = "a\\u0000b"',
    "Latin-1": 'sink = "é"'.encode("latin-1"),
}


@pytest.fixture(autouse=True)
def rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"{1_700_000_000 + i},{i % 7}" for i in range(80)]
    (tmp_path / "rows.csv").write_text("t,a\n" + "\n".join(lines), encoding="utf-8")
    return tmp_path


def refused(*arguments):
    result = CliRunner().invoke(main, ["run", *arguments])
    assert result.exit_code == 2, (result.output, result.exception)
    assert isinstance(result.exception, SystemExit)
    return result.output


@pytest.mark.parametrize("option", ["--config", "--model"])
@pytest.mark.parametrize("text", TOML.values(), ids=TOML)
def test_files_of_options(rows, option, text):
    (rows / "odd.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert refused("rows.csv", option, "odd.toml")


@pytest.mark.parametrize("option", ["--max-ahead", "--idle", "--batch-wait", "--alarm-per"])
@pytest.mark.parametrize("length", ["nan", "inf", "-inf", "-1", "1e400", "nan d", "x"])
def test_lengths_of_time(option, length):
    assert option.rpartition("-")[2] in refused("rows.csv", option, length, "--alarms", "a.jsonl")


@pytest.mark.parametrize("arguments", [["a\0b.csv"], ["rows.csv", "--sink", "a\0b"]])
def test_paths_with_a_nul(arguments):
    assert "NUL" in refused(*arguments)


@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s", "excel"])
@pytest.mark.parametrize("first", [LAST - 80_000, LAST, -LAST])
def test_time_stamps_at_the_end_of_their_range(rows, unit, first):
    lines = [f"{first + 1000 * i},{i % 7}" for i in range(80)]
    (rows / "late.csv").write_text("t,a\n" + "\n".join(lines), encoding="utf-8")
    result = CliRunner().invoke(main, ["run", "late.csv", "--time", "t", "--time-unit", unit])
    assert result.exit_code in (0, 2)
    assert result.exception is None or isinstance(result.exception, SystemExit)
