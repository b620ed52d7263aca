"""The command ``streamddcrp``. Whatever is heavy is imported by the command that needs it."""

import importlib
import math
import signal
import sys
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from streamddcrp.errors import ConfigError, StreamDDCRPError
from streamddcrp_connectors.options import chosen, written

_FILE = "streamddcrp.file"  # under which a context keeps the name of the file of its options
_RELOADED = ("alarm_rate", "alarm_per", "alarm_group", "silences")
_ELSEWHERE = {
    "demo": "streamddcrp_connectors.demo",
    "report": "streamddcrp_connectors.report.report",
    "serve": "streamddcrp_connectors.page.recorded",
    "reproduce": "streamddcrp_connectors.reproduce",
    "serve-flight": "streamddcrp_connectors.serve_flight",
    "submit": "streamddcrp_connectors.submit",
    "warmup": "streamddcrp_connectors.warmup",
}


class _Seconds(click.ParamType):  # type: ignore[type-arg]
    """A finite number of seconds, 0 or more."""

    name = "seconds"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        with suppress(ValueError):
            if 0.0 <= float(value) < math.inf:
                return float(value)
        self.fail(f"{value!r} is no number of seconds, 0 or more", param, ctx)


class _Commands(click.Group):
    """Commands of this module and, imported when first asked for, those of others."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if any("\0" in arg for arg in args):
            ctx.fail("an argument holds a NUL")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *filter(self._find, _ELSEWHERE)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or self._find(cmd_name)

    @staticmethod
    def _find(name: str) -> click.Command | None:
        try:
            command = getattr(importlib.import_module(_ELSEWHERE[name]), name.replace("-", "_"))
        except (KeyError, ModuleNotFoundError) as error:
            if isinstance(error, ModuleNotFoundError) and error.name != _ELSEWHERE[name]:
                raise
            return None
        return command if isinstance(command, click.Command) else None


def _defaults_from(ctx: click.Context, _: click.Parameter, path: str | None) -> None:
    """Take from a TOML file what the command line leaves out."""
    if path is None:
        return
    from streamddcrp_connectors.run.config import read_options  # noqa: PLC0415 -- as below

    try:
        found = read_options(path)
    except StreamDDCRPError as error:
        raise click.UsageError(str(error)) from error
    ctx.meta[_FILE] = path
    known = {name.lstrip("-"): option for option in ctx.command.params for name in option.opts}
    ctx.default_map = {}
    for name, value in found.items():
        if name not in known:
            message = f"{path}: unknown option {name!r}; valid are {', '.join(sorted(known))}"
            raise click.UsageError(message)
        if isinstance(value, tuple) and all(isinstance(item, str) for item in value):
            value = ",".join(value)  # noqa: PLW2901 -- as on the command line
        if not isinstance(value, str | int | float | bool) or "\0" in str(value):
            message = f"{path}: {name} must be text, a number, true or false, got {value!r}"
            raise click.UsageError(message)
        option = known[name]
        bare = getattr(option, "flag_value", None)
        if isinstance(value, bool) and isinstance(bare, str):  # --live without an address
            value = bare if value else None  # noqa: PLW2901
        ctx.default_map[str(option.name)] = value


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="streamddcrp")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Cluster a stream as it arrives: find its regimes or stories, and say what is new.

    `streamddcrp demo` shows it on a real series. `streamddcrp COMMAND --help` lists the options of
    a command.
    """
    at_once = signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    if at_once and ctx.invoked_subcommand != "run":  # which sees to it in its own time
        signal.signal(signal.SIGINT, signal.default_int_handler)


@main.command()
@click.argument("source")
@chosen
@written
def look(features: str | None, format_: str | None, **options: Any) -> None:
    """Say what SOURCE holds, and how `run` would read it.

    Says how the source is written, and of each column its kind, range, steps, missing values and
    what is subtracted before rows are clustered; then what is odd, and the command that says it
    all. `run` without options does the same.
    """
    from streamddcrp_connectors.run.command import Request  # noqa: PLC0415 -- heavy: not for --help
    from streamddcrp_connectors.run.outlook import outlook  # noqa: PLC0415 -- as above

    named = None if features is None else tuple(map(str.strip, features.split(",")))
    try:
        for line in outlook(Request(features=named, format=format_, **options)):
            click.echo(line)
    except (StreamDDCRPError, OSError) as error:
        click.echo(f"streamddcrp: {error}", err=True)
        sys.exit(2)


