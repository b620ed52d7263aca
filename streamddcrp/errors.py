"""Exceptions: one tree, so that ``except StreamDDCRPError`` catches everything this package raises.

Messages name the argument, or the row and the column; what was expected; what came; the way out.
"""

import re
from importlib import import_module
from typing import Any, Self


class StreamDDCRPError(Exception):
    """Base class of every error raised on purpose by this package."""


class ConfigError(StreamDDCRPError, ValueError):
    """An option of a model, a likelihood, a decay or the command line is not usable."""


class SchemaError(StreamDDCRPError, ValueError):
    """A row or a batch does not have the shape, the columns or the values it must have.

    Parameters
    ----------
    message : str
    row : int, optional
        Offending row, counted from 0 within the batch that was handed over.
    """

    def __init__(self, message: str, *, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row

    def after(self, n_rows: int) -> Self:
        """Return the error as it is for a batch whose first ``n_rows`` rows came before."""
        if self.row is None:
            return self
        row = self.row + n_rows
        return self.retold(re.sub(r"^row \d+\b", f"row {row}", str(self)), row)

    def retold(self, message: str, row: int | None) -> Self:
        """Return the error in other words."""
        return type(self)(message, row=row)


class OrderError(SchemaError):
    """Time ran backwards.

    Parameters
    ----------
    message : str
    row : int, optional
    times : tuple of float
        The times that the message shows as numbers.
    """

    def __init__(
        self, message: str, *, row: int | None = None, times: tuple[float, ...] = ()
    ) -> None:
        super().__init__(message, row=row)
        self.times = times

    def retold(self, message: str, row: int | None) -> Self:
        """Return the error in other words, which show the same times."""
        return type(self)(message, row=row, times=self.times)


class UnknownKeyError(StreamDDCRPError, KeyError):
    """A key of which no row was learned."""

    __str__ = Exception.__str__  # not the repr, as of other KeyErrors


class CheckpointError(StreamDDCRPError):
    """A stored state cannot be read or written: truncated, altered, foreign or too new."""


class MissingExtraError(StreamDDCRPError, ImportError):
    """An optional dependency is not installed; the message says how to install it."""


def import_extra(module: str, what: str, extra: str) -> Any:
    """Import a module that an extra installs, or say ``what`` needs it, and how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(f"{what}: pip install 'streamddcrp[{extra}]'") from error
