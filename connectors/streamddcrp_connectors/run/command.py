"""What ``streamddcrp run`` does, with or without ``--check``, and what it says of errors."""

import logging
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from tqdm import tqdm

from streamddcrp.data.clock import Wanted
from streamddcrp.errors import ConfigError, SchemaError, StreamDDCRPError
from streamddcrp_connectors.options import INTERRUPTED, REFUSED, in_json, say
from streamddcrp_connectors.request import Look, Request
from streamddcrp_connectors.run.alarming import AlarmRule
from streamddcrp_connectors.run.columns import Columns, Reading
from streamddcrp_connectors.run.config import DEFAULT, find_recipe, number_or_text, read_season
from streamddcrp_connectors.run.gather import Stopped
from streamddcrp_connectors.run.job import describe, find_cursor
from streamddcrp_connectors.run.loop import STORE_NAME, Summary, Watcher, numbered, open_store, run
from streamddcrp_connectors.run.models import Recipe
from streamddcrp_connectors.run.names import Names
from streamddcrp_connectors.run.ordered import OrderedSource, first_earlier
from streamddcrp_connectors.run.outputs import NAME, DeadLetters, Outputs
from streamddcrp_connectors.run.plugins import SOURCES, find
from streamddcrp_connectors.run.sinks import Sink, open_sink
from streamddcrp_connectors.run.sources import Source, open_source

UNDELIVERED = 3
_LOG = logging.getLogger("streamddcrp.run")


def columns_of(request: Look) -> Columns:
    """Return the columns that are wanted, and what is said about how they are written."""
    clock = Wanted(request.time_format, request.time_unit, request.time_zone, request.day_first)
    clock.check()
    reading = Reading(
        sep=check_dialect(request.sep, request.decimal, request.encoding),
        decimal=request.decimal,
        encoding=request.encoding,
        missing=None if request.missing is None else tuple(request.missing.split(",")),
        header=request.header,
        skip=request.skip,
        clock=clock,
        absent=request.missing_columns == "null",
    )
    return Columns.of(request.time, request.key, request.features, request.text, reading)


def check_dialect(sep: str | None, decimal: str | None, encoding: str | None) -> str | None:
    """Return the separator that an option names; ConfigError for what cannot be one."""
    words = {"tab": "\t", r"\t": "\t", "blank": " ", "blanks": " ", "space": " ", "comma": ",",
             "semicolon": ";", "bar": "|"}  # fmt: skip
    sep = words.get(sep or "", sep)
    if sep is not None and (len(sep.encode()) != 1 or sep in '"\r\n'):
        raise ConfigError(f"--sep must be one character, tab or blanks, got {sep!r}")
    if decimal not in (None, ".", ","):
        raise ConfigError(f"--decimal must be . or ',', got {decimal!r}")
    if encoding is not None:
        try:
            odd = "a\n".encode(encoding) != b"a\n"
        except LookupError:
            odd = True
        if odd and not encoding.lower().startswith("utf"):
            message = f"--encoding: {encoding!r} is not known; try utf-8, latin-1 or cp1252"
            raise ConfigError(message)
    return sep


def execute(
    request: Request, watchers: Sequence[Watcher] = (), again: Callable[[], Request] | None = None
) -> int:
    """Run, and return the exit code.

    0 done, or asked to end by SIGTERM; 2 refused with one message; 3 done, but messages were not
    delivered; 130 interrupted. ``again`` returns the request as it is when SIGHUP asks for a
    reload; alarms follow it from then on.
    """
    with _telling(logging.WARNING if request.key else logging.INFO, request.log_format):
        try:
            summary = _run(request, watchers, again)
        except BrokenPipeError:  # no refusal: `options.Command` ends quietly
            raise
        except Stopped as asked:
            _LOG.warning("stopped while waiting: rows since the last commit come again")
            return _asked(*asked.args)
        except KeyboardInterrupt as asked:
            return _asked(*asked.args)
        except (StreamDDCRPError, OSError) as error:
            say(str(error), request.log_format, "ERROR")
            return REFUSED
    if summary.undelivered:
        return UNDELIVERED
    return _asked(summary.interrupted) if summary.interrupted else 0


def _asked(number: int = signal.SIGINT) -> int:
    """Return the status of a run that a signal ended: a stop by SIGTERM is a normal end."""
    return 0 if number == signal.SIGTERM else INTERRUPTED


