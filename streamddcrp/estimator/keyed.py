"""One model per key: many independent streams in one process and in bounded memory."""

import copy
import math
import os
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self
from weakref import finalize

import numpy as np
import pyarrow as pa
from river import base

from streamddcrp.arguments import checked
from streamddcrp.cards import ModelCard
from streamddcrp.checkpoint import SqliteStore
from streamddcrp.checkpoint.codec import decode_state, encode_state, read_blob, replacing
from streamddcrp.contract import Event
from streamddcrp.data.vectorizer import refuse_unless_mapping
from streamddcrp.errors import CheckpointError, ConfigError, SchemaError, UnknownKeyError
from streamddcrp.estimator.as_if_next import AsIfNext
from streamddcrp.estimator.by_key import OP, Groups, Key, Residents, bytes_of, check_key, naming
from streamddcrp.estimator.interrupts import pause
from streamddcrp.estimator.locked import OneAtATime
from streamddcrp.estimator.reasons import Explanation
from streamddcrp.estimator.scikit import Options
from streamddcrp.estimator.standing import ranked
from streamddcrp.estimator.stored import refuse_unless_plain, refusing_misfits
from streamddcrp.estimator.views import index_of, with_index

CURSOR = "run"  # the store's entry for the cursor
_HEADER = "keyed"  # the store's entry for what all models share
_VERSION = 1
Features = Mapping[Any, Any]


