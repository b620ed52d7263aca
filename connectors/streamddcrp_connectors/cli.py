"""The command ``streamddcrp``. Whatever is heavy is imported by the command that needs it."""

import importlib
import sys

import click

__all__ = ["main"]

_ELSEWHERE = {
    "bench": "streamddcrp_connectors.bench",
    "demo": "streamddcrp_connectors.demo",
    "report": "streamddcrp_connectors.report.report",
    "reproduce": "streamddcrp_connectors.experiments.reproduce",
    "warmup": "streamddcrp_connectors.warmup",
}


class _Commands(click.Group):
    """Commands of this module and, imported when first asked for, those of others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *filter(self._find, _ELSEWHERE)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or self._find(cmd_name)

    @staticmethod
    def _find(name: str) -> click.Command | None:
        try:
            command = getattr(importlib.import_module(_ELSEWHERE[name]), name)
        except (KeyError, ModuleNotFoundError) as error:
            if isinstance(error, ModuleNotFoundError) and error.name != _ELSEWHERE[name]:
                raise
            return None
        return command if isinstance(command, click.Command) else None


def _known_source(name: str | None) -> str | None:
    from streamddcrp_connectors.run.plugins import SOURCES, installed  # noqa: PLC0415 -- as below

    if name is not None and name not in installed(SOURCES):
        message = f"{name!r} is none of {', '.join(installed(SOURCES))}"
        raise click.BadParameter(message)
    return name


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="streamddcrp")
def main() -> None:
    """Cluster a stream as it arrives: its regimes or stories, their births, deaths and returns."""


@main.command()
@click.argument("source")
@click.option("--time", metavar="COL", help="Column of the time: numbers or ISO 8601 time stamps.")
@click.option(
    "--by", "--key", "key", metavar="COL", help="Column of the key: each key gets its own model."
)
@click.option("--features", metavar="A,B,C", help="Columns to cluster by [default: all others].")
@click.option(
    "--text", metavar="COL", help="Column of texts, for text, temporal-dpm and nested-topics."
)
@click.option(
    "--model",
    metavar="NAME|FILE.toml",
    help="The model: seqddcrp, ddcrp, text, embeddings, temporal-dpm, graph-crp, tv-ibp, "
    "nested-topics, nested-components, or another installed model; or a file of its options, whose "
    "key 'model' may name it "
    "[default: seqddcrp; with --text text, with --epoch temporal-dpm].",
)
@click.option(
    "--epoch",
    metavar="PERIOD",
    help="Where epochs of temporal-dpm end: after a period (1d, 6h, 30s, or a number in the time's "
    "unit) or a count ('100 rows') [default: at each new time].",
)
@click.option(
    "--season",
    metavar="PERIODS",
    help="Cycles that seqddcrp subtracts first: auto, hour, day, week, year, 12h, a number of rows "
    "or in the time's unit; or several: day,week [default: none].",
)
@click.option(
    "--sink",
    default="-",
    show_default=True,
    metavar="FILE|-",
    help="Where results go, by the ending: .jsonl, .parquet, .arrow, or the name of another "
    "installed sink; - is standard output.",
)
@click.option(
    "--events",
    metavar="FILE",
    help="Where births, returns, merges, splits and deaths go, one per row: a file, as for --sink.",
)
@click.option(
    "--checkpoint",
    metavar="DIR",
    help="Folder that keeps the states and the place in the source. Start a stopped or killed run "
    "again with the same command: it goes on, and no row is lost or doubled.",
)
@click.option(
    "--memory-limit",
    default="1GB",
    show_default=True,
    help="Most memory for the models of keys; those used least recently go to disk.",
)
@click.option("--batch-rows", default=1000, show_default=True, type=click.IntRange(1))
@click.option(
    "--on-error",
    default="stop",
    show_default=True,
    metavar="stop|dead-letter=FILE",
    help="Stop at a row that cannot be used, or set it aside in a JSON lines file and go on.",
)
@click.option("--follow", is_flag=True, help="Wait for more lines at the end of the file.")
@click.option(
    "--format",
    "format_",
    metavar="NAME",
    callback=lambda _ctx, _option, name: _known_source(name),
    help="Format of the source: csv, jsonl, parquet, arrow, or another installed source [default: "
    "by what stands before ://, by its ending, or by its first bytes].",
)
@click.option(
    "--progress/--no-progress", default=None, help="Progress bar [default: on a terminal]."
)
def run(
    source: str,
    time: str | None,
    key: str | None,
    features: str | None,
    text: str | None,
    model: str | None,
    epoch: str | None,
    season: str | None,
    sink: str,
    events: str | None,
    checkpoint: str | None,
    memory_limit: str,
    batch_rows: int,
    on_error: str,
    follow: bool,
    format_: str | None,
    progress: bool | None,
) -> None:
    """Run a model over SOURCE: a table in a file, a folder of texts, or - for standard input.

    A file is Parquet, Arrow, CSV or JSON lines. Of a folder, with --text text, each file is a
    document.

    Writes one row for each row read: its number in the source (from 0, a header not counted), time
    and key, then label, label_prob, score, p_new, p_change and n_tables.

    A missing value is an empty cell (CSV) or null. With --checkpoint each row is learned once, and
    once in a file written by --sink, even if the process is killed; standard output may repeat the
    rows of one batch.
    """
    from streamddcrp_connectors.run.command import Request, execute  # noqa: PLC0415 -- heavy: not for --help

    request = Request(
        source=source,
        time=time,
        key=key,
        features=None if features is None else tuple(map(str.strip, features.split(","))),
        text=text,
        model=model,
        epoch=epoch,
        season=season,
        sink=sink,
        events=events,
        checkpoint=checkpoint,
        memory_limit=memory_limit,
        batch_rows=batch_rows,
        on_error=on_error,
        follow=follow,
        format=format_,
        progress=progress,
    )
    sys.exit(execute(request))
