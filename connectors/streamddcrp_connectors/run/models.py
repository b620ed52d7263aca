"""The model of a run, for the whole stream or keyed, and the rows it takes."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import streamddcrp as dd
from streamddcrp import Keyed
from streamddcrp.checkpoint import SqliteStore
from streamddcrp.errors import CheckpointError, SchemaError
from streamddcrp.estimator.keyed import CURSOR
from streamddcrp.estimator.reasons import Explanation
from streamddcrp.typing import IntArray
from streamddcrp_connectors.run.columns import Columns, Refusal, plain, refusals

__all__ = ["CURSOR", "Model", "Models", "Recipe", "Rows", "screen", "usable"]

_PIECE = 256  # rows tried at once after a refusal
_STORY = {  # what events of stories have besides
    "size": pa.int64(), "copies": pa.int64(), "rate": pa.float64(), "first": pa.int64(),
    "last": pa.int64(), "words": pa.string(), "example": pa.string(),
}  # fmt: skip
_DAY = 86_400.0  # seconds
_OP, _ONE = "model", ""  # under which a store keeps the model of a stream without keys


class Model(Protocol):
    """What the runner needs of a model; `streamddcrp.SeqDDCRP` is one."""

    @property
    def n_tables(self) -> int:
        """Number of live tables."""

    def step_many(self, batch: Any, t: Any = None) -> Any:
        """Predict and learn a batch; raise SchemaError(row=...) and change nothing if it is bad."""

    def to_bytes(self) -> bytes:
        """Return the state."""


@dataclass(frozen=True)
class Recipe:
    """How a model is made and restored."""

    make: Callable[[], Model]  # returns a new model
    restore: Callable[[bytes], Model]  # turns what ``to_bytes`` gave back into the model
    description: Mapping[str, Any] = field(default_factory=dict)  # as JSON values


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a canonical batch with their numbers within the source."""

    numbers: IntArray
    batch: Any
    columns: Columns

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, which: IntArray) -> "Rows":
        return Rows(self.numbers[which], self.batch.take(pa.array(which)), self.columns)

    def slice(self, start: int, stop: int) -> "Rows":
        return Rows(self.numbers[start:stop], self.batch.slice(start, stop - start), self.columns)

    @property
    def inputs(self) -> Any:
        """What a model is given beside the times: the key, if there is one, and the features."""
        key = [] if self.columns.key is None else [self.columns.key]
        return self.batch.select([*key, *(self.columns.features or ())])

    @property
    def times(self) -> Any:
        """The times as an array of float64 or datetime64, or None."""
        if self.columns.time is None:
            return None
        return self.batch.column(self.columns.time).to_numpy(zero_copy_only=False)

    def values(self, row: int) -> dict[str, Any]:
        return {name: plain(self.batch.column(name)[row]) for name in self.batch.schema.names}

    def with_results(self, results: Any) -> Any:
        """Put the number, the time and the key (or the file) of each row before the results."""
        columns = {"row": pa.array(self.numbers)}
        for label, name in (("time", self.columns.time), ("key", self.columns.key)):
            if name is not None:
                columns[label] = self.batch.column(name)
        if "file" not in self.columns.names and "file" in self.batch.schema.names:
            columns["file"] = self.batch.column("file")
        found = dict(zip(results.schema.names, results.columns, strict=True))
        found.pop("time", None)  # as it was handed to the model; it stays as it is in the source
        columns |= found
        return pa.record_batch(list(columns.values()), names=list(columns))


def screen(rows: Rows) -> dict[int, Refusal]:
    """Find the rows with an infinite number, or without a time, by their place in the batch."""
    found: dict[int, Refusal] = {}
    time = rows.columns.time
    for name in [*([] if time is None else [time]), *(rows.columns.features or ())]:
        column = rows.batch.column(name)
        if not pa.types.is_floating(column.type):
            continue
        unfit = [(pc.is_inf(column), "is infinite")]
        if name == time:
            unfit.append((pc.is_nan(column), "is NaN; every row needs a time"))
        for bad, why in unfit:
            for row in np.flatnonzero(bad.fill_null(False).to_numpy(zero_copy_only=False)).tolist():
                found.setdefault(row, Refusal(f"column {name!r} {why}", rows.values(row)))
    return found


