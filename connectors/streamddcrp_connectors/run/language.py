"""The model ``language``: how strongly words of a stream of texts repeat, row by row."""

from typing import Any

import numpy as np
import pyarrow as pa

from streamddcrp import Event, LinkLanguageModel
from streamddcrp.data.tokens import tokenize_all
from streamddcrp.errors import SchemaError


class Language(LinkLanguageModel):
    """`LinkLanguageModel` over the words of a column of texts, which are one document.

    Distances count words. A text without words has neither a score nor a share of new tables.
    """

    ignores_times = True

    @property
    def n_tables(self) -> int:  # type: ignore[override]  # of all words, rounded
        """Expected number of tables so far."""
        return round(super().n_tables.mean)

    def events(self) -> list[Event]:
        """Return none: tables of words are not told."""
        return []

    def summary(self) -> pa.Table:
        """Return one row: words so far, log evidence, mean and variance of the number of tables."""
        mean, variance = super().n_tables
        found = {"words": self.n_seen, "log_evidence": self.log_evidence}
        return pa.table({k: [v] for k, v in (found | {"tables": mean, "var": variance}).items()})

    def step_many(self, batch: Any, t: Any = None) -> pa.RecordBatch:
        """Predict and learn the words of each text of a batch with one column, in order.

        ``words``: their number. ``score``: -log p of a word in nats, their mean. ``p_new``: their
        mean probability of opening a table. ``n_tables``: expected number of tables afterwards.
        ``label``: 0, as there are no clusters of texts.
        """
        if batch.num_columns != 1 or not pa.types.is_string(batch.schema.types[0]):
            raise SchemaError("language: rows must have one column, of texts: name it by --text")
        texts = [text or "" for text in batch.column(0).to_pylist()]
        found = tokenize_all(texts)
        n_words = np.array([len(words) for words in found], np.int64)
        ends, before = n_words.cumsum(), super().n_tables.mean
        try:
            step = super().step_many([word for words in found for word in words])
        except SchemaError as error:
            at = None if error.row is None else int(np.searchsorted(ends, error.row, "right"))
            raise error.retold(str(error), at) from error
        used = n_words > 0
        cells: dict[str, Any] = {"label": np.zeros(len(texts), np.int64), "words": n_words}
        for name in ("score", "p_new"):
            mean = np.full(len(texts), np.nan)
            sums = np.add.reduceat(step.column(name).to_numpy(), (ends - n_words)[used])
            mean[used] = sums / n_words[used]
            cells[name] = pa.array(mean, from_pandas=True)
        cells["n_tables"] = np.append(before, step.column("n_tables").to_numpy())[ends]
        return pa.RecordBatch.from_pydict(cells)
