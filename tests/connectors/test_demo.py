"""The demo, from an empty folder to a picture."""

import xml.etree.ElementTree as ET

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from streamddcrp.plots.figures import matplotlib
from streamddcrp_connectors.cli import main


def demo(folder):
    return CliRunner().invoke(main, ["demo", "--out", str(folder)])


def test_demo_leaves_data_results_picture_and_words(tmp_path):
    folder = tmp_path / "some where" / "demo"
    done = demo(folder)
    assert done.exit_code == 0, done.output
    names = {path.name for path in folder.iterdir()}
    assert names == {
        f"water-flow.{ending}" for ending in ("csv", "parquet", "png", "svg", "txt", "html")
    }
    results = pq.read_table(folder / "water-flow.parquet")
    assert results.num_rows == 1268
    assert results.schema.names[:3] == ["row", "time", "label"]
    words = (folder / "water-flow.txt").read_text()
    assert words in done.stdout
    assert words.startswith(
        "water-flow.csv: 1,268 rows from 2022-03-20 10:00 to 2022-05-16 20:00, in UTC (57 days)."
    )
    assert "Regime 1: " in words
    # the first picture of the README: the interruptions are one regime
    assert "regime 2, twice: 2022-03-29 08:00, 2022-04-27 15:00" in words
    assert (folder / "water-flow.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert matplotlib("image").imread(folder / "water-flow.png")[..., :3].std() > 0.05
    ET.fromstring((folder / "water-flow.svg").read_bytes())


def test_the_commands_it_shows_do_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = demo("demo")
    assert done.exit_code == 0, done.output
    shown = [line.split()[2:] for line in done.stdout.splitlines() if line.startswith("$ ")]
    assert [command[0] for command in shown] == ["run", "report"]
    made = {path: path.read_bytes() for path in (tmp_path / "demo").iterdir()}
    for path in made:
        if path.suffix != ".csv":
            path.unlink()
    for command in shown:
        assert CliRunner().invoke(main, command).exit_code == 0
    assert {path: path.read_bytes() for path in (tmp_path / "demo").iterdir()} == made


def test_a_file_in_the_way_is_refused(tmp_path):
    (tmp_path / "demo").write_text("mine")
    done = demo(tmp_path / "demo")
    assert done.exit_code == 2
    assert done.stderr == f"streamddcrp: --out must name a folder, but {tmp_path}/demo is a file\n"
    assert (tmp_path / "demo").read_text() == "mine"


def test_a_missing_matplotlib_is_named_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    done = demo(tmp_path / "demo")
    assert done.exit_code == 2
    assert "pip install 'streamddcrp[plot]'" in done.stderr
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize("name", ["demo", "report"])
def test_help_says_what_it_does(name):
    done = CliRunner().invoke(main, [name, "--help"])
    assert done.exit_code == 0
    assert "--out" in done.stdout
