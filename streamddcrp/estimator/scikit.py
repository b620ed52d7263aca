"""scikit-learn's conventions, for a data set at rest: ``fit``, ``fit_predict``, ``clone``."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Self

import numpy as np

from streamddcrp.data.batches import sliceable
from streamddcrp.typing import IntArray

_ROWS = 128  # a ring of events holds what happens in so many


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(inspect.signature(kind).parameters)


class Options:
    """Options as scikit-learn's tools read and change them."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the options by name; ``deep`` is ignored."""
        return {name: getattr(self, name) for name in _names(type(self))}  # type: ignore[arg-type]

    def set_params(self, **options: Any) -> Self:
        """Change options. What was learned is forgotten."""
        kept = {
            name: value.clone() if hasattr(value, "learn_one") else value  # a model, unlearned
            for name, value in self.get_params().items()
        }
        with undone(self):
            self.__init__(**(kept | options))  # type: ignore[misc]
        return self


@contextmanager
def undone(model: Any) -> Iterator[None]:
    """Leave a model as it was where what makes it anew is refused."""
    before = vars(model).copy()
    try:
        yield
    except Exception:
        vars(model).clear()
        vars(model).update(before)
        raise


class ScikitLearn(Options):
    """What scikit-learn's tools ask of a clusterer. It is still learned in one pass."""

    step_many: Any
    events: Any

    def fit(self, X: Any, y: Any = None, **side: Any) -> Self:
        """Forget what was learned, then learn a data set in the order of its rows.

        Parameters
        ----------
        X : batch
            As for `step_many`.
        y : ignored
        **side
            ``t``, or other arguments of `step_many` for each row.

        Returns
        -------
        self
            With ``labels_``, ndarray of int64 of shape (N,): the label of each row on arrival, or
            the one that it was merged into later. Events up to here are read.
        """
        rows, labels = sliceable(X), []
        side = {name: sliceable(x, name) for name, x in side.items() if x is not None}
        into: dict[int, int] = {}
        with undone(self):
            self.set_params()
            for start in range(0, len(rows), _ROWS):
                part = slice(start, start + _ROWS)
                out = self.step_many(rows[part], **{name: x[part] for name, x in side.items()})
                labels.append(out["label"].to_numpy())
                into |= {e.label: e.into for e in self.events() if e.kind == "merge"}
        self.labels_: IntArray = np.concatenate([*labels, np.zeros(0, np.int64)]).astype(np.int64)
        for label in np.unique(self.labels_).tolist():
            last = label
            while last in into:
                last = into[last]
            self.labels_[self.labels_ == label] = last
        return self

    def fit_predict(self, X: Any, y: Any = None, **side: Any) -> IntArray:
        """Return ``labels_`` of `fit`."""
        return self.fit(X, y, **side).labels_
