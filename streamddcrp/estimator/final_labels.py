"""Final labels that wait to be told."""

from array import array

import numpy as np

from streamddcrp.typing import IntArray

_MOST = 100_000


class FinalLabels:
    """The labels that became final since they were taken last, 100,000 at most."""

    def __init__(self) -> None:
        self._labels = array("q")

    @property
    def nbytes(self) -> int:
        """Bytes that they take."""
        return 8 * len(self._labels)

    def add(self, labels: IntArray) -> None:
        """Append labels."""
        self._labels.frombytes(labels.tobytes())
        if len(self._labels) > 2 * _MOST:
            del self._labels[:-_MOST]

    def last(self) -> IntArray:
        """Return them."""
        return np.array(self._labels[-_MOST:], dtype=np.int64)

    def take(self) -> IntArray:
        """Return them and forget them."""
        labels = self.last()
        self._labels = array("q")
        return labels
