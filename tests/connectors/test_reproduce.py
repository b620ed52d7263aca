"""``streamddcrp reproduce`` finds the experiments of a clone, or says where they are."""

import subprocess
import sys

from click.testing import CliRunner

from streamddcrp_connectors import reproduce
from streamddcrp_connectors.cli import main


def test_without_a_clone(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reproduce, "_OWN_CLONE", tmp_path)
    result = CliRunner().invoke(main, ["reproduce", "graph-images"])
    assert result.exit_code == 2
    assert f"not in {tmp_path}" in result.stderr
    assert "clone" in result.stderr


def test_passes_everything_on(monkeypatch, tmp_path):
    """From the folder of a clone, or, in any other, from the clone that is installed."""
    calls = []
    monkeypatch.setattr(
        subprocess, "call", lambda command, env: calls.append((command, env["PYTHONPATH"])) or 3
    )
    here, installed = tmp_path / "here", tmp_path / "installed"
    for folder in (here, installed):
        (folder / "research").mkdir(parents=True)
        (folder / "research" / "reproduce.py").touch()
    monkeypatch.setattr(reproduce, "_OWN_CLONE", installed)
    for folder, clone in ((here, here), (tmp_path, installed)):
        monkeypatch.chdir(folder)
        result = CliRunner().invoke(main, ["reproduce", "graph-images", "--seeds", "2", "--help"])
        assert result.exit_code == 3
        command, paths = calls.pop()
        assert command[1:] == ["-m", "research.reproduce", "graph-images", "--seeds", "2", "--help"]
        assert command[0] == sys.executable
        assert paths.split(":")[0] == str(clone)
