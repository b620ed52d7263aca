"""Models in files: what turns a state of bytes into `save` and `load`."""

import os
from typing import Self

from streamddcrp.checkpoint.codec import read_blob, write_atomic

__all__ = ["Stored"]


class Stored:
    """A model that is one blob of bytes can be kept in a file."""

    def to_bytes(self) -> bytes:
        """Return the whole state as one checksummed blob."""
        raise NotImplementedError

    @classmethod
    def from_bytes(cls, blob: bytes) -> Self:
        """Restore from `to_bytes`."""
        raise NotImplementedError

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file, atomically."""
        write_atomic(path, self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote."""
        return cls.from_bytes(read_blob(path))
