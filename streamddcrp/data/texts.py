"""Batches of texts as one byte buffer for compiled reading."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamddcrp.data import documents
from streamddcrp.data.batches import as_arrow
from streamddcrp.data.words import joined
from streamddcrp.errors import SchemaError
from streamddcrp.typing import IntArray


class Texts(NamedTuple):
    """Documents in a buffer."""

    data: NDArray[np.uint8]
    offsets: IntArray  # (N + 1,): beginning of each in ``data``, and the end
    listed: bool  # words separated by byte 255, else UTF-8 texts


def read_text(x: Any) -> Texts:
    """Read a text, words, a dict of counts, or a row of one text; raises SchemaError."""
    return _of_rows([x], None)


def read_texts(batch: Any) -> Texts:
    """Read a batch of documents as `read_documents` does, without copying Arrow texts.

    Binary columns need not be valid UTF-8. Raises SchemaError, with ``row``, if a document is
    missing or invalid, or if there are several text columns.
    """
    if isinstance(batch, str | bytes):
        raise SchemaError("batch: expected several documents, got one; put it into a list")
    batch = as_arrow(batch)
    if isinstance(batch, pa.Array | pa.ChunkedArray):
        return _of_arrow(batch, "")
    if isinstance(batch, pa.Table):
        if documents.is_one_text(batch):
            return _of_arrow(batch.column(0), f", column {batch.column_names[0]!r}")
        return _of_rows(batch.to_pylist(), 0)
    if isinstance(batch, np.ndarray) and (
        batch.ndim == 1 or (batch.shape[1:] == (1,) and batch.dtype.kind not in "fiub")
    ):
        batch = batch.ravel().tolist()
    if isinstance(batch, list | tuple):
        return _of_rows(batch, 0)
    return _packed([_joined_keys(row) for row in documents.read_documents(batch)], listed=True)


def _of_arrow(column: Any, place: str) -> Texts:
    kind = column.type
    if not (documents.holds_words(kind) or pa.types.is_null(kind)):
        raise SchemaError(f"batch: expected texts or lists of words, got {kind}")
    documents.refuse_missing(column, place)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _of_rows(column.to_pylist(), 0)
    flat = pa.large_binary()
    if pa.types.is_dictionary(kind):  # of views, as polars gives them, Arrow has no cast
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        column = pa.chunked_array([c.dictionary.cast(flat).take(c.indices) for c in chunks], flat)
    array = column.cast(flat)
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if not len(array):
        return _packed([], listed=False)
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    return Texts(np.frombuffer(b"" if data is None else data, np.uint8), ends, listed=False)


def _of_rows(rows: Sequence[Any], first: int | None) -> Texts:
    """Read rows that are all texts or all words or counts; ``first`` numbers the first."""
    if rows and _text(rows[0]) is None:
        return _packed([_words(x, row, first) for row, x in enumerate(rows)], listed=True)
    texts = [_text(x) for x in rows]
    if None in texts:
        row = texts.index(None)
        if rows[row] is None:
            raise SchemaError(f"row {row}: missing; give '' for a text without words", row=row)
        raise _mixed(row, rows[row], "a text")
    return _packed([joined([text]) for text in texts if text is not None], listed=False)


def _text(x: Any) -> str | None:
    x = documents.text_of(x)
    return x if isinstance(x, str) else None


def _mixed(row: int, x: Any, expected: str) -> SchemaError:
    message = f"row {row}: expected {expected} like the first, got {x!r:.80}"
    return SchemaError(message, row=row)


def _words(x: Any, row: int, first: int | None) -> bytes:
    if isinstance(x, list | tuple):
        with suppress(TypeError):  # items that are not words are refused below
            return joined(x)
    if _text(x) is not None:
        raise _mixed(row, x, "words or counts")
    return _joined_keys(documents.read_document(x, None if first is None else row))


def _joined_keys(document: documents.Document) -> bytes:
    return joined(str(word) for word, _ in document)


def _packed(parts: Sequence[bytes], *, listed: bool) -> Texts:
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    return Texts(np.frombuffer(b"".join(parts), np.uint8), offsets, listed)
