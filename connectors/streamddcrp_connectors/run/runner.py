"""The loop: source, models, sink, checkpoint.

With a checkpoint, one batch is one epoch, and one transaction records the states that changed, the
source's offset and the lengths of the output files *after* the epoch's output has reached the disk.
A process that dies at any moment and is started again cuts its outputs back to the recorded lengths
and goes on after the recorded offset: outputs and states are those of a run that never stopped. The
first commit is made before any row is read, so that a sink can rely on its position.
"""

import logging
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from streamddcrp.checkpoint import SqliteStore
from streamddcrp.errors import ConfigError
from streamddcrp_connectors.run.alarming import Alarming, AlarmRule
from streamddcrp_connectors.run.deadletters import DeadLetters
from streamddcrp_connectors.run.interrupts import Interrupts
from streamddcrp_connectors.run.job import describe, find_cursor, fitting
from streamddcrp_connectors.run.lateness import Lateness
from streamddcrp_connectors.run.loop import Epoch, Loop, Progress, Summary, Watcher
from streamddcrp_connectors.run.models import Models, Recipe
from streamddcrp_connectors.run.names import Names
from streamddcrp_connectors.run.outputs import Outputs
from streamddcrp_connectors.run.retries import Stopped
from streamddcrp_connectors.run.sinks import Sink
from streamddcrp_connectors.run.sources import Source

__all__ = ["STORE_NAME", "Epoch", "Summary", "Watcher", "open_store", "run"]

STORE_NAME = "state.sqlite"
_LOG = logging.getLogger("streamddcrp.run")


def run(
    source: Source,
    recipe: Recipe,
    sink: Sink,
    *,
    store: SqliteStore | None = None,
    events: Sink | None = None,
    dead_letters: DeadLetters | None = None,
    alarms: Sink | None = None,
    alarm_rule: AlarmRule = AlarmRule(),  # noqa: B008 -- a tuple of constants
    progress: Progress | None = None,
    watchers: Sequence[Watcher] = (),
    memory_limit: str | int = "1GB",
    batch_rows: int = 1000,
    batch_wait: float = 0.0,
    idle: float | None = None,
    late: str | None = None,
    max_ahead: str | None = None,
    overwrite: bool = False,
    names: Names | None = None,
    new_rule: Callable[[], AlarmRule] | None = None,
) -> Summary:
    r"""Send the rows of a source through a model and its results to a sink.

    Parameters
    ----------
    source : Source
        With a key among its columns, each key has its own model.
    recipe : Recipe
        Makes and restores the models.
    sink : Sink
        Gets, for each row that was taken: its number within the source, time, key, and the columns
        of the model's ``step_many``.
    store : SqliteStore, optional
        Keeps states and cursor; a run with the same arguments goes on where the last one ended.
    events : Sink, optional
        Gets what happened to tables; see `Models.events`. Those of a key come in order, the keys as
        batches fall.
    dead_letters : DeadLetters, optional
        Takes the refused rows; without it the first one ends the run.
    alarms : Sink, optional
        Gets messages of alarms; see `Alarming`.
    progress : callable, optional
        Called after each epoch.
    watchers : sequence of Watcher
        Look on.
    memory_limit : str or int
        Most memory for the models of keys; those used least recently go to the store.
    batch_rows, batch_wait : int, float
        Of a live source: rows are gathered until there are so many, or the first has waited for so
        many seconds. With 0 they are taken as they come: while one batch is learned the rows of
        the next pile up, so that a fast stream makes large batches by itself.
    idle : float, optional
        End after so many seconds without a row of a live source.
    late, max_ahead : str, optional
        What becomes of late rows and of those far ahead; see `Lateness`.
    overwrite : bool
        Replace files that hold something no checkpoint recorded, instead of refusing them.
    names : Names, optional
        Names that people give to regimes, for the column ``name`` of events and alarms; of a job
        that began without them these stay as they are.
    new_rule : callable, optional
        Returns the rule of alarms from SIGHUP on.

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
    if store is not None and not source.replayable:
        raise ConfigError(
            f"{source.name} cannot be read a second time, so a checkpoint could not make up for a "
            "crash: write the rows to a file and run on that file with --follow, or leave the "
            "checkpoint out"
        )
    outputs = Outputs(sink, events, dead_letters, alarms)
    outputs.check_distinct(source)
    job = describe(source, recipe, outputs)
    cursor = find_cursor(store, job, overwrite=overwrite)
    summary = Summary(source.name, rows=cursor["rows"], refused=cursor["refused"])
    summary.has_epochs = recipe.description.get("class") == "TemporalDPM"
    if cursor["source"] is not None:
        _LOG.info("resumed at row %s of %s", f"{summary.rows:,}", source.name)
    alarming = Alarming(alarm_rule) if alarms is not None or watchers else None
    lateness = Lateness(late, max_ahead, source.columns)
    model = recipe.make()  # options that cannot be used are refused before any file is touched
    if source.columns.time is None and getattr(model, "needs_times", False):
        raise ConfigError(
            "the epochs of this model follow from times: name their column with --time, or cut "
            "epochs by count, for instance --epoch '100 rows'"
        )
    models = Models(recipe, source.columns.key, store, memory_limit)
    with Interrupts(safe=store is not None) as interrupts, outputs.closing():
        loop = Loop(
            source, models, outputs, store, watchers, progress, summary, interrupts, lateness,
            alarming, names, new_rule,
        )  # fmt: skip
        with fitting():
            loop.begin(cursor, overwrite=overwrite)
        try:
            loop.go_on(batch_rows, batch_wait, idle)
        except Stopped:
            raise
        except KeyboardInterrupt as asked:
            summary.interrupted = asked.args[0] if asked.args else signal.SIGINT
            if store is None:  # else they wait in the checkpoint
                loop.end()
        with interrupts.held():
            loop.finish()
    summary.tables = models.n_tables
    return summary


def open_store(folder: Path) -> SqliteStore:
    """Open the store of a checkpoint folder, making the folder if need be."""
    return SqliteStore(folder / STORE_NAME)
