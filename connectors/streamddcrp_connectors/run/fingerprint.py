"""Recognise a file, or that another took its place, by digests of its head and last block."""

import hashlib
import os
from collections.abc import Callable
from functools import partial
from typing import Any

from streamddcrp.errors import SchemaError

_HEAD, _LAST = 1 << 16, 1 << 12  # bytes
ReadAt = Callable[[int, int], bytes]  # a number of bytes, from a place on


def reading(number: int) -> ReadAt:
    """Read an open file, by its descriptor, at any place."""
    return partial(os.pread, number)


def fingerprint(read_at: ReadAt, end: int) -> dict[str, str]:
    """Digest the beginning of a file (``head``), and the block before byte ``end`` (``last``)."""
    start = max(end - _LAST, 0)
    return {"head": _digest(read_at, 0, min(_HEAD, end)), "last": _digest(read_at, start, end)}


def check_fingerprint(
    read_at: ReadAt, size: int, end: int, recorded: dict[str, Any], name: str
) -> None:
    """Refuse a file, of ``size`` bytes, that differs from the one that was read before.

    It is shorter, or begins otherwise, or holds other bytes before ``end``.
    """
    if size < end:
        raise SchemaError(f"{name} is shorter than what was already read: was it replaced?")
    now = fingerprint(read_at, end)
    for part, what in (("head", "begins with other bytes than"), ("last", "differs from")):
        if now[part] != recorded[part]:
            raise SchemaError(f"{name} {what} what was already read from it: was it replaced?")


def _digest(read_at: ReadAt, start: int, end: int) -> str:
    return hashlib.sha256(read_at(end - start, start)).hexdigest()[:16]
