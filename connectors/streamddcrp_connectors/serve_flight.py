"""The command ``streamddcrp serve-flight``: serve a model to other programs."""

import os
import signal
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from streamddcrp.errors import ConfigError
from streamddcrp_connectors.options import INTERRUPTED, Command, sent

_SHUTDOWN = 1.0  # seconds to wait for open calls


@click.command("serve-flight", cls=Command)
@sent
@click.option("--model", metavar="NAME|FILE.toml", help="As for `run` [default: seqddcrp].")
@click.option("--checkpoint", metavar="DIR", help="Folder that keeps states and answers.")
@click.option(
    "--memory-limit", default="1GB", show_default=True, help="Memory for the models of all keys."
)
@click.option(
    "--listen",
    default="127.0.0.1:8815",
    show_default=True,
    metavar="HOST:PORT",
    help="Where to listen. An address that other machines can reach needs a token.",
)
@click.option("--token-env", metavar="NAME", help="Environment variable that holds the token.")
@click.option("--token-file", metavar="FILE", help="File that holds the token.")
def serve_flight(
    model: str | None,
    checkpoint: str | None,
    memory_limit: str,
    listen: str,
    token_env: str | None,
    token_file: str | None,
    **columns: Any,
) -> None:
    """Serve a model over Arrow Flight.

    Each batch of rows that a client sends (DoExchange) is answered with its results. With
    --checkpoint each row is learned once: a client that sends its last batch again, after either
    side was killed, gets the same answer. docs/live.md has a client of 20 lines.
    """
    from streamddcrp_connectors.live.flightserver import Answers, FlightService  # noqa: PLC0415 -- heavy: not for --help
    from streamddcrp_connectors.run.address import Address  # noqa: PLC0415
    from streamddcrp_connectors.run.columns import Columns  # noqa: PLC0415
    from streamddcrp_connectors.run.config import DEFAULT, find_recipe  # noqa: PLC0415
    from streamddcrp_connectors.run.interrupts import Interrupts  # noqa: PLC0415
    from streamddcrp_connectors.run.loop import open_store  # noqa: PLC0415

    token = None
    if token_env is not None and not (token := os.environ.get(token_env)):
        raise ConfigError(f"--token-env names {token_env}, which is not set")
    if token_file is not None:
        token = Path(token_file).read_text(encoding="utf-8").strip()
    wanted = Columns.of(**columns)
    ((host, port),) = Address.parse(f"flight://{listen}", port=8815).hosts[:1]
    recipe = find_recipe(model, default="text" if wanted.text else DEFAULT)
    try:
        with ExitStack() as stack:
            store = stack.enter_context(open_store(Path(checkpoint))) if checkpoint else None
            answers = Answers(recipe, wanted, store, memory_limit)
            with Interrupts():
                service = FlightService(host, port, token, answers)
                click.echo(f"streamddcrp: answers on {host}:{service.port}", err=True)
                try:
                    service.ended.result()
                finally:
                    service.busy.acquire()
                    ending = threading.Thread(target=service.shutdown, daemon=True)
                    ending.start()
                    ending.join(_SHUTDOWN)
    except KeyboardInterrupt as asked:
        status = 0 if asked.args == (signal.SIGTERM,) else INTERRUPTED
    sys.stderr.flush()
    os._exit(status)  # open calls still wait for clients; every answer is stored
