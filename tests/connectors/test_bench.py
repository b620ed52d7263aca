"""``streamddcrp bench`` finds the benchmarks of the folder it is run in, or says where they are."""

import subprocess
import sys

from click.testing import CliRunner

from streamddcrp_connectors.cli import main


def test_without_the_repository(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["bench", "engine"])
    assert result.exit_code == 2
    assert f"not in {tmp_path}" in result.stderr
    assert "clone" in result.stderr


def test_without_scikit_learn(monkeypatch, request):
    monkeypatch.chdir(request.config.rootpath)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = CliRunner().invoke(main, ["bench"])
    assert result.exit_code == 2
    assert "scikit-learn" in result.stderr


def test_passes_everything_on(monkeypatch, request):
    monkeypatch.chdir(request.config.rootpath)
    calls = []
    monkeypatch.setattr(subprocess, "call", lambda command: calls.append(command) or 3)
    result = CliRunner().invoke(main, ["bench", "engine", "--quick", "--help", "speed"])
    assert result.exit_code == 3
    assert calls == [[sys.executable, "-m", "benchmarks", "engine", "--quick", "--help", "speed"]]
