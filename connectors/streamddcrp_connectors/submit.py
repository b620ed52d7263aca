"""The command ``streamddcrp submit``: a run's job on Apache Spark."""

import sys

import click
from click.core import ParameterSource

from streamddcrp_connectors.options import INTERRUPTED, Command
from streamddcrp_connectors.request import Request

_BATCH_ROWS = 20_000  # a visit costs milliseconds on Spark, so it should bring many rows
_ONLY_HERE = (  # options of a run that Spark lacks
    "alarms", "alarm_rate", "metrics", "late", "max_ahead", "live", "memory_limit", "progress",
    "overwrite", "check",
)  # fmt: skip


@click.command(cls=Command)
@click.argument("job", metavar="JOB.toml")
@click.option("--master", metavar="URL", help="Address of the Spark master [default: local[*]].")
@click.option(
    "--conf", multiple=True, metavar="NAME=VALUE", help="A setting of Spark; may be repeated."
)
@click.option(
    "--partitions",
    type=click.IntRange(1),
    help="Tasks among which the keys are divided. The first start fixes the number for the "
    "checkpoint, so choose it for the largest cluster [default: twice the cores].",
)
@click.option(
    "--idle-keys", metavar="TIME", help="Forget keys without rows for so long, as in 30d."
)
@click.option("--state-limit", default="1MB", show_default=True, help="Largest state of a key.")
def submit(
    job: str, master: str | None, conf: tuple[str, ...], partitions: int | None,
    idle_keys: str | None, state_limit: str,
) -> None:  # fmt: skip
    """Run a job on Apache Spark, with a model for each key.

    JOB.toml is a file for `streamddcrp run --config`. The rows are read here and learned by the
    executors. Each batch becomes a folder batch=N of
    Parquet files below the job's sink, with output=result, output=event and output=refused. A job
    that was killed continues when it is submitted again: nothing is lost or doubled.
    """
    from streamddcrp_connectors.cli import run  # noqa: PLC0415 -- which imports this
    from streamddcrp_connectors.spark import needing_spark  # noqa: PLC0415

    context = run.make_context("submit", ["--config", job])
    given = dict(context.params)
    default = {
        name
        for name in given
        if context.get_parameter_source(name) in (ParameterSource.DEFAULT, None)
    }
    for name in _ONLY_HERE:
        if name not in default:
            message = f"{job}: {name.replace('_', '-')} is for `streamddcrp run`, not for Spark"
            raise click.UsageError(message)
    for name, why in (("key", "a model for each key"), ("checkpoint", "a folder for its states")):
        if given[name] is None:
            raise click.UsageError(f"{job} names no {name}: Spark needs {why}")
    if given["sink"] == "-" or "://" in given["sink"].removeprefix("file://"):
        message = f"{job}: on Spark the sink is a folder for Parquet files, got {given['sink']!r}"
        raise click.UsageError(message)
    if "batch_rows" in default:
        given["batch_rows"] = _BATCH_ROWS
    del given["live"], given["metrics"]
    request = Request(**given)
    spark_job = needing_spark("job")
    try:
        spark = spark_job.session(master, conf)
        try:
            rows = spark_job.execute(
                request, spark, partitions=partitions, idle_keys=idle_keys, state_limit=state_limit
            )
        finally:
            spark.stop()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    click.echo(f"{rows:,} rows -> {given['sink']}", err=True)
