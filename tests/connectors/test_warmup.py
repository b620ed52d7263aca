"""Kernels compiled ahead: what is said, where they lie, and that the next process loads them."""

import os
import subprocess
import sys

import pytest

from streamddcrp_connectors.run.plugins import MODELS, installed

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT", "0") != "0", reason="nothing is compiled"
)


def warm(folder, *arguments):
    """Run the command in a fresh process with a cache of its own."""
    program = "from streamddcrp_connectors.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, "warmup", "--no-progress", *arguments],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_next_process_compiles_nothing(tmp_path):
    first = warm(tmp_path, "embeddings")
    assert first.returncode == 0, first.stderr
    assert "compiling models.text.kernels" in first.stderr
    assert str(tmp_path) in first.stdout
    code = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nbc")}
    assert code
    second = warm(tmp_path, "embeddings")
    assert second.returncode == 0
    assert "compiling" not in second.stderr
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nbc")} == code


def test_an_unknown_model_is_refused(tmp_path):
    out = warm(tmp_path, "nonsense")
    assert out.returncode == 2
    assert "nonsense" in out.stderr
    assert "seqddcrp" in out.stderr


@pytest.mark.slow
@pytest.mark.parametrize("model", list(installed(MODELS)))
def test_every_model_is_warmed(tmp_path, model):
    assert warm(tmp_path, model).returncode == 0
    assert "compiling" not in warm(tmp_path, model).stderr
