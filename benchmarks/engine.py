"""The streaming engine against what is wanted of it and its peers, as one Markdown page."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import click

from benchmarks import engine_changes, engine_quality, engine_speed
from benchmarks.machine import machine

# Timings first, while the machine has nothing else to do for us.
PARTS: dict[str, tuple[str, Callable[..., str]]] = {
    "speed": ("Speed, memory and size", engine_speed.report),
    "quality": ("Labels before learning, against the truth", engine_quality.report),
    "changes": ("Alarms at switches", engine_changes.report),
}


@click.command("engine", help="The streaming engine against its targets and peers; all parts.")
@click.argument("parts", nargs=-1, type=click.Choice(list(PARTS)))
@click.option("--quick", is_flag=True, help="Fewer seeds, shorter streams: a minute or two.")
@click.option("--out", type=click.Path(dir_okay=False), help="Also write the page to this file.")
def main(parts: tuple[str, ...], quick: bool, out: str | None) -> None:
    start = time.perf_counter()
    page: list[str] = []

    def show(text: str) -> None:
        click.echo(f"{text}\n")
        page.append(f"{text}\n")

    show("## Streaming engine (`engine`)")
    for name in parts or PARTS:
        title, report = PARTS[name]
        show(f"### {title}")
        show(report(quick=quick))
    minutes = (time.perf_counter() - start) / 60
    show(f"{machine()} {minutes:.0f} min in all{', --quick' if quick else ''}.")
    if out is not None:
        Path(out).write_text("\n".join(page), encoding="utf-8")
