"""What sources share whose rows come as columns, from tables and Flight servers."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp_connectors.run.columns import Columns, TimeKind, canonical
from streamddcrp_connectors.run.sources import Offset


class TableSource(ABC):
    """A live source of typed rows.

    Parameters
    ----------
    name : str
        The address without secrets.
    columns : Columns
        Its features are named: a table may have others.

    Raises
    ------
    ConfigError
        No features are named.
    """

    replayable: ClassVar[bool] = True
    live: ClassVar[bool] = True

    def __init__(self, name: str, columns: Columns, batch_rows: int) -> None:
        self.name = name
        if columns.features is None:
            raise ConfigError(f"{self.name}: name the columns, --features a,b or --text a")
        self.columns = columns
        self.n_rows: int | None = None
        self._batch_rows = batch_rows

    def identity(self) -> dict[str, Any]:
        """Say what a checkpoint must agree with."""
        return {"path": self.name, "format": self.name.partition(":")[0]}

    @abstractmethod
    def read_after(self, offset: Offset | None) -> Iterator[tuple[Any, Offset]]:
        """Yield the batches after ``offset``, each with its own offset; None: nothing came."""

    @abstractmethod
    def close(self) -> None:
        """Disconnect."""

    def _convert(self, raw: Any, kind: TimeKind | None) -> tuple[Any, TimeKind | None]:
        """Make a canonical batch, whose times are of the kind of all rows before."""
        batch, found = canonical(raw.select(list(self.columns.names)), self.columns, kind)
        if kind is not None and found != kind:
            message = f"{self.name}: the time is of kind {found}, that of earlier rows {kind}"
            raise SchemaError(message)
        return batch, found
