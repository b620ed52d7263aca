"""The power goes at any write: the same command goes on as if it had not."""

import json
import subprocess
import sys

import pytest

from .data import WRITERS
from .test_crash import ROOT, cases


def lose_power(folder, chosen, every=1):
    ran = subprocess.run(
        [sys.executable, "-m", "tests.connectors.power_driver"],
        input=json.dumps({"folder": str(folder), "cases": chosen, "every": every}),
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="reads names of open files from /proc")
@pytest.mark.parametrize(
    ("kind", "sink"), [("csv", "jsonl"), ("parquet", "parquet"), ("arrow", "arrow")]
)
def test_power_that_goes_at_any_write(tmp_path, kind, sink):
    chosen = list(cases(tmp_path, [kind], [sink]))[::3]  # without keys and dead letters, and with
    for case, found in zip(chosen, lose_power(tmp_path, chosen, every=7), strict=True):
        assert found["wrong"] == [], case
        assert found["moments"] > 30  # several of each batch
        assert not found["lost"], case  # what a run that ended has written


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads names of open files from /proc")
def test_power_that_goes_at_any_write_of_any_run(tmp_path):
    chosen = list(cases(tmp_path, list(WRITERS), ["jsonl", "parquet", "arrow"]))
    for case, found in zip(chosen, lose_power(tmp_path, chosen), strict=True):
        assert found["wrong"] == [], case
        assert not found["lost"], case
