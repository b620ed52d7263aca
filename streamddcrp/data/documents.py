"""Texts and word counts as sparse rows over a changing vocabulary."""

import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import numpy as np
import pyarrow as pa
import scipy

from streamddcrp.arguments import number_array
from streamddcrp.data.batches import as_arrow, first_null, is_sparse
from streamddcrp.data.tokens import tokenize, tokenize_all
from streamddcrp.data.words import WordTable
from streamddcrp.errors import SchemaError
from streamddcrp.records import WEIGHT, index, up_to
from streamddcrp.typing import FloatArray, IntArray

Word = str | int
Document = list[tuple[Word, float]]
MOST_COUNT = 1e15  # larger counts are not exact, and bounds overflow
_SHOWN = 8  # words of a component
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view,
          pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)  # fmt: skip


class Vocabulary:
    """Numbers for words, in order of first appearance."""

    def __init__(self, words: Iterable[Word] = ()) -> None:
        self.words: list[Word] = list(words)
        self._at = {word: i for i, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, rows: "Sequence[Document] | CountRows", *, learn: bool = True) -> Any:
        """Return rows as sparse counts (N, V); new words get the next numbers."""
        if isinstance(rows, CountRows):
            return self.encode_columns(rows.matrix, learn=learn)
        at = self._at if learn else dict(self._at)
        words = []
        for word in (word for row in rows for word, _ in row):
            number = at.get(word)
            if number is None:
                number = at[word] = len(at)
                if learn:
                    self.words.append(word)
            words.append(number)
        counts = [count for row in rows for _, count in row]
        offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
        out = scipy.sparse.csr_array(
            (np.array(counts, np.float64), np.array(words, np.int64), offsets),
            shape=(len(rows), len(at)),
        )
        out.sum_duplicates()
        return out

    def encode_columns(self, rows: Any, *, learn: bool = True) -> Any:
        """Return a sparse count matrix as `encode` would; its columns are words."""
        columns, first, which = np.unique(rows.indices, return_index=True, return_inverse=True)
        number = np.array([self._at.get(word, -1) for word in columns.tolist()], np.int64)
        new = np.flatnonzero(number < 0)
        if learn:
            for i in new[np.argsort(first[new])].tolist():
                number[i] = self._at[int(columns[i])] = len(self.words)
                self.words.append(int(columns[i]))
        words = number[which]
        known = words >= 0
        offsets = np.concatenate([[0], np.cumsum(known)])[rows.indptr]
        out = scipy.sparse.csr_array(
            (rows.data[known], words[known], offsets), shape=(rows.shape[0], len(self.words))
        )
        out.sort_indices()
        return out

    def keep(self, used: Any) -> None:
        """Drop unused words, (V,) of bool, and renumber the rest."""
        self.words = [self.words[i] for i in np.flatnonzero(used)]
        self._at = {word: i for i, word in enumerate(self.words)}


def is_text(x: Any) -> bool:
    """Return whether the type of a row or batch shows that it holds texts."""
    if isinstance(x, str) or is_sparse(x):
        return True
    if isinstance(x, Mapping) and not all(map(_is_column, x.values())):
        return len(x) == 1 and isinstance(next(iter(x.values())), str)
    x = as_arrow(x)
    if isinstance(x, pa.Array | pa.ChunkedArray):
        return holds_words(x.type)
    if isinstance(x, pa.Table):
        return any(map(holds_words, x.schema.types))
    if isinstance(x, list | tuple | np.ndarray) and getattr(x, "ndim", True) and len(x):
        first = x[0]
        nested = isinstance(first, list | tuple | Mapping)
        return isinstance(first, str) or (nested and is_text(first))
    return False


def _is_column(x: Any) -> bool:
    return hasattr(x, "__len__") and not isinstance(x, str)


