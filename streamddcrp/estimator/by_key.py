"""Split batches by key and join them again; keep models by key in memory and in a store."""

import copy
import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamddcrp.checkpoint import SqliteStore
from streamddcrp.data.batches import batch_times, first_null, named_columns
from streamddcrp.errors import ConfigError, SchemaError, StreamDDCRPError
from streamddcrp.estimator.views import with_times
from streamddcrp.typing import FloatArray, IntArray

Key = str | int
OP = "model"
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 2**10, "MI": 2**20, "GI": 2**30}
_OBJECTS = 48_000  # bytes of a model's Python objects besides array data, measured


class Groups:
    """The rows of a batch grouped by key, in order. O(N log N), with no Python per row.

    ``keys`` are in order of first appearance, ``column`` has the key of each row, and ``rows`` the
    rows by key without the key column. Raises SchemaError if there is no column ``by``, or a key is
    missing or is neither text nor a whole number.
    """

    def __init__(self, batch: object, t: object, by: str) -> None:
        table = named_columns(batch)
        if table is None:
            raise SchemaError(
                f"batch: a {type(batch).__name__} has no column {by!r}, the key; pass a table "
                "with named columns"
            )
        if table.column_names.count(by) != 1 or table.num_columns < 2:
            raise SchemaError(
                f"batch: expected one column {by!r}, the key, and others to learn from; the "
                f"columns are {', '.join(map(repr, table.column_names)) or 'none'}"
            )
        self.column = _as_keys(table.column(by), by)
        codes = self.column.dictionary_encode()
        index = codes.indices.to_numpy()
        self.keys: list[Key] = codes.dictionary.to_pylist()
        self._order: IntArray = np.argsort(index, kind="stable")
        self._bounds: IntArray = np.r_[0, np.bincount(index, minlength=len(self.keys)).cumsum()]
        table = table.drop_columns(by)
        if len(self.keys) > 1:
            table = table.take(pa.array(self._order))
        arrays = [column.combine_chunks() for column in table.columns]
        self.rows = pa.record_batch(arrays, schema=table.schema)
        self._given = t
        self._times: FloatArray | None = None
        if t is not None:
            self._times = batch_times(t, len(index))[self._order]

    def __iter__(self) -> Iterator[tuple[Key, Any, FloatArray | None]]:
        """Yield each key with its rows and their times."""
        for i, key in enumerate(self.keys):
            start, stop = self._bounds[i], self._bounds[i + 1]
            times = None if self._times is None else self._times[start:stop]
            yield key, self.rows.slice(start, stop - start), times

    @property
    def no_times(self) -> tuple[FloatArray, ...]:
        """Return no times if the batch came with times, and nothing otherwise."""
        return () if self._times is None else (self._times[:0],)

    def row(self, key: Key, row: int) -> int:
        """Return the number within the batch of a key's row."""
        return int(self._order[self._bounds[self.keys.index(key)] + row])

    def gather(self, parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """Join the keys' results, each behind its key, in the order of the batch's rows."""
        results = pa.concat_batches(parts)
        if len(parts) > 1:
            results = results.take(pa.array(np.argsort(self._order)))
        if "time" in results.schema.names:  # floats, returned in the given form
            results = with_times(results.drop_columns(["time"]), self._given)
        return pa.record_batch(
            [self.column, *results.columns], names=["key", *results.schema.names]
        )


@contextmanager
def naming(key: Key, groups: Groups | None = None) -> Iterator[None]:
    """Name the key, and the row within the batch, in an error of a model."""
    try:
        yield
    except SchemaError as error:
        row = error.row
        if groups is not None and row is not None:
            row = groups.row(key, row)
        text = re.sub(r"^row \d+\b[:,]? *", "", str(error))
        place = f"key {key!r}" if row is None else f"row {row}, key {key!r}"
        raise error.retold(f"{place}: {text}", row) from error
    except StreamDDCRPError as error:
        error.add_note(f"key {key!r}")
        raise


def check_key(key: object) -> Key:
    """Return a key that is text or a whole number; refuse anything else."""
    if isinstance(key, str) and key.isascii():
        return str(key)
    try:
        if isinstance(key, str):
            return key.encode().decode()
        if isinstance(key, int | np.integer) and not isinstance(key, bool):
            return int(np.int64(key))
        problem = "missing" if key is None else f"{key!r} is a {type(key).__name__}"
    except (UnicodeError, OverflowError):
        problem = f"{key!r} cannot be stored"
    raise SchemaError(f"{problem}; a key must be text or a whole number of at most 64 bits")


def _as_keys(column: Any, by: str) -> Any:
    """Return the keys of a batch as one array of strings or of int64."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if column.null_count:
        row = first_null(column)
        raise SchemaError(f"row {row}, column {by!r}: missing; every row needs a key", row=row)
    whole = pa.types.is_integer(kind)
    if not (whole or kind in (pa.string(), pa.large_string(), pa.string_view())):
        raise SchemaError(f"column {by!r} has type {kind}; a key must be text or a whole number")
    try:
        keys = pc.cast(column, kind).cast(pa.int64() if whole else pa.string())
    except pa.ArrowInvalid as error:
        raise SchemaError(f"column {by!r}: {error}") from error
    return keys.combine_chunks()


class Resident(NamedTuple):
    """A model in memory, and its size in bytes."""

    model: Any
    size: int


class Residents:
    """Models by key, copies of ``fresh``: the latest used in bounded memory, others in a store.

    A model that learned is *dirty* until its state is stored. The least recently used models leave
    memory first. The store keeps dirty ones apart from committed states. ``memory`` bounds the
    bytes of all models; the one in use always stays.
    """

    def __init__(self, fresh: Any, store: SqliteStore, memory: int) -> None:
        self._fresh = fresh
        self._store = store
        self._memory = memory
        self._models: OrderedDict[str, Resident] = OrderedDict()  # least recently used first
        self._dirty: set[str] = set()
        self._size = 0
        self._n_tables: dict[str, int] = {}  # of the models in memory, when last counted
        self._uncounted: set[str] = set()  # keys that may have changed since
        self._batch: set[str] = set()  # keys that may have to be undone
        self._copies_size = 0
        self._undo = ExitStack()  # holds the store's transaction once needed
        self._undoable = False

    def names(self) -> list[str]:
        """Return the keys that have learned, sorted."""
        return sorted(self._dirty.union(self._store.keys(OP)))

    @property
    def n_tables(self) -> int:
        """Number of live tables of the models in memory."""
        for key in self._uncounted:
            self._n_tables[key] = getattr(self._models[key].model, "n_tables", 0)
        self._uncounted.clear()
        return sum(self._n_tables.values())

    def find(self, key: str) -> Any | None:
        """Return the model of a key, or None if the key is new."""
        if key in self._models:
            self._models.move_to_end(key)
            return self._models[key].model
        model = self.peek(key)
        if model is not None:
            self._admit(key, model)
            self._shrink()
        return model

    def peek(self, key: str) -> Any | None:
        """Return the model of a key without marking it as used."""
        if key in self._models:
            return self._models[key].model
        blob = self._store.get(OP, key)
        return None if blob is None else type(self._fresh).from_bytes(blob)

    def take(self, key: str) -> Any:
        """Return the model of a key that is to learn; call `learned` when it has."""
        model = self.find(key)
        return copy.deepcopy(self._fresh) if model is None else model

    def learned(self, key: str, model: Any) -> None:
        """Note that the model of a key has changed, and make room for it."""
        self._drop(key)
        self._admit(key, model)
        self._dirty.add(key)
        self._shrink()

    @contextmanager
    def all_or_nothing(self, keys: Sequence[str]) -> Iterator[None]:
        """Undo what all keys have learned within the block if it fails.

        A model undoes its own failure, so a single key needs nothing. With several keys, dirty
        models are copied, or moved to the store if memory is short; clean ones are in the store
        already, and whatever the block moves there is undone.
        """
        if len(keys) < 2:
            yield
            return
        dirty = [key for key in keys if key in self._dirty]
        size = sum(self._models[key].size for key in dirty)
        copies = {}
        if self._size + size <= self._memory:
            copies = {key: copy.deepcopy(self._models[key].model) for key in dirty}
            self._copies_size = size
        else:
            self._put_aside(dirty)
        self._batch = set(keys)
        for key in self._batch.intersection(self._models):
            self._models.move_to_end(key)  # so that all others leave memory before these
        try:
            with self._undo:
                yield
        except BaseException:
            for key in keys:
                self._drop(key)
            for key, model in copies.items():
                self._admit(key, model)
                self._dirty.add(key)
            raise
        finally:
            self._batch, self._copies_size, self._undoable = set(), 0, False

    def commit(self, source: str, offset: Any) -> None:
        """Write all changes, and the source's position, in one transaction."""
        self._store.commit(OP, self._states(sorted(self._dirty)), source, offset)
        self._dirty.clear()

    def states(self) -> Iterator[tuple[str, bytes]]:
        """Yield the sorted keys and their states, storing changed ones first."""
        self._put_aside(sorted(self._dirty))
        return self._store.states(OP)

    def _states(self, keys: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        return ((key, self._models[key].model.to_bytes()) for key in keys)

    def _put_aside(self, keys: Sequence[str]) -> None:
        self._store.put_aside(OP, self._states(keys))
        self._dirty.difference_update(keys)

    def _shrink(self) -> None:
        """Move the least recently used models out until the rest fits; the last one stays."""
        while self._size + self._copies_size > self._memory and len(self._models) > 1:
            key = next(iter(self._models))
            if key in self._dirty:
                if key in self._batch and not self._undoable:  # true of all later ones as well
                    self._undo.enter_context(self._store.undoing())
                    self._undoable = True
                self._put_aside([key])
            self._drop(key)

    def _admit(self, key: str, model: Any) -> None:
        size = getattr(model, "nbytes", None)
        if size is None:
            size = len(model.to_bytes())
        self._models[key] = Resident(model, size + _OBJECTS)
        self._size += size + _OBJECTS
        self._uncounted.add(key)

    def _drop(self, key: str) -> None:
        resident = self._models.pop(key, None)
        if resident is not None:
            self._size -= resident.size
        self._n_tables.pop(key, None)
        self._uncounted.discard(key)
        self._dirty.discard(key)


def bytes_of(memory_limit: str | int) -> int:
    """Return a size in bytes."""
    found = re.fullmatch(r" *(\d+(?:\.\d+)?) *([KMG]I?|)B? *", str(memory_limit).upper())
    size = float(found[1]) * _UNITS[found[2]] if found else 0
    if not size >= 1:
        raise ConfigError(
            "memory_limit must be a number of bytes or a text such as '200 MB', "
            f"got {memory_limit!r}"
        )
    return int(size)
