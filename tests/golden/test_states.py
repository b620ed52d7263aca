"""States of earlier releases load, the models go on as they did then, and public names are kept.

``python -m tests.golden.test_states [CLASS ..]`` writes the files of the present version: states of
the public classes of the conformance suite that can be stored, or of those named, and the public
names. Once a version is released its files are never written again, since the next one has to load
them.
"""

import importlib
import json
import math
import sys
from pathlib import Path

import pytest

import streamddcrp
from tests.conformance.cases import CASES

FOLDER = Path(__file__).parent / "states"
COLUMNS = ("label", "score", "p_new", "alarm", "final_label")
FILES = sorted(FOLDER.glob("*.state"))
VERSION = ".".join(streamddcrp.__version__.split(".")[:2])
MODULES = ("streamddcrp", "streamddcrp.likelihoods", "streamddcrp.decay")


def first_cases():
    """Return the first case of each public class that has states."""
    found = {}
    for case in CASES:
        name = type(case.make()).__name__
        if hasattr(streamddcrp, name) and hasattr(case.make(), "from_bytes"):
            found.setdefault(name, case)
    return found


def halves(case):
    stream = case.some(1)
    return stream[: len(stream) // 2], stream[len(stream) // 2 :]


def said(case, model):
    """Return what a model says of the second half of its case's stream, as it learns it."""
    out = case.step(model, halves(case)[1])
    names = [name for name in COLUMNS if name in out.schema.names] or out.schema.names
    return json.loads(json.dumps({name: out[name].to_pylist() for name in names}))


def near(a, b):
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9) or (a != a and b != b)
    return a == b


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_states_of_releases_load_and_go_on(path):
    case = first_cases()[path.stem.partition("-")[0]]
    model = type(case.make()).from_bytes(path.read_bytes())
    expected = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    found = said(case, model)
    assert found
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert len(found[name]) == len(values), name
        assert all(map(near, found[name], values)), name


def test_every_class_has_a_state_of_this_version():
    assert {f"{name}-{VERSION}" for name in first_cases()} <= {path.stem for path in FILES}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("names-*.json")), ids=lambda path: path.stem)
def test_public_names_of_releases_are_there(path):
    """Take a name out of the file of an old version when its time of warning is over."""
    for module, names in json.loads(path.read_text(encoding="utf-8")).items():
        there = importlib.import_module(module)
        assert [name for name in names if not hasattr(there, name)] == []


def public_names():
    return {name: sorted(importlib.import_module(name).__all__) for name in MODULES}


def main():
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"names-{VERSION}.json").write_text(json.dumps(public_names(), indent=1) + "\n")
    for name, case in first_cases().items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        model = case.learned(halves(case)[0])
        path = FOLDER / f"{name}-{VERSION}.state"
        path.write_bytes(model.to_bytes())
        text = json.dumps(said(case, type(model).from_bytes(path.read_bytes())))
        path.with_suffix(".json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
