"""One model state as one blob.

Layout: an Arrow IPC stream with one row per array (name, dtype, shape, data) and the model id, the
format version and the settings in the schema's metadata; then 8 bytes ``SDDCRP02``; then the
SHA-256 of everything before it. Any Arrow reader can open the blob (it stops at the end of the
stream); `decode_state` first checks the digest, so one changed or missing byte anywhere is refused
before anything is interpreted. The digest detects damage, not tampering: whoever can write a state
can write its digest, too. Where others can write to the store, give a key in the environment,
``STREAMDDCRP_STATE_KEY``: the digest is then an HMAC with that key, the eight bytes are
``SDDCRPK2``, and states without it, or with that of another key, are refused. What follows from the
numbers of a state is checked all the same when it is restored.

Versions: a reader with ``upgrades = {1: f, 2: g}`` is at version 3; a blob of version 1 goes
through ``f`` then ``g``. A version newer than the reader's, or older with no upgrade, is refused.
"""

import hashlib
import hmac
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamddcrp.errors import CheckpointError, ConfigError

Arrays = dict[str, NDArray[Any]]
Meta = dict[str, Any]
Upgrade = Callable[[Arrays, Meta], tuple[Arrays, Meta]]

DTYPES = ("<f8", "<f4", "<i8", "<i4", "<u8", "<u4", "|u1", "|b1")
MAX_BYTES = 1 << 30
MAX_ARRAYS = 4096
MAX_DIMS = 8

KEY = "STREAMDDCRP_STATE_KEY"  # name of the environment variable; at least 16 bytes
_LEAST_KEY = 16
_MAGIC, _KEYED = b"SDDCRP02", b"SDDCRPK2"
_DIGEST = hashlib.sha256().digest_size
_TAIL = len(_MAGIC) + _DIGEST
_COLUMNS = (
    ("name", pa.string()),
    ("dtype", pa.string()),
    ("shape", pa.list_(pa.int64())),
    ("data", pa.binary()),
)


