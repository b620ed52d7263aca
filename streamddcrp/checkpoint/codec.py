"""One model state as one blob.

Layout: a 4-byte length and a JSON header of that length, with the model's id, the format version,
the settings, and name, type and shape of each array; the arrays' bytes, each padded to 8 bytes,
packed by Zstandard; 8 bytes ``SDDCRP03``; and the SHA-256 of everything before it. `decode_state`
first checks the digest, so a changed or missing byte is refused before anything is interpreted. It
then checks that the arrays take at most 256 times the packed bytes, and unpacks last. The digest
detects damage, not tampering: whoever can write a state can also write its digest. If others can
write to the store, set a key in the environment variable ``STREAMDDCRP_STATE_KEY``: the digest is
then an HMAC with that key, the eight bytes are ``SDDCRPK3``, and states without it, or with another
key, are refused. Consistency of a state's numbers is checked in any case when it is restored.

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
from functools import lru_cache
from itertools import accumulate
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
_ITEM = {name: np.dtype(name).itemsize for name in DTYPES}
MAX_BYTES = 1 << 30  # of a blob, and of its unpacked arrays
MAX_ARRAYS = 4096
MAX_DIMS = 8

KEY = "STREAMDDCRP_STATE_KEY"  # name of the environment variable; at least 16 bytes
_LEAST_KEY = 16
_MAGIC, _KEYED = b"SDDCRP03", b"SDDCRPK3"
_DIGEST = hashlib.sha256().digest_size
_TAIL = len(_MAGIC) + _DIGEST
_LENGTH = 4  # bytes of the header's length
_ALIGNED = 8
_RATIO = 256  # most arrays' bytes per packed byte; smaller ones are stored unpacked
_CODEC = pa.Codec("zstd", compression_level=-1)  # a state of 300 kB in 0.15 ms


def encode_state(
    model_id: str, version: int, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]
) -> bytes:
    """Encode arrays, of the types in `DTYPES`, and JSON values ``meta`` as one self-checking blob.

    The reader must ask for the same kind of model, ``model_id``. ``version``, counted from 1, is
    that of the layout of ``arrays`` and ``meta``.

    >>> blob = encode_state("toy", 1, {"mean": np.zeros((2, 3))}, {"n": 7})
    >>> arrays, meta = decode_state(blob, "toy")
    >>> arrays["mean"].shape, meta
    ((2, 3), {'n': 7})
    """
    if version < 1:
        raise CheckpointError(f"version must be at least 1, got {version}")
    if len(arrays) > MAX_ARRAYS:
        raise CheckpointError(f"a state holds at most {MAX_ARRAYS} arrays, got {len(arrays)}")
    stored = {name: _storable(name, array) for name, array in arrays.items()}
    whole = b"".join(
        part for array in stored.values() for part in (array.data, bytes(-array.nbytes % _ALIGNED))
    )
    packed = _CODEC.compress(whole, asbytes=True)
    if len(packed) >= len(whole) or len(packed) * _RATIO < len(whole):
        packed = whole
    head = {
        "model": model_id, "version": version, "meta": dict(meta),
        "arrays": [(name, array.dtype.str, array.shape) for name, array in stored.items()],
    }  # fmt: skip
    try:
        text = json.dumps(head, sort_keys=True, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"meta must hold plain JSON values only: {error}") from error
    key = state_key()
    body = b"".join(
        (len(text).to_bytes(_LENGTH, "little"), text, packed, _MAGIC if key is None else _KEYED)
    )
    if max(len(body) + _DIGEST, len(whole)) > MAX_BYTES:
        raise CheckpointError(
            f"the state takes {len(whole)} bytes; at most {MAX_BYTES} can be stored"
        )
    return body + _digest_of(body, key)


def decode_state(
    blob: bytes, model_id: str, upgrades: Mapping[int, Upgrade] = MappingProxyType({})
) -> tuple[Arrays, Meta]:
    """Read what `encode_state` wrote; return new, writable, contiguous arrays, and ``meta``.

    ``upgrades[v]`` turns ``(arrays, meta)`` of version v into those of version v + 1. The reader's
    own version is the highest key plus one, or 1 without upgrades. CheckpointError if the blob is
    truncated or altered, of another model, of a newer version, or not a state.
    """
    _check_digest(blob)
    try:
        found, version, meta, arrays = _read(memoryview(blob)[:-_TAIL])
    except (pa.ArrowException, LookupError, ValueError, TypeError, MemoryError, OSError,
            RecursionError) as error:  # fmt: skip
        raise CheckpointError(
            f"the bytes are not a state written by this package: {error}"
        ) from error
    if found != model_id:
        raise CheckpointError(
            f"the state is of a {found!r} model, expected {model_id!r}; restore it with that class"
        )
    current = max(upgrades, default=0) + 1
    if version > current:
        raise CheckpointError(
            f"the state of {model_id!r} has format version {version}, this release reads up to "
            f"{current}; install a newer streamddcrp"
        )
    for step in range(version, current):
        if step not in upgrades:
            raise CheckpointError(
                f"the state of {model_id!r} has format version {version}, which this release no "
                f"longer reads; open and save it with an older streamddcrp first"
            )
        arrays, meta = upgrades[step](arrays, meta)
    return arrays, meta


def write_atomic(path: str | os.PathLike[str], blob: bytes) -> None:
    """Write ``blob`` to a file; after a crash it holds the old bytes or the new, never a mix."""
    with replacing(path) as temporary:
        temporary.write_bytes(blob)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give the block a temporary file beside ``path``, then rename it to ``path``."""
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
        sync_folder(target.parent)
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"cannot write the checkpoint {target}: {getattr(error, 'strerror', 0) or error}"
        ) from error


