"""The options of ``look`` and ``run``, each declared once."""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any

import click

from streamddcrp_connectors.options import Names, options


class _Seconds(click.ParamType):  # type: ignore[type-arg]
    """A finite number of seconds, 0 or more."""

    name = "seconds"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        with suppress(ValueError):
            if 0.0 <= float(value) < math.inf:
                return float(value)
        self.fail(f"{value!r} is no number of seconds, 0 or more", param, ctx)


def option(help: str, default: Any = None, names: tuple[str, ...] = (), **more: Any) -> Any:
    """Return a field that is a command's option, named as the field if ``names`` is empty."""
    return field(default=default, metadata={"names": names, "help": help, **more})


def options_of(record: type) -> Callable[[Any], Any]:
    """Return a decorator that adds the fields of a record to a command."""
    given = []
    for one in fields(record):
        if one.metadata:
            how = dict(one.metadata)
            names = how.pop("names") or (f"--{one.name.replace('_', '-')}",)
            how |= {"default": one.default, "show_default": bool(one.default)}
            given.append(click.option(*names, one.name, **how))
    return options(*given)


@dataclass(frozen=True, slots=True)
class Look:
    """What to read of a source, and its format; None means to detect it."""

    source: str
    _: KW_ONLY
    time: str | None = option(
        "Column of times: numbers or time stamps; or date,time [default, where no features are "
        "named: a column of times in whose order the rows are].",
        metavar="COL",
    )
    key: str | None = option(
        "Column of keys: each key gets its own model; of group-dp, the groups.",
        names=("--by", "--key"),
        metavar="COL",
    )
    features: tuple[str, ...] | None = option(
        "Columns to cluster by [default: all of numbers].", metavar="A,B,C", type=Names()
    )
    text: str | None = option(
        "Column of texts, for text, temporal-dpm and nested-topics. They are taken as English; "
        "stop_words = 'auto' in the file of --model recognises other languages.",
        metavar="COL",
    )
    format: str | None = option(
        "Format of the source: csv, jsonl, lines, parquet, arrow, or another installed source "
        "[default: by the scheme before ://, the ending of the name, or first bytes].",
        metavar="NAME",
    )
    sep: str | None = option("Between cells: , ; | tab or blanks.", metavar="CHAR")
    decimal: str | None = option("Before decimals: . or ,", metavar="CHAR")
    missing: str | None = option(
        "Marks of missing values beside the usual ones (NA, ?, -, ...), as in -999,off.",
        metavar="A,B",
    )
    missing_columns: str = option(
        "What to do with a JSON object that lacks a column.",
        default="refuse",
        type=click.Choice(["refuse", "null"]),
    )
    header: bool | None = option(
        "Whether the first line names the columns.", names=("--header/--no-header",)
    )
    encoding: str | None = option("Of the text, such as latin-1.", metavar="NAME")
    skip: int | None = option("Lines to leave out.", type=click.IntRange(0), metavar="N")
    time_format: str | None = option("Of the times, as in %d/%m/%Y %H:%M.", metavar="FORMAT")
    time_unit: str | None = option(
        "Of times that are numbers since 1970: s, ms, us, ns; excel for days of a spreadsheet; "
        "none for numbers as they are.",
        metavar="UNIT",
    )
    time_zone: str | None = option("Where the clock stood, as in Europe/Madrid.", metavar="NAME")
    day_first: bool | None = option(
        "Whether 1/2/2024 is in February.", names=("--day-first/--month-first",)
    )


