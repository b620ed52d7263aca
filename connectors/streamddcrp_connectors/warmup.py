"""The command ``streamddcrp warmup``: compile kernels ahead of the first run."""

import inspect
import os
import sys
import time
from typing import Any

import click

from streamddcrp_connectors.options import Command

_ROWS = 300  # enough to warm up every model


@click.command(cls=Command)
@click.argument("models", nargs=-1, metavar="[MODEL]...")
@click.option("--all", "all_", is_flag=True, help="Every installed model.")
@click.option("--native", is_flag=True, help="Code for this processor alone; see below.")
@click.option(
    "--progress/--no-progress", default=None, help="Show a progress bar [default: on a terminal]."
)
def warmup(models: tuple[str, ...], all_: bool, native: bool, progress: bool | None) -> None:
    """Compile the kernels of models in advance.

    The first run of a MODEL (default: seqddcrp) then starts at once, as it does from a wheel that
    brings machine code. The code is kept in $NUMBA_CACHE_DIR, or in the user's cache. It is valid
    for this version of the sources and of numba, and all processors of an architecture get the
    same, so that all give the same bits. Code of --native uses what else this processor can do,
    and may differ from others in the last digits; runs use it with STREAMDDCRP_NATIVE=1 in the
    environment.
    """
    if native:
        os.environ["STREAMDDCRP_NATIVE"] = "1"
    from tqdm import tqdm  # noqa: PLC0415 -- heavy: not for --help

    from streamddcrp.kernel_folders import cache_root  # noqa: PLC0415
    from streamddcrp_connectors.run.config import DEFAULT  # noqa: PLC0415
    from streamddcrp_connectors.run.plugins import MODELS, find, installed  # noqa: PLC0415

    names = list(installed(MODELS)) if all_ else list(models or [DEFAULT])
    hide = None if progress is None else not progress
    classes = {name: find(MODELS, name) for name in names}
    with tqdm(classes.items(), unit=" models", disable=hide) as bar:
        for name, model_class in bar:
            bar.set_description(name)
            began = time.perf_counter()
            exercise(name, model_class)
            bar.write(f"{name}: ready after {time.perf_counter() - began:.1f} s", sys.stdout)
    click.echo(f"machine code in {cache_root()}")


def exercise(name: str, model_class: Any) -> None:
    """Call the public methods on a few rows, to compile every kernel that users need."""
    import pyarrow as pa  # noqa: PLC0415 -- heavy: not for --help

    from streamddcrp import SeqDDCRP, count_regimes  # noqa: PLC0415
    from streamddcrp.errors import SchemaError  # noqa: PLC0415

    model, rows = model_class(), _rows(name)
    if name == "language":  # knows words, not rows
        model.step_many(pa.record_batch({"text": _texts()}))
        model.summary()
        return
    options = inspect.signature(model_class).parameters
    if "season" in options:
        model_class(season=5).learn_many(rows)
    if "stop_words" in options:  # reads them
        model_class(stop_words=("and",))
    try:
        model.step_many(rows)
    except SchemaError:  # the model takes texts
        model, rows = model_class(), _texts()
        model.step_many(rows)
    first = rows[0] if isinstance(rows, list) else dict(enumerate(rows[0].tolist()))
    model.learn_one(first)
    for method in ("predict_one", "score_one"):
        if hasattr(model, method):
            getattr(model, method)(first)
    if hasattr(model, "summary"):
        model.summary()
    if isinstance(model, SeqDDCRP):
        count_regimes(model)
    model_class.from_bytes(model.to_bytes())
    _ = getattr(model, "objective", None)


def _rows(name: str) -> Any:
    """Return points of three clusters, unit vectors or texts, as the model needs."""
    import numpy as np  # noqa: PLC0415 -- heavy: not for --help

    if name in {"text", "nested-topics"}:
        return _texts()
    rng = np.random.default_rng(0)
    D = 8 if name == "embeddings" else 2
    X = rng.normal(size=(_ROWS, D)) + 6.0 * rng.integers(0, 3, size=(_ROWS, 1))
    return X / np.linalg.norm(X, axis=1, keepdims=True) if name == "embeddings" else X


def _texts() -> list[str]:
    topics = ["pump valve flow pressure", "match goal team coach", "bank rate bond market"]
    return [f"{topics[i % 3]} number {i % 7}" for i in range(_ROWS)]
