"""The loop: source, models, sink, checkpoint.

With a checkpoint, one batch is one epoch, and one transaction records the states that changed, the
source's offset and the lengths of the output files *after* the epoch's output has reached the disk.
A process that dies at any moment and is started again cuts its outputs back to the recorded lengths
and goes on after the recorded offset: outputs and states are those of a run that never stopped. The
first commit is made before any row is read, so that a sink can rely on its position.
"""

from pathlib import Path
from typing import Any

from streamddcrp.checkpoint import SqliteStore
from streamddcrp_connectors.run.loop import Epoch, Run, Summary, Watcher
from streamddcrp_connectors.run.models import Recipe
from streamddcrp_connectors.run.sinks import Sink
from streamddcrp_connectors.run.sources import Source

__all__ = ["STORE_NAME", "Epoch", "Summary", "Watcher", "open_store", "run"]

STORE_NAME = "state.sqlite"


def run(source: Source, recipe: Recipe, sink: Sink, **how: Any) -> Summary:
    r"""Send the rows of a source through a model and its results to a sink; see `Run`.

    Raises
    ------
    SchemaError
        A row was refused (``row`` is its number within the source). The epoch it is in was not
        stored; all before are.
    ConfigError, CheckpointError
        The arguments do not fit together, or not with what is stored.

    Examples
    --------
    >>> import tempfile
    >>> from streamddcrp import SeqDDCRP
    >>> from streamddcrp_connectors.run.columns import Columns
    >>> from streamddcrp_connectors.run.sinks import open_sink
    >>> from streamddcrp_connectors.run.sources import open_source
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "in.csv").write_text("a\n" + "0\n9\n" * 50)
    ...     source = open_source(Path(folder, "in.csv"), Columns())
    ...     sink = open_sink(Path(folder, "out.parquet"), None, None)
    ...     run(source, Recipe(SeqDDCRP, SeqDDCRP.from_bytes), sink).rows
    ...     source.close()
    100
    """
    return Run(source, recipe, sink, **how).go()


def open_store(folder: Path) -> SqliteStore:
    """Open the store of a checkpoint folder, making the folder if need be."""
    return SqliteStore(folder / STORE_NAME)