def holds_words(kind: Any) -> bool:
    """Return whether an Arrow type is that of texts, which may be bytes, or of lists of words."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = kind.value_type
    return any(test(kind) for test in _TEXTS)


def read_document(x: Any, row: int | None = None) -> Document:
    """Return words and counts of a text, a word list or a dict; raises SchemaError."""
    x = text_of(x)
    if isinstance(x, Mapping):
        return [(w, c) for w in sorted(x, key=_order) if (c := _count(w, x[w], row)) > 0.0]
    if isinstance(x, str):
        return [(word, 1.0) for word in tokenize(x)]
    place = "" if row is None else f"row {row}: "
    if not isinstance(x, list | tuple | np.ndarray) or getattr(x, "ndim", 1) == 0:
        raise SchemaError(
            f"{place}expected a text, a list of words or a dict of counts, got {x!r}; give '' "
            "for a text without words",
            row=row,
        )
    for word in x:
        if not isinstance(word, str):
            raise SchemaError(f"{place}expected a word, got {word!r}", row=row)
    return [(str(word), 1.0) for word in x]


def documents_of(batch: Any) -> list[list[str] | dict[Word, float]]:
    """Return the documents of a batch, each as a list of words or as counts."""
    return [
        [str(word) for word, _ in document]
        if all(isinstance(word, str) and count == 1.0 for word, count in document)
        else dict(document)
        for document in read_documents(batch)
    ]


def _order(word: Any) -> tuple[bool, Any]:
    if not isinstance(word, str | int) or isinstance(word, bool):
        raise SchemaError(f"column {word!r}: words must be text or integers")
    return isinstance(word, str), word


def _count(word: Word, value: Any, row: int | None) -> float:
    if isinstance(value, numbers.Real) and not value < 0.0 and value <= MOST_COUNT:
        return float(value)
    place = "" if row is None else f"row {row}, "
    raise SchemaError(
        f"{place}column {word!r}: {value!r} is not a count; give a number from 0 to 1e15", row=row
    )


def read_documents(batch: Any) -> list[Document]:
    """Return the documents of a batch; SchemaError, with ``row``, for a missing or invalid one.

    ``batch``: documents in a sequence or series, an Arrow array of texts, a table or frame with one
    column of texts or columns of counts, or an array or sparse matrix of counts (N, V).
    """
    batch = as_arrow(batch)
    if isinstance(batch, pa.Array | pa.ChunkedArray):
        items: list[Any] = batch.to_pylist()
    elif isinstance(batch, pa.Table):
        items = _of_table(batch)
    elif _is_counts(batch):
        rows = sparse_rows(batch)
        cuts = rows.indptr[1:-1]
        parts = zip(np.split(rows.indices, cuts), np.split(rows.data, cuts), strict=True)
        items = [dict(zip(w.tolist(), c.tolist(), strict=True)) for w, c in parts][: rows.shape[0]]
    elif isinstance(batch, str):
        raise SchemaError("batch: expected several documents, got one; put it into a list")
    else:
        try:
            items = list(batch)
        except TypeError:
            raise SchemaError(
                f"batch: expected a list of documents, got a {type(batch).__name__}"
            ) from None
    items = [text_of(x) for x in items]
    cut = iter(tokenize_all([x for x in items if isinstance(x, str)]))
    return [
        [(word, 1.0) for word in next(cut)] if isinstance(x, str) else read_document(x, row)
        for row, x in enumerate(items)
    ]


def sparse_rows(batch: Any, name: str = "batch") -> Any:
    """Return an array or sparse matrix of counts (N, V) as sparse rows; raises SchemaError."""
    if not is_sparse(batch):
        batch = number_array(name, batch, ndim=2)
    elif batch.dtype.kind not in "iufb" or batch.ndim != 2:
        raise SchemaError(f"{name}: expected a matrix of counts, got {batch!r:.60}")
    return scipy.sparse.csr_array(batch)


def _is_counts(batch: Any) -> bool:
    return is_sparse(batch) or (isinstance(batch, np.ndarray) and batch.ndim == 2)


def text_of(x: Any) -> Any:
    """Return the text of a row with a single text column; other rows unchanged."""
    text = next(iter(x.values())) if isinstance(x, Mapping) and len(x) == 1 else None
    return text if isinstance(text, str) else x


def read_counts(batch: Any) -> Any:
    """Return counts (N, V), checked, as sparse rows; raises SchemaError with ``row``."""
    rows = sparse_rows(batch)
    data = rows.data
    bad = ~((data >= 0) & (data <= MOST_COUNT))
    if bad.any():
        at = int(bad.argmax())
        row = int(np.searchsorted(rows.indptr, at, side="right")) - 1
        raise SchemaError(
            f"row {row}, column {int(rows.indices[at])}: {data[at]!r} is not a count; give a "
            "number from 0 to 1e15",
            row=row,
        )
    rows = rows.astype(np.float64)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return rows


class CountRows:
    """Counts (N, V) with the slicing and iteration of a document list; columns are words."""

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def __getitem__(self, some: slice) -> "CountRows":
        return CountRows(self.matrix[some])

    def __iter__(self) -> Iterator[Document]:
        X = self.matrix
        for a, b in pairwise(X.indptr.tolist()):
            yield list(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True))


def _of_table(table: Any) -> list[Any]:
    if not is_one_text(table):
        return list(table.to_pylist())
    refuse_missing(table.column(0), f", column {table.column_names[0]!r}")
    return list(table.column(0).to_pylist())


def is_one_text(table: Any) -> bool:
    """Return whether a table is one column of texts; refuse one among others."""
    if not any(map(holds_words, table.schema.types)):
        return False
    if table.num_columns > 1:
        raise SchemaError(
            f"batch: expected one column of texts, or columns of counts; got "
            f"{', '.join(map(repr, table.column_names))}; leave the others out"
        )
    return True


def refuse_missing(column: Any, place: str) -> None:
    """Refuse a text column with missing texts."""
    if column.null_count:
        row = first_null(column)
        raise SchemaError(f"row {row}{place}: missing; give '' for a text without words", row=row)


class Bags(NamedTuple):
    """Words of document d are ``words[offsets[d]:offsets[d + 1]]``, in order, and their counts."""

    offsets: Annotated[IntArray, "O", up_to("T")]
    words: Annotated[IntArray, "T", index("V")]
    counts: Annotated[FloatArray, "T", WEIGHT]


def read_bags(batch: Any) -> list[Document] | CountRows:
    """Return documents, or checked count rows."""
    if _is_counts(batch):
        return CountRows(read_counts(batch))
    return read_documents(batch)


def encode(
    vocabulary: Vocabulary, documents: Sequence[Document] | CountRows, *, learn: bool
) -> Bags:
    """Give words numbers; without ``learn`` unknown ones are left out."""
    known, counts = len(vocabulary), vocabulary.encode(documents, learn=learn)
    if not learn and counts.shape[1] > known:
        counts = counts[:, :known]
    counts.sort_indices()
    return Bags(
        counts.indptr.astype(np.int64),
        counts.indices.astype(np.int64),
        counts.data.astype(np.float64),
    )


def top_words(
    words: IntArray, counts: FloatArray, totals: FloatArray, names: Sequence[Word] | WordTable
) -> str:
    """Return the words that distinguish a component, by their share of the divergence.

    ``words, counts`` (M,) describe the component, ``totals`` (V,) all components.
    """
    some = counts > 0.5
    words, counts = words[some], counts[some]
    lift = np.log(counts / counts.sum() / (totals[words] / totals.sum()))
    order = np.lexsort((words, -counts * (lift + 1e-3)))[:_SHOWN]
    return " ".join(str(names[w]) for w in words[order].tolist())
