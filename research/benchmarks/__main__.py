"""``python -m research.benchmarks NAME --help`` describes one; each is imported when it runs."""

import importlib
import pkgutil
from pathlib import Path

import click

PEERS = {"dated_texts", "dense_algorithm1", "hdp", "tomotopy_models", "topic_models"}


class _Modules(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        found = {module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)])}
        return sorted(found - PEERS - {"__main__"})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = cmd_name.replace("-", "_")
        if name not in self.list_commands(ctx):
            return None
        command: click.Command = importlib.import_module(f"research.benchmarks.{name}").main
        return command


@click.group(cls=_Modules)
def main() -> None:
    """Compare the models of the papers with baselines that nothing else uses."""


if __name__ == "__main__":
    main()
