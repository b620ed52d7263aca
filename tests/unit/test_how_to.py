"""The how-to pages, followed literally: files written, changes made, commands run."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib

import pytest

from tests.conftest import REPOSITORY

DOCS = REPOSITORY / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = "from streamddcrp_connectors.__main__ import main; main()"  # as the console script does
COPIED = ("streamddcrp", "tests/oracles", "tests/properties", "tests/unit")


def copy_repository(folder):
    for name in COPIED:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / name, folder / name, ignore=ignored)
    for name in ("tests/__init__.py", "tests/conftest.py", "tests/processor.py", "pyproject.toml"):
        shutil.copy(REPOSITORY / name, folder / name)


def change(folder, text):
    """Make the changes of a diff: each stretch of old lines has to be in the file once."""
    header, *lines = text.splitlines(keepends=True)
    path = folder / header.removeprefix("--- ").strip()
    source = path.read_text()
    for hunk in "".join(lines).split("@@\n")[1:]:
        kept = hunk.splitlines(keepends=True)
        old = "".join(line[1:] or "\n" for line in kept if line[0] in " -\n")
        new = "".join(line[1:] or "\n" for line in kept if line[0] in " +\n")
        assert source.count(old) == 1, (path.name, hunk)
        source = source.replace(old, new)
    path.write_text(source)


def install(folder):
    """Write the metadata that pip would, so that entry points are found."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    groups = project["entry-points"].items()
    (info / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
            for group, points in groups
        )
    )


def run(folder, command, **env):
    """Run a command of a page; return what it printed."""
    program, *arguments = shlex.split(command)
    if program == "pip":
        install(folder)
        return ""
    python = [sys.executable, *(["-c", COMMAND] if program == "streamddcrp" else [])]
    paths = os.pathsep.join(map(str, [folder, REPOSITORY, REPOSITORY / "connectors"]))
    done = subprocess.run(
        [*python, *arguments], capture_output=True, text=True, check=False, cwd=folder,
        env=os.environ | {"NUMBA_DISABLE_JIT": "0"} | env | {"PYTHONPATH": paths},
    )  # fmt: skip
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def follow(page, folder, **env):
    """Do what a page says in a folder; return what its commands printed."""
    printed = ""
    for language, text in BLOCK.findall((DOCS / page).read_text()):
        if language == "console":
            for line in text.splitlines():
                printed += run(folder, line.removeprefix("$ "), **env)
        elif language == "diff":
            change(folder, text)
        else:
            path = folder / text.partition("\n")[0].removeprefix("# ")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return printed


def test_a_decay(tmp_path):
    copy_repository(tmp_path)
    printed = follow("how-to-add-a-decay.md", tmp_path)
    assert printed.count("passed") == 2
    assert printed.count(" tables\n") == 2


def test_a_likelihood(tmp_path):
    """Uncompiled: a new family means that every kernel would be compiled again."""
    copy_repository(tmp_path)
    printed = follow("how-to-add-a-likelihood.md", tmp_path, NUMBA_DISABLE_JIT="1")
    assert printed.count("passed") == 2
    assert "tables\n" in printed
    chains = tmp_path / "streamddcrp/likelihoods/kernels/families.py"
    branch = """        elif code == GAMMA_EXPONENTIAL:
            waiting.ge_natural(hyper, h, post, q, out, s)
"""
    change(tmp_path, f"--- {chains}\n@@\n" + re.sub("^", "-", branch, flags=re.MULTILINE)[:-1])
    with pytest.raises(AssertionError, match="1 failed, 4 passed"):
        run(tmp_path, "python -m pytest -q tests/unit/test_family_chains.py", NUMBA_DISABLE_JIT="1")


def test_a_source_and_a_sink(tmp_path):
    assert " passed" in follow("how-to-add-a-source.md", tmp_path)
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert len(lines) == 501
    assert lines[0].startswith('"row","time","label"')


def test_a_model(tmp_path):
    assert " passed" in follow("how-to-add-a-model.md", tmp_path)
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 100
    events = (tmp_path / "events.jsonl").read_text().splitlines()
    assert events
    assert all('"kind": "birth"' in line for line in events)


def test_a_change_that_does_not_fit_is_noticed(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\nx = 1\n")
    for old in ("x = 1", "x = 2"):
        with pytest.raises(AssertionError):
            change(tmp_path, f"--- a.py\n@@\n-{old}\n+y = 1\n")
