"""One model for the whole stream, or one for each key, and the rows each of them takes."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamddcrp.errors import SchemaError
from streamddcrp.typing import IntArray

from .columns import Columns, Refusal, plain

__all__ = ["Model", "Models", "Recipe", "Rows", "screen"]

_PIECE = 256  # rows tried at once after a refusal
_ALL = ""  # key of the one model of a stream without a key


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
    """How a model is made and restored.

    Parameters
    ----------
    make : callable
        Returns a new model.
    restore : callable
        Turns what ``to_bytes`` gave back into the model.
    description : dict
        Class and options as JSON values; a checkpoint of another description is refused.
    """

    make: Callable[[], Model]
    restore: Callable[[bytes], Model]
    description: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a canonical batch with their numbers within the source."""

    numbers: IntArray
    batch: Any
    columns: Columns

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, which: IntArray) -> "Rows":
        """Return some of the rows."""
        return Rows(self.numbers[which], self.batch.take(pa.array(which)), self.columns)

    def slice(self, start: int, stop: int) -> "Rows":
        """Return a stretch of the rows."""
        return Rows(self.numbers[start:stop], self.batch.slice(start, stop - start), self.columns)

    @property
    def features(self) -> Any:
        """The features alone, a record batch."""
        return self.batch.select(list(self.columns.features or ()))

    @property
    def times(self) -> Any:
        """The times as an array of float64 or datetime64, or None."""
        if self.columns.time is None:
            return None
        return self.batch.column(self.columns.time).to_numpy(zero_copy_only=False)

    def values(self, row: int) -> dict[str, Any]:
        """Return what one row holds, as JSON values."""
        return {name: plain(self.batch.column(name)[row]) for name in self.batch.schema.names}

    def with_results(self, results: Any) -> Any:
        """Put the number, the time and the key of each row before the model's results."""
        columns = {"row": pa.array(self.numbers)}
        for label, name in (("time", self.columns.time), ("key", self.columns.key)):
            if name is not None:
                columns[label] = self.batch.column(name)
        columns |= dict(zip(results.schema.names, results.columns, strict=True))
        return pa.record_batch(list(columns.values()), names=list(columns))


def screen(rows: Rows) -> dict[int, Refusal]:
    """Find the rows with a number that is not finite, by their place in the batch."""
    found: dict[int, Refusal] = {}
    names = [*(rows.columns.features or ())]
    if rows.columns.time is not None:
        names.insert(0, rows.columns.time)
    for name in names:
        column = rows.batch.column(name)
        if not pa.types.is_floating(column.type):
            continue
        bad = ~pc.is_finite(column).fill_null(True).to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(bad).tolist():
            if row not in found:
                value = "NaN" if np.isnan(column[row].as_py()) else "infinite"
                advice = "; leave the cell empty (null) if it is missing" if value == "NaN" else ""
                found[row] = Refusal(f"column {name!r} is {value}{advice}", rows.values(row))
    return found


class Models:
    """The models of a run, by key.

    Parameters
    ----------
    recipe : Recipe
    load : callable, optional
        Returns the stored state of a key, or None. Asked once, when a key is first met.
    """

    def __init__(self, recipe: Recipe, load: Callable[[str], bytes | None] | None = None) -> None:
        self._recipe = recipe
        self._load = load
        self._models: dict[str, Model] = {}
        self._changed: set[str] = set()

    @property
    def n_tables(self) -> int:
        """Live tables of all models in memory."""
        return sum(model.n_tables for model in self._models.values())

    def changed(self) -> dict[str, bytes]:
        """Return the states of the models that learned since `settle`."""
        return {key: self._models[key].to_bytes() for key in sorted(self._changed)}

    def settle(self) -> None:
        """Note that the changed states were stored."""
        self._changed.clear()

    def step(self, rows: Rows, refused: dict[int, Refusal] | None) -> Any:
        """Give the rows to their models.

        Parameters
        ----------
        rows : Rows
        refused : dict, optional
            Takes the rows that a model refuses, by number within the source; None: the first one
            ends the step with SchemaError (some keys may then have learned: the step must not be
            stored).

        Returns
        -------
        results : pyarrow.RecordBatch or None
            In the order of the rows; None if no row was taken.
        """
        if rows.columns.key is None:
            return self._step_one(_ALL, rows, refused)
        parts = [self._step_one(key, part, refused) for key, part in _by_key(rows)]
        parts = [part for part in parts if part is not None]
        if not parts:
            return None
        results = pa.concat_batches(parts)
        return results.take(pc.sort_indices(results.column("row")))

    def _step_one(self, key: str, rows: Rows, refused: dict[int, Refusal] | None) -> Any:
        """Give rows to the model of one key."""
        model = self._model(key)
        self._changed.add(key)
        try:
            return rows.with_results(model.step_many(rows.features, rows.times))
        except SchemaError as error:
            if error.row is None or refused is None:
                raise _at(error, rows) from error
        results = _step_apart(model, rows, refused)
        return pa.concat_batches(results) if results else None

    def _model(self, key: str) -> Model:
        model = self._models.get(key)
        if model is None:
            blob = self._load(key) if self._load else None
            model = self._recipe.make() if blob is None else self._recipe.restore(blob)
            self._models[key] = model
        return model


def _step_apart(model: Model, rows: Rows, refused: dict[int, Refusal]) -> list[Any]:
    """Give rows in pieces, leaving out those that are refused; each is judged after all before it.

    A row is dropped only once every row before it was taken or dropped, so the outcome is that of
    giving the rows one at a time; the pieces keep the cost linear in the number of rows.
    """
    results: list[Any] = []
    start, limit = 0, len(rows)
    while start < len(rows):
        piece = rows.slice(start, min(start + _PIECE, limit))
        try:
            results.append(piece.with_results(model.step_many(piece.features, piece.times)))
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
    return type(error)(text, row=number)


def _by_key(rows: Rows) -> list[tuple[str, Rows]]:
    """Split rows by key, keeping their order; keys in the order they appear."""
    codes = rows.batch.column(rows.columns.key).dictionary_encode()
    index = codes.indices.to_numpy()
    order = np.argsort(index, kind="stable")
    ends = np.cumsum(np.bincount(index))
    keys = codes.dictionary.to_pylist()
    return [
        (key, rows.take(order[start:end]))
        for key, start, end in zip(keys, [0, *ends[:-1].tolist()], ends.tolist(), strict=True)
    ]
