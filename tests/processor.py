"""Makes all x86-64 machines of level 3 compute alike: imported before numpy.

Kernels are compiled for that level anyway. numpy chooses `exp`, `log` and powers by processor, and
OpenBLAS its loops: with AVX-512 their last digits are others.
"""

import os
import platform
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # workers with threads take four times as long
_ABOVE = {"avx512vl": "X86_V4", "avx512_vbmi2": "AVX512_ICL", "avx512_fp16": "AVX512_SPR"}
found = Path("/proc/cpuinfo")
flags = found.read_text(encoding="utf-8").split() if found.exists() else []
if platform.machine() == "x86_64" and "avx2" in flags:
    os.environ.setdefault("OPENBLAS_CORETYPE", "Haswell")
    names = " ".join(name for flag, name in _ABOVE.items() if flag in flags)
    if names:
        os.environ.setdefault("NPY_DISABLE_CPU_FEATURES", names)