@main.command()
@click.argument("source")
@click.option(
    "--config",
    metavar="FILE.toml",
    is_eager=True,
    expose_value=False,
    callback=_defaults_from,
    help="Take the source and any option from a file, as in source = 'nats://host/STREAM'. "
    "Options on the command line take precedence.",
)
@chosen
@click.option(
    "--model",
    metavar="NAME|FILE.toml",
    help="The model: seqddcrp, ddcrp, text, embeddings, temporal-dpm, graph-crp, tv-ibp, "
    "nested-topics, nested-components, or another installed model. Or a TOML file of its options, "
    "in which 'model' may name it "
    "[default: seqddcrp; with --text, text; with --epoch, temporal-dpm].",
)
@click.option(
    "--epoch",
    metavar="PERIOD",
    help="When an epoch of temporal-dpm ends: after a period (1d, 6h, 30s, or a number in the unit "
    "of the time) or a count ('100 rows') [default: at each new time].",
)
@click.option(
    "--season",
    metavar="PERIODS",
    help="Cycles that seqddcrp subtracts first: auto, hour, day, week, year, 12h, a number of rows "
    "or in the time's unit; several: day,week; or none [default: calendar, a day and a week where "
    "the rows show them].",
)
@click.option(
    "--sink",
    default="-",
    show_default=True,
    metavar="FILE|URL|-",
    help="Where results go: a file that ends in .jsonl, .parquet or .arrow; an address such as "
    "redis://host/key; or - for standard output.",
)
@click.option(
    "--events",
    metavar="FILE",
    help="Where births, returns, merges, splits and deaths go, one row each: a file as for --sink.",
)
@click.option(
    "--alarms",
    metavar="FILE|URL",
    help="Where a row goes when its surprise begins an alarm, and when that is over: a file, or an "
    "address, which gets each at least once. With --by each key has its own threshold and alarms.",
)
@click.option(
    "--alarm-rate",
    default=0.001,
    show_default=True,
    help="Share of the normal rows of a key that may begin a false alarm.",
)
@click.option(
    "--alarm-per",
    metavar="TIME|'N rows'",
    help="In place of the rate: one false alarm of all keys together in such a time, as in day or "
    "6h, or in so many rows.",
)
@click.option(
    "--alarm-group",
    metavar="TIME",
    help="Tell alarms that begin within this time of the first as one, as in 10s [default: each "
    "alone].",
)
@click.option(
    "--silences",
    metavar="FILE.toml",
    help="Times at which alarms of keys are counted, but not told; read again when it changes.",
)
@click.option(
    "--metrics", metavar="HOST:PORT", help="Serve counts to Prometheus, as at 127.0.0.1:9100."
)
@click.option(
    "--checkpoint",
    metavar="DIR",
    help="Folder for the states and the position in the source. If the run is stopped or killed, "
    "start it again with the same command: it continues, and no row is lost or doubled.",
)
@click.option(
    "--memory-limit",
    default="1GB",
    show_default=True,
    help="Memory for the models of all keys; those used least recently are moved to disk.",
)
@click.option(
    "--batch-rows",
    default=1000,
    show_default=True,
    type=click.IntRange(1),
    help="Most rows in a batch.",
)
@click.option(
    "--batch-wait",
    default=0.0,
    metavar="SECONDS",
    type=_Seconds(),
    help="How long to collect rows of a live stream before they are learned as a batch [default: "
    "not at all; a fast stream forms batches by itself].",
)
@click.option(
    "--idle",
    metavar="SECONDS",
    type=_Seconds(),
    help="End the run after this long without new rows, for live streams and --follow [default: "
    "never].",
)
@click.option(
    "--late",
    metavar="dead-letter|as-now|sort|wait=TIME",
    help="What to do with a row whose time is before that of the last row: refuse it; learn it "
    "with the last time of its key; read the whole file and sort it; or hold rows back and sort "
    "those that are at most this late, as in wait=5s [default: dead-letter; sort, where the first "
    "rows of a whole file show that it is in another order].",
)
@click.option(
    "--max-ahead",
    metavar="TIME",
    help="Refuse rows whose time is farther ahead than this, as in 10min: time stamps ahead of the "
    "clock, numbers ahead of all earlier rows; or none [default: time stamps more than a day ahead "
    "of the clock and of all earlier rows].",
)
@click.option(
    "--overwrite",
    is_flag=True,
    help="Replace output files, even if they hold something that no checkpoint recorded.",
)
@click.option(
    "--check",
    is_flag=True,
    help="Connect, read ten rows, say what a run would do, and write nothing.",
)
@click.option(
    "--on-error",
    metavar="stop|dead-letter[=FILE]",
    help="Stop at a row that cannot be used, or set it aside in a JSON lines file and continue "
    "[default: stop; for live streams and --follow set it aside in the checkpoint's folder, or "
    "log it where there is none].",
)
@click.option(
    "--follow",
    is_flag=True,
    help="Wait for more lines at the end of the file; of a pattern, such as 'log-*.csv', also for "
    "the next file.",
)
@click.option(
    "--live",
    is_flag=False,
    flag_value="127.0.0.1:8765",
    metavar="[HOST:PORT]",
    help="Serve a page that shows the run as it goes [default address: 127.0.0.1:8765].",
)
@written
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How messages on standard error are written.",
)
@click.option(
    "--progress/--no-progress", default=None, help="Show a progress bar [default: on a terminal]."
)
def run(
    live: str | None, metrics: str | None, features: str | None, format_: str | None, **options: Any
) -> None:
    """Label the rows of a file or a stream as they arrive.

    SOURCE is a file (Parquet, Arrow, CSV or JSON lines), a folder of text files (with --text text,
    each file is a document), the address of a stream such as nats://host/STREAM or
    redis://host/key, or - for standard input. A missing value is an empty cell (CSV) or null.

    How a text file is written is found in its first 100 kB: separator, decimal commas, header,
    encoding, missing values, and how times are written. What is unusual is said in a line.

    Writes one row for each row read: its number in the source (from 0, not counting a header), time
    and key, then label, label_prob, score, p_new, p_change and n_tables, and what the model adds.

    With --checkpoint each row is learned once, and its result is once in a file written by --sink,
    even if the process is killed. Standard output may repeat the rows of one batch.
    """
    given = click.get_current_context().get_parameter_source
    file, command = ParameterSource.DEFAULT_MAP, ParameterSource.COMMANDLINE
    if (given("features"), given("text")) == (file, command):  # which exclude each other
        features = None
    elif (given("features"), given("text")) == (command, file):
        options["text"] = None
    with ExitStack() as stack:
        watchers = _watchers(stack, live, metrics, options["checkpoint"])
        try:
            from streamddcrp_connectors.run.command import Request, execute  # noqa: PLC0415 -- heavy: not for --help
        except KeyboardInterrupt:
            sys.exit(130)
        request = Request(
            features=None if features is None else tuple(map(str.strip, features.split(","))),
            format=format_,
            **options,
        )
        again = partial(_reloaded, click.get_current_context(), request)
        code = execute(request, watchers, again)
    sys.exit(code)


