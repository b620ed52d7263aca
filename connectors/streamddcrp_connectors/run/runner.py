"""The loop: source, models, sink, checkpoint.

With a checkpoint, one batch is one epoch, and one transaction records the states that changed, the
source's offset and the lengths of the output files *after* the epoch's output has reached the disk.
A process that dies at any moment and is started again cuts its outputs back to the recorded lengths
and goes on after the recorded offset: outputs and states are those of a run that never stopped.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from streamddcrp.checkpoint import SqliteStore
from streamddcrp.errors import CheckpointError, ConfigError, SchemaError
from streamddcrp_connectors.run.columns import refusals
from streamddcrp_connectors.run.deadletters import DeadLetters
from streamddcrp_connectors.run.interrupts import Interrupts
from streamddcrp_connectors.run.models import CURSOR, Models, Recipe, Rows, screen
from streamddcrp_connectors.run.sinks import Sink
from streamddcrp_connectors.run.sources import Offset, Source

__all__ = ["STORE_NAME", "Summary", "open_store", "run"]

STORE_NAME = "state.sqlite"

Progress = Callable[["Summary"], None]


@dataclass(slots=True)
class Summary:
    """What a run did, counted over all its restarts.

    Parameters
    ----------
    rows : int
        Rows of the source so far, refused ones included.
    refused : int
        Rows set aside.
    tables : int
        Live tables of the models in memory.
    interrupted : bool
        The run was asked to end before the source did.
    """

    rows: int = 0
    refused: int = 0
    tables: int = 0
    interrupted: bool = False


def run(
    source: Source,
    recipe: Recipe,
    sink: Sink,
    *,
    store: SqliteStore | None = None,
    events: Sink | None = None,
    dead_letters: DeadLetters | None = None,
    progress: Progress | None = None,
    memory_limit: str | int = "1GB",
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
    progress : callable, optional
        Called after each epoch.
    memory_limit : str or int
        Most memory for the models of keys; those used least recently go to the store.

    Returns
    -------
    summary : Summary

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
        message = (
            f"{source.name} cannot be read a second time, so a checkpoint could not make up for a "
            "crash: write the rows to a file and run on that file with --follow, or leave the "
            "checkpoint out"
        )
        raise ConfigError(message)
    _check_distinct(source, sink, events, dead_letters)
    job = _job(source, recipe, sink, events)
    cursor = _cursor(store, job)
    summary = Summary(rows=cursor["rows"], refused=cursor["refused"])
    model = recipe.make()  # options that cannot be used are refused before any file is touched
    if source.columns.time is None and getattr(model, "needs_times", False):
        message = (
            "the epochs of this model follow from times: name their column with --time, or cut "
            "epochs by count, for instance --epoch '100 rows'"
        )
        raise ConfigError(message)
    models = Models(recipe, source.columns.key, store, memory_limit)
    with Interrupts() as interrupts, _closing(sink, events, dead_letters):
        sink.rewind(cursor["sink"])
        if events is not None:
            events.rewind(cursor["events"])
        _rewind_dead(dead_letters, cursor)
        try:
            for batch, offset in source.read_after(cursor["source"]):
                with interrupts.held():
                    _epoch(source, batch, offset, models, sink, dead_letters, summary)
                    if events is not None:
                        events.write(models.events(batch, source.columns))
                    if store is not None:
                        cursor |= {"source": offset, "rows": summary.rows, "sink": sink.sync()}
                        if events is not None:
                            cursor["events"] = events.sync()
                        cursor["refused"] = summary.refused
                        if dead_letters is not None:
                            cursor["dead"] = [dead_letters.identity, dead_letters.sync()]
                        models.save(cursor)
                if progress is not None:
                    summary.tables = models.n_tables
                    progress(summary)
        except KeyboardInterrupt:
            summary.interrupted = True
        with interrupts.held():
            sink.finish()
            if events is not None:
                events.finish()
    summary.tables = models.n_tables
    return summary


def open_store(folder: Path) -> SqliteStore:
    """Open the store of a checkpoint folder, making the folder if need be."""
    return SqliteStore(folder / STORE_NAME)


def _epoch(
    source: Source,
    batch: Any,
    offset: Offset,
    models: Models,
    sink: Sink,
    dead_letters: DeadLetters | None,
    summary: Summary,
) -> None:
    """Learn one batch and write its results."""
    first = offset["row"] - batch.num_rows
    batch, marked = refusals(batch)
    rows = Rows(np.arange(first, offset["row"]), batch, source.columns)
    places = screen(rows) | marked
    refused = {first + place: refusal for place, refusal in places.items()}
    if dead_letters is None:
        if refused:
            row = min(refused)
            raise _refusal(source, row, refused[row].reason)
    elif refused:
        kept = np.delete(np.arange(len(rows)), sorted(places))
        rows = rows.take(kept)
    try:
        results = (
            models.step(rows, None if dead_letters is None else refused) if len(rows) else None
        )
    except SchemaError as error:
        if error.row is None:
            raise
        raise _refusal(source, error.row, str(error), type(error)) from error
    if results is not None:
        sink.write(results)
    if dead_letters is not None:
        dead_letters.write(refused)
    summary.rows = offset["row"]
    summary.refused += len(refused)


def _refusal(
    source: Source, row: int, reason: str, kind: type[SchemaError] = SchemaError
) -> SchemaError:
    message = (
        f"{source.name}: row {row}: {reason} (rows are counted from 0, a header not counted; "
        "--on-error dead-letter=FILE sets such rows aside and goes on)"
    )
    return kind(message, row=row)


def _check_distinct(
    source: Source, sink: Sink, events: Sink | None, dead_letters: DeadLetters | None
) -> None:
    """Refuse to write over what is read, or twice to one file."""
    paths = {"source": source.identity().get("path"), "sink": sink.identity}
    if events is not None:
        paths["file of events"] = events.identity
    if dead_letters is not None:
        paths["file of refused rows"] = dead_letters.identity
    for what, path in paths.items():
        for other, same in paths.items():
            if what < other and path == same:
                message = f"{path} is both the {what} and the {other}; choose different files"
                raise ConfigError(message)


def _job(source: Source, recipe: Recipe, sink: Sink, events: Sink | None) -> dict[str, Any]:
    """Describe what must stay the same for a checkpoint to be continued."""
    columns = source.columns
    text = {"text": True} if columns.text else {}
    job = {
        "model": dict(recipe.description),
        "source": source.identity(),
        "columns": {"time": columns.time, "key": columns.key, "features": columns.features} | text,
        "sink": sink.identity,
    }
    if events is not None:
        job["events"] = events.identity
    described: dict[str, Any] = json.loads(json.dumps(job))  # as it comes back from the store
    return described


def _cursor(store: SqliteStore | None, job: dict[str, Any]) -> dict[str, Any]:
    """Return where to go on, after checking that the checkpoint is of this job."""
    stored = store.offset(CURSOR) if store is not None else None
    if stored is None or store is None:
        start = dict.fromkeys(("source", "sink", "events", "dead"))
        return {"job": job, **start, "rows": 0, "refused": 0}
    cursor: dict[str, Any] = stored
    for part in {**cursor["job"], **job}:
        before, now = cursor["job"].get(part), job.get(part)
        if before != now:
            message = (
                f"the checkpoint {store.path.parent} was made with another {part}: "
                f"{_difference(before, now)}; run with the same one, or use a new checkpoint folder"
            )
            raise CheckpointError(message)
    return cursor


def _difference(before: Any, now: Any) -> str:
    if isinstance(before, dict) and isinstance(now, dict):
        names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        return ", ".join(_difference_of(name, before, now) for name in names)
    return f"then {json.dumps(before)}, now {json.dumps(now)}"


def _difference_of(name: str, before: dict[str, Any], now: dict[str, Any]) -> str:
    if isinstance(before.get(name), dict) and isinstance(now.get(name), dict):
        return _difference(before[name], now[name])
    then, later = (json.dumps(job[name]) if name in job else "not given" for job in (before, now))
    return f"{name} was {then}, now {later}"


def _rewind_dead(dead_letters: DeadLetters | None, cursor: dict[str, Any]) -> None:
    if dead_letters is None:
        return
    name, length = cursor["dead"] or (dead_letters.identity, None)
    if name != dead_letters.identity:
        message = f"the checkpoint keeps its refused rows in {name}, not in {dead_letters.name}"
        raise CheckpointError(message)
    dead_letters.rewind(length)


@contextmanager
def _closing(sink: Sink, events: Sink | None, dead_letters: DeadLetters | None) -> Iterator[None]:
    """Close the outputs, whatever happens."""
    try:
        yield
    except BaseException:
        sink.abandon()
        if events is not None:
            events.abandon()
        raise
    finally:
        if dead_letters is not None:
            dead_letters.close()