def usable(batch: Any, numbers: IntArray, columns: Columns) -> tuple[Rows, dict[int, Refusal]]:
    """Return the rows of a canonical batch that models can use, and why others cannot."""
    batch, marked = refusals(batch)
    rows = Rows(numbers, batch, columns)
    places = screen(rows) | marked
    if places:
        rows = rows.take(np.delete(np.arange(len(rows)), sorted(places)))
    return rows, {int(numbers[place]): refusal for place, refusal in places.items()}


class Models:
    """The model of a run: one for all rows, or one for each key.

    The keys are the groups of a model that takes groups. What the last run left is taken up from
    ``store``.
    """

    def __init__(
        self,
        recipe: Recipe,
        key: str | None = None,
        store: SqliteStore | None = None,
        memory_limit: str | int = "1GB",
    ) -> None:
        self._store = store
        self._model: Any
        fresh = self._fresh = recipe.make()
        self._ignores_times = getattr(fresh, "ignores_times", False)
        self._of_stories = getattr(fresh, "tells_stories", False)
        self._grouped = key is not None and getattr(fresh, "takes_groups", False)
        if key is not None and not self._grouped:
            self._model = Keyed(fresh, by=key, memory_limit=memory_limit, store=store)
        else:
            blob = None if store is None else store.get(_OP, _ONE)
            if store is not None and blob is None and store.offset(CURSOR) is not None:
                raise CheckpointError(f"{store.path} has lost the model; restore it from a copy")
            self._model = fresh if blob is None else recipe.restore(blob)

    @property
    def n_tables(self) -> int:
        return int(self._model.n_tables)

    def events(self, batch: Any, columns: Columns) -> Any:
        """Return what happened to tables since the last call, in the types of canonical rows.

        ``index`` (of an arrival among the rows that were taken, of its key), ``time`` (unless the
        model ignores times), ``key``, ``kind``, ``label``, ``into``, ``earliest``, ``latest`` and
        ``why``, as `streamddcrp.Event` has them; of stories, more instead of the last three, see
        `StoryEvent`, rates a day where times are time stamps. By time, if rows have times.
        """
        events = self._model.events()
        if columns.time is not None:
            # those of several keys, by the row at which they were noticed
            events.sort(key=lambda event: event.t if event.noticed is None else event.noticed)
        clock: Any = pa.int64()
        cells: dict[str, Any] = {"index": pa.array([event.index for event in events], pa.int64())}
        if columns.time is not None and not self._ignores_times:
            clock = batch.schema.field(columns.time).type
            cells["time"] = _as_times([event.t for event in events], clock)
        if columns.key is not None:
            kind = batch.schema.field(columns.key).type
            cells["key"] = pa.array([event.key for event in events], kind)
        cells["kind"] = pa.array([event.kind for event in events], pa.string())
        cells["label"] = pa.array([event.label for event in events], pa.int64())
        cells["into"] = pa.array([event.into for event in events], pa.int64())
        if not self._of_stories:
            for end, name in enumerate(("earliest", "latest")):
                t = [None if event.between is None else event.between[end] for event in events]
                cells[name] = _as_times(t, clock)
            cells["why"] = pa.array([event.why or None for event in events], pa.string())
        else:
            for name, kind in _STORY.items():
                cells[name] = pa.array([getattr(event, name) for event in events], kind)
            if "time" in cells and pa.types.is_timestamp(cells["time"].type):
                cells["rate"] = pa.array([_DAY * event.rate for event in events], pa.float64())
        return pa.record_batch(cells)

    def reasons(self, rows: Rows, results: Any, at: IntArray) -> list[Explanation | None]:
        """Explain results of the last step, at some places, by the states before them."""
        explains = hasattr(self._fresh, "explain_learned")
        if not len(at) or not explains:
            return [None] * len(at)
        taken = rows.take(np.flatnonzero(np.isin(rows.numbers, results.column("row"))))
        keys: Any = np.zeros(len(taken))
        if rows.columns.key is not None:
            keys = taken.batch.column(rows.columns.key).to_numpy(zero_copy_only=False)
        inputs = taken.inputs
        return [
            self._model.explain_learned(
                inputs.slice(i, 1).to_pylist()[0], int((keys[i:] == keys[i]).sum())
            )
            for i in at.tolist()
        ]

    def summary(self) -> Any:
        """Return what the model says of its live tables; of keys, reads all states."""
        return self._model.summary()

    def themes(self) -> dict[int, str]:
        """Return the words of themes of more than one story, by id."""
        found = self._model.themes().to_pylist() if hasattr(self._model, "themes") else []
        return {one["id"]: one["words"] for one in found if len(one["stories"]) > 1}

    def counts(self) -> list[float]:
        """Return how probable 0, 1, 2, .. regimes in the last rows are; empty: none is known."""
        regimes = isinstance(self._model, dd.SeqDDCRP)
        found = dd.count_regimes(self._model).tolist() if regimes else []
        return found if len(found) > 1 else []

    def last_labels(self, results: Any) -> Any:
        """Return the labels that are not final yet, where results, of this schema, have final ones.

        Rows in which all is missing but ``final_row``, ``final_label``, and that row's time and
        key.
        """
        found: list[tuple[Any, Any]] = []
        if "final_row" in results.names:
            if isinstance(self._model, Keyed):
                found = [(key, self._model.model_of(key)) for key in self._model.keys]
            else:
                found = [(None, self._model)]
        cells: dict[str, Any] = {"final_row": [], "final_label": [], "time": [], "key": []}
        for key, model in found:
            for i, label, t in zip(*model.open_labels().to_pydict().values(), strict=True):
                for name, cell in zip(cells, (i, label, t, key), strict=True):
                    cells[name].append(cell)
        n = len(cells["key"])
        if "time" in results.names:
            cells["time"] = _as_times(cells["time"], results.field("time").type)
        columns = [
            pa.array(cells[field.name], field.type)
            if field.name in cells
            else pa.nulls(n, field.type)
            for field in results
        ]
        return pa.record_batch(columns, schema=results)

    def save(self, cursor: Any) -> None:
        """Write the states that changed and the cursor to the store, in one transaction."""
        if isinstance(self._model, Keyed):
            self._model.save(cursor=cursor)
        elif self._store is not None:
            self._store.commit(_OP, {_ONE: self._model.to_bytes()}, CURSOR, cursor)

    def step(self, rows: Rows, refused: dict[int, Refusal] | None) -> Any:
        """Give the rows to the model; return the results in their order, None if no row was taken.

        ``refused`` takes the rows that the model refuses, by number within the source; None: the
        first one ends the step with SchemaError, and nothing is learned.
        """
        try:
            return self._stepped(rows)
        except SchemaError as error:
            if error.row is None or refused is None:
                raise _at(error, rows) from error
        results = _step_apart(self._stepped, rows, refused)
        return pa.concat_batches(results) if results else None

    def _stepped(self, rows: Rows) -> Any:
        if not self._grouped:
            return rows.with_results(self._model.step_many(rows.inputs, rows.times))
        key = rows.columns.key
        group = rows.batch.column(key).to_pylist()
        inputs = rows.inputs.drop_columns([key])
        return rows.with_results(self._model.step_many(inputs, rows.times, group=group))