def _reloaded(context: click.Context, request: Any) -> Any:
    """Return the request with what the file says of alarms by now."""
    try:
        _defaults_from(context, context.command.params[0], context.meta.get(_FILE))
        found = context.default_map or {}
        changed = {
            str(option.name): option.type_cast_value(context, found[str(option.name)])
            if option.name in found
            else type(request).__dataclass_fields__[option.name].default
            for option in context.command.params
            if option.name in _RELOADED
            and context.get_parameter_source(option.name) is not ParameterSource.COMMANDLINE
        }
    except click.UsageError as error:
        raise ConfigError(error.format_message()) from error
    return replace(request, **changed)


@main.command()
@click.argument("folder", metavar="CHECKPOINT", type=click.Path(exists=True, file_okay=False))
@click.argument("regime", type=click.IntRange(0))
@click.argument("name", default="")
@click.option("--key", default="", metavar="KEY", help="Of a run with --by: whose regime it is.")
@click.option(
    "--verdict",
    type=click.Choice(["normal", "planned", "fault"]),
    default="normal",
    show_default=True,
    help="A planned regime raises no alarm, a fault one as soon as the stream is in it.",
)
def name(folder: str, regime: int, name: str, key: str, verdict: str) -> None:
    """Name a REGIME of a run, and say whether it is normal, planned or a fault.

    The run, its page and its reports use it from the next batch on. Without NAME it has none.
    """
    from streamddcrp_connectors.run.names import Names  # noqa: PLC0415 -- as above

    try:
        Names(Path(folder)).give(key, regime, name, verdict)
    except StreamDDCRPError as error:
        click.echo(f"streamddcrp: {error}", err=True)
        sys.exit(2)


def _watchers(
    stack: ExitStack, live: str | None, metrics: str | None, checkpoint: str | None
) -> list[Any]:
    """Open the page and the metrics, if they are wanted, before what takes longer to start."""
    watchers: list[Any] = []
    try:
        if live is not None:
            from streamddcrp_connectors.page.observer import opened  # noqa: PLC0415 -- rarely wanted

            folder = Path(checkpoint) if checkpoint else None
            watchers.append(stack.enter_context(opened(live, folder)))
        if metrics is not None:
            from streamddcrp_connectors.live.metrics import Metrics  # noqa: PLC0415 -- an extra

            watchers.append(stack.enter_context(closing(Metrics(metrics))))
    except StreamDDCRPError as error:
        click.echo(f"streamddcrp: {error}", err=True)
        sys.exit(2)
    except ModuleNotFoundError as error:
        click.echo(
            f"streamddcrp: --metrics needs {error.name}: pip install 'streamddcrp[metrics]'",
            err=True,
        )
        sys.exit(2)
    return watchers
