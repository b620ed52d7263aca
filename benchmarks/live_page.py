"""What does the live page cost, and how soon is what was learned drawn?

First the engine: CPU seconds of a run, which other work on the machine hardly changes, without a
page, with a page without a viewer, and with five browsers. Then a page in headless Chromium,
fed by hand at a rate: from learned to drawn, pictures a second, the heap of JavaScript, and memory
and CPU of the page's process. Rows have six columns.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing as mp
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.machine import machine, markdown, spread
from streamddcrp_connectors.page.observer import LivePage
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.config import find_recipe
from streamddcrp_connectors.run.loop import Epoch, Summary, run
from streamddcrp_connectors.run.models import Rows
from streamddcrp_connectors.run.sinks import open_sink
from streamddcrp_connectors.run.sources import open_source

COLUMNS = tuple(f"column {d}" for d in range(6))
BROWSERS = 5


def table(n: int, first: int = 0) -> Any:
    """Rows in regimes of some hundred each."""
    rng = np.random.default_rng(first)
    row = np.arange(first, first + n)
    cells = {"at": pa.array(1.7e9 + row / 1000.0)}
    for d, name in enumerate(COLUMNS):
        cells[name] = pa.array(8.0 * ((row // 700 * (d + 3)) % 5) + rng.normal(size=n))
    return pa.record_batch(cells)


# -- the engine ------------------------------------------------------------------------------------


def _engine(pipe: Any, path: str, browsers: int | None) -> None:
    with ExitStack() as stack:
        page = None
        if browsers is not None:
            page = LivePage("127.0.0.1:0", None)
            stack.callback(page.close)
            watching = mp.get_context("spawn").Process(target=_watch, args=(page.address, browsers))
            watching.start()
            stack.callback(watching.join)
            stack.callback(watching.terminate)
        source = open_source(path, Columns("at"), batch_rows=1000)
        sink = open_sink(str(Path(path).with_suffix(".out.parquet")), None, None)
        begun, clock = time.process_time(), time.perf_counter()
        watchers = [] if page is None else [page]
        run(source, find_recipe(None), sink, watchers=watchers, overwrite=True)
        pipe.send((time.process_time() - begun, time.perf_counter() - clock))
        pipe.send(0 if page is None else page._dropped)
        source.close()


def _watch(address: str, n: int) -> None:
    """Look at the page as browsers do, without drawing."""
    from tornado.httpclient import HTTPRequest  # noqa: PLC0415
    from tornado.websocket import websocket_connect  # noqa: PLC0415

    at = urlsplit(address)
    cookie = f"streamddcrp-{at.port}={parse_qs(at.query)['token'][0]}"

    async def one() -> None:
        request = HTTPRequest(f"ws://{at.netloc}/socket", headers={"Cookie": cookie})
        link = await websocket_connect(request)
        want = {"do": "show", "id": 1, "key": "", "span": None, "end": None, "most": 900}
        await link.write_message(json.dumps(want))
        while (frame := await link.read_message()) is not None:
            if isinstance(frame, bytes):
                await link.write_message('{"do": "got"}')
            elif json.loads(frame)["type"] == "hello":
                await link.write_message(json.dumps(want))

    async def all_() -> None:
        await asyncio.gather(*(one() for _ in range(n)))

    asyncio.run(all_())


def _alone(path: str, browsers: int | None) -> tuple[float, float, int]:
    context = mp.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_engine, args=(theirs, path, browsers))
    process.start()
    cpu, wall = ours.recv()
    dropped = ours.recv()
    process.join()
    return cpu, wall, dropped


# -- the page --------------------------------------------------------------------------------------


def _status(pid: int) -> tuple[float, float]:
    """Memory in MB and CPU seconds of a process (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return int(fields[21]) * 4096 / 1e6, ticks / 100.0


@contextmanager
def _chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        yield browser
        browser.close()


def _feed(page: LivePage, rate: float, seconds: float) -> None:
    columns, done = Columns("at", None, COLUMNS), 0
    whole = table(40_000)
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < seconds:
        n = min(int(passed * rate) - done, 20_000)
        if n > 0:
            batch = whole.slice(done % 20_000, n)
            number = np.arange(done, done + n)
            times = pa.array(1.7e9 + number / rate)
            batch = batch.set_column(0, "at", times)
            score = np.abs(batch.column(1).to_numpy()) % 3
            results = {"row": number, "time": times, "label": number // 700 % 9, "score": score}
            rows = Rows(number, batch, columns)
            epoch = Epoch(rows, pa.record_batch(results), None, None, 0, None, Summary("made up"))  # type: ignore[arg-type]
            page.epoch(epoch)
            done += n
        time.sleep(max(0.02, 0.5 / rate))


def _page(rate: float, seconds: float) -> list[str]:
    page = LivePage("127.0.0.1:0", None)
    work = threading.Thread(target=_feed, args=(page, rate, seconds), daemon=True)
    work.start()
    look = "import('/page.js').then(page => page.latencies.splice(0))"
    with _chromium() as browser:
        tab = browser.new_page(viewport={"width": 1440, "height": 900})
        tab.goto(page.address)
        session = tab.context.new_cdp_session(tab)
        session.send("Performance.enable")
        tab.wait_for_timeout(3000)
        tab.evaluate(look)
        heaps, sizes, found = [], [], []
        begun, (_, cpu) = time.monotonic(), _status(page._process.pid)
        while work.is_alive():
            tab.wait_for_timeout(1000)
            found += tab.evaluate(look)
            metrics = session.send("Performance.getMetrics")["metrics"]
            heaps += [m["value"] / 1e6 for m in metrics if m["name"] == "JSHeapUsedSize"]
            sizes.append(_status(page._process.pid)[0])
        wall = time.monotonic() - begun
        used = _status(page._process.pid)[1] - cpu
    dropped = page._dropped
    page.close()
    p50, p95 = np.percentile(found, [50, 95])
    return [
        f"{rate:,.0f}", f"{seconds:,.0f}", f"{p50:.0f} / {p95:.0f}", f"{len(found) / wall:.1f}",
        f"{max(heaps):.1f}", f"{sizes[0]:.0f} to {sizes[-1]:.0f}", f"{100 * used / wall:.0f} %",
        f"{dropped:,}",
    ]  # fmt: skip


@click.command("live_page", help="Cost of the live page, and how soon it draws.")
@click.option("--rows", default=100_000, show_default=True)
@click.option("--repeats", default=3, show_default=True)
@click.option("--rates", default="10,1000,20000", show_default=True, help="Rows a second.")
@click.option("--seconds", default=20.0, show_default=True)
def main(rows: int, repeats: int, rates: str, seconds: float) -> None:
    """Print two tables."""
    click.echo(machine())
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "rows.parquet"))
        pq.write_table(pa.Table.from_batches([table(rows)]), path)
        click.echo(markdown(("page", "CPU seconds of the run", "rows a second", "dropped"), []))
        pages: dict[str, int | None] = {"none": None, "no viewer": 0, "five": BROWSERS}
        turns = [[_alone(path, n) for n in pages.values()] for _ in range(repeats)]
        for name, found in zip(pages, zip(*turns, strict=True), strict=True):
            cpu, wall, dropped = (np.array(column) for column in zip(*found, strict=True))
            cells = (name, spread(cpu, ".2f"), spread(rows / wall, ",.0f"), f"{dropped.max():,}")
            click.echo(f"| {' | '.join(cells)} |")
    header = (
        "rows a second", "seconds", "learned to drawn, p50 / p95 ms", "pictures a second",
        "JavaScript heap, MB", "memory of the page's process, MB", "its CPU", "rows dropped",
    )  # fmt: skip
    click.echo("\n" + markdown(header, []))
    for rate in map(float, rates.split(",")):
        click.echo(f"| {' | '.join(_page(rate, seconds))} |")