def encode_state(
    model_id: str, version: int, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]
) -> bytes:
    """Encode arrays and settings as one self-checking blob.

    Parameters
    ----------
    model_id : str
        Which kind of model this is the state of; the reader must ask for the same.
    version : int
        Version of the layout of ``arrays`` and ``meta``, counted from 1.
    arrays : mapping of str to ndarray
        Little-endian arrays of float64, float32, (u)int64, (u)int32, uint8 or bool, of any shape.
    meta : mapping of str to JSON value
        Settings, counters, states of random generators: numbers, strings, lists, mappings, None.

    Examples
    --------
    >>> blob = encode_state("toy", 1, {"mean": np.zeros((2, 3))}, {"n": 7})
    >>> arrays, meta = decode_state(blob, "toy")
    >>> arrays["mean"].shape, meta
    ((2, 3), {'n': 7})
    """
    if version < 1:
        message = f"version must be at least 1, got {version}"
        raise CheckpointError(message)
    if len(arrays) > MAX_ARRAYS:
        message = f"a state holds at most {MAX_ARRAYS} arrays, got {len(arrays)}"
        raise CheckpointError(message)
    stored = {name: _storable(name, array) for name, array in arrays.items()}
    try:
        settings = json.dumps(dict(meta), sort_keys=True, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        message = f"meta must hold plain JSON values only: {error}"
        raise CheckpointError(message) from error
    head = {"model": model_id, "version": str(version), "meta": settings}
    cells = (
        list(stored),
        [array.dtype.str for array in stored.values()],
        [array.shape for array in stored.values()],
        [array.tobytes() for array in stored.values()],
    )
    schema = pa.schema(_COLUMNS, head)
    columns = [pa.array(cell, kind) for cell, (_, kind) in zip(cells, _COLUMNS, strict=True)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.record_batch(columns, schema=schema))
    key = state_key()
    sink.write(_MAGIC if key is None else _KEYED)
    body: bytes = sink.getvalue().to_pybytes()
    if len(body) + _DIGEST > MAX_BYTES:
        message = f"the state takes {len(body)} bytes; at most {MAX_BYTES} can be stored"
        raise CheckpointError(message)
    return body + _digest_of(body, key)


def decode_state(
    blob: bytes, model_id: str, upgrades: Mapping[int, Upgrade] = MappingProxyType({})
) -> tuple[Arrays, Meta]:
    """Read what `encode_state` wrote.

    Parameters
    ----------
    blob : bytes
    model_id : str
        The kind of model that is being restored.
    upgrades : mapping of int to callable, optional
        ``upgrades[v]`` turns ``(arrays, meta)`` of version v into those of version v + 1. The
        reader's own version is the highest key plus one, or 1 without upgrades.

    Returns
    -------
    arrays : dict of str to ndarray
        Fresh, writable, C-contiguous arrays.
    meta : dict

    Raises
    ------
    CheckpointError
        If the blob is truncated or altered, of another model, of a newer version, or not a state.
    """
    _check_digest(blob)
    try:
        with pa.ipc.open_stream(pa.py_buffer(blob)) as reader:
            arrays = _read(reader)
            metadata = reader.schema.metadata or {}
        head = {key.decode(): value.decode() for key, value in metadata.items()}
        found, version, meta = head["model"], int(head["version"]), json.loads(head["meta"])
    except (pa.ArrowException, LookupError, ValueError, TypeError, MemoryError, OSError) as error:
        message = f"the bytes are not a state written by this package: {error}"
        raise CheckpointError(message) from error
    if found != model_id:
        message = (
            f"the state is of a {found!r} model, expected {model_id!r}; restore it with that class"
        )
        raise CheckpointError(message)
    current = max(upgrades, default=0) + 1
    if version > current:
        message = (
            f"the state of {model_id!r} has format version {version}, this release reads up to "
            f"{current}; install a newer streamddcrp"
        )
        raise CheckpointError(message)
    for step in range(version, current):
        if step not in upgrades:
            message = (
                f"the state of {model_id!r} has format version {version}, which this release no "
                f"longer reads; open and save it with an older streamddcrp first"
            )
            raise CheckpointError(message)
        arrays, meta = upgrades[step](arrays, meta)
    return arrays, meta


def write_atomic(path: str | os.PathLike[str], blob: bytes) -> None:
    """Put ``blob`` into a file: after a crash it holds the old bytes or the new, never a mix."""
    with replacing(path) as temporary:
        temporary.write_bytes(blob)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give the block a file to write beside ``path``, then put it in the place of ``path``."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        try:
            yield temporary
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
        if os.name == "posix":  # the rename itself must reach the disk
            folder = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except OSError as error:
        message = f"cannot write the checkpoint {target}: {error.strerror or error}"
        raise CheckpointError(message) from error


def read_blob(path: str | os.PathLike[str]) -> bytes:
    """Read back what `write_atomic` wrote; `decode_state` checks it."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        message = f"cannot read the checkpoint {os.fspath(path)}: {error.strerror or error}"
        raise CheckpointError(message) from error


def _storable(name: str, given: NDArray[Any]) -> NDArray[Any]:
    """Return the array little-endian and C-contiguous, or refuse its type."""
    array = np.asarray(given, order="C")
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if array.dtype.str not in DTYPES:
        message = f"array {name!r} has type {given.dtype}; a state holds only {', '.join(DTYPES)}"
        raise CheckpointError(message)
    if array.ndim > MAX_DIMS:
        message = f"array {name!r} has {array.ndim} axes, at most {MAX_DIMS} can be stored"
        raise CheckpointError(message)
    return array


def state_key() -> bytes | None:
    """Return the key of the environment, if there is one."""
    text = os.environ.get(KEY)
    key = None if text is None else text.encode(errors="surrogateescape")
    if key is not None and len(key) < _LEAST_KEY:
        message = f"{KEY} must have at least {_LEAST_KEY} bytes, got {len(key)}"
        raise ConfigError(message)
    return key


def _digest_of(body: bytes | memoryview, key: bytes | None) -> bytes:
    """Return the SHA-256 of what is before it, or with a key the HMAC of that."""
    if key is None:
        return hashlib.sha256(body).digest()
    return hmac.digest(key, body, "sha256")


def _check_digest(blob: bytes) -> None:
    """Refuse a blob that is not byte for byte what was written."""
    if len(blob) > MAX_BYTES:
        message = f"the state takes {len(blob)} bytes; more than {MAX_BYTES} are never written"
        raise CheckpointError(message)
    key, magic = state_key(), bytes(blob[-_TAIL:-_DIGEST])
    if len(blob) > _TAIL and magic == (_KEYED if key is None else _MAGIC):
        message = (
            f"the state was written with a key; set {KEY} to it"
            if key is None
            else f"the state was written without a key, and {KEY} is set; it may be forged. Unset "
            "it to read a state that you trust, and save that again"
        )
        raise CheckpointError(message)
    intact = (
        len(blob) > _TAIL
        and magic == (_MAGIC if key is None else _KEYED)
        and hmac.compare_digest(
            _digest_of(memoryview(blob)[:-_DIGEST], key), bytes(blob[-_DIGEST:])
        )
    )
    if not intact:
        message = (
            f"the state ({len(blob)} bytes) is truncated, altered or not a state at all: its "
            f"{'checksum' if key is None else f'HMAC with the key in {KEY}'} does not match; use "
            "an earlier checkpoint"
        )
        raise CheckpointError(message)


def _read(reader: Any) -> Arrays:
    """Interpret one row per array."""
    _refuse_if(not reader.schema.equals(pa.schema(_COLUMNS)), "the columns are others")
    batch = reader.read_next_batch()
    batch.validate(full=True)
    _refuse_if(batch.num_rows > MAX_ARRAYS, "too many arrays")
    _refuse_if(any(column.null_count for column in batch.columns), "a null")
    names, dtypes, shapes = (batch.column(at).to_pylist() for at in range(3))
    _refuse_if(len(set(names)) != len(names), "two arrays of one name")
    cells = (cell.as_buffer() for cell in batch.column(3))
    return {
        name: _array(name, dtype, shape, cell)
        for name, dtype, shape, cell in zip(names, dtypes, shapes, cells, strict=True)
    }


def _array(name: str, dtype: str, shape: list[int], cell: Any) -> NDArray[Any]:
    """Copy one array out of a blob; type and size are checked before it is made."""
    _refuse_if(dtype not in DTYPES, f"array {name!r} of type {dtype!r}")
    sound = len(shape) <= MAX_DIMS and min(shape, default=0) >= 0
    _refuse_if(not sound, f"array {name!r} of shape {shape}")
    size = math.prod(shape) * np.dtype(dtype).itemsize
    _refuse_if(cell is None or size != cell.size, f"array {name!r} of a wrong size")
    return np.ndarray(shape, dtype, cell).copy()


def _refuse_if(wrong: bool, what: str) -> None:
    if wrong:
        raise ValueError(what)
