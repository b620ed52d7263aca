"""What a run does with one batch after another, and what those who watch it see."""

import logging
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from streamddcrp.checkpoint import SqliteStore
from streamddcrp.errors import ConfigError, OrderError, SchemaError
from streamddcrp.estimator.reasons import Explanation
from streamddcrp.monitor.alarm import Alarms
from streamddcrp_connectors.run.alarming import Alarming, AlarmRule
from streamddcrp_connectors.run.columns import Refusal, refusals
from streamddcrp_connectors.run.deadletters import DeadLetters
from streamddcrp_connectors.run.gather import gathered
from streamddcrp_connectors.run.interrupts import Interrupts
from streamddcrp_connectors.run.job import fitting
from streamddcrp_connectors.run.lateness import Lateness
from streamddcrp_connectors.run.models import Models, Rows, screen
from streamddcrp_connectors.run.names import Names
from streamddcrp_connectors.run.outputs import Outputs
from streamddcrp_connectors.run.retries import Patience
from streamddcrp_connectors.run.sources import Offset, Source

MANY = 100  # rows after which it is worth a warning that most are refused
Progress = Callable[["Summary"], None]
_LOG = logging.getLogger("streamddcrp")


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
    silenced: int = 0  # alarms that were not told
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


class Loop:
    """Epoch by epoch: read, learn, write, commit, report."""

    def __init__(
        self,
        source: Source,
        models: Models,
        outputs: Outputs,
        store: SqliteStore | None,
        watchers: Sequence[Watcher],
        progress: Progress | None,
        summary: Summary,
        interrupts: Interrupts,
        lateness: Lateness,
        alarming: Alarming | None,
        names: Names | None,
        rule: Callable[[], AlarmRule] | None,
    ) -> None:
        self._source, self._models, self._outputs, self._store = source, models, outputs, store
        self._watchers, self._progress, self._summary = watchers, progress, summary
        self._interrupts, self._lateness, self._alarming = interrupts, lateness, alarming
        self._names, self._rule = names, rule
        self._aside = DeadLetters(None)  # of rows from the future: no reason to stop
        self._coming = Patience(waiting=self._wait)
        self._going = Patience(lambda: interrupts.waiting, self._wait)
        self._committed = getattr(source, "committed", lambda _: None)
        self._cursor: dict[str, Any] = {}
        self._warned = False
        for watcher in watchers:
            getattr(watcher, "begin", lambda _: None)(summary)

    def begin(self, cursor: dict[str, Any], *, overwrite: bool) -> None:
        """Stand where the last run ended, and commit that."""
        self._cursor = cursor
        new = cursor["source"] is None
        cursor.setdefault("named", new and self._names is not None)  # columns stay as they were
        self._lateness.restore(cursor.get("late"))
        if self._alarming is not None:
            self._alarming.restore(cursor.get("alarming"), self._store)
        self._schema()  # which must be one
        self._outputs.rewind(cursor, self._coming, overwrite=overwrite)
        with self._interrupts.held():
            self._commit(cursor["source"])

    def go_on(self, *how: Any) -> None:
        """Do epochs until the source ends; see `gathered` for how."""
        at = self._cursor["source"]
        steps = gathered(self._source, at, self._coming, *how)
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
        self.end()

    def end(self) -> None:
        """Learn what was waited with."""
        self._epoch(None, self._cursor["source"], end=True)

    def finish(self) -> None:
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
        """Read again how alarms are told; names and silences are read whenever they change."""
        self._interrupts.reload = False
        try:
            if self._rule is not None and self._alarming is not None:
                self._alarming.change(self._rule())
        except ConfigError as error:
            _LOG.warning("nothing was reloaded: %s", error)
        else:
            logging.getLogger("streamddcrp.run").info("reloaded how alarms begin and are told")

    def _wait(self, where: str | None) -> None:
        self._summary.waiting_for, self._summary.alive = where, time.monotonic()
        if self._progress is not None:
            self._progress(self._summary)

    def _epoch(self, batch: Any, offset: Offset | None, *, end: bool = False) -> None:
        """Learn a batch, or what was waited with long enough, and commit."""
        since = time.monotonic()
        with self._interrupts.held():
            refused: dict[int, Refusal] = {}
            if batch is None:
                rows = self._lateness.release(all_of_them=end)
            else:
                rows, refused = numbered(self._source, batch, offset)
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
            for watcher in self._watchers:
                watcher.epoch(epoch)
            if self._progress is not None:
                self._progress(self._summary)

    def _learn(self, rows: Rows, refused: dict[int, Refusal], offset: Any) -> Epoch:
        summary, outputs = self._summary, self._outputs
        sets_aside = outputs.dead_letters is not None
        if refused and not sets_aside:
            row = min(refused)
            raise _refusal(self._source, row, refused[row].reason)
        try:
            results = (
                self._models.step(rows, refused if sets_aside else None) if len(rows) else None
            )
        except SchemaError as error:
            if error.row is None:
                raise
            raise _refusal(self._source, error.row, str(error), type(error)) from error
        if results is not None and "schema" not in self._cursor:
            self._cursor["schema"] = b64encode(results.schema.serialize()).decode()
        summary.rows, summary.refused = offset["row"], summary.refused + len(refused)
        if refused:
            summary.reason = refused[max(refused)].reason
        self._warn()
        events = None
        if len(rows) and (outputs.events is not None or self._watchers):
            events = self._models.events(rows.batch, self._source.columns)
        alarms = judged = None
        causes: list[Explanation | None] = []
        alarming = self._alarming
        if alarming is not None and results is not None:
            verdicts = None if self._names is None else self._names.verdicts(results)
            judged = alarming.judge(results, verdicts)
            causes = self._models.reasons(rows, results, np.flatnonzero(judged.began))
        wanted = 0.0 if alarming is None else alarming.alarm.calibrating
        epoch = Epoch(
            rows, results, self._named(events), None, len(refused), self._models, summary, 0.0,
            judged, wanted, causes,
        )  # fmt: skip
        if judged is not None and alarming is not None:
            names = self._names if self._cursor["named"] else None
            alarms = alarming.tell(results, judged, epoch.why, names)
        outputs.write(results, epoch.events, alarms, refused)
        return replace(epoch, alarms=alarms)

    def _named(self, batch: Any) -> Any:
        """Add the names that people gave, to events or alarms."""
        if batch is None or self._names is None or not self._cursor["named"]:
            return batch
        return self._names.put_on(batch)

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
        if self._store is not None:
            self._cursor |= self._outputs.sync(self._going)
            self._cursor["rows"] = self._summary.rows
            self._cursor |= {"refused": self._summary.refused, "late": self._lateness.state()}
            if self._alarming is not None:
                self._cursor["alarming"] = self._alarming.save(self._store)
            self._models.save(self._cursor)
        elif self._outputs.live:
            self._outputs.sync(self._going)
        self._summary.committed = time.monotonic()
        if offset is not None:
            self._committed(offset)


def numbered(source: Source, batch: Any, offset: Any) -> tuple[Rows, dict[int, Refusal]]:
    """Give the rows of a batch their numbers; take out those that no model could use."""
    first = offset["row"] - batch.num_rows
    batch, marked = refusals(batch)
    numbers = np.arange(first, offset["row"])
    if hasattr(source, "numbers"):  # in the order of their times
        numbers = source.numbers[numbers]
    rows = Rows(numbers, batch, source.columns)
    places = screen(rows) | marked
    if places:
        rows = rows.take(np.delete(np.arange(len(rows)), sorted(places)))
    return rows, {int(numbers[place]): refusal for place, refusal in places.items()}


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
