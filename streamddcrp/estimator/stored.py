"""Store models: arrays to bytes, `save` and `load`, options as JSON."""

import math
import os
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import numpy as np

from streamddcrp.arguments import checked
from streamddcrp.cards import ModelCard
from streamddcrp.checkpoint.codec import decode_state, encode_state, read_blob, write_atomic
from streamddcrp.contract import KINDS, Event
from streamddcrp.decay import Decay, decay_from_config, make_decay
from streamddcrp.errors import CheckpointError
from streamddcrp.estimator.locked import OneAtATime
from streamddcrp.likelihoods import Likelihood, likelihood_from_config
from streamddcrp.records import MOST, VALUE, check_one, refuse_if

_VERSION = 1  # format of all states; newer ones are refused
_MISFITS = (
    LookupError, TypeError, ValueError, ArithmeticError, AttributeError, AssertionError,
    MemoryError, RecursionError,
)  # fmt: skip


@contextmanager
def refusing_misfits() -> Iterator[None]:
    """Refuse a stored state with parts missing or of another kind: CheckpointError."""
    try:
        yield
    except _MISFITS as error:
        raise CheckpointError(f"the state does not fit this release: {error}") from error


class Stored(OneAtATime, ModelCard):
    """A model that can be stored as bytes or in a file.

    A subclass supplies `_state` (arrays and JSON values), and `_from_state`, its inverse.
    """

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        raise NotImplementedError

    @classmethod
    def _from_state(cls, arrays: dict[str, Any], meta: dict[str, Any]) -> Self:
        raise NotImplementedError

    def _unit_test_skips(self) -> set[str]:
        """List the checks that do not apply: rows without any known column are refused."""
        return {"check_emerging_features"}

    def to_bytes(self) -> bytes:
        """Return the whole state as one checksummed blob; `from_bytes` continues bit for bit."""
        return encode_state(type(self).__name__, _VERSION, *self._state())

    @classmethod
    @checked
    def from_bytes(cls, blob: bytes) -> Self:
        """Restore from `to_bytes`.

        Raises CheckpointError if the blob is damaged, of another class or of a newer version.
        """
        arrays, meta = decode_state(blob, cls.__name__)
        with refusing_misfits():
            model = cls._from_state(arrays, meta)
        model._was_read, model._took = True, 0.0
        return model

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file atomically."""
        write_atomic(path, self.to_bytes())

    @classmethod
    @checked
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file written by `save`."""
        return cls.from_bytes(read_blob(path))


def refuse_unless_plain(
    meta: Mapping[str, Any], *, counts: Iterable[str] = (), numbers: Iterable[str] = (),
    flags: Iterable[str] = (), none: Container[str] = (),
) -> None:  # fmt: skip
    """Refuse stored settings of the wrong type; those in ``none`` may be missing."""
    for name in counts:
        refuse_if(type(meta[name]) is not int or not 0 <= meta[name] <= MOST, name)
    for name in numbers:
        value = meta[name]
        good = type(value) in (int, float) and abs(value) < math.inf
        refuse_if(not good and not (value is None and name in none), name)
    for name in flags:
        value = meta[name]
        refuse_if(type(value) is not bool and not (value is None and name in none), name)


def read_events(stored: Iterable[Mapping[str, Any]]) -> list[Event]:
    """Return events stored as mappings, or refuse them."""
    events = [Event(**event) for event in stored]
    for event in events:
        refuse_if(event.kind not in KINDS or type(event.t) is not float, "events")
        refuse_if(event.key is not None, "events")
        check_whole([event.label, event.index, -1 if event.into is None else event.into], "events")
    return events


def check_whole(values: Iterable[Any], name: str) -> None:
    """Refuse anything but whole numbers from -1."""
    refuse_if(not all(type(n) is int and -1 <= n <= MOST for n in values), name)


def check_types(types: Any, n_columns: int) -> None:
    """Check the types of a warm-up's columns in a stored state; None: no row yet."""
    plain = types is None or (isinstance(types, list) and {*types} <= {"bool", "int", "float"})
    refuse_if(not plain or (types is not None and len(types) != n_columns), "types")


def check_clock(meta: Mapping[str, Any]) -> None:
    """Check a stored state: whether rows came with times, and the last time."""
    names = ("last_time", "clocked")
    refuse_unless_plain(meta, numbers=names[:1], flags=names[1:], none=names)
    refuse_if((meta["clocked"] is True) != (meta["last_time"] is not None), "clocked, last_time")


def past_of(likelihood: Likelihood, arrays: Mapping[str, Any], n_features: int) -> Any:
    """Return the checked rows for an autoregressive likelihood, or None for others."""
    past, wanted = arrays.get("past"), likelihood.prepare(np.full((1, n_features), np.nan))[1]
    refuse_if((past is None) != (wanted is None), "past")
    if wanted is not None:
        check_one("past", arrays["past"], wanted.shape, np.float64, VALUE)
    return past


def to_json(value: Any) -> Any:
    """Describe an option: objects by configuration, tuples as lists."""
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
