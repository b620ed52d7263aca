"""With another numba than the one whose inside is known, kernels give the same numbers.

``make newest`` runs this file with the newest numba that the index offers, pre-releases too.
"""

import os
import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY, UNCOMPILED

PROGRAM = """
import sys, warnings, numba
if numba.__version__.startswith("0.68."):
    numba.__version__ = "0.69.0"
from streamddcrp import compilation
assert compilation._roots is None
from tests.golden.test_digests import differences, run, stored
warnings.simplefilter("ignore")
for name in sys.argv[1:]:
    found = differences(stored(name)["values"], run(name)["values"], tolerant=True)
    assert not found, (name, found[:9])
"""


def check(*cases):
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(REPOSITORY), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *cases], cwd=REPOSITORY, env=env, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "is not 0.68" in done.stderr


@pytest.mark.skipif(UNCOMPILED, reason="nothing is compiled")
def test_small_kernels():
    check("alarm", "window-features")


@pytest.mark.slow
@pytest.mark.parametrize("case", ["seqddcrp-reference", "ddcrp-sampler", "text-stream", "seasons"])
def test_models(case):
    check(case)
