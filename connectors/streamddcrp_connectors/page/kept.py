"""Store the page's history so that it survives the process.

It lies in the folder of the checkpoint. Without one, the history ends with the run.
"""

from pathlib import Path
from typing import Any

import numpy as np

from streamddcrp.checkpoint import decode_state, encode_state, read_blob, write_atomic
from streamddcrp.errors import CheckpointError
from streamddcrp.plots.segments import Numbers
from streamddcrp_connectors.page.streams import Job, Stream, Streams

HISTORY = "page-history"
_MODEL, _VERSION = "live-page", 1


def save_history(folder: Path, streams: Streams) -> None:
    """Write the page's history atomically."""
    arrays: dict[str, Any] = {}
    metas: list[Any] = []
    for i, (key, stream) in enumerate(streams.of.items()):
        parts = {"pyramid": stream.pyramid.state(), "regimes": stream.regimes.state()}
        pieces = [np.ascontiguousarray(cells) for part in parts.values() for cells in part.values()]
        names = [[part, name] for part, cells in parts.items() for name in cells]
        arrays[f"{i}"] = np.frombuffer(b"".join(piece.tobytes() for piece in pieces), np.uint8)
        metas.append(
            {
                "key": key,
                "parts": [
                    [*name, piece.dtype.str, list(piece.shape)]
                    for name, piece in zip(names, pieces, strict=True)
                ],
                "feed": stream.feed.state(),
                "volumes": None if stream.volumes is None else stream.volumes.state(),
                "became": list(stream.became.items()),
                "gone": list(stream.gone),
                "numbers": stream.numbers.state(),
                "stories": list(stream.stories.values()),
                "texts": stream.texts,
                "row": stream.row,
                "on": stream.on,
                "alarmed": None if np.isinf(stream.alarmed) else stream.alarmed,
                "n_alarms": stream.n_alarms,
            }
        )
    meta = {"job": streams.job._asdict(), "rows": streams.n_rows}
    blob = encode_state(_MODEL, _VERSION, arrays, {**meta, "streams": metas})
    write_atomic(folder / HISTORY, blob)


def load_history(folder: Path) -> Streams | None:
    """Return what `save_history` wrote, or None; CheckpointError if it is damaged."""
    if not (folder / HISTORY).exists():
        return None
    arrays, meta = decode_state(read_blob(folder / HISTORY), _MODEL)
    streams = Streams(Job(**meta["job"]))
    streams.n_rows = meta["rows"]
    for i, kept in enumerate(meta["streams"]):
        _restore(streams.stream(kept["key"]), kept, arrays[f"{i}"].tobytes())
    return streams


def _restore(stream: Stream, kept: dict[str, Any], content: bytes) -> None:
    parts: dict[str, dict[str, Any]] = {"pyramid": {}, "regimes": {}}
    at = 0
    for part, name, kind, shape in kept["parts"]:
        if kind not in ("<f8", "<i8"):
            raise CheckpointError(f"the page's history holds an array of type {kind!r}")
        size = int(np.prod(shape))
        parts[part][name] = np.frombuffer(content, kind, size, at).reshape(shape).copy()
        at += 8 * size
    stream.pyramid.restore(parts["pyramid"])
    stream.regimes.restore(parts["regimes"])
    stream.feed.restore(kept["feed"])
    if stream.volumes is not None and kept["volumes"] is not None:
        stream.volumes.restore(kept["volumes"])
    stream.became = {int(old): int(new) for old, new in kept["became"]}
    stream.gone = dict.fromkeys(kept["gone"])
    stream.numbers = Numbers.restored(kept["numbers"])
    stream.describe(kept["stories"])
    stream.texts = [(t, label, text) for t, label, text in kept["texts"]]
    stream.row, stream.on = kept["row"], kept.get("on", False)
    stream.alarmed = -np.inf if kept["alarmed"] is None else kept["alarmed"]
    stream.n_alarms = kept["n_alarms"]
