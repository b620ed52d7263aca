"""Rows of an Arrow Flight server: ``flight://host:8815/STREAM``.

The ticket of each ``DoGet`` is the JSON ``{"stream": NAME, "after": n}``; the server answers with
the rows that it has by then after the first n, always the same ones in the same order, and ends. It
is asked again when it has been read to the end.
"""

import json
import time
from collections.abc import Iterator
from typing import Any

from pyarrow import flight

from streamddcrp_connectors.live.flightclient import FlightClient
from streamddcrp_connectors.live.tables import TableSource
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.gather import POLL
from streamddcrp_connectors.run.sources import Offset


class FlightSource(TableSource):
    """Rows of a stream; the offset is ``{"row", "kind"}``.

    Parameters
    ----------
    spec : str
        As `FlightClient` takes it.
    """

    def __init__(self, spec: str, columns: Columns, batch_rows: int) -> None:
        self._server = FlightClient(spec)
        super().__init__(self._server.name, columns, batch_rows)

    def read_after(self, offset: Offset | None) -> Iterator[tuple[Any, Offset]]:
        row, kind = (0, None) if offset is None else (offset["row"], offset["kind"])
        while True:
            before = row
            for raw in self._after(row):
                batch, kind = self._convert(raw, kind)
                row += batch.num_rows
                yield batch, {"row": row, "kind": kind}
            if row == before:
                time.sleep(POLL)
                yield None, {"row": row, "kind": kind}

    def close(self) -> None:
        self._server.close()

    def _after(self, row: int) -> Iterator[Any]:
        """Yield the rows that there are after the first ``row``, in pieces."""
        ticket = json.dumps({"stream": self._server.stream, "after": row}).encode()
        with self._server.guarded():
            reader = self._server.call("do_get", flight.Ticket(ticket))
            names = list(self.columns.resolve(reader.schema.names, self.name).names)
        while True:
            with self._server.guarded():
                try:
                    raw = reader.read_chunk().data
                except StopIteration:
                    return
                raw = raw.select(names)
                raw.validate(full=True)
            for start in range(0, raw.num_rows, self._batch_rows):
                yield raw.slice(start, self._batch_rows)
