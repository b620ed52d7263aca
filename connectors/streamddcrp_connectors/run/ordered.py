"""Sort the rows of a whole file by their times."""

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from streamddcrp.errors import ConfigError, SchemaError, StreamDDCRPError
from streamddcrp_connectors.run.columns import arrow_stream
from streamddcrp_connectors.run.joining import joined
from streamddcrp_connectors.run.sources import Offset, Source

_PIECE_ROWS = 50_000
_FIRST_ROWS = 250_000  # in which a whole file shows its order; 0.6 CPU s for three columns
_DAY = 86_400_000_000_000  # nanoseconds


class _Piece(NamedTuple):
    ticks: Any
    lost: Any
    at: int  # byte of the file
    end: Any  # place in the source


def first_earlier(source: Source) -> int | None:
    """Return the number of the first row whose time is before that of a row above it, of one key.

    None: there is none among the first rows. Rows without a time and times to come do not count.
    """
    if not _has_order(source):
        return None
    n_rows, newest = 0, dict[Any, Any]()  # the last time of each key
    with suppress(StreamDDCRPError):  # what cannot be read is refused when the rows are learned
        for batch, _ in source.read_after(None):
            ticks, lost = _ticks(batch.column(source.columns.time))
            to_come = (time.time_ns() + _DAY) if ticks.dtype.kind == "i" else np.inf
            key = source.columns.key
            keys = [None] * len(ticks) if key is None else batch.column(key).to_pylist()
            known = zip(keys, ticks.tolist(), (~lost & (ticks < to_come)).tolist(), strict=True)
            for place, (one, tick, there) in enumerate(known):
                if there:
                    if tick < newest.get(one, tick):
                        return n_rows + place
                    newest[one] = tick
            n_rows += len(ticks)
            if n_rows >= _FIRST_ROWS:
                break
    return None


def _has_order(source: Source) -> bool:
    """Whether a source has a time, and an end after which it can be read again."""
    ends = source.replayable and not getattr(source, "live", False)
    return ends and source.columns.time is not None


def _ticks(times: Any) -> tuple[Any, Any]:
    """Return times as nanoseconds or numbers, and which are null."""
    ticks = times.cast(pa.int64()) if pa.types.is_timestamp(times.type) else times
    both = ticks.fill_null(0), times.is_null()
    return both[0].to_numpy(zero_copy_only=False), both[1].to_numpy(zero_copy_only=False)


def _by_time(pieces: Sequence[_Piece]) -> Any:
    """Return the numbers of all rows in the order of their times; without one they come last.

    Where the newest row is the first, so it is among rows of one time.
    """
    ticks, lost = (np.concatenate([piece[i] for piece in pieces]) for i in (0, 1))
    known = np.flatnonzero(~lost)
    newest_first = len(known) > 0 and ticks[known[0]] > ticks[known[-1]]
    ticks[lost] = np.iinfo(np.int64).max if ticks.dtype.kind == "i" else np.inf
    order = np.argsort(ticks[::-1] if newest_first else ticks, kind="stable")
    return len(ticks) - 1 - order if newest_first else order


class OrderedSource:
    """Reads all rows of a source, which has a time and an end, then yields them by time.

    They keep their numbers. The offset is ``{"row", "of"}``: how many rows were yielded, and the
    place at which the source ended.
    The rows wait in a file; in memory are 40 bytes of each, and a batch.
    """

    replayable = True

    def __init__(self, source: Source, batch_rows: int, earlier: int | None = None) -> None:
        if not _has_order(source):
            source.close()
            message = "--late sort needs a file that is whole, and a time: name it with --time"
            raise ConfigError(message)
        self._source, self._batch_rows = source, batch_rows
        self.name, self.columns, self.n_rows = source.name, source.columns, source.n_rows
        said = f"all rows are read, then sorted by {source.columns.time}; they keep their numbers"
        said += "" if earlier is None else f" (row {earlier:,} is before the one above it)"
        self.understood = [*getattr(source, "understood", []), said]
        self.numbers: Any = np.empty(0, np.int64)

    def identity(self) -> dict[str, Any]:
        return self._source.identity() | {"sorted": True}

    def read_after(self, offset: Offset | None) -> Iterator[tuple[Any, Offset]]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows"
            with path.open("wb") as file:
                pieces = list(self._stored(file))
            if not pieces:
                return
            end = pieces[-1].end
            if offset is not None and offset["of"] != end:
                message = f"{self.name} has changed since its rows were sorted: was it replaced?"
                raise SchemaError(message)
            starts = np.cumsum([0, *(len(piece.ticks) for piece in pieces)])
            places = [piece.at for piece in pieces]
            self.numbers = _by_time(pieces)
            del pieces
            with pa.memory_map(str(path)) as mapped:
                stored = mapped.read_buffer()
                for begin in range(offset["row"] if offset else 0, starts[-1], self._batch_rows):
                    chosen = self.numbers[begin : begin + self._batch_rows]
                    at = np.searchsorted(starts, chosen, "right") - 1
                    parts = []
                    for number in np.unique(at):
                        piece = pa.ipc.open_stream(stored.slice(places[number])).read_next_batch()
                        parts.append(piece.take(pa.array(chosen[at == number] - starts[number])))
                    back = np.argsort(np.argsort(at, kind="stable"))
                    batch = joined(parts).take(pa.array(back))
                    yield batch, {"row": begin + len(chosen), "of": end}

    def _stored(self, file: Any) -> Iterator[_Piece]:
        """Write all rows to a file; they need not fit into memory."""
        held, n_rows = [], 0
        for batch, end in chain(self._source.read_after(None), [(None, None)]):
            held += [] if batch is None else [batch]
            n_rows = sum(part.num_rows for part in held)
            if not n_rows or (batch is not None and n_rows < _PIECE_ROWS):
                last = end
                continue
            piece, held = joined(held), []
            at = file.tell()
            file.write(arrow_stream([piece]))
            yield _Piece(
                *_ticks(piece.column(self.columns.time)), at, last if batch is None else end
            )

    def close(self) -> None:
        self._source.close()
