"""How a tree grew, in a record that stays short."""

from typing import Any, Self

_MOST = 512
_COLUMNS = ("row", "n_nodes", "births", "merges", "prunes")


class Growth:
    """Counts of nodes and moves over a stream; every second entry goes when there are too many."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, ...]] = []
        self.every = 1
        self.skipped = 0

    def note(self, *row: int) -> None:
        """Take an entry: row, nodes, births, merges, prunes."""
        self.skipped += 1
        if self.skipped < self.every:
            return
        self.skipped = 0
        self.rows.append(row)
        if len(self.rows) > _MOST:
            self.rows = self.rows[1::2]
            self.every *= 2

    def columns(self) -> dict[str, list[int]]:
        """Return the entries by column."""
        return {name: [row[i] for row in self.rows] for i, name in enumerate(_COLUMNS)}

    def to_json(self) -> dict[str, Any]:
        """Return the record, and where it stands, as JSON values."""
        return {"columns": self.columns(), "every": self.every, "skipped": self.skipped}

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Self:
        """Rebuild from `to_json`."""
        out = cls()
        columns = kept["columns"]
        out.rows = list(zip(*(columns[name] for name in _COLUMNS), strict=True))
        out.every, out.skipped = kept["every"], kept["skipped"]
        return out
