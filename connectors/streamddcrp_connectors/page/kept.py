"""Store the page's history so that it survives the process.

It lies in the folder of the checkpoint. Without one, the history ends with the run.
"""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from streamddcrp.checkpoint import decode_state, encode_state, read_blob, write_atomic
from streamddcrp.errors import CheckpointError
from streamddcrp.plots.segments import Numbers
from streamddcrp_connectors.page.streams import Streams

HISTORY = "page-history"
_MODEL, _VERSION, _PART = "live-page", 1, "history"


def save_history(folder: Path, streams: Streams) -> None:
    """Write the page's history atomically."""
    content = {_PART: np.frombuffer(encoded(streams), np.uint8)}
    write_atomic(folder / HISTORY, encode_state(_MODEL, _VERSION, content, {}))


def load_history(folder: Path) -> Streams | None:
    """Return what `save_history` wrote, or None; CheckpointError if it is damaged."""
    if not (folder / HISTORY).exists():
        return None
    arrays, _ = decode_state(read_blob(folder / HISTORY), _MODEL)
    return decoded(arrays[_PART], Streams) if _PART in arrays else None  # of an earlier version


def encoded(content: Any) -> bytes:
    """Encode what a page shows, or a part of it."""
    return msgspec.msgpack.encode(content, enc_hook=_plain)


def decoded(content: Any, kind: Any) -> Any:
    """Read what `encoded` wrote of an object of that kind; raises CheckpointError."""
    try:
        return msgspec.msgpack.decode(content, type=kind, dec_hook=_made)
    except (msgspec.MsgspecError, ValueError, LookupError, TypeError) as error:
        raise CheckpointError(f"the page's history does not fit this release: {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, Numbers):
        return value.state()
    return value.dtype.str, value.shape, value.tobytes()


def _made(kind: Any, value: Any) -> Any:
    if kind is Numbers:
        return Numbers.restored(value)
    dtype, shape, content = value
    if dtype not in ("<f8", "<i8"):
        raise ValueError(f"an array of type {dtype!r}")
    return np.frombuffer(content, dtype).reshape(shape).copy()
