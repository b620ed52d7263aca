"""The examples run and say what they should."""

import runpy
import sys
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.conftest import REPOSITORY

EXAMPLES = sorted((REPOSITORY / "examples").glob("*.py"))
SAID = {
    "follow_a_process": "return of regime 0",
    "batch_and_stream": "stream: bound",
    "read_the_outputs": "change points",
    "why_did_it_say_that": ": ",
    "latent_causes": "most surprising rows",
}
WITHOUT_DATA = {  # all of them take minutes
    "reuters_spring": "no stories",
    "state_of_the_union": "no picture",
    "cora_network": "no data",
}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run an example in an empty folder, as by its name; return what it printed."""
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)

    def run_one(name, shared=None):
        path = REPOSITORY / "examples" / f"{name}.py"
        monkeypatch.setattr(sys, "argv", [str(path)])
        if shared is not None:
            monkeypatch.setenv("STREAMDDCRP_SHARED", str(shared))
        with monkeypatch.context() as patch:
            patch.syspath_prepend(path.parent)
            runpy.run_path(str(path), run_name="__main__")
        plt.close("all")
        return capsys.readouterr().out

    return run_one


@pytest.mark.parametrize("name", [path.stem for path in EXAMPLES])
def test_example(name, run, tmp_path):
    printed = run(name, tmp_path if name in WITHOUT_DATA else None)
    assert (SAID | WITHOUT_DATA).get(name, "") in printed


def first_rows(name, shared, folder):
    """Copy the beginning of an example's data: of the network the first papers, and their links."""
    files = {
        "reuters_spring": ["reuters21578/reuters_to_1987_03"],
        "state_of_the_union": ["sotu/sotu"],
        "cora_network": [f"cora_planetoid/{table}" for table in ("nodes", "words", "edges")],
    }[name]
    rows = {"reuters_spring": 800, "state_of_the_union": 12, "cora_network": 300}[name]
    for file in files:
        table = pq.read_table(shared / f"{file}.parquet")
        ends = [c for c in ("node", "src", "dst") if c in table.column_names]
        for column in ends:
            table = table.filter(pc.less(table[column], rows))
        path = folder / f"{file}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(table if ends else table.slice(0, rows), path)


@pytest.mark.parametrize("name", WITHOUT_DATA)
def test_with_a_little_data(name, run, shared_data, tmp_path):
    first_rows(name, shared_data, tmp_path)
    printed = run(name, tmp_path)
    assert ".png" in printed
    assert list((tmp_path / "demo").glob("*.png"))


@pytest.mark.slow
def test_all_of_the_network(run, shared_data):
    assert Path(shared_data, "cora_planetoid").is_dir()
    printed = run("cora_network")
    found = [float(line.rpartition(" ")[2]) for line in printed.splitlines() if ", ARI " in line]
    assert found[0] > found[1]  # citations help
