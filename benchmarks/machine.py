"""What a figure was measured on, peak memory, and a Markdown table."""

from __future__ import annotations

import os
import platform
import resource
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import numba
import numpy as np


def machine() -> str:
    """One line: CPU model, cores, Python, numpy and numba versions."""
    model = platform.processor() or platform.machine()
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return (
        f"Machine: {model}, {os.cpu_count()} cores; Python {platform.python_version()}, "
        f"numpy {np.__version__}, numba {numba.__version__}."
    )


def peak_mebibytes() -> float:
    """Largest resident memory of this process so far.

    Linux's VmHWM where there is one: ru_maxrss of a new process starts at its parent's.
    """
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return float(line.split()[1]) / 1024.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [list(header), ["---"] * len(header), *map(list, rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def spread(values: Sequence[float], form: str = ".3g") -> str:
    """Median (smallest to largest)."""
    low, middle, high = (float(f(values)) for f in (np.min, np.median, np.max))
    return f"{middle:{form}} ({low:{form}} to {high:{form}})"


def met(*conditions: bool) -> str:
    """Say whether every condition of a target holds."""
    return "yes" if all(conditions) else "**no**"
