"""``python -m tests.nightly``: all that takes hours; what came of it is written down.

Each part is a command, which ends with 0 where nothing was found. Its last line, with the day and
how long it took, is put into the table of `research/notes/nightly.md`, in the place of what stood
there; lines of parts that are not run stay. `make fuzz` runs the parts of `tests.fuzz` for some
minutes each. Ends with 1 where a part did not end with 0.
"""

import argparse
import datetime
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import click

NOTE = Path(__file__).parents[1] / "research" / "notes" / "nightly.md"
HEAD = """# The last nightly run of each part

Written by `python -m tests.nightly`, which `make nightly` runs.

| part | last line | result | minutes | day |
|---|---|---|---|---|
"""
BOUNDS = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": ".venv/boundscheck"}
FUZZ = {  # name: module and arguments, and what else stands in the environment
    "wrong calls": ("calls --calls 100000", {}),
    "adversarial rows": ("rows", {}),
    "mutated files": ("readers", {}),
    "full disks": ("disks", {}),
    "kills": ("kills --most 300", {}),
    "Ctrl-C, no memory": ("interrupts --most 2200", {}),
    "processes": ("processes", {}),
    "living clusters": ("living", {}),
    "forged states": ("run --most 20000", {}),
    "forged containers": ("run --containers --most 9000", {}),
    "forged states, bounds checked": ("run --most 5000", BOUNDS),
}
PARTS = {f"fuzz: {name}": (f"-m tests.fuzz.{what}", env) for name, (what, env) in FUZZ.items()} | {
    "fuzz: conformance, bounds checked": (
        '-m pytest -q -m "not slow" -p no:cacheprovider tests/conformance/test_laws.py', BOUNDS,
    ),
    **{f"make {target}": (f"make {target}", {}) for target in (
        "uncompiled", "slow", "thorough", "wheel-test", "newest", "research"
    )},
}  # fmt: skip


def run(command, env, minutes):
    """Return the exit code of a part, and its last line."""
    if not command.startswith("make "):
        command = f'"{sys.executable}" {command}'
        if minutes is not None and "tests.fuzz" in command:
            command += f" --minutes {minutes:g}"
    last = ""
    with subprocess.Popen(
        command, shell=True, env=os.environ | env, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        for line in process.stdout:
            click.echo(line, nl=False)
            last = line.strip() or last
    return process.returncode, last


def rows_of(text):
    """Return the lines of the table by part."""
    return {m[1]: m[0] for m in re.finditer(r"^\| (.+?) \|.*$", text, re.M) if m[1] in PARTS}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="pattern of the names of parts")
    parser.add_argument("--minutes", type=float, help="for each part of tests.fuzz")
    given = parser.parse_args()
    failed = False
    for part, (command, env) in PARTS.items():
        if not re.search(given.only, part):
            continue
        begun = time.monotonic()
        code, last = run(command, env, given.minutes)
        took, day = (time.monotonic() - begun) / 60.0, datetime.datetime.now(datetime.UTC).date()
        failed |= code != 0
        said = last.replace("|", "/").strip("= ")
        rows = rows_of(NOTE.read_text(encoding="utf-8")) if NOTE.exists() else {}
        result = "nothing found" if code == 0 else f"exit code {code}"
        rows[part] = f"| {part} | {said} | {result} | {took:.0f} | {day} |"
        lines = [rows.get(name, f"| {name} | | not run | | |") for name in PARTS]
        NOTE.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    sys.exit(failed)


if __name__ == "__main__":
    main()
