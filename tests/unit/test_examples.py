"""The examples run and say what they should."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

STORIES = {"reuters_spring": "no stories", "state_of_the_union": "no picture"}
EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.py"))


def run(path, folder, env):
    return subprocess.run(
        [sys.executable, path], capture_output=True, text=True, check=False, cwd=folder, env=env
    )


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_example(path, tmp_path):
    env = dict(os.environ)
    if path.stem in STORIES:  # all of them take minutes
        env["STREAMDDCRP_SHARED"] = str(tmp_path)
    done = run(path, tmp_path, env)
    assert done.returncode == 0, done.stderr
    words = {
        "follow_a_process": "return of regime 0",
        "batch_and_stream": "stream: bound",
        "read_the_outputs": "change points",
        "latent_causes": "most surprising rows",
        **STORIES,
    }
    assert words.get(path.stem, "") in done.stdout


@pytest.mark.parametrize("name", STORIES)
def test_stories_of_a_few_days(name, shared_data, tmp_path):
    pytest.importorskip("matplotlib")
    file = {
        "reuters_spring": Path("reuters21578") / "reuters_to_1987_03.parquet",
        "state_of_the_union": Path("sotu") / "sotu.parquet",
    }[name]
    (tmp_path / file).parent.mkdir()
    rows = 800 if name == "reuters_spring" else 12
    pq.write_table(pq.read_table(shared_data / file).slice(0, rows), tmp_path / file)
    path = Path(__file__).resolve().parents[2] / "examples" / f"{name}.py"
    env = {**os.environ, "STREAMDDCRP_SHARED": str(tmp_path)}
    done = run(path, tmp_path, env)
    assert done.returncode == 0, done.stderr
    assert ".png" in done.stdout
    assert list((tmp_path / "demo").glob("*.png"))
