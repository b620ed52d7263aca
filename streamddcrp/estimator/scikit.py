"""scikit-learn's conventions for data at rest: ``fit``, ``fit_predict``, ``clone``."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Self

import numpy as np

from streamddcrp.data.batches import sliceable
from streamddcrp.typing import IntArray

_ROWS = 128  # rows whose events surely fit in a ring


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(inspect.signature(kind).parameters)


class Options:
    """Options that scikit-learn's tools can read and change."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the options by name; ``deep`` is ignored."""
        return {name: getattr(self, name) for name in _names(type(self))}  # type: ignore[arg-type]

    def set_params(self, **options: Any) -> Self:
        """Change options and forget everything learned."""
        kept = {
            name: value.clone() if hasattr(value, "learn_one") else value  # an untrained model
            for name, value in self.get_params().items()
        }
        with undone(self):
            vars(self).pop("_recent", None)  # the last rows, which `__init__` does not know of
            self.__init__(**(kept | options))  # type: ignore[misc]
        return self


@contextmanager
def undone(model: Any) -> Iterator[None]:
    """Restore a model if its new options are refused."""
    before = vars(model).copy()
    try:
        yield
    except Exception:
        vars(model).clear()
        vars(model).update(before)
        raise


class ScikitLearn(Options):
    """The interface that scikit-learn's tools expect of a clusterer, still with one pass."""

    step_many: Any
    events: Any

    def fit(self, X: Any, y: Any = None, **side: Any) -> Self:
        """Forget everything learned, then learn a data set in row order.

        Parameters
        ----------
        X : batch
            As for `step_many`.
        y : ignored
        **side
            ``t``, or further arguments of `step_many` for each row.

        Returns
        -------
        self
            With ``labels_``, ndarray of int64 of shape (N,): the label of each row on arrival, or
            the one it was later merged into. Events so far count as read.
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
