"""What a format of text lines offers to the source that reads them."""

from typing import Any, Protocol

from streamddcrp_connectors.run.columns import Columns, TimeKind

__all__ = ["RowFormat"]


class RowFormat(Protocol):
    """How whole lines become a canonical batch.

    Each line that is not blank is one row, whatever stands in it, so that no row depends on how the
    text was cut into blocks; a line that cannot be read stays in its place as a refused row.
    """

    def decode(
        self, block: bytes, columns: Columns, kind: TimeKind | None
    ) -> tuple[Any, TimeKind | None]:
        """Return the canonical batch and the kind of its time column, as far as known."""
