"""Where machine code goes, who makes it, and which processor it is for."""

import ast
import os
import subprocess
import sys
import time

import pytest

from streamddcrp import kernel_folders as folders
from tests.conftest import REPOSITORY, UNCOMPILED

pytestmark = pytest.mark.skipif(UNCOMPILED, reason="nothing is compiled")
KERNEL = """
import math
from streamddcrp.compilation import kernel

@kernel
def total(x):
    out = 0.0
    for i in range(len(x)):
        out += math.exp(-x[i]) * x[i]
    return out
"""
CALL = "import numpy as np, toy; print(toy.total(np.arange(9.0) / 7.0).hex())"
CORE = REPOSITORY / "streamddcrp"
SLOW = "import numba; numba.__version__ = '0.69.0'\n"


@pytest.fixture
def place(tmp_path):
    tmp_path.joinpath("toy.py").write_text(KERNEL)
    for name in ("home", "tmp", "cwd"):
        tmp_path.joinpath(name).mkdir()
    return tmp_path


def begun(place, code=CALL, **env):
    """Start a process in ``cwd`` with nothing of this one's environment but its path."""
    paths = os.pathsep.join([str(place), str(REPOSITORY), *filter(None, sys.path)])
    given = {"PATH": os.environ["PATH"], "PYTHONPATH": paths, "TMPDIR": str(place / "tmp"),
             "HOME": str(place / "home"), "PYTHONDONTWRITEBYTECODE": "1"} | env  # fmt: skip
    given = {name: value for name, value in given.items() if value is not None}
    return subprocess.Popen(
        [sys.executable, "-c", code], cwd=place / "cwd", env=given, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def ended(process):
    out, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    return out.strip(), said


def codes(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.nbc")}


def test_code_goes_to_the_cache_of_the_user_and_is_found_there(place):
    first, said = ended(begun(place))
    assert not said
    kept = codes(place / "home" / ".cache" / "streamddcrp")
    assert len(kept) == 1
    assert ended(begun(place)) == (first, "")
    assert codes(place) == kept
    assert not list((place / "cwd").iterdir())


@pytest.mark.parametrize("home", ["a file", "nobody's", "read only"])
def test_without_a_folder_that_can_be_written(place, home):
    if home == "a file":
        env = {"HOME": str(place / "toy.py")}
    elif home == "nobody's":  # who is unknown to the system has no home without $HOME
        env = {"HOME": None}
    else:
        env = {"NUMBA_CACHE_DIR": "/proc/streamddcrp"}
    code = CALL
    if home == "nobody's":
        code = "import pwd; pwd.getpwuid = {}.__getitem__\n" + CALL
    out, said = ended(begun(place, code, **env))
    assert out.startswith("0x")
    assert f"compiled kernels are kept in {place / 'tmp'}" in said
    kept = codes(place / "tmp")
    assert len(kept) == 1
    assert oct(next(iter((place / "tmp").iterdir())).stat().st_mode)[-3:] == "700"
    assert ended(begun(place, code, **env))[0] == out
    assert codes(place) == kept
    assert not list((place / "cwd").iterdir())


def test_a_folder_that_others_may_write_is_not_trusted(place):
    folder = place / "tmp" / f"streamddcrp-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    ended(begun(place, HOME=str(place / "toy.py")))
    assert not codes(folder)
    assert len(codes(place / "tmp")) == 1


def test_a_file_cut_short_is_compiled_again(place):
    first, _ = ended(begun(place))
    for path in [*place.rglob("*.nbc"), *place.rglob("*.nbi")]:
        path.write_bytes(path.read_bytes()[:-7])
    assert ended(begun(place))[0] == first


def test_one_process_compiles_while_others_wait(place):
    """What is compiled is written down; the first is stopped in the midst of it, then killed."""
    wrapped = """
import pathlib, time, streamddcrp.roots as roots
usual = roots._Whole._optimize_final_module
def slowly(self):
    pathlib.Path("compiling").open("a").write("x")
    time.sleep({})
    usual(self)
roots._Whole._optimize_final_module = slowly
"""
    killed = begun(place, wrapped.format(60) + CALL)
    while not (place / "cwd" / "compiling").exists():
        assert killed.poll() is None, killed.communicate()
        time.sleep(0.05)
    both = [begun(place, wrapped.format(1) + CALL) for _ in range(2)]
    time.sleep(1.5)
    killed.kill()
    killed.communicate()
    (first, _), (second, _) = map(ended, both)
    assert first == second
    assert (place / "cwd" / "compiling").read_text() == "xx"


def test_bits_do_not_depend_on_the_processor(place):
    """Only with code for the host, or where the host lacks what all others have."""
    first, _ = ended(begun(place))
    told = {"NUMBA_CPU_NAME": "nehalem", "NUMBA_CPU_FEATURES": ""}
    assert ended(begun(place, **told)) == (first, "")
    assert len(codes(place)) == 1
    ended(begun(place, STREAMDDCRP_NATIVE="1", **told))
    assert len(codes(place)) == 2
    old = """
from llvmlite import binding
has = binding.get_host_cpu_features()
for name in "avx2", "fma", "neon":
    has[name] = False
binding.get_host_cpu_features = lambda: has
"""
    _, said = ended(begun(place, old + CALL, **told))
    assert "this processor lacks" in said
    assert len(codes(place)) == 2  # that of nehalem


def test_code_that_checks_bounds_is_another(place):
    ended(begun(place))
    ended(begun(place, NUMBA_BOUNDSCHECK="1"))
    assert len(codes(place)) == 2


def test_another_numba_is_slow_and_says_so(place):
    first, _ = ended(begun(place))
    out, said = ended(begun(place, SLOW + CALL))
    assert float.fromhex(out) == pytest.approx(float.fromhex(first), rel=1e-15)
    assert "numba 0.69.0 is not 0.68" in said
    assert "numba==0.68.*" in said
    kept = codes(place)
    assert len(kept) == 2
    assert ended(begun(place, SLOW + CALL))[0] == out
    assert codes(place) == kept


def imported(path):
    """Files of kernels that a file imports, by its syntax tree."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("streamddcrp."):
            home = CORE.joinpath(*node.module.split(".")[1:])
            for file in [home, *(home / name.name for name in node.names)]:
                if file.with_suffix(".py").is_file() and folders._is_compiled(file):
                    yield file.with_suffix(".py")


@pytest.mark.parametrize("home", sorted(CORE.rglob("kernels")), ids=lambda home: home.parent.name)
def test_all_kernels_that_others_import_are_in_the_digest(home):
    sources = set(folders.sources_of(home))
    assert {*home.glob("*.py")} <= sources
    assert {file for path in sources for file in imported(path)} <= sources