@dataclass(frozen=True, slots=True)
class Request(Look):
    """The arguments of ``streamddcrp run``."""

    _: KW_ONLY
    model: str | None = option(
        "The model: seqddcrp, ddcrp, text, embeddings, temporal-dpm, graph-crp, group-dp, "
        "tv-ibp, nested-topics, nested-components, language, or another installed model. Or a "
        "TOML file of its options, in which 'model' may name it [default: seqddcrp; with --text, "
        "text; with --epoch, temporal-dpm].",
        metavar="NAME|FILE.toml",
    )
    epoch: str | None = option(
        "When an epoch of temporal-dpm ends: after a period (1d, 6h, 30s, or a number in the unit"
        " of the time) or a count ('100 rows') [default: at each new time].",
        metavar="PERIOD",
    )
    season: str | None = option(
        "Cycles that seqddcrp subtracts first: auto, hour, day, week, year, 12h, a number of rows"
        " or in the time's unit; several: day,week; or none [default: calendar, a day and a week "
        "where the rows show them].",
        metavar="PERIODS",
    )
    sink: str = option(
        "Where results go: a file that ends in .jsonl, .parquet or .arrow; an address such as "
        "redis://host/key; or - for standard output.",
        default="-",
        metavar="FILE|URL|-",
    )
    events: str | None = option(
        "Where births, returns, merges, splits and deaths go, one row each: a file as for --sink.",
        metavar="FILE",
    )
    alarms: str | None = option(
        "Where a row goes when its surprise begins an alarm, and when that is over: a file, or an"
        " address, which gets each at least once. With --by each key has its own threshold and "
        "alarms.",
        metavar="FILE|URL",
    )
    alarm_rate: float = option(
        "Share of the normal rows of a key that may begin a false alarm.", default=0.001
    )
    alarm_per: str | None = option(
        "In place of the rate: one false alarm of all keys together in this time, as in day or "
        "6h, or in this number of rows.",
        metavar="TIME|'N rows'",
    )
    alarm_group: str | None = option(
        "Tell alarms that begin within this time of the first as one, as in 10s [default: each "
        "alone].",
        metavar="TIME",
    )
    silences: str | None = option(
        "Times at which alarms of keys are counted, but not told; read again when it changes.",
        metavar="FILE.toml",
    )
    checkpoint: str | None = option(
        "Folder for the states and the position in the source. If the run is stopped or killed, "
        "start it again with the same command: it continues, and no row is lost or doubled.",
        metavar="DIR",
    )
    memory_limit: str = option(
        "Memory for the models of all keys; those used least recently are moved to disk.",
        default="1GB",
    )
    batch_rows: int = option("Most rows in a batch.", default=1000, type=click.IntRange(1))
    batch_wait: float = option(
        "How long to collect rows of a live stream before they are learned as a batch [default: "
        "not at all; a fast stream forms batches by itself].",
        default=0.0,
        metavar="SECONDS",
        type=_Seconds(),
    )
    idle: float | None = option(
        "End the run after this long without new rows, for live streams and --follow [default: "
        "never].",
        metavar="SECONDS",
        type=_Seconds(),
    )
    late: str | None = option(
        "What to do with a row whose time is before that of the last row: refuse it; learn it "
        "with the last time of its key; read the whole file and sort it; or hold rows back and "
        "sort those that are at most this late, as in wait=5s [default: dead-letter; sort, where "
        "the first rows of a whole file show that it is in another order].",
        metavar="dead-letter|as-now|sort|wait=TIME",
    )
    max_ahead: str | None = option(
        "Refuse rows whose time is farther ahead than this, as in 10min: time stamps ahead of the"
        " clock, numbers ahead of all earlier rows; or none [default: time stamps more than a day"
        " ahead of the clock and of all earlier rows].",
        metavar="TIME",
    )
    overwrite: bool = option(
        "Replace output files, even if they hold something that no checkpoint recorded.",
        default=False,
        is_flag=True,
    )
    check: bool = option(
        "Connect, read ten rows, say what a run would do, and write nothing.",
        default=False,
        is_flag=True,
    )
    on_error: str | None = option(
        "Stop at a row that cannot be used, or set it aside in a JSON lines file and continue "
        "[default: stop; for live streams and --follow set it aside in the checkpoint's folder, "
        "or log it where no folder is given].",
        metavar="stop|dead-letter[=FILE]",
    )
    follow: bool = option(
        "Wait for more lines at the end of the file; of a pattern, such as `log-*.csv`, also for "
        "the next file.",
        default=False,
        is_flag=True,
    )
    log_format: str = option(
        "How messages on standard error are written.",
        default="text",
        type=click.Choice(["text", "json"]),
    )
    progress: bool | None = option(
        "Show a progress bar [default: on a terminal].", names=("--progress/--no-progress",)
    )
