"""The examples run and say what they should."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_example(path, tmp_path):
    done = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    words = {
        "follow_a_process": "return of regime 0",
        "batch_and_stream": "stream: bound",
        "read_the_outputs": "change points",
    }
    assert words.get(path.stem, "") in done.stdout