class Keyed(Options, OneAtATime, ModelCard, AsIfNext, base.Clusterer):
    """Independent copies of a model, one for each key.

    Each row goes to the model of its key, which is created when the key first appears. Results and
    states equal those of separate models, bit for bit. The least recently used models leave memory
    for a store on disk, and return when their key does.

    Parameters
    ----------
    model : estimator
        Each key gets a clone. It needs ``to_bytes``, ``from_bytes`` and ``nbytes``, its size in
        memory.
    by : str
        Feature or column with the key: text or whole numbers.
    memory_limit : str or int, default "1GB"
        Memory for models, in bytes or as "200 MB", "1.5GiB". The one in use stays even if it is
        larger. A batch, its results and the key names need additional memory.
    store : path-like or SqliteStore, optional
        File that `save` writes to and that a new process continues from. While it is open no other
        process can use it. Without it, models that leave memory go to a temporary file.

    Notes
    -----
    A visit of a key (its rows in one batch) costs one call of the model, plus O(size of the state)
    if the state must be read and written, or copied so that the batch can be undone. Pass many rows
    per key at a time. Models that leave memory between two calls of `save` go to a temporary file
    in $SQLITE_TMPDIR, $TMPDIR or /var/tmp, so a crash leaves the last save untouched.

    Examples
    --------
    >>> from streamddcrp import Keyed, SeqDDCRP
    >>> fleet = Keyed(SeqDDCRP(likelihood=("normal_gamma", 0.0, 0.05, 1.5, 0.5)), by="pump")
    >>> batch = pa.table({"pump": ["a", "b", "a", "b"], "flow": [0.1, 7.9, 8.2, 8.1]})
    >>> out = fleet.step_many(batch)
    >>> out["key"].to_pylist(), out["label"].to_pylist()
    (['a', 'b', 'a', 'b'], [0, 0, 1, 0])
    >>> fleet.predict_one({"pump": "a", "flow": 8.0}), fleet.keys
    (1, ['a', 'b'])
    """

    _has_overview = False  # a summary would read all states
    _undoes = True

    def __init__(
        self,
        model: Any,
        *,
        by: str,
        memory_limit: str | int = "1GB",
        store: str | os.PathLike[str] | SqliteStore | None = None,
    ) -> None:
        self.model = model
        self.by = by
        self.memory_limit = memory_limit
        self.store = store
        if isinstance(model, type) or not {"clone", "step_many"} <= {*dir(model)}:
            raise ConfigError(
                f"model must be a model of this package that learns rows, got {model!r:.60}"
            )
        self._fresh = model.clone()
        self._integer: bool | None = None  # whether keys are numbers; None before the first
        self._unread: set[str] = set()  # keys that may have new events
        size = bytes_of(memory_limit)
        self._store = store if isinstance(store, SqliteStore) else SqliteStore(store)
        if self._store is not store:
            finalize(self, self._store.close)
        self._residents = Residents(self._fresh, self._store, size)
        try:
            self._continue()
        except CheckpointError:
            self.close()
            raise

    # -- learning --------------------------------------------------------------------------------

    def learn_one(self, x: Features, t: Any = None) -> None:
        """Learn one row with the model of its key; ``x`` holds the key among the features.

        Raises
        ------
        SchemaError, OrderError
            The key is missing, or the model refuses the row. Nothing was learned.
        """
        key, rest = self._split(x)
        name = self._name(key)
        model = self._residents.take(name)
        with naming(key):
            model.learn_one(rest, t)
        self._residents.learned(name, model)
        self._note([key], [name])

    def learn_many(self, batch: object, t: object = None) -> None:
        """Learn a batch of rows of any keys, each key's in order.

        Parameters
        ----------
        batch : Arrow table or batch, data frame, dict of columns, or list of dicts; of N rows
        t : array_like of shape (N,), optional

        Raises
        ------
        SchemaError, OrderError
            A key is missing, or the model of a key refuses a row, whose number in the batch is
            ``row``. Nothing was learned for any key.
        """
        self._each_key(Groups(batch, t, self.by), "learn_many")

    def step_many(self, batch: object, t: object = None, *, index: bool = False) -> pa.RecordBatch:
        """Predict each row of a batch, then learn it, as `SeqDDCRP.step_many` does.

        Results are in the order of the rows: ``key``, and the columns of the model's ``step_many``.
        """
        held, groups = index_of(batch, index), Groups(batch, t, self.by)
        parts = self._each_key(groups, "step_many")
        if not parts:  # no rows: the columns of a model's results
            parts = [copy.deepcopy(self._fresh).step_many(groups.rows, *groups.no_times)]
        return with_index(held, groups.gather(parts))

    def _each_key(self, groups: Groups, method: str) -> list[Any]:
        """Call a method of each key's model with its rows, for all keys or for none."""
        results: list[Any] = []
        names = [self._name(key) for key in groups.keys]
        with self._residents.all_or_nothing(names):
            for name, (key, rows, times) in zip(names, groups, strict=True):
                if results:
                    pause()
                model = self._residents.take(name)
                with naming(key, groups):
                    results.append(getattr(model, method)(rows, times))
                self._residents.learned(name, model)
        self._note(groups.keys, names)
        return results

    def _split(self, x: Features) -> tuple[Key, Features]:
        """Return the key of a row and the remaining features."""
        refuse_unless_mapping(x)
        try:
            key = check_key(x.get(self.by))
        except SchemaError as error:
            raise SchemaError(f"column {self.by!r}: {error}") from error
        return key, {name: value for name, value in x.items() if name != self.by}

    def _name(self, key: Key) -> str:
        """Return a key's name in the store; refuse text among numbers, and numbers among text."""
        integer = isinstance(key, int)
        if self._integer not in (None, integer):
            raise SchemaError(
                f"key {key!r}: the keys before were {'whole numbers' if self._integer else 'text'};"
                " give all keys as one or the other"
            )
        return str(key)

    def _note(self, keys: list[Key], names: list[str]) -> None:
        if keys:
            self._integer = isinstance(keys[0], int)
        self._unread.update(names)

    # -- predicting ------------------------------------------------------------------------------

    def predict_one(self, x: Features, t: Any = None) -> int:
        """Return the id of the most probable table among those of the row's key."""
        return int(self._ask("predict_one", x, t))

    def predict_proba_one(self, x: Features, t: Any = None) -> dict[int, float]:
        """Return the probability of each live table of the row's key, under -1 of a new one."""
        return dict(self._ask("predict_proba_one", x, t))

    def score_one(self, x: Features, t: Any = None) -> float:
        """Return -log predictive density (nats) under the model of the row's key."""
        return float(self._ask("score_one", x, t))

    def explain_one(self, x: Features, t: Any = None, **side: Any) -> Explanation:
        """Return what each part of a row adds to its surprise, under the model of its key."""
        why: Explanation = self._ask("explain_one", x, t)
        return why

    def explain_learned(self, x: Features, ago: int) -> Explanation | None:
        """Explain a row of the last batch as `SeqDDCRP.explain_learned` does; ``ago`` is per key.

        Returns None if the model of the row's key has left memory since.
        """
        key, rest = self._split(x)
        found: Explanation | None = self._peek(key).explain_learned(rest, ago)
        return found

    def plot(self, key: Key) -> Any:
        """Draw the last rows of a key by its model's ``plot``; UnknownKeyError without rows."""
        return self._peek(key).plot()

    def _ask(self, method: str, x: Features, t: Any) -> Any:
        """Predict by the model of a row's key, or an untrained one for a new key."""
        key, rest = self._split(x)
        with naming(key):  # a new model is copied, as some grow during a prediction
            return getattr(self._residents.take(self._name(key)), method)(rest, t)

    # -- looking at the models -------------------------------------------------------------------

    @property
    def keys(self) -> list[Key]:
        """Keys that have learned, sorted."""
        return sorted(int(name) if self._integer else name for name in self._residents.names())

    @property
    def n_keys(self) -> int:
        """Number of keys that have learned."""
        return len(self._residents.names())

    @property
    def n_tables(self) -> int:
        """Number of live tables of the models in memory."""
        return self._residents.n_tables

    @property
    def n_seen(self) -> int:
        """Number of rows learned for all keys. Slow, since it reads all states."""
        return sum(self._peek(key).n_seen for key in self.keys)

    @property
    def objective(self) -> float:
        """Sum of the models' objectives: for bounds, one on the evidence of all streams. Slow."""
        return math.fsum(self._peek(key).objective for key in self.keys)

    def model_of(self, key: Key) -> Any:
        """Return a copy of the model of one key; UnknownKeyError if the key has not learned."""
        return copy.deepcopy(self._peek(key))

    def _peek(self, key: Key) -> Any:
        model = self._residents.peek(self._name(check_key(key)))
        if model is None:
            raise UnknownKeyError(f"no row of the key {key!r} was learned")
        return model

    def events(self) -> list[Event]:
        """Return all events since the last call, each with its ``key``, grouped by key.

        Reads the state of each key that has learned since then; after `load`, of all keys.
        """
        found = []
        for name in sorted(self._unread):
            key = int(name) if self._integer else name
            model = self._residents.take(name)
            found += [replace(event, key=key) for event in model.events()]
            self._residents.learned(name, model)  # it stores how far its events were read
            self._unread.remove(name)
        return found

    def summary(self) -> pa.Table:
        """Return one row per live table of each key: ``key``, and the model's own columns.

        A column that some keys lack is null for them. Reads all states.
        """
        kind = pa.int64() if self._integer else pa.string()
        tables = [self._fresh.summary().add_column(0, "key", pa.array([], kind))]
        for key in self.keys:
            table = self._peek(key).summary()
            tables.append(table.add_column(0, "key", pa.repeat(pa.scalar(key, kind), len(table))))
        return pa.concat_tables(tables, promote_options="default")

    def mark(self, key: Key, label: int, name: str = "", verdict: str = "normal") -> None:
        """Name a regime of a key, and mark it as normal, planned or a fault.

        See `SeqDDCRP.mark`; raises UnknownKeyError if the key has not learned.
        """
        self._peek(key)
        model = self._residents.take(self._name(key))
        model.mark(label, name, verdict)
        self._residents.learned(self._name(key), model)

    def standing(self) -> pa.Table:
        """Report which keys differ from their past or share a new regime; reads all states.

        Returns
        -------
        pyarrow.Table
            A row for each key after its warm-up, least usual first. ``key``; ``state``, as in
            `step_many`, with its ``number`` in `summary`, ``name`` and ``verdict``; ``rows``, its
            duration so far, and ``since``, its start; ``share`` of the key's earlier rows in this
            state, 0 if it is new and 1 if it has outlasted all of them; ``longer``, the probability
            of a stay this long, as in `SeqDDCRP.transitions`; ``group``, a number shared by keys
            that entered a new regime within 8 rows of the first, with the same column moving the
            same way; ``why``, its difference from the regime before.
        """
        kind = pa.int64() if self._integer else pa.string()
        if not hasattr(self._fresh, "_standing"):
            raise ConfigError(
                f"standing: a {type(self.model).__name__} has no states; use a SeqDDCRP"
            )
        found = (self._peek(key)._standing(key) for key in self.keys)
        ordered, groups = ranked([one for one in found if one is not None])
        columns: dict[str, Any] = {"key": pa.array([one.key for one in ordered], kind)}
        for name in ("state", "number", "name", "verdict"):
            word = pa.int64() if name in {"state", "number"} else pa.string()
            columns[name] = pa.array([getattr(one, name) for one in ordered], word)
        columns["rows"] = pa.array([one.rows for one in ordered], pa.int64())
        for name in ("since", "share", "longer"):
            values = [getattr(one, name) for one in ordered]
            columns[name] = pa.array(values, pa.float64(), from_pandas=True)  # NaN: null
        columns["group"] = pa.array(groups, pa.int64())
        return pa.table(columns | {"why": pa.array([one.why for one in ordered], pa.string())})

    # -- checkpoints -----------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str] | None = None, *, cursor: Any = None) -> None:
        """Write all states in one transaction; a crash at any moment leaves the last save.

        Parameters
        ----------
        path : path-like, optional
            File to which a full copy is written, for `load`. Without it, changes since the last
            save are written to the ``store``.
        cursor : JSON value, optional
            Position of the source after the last row learned; `cursor` returns it.

        Raises
        ------
        ConfigError
            There is neither a path nor a store.
        CheckpointError
            The file cannot be written.
        """
        header = [("", self._header())]
        if path is None or Path(path).resolve() == self._store.path.resolve():
            if self.store is None:
                raise ConfigError(
                    "save() without a path needs a store: give Keyed(..., store=FILE)"
                )
            self._store.put_aside(_HEADER, header)
            self._residents.commit(CURSOR, cursor)
            return
        with replacing(path) as temporary, SqliteStore(temporary) as saved:
            saved.put_aside(_HEADER, header)
            saved.commit(OP, self._residents.states(), CURSOR, cursor)

    @classmethod
    @checked
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a copy written by `save`, or a store that is not in use.

        Raises CheckpointError if the file is damaged, of another kind or in use.
        """
        if not Path(path).is_file():
            raise CheckpointError(
                f"cannot read the checkpoint {os.fspath(path)}: there is no such file"
            )
        with SqliteStore(path) as saved:
            header = saved.get(_HEADER, "")
            if header is None:
                raise CheckpointError(f"{os.fspath(path)} holds nothing that a Keyed saved")
            arrays, meta = decode_state(header, _HEADER)
            with refusing_misfits():
                model_class: Any = getattr(import_module("streamddcrp"), meta["class"], None)
                if not hasattr(model_class, "from_bytes"):
                    raise CheckpointError(
                        f"its models are of class {meta['class']!r}, unknown to this release"
                    )
                fresh = model_class.from_bytes(arrays["fresh"].tobytes())
                fleet = cls(fresh, by=meta["by"], memory_limit=meta["memory"])
            fleet._store.put_aside(_HEADER, [("", header)])
            fleet._store.commit(OP, saved.states(OP), CURSOR, saved.offset(CURSOR))
        fleet._continue()
        return fleet

    @property
    def cursor(self) -> Any:
        """The cursor given to the last `save` to the store, or to the one that `load` read."""
        return self._store.offset(CURSOR)

    def to_bytes(self) -> bytes:
        """Return the content of the file that `save` writes."""
        with TemporaryDirectory() as folder:
            self.save(Path(folder, "keyed"), cursor=self.cursor)
            return read_blob(Path(folder, "keyed"))

    @classmethod
    @checked
    def from_bytes(cls, blob: bytes) -> Self:
        """Restore what `to_bytes` returned; raises as `load` does."""
        with TemporaryDirectory() as folder:
            Path(folder, "keyed").write_bytes(blob)
            return cls.load(Path(folder, "keyed"))

    def __reduce__(self) -> Any:
        return type(self).from_bytes, (self.to_bytes(),)

    def _header(self) -> bytes:
        """Return the settings that all models share."""
        meta: dict[str, Any] = {"class": type(self.model).__name__, "by": self.by}
        meta |= {"memory": self.memory_limit, "integer": self._integer}
        fresh = np.frombuffer(self._fresh.to_bytes(), np.uint8)
        return encode_state(_HEADER, _VERSION, {"fresh": fresh}, meta)

    def _continue(self) -> None:
        """Continue from the store's content, if any."""
        header = self._store.get(_HEADER, "")
        names = self._store.keys(OP)
        if header is None:
            if names:
                raise CheckpointError(
                    f"{self._store.path} holds states that no Keyed saved; choose another"
                )
            return
        arrays, meta = decode_state(header, _HEADER)
        with refusing_misfits():
            then, now = (meta["class"], meta["by"]), (type(self.model).__name__, self.by)
            stored = arrays["fresh"].tobytes()
            refuse_unless_plain(meta, flags=("integer",), none=("integer",))
            _ = [int(name) for name in names if meta["integer"]]
        if then != now:
            raise CheckpointError(
                f"{self._store.path} was made with {then[0]} by {then[1]!r}, not {now[0]} by "
                f"{now[1]!r}; choose another store"
            )
        if type(self.model).from_bytes(stored).to_bytes() != self._fresh.to_bytes():
            raise CheckpointError(
                f"{self._store.path} was made with other options of {then[0]}; give the same ones, "
                "or choose another store"
            )
        self._integer = meta["integer"]
        self._unread.update(names)

    def close(self) -> None:
        """Release the store; saved data stay."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
