"""Seasons under the commands: run subtracts them, report shows what was subtracted."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from streamddcrp import Seasonal, SeqDDCRP
from streamddcrp_connectors.cli import main

HOURS = np.arange(700)
STAMPS = np.datetime64("2024-05-01T00:00", "s") + HOURS * np.timedelta64(3600, "s")
FLOW = np.random.default_rng(0).normal(size=700) + 5.0 * np.sin(2 * np.pi * HOURS / 24)
FLOW[500:] += 8.0


def invoke(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "flow.parquet"
    pq.write_table(pa.table({"when": STAMPS, "flow": FLOW}), path)
    return path


@pytest.mark.parametrize("season", ["day", "auto", "86400", "12h, day"])
def test_a_run_with_a_season(data, tmp_path, season):
    out = tmp_path / "out.jsonl"
    result = invoke("run", data, "--time", "when", "--season", season, "--sink", out)
    assert result.exit_code == 0, result.output
    said = {"86400": 86400.0, "12h, day": ("12h", "day")}.get(season, season)
    expected = SeqDDCRP(season=said).step_many(pa.table({"flow": FLOW}), STAMPS)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["label"] for row in rows] == expected["label"].to_pylist()


def test_a_file_of_options_names_seasons(data, tmp_path):
    (tmp_path / "model.toml").write_text('season = ["day", "12h"]\n')
    written = []
    for more in ["--model", tmp_path / "model.toml"], ["--season", "day,12h"], []:
        out = tmp_path / f"{len(written)}.jsonl"
        assert invoke("run", data, "--time", "when", "--sink", out, *more).exit_code == 0
        written.append(out.read_text())
    assert written[0] == written[1] != written[2]


def test_a_restart_goes_on_with_the_season(data, tmp_path):
    whole, parts = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
    usual = ["--time", "when", "--season", "day"]
    assert invoke("run", data, *usual, "--sink", whole).exit_code == 0
    first = tmp_path / "first.csv"
    table = pa.table({"when": np.datetime_as_string(STAMPS), "flow": FLOW})
    more = ["--checkpoint", tmp_path / "state", "--sink", parts, "--batch-rows", 90]
    for n in 400, 700:
        pyarrow.csv.write_csv(table.slice(0, n), first)
        assert invoke("run", first, *usual, *more).exit_code == 0
    labels = [[json.loads(x)["label"] for x in p.read_text().splitlines()] for p in (whole, parts)]
    assert labels[0] == labels[1]
    changed = invoke("run", first, "--time", "when", "--season", "week", *more)
    assert changed.exit_code == 2
    assert 'season was "day", now "week"' in changed.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--season", "fortnight", "--time", "when"], "period must be 'auto'"),
        (["--season", "day", "--features", "flow"], "every row needs a time"),
        (["--season", "day", "--time", "when", "--model", "graph-crp"], "graph-crp has no seasons"),
    ],
)
def test_what_is_refused(data, arguments, message):
    result = invoke("run", data, *arguments)
    assert result.exit_code == 2
    assert message in result.output


def test_a_report_shows_the_series_with_and_without(data, tmp_path):
    out = tmp_path / "out.parquet"
    usual = ["--time", "when", "--season", "day"]
    assert invoke("run", data, *usual, "--sink", out).exit_code == 0
    result = invoke("report", out, "--source", data, *usual)
    assert result.exit_code == 0, result.output
    assert "Values are shown with their seasons subtracted" in result.output
    assert "as measured" in (tmp_path / "out.svg").read_text()
    labels = pq.read_table(out)["state"].to_numpy()  # by which a report draws
    left = Seasonal("day").step_many(FLOW[:, None], STAMPS)["0"].to_numpy()
    last = np.bincount(labels[600:]).argmax()
    mean = left[labels == last].mean()
    assert f"mean {mean:.4g}" in result.output
    plain = invoke("report", out, "--source", data, "--time", "when")
    assert "seasons" not in plain.output
    assert "as measured" not in (tmp_path / "out.svg").read_text()
    both = invoke("report", out, "--source", data, *usual, "--text", "flow")
    assert both.exit_code == 2
    assert "texts have no seasons" in both.output
