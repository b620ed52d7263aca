"""``python -m benchmarks`` runs everything; ``python -m benchmarks NAME --help`` describes one."""

from __future__ import annotations

import click

from benchmarks import (
    batch_speed,
    boilerplate,
    bound_gap,
    ddcrp_filter,
    ddcrp_sampler,
    engine,
    graph_crp,
    keyed,
    link_language,
    nested_digits,
    nested_topics,
    ordinary,
    real_series,
    seasons,
    temporal_gaussian,
    temporal_language,
    temporal_text,
    text,
    tv_ibp,
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
    engine, ordinary, real_series, seasons, keyed, bound_gap, batch_speed, ddcrp_sampler,
    ddcrp_filter,
    link_language, temporal_gaussian, temporal_text, temporal_language, graph_crp, tv_ibp,
    nested_digits, nested_topics, text, boilerplate,
):  # fmt: skip
    main.add_command(_module.main)

if __name__ == "__main__":
    main()
