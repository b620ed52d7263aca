"""``python -m benchmarks`` runs everything; ``python -m benchmarks NAME --help`` describes one."""

from __future__ import annotations

import click

from benchmarks import (
    batch_speed,
    boilerplate,
    bound_gap,
    brokers,
    ddcrp_filter,
    ddcrp_sampler,
    engine,
    factory,
    graph_crp,
    group_dp,
    infinite_hmm,
    keyed,
    link_language,
    live,
    live_hours,
    live_page,
    nested_binary,
    nested_digits,
    nested_moves,
    nested_topics,
    ordinary,
    real_series,
    seasons,
    spark,
    spark_plan,
    speed,
    temporal_gaussian,
    temporal_language,
    temporal_text,
    text,
    text_languages,
    tv_ibp,
    without_spaces,
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
    engine, ordinary, factory, real_series, seasons, keyed, bound_gap, batch_speed, ddcrp_sampler,
    ddcrp_filter, link_language, temporal_gaussian, temporal_text, temporal_language, graph_crp,
    group_dp, infinite_hmm, tv_ibp, nested_binary, nested_digits, nested_moves, nested_topics, text,
    boilerplate, text_languages, without_spaces, live, live_hours, live_page, brokers, speed, spark,
    spark_plan,
):  # fmt: skip
    main.add_command(_module.main)

if __name__ == "__main__":
    main()