def recipe_and_columns(request: Request) -> tuple[Recipe, Columns]:
    """Return how the model is made, and which columns it wants."""
    options: dict[str, Any] = {}
    default = DEFAULT if request.text is None else "text"
    if request.epoch is not None:  # only one model has epochs
        default, options["epoch"] = "temporal-dpm", number_or_text(request.epoch)
    if request.season is not None:
        options["season"] = read_season(request.season)
    recipe = find_recipe(request.model, options, default)
    return recipe, columns_of(request)


def opened_as(request: Request, columns: Columns) -> Source:
    """Open the source of a run, with these columns."""
    return open_source(
        request.source,
        columns,
        format=request.format,
        batch_rows=ROWS if request.check else request.batch_rows,
        follow=request.follow,
        idle=request.idle,
    )


def opened(request: Request) -> tuple[Recipe, Source]:
    """Open the source; where it turns out to be lines, the model is one of texts."""
    recipe, columns = recipe_and_columns(request)
    if request.check:
        refuse_once(request.source)
    source = opened_as(request, columns)
    if source.columns.text and request.text is None:
        recipe, _ = recipe_and_columns(replace(request, text=source.columns.names[-1]))
    earlier = None
    if request.late is None and request.on_error is None:
        earlier = first_earlier(source)
    if request.late == "sort" or earlier is not None:
        source = OrderedSource(source, request.batch_rows, earlier)
    return recipe, source


def _run(
    request: Request, watchers: Sequence[Watcher], again: Callable[[], Request] | None
) -> Summary:
    recipe, source = opened(request)
    folder = Path(request.checkpoint) if request.checkpoint else None
    show = sys.stderr.isatty() if request.progress is None else request.progress
    with ExitStack() as stack:
        stack.enter_context(closing(source))
        dead_letters = _dead_letters(request.on_error, folder, live=getattr(source, "live", False))
        sink = open_sink(request.sink, sys.stdout.buffer, folder)
        events = _side_output(request.events, folder, "events")
        alarms = _side_output(request.alarms, folder, "alarms")
        if request.check:
            for line in check(source, recipe, Outputs(sink, events, dead_letters, alarms), folder):
                click.echo(line)
            return Summary()
        store = stack.enter_context(open_store(folder)) if folder else None
        look = {"unit": " rows", "unit_scale": True, "file": sys.stderr, "disable": not show}
        bar = stack.enter_context(tqdm(total=source.n_rows, **look))

        def advance(summary: Summary) -> None:
            refused = f", {summary.refused:,} refused" if summary.refused else ""
            away = f", waiting for {summary.waiting_for}" if summary.waiting_for else ""
            bar.set_postfix_str(f"{summary.tables:,} tables{refused}{away}", refresh=bool(away))
            bar.update(summary.rows - bar.n)

        for line in getattr(source, "understood", ()):
            say(line, request.log_format)
        summary = run(
            source,
            recipe,
            sink,
            store=store,
            events=events,
            dead_letters=dead_letters,
            alarms=alarms,
            alarm_rule=_rule(request, source.columns.key),
            new_rule=None if again is None else lambda: _rule(again(), source.columns.key),
            watchers=watchers,
            progress=advance if show else None,
            memory_limit=request.memory_limit,
            batch_rows=request.batch_rows,
            batch_wait=request.batch_wait,
            idle=request.idle,
            late=None if request.late == "sort" else request.late,
            max_ahead=request.max_ahead,
            overwrite=request.overwrite,
            names=None if folder is None else Names(folder),
        )
        refused = f", {summary.refused:,} refused" if summary.refused else ""
        more = "" if folder is None else "; the same command goes on from here"
        more = f" (interrupted{more})" if summary.interrupted else ""
        if request.log_format == "json":
            _LOG.info("%d rows%s -> %s%s", summary.rows, refused, sink.name, more)
        else:
            click.echo(f"{summary.rows:,} rows{refused} -> {sink.name}{more}", err=True)
        for watcher in [] if summary.interrupted else watchers:
            getattr(watcher, "wait", lambda: None)()
    if summary.rows and summary.refused == summary.rows:
        message = f"no row was learned: all were refused, the last because: {summary.reason}"
        raise SchemaError(message)
    return summary


def _rule(request: Request, key: str | None) -> AlarmRule:
    return AlarmRule(
        request.alarm_rate, request.alarm_per, request.alarm_group, request.silences, key or "key"
    )


