"""Every public class and function gives what it gave, on small fixed streams.

One file a case lies in ``digests``. It holds labels and other whole numbers and names exactly;
floats to ten digits, long columns thinned; and digests of the bits of all floats, and of the arrays
and settings of checkpoints, by name. Values are compared everywhere, up to rounding; bits only with
the versions that made the file, on any processor of the kind that kernels are compiled for.

``python -m tests.golden.test_digests [CASE ..]`` writes the files again, all or those named, and
prints what has changed. That is legitimate only where numbers, columns or names of a state were to
change, which the change log then says; never to make a rearrangement of the code pass.
"""

import json
import sys
import warnings
from functools import cache
from pathlib import Path

import pytest

from tests.golden import cases_particles, cases_rare, cases_regimes, cases_shared, cases_texts  # noqa: F401
from tests.golden.cases import CASES, EXEMPT, names_in
from tests.golden.recording import (
    Record,
    differences,
    joined,
    layout,
    machine,
    package_names,
    renamed,
)

FILES = Path(__file__).parent / "digests"
REWRITE = "if that was meant: python -m tests.golden.test_digests"
each = pytest.mark.parametrize("name", CASES)


@cache
def run(name):
    """Return what a case gives now, as it comes back from a file."""
    record = Record()
    CASES[name](record)
    return json.loads(joined(record.content()))


def stored(name):
    path = FILES / f"{name}.json"
    assert path.exists(), f"{name}: no file; python -m tests.golden.test_digests {name}"
    return json.loads(path.read_text(encoding="utf-8"))


def report(name, found):
    more = [f"and {len(found) - 40} more"] if len(found) > 40 else []
    return "\n  ".join([f"{name} has changed ({REWRITE} {name}):", *found[:40], *more])


@each
def test_values(name):
    old, new = stored(name), run(name)
    found = differences(old["values"], new["values"], tolerant=True)
    found += differences(layout(old["bits"]), layout(new["bits"]), tolerant=False)
    found += [f"{key}: is gone" for key in old["settings"] if key not in new["settings"]]
    found += [f"{key}: is new" for key in new["settings"] if key not in old["settings"]]
    assert not found, report(name, found)


@each
def test_bits(name):
    old, here = stored(name), machine()
    if old["made_on"] != here:
        unlike = [f"{k} {old['made_on'].get(k)} -> {v}" for k, v in here.items()
                  if old["made_on"].get(k) != v]  # fmt: skip
        pytest.skip(f"bits depend on the machine, which is another one: {', '.join(unlike)}")
    new = run(name)
    found = differences(old["bits"], new["bits"], tolerant=False)
    found += differences(old["settings"], new["settings"], tolerant=False)
    assert not found, report(name, found)


def test_every_public_name_has_a_case():
    used = set().union(*(names_in(function.__code__) for function in CASES.values()))
    missing = package_names() - used - set(EXEMPT)
    assert not missing, f"no case in tests/golden uses {sorted(missing)}"
    assert set(EXEMPT) <= package_names() - used, "EXEMPT names what has a case or is not public"


def test_every_file_has_a_case():
    assert {path.stem for path in FILES.glob("*.json")} == set(CASES)


def main(names):
    """Write the files of the cases named, or of all; print what has changed."""
    for name in names or CASES:
        path, new = FILES / f"{name}.json", run(name)
        old = stored(name) if path.exists() else None
        path.write_text(joined(new), encoding="utf-8")
        lines = [] if old is None else [
            line for part in ("values", "bits", "settings")
            for line in differences(old[part], new[part], tolerant=False)
        ]  # fmt: skip
        same = [] if old is None else renamed(old["bits"], new["bits"])
        lines += [f"{was} is now called {now}" for was, now in same]
        print(f"{name}: {'new' if old is None else f'{len(lines)} changes'}", *lines, sep="\n  ")  # noqa: T201
    for path in FILES.glob("*.json"):
        if path.stem not in CASES:
            path.unlink()


if __name__ == "__main__":
    warnings.simplefilter("error")
    main(sys.argv[1:])
