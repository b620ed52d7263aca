"""The loop: source, models, sink, checkpoint.

With a checkpoint, one batch is one epoch, and one transaction records the states that changed, the
source's offset and the lengths of the output files *after* the epoch's output has reached the disk.
A process that dies at any moment and is started again cuts its outputs back to the recorded lengths
and goes on after the recorded offset: outputs and states are those of a run that never stopped. The
first commit is made before any row is read, so that a sink can rely on its position.
"""

import logging
import math
import signal
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from streamddcrp.checkpoint import SqliteStore
from streamddcrp.errors import ConfigError, OrderError, SchemaError
from streamddcrp.estimator.reasons import Explanation
from streamddcrp.monitor.alarm import Alarms
from streamddcrp_connectors.run.alarming import Alarming, AlarmRule
from streamddcrp_connectors.run.columns import Refusal
from streamddcrp_connectors.run.gather import Patience, Stopped, gathered
from streamddcrp_connectors.run.interrupts import Interrupts
from streamddcrp_connectors.run.job import describe, find_cursor, fitting
from streamddcrp_connectors.run.lateness import Lateness
from streamddcrp_connectors.run.models import Models, Recipe, Rows, usable
from streamddcrp_connectors.run.names import Names
from streamddcrp_connectors.run.outputs import DeadLetters, Outputs
from streamddcrp_connectors.run.sinks import Sink
from streamddcrp_connectors.run.sources import Offset, Source

STORE_NAME = "state.sqlite"
MANY = 100  # rows after which it is worth a warning that most are refused
Progress = Callable[["Summary"], None]
_LOG = logging.getLogger("streamddcrp")
_LOG_RUN = logging.getLogger("streamddcrp.run")  # shown in any case


@dataclass(slots=True)
class Summary:
    """What a run did, counted over all its restarts."""

    source: str = ""  # its name
    has_epochs: bool = False  # the model's rows arrive by epochs
    rows: int = 0  # of the source so far, refused ones included
    refused: int = 0  # rows set aside
    reason: str = ""  # why the last of them was
    tables: int = 0  # live ones of the models in memory
    interrupted: int = 0  # the signal by which the run was asked to end before the source did
    waiting_for: str | None = None  # name of a server that is away
    undelivered: int = 0  # messages that nobody took, of this start
    silenced: int = 0  # alarms kept silent
    alive: float = field(default_factory=time.monotonic)  # when it last did anything
    committed: float | None = None  # when it last committed, by the same clock


@dataclass(frozen=True, slots=True)
class Epoch:
    """One batch after it was learned and recorded, for those who watch a run."""

    rows: Rows  # those that the model was given
    results: Any  # what the sink got, of the rows that the model took; None: it took none
    events: Any  # see `Models.events`; None: the model was given no row
    alarms: Any  # see `Alarming.tell`; None: no row was taken
    refused: int  # how many rows were set aside
    models: Models  # as they are after the batch
    summary: Summary  # kept up to date by the run
    seconds: float = 0.0  # from the batch's arrival to its commit
    judged: Alarms | None = None  # see `Alarming.judge`, of each of the results
    calibrating: float = 0.0  # rows from which there is a threshold
    causes: Sequence[Explanation | None] = ()  # of the results at which an alarm began

    @property
    def why(self) -> list[str | None]:
        """Why alarms began, in words; see ``causes``."""
        return [cause.why or None if cause else None for cause in self.causes]


class Watcher(Protocol):
    """Someone who looks on: metrics, a page. Its errors end the run, so it should have none.

    It may have a method ``begin(summary)``, called before the first row is read, and a method
    ``wait()``, called when the source has ended.
    """

    def epoch(self, epoch: Epoch) -> None:
        """Take note of a batch; called after its commit."""