def sync_folder(folder: Path) -> None:
    """Force new names onto the disk: a recorded file must not lose its own."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def read_blob(path: str | os.PathLike[str]) -> bytes:
    """Read a file written by `write_atomic`; `decode_state` checks it."""
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:  # a path with a NUL is a ValueError
        raise CheckpointError(
            f"cannot read the checkpoint {path!s}: {getattr(error, 'strerror', 0) or error}"
        ) from error


def _storable(name: str, given: NDArray[Any]) -> NDArray[Any]:
    """Return the array as contiguous and little-endian, or refuse its type."""
    array = np.asarray(given, order="C")
    if array.dtype.str not in DTYPES:
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if array.dtype.str not in DTYPES:
        raise CheckpointError(
            f"array {name!r} has type {given.dtype}; a state holds only {', '.join(DTYPES)}"
        )
    if array.ndim > MAX_DIMS:
        raise CheckpointError(
            f"array {name!r} has {array.ndim} axes, at most {MAX_DIMS} can be stored"
        )
    return array


def _places(sizes: list[int]) -> list[int]:
    """Return the beginnings of the arrays, and the end of the last one."""
    return list(accumulate([-(-size // _ALIGNED) * _ALIGNED for size in sizes], initial=0))


def state_key() -> bytes | None:
    """Return the key of the environment, if any."""
    text = os.environ.get(KEY)
    key = None if text is None else text.encode(errors="surrogateescape")
    if key is not None and len(key) < _LEAST_KEY:
        raise ConfigError(f"{KEY} must have at least {_LEAST_KEY} bytes, got {len(key)}")
    return key


def _digest_of(body: bytes | memoryview, key: bytes | None) -> bytes:
    """Return the SHA-256 of the content or, with a key, its HMAC."""
    if key is None:
        return hashlib.sha256(body).digest()
    return hmac.digest(key, body, "sha256")


def _check_digest(blob: bytes) -> None:
    """Refuse a blob that differs from what was written."""
    if len(blob) > MAX_BYTES:
        raise CheckpointError(
            f"the state takes {len(blob)} bytes; more than {MAX_BYTES} are never written"
        )
    key, magic = state_key(), bytes(blob[-_TAIL:-_DIGEST])
    if len(blob) > _TAIL and magic == (_KEYED if key is None else _MAGIC):
        raise CheckpointError(
            f"the state was written with a key; set {KEY} to it"
            if key is None
            else f"the state was written without a key, and {KEY} is set; it may be forged. Unset "
            "it to read a state that you trust, and save that again"
        )
    intact = (
        len(blob) > _TAIL
        and magic == (_MAGIC if key is None else _KEYED)
        and hmac.compare_digest(
            _digest_of(memoryview(blob)[:-_DIGEST], key), bytes(blob[-_DIGEST:])
        )
    )
    if not intact:
        raise CheckpointError(
            f"the state ({len(blob)} bytes) is truncated, altered or not a state at all: its "
            f"{'checksum' if key is None else f'HMAC with the key in {KEY}'} does not match; use "
            "an earlier checkpoint"
        )


def _read(body: memoryview) -> tuple[str, int, Meta, Arrays]:
    """Interpret everything before the eight bytes and the digest."""
    begin = _LENGTH + int.from_bytes(body[:_LENGTH], "little")
    _refuse_if(begin > len(body), "the head is cut short")
    head = json.loads(bytes(body[_LENGTH:begin]))
    names, packed = [name for name, _, _ in head["arrays"]], body[begin:]
    _refuse_if(len(names) > MAX_ARRAYS, "too many arrays")
    _refuse_if(len(set(names)) != len(names), "two arrays of one name")
    places = _places([_n_bytes(name, dtype, *shape) for name, dtype, shape in head["arrays"]])
    _refuse_if(places[-1] > min(_RATIO * len(packed), MAX_BYTES), "arrays of a wrong size")
    stored = len(packed) == places[-1]
    whole: Any = bytearray(packed) if stored else _CODEC.decompress(packed, places[-1])
    arrays: Arrays = {
        name: np.ndarray(shape, dtype, whole, place)
        for (name, dtype, shape), place in zip(head["arrays"], places, strict=False)
    }
    _refuse_if(type(head["version"]) is not int, "a version that is no whole number")
    return head["model"], head["version"], head["meta"], arrays


@lru_cache(1024, typed=True)
def _n_bytes(name: str, dtype: str, *shape: int) -> int:
    """Return the size of an array, after checking type and shape."""
    _refuse_if(type(name) is not str or dtype not in DTYPES, f"array {name!r} of type {dtype!r}")
    sound = len(shape) <= MAX_DIMS and all(type(n) is int and 0 <= n < MAX_BYTES for n in shape)
    _refuse_if(not sound, f"array {name!r} of shape {shape}")
    return math.prod(shape) * _ITEM[dtype]


def _refuse_if(wrong: bool, what: str) -> None:
    if wrong:
        raise ValueError(what)
