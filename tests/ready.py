"""Calls all that is public, as the golden and the conformance cases do, for a wheel's kernels.

``NUMBA_CACHE_DIR=build/ready python -m tests.ready`` compiles what is not there.
"""

import warnings

from tests.conformance.cases import CASES as MODELS
from tests.golden.recording import Record
from tests.golden.test_digests import CASES as GOLDEN


def main():
    for case in GOLDEN.values():
        case(Record())
    for case in MODELS:
        case.step(case.make(), case.some(1))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