@dataclass
class Run:
    """The rows of a source through a model, epoch by epoch: read, learn, write, commit, report."""

    source: Source  # with a key among its columns, each key has its own model
    recipe: Recipe  # makes and restores the models
    sink: Sink  # gets the results of each row that was taken; see `Rows.with_results`
    _: KW_ONLY
    store: SqliteStore | None = None  # keeps states and cursor: the next run goes on from there
    events: Sink | None = None  # gets what happened to tables; see `Models.events`
    dead_letters: DeadLetters | None = None  # takes refused rows; without it the first ends the run
    alarms: Sink | None = None  # gets messages of alarms; see `Alarming`
    alarm_rule: AlarmRule = AlarmRule()  # noqa: RUF009 -- a tuple of constants
    new_rule: Callable[[], AlarmRule] | None = None  # returns the rule from SIGHUP on
    progress: Progress | None = None  # called after each epoch
    watchers: Sequence[Watcher] = ()
    memory_limit: str | int = "1GB"  # for models of keys; those used least recently are stored
    batch_rows: int = 1000  # of a live source, at most
    batch_wait: float = 0.0  # how long the first of them may wait (s); see `gathered`
    idle: float | None = None  # end after so many seconds without a row of a live source
    late: str | None = None  # what becomes of late rows; see `Lateness`
    max_ahead: str | None = None  # and of those far ahead
    overwrite: bool = False  # replace files that hold something no checkpoint recorded
    names: Names | None = None  # of regimes, for events and alarms of jobs that began with them

    def __post_init__(self) -> None:
        source, recipe, store = self.source, self.recipe, self.store
        if store is not None and not source.replayable:
            raise ConfigError(
                f"{source.name} cannot be read a second time, so a checkpoint could not make up "
                "for a crash: write the rows to a file and run on that file with --follow, or "
                "leave the checkpoint out"
            )
        self._outputs = Outputs(self.sink, self.events, self.dead_letters, self.alarms)
        self._outputs.check_distinct(source)
        job = describe(source, recipe, self._outputs)
        self._cursor = cursor = find_cursor(store, job, overwrite=self.overwrite)
        self._summary = Summary(source.name, rows=cursor["rows"], refused=cursor["refused"])
        self._summary.has_epochs = recipe.description.get("class") == "TemporalDPM"
        if cursor["source"] is not None:
            _LOG_RUN.info("resumed at row %s of %s", f"{cursor['rows']:,}", source.name)
        alarms = self.alarms is not None or self.watchers
        self._alarming = Alarming(self.alarm_rule, self.names) if alarms else None
        self._lateness = Lateness(self.late, self.max_ahead, source.columns)
        model = recipe.make()  # options that cannot be used are refused before files are touched
        if source.columns.time is None and getattr(model, "needs_times", False):
            raise ConfigError(
                "the epochs of this model follow from times: name their column with --time, or cut "
                "epochs by count, for instance --epoch '100 rows'"
            )
        self._models = Models(recipe, source.columns.key, store, self.memory_limit)
        self._interrupts = Interrupts(safe=store is not None)
        self._aside = DeadLetters(None)  # of rows from the future: no reason to stop
        self._coming = Patience(waiting=self._wait)
        self._going = Patience(lambda: self._interrupts.waiting, self._wait)
        self._committed = getattr(source, "committed", lambda _: None)
        self._warned = False

    def go(self) -> Summary:
        """Run to the end of the source, or until the run is asked to end."""
        summary = self._summary
        with self._interrupts, self._outputs.closing():
            for watcher in self.watchers:
                getattr(watcher, "begin", lambda _: None)(summary)
            with fitting():
                self._begin()
            try:
                self._go_on()
            except Stopped:
                raise
            except KeyboardInterrupt as asked:
                summary.interrupted = asked.args[0] if asked.args else signal.SIGINT
                if self.store is None:  # else they wait in the checkpoint
                    self._end()
            with self._interrupts.held():
                self._finish()
        summary.tables = self._models.n_tables
        return summary

    def _begin(self) -> None:
        """Stand where the last run ended, and commit that."""
        cursor = self._cursor
        new = cursor["source"] is None
        cursor.setdefault("named", new and self.names is not None)  # columns stay as they were
        self._lateness.restore(cursor.get("late"))
        if self._alarming is not None:
            self._alarming.restore(cursor.get("alarming"), self.store)
        self._schema()  # which must be one
        self._outputs.rewind(cursor, self._coming, overwrite=self.overwrite)
        with self._interrupts.held():
            self._commit(cursor["source"])

    def _go_on(self) -> None:
        """Do epochs until the source ends."""
        at = self._cursor["source"]
        how = self.batch_rows, self.batch_wait, self.idle
        steps = gathered(self.source, at, self._coming, *how)
        with nullcontext() if at is None else fitting():
            first = list(islice(steps, 1))
        for batch, offset in chain(first, steps):
            self._summary.alive = time.monotonic()
            if self._interrupts.reload:
                self._reload()
            quiet = batch is None and offset == at
            overdue = self._alarming is not None and self._alarming.overdue
            if not quiet or self._lateness.overdue or self._outputs.waiting or overdue:
                at = offset
                self._epoch(batch, offset)
        self._end()

    def _end(self) -> None:
        """Learn what was waited with; say where no row could have been an alarm."""
        self._epoch(None, self._cursor["source"], end=True)
        alarming, rows = self._alarming, self._summary.rows
        if self.alarms is not None and alarming is not None and not alarming.known and rows:
            wanted = alarming.alarm.calibrating
            _LOG.warning(
                "no alarm was possible yet: the rate asked for needs about %s rows that are alike, "
                "of %s that came", "100" if math.isinf(wanted) else f"{wanted:,.0f}", f"{rows:,}",
            )  # fmt: skip

    def _finish(self) -> None:
        """Write the labels that are as good as final, and complete the outputs.

        No cursor records these rows: files are cut back before a run goes on, and servers, which
        cannot be, do not get them.
        """
        schema, sink = self._schema(), self._outputs.sink
        if schema is not None and not getattr(sink, "live", False):
            last = self._models.last_labels(schema)
            if len(last):
                sink.write(last)
        self._outputs.finish()
        self._summary.undelivered = self._outputs.undelivered

    def _schema(self) -> Any:
        """Return the columns of the results so far, None where there were none."""
        text = self._cursor.get("schema")
        return None if text is None else pa.ipc.read_schema(pa.py_buffer(b64decode(text)))

    def _reload(self) -> None:
        """Read the rule of alarms again; names and silences are read whenever they change."""
        self._interrupts.reload = False
        try:
            if self.new_rule is not None and self._alarming is not None:
                self._alarming.change(self.new_rule())
        except ConfigError as error:
            _LOG.warning("nothing was reloaded: %s", error)
        else:
            _LOG_RUN.info("reloaded how alarms begin and are told")

    def _wait(self, where: str | None) -> None:
        self._summary.waiting_for, self._summary.alive = where, time.monotonic()
        if self.progress is not None:
            self.progress(self._summary)

    def _epoch(self, batch: Any, offset: Offset | None, *, end: bool = False) -> None:
        """Learn a batch, or what was waited with long enough, and commit."""
        since = time.monotonic()
        with self._interrupts.held():
            refused: dict[int, Refusal] = {}
            if batch is None:
                rows = self._lateness.release(all_of_them=end)
            else:
                rows, refused = numbered(self.source, batch, offset)
                rows, early = self._lateness.admit(rows)
                if early and self._lateness.lenient and self._outputs.dead_letters is None:
                    self._aside.write(early)
                    self._summary.refused += len(early)
                    self._summary.reason = early[max(early)].reason
                else:
                    refused |= early
            epoch = None if rows is None else self._learn(rows, refused, offset)
            told = None
            if self._alarming is not None and (end or self._alarming.overdue):
                told = self._alarming.release()
                self._outputs.write(None, None, told, {})
            if epoch is not None or told is not None or not end:
                self._commit(offset)
        self._summary.undelivered = self._outputs.undelivered
        if self._alarming is not None:
            self._summary.silenced = self._alarming.n_silenced
        if epoch is not None:
            self._summary.tables = self._models.n_tables
            epoch = replace(epoch, seconds=time.monotonic() - since)
            for watcher in self.watchers:
                watcher.epoch(epoch)
            if self.progress is not None:
                self.progress(self._summary)

    def _learn(self, rows: Rows, refused: dict[int, Refusal], offset: Any) -> Epoch:
        summary, outputs = self._summary, self._outputs
        sets_aside = outputs.dead_letters is not None
        if refused and not sets_aside:
            row = min(refused)
            raise _refusal(self.source, row, refused[row].reason)
        try:
            results = (
                self._models.step(rows, refused if sets_aside else None) if len(rows) else None
            )
        except SchemaError as error:
            if error.row is None:
                raise
            raise _refusal(self.source, error.row, str(error), type(error)) from error
        if results is not None and "schema" not in self._cursor:
            self._cursor["schema"] = b64encode(results.schema.serialize()).decode()
        summary.rows, summary.refused = offset["row"], summary.refused + len(refused)
        if refused:
            summary.reason = refused[max(refused)].reason
        self._warn()
        events = None
        if len(rows) and (outputs.events is not None or self.watchers):
            events = self._models.events(rows.batch, self.source.columns)
        alarms = judged = None
        causes: list[Explanation | None] = []
        alarming = self._alarming
        if alarming is not None and results is not None:
            verdicts = None if self.names is None else self.names.verdicts(results)
            known = alarming.known
            judged = alarming.judge(results, verdicts)
            if alarming.known and not known and getattr(self.source, "live", False):
                _LOG_RUN.info("from row %s on there can be alarms", f"{summary.rows:,}")
            causes = self._models.reasons(rows, results, np.flatnonzero(judged.began))
        wanted = 0.0 if alarming is None else alarming.alarm.calibrating
        names = self.names if self._cursor["named"] else None
        events = events if events is None or names is None else names.put_on(events)
        epoch = Epoch(
            rows, results, events, None, len(refused), self._models, summary, 0.0, judged, wanted,
            causes,
        )  # fmt: skip
        if judged is not None and alarming is not None:
            alarms = alarming.tell(results, judged, causes, names)
        outputs.write(results, epoch.events, alarms, refused)
        return replace(epoch, alarms=alarms)

    def _warn(self) -> None:
        """Say once when most rows are refused: that is rarely what is wanted."""
        summary = self._summary
        if not self._warned and summary.rows >= MANY and 2 * summary.refused > summary.rows:
            self._warned = True
            _LOG.warning(
                "%s of %s rows were refused, the last because: %s",
                f"{summary.refused:,}", f"{summary.rows:,}", summary.reason,
            )  # fmt: skip

    def _commit(self, offset: Offset | None) -> None:
        self._cursor["source"] = offset
        if self.store is not None:
            self._cursor |= self._outputs.sync(self._going)
            self._cursor["rows"] = self._summary.rows
            self._cursor |= {"refused": self._summary.refused, "late": self._lateness.state()}
            if self._alarming is not None:
                self._cursor["alarming"] = self._alarming.save(self.store)
            self._models.save(self._cursor)
        elif self._outputs.live:
            self._outputs.sync(self._going)
        self._summary.committed = time.monotonic()
        if offset is not None:
            self._committed(offset)


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


def numbered(source: Source, batch: Any, offset: Any) -> tuple[Rows, dict[int, Refusal]]:
    """Give the rows of a batch their numbers; take out those that no model could use."""
    numbers = np.arange(offset["row"] - batch.num_rows, offset["row"])
    if hasattr(source, "numbers"):  # in the order of their times
        numbers = source.numbers[numbers]
    return usable(batch, numbers, source.columns)


def _refusal(
    source: Source, row: int, reason: str, kind: type[SchemaError] = SchemaError
) -> SchemaError:
    where = source.where(row) if hasattr(source, "where") else f"{source.name}: row {row}"
    ways = "to leave a column out, name the others by --features A,B"
    if issubclass(kind, OrderError):
        ways = (
            "to sort a whole file, give --late sort; rows that are an hour late at most, --late "
            "wait=1h; if the rows are of several series, name the column that tells which by --by"
        )
    message = (
        f"{where}: {reason} (rows are counted from 0, not counting a header; {ways}; to set such "
        "rows aside and go on, give --on-error dead-letter=FILE)"
    )
    return kind(message, row=row)
