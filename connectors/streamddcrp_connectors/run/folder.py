"""A folder of text files: each file is a document."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp_connectors.run.columns import Columns, Refusal, assemble
from streamddcrp_connectors.run.textsource import Offset

LARGEST = 1 << 26  # bytes of a document


class FolderSource:
    """One row per file, by name: ``file``, its path within the folder, and ``text``.

    Files of folders within are read too; names that begin with a dot are left out. The offset is
    ``{"row", "file"}``: the last one that was read.
    """

    replayable = True

    def __init__(self, path: str, columns: Columns, batch_rows: int) -> None:
        self.name = path
        self._path, self._batch_rows = Path(path), batch_rows
        if not columns.text or len(columns.names) != 1:
            raise ConfigError(
                f"{self.name} is a folder, and its files are documents: give "
                "--text text, and no other column"
            )
        self.columns = columns.resolve(("text",), f"the folder {self.name}")
        found = (file for file in self._path.rglob("*") if file.is_file())
        names = (file.relative_to(self._path) for file in found)
        shown = (name for name in names if not any(part.startswith(".") for part in name.parts))
        self._files = sorted(name.as_posix() for name in shown)
        self.n_rows: int | None = len(self._files)
        if not self._files:
            raise SchemaError(f"the folder {self.name} holds no files")

    def identity(self) -> dict[str, Any]:
        return {"path": os.path.realpath(self.name), "format": "folder"}

    def read_after(self, offset: Offset | None) -> Iterator[tuple[Any, Offset]]:
        row = 0
        if offset is not None:
            row = offset["row"]
            if self._files[row - 1 : row] != [offset["file"]]:
                message = f"{self.name}: files before {offset['file']} were added or removed since"
                raise SchemaError(message)
        while row < len(self._files):
            files = self._files[row : row + self._batch_rows]
            row += len(files)
            yield self._batch(files), {"row": row, "file": files[-1]}

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def _batch(self, files: list[str]) -> Any:
        texts: list[str | None] = []
        refused: dict[int, Refusal] = {}
        for place, name in enumerate(files):
            try:
                texts.append(_read(self._path / name))
            except (OSError, ValueError) as error:
                texts.append(None)
                refused[place] = Refusal(f"file {name!r} {_reason(error)}", {"file": name})
        batch = assemble(self.columns, [pa.array(texts, pa.string())], refused, lambda _: {})
        return batch.append_column("file", pa.array(files))


def _read(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ValueError(f"is larger than {LARGEST:,} bytes")
    return data.decode()


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"is not UTF-8 at byte {error.start}"
    return f"cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)
