"""The command ``streamddcrp``. Each command imports its slow modules when it runs."""

import importlib
import signal
import sys
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from streamddcrp.errors import ConfigError, MissingExtraError, StreamDDCRPError
from streamddcrp_connectors.options import INTERRUPTED, Command
from streamddcrp_connectors.request import Look, Request, options_of

_FILE = "streamddcrp.file"  # key of a context for the name of its options file
_RELOADED = ("alarm_rate", "alarm_per", "alarm_group", "silences")
_ELSEWHERE = {
    "calibrate": "streamddcrp_connectors.calibrate",
    "demo": "streamddcrp_connectors.demo",
    "report": "streamddcrp_connectors.report.report",
    "serve": "streamddcrp_connectors.page.recorded",
    "reproduce": "streamddcrp_connectors.reproduce",
    "serve-flight": "streamddcrp_connectors.serve_flight",
    "submit": "streamddcrp_connectors.submit",
    "warmup": "streamddcrp_connectors.warmup",
}


class _Commands(click.Group):
    """Commands of this module, and others imported when first asked for."""

    command_class = Command

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
    """Take options missing on the command line from a TOML file."""
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
    if at_once and ctx.invoked_subcommand != "run":  # ``run`` handles it later itself
        signal.signal(signal.SIGINT, signal.default_int_handler)


@main.command()
@click.argument("source")
@options_of(Look)
def look(**options: Any) -> None:
    """Say what SOURCE holds, and how `run` would read it.

    Shows the format of the source, and for each column its kind, range, steps, missing values and
    what is subtracted before rows are clustered; then anything odd, and a command that states all
    of this. `run` without options reads the source in the same way.
    """
    from streamddcrp_connectors.run.outlook import outlook  # noqa: PLC0415 -- heavy: not for --help

    for line in outlook(Request(**options)):
        click.echo(line)


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
@options_of(Request)
@click.option(
    "--metrics", metavar="HOST:PORT", help="Serve counts to Prometheus, as at 127.0.0.1:9100."
)
@click.option(
    "--live",
    is_flag=False,
    flag_value="127.0.0.1:8765",
    metavar="[HOST:PORT]",
    help="Serve a page that shows the run as it goes [default address: 127.0.0.1:8765].",
)
def run(live: str | None, metrics: str | None, **options: Any) -> None:
    """Label the rows of a file or a stream as they arrive.

    SOURCE is a file (Parquet, Arrow, CSV and other tables of text, JSON, XML, a log, lines of
    InfluxDB, a workbook, SQLite, a dump of SQL; packed or not), a folder of text files (with --text
    text, each file is a document), the address of a stream such as nats://host/STREAM or
    redis://host/key, or - for standard input. A missing value is an empty cell (CSV) or null.

    The format of a text file is found in its first 100 kB: separator, decimal commas, header,
    encoding, missing values, and how times are written. One line reports anything unusual.

    Writes one row for each row read: its number in the source (from 0, not counting a header), time
    and key, then label, label_prob, score, p_new, p_change, n_tables, and columns of the model.

    With --checkpoint each row is learned once, and its result is once in a file written by --sink,
    even if the process is killed. Standard output may repeat the rows of one batch.
    """
    given = click.get_current_context().get_parameter_source
    file, command = ParameterSource.DEFAULT_MAP, ParameterSource.COMMANDLINE
    if (given("features"), given("text")) == (file, command):  # mutually exclusive
        options["features"] = None
    elif (given("features"), given("text")) == (command, file):
        options["text"] = None
    with ExitStack() as stack:
        watchers = _watchers(stack, live, metrics, options)
        try:
            from streamddcrp_connectors.run.command import execute  # noqa: PLC0415 -- heavy: not for --help
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        request = Request(**options)
        again = partial(_reloaded, click.get_current_context(), request)
        code = execute(request, watchers, again)
    sys.exit(code)


def _reloaded(context: click.Context, request: Any) -> Any:
    """Return the request with the file's present alarm settings."""
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

    Names(Path(folder)).give(key, regime, name, verdict)


def _watchers(
    stack: ExitStack, live: str | None, metrics: str | None, options: dict[str, Any]
) -> list[Any]:
    """Open the page and the metrics, if requested, before slower parts start."""
    watchers: list[Any] = []
    if live is not None:
        from streamddcrp_connectors.page.observer import opened  # noqa: PLC0415 -- rarely wanted

        folder = Path(options["checkpoint"]) if options["checkpoint"] else None
        watchers.append(stack.enter_context(opened(live, folder, options["log_format"])))
    if metrics is not None:
        try:
            from streamddcrp_connectors.live.metrics import Metrics  # noqa: PLC0415 -- an extra
        except ModuleNotFoundError as error:
            message = f"--metrics needs {error.name}: pip install 'streamddcrp[metrics]'"
            raise MissingExtraError(message) from error
        watchers.append(stack.enter_context(closing(Metrics(metrics))))
    return watchers
