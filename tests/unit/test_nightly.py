"""What `make nightly` runs is there, and what came of it is written down."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests import nightly

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("part", nightly.PARTS)
def test_every_part_is_there(part):
    command, _ = nightly.PARTS[part]
    what, name, *_ = command.split()
    if what == "make":
        assert f"\n{name}:" in (ROOT / "Makefile").read_text(encoding="utf-8")
    else:
        assert find_spec(name)
    assert f"| {part} |" in nightly.NOTE.read_text(encoding="utf-8")


def test_what_came_of_a_part_replaces_what_stood_there(tmp_path, monkeypatch):
    parts = {"good": ("-c \"print('5 tried')\"", {}), "bad": ('-c "1/0"', {}), "left": ("-c 0", {})}
    monkeypatch.setattr(nightly, "NOTE", tmp_path / "note.md")
    monkeypatch.setattr(nightly, "PARTS", parts)
    for only in ("good", "bad", "good"):
        monkeypatch.setattr(sys, "argv", ["nightly", "--only", only])
        with pytest.raises(SystemExit) as ended:
            nightly.main()
        assert bool(ended.value.code) == (only == "bad")
    good, bad, left = (tmp_path / "note.md").read_text(encoding="utf-8").splitlines()[-3:]
    assert good.startswith("| good | 5 tried | nothing found | 0 | ")
    assert "division by zero | exit code 1 |" in bad
    assert left == "| left | | not run | | |"
