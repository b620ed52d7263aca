"""Exceptions: one tree, so that ``except StreamDDCRPError`` catches all of this package's.

A message names the argument, or the row and column, what was expected, what came, and a remedy.
"""

import re
from importlib import import_module
from typing import Any, Self


class StreamDDCRPError(Exception):
    """Base class of every error raised on purpose by this package."""


class ConfigError(StreamDDCRPError, ValueError):
    """An option of a model, a likelihood, a decay or the command line is invalid."""


class SchemaError(StreamDDCRPError, ValueError):
    """A row or batch has the wrong shape, columns or values.

    Parameters
    ----------
    message : str
    row : int, optional
        Offending row, counted from 0 within the batch.
    """

    def __init__(self, message: str, *, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row

    def after(self, n_rows: int) -> Self:
        """Return the error for a batch with ``n_rows`` rows before this one's."""
        if self.row is None:
            return self
        row = self.row + n_rows
        return self.retold(re.sub(r"^row \d+\b", f"row {row}", str(self)), row)

    def retold(self, message: str, row: int | None) -> Self:
        """Return the error with other words."""
        return type(self)(message, row=row)


class OrderError(SchemaError):
    """Time decreased.

    Parameters
    ----------
    message : str
    row : int, optional
    times : tuple of float
        The times shown as numbers in the message.
    """

    def __init__(
        self, message: str, *, row: int | None = None, times: tuple[float, ...] = ()
    ) -> None:
        super().__init__(message, row=row)
        self.times = times

    def retold(self, message: str, row: int | None) -> Self:
        """Return the error with other words for the same times."""
        return type(self)(message, row=row, times=self.times)


class UnknownKeyError(StreamDDCRPError, KeyError):
    """No row of this key was learned."""

    __str__ = Exception.__str__  # not the repr, as in other KeyErrors


class CheckpointError(StreamDDCRPError):
    """A stored state cannot be read or written: truncated, altered, foreign or too new."""


class MissingExtraError(StreamDDCRPError, ImportError):
    """An optional dependency is not installed; the message says how to install it."""


def import_extra(module: str, what: str, extra: str) -> Any:
    """Import a module of an extra, or say what needs it and how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(f"{what}: pip install 'streamddcrp[{extra}]'") from error
