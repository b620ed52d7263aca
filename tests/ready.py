"""Calls all that is public, as `warmup` and the golden and conformance cases do, for a wheel.

``NUMBA_CACHE_DIR=build/ready python -m tests.ready`` compiles what is not there.
"""

import warnings

from streamddcrp_connectors.run.plugins import MODELS as BY_NAME
from streamddcrp_connectors.run.plugins import find, installed
from streamddcrp_connectors.warmup import exercise
from tests.conformance.cases import CASES as MODELS
from tests.golden.recording import Record
from tests.golden.test_digests import CASES as GOLDEN


def main():
    for name in installed(BY_NAME):
        exercise(name, find(BY_NAME, name))
    for case in GOLDEN.values():
        case(Record())
    for case in MODELS:
        case.step(case.make(), case.some(1))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
