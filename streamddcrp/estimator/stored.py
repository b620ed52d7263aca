"""Models in files: from a state of arrays to bytes, `save` and `load`; options as JSON."""

import os
from typing import Any, Self

import numpy as np

from streamddcrp.checkpoint.codec import decode_state, encode_state, read_blob, write_atomic
from streamddcrp.decay import Decay, decay_from_config, make_decay
from streamddcrp.errors import CheckpointError
from streamddcrp.likelihoods import likelihood_from_config

_VERSION = 1  # of the layout of every state; a newer one is refused


class Stored:
    """A model that can be kept as one blob of bytes, or in a file.

    It supplies `_state`, arrays and JSON values, and `_from_state`, which makes it of them.
    """

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        raise NotImplementedError

    @classmethod
    def _from_state(cls, arrays: dict[str, Any], meta: dict[str, Any]) -> Self:
        raise NotImplementedError

    def to_bytes(self) -> bytes:
        """Return the whole state as one checksummed blob; `from_bytes` continues bit for bit."""
        return encode_state(type(self).__name__, _VERSION, *self._state())

    @classmethod
    def from_bytes(cls, blob: bytes) -> Self:
        """Restore from `to_bytes`.

        Raises
        ------
        CheckpointError
            If the blob is damaged, of another class or of a newer version.
        """
        arrays, meta = decode_state(blob, cls.__name__)
        try:
            return cls._from_state(arrays, meta)
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:
            message = f"the state does not fit this release: {error}"
            raise CheckpointError(message) from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file, atomically."""
        write_atomic(path, self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote."""
        return cls.from_bytes(read_blob(path))


def to_json(value: Any) -> Any:
    """Describe an option: objects by their configuration, tuples by lists."""
    if isinstance(value, Decay):
        return {"decay": value.to_config()}
    if hasattr(value, "to_config"):
        return {"likelihood": value.to_config()}
    if callable(value):
        return {"decay": make_decay(value).to_config()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return value


def from_json(value: Any) -> Any:
    """Rebuild an option from `to_json`."""
    if isinstance(value, dict) and set(value) == {"decay"}:
        return decay_from_config(value["decay"])
    if isinstance(value, dict) and set(value) == {"likelihood"}:
        return likelihood_from_config(value["likelihood"])
    if isinstance(value, list):
        return tuple(from_json(item) for item in value)
    return value