def _as_times(t: Sequence[float | None], kind: Any) -> Any:
    """Return seconds as time stamps, to the microsecond, where the times of rows are such."""
    if not pa.types.is_timestamp(kind):
        return pa.array(t, pa.float64()).cast(kind)
    stamps = np.rint(1e6 * np.array(t, np.float64)).astype("datetime64[us]")
    return pa.array(stamps).cast(pa.timestamp("us", kind.tz)).cast(kind)


def _step_apart(step: Callable[[Rows], Any], rows: Rows, refused: dict[int, Refusal]) -> list[Any]:
    """Give rows in pieces, leaving out those that are refused; each is judged after all before it.

    A row is dropped only once every row before it was taken or dropped, so the outcome is that of
    giving the rows one at a time; the pieces keep the cost linear in the number of rows.
    """
    results: list[Any] = []
    start, limit = 0, len(rows)
    while start < len(rows):
        piece = rows.slice(start, min(start + _PIECE, limit))
        try:
            results.append(step(piece))
        except SchemaError as error:
            if error.row is None:
                raise
            if error.row == 0:
                reason = str(_at(error, piece))
                refused[int(piece.numbers[0])] = Refusal(reason, piece.values(0))
                start, limit = start + 1, len(rows)
            else:
                limit = start + error.row
        else:
            start, limit = start + len(piece), len(rows)
    return results


def _at(error: SchemaError, rows: Rows) -> SchemaError:
    """Rewrite an error about a row of a batch as one about a row of the source."""
    if error.row is None:
        return error
    number = int(rows.numbers[error.row])
    text = re.sub(rf"\brow {error.row}\b[:,]?\s*", "", str(error), count=1)
    return error.retold(text, number)
