"""Documents as numbers of words and their counts."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from streamddcrp.data.documents import Vocabulary, read_counts, read_documents
from streamddcrp.typing import FloatArray, IntArray


class Bags(NamedTuple):
    """Words of document d are ``words[offsets[d]:offsets[d + 1]]``, in order, and their counts."""

    offsets: IntArray
    words: IntArray
    counts: FloatArray


def read_bags(batch: Any) -> Any:
    """Return documents, or a checked sparse matrix of counts."""
    if sparse.issparse(batch) or (isinstance(batch, np.ndarray) and batch.ndim == 2):
        return read_counts(batch)
    return read_documents(batch)


def n_rows(documents: Any) -> int:
    """Return how many documents `read_bags` read."""
    return int(documents.shape[0]) if sparse.issparse(documents) else len(documents)


def encode(vocabulary: Vocabulary, documents: Any, *, learn: bool) -> Bags:
    """Give words their numbers; without ``learn`` those that are not known are left out."""
    known = len(vocabulary)
    if sparse.issparse(documents):
        counts = vocabulary.encode_columns(documents, learn=learn)
    else:
        counts = vocabulary.encode(documents, learn=learn)
    if not learn and counts.shape[1] > known:
        counts = counts[:, :known]
    counts.sort_indices()
    return Bags(
        counts.indptr.astype(np.int64), counts.indices.astype(np.int64),
        counts.data.astype(np.float64),
    )  # fmt: skip