class _Json(logging.Formatter):
    """A JSON object for each record."""

    def format(self, record: logging.LogRecord) -> str:
        return in_json(record.created, record.levelname, record.getMessage())


@contextmanager
def _telling(level: int, form: str) -> Iterator[None]:
    """Show what is logged, such as the likelihood that a model chooses, on standard error."""
    log, own = logging.getLogger("streamddcrp"), logging.getLogger("streamddcrp.run")
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)s streamddcrp: %(message)s")
    handler.setFormatter(_Json() if form == "json" else text)
    before = log.level
    log.addHandler(handler)
    log.setLevel(level)
    own.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)
        own.setLevel(logging.NOTSET)


def _side_output(path: str | None, folder: Path | None, what: str) -> Sink | None:
    if path == "-":
        raise ConfigError(f"--{what} must be a file or an address: standard output is for the rows")
    return None if path is None else open_sink(path, sys.stdout.buffer, folder, what)


def _dead_letters(on_error: str | None, folder: Path | None, *, live: bool) -> DeadLetters | None:
    how, sign, path = (on_error or ("dead-letter" if live else "stop")).partition("=")
    if how == "dead-letter" and bool(sign) == bool(path):
        return DeadLetters(path or (folder and folder / NAME), say=not path)
    if how != "stop" or sign:
        message = f"--on-error must be stop, dead-letter or dead-letter=FILE, got {on_error!r}"
        raise ConfigError(message)
    return None


ROWS = 10
_PATIENCE = 5.0  # seconds for rows of a live source
_CONNECTING = 3.0  # seconds


def refuse_once(spec: str) -> None:
    """Refuse a source that gives each message only once: nobody may read of it but the run."""
    scheme, found, _ = spec.partition("://")
    if found and getattr(find(SOURCES, scheme), "gives_once", False):
        message = f"{scheme} gives each message only once: --check cannot read ten rows of it"
        raise ConfigError(message)


def check(source: Source, recipe: Recipe, outputs: Outputs, folder: Path | None) -> Iterator[str]:
    """Yield, line by line, what a run would do; raise where it would be refused.

    Servers of outputs are connected to, without a login.
    """
    recipe.make()
    outputs.check_distinct(source)
    job = describe(source, recipe, outputs)
    columns = source.columns
    used = {"time": columns.time, "key": columns.key, "features": ", ".join(columns.features or ())}
    yield f"source: {source.name}"
    yield f"columns: {'; '.join(f'{name} {value}' for name, value in used.items() if value)}"
    yield from _rows(source, stop=outputs.dead_letters is None)
    options = "".join(
        f", {name} {value}" for name, value in job["model"].get("options", {}).items()
    )
    yield f"model: {job['model'].get('class')}{options}"
    for name, sink in outputs.sinks.items():
        _reach(sink)
        yield f"{name}: {sink.name}"
    if folder is not None and (folder / STORE_NAME).exists():
        with open_store(folder) as store:
            row = find_cursor(store, job)["rows"]
        yield f"checkpoint: {folder}, goes on at row {row:,}"
    else:
        yield f"checkpoint: {'none' if folder is None else f'{folder}, a new job'}"


def _rows(source: Source, *, stop: bool) -> Iterator[str]:
    """Read the first rows, and say how many can be used; ``stop``: a run ends at the first bad."""
    n_rows, first, refused = 0, None, []
    end = time.monotonic() + _PATIENCE
    for batch, offset in source.read_after(None):
        if batch is not None:
            rows, bad = numbered(source, batch, offset)
            n_rows += batch.num_rows
            refused += [f"row {row}: {bad[row].reason}" for row in sorted(bad)]
            first = rows.values(0) if first is None and len(rows) else first
        if n_rows >= ROWS or time.monotonic() > end:
            break
    if refused and (stop or len(refused) == n_rows):
        raise SchemaError(f"{source.name}: {refused[0]}")
    yield f"rows read: {n_rows}, refused: {len(refused)}"
    yield from refused[:ROWS]
    if first is not None:
        yield f"first row: {', '.join(f'{name} {value}' for name, value in first.items())}"


def _reach(sink: Any) -> None:
    """Connect to a sink's servers."""
    problem = None
    for at in getattr(sink, "hosts", ()):
        try:
            socket.create_connection(at, _CONNECTING).close()
        except OSError as error:
            problem = error
        else:
            return
    if problem is not None:
        raise ConfigError(f"{sink.name} cannot be reached: {problem}")
