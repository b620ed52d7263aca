"""The command ``streamddcrp calibrate``: check a model under its own prior."""

import inspect
import sys
from functools import partial
from typing import Any

import click

from streamddcrp_connectors.options import Command


@click.command(cls=Command)
@click.argument("model", metavar="MODEL.toml")
@click.option("--truth", metavar="FILE.toml", help="Whose prior rows are drawn from [MODEL.toml].")
@click.option("--rows", default=20, show_default=True, help="Learned in each simulation.")
@click.option("--simulations", default=400, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--picture", metavar="FILE", help="Draw how far the ranks are from uniform.")
def calibrate(
    model: str, truth: str | None, rows: int, simulations: int, seed: int, picture: str | None
) -> None:
    """Check a model or sampler against rows drawn from its own prior.

    MODEL.toml has the options of a model, with all numbers of its prior; the key 'model' names it,
    as for `run`, or one of GroupDP, sample_ddcrp, sample_graph_crp, sample_graph_ibp,
    sample_group_dp and sample_temporal_dpm. Rows are drawn from its prior and learned. What they
    were drawn with then ranks anywhere among draws from the posterior, and the next row anywhere in
    its forecast. For each quantity the p-value of its ranks is printed, and how often intervals of
    95 % hold the truth.

    Ends with exit code 1 if ranks are not uniform: of right models, at most one in a hundred.
    """
    from streamddcrp import calibrate as judged  # noqa: PLC0415 -- heavy: not for --help
    from streamddcrp.monitor.calibration import RATE  # noqa: PLC0415

    found = judged(
        _made(model), None if truth is None else _made(truth), n_rows=rows,
        n_simulations=simulations, seed=seed, progress=sys.stderr.isatty(),
    )  # fmt: skip
    click.echo(found)
    if picture:
        found.plot().figure.savefig(picture, bbox_inches="tight")
    sys.exit(int(found.p_value < RATE))


def _made(path: str) -> Any:
    """Return the model of a file, or the sampler with its options."""
    import streamddcrp  # noqa: PLC0415
    from streamddcrp.errors import ConfigError  # noqa: PLC0415
    from streamddcrp.monitor.prior_draws import PRIORS  # noqa: PLC0415
    from streamddcrp_connectors.run.config import DEFAULT, read_options, recipe_for  # noqa: PLC0415
    from streamddcrp_connectors.run.plugins import MODELS, find, is_installed  # noqa: PLC0415

    options = read_options(path)
    name = options.pop("model", DEFAULT)
    if name not in PRIORS and not is_installed(MODELS, name):
        raise ConfigError(f"{path}: model must be one of {', '.join(PRIORS)}, got {name!r}")
    made = getattr(streamddcrp, name) if name in PRIORS else find(MODELS, name)
    is_sampler = inspect.isfunction(made)
    recipe = recipe_for(made, options, partial(made) if is_sampler else made.from_bytes, path)
    return partial(made, **options) if is_sampler else recipe.make()
