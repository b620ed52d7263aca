"""One visit of a key: from its state and new rows to its new state and results.

A state is a blob: the model's ``to_bytes`` and the number of the last row. A visit depends on the
blob and the rows alone, so a repetition gives the same bytes. Rows travel *packed*: for each key
one Arrow stream of canonical rows (see `streamddcrp_connectors.run.columns`) with their numbers.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamddcrp.checkpoint.codec import decode_state, encode_state
from streamddcrp.errors import CheckpointError, SchemaError
from streamddcrp.estimator.stored import refuse_unless_plain
from streamddcrp.records import refuse_if
from streamddcrp_connectors.run.columns import Columns, Refusal, arrow_stream, read_stream, refusals
from streamddcrp_connectors.run.joining import joined
from streamddcrp_connectors.run.models import Models, Recipe, Rows, screen

NUMBER = "__number__"  # column of packed rows that orders a key's rows
KEY, OUTPUT = "key", "output"  # columns of the outputs
_STATE, _VERSION = "keyed-state", 1
Number = int | float


def pack(batch: Any, numbers: Any, key: str) -> Any:
    """Group rows by key: O(N log N).

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        Canonical rows.
    numbers : pyarrow.Array
        Of int64 or float64, ascending with the rows of a key, null if missing.

    Returns
    -------
    pyarrow.RecordBatch
        ``key`` (null for rows without one) and ``rows``, one Arrow stream for each key.
    """
    codes = batch.column(key).dictionary_encode(null_encoding="encode")
    index = codes.indices.to_numpy()
    bounds = np.r_[0, np.bincount(index, minlength=len(codes.dictionary)).cumsum()]
    rest = batch.append_column(NUMBER, numbers).drop_columns([key])
    rest = rest.take(pa.array(np.argsort(index, kind="stable")))
    cells = [arrow_stream([rest.slice(start, stop - start)]) for start, stop in pairwise(bounds)]
    return pa.record_batch(
        [codes.dictionary.cast(pa.string()), pa.array(cells, pa.binary())], names=["key", "rows"]
    )


@dataclass(frozen=True, slots=True)
class State:
    """The stored state of a key."""

    model: bytes | None = None  # None before it has learned
    last: Number | None = None  # largest number of its rows
    seen: int | None = None  # when its last rows came (ms, Spark's clock), if idle keys expire
    timer: int | None = None  # when its timer fires

    def to_bytes(self) -> bytes:
        plain = {} if self.model is None else {"model": np.frombuffer(self.model, np.uint8)}
        meta = {"last": self.last, "seen": self.seen, "timer": self.timer}
        return encode_state(_STATE, _VERSION, plain, meta)

    @classmethod
    def from_bytes(cls, blob: bytes) -> "State":
        """Restore from `to_bytes`."""
        arrays, meta = decode_state(blob, _STATE)
        try:
            known = ("last", "seen", "timer")
            refuse_unless_plain(meta, numbers=known, none=known)
            stored = arrays.get("model")
            refuse_if(stored is not None and stored.dtype != np.uint8, "model")
        except (LookupError, ValueError, TypeError) as error:
            message = f"the state of a key does not fit this release: {error}"
            raise CheckpointError(message) from error
        model = None if stored is None else stored.tobytes()
        return cls(model, meta["last"], meta["seen"], meta["timer"])


@dataclass(frozen=True)
class Job:
    """Settings shared by the visits of all keys."""

    restore: Callable[[bytes], Any]  # makes a model from the bytes of its state
    fresh: bytes  # state of an untrained model
    columns: Columns  # of packed rows: the time and the features
    limit: int  # most bytes of a state
    numbered: bool  # numbers are the user's and appear as ``row``; else they are the times

    def visit(self, state: State, packed: Sequence[bytes]) -> tuple[State, dict[str, Any]]:
        """Learn new rows of a key, cells of `pack`, in the order of their numbers.

        The outputs are those of ``"result"``, ``"event"`` and ``"refused"`` that occur. Late and
        repeated rows are refused, so a row delivered twice does no harm.
        """
        rows = joined([read_stream(cell) for cell in packed])
        rows = rows.take(pc.sort_indices(rows.column(NUMBER)))
        batch, refused = refusals(rows)
        numbers = batch.column(NUMBER)
        given = Rows(np.arange(len(batch)), batch.drop_columns([NUMBER]), self.columns)
        refused = screen(given) | refused
        last = self._refuse_late(given, numbers, state.last, refused)
        taken = given.take(np.delete(np.arange(len(batch)), sorted(refused)))
        learned, size, results, events = state.model, 0, None, None
        if len(taken):
            model = self.restore(state.model or self.fresh)
            results, events = self._learn(model, taken, refused)
            if results is not None:
                blob: bytes = model.to_bytes()
                learned, size = blob, len(blob)
        if size > self.limit:
            reason = (
                f"the state of this key would take {size:,} bytes, more than the limit of "
                f"{self.limit:,}: nothing was learned. Give the model a smaller window or fewer "
                "tables, or raise state_limit"
            )
            refused |= {int(n): Refusal(reason, given.values(int(n))) for n in taken.numbers}
            learned, results, events = state.model, None, None
        outputs = {}
        if results is not None:
            outputs["result"] = self._numbered(results, numbers)
        if events:
            outputs["event"] = events
        if refused:
            outputs["refused"] = self._dead_letters(refused, numbers)
        return State(learned, last, state.seen, state.timer), outputs

    def schemas(self, empty: Any) -> dict[str, Any]:
        """Return the schemas of the outputs, given a canonical batch ``empty`` without rows."""
        model = self.restore(self.fresh)
        given = Rows(np.arange(0), empty, self.columns)
        models = _models(model)
        number = pa.array([], pa.int64() if self.numbered else pa.float64())
        found = {
            "result": self._numbered(models.step(given, None), number),
            "event": models.events(given.batch, self.columns),
            "refused": self._dead_letters({}, number),
        }
        return {name: output.schema for name, output in found.items()}

    def _refuse_late(
        self, rows: Rows, numbers: Any, last: Number | None, refused: dict[int, Refusal]
    ) -> Number | None:
        """Refuse rows that do not exceed all earlier ones; return the new last number."""
        for row, number in enumerate(numbers.to_pylist()):
            if row in refused:
                continue
            if number is None:
                reason = "it has no number; each row needs one"
            elif last is not None and number <= last:
                reason = (
                    f"its number {number} is not above {last}, the last one of this key: it came "
                    "late, or a second time"
                )
            else:
                last = number
                continue
            refused[row] = Refusal(reason, rows.values(row))
        return last

    def _learn(self, model: Any, rows: Rows, refused: dict[int, Refusal]) -> tuple[Any, Any]:
        """Return the results and events of rows; None if nothing was learned."""
        models = _models(model)
        more: dict[int, Refusal] = {}
        try:
            results = models.step(rows, more)
        except SchemaError as error:  # not about one row; other keys continue
            more = {int(n): Refusal(str(error), rows.values(i)) for i, n in enumerate(rows.numbers)}
            results = None
        refused |= more
        return results, None if results is None else models.events(rows.batch, self.columns)

    def _numbered(self, results: Any, numbers: Any) -> Any:
        """Replace row positions by their numbers, or drop them."""
        if not self.numbered:
            return results.drop_columns(["row"])
        return results.set_column(0, "row", numbers.take(results.column("row")))

    def _dead_letters(self, refused: dict[int, Refusal], numbers: Any) -> Any:
        """Return the refused rows: number, reason and values as JSON text."""
        places = sorted(refused)
        columns = {"row": numbers.take(pa.array(places, pa.int64()))} if self.numbered else {}
        columns["reason"] = pa.array([refused[row].reason for row in places], pa.string())
        columns["values"] = pa.array(
            [json.dumps(refused[row].values) for row in places], pa.string()
        )
        return pa.record_batch(columns)


def _models(model: Any) -> Models:
    """Return the input path of one model, as in a run."""
    return Models(Recipe(lambda: model, type(model).from_bytes))
