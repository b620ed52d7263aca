"""What the commands of the benchmarks take alike."""

from __future__ import annotations

import json
from typing import Any

import click


class SeedRange(click.ParamType):
    """Seeds like 0-9,100."""

    name = "seeds"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        seeds: list[int] = []
        try:
            for part in value.split(","):
                first, _, last = part.partition("-")
                seeds += range(int(first), int(last or first) + 1)
        except ValueError:
            self.fail(f"{value!r} is not a list of seeds like 0-9,100", param, ctx)
        return tuple(seeds)


class Options(click.ParamType):
    """Options of `SeqDDCRP` as a JSON object; lists become tuples."""

    name = "json"

    def convert(self, value: Any, param: Any, ctx: Any) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        try:
            items = json.loads(value).items()
        except (ValueError, AttributeError):
            self.fail(f'{value!r} is not a JSON object like {{"alpha": 0.2}}', param, ctx)
        return {name: tuple(v) if isinstance(v, list) else v for name, v in items}
