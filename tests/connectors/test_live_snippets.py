"""The lines of docs/live.md, as they are written, where what they need is installed."""

import os
import re
import shutil
import socket
import subprocess
import sys

import pyarrow as pa
import pytest
from pyarrow import csv

from tests.conftest import REPOSITORY
from tests.unit.test_how_to import BLOCK, COMMAND

CODE = [code for _, code in BLOCK.findall((REPOSITORY / "docs" / "live.md").read_text())]
FILES = dict(re.findall(r"^# (\w+\.py)\n(.*?)\Z", code, re.M | re.S)[0] for code in CODE
             if code.startswith("# "))  # fmt: skip
# Of each block: a word that it holds, what it needs, the port that its first process listens on.
RUN = {
    "redis-server --bind": (["redis-server", "redis-cli"], 6379),
    "nats-server -a": (["nats-server"], 4222),
    "http-push://": (["curl"], 8080),
    "delta://": (["deltalake"], None),
    "serve-flight": ([], 8815),
    "receiver.py": (["sqlite3"], 8816),
}
LEFT_OUT = {
    "nats://plant.example": "an address that is an example",
    "pager.example": "an address that is an example",
    "plant.csv --follow": "runs until it is interrupted; the README has such a line",
    "mosquitto -c": "wants a system's own configuration",
    "psql plant": "wants a database",
    "[[silence]]": "a file of settings, of a kind that the tests of alarms read",
    "kafka-topics.sh": "the page says that it was not tried",
}


def test_every_block_is_run_or_left_out_for_a_reason():
    for code in CODE:
        if "\n" in code and not code.startswith(("# ", "{")):
            assert sum(word in code for word in [*RUN, *LEFT_OUT]) == 1, code


def here(name):
    return bool(shutil.which(name)) or bool(shutil.which(name, path="/usr/sbin"))


def taken(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("word", RUN)
def test_block(word, tmp_path):
    needs, port = RUN[word]
    for name in needs:
        if name == "deltalake":
            pytest.importorskip(name)
        elif not here(name):
            pytest.skip(f"{name} is not here")
    if port is not None and taken(port):
        pytest.skip(f"port {port} is taken")
    (code,) = (code for code in CODE if word in code and not code.startswith(("# ", "{")))
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    csv.write_csv(pa.table({"t": [1.0, 2.0, 3.0], "a": [0.5, 0.7, 0.1]}), tmp_path / "plant.csv")
    for name, line in ("streamddcrp", f"-c '{COMMAND}' "), ("python", ""):
        script = tmp_path / "bin" / name
        script.parent.mkdir(exist_ok=True)
        script.write_text(f"#!/bin/sh\nexec '{sys.executable}' {line}\"$@\"\n")
        script.chmod(0o755)
    # A person types the next line once the process of this one is there.
    wait = f"\nuntil (: < /dev/tcp/127.0.0.1/{port}) 2> /dev/null; do sleep 0.1; done"
    code = re.sub(r"(&|--daemonize yes)$", r"\1" + wait, code, flags=re.M)
    code = re.sub(r"--idle \d+", "--idle 2", code)  # nothing more comes
    code = re.sub(r"--batch-wait \d+", "--batch-wait 1", code)
    end = "redis-cli shutdown nosave" if word.startswith("redis") else "kill $(jobs -p)"
    code = f"set -e\ntrap '{end} 2> /dev/null || true' EXIT\n{code}"
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}{os.pathsep}/usr/sbin"
    env = os.environ | {"PATH": path, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        ["bash", "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
