"""Target processors of machine code, and the folders that store it.

Code is made for one *target* on all machines of an architecture: x86-64-v3 (AVX2 and FMA, in
servers since 2013 and 2015) or AArch64 with NEON. All machines therefore give the same bits, and a
wheel can ship code in the package's folder ``ready``. A processor that lacks some of the target's
instructions gets its own code, as do all with ``STREAMDDCRP_NATIVE=1``.

Other code is compiled once. Its folder is named after the package and a digest of the sources it
may call: its own ``kernels`` package and that package's imports. An edit of a model's kernels
therefore recompiles only that model. The folders are in ``$NUMBA_CACHE_DIR`` or the user's cache
or, if that is read-only, in a temporary folder, with a warning.
"""

import hashlib
import logging
import os
import platform
import re
import shutil
import stat
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from llvmlite import binding
from numba import config

_log = logging.getLogger(__name__)
_settings: Any = config  # numba's, read from the environment
_UNUSED = 30 * 86400.0  # seconds without use after which an older version's folder is deleted
NATIVE = "STREAMDDCRP_NATIVE"
_CORE = Path(__file__).parent
READY = _CORE / "ready"
# By architecture: the target processor, and what a host needs to run its code.
_TARGETS = {
    "x86_64": ("x86-64-v3", "avx avx2 bmi bmi2 f16c fma lzcnt movbe popcnt sse4.2 xsave"),
    "aarch64": ("generic", "neon"),
}
_NAMES = {"amd64": "x86_64", "arm64": "aarch64"}
# Sources of kernels besides `kernels` packages.
_COMPILED = {
    "kernels", "numerics", "contract", "compilation", "roots", "array_groups", "lanes",
    "numba_inside",
}  # fmt: skip
_IMPORTED = re.compile(rb"^from streamddcrp\.([\w.]+) import (\([^)]*\)|.*)", re.MULTILINE)


@cache
def target() -> tuple[str, str, str, str]:
    """Return the target: architecture, processor, features, and settings of numba."""
    machine = platform.machine().lower()
    arch = _NAMES.get(machine, machine)
    settings = f"O{int(_settings.OPT)}" + ("-bounds" if _settings.BOUNDSCHECK else "")
    name, needed = _TARGETS.get(arch, ("", ""))
    if name and os.environ.get(NATIVE, "0") == "0":
        missing = [feature for feature in needed.split() if feature not in _host_features()]
        if not missing:
            return f"{sys.platform}-{arch}", name, "", settings
        _log.warning(
            "this processor lacks %s of %s: kernels are compiled for it, and results may differ "
            "from those of others in the last digits", ", ".join(missing), name,
        )  # fmt: skip
    name = _settings.CPU_NAME or binding.get_host_cpu_name()
    features = _settings.CPU_FEATURES
    if features is None:
        features = binding.get_host_cpu_features().flatten()
    return f"{sys.platform}-{arch}", name, features, settings


@cache
def _host_features() -> set[str]:
    return {name for name, has in binding.get_host_cpu_features().items() if has}


@cache
def digest_of(home: Path) -> str:
    """Digest of a file or package of kernels, and of the kernels it imports."""
    digest = hashlib.sha256()
    for path, source in sorted(sources_of(home).items()):
        digest.update(f"{path.parent.name}/{path.name}\n".encode())
        digest.update(source)
    return digest.hexdigest()[:16]


def sources_of(home: Path) -> dict[Path, bytes]:
    """Return the sources of a file or package of kernels, and of the kernels it imports."""
    pending = [_CORE / "roots.py", *(sorted(home.glob("*.py")) if home.is_dir() else [home])]
    sources: dict[Path, bytes] = {}
    while pending:
        path = pending.pop()
        if path not in sources:
            sources[path] = path.read_bytes()
            for module, names in _IMPORTED.findall(sources[path]):  # or a package's modules
                whole = [module, *(module + b"." + name for name in re.findall(rb"\w+", names))]
                parts = (name.decode().split(".") for name in whole)
                files = (_CORE.joinpath(*part).with_suffix(".py") for part in parts)
                pending += [file for file in files if file.is_file() and _is_compiled(file)]
    return sources


def _is_compiled(path: Path) -> bool:
    return path.parent.name == "kernels" or path.stem in _COMPILED


# Folders


@cache
def cache_root() -> Path:
    """Return the root folder of compiled kernels."""
    root = wanted_root()
    if root is not None and _can_write(root):
        return root
    temporary = _temporary_root()
    _log.warning(
        "compiled kernels are kept in %s, since %s; set NUMBA_CACHE_DIR to a folder that lasts",
        temporary,
        "there is no home folder" if root is None else f"{root} cannot be written",
    )
    return temporary


def wanted_root() -> Path | None:
    """Return the folder for kernels, writable or not; None if there is no home."""
    if _settings.CACHE_DIR:
        return Path(_settings.CACHE_DIR)
    places = {"darwin": "Library/Caches", "win32": "AppData/Local"}
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        return base / "streamddcrp" if base.is_absolute() else (
            Path.home() / places.get(sys.platform, ".cache") / "streamddcrp"
        )  # fmt: skip
    except RuntimeError:
        return None


def _can_write(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _temporary_root() -> Path:
    """Return this user's temporary folder for kernels, a new one if the name is taken."""
    if not hasattr(os, "getuid"):
        return Path(tempfile.gettempdir(), "streamddcrp")
    folder = Path(tempfile.gettempdir(), f"streamddcrp-{os.getuid()}")
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o22:
            return folder
    return Path(tempfile.mkdtemp(prefix="streamddcrp-"))


def folder_of(home: Path) -> str:
    """Return the folder name of a package of kernels."""
    home = home.with_suffix("")
    inside = home.is_relative_to(_CORE)
    parts = home.relative_to(_CORE.parent).parts if inside else home.parts[-3:]
    return f"{'-'.join(parts)}-{digest_of(home if home.is_dir() else home.with_suffix('.py'))}"


@cache
def use(folder: Path) -> None:
    """Mark a folder as used, and delete those of earlier versions long unused."""
    with suppress(OSError):
        os.utime(folder)
        for other in folder.parent.glob(f"{folder.name.rpartition('-')[0]}-*"):
            if other.stat().st_mtime < time.time() - _UNUSED:
                shutil.rmtree(other, ignore_errors=True)
