"""Messages from the run to the page's process, and from there to browsers.

A message between the processes is a letter, its length and its content. ``J`` is JSON. ``R`` (rows)
and ``E`` (events) are Arrow streams of one batch. Browsers get text frames of JSON, or binary
frames: the length of a JSON header, the header padded to 8 bytes, then arrays of float64.
"""

import json
import struct
from collections.abc import Mapping
from typing import Any

JSON, ROWS, EVENTS = b"J", b"R", b"E"
HEAD = struct.Struct("<cQ")
LARGEST = 1 << 28  # bytes of a message


def frame(kind: bytes, content: bytes) -> bytes:
    """Return a message to the page's process."""
    return HEAD.pack(kind, len(content)) + content


def arrow(batch: Any, learned: float = 0.0) -> bytes:
    """Write a batch, and when it was learned (seconds since 1970)."""
    from streamddcrp_connectors.run.columns import arrow_stream  # noqa: PLC0415 -- heavy: the page is there before it

    return arrow_stream([batch.replace_schema_metadata({"learned": repr(learned)})])


def batch_of(content: bytes) -> tuple[Any, float]:
    """Read what `arrow` wrote."""
    from streamddcrp_connectors.run.columns import read_stream  # noqa: PLC0415

    batch = read_stream(content)
    return batch, float((batch.schema.metadata or {}).get(b"learned", b"0"))


def packed(header: Mapping[str, Any], columns: Mapping[str, Any]) -> bytes:
    """Return a binary frame that sends columns of numbers to a browser.

    The header also gets the names and lengths of the columns.
    """
    import numpy as np  # noqa: PLC0415

    arrays = {name: np.ascontiguousarray(cells, "<f8") for name, cells in columns.items()}
    lengths = [[name, len(cells)] for name, cells in arrays.items()]
    text = json.dumps({**header, "columns": lengths}).encode()
    text += b" " * (-(len(text) + 4) % 8)
    return b"".join([struct.pack("<I", len(text)), text, *(a.tobytes() for a in arrays.values())])
