"""The command ``streamddcrp serve``: the live page of a finished run."""

import asyncio
import contextlib
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from streamddcrp_connectors.options import Command, shown

PIECE = 1 << 14


@click.command(cls=Command)
@click.argument("results")
@click.option("--source", metavar="DATA", help="The data of the run, to show their values.")
@shown
@click.option("--events", metavar="FILE", help="What run --events wrote.")
@click.option("--checkpoint", metavar="DIR", help="Folder that keeps the names given to regimes.")
@click.option(
    "--at", default="127.0.0.1:8765", show_default=True, metavar="HOST:PORT", help="Where to serve."
)
def serve(
    results: str,
    source: str | None,
    events: str | None,
    checkpoint: str | None,
    at: str,
    **columns: Any,
) -> None:
    """Show the results of a run on the live page.

    RESULTS is a file that `streamddcrp run` wrote. Without --source the page shows labels and
    surprise only.
    """
    from streamddcrp_connectors.page.access import token_of  # noqa: PLC0415
    from streamddcrp_connectors.page.observer import address_of, listen, needs_extra, place  # noqa: PLC0415
    from streamddcrp_connectors.run.columns import Columns  # noqa: PLC0415 -- heavy: not for --help

    needs_extra()
    host, port = place(at)
    streams = _read(results, source, Columns.of(**columns), events)
    folder = None if checkpoint is None else Path(checkpoint)
    listening = listen(host, port)
    token = token_of(folder)
    address = address_of(host, listening.getsockname()[1], token)
    click.echo(f"streamddcrp: {results} at {address} (end with Ctrl-C)", err=True)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(listening, host, token, folder, streams))


async def _serve(listening: Any, host: str, token: str, folder: Path | None, streams: Any) -> None:
    from streamddcrp_connectors.page.access import Access  # noqa: PLC0415
    from streamddcrp_connectors.page.process import Page, served  # noqa: PLC0415

    listening.setblocking(False)
    page = Page(folder)
    page.hub.begin(streams)
    page.hub.ended = True
    async with served(listening, Access(host, listening.getsockname()[1], token), page):
        await asyncio.Event().wait()


def _read(results: str, source: str | None, columns: Any, events: str | None) -> Any:
    """Build the page's content from a run's files, as if it had just been learned."""
    import pyarrow as pa  # noqa: PLC0415

    from streamddcrp.monitor.alarm import Alarm  # noqa: PLC0415
    from streamddcrp_connectors.page.streams import Job, Streams  # noqa: PLC0415
    from streamddcrp_connectors.report.results import check_named, read_results, read_rows  # noqa: PLC0415
    from streamddcrp_connectors.run.sources import open_source  # noqa: PLC0415

    table, _, utc = read_results(results, least=-1)
    features: tuple[str, ...] = ()
    rows = None
    if source is not None:
        with closing(open_source(source, columns)) as data:
            rows = read_rows(data, table["row"], results)
        columns = check_named(table, columns, data.columns, results)
        features = columns.features or ()
    stamp = "instant" if utc else "stamp"
    kind = "row" if "time" not in table else "number" if table["time"].dtype == float else stamp
    key = (columns.key or "key") if "key" in table else None
    text = columns.text and rows is not None
    job = Job(Path(results).name, list(features), kind, key, text, live=False)
    streams = Streams(job)
    cells: dict[str, Any] = {
        name: pa.array(table[name]) for name in ("row", "time", "key") if name in table
    }
    cells["label"] = pa.array(table.get("state", table["label"]))  # as in reports
    keys = cells["key"].to_pylist() if "key" in cells else None
    judged = Alarm().step_many(table["score"], keys=keys, labels=table["label"])
    cells |= {name: pa.array(of_rows) for name, of_rows in judged._asdict().items()}
    cells |= {f"f{i}": rows.column(name) for i, name in enumerate(features) if rows is not None}
    whole = pa.record_batch(cells)
    for start in range(0, whole.num_rows, PIECE):
        streams.learn(whole.slice(start, PIECE), 0.0)
    if events is not None:
        _add_events(streams, events, table)
    if text and key is None:
        _add_stories(streams, table, rows)
    return streams


def _add_events(streams: Any, path: str, table: Any) -> None:
    from streamddcrp_connectors.run.sinks import read_events  # noqa: PLC0415

    keys = list(streams.of) if streams.job.key is not None else [None]
    for key in keys:
        mine = table["row"] if key is None else table["row"][table["key"] == key]
        times = table.get("time", table["row"])
        if times.dtype.kind == "M":
            times = times.astype("datetime64[us]").astype("int64") / 1e3
        times = times if key is None else times[table["key"] == key]
        for event, why in read_events(path, key, len(mine)):
            t = float(times[event.index])
            stream = streams.stream(key or "")
            stream.happened(event.kind, event.label, t, event.into, why)


def _add_stories(streams: Any, table: Any, rows: Any) -> None:
    """Describe the stories as a report does."""
    from streamddcrp.plots.series import Clock  # noqa: PLC0415
    from streamddcrp_connectors.report.results import LabelledTexts  # noqa: PLC0415
    from streamddcrp_connectors.report.stories import find_stories  # noqa: PLC0415

    texts = rows.column(streams.job.features[0])
    labelled = LabelledTexts("", texts, table["label"], table["score"], Clock(table["row"]))
    stories, _ = find_stories(labelled, labelled.labels)
    found = [
        {
            "label": story.label,
            "words": story.words,
            "examples": [str(texts[i].as_py())[:300] for i in story.examples[:2]],
        }
        for story in stories
    ]
    streams.of[""].describe(found)
