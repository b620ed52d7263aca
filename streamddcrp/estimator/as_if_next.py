"""Predict the rows of a batch before they are learned, each as if it came next."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from streamddcrp.arguments import as_list
from streamddcrp.contract import Part
from streamddcrp.data.batches import as_matrix, batch_times, named_columns, sliceable
from streamddcrp.data.vectorizer import as_number, refuse_unless_mapping
from streamddcrp.errors import SchemaError
from streamddcrp.estimator.reasons import Explanation, Explanations, explanation
from streamddcrp.typing import FloatArray, IntArray


class AsIfNext:
    """A model with ``predict_one`` and ``score_one``, which change nothing."""

    predict_one: Any
    score_one: Any

    def predict_many(self, batch: object, t: Any = None, **side: Sequence[Any]) -> IntArray:
        """Return ``predict_one`` of each row of a batch, (N,), as if that row came next.

        Parameters
        ----------
        batch, t
            As for ``step_many``.
        **side : sequences of length N
            Further arguments of ``predict_one`` for each row, such as ``group``.

        Notes
        -----
        Nothing is learned, so rows do not affect each other. Costs one ``predict_one`` a row;
        ``step_many``, which learns, is many times as fast.
        """
        return np.array(self._each(self.predict_one, batch, t, side), dtype=np.int64)

    def score_many(self, batch: object, t: Any = None, **side: Sequence[Any]) -> FloatArray:
        """Return ``score_one`` of each row of a batch, (N,), in nats; as `predict_many`."""
        return np.array(self._each(self.score_one, batch, t, side), dtype=np.float64)

    def explain_one(self, x: Any, t: Any = None, **side: Any) -> Explanation:
        """Return what each part of a row adds to its surprise; changes nothing.

        The part d adds score(x) - score(x without d) = -log p(x_d | the others), its surprise once
        the rest is known. Where the model says what it expects, the excess is the surprise in the
        present regime minus its expectation, otherwise the surprise itself. Parts do not add up to
        the score, because correlated ones share information.

        Parameters
        ----------
        x, t, **side
            As for ``score_one``.

        Returns
        -------
        Explanation
            No parts in warm-up. O(D) predictions.
        """
        score, parts = self.score_one(x, t, **side), []
        for name, value, rest in self._each_left_out(x):
            surprise = score - self.score_one(rest, t, **side)
            parts.append(Part(name, value, math.nan, math.nan, surprise, surprise))
        return explanation(parts, score, score)

    def explain_many(self, batch: object, t: Any = None, **side: Sequence[Any]) -> Explanations:
        """Explain each row of a batch as if it came next; see `explain_one`."""
        return Explanations(self._each(self.explain_one, batch, t, side))

    def _each(
        self, ask: Callable[..., Any], batch: object, t: Any, side: dict[str, Sequence[Any]]
    ) -> list[Any]:
        rows = self._one_by_one(batch)
        n = len(rows)
        given = {name: as_list(name, values) for name, values in side.items()}
        for name, values in given.items():
            if len(values) != n:
                raise SchemaError(f"{name}: got {len(values)} for {n} rows")
        times = [None] * n if t is None else batch_times(t, n).tolist()
        return [
            ask(x, time, **{name: values[i] for name, values in given.items()})
            for i, (x, time) in enumerate(zip(rows, times, strict=True))
        ]

    def _one_by_one(self, batch: object) -> list[Any]:
        """Return the rows of a batch in the form that `explain_one` takes."""
        table = named_columns(batch)
        if table is not None:
            return list(table.to_pylist())
        return [dict(enumerate(row)) for row in as_matrix(sliceable(batch)).tolist()]

    def _each_left_out(self, x: Any) -> Iterator[tuple[str, float, Any]]:
        """Yield each part of a row as its name, its value, and the row without it."""
        refuse_unless_mapping(x)
        for name, value in x.items():
            number = as_number(name, value)
            if not math.isnan(number):
                yield str(name), number, {k: v for k, v in x.items() if k != name}
