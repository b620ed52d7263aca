"""Puts machine code into a wheel: all below the folder that $STREAMDDCRP_READY names."""

import os
import platform
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Kernels(BuildHookInterface):  # type: ignore[type-arg]
    """Makes a wheel for this Python and kind of processor; without the variable, one for all."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files, and say what the wheel is for."""
        given = os.environ.get("STREAMDDCRP_READY")
        if not given or version == "editable":
            return
        ready = Path(given).resolve()
        files = {str(f): f"streamddcrp/ready/{f.relative_to(ready)}" for f in ready.rglob("*.nb?")}
        if not files:
            message = f"there is no machine code in {ready}; see `make wheel`"
            raise FileNotFoundError(message)
        system = "manylinux_2_28" if sys.platform == "linux" else sys.platform
        python = "cp{}{}".format(*sys.version_info)
        build_data["force_include"].update(files)
        build_data["pure_python"] = False
        build_data["tag"] = f"{python}-none-{system}_{platform.machine().lower()}"
