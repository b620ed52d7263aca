"""``python -m benchmarks`` runs everything; ``python -m benchmarks NAME --help`` describes one."""

from __future__ import annotations

import click

from benchmarks import (
    alarms,
    calibration,
    change_sets,
    engine,
    factory,
    faults,
    fleet,
    keyed,
    live,
    live_page,
    logs,
    ordinary,
    own_priors,
    plants,
    reading,
    real_series,
    reasons,
    seasons,
    spark,
    spark_plan,
    speed,
    text,
)


@click.group(invoke_without_command=True)
@click.pass_context
def main(context: click.Context) -> None:
    """Measure the library against its peers; without a name, run every benchmark."""
    if context.invoked_subcommand is None:
        for name, command in main.commands.items():
            click.echo(f"\n## {name}\n")
            context.invoke(command)


for _module in (
    engine, calibration, own_priors, change_sets, ordinary, factory, plants, real_series, alarms,
    reasons, faults, seasons, keyed, fleet, text, logs, live, live_page, reading, speed, spark,
    spark_plan,
):  # fmt: skip
    main.add_command(_module.main)

if __name__ == "__main__":
    main()
