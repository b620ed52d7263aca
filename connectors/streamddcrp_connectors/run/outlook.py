"""The command ``streamddcrp look``: how ``run`` would read a source, and what it would do."""

import logging
import shlex
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamddcrp.errors import StreamDDCRPError
from streamddcrp_connectors.options import names_out
from streamddcrp_connectors.request import Request
from streamddcrp_connectors.run.columns import Columns, refusals
from streamddcrp_connectors.run.command import opened
from streamddcrp_connectors.run.joining import joined
from streamddcrp_connectors.run.linerows import TEXT
from streamddcrp_connectors.run.models import Recipe

ROWS = 4096  # that are looked at: a model has chosen its laws by then
_SHOWN = 30  # columns
_FEW_STEPS = 16  # that levels may take in one direction


def outlook(request: Request) -> Iterator[str]:
    """Yield the lines that describe a source and the run that was asked for."""
    recipe, source = opened(request)
    with closing(source):
        yield from getattr(source, "understood", ())
        columns, found, n_rows = source.columns, [], 0
        for batch, _ in source.read_after(None):
            found += [] if batch is None else [batch]
            n_rows += 0 if batch is None else batch.num_rows
            if n_rows >= ROWS or getattr(source, "live", False):
                break
    if not found:
        yield "no rows"
        return
    batch, refused = refusals(joined(found))
    whole = "" if n_rows < ROWS else " and more, of which these are shown"
    yield f"{n_rows:,} rows{whole}"
    for row, refusal in [*refused.items()][:3]:
        yield f"row {row} would be refused: {refusal.reason}"
    if refused:
        batch = batch.take(pa.array(np.delete(np.arange(n_rows), sorted(refused))))
    laws: dict[str, str] = {}
    said: list[str] = []
    if not columns.text:
        laws, said = _tried(recipe, batch, columns)
    yield ""
    yield from _table([_described(name, batch.column(name), laws, text=columns.text)
                       for name in (columns.features or ())])  # fmt: skip
    yield ""
    yield from said
    yield from (f"warning: {line}" for line in _warnings(batch, columns))
    yield f"to run it: {_command(request, columns)}"


def _tried(recipe: Recipe, batch: Any, columns: Columns) -> tuple[dict[str, str], list[str]]:
    """Let a new model learn rows, of the first key; return laws of columns, and what it logged."""
    if columns.key is not None:
        keys = batch.column(columns.key)
        batch = batch.filter(pc.equal(keys, keys[0]))
    times = None if columns.time is None else batch.column(columns.time)
    order = np.arange(len(batch)) if times is None else np.asarray(pc.sort_indices(times))
    batch = batch.take(pa.array(order))
    model: Any = recipe.make()
    with _heard() as said:
        try:
            t = None if columns.time is None else batch.column(columns.time)
            model.step_many(batch.select(list(columns.features or ())), t)
        except StreamDDCRPError as error:
            return {}, [f"the model refuses a row: {error}"]
    laws = model.column_laws() if hasattr(model, "column_laws") else {}
    told = ("likelihood", "season", "columns or")  # each as it was decided last
    last = {start: line for line in said for start in told if line.startswith(start)}
    return {str(name): law for name, law in laws.items()}, list(last.values())


@contextmanager
def _heard() -> Iterator[list[str]]:
    lines: list[str] = []
    log, handler = logging.getLogger("streamddcrp"), logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    before, others, log.handlers = log.level, log.handlers, [handler]
    log.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        log.handlers = others
        log.setLevel(before)


def _described(name: str, column: Any, laws: dict[str, str], *, text: bool) -> list[str]:
    """Return the cells of one line: name, kind, range, step, missing, law."""
    held = column.drop_null()
    held = held.filter(pc.invert(pc.is_nan(held))) if pa.types.is_floating(held.type) else held
    missing = 1.0 - len(held) / max(len(column), 1)
    lost = f"{missing:.1%} missing" if missing else ""
    if text:
        letters = pc.mean(pc.utf8_length(held)).as_py() or 0
        return [name, "text", f"{letters:.0f} letters each", "", lost, ""]
    values = np.asarray(held.cast(pa.float64()), float)
    if not len(values):
        return [name, "empty", "", "", lost, ""]
    distinct = np.unique(values)
    kind = "flag" if {*distinct.tolist()} <= {0.0, 1.0} else "number"
    span = f"{distinct[0]:g} to {distinct[-1]:g}" if len(distinct) > 1 else f"{distinct[0]:g}"
    steps = np.diff(distinct)
    even = len(steps) > 1 and np.allclose(
        steps / steps.min(), np.rint(steps / steps.min()), atol=1e-3
    )
    return [
        name,
        kind,
        span,
        f"steps of {steps.min():.6g}" if even else "",
        lost,
        laws.get(name, ""),
    ]


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield lines with the cells below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows[:_SHOWN]:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True) if width)
        yield ("  " + "  ".join(cells)).rstrip()
    if len(rows) > _SHOWN:
        yield f"  and {len(rows) - _SHOWN} more columns"


def _only_grows(column: Any) -> bool:
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        return False
    values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    steps = np.diff(values[np.isfinite(values)])
    steps = steps[steps != 0.0]
    return len(steps) > _FEW_STEPS and bool((steps > 0.0).all() or (steps < 0.0).all())


def _warnings(batch: Any, columns: Columns) -> Iterator[str]:
    """Yield what is odd in the rows."""
    features = list(columns.features or ())
    constant = [name for name in features if len(pc.unique(batch.column(name).drop_null())) < 2]
    if constant:
        yield f"{', '.join(constant[:8])}: constant, or empty"
    counts = [name for name in features if name not in constant and _only_grows(batch.column(name))]
    if counts:
        yield f"{', '.join(counts[:8])}: only grows, or only falls: a count of rows, or a time?"
    features += [] if columns.key is None else [columns.key]
    table = pa.Table.from_batches([batch.select(features)])
    n_same = (
        len(table) - table.group_by(features).aggregate([]).num_rows if len(features) < 50 else 0
    )
    if n_same > 0.01 * len(table):
        yield f"{n_same:,} rows are the same as one before, but for their time"


def _command(request: Request, columns: Columns) -> str:
    """Return the command that says all that was found."""
    parts = ["streamddcrp", "run", request.source]
    features = columns.features or ()
    named = features[0] if columns.text and features else names_out(features)
    times = columns.times[0] if len(columns.times) == 1 else names_out(columns.times)
    for option, value in (
        ("--time", times), ("--by", columns.key),
        ("--text" if columns.text else "--features", named), ("--format", request.format),
        ("--sep", request.sep), ("--decimal", request.decimal), ("--missing", request.missing),
        ("--encoding", request.encoding), ("--time-format", request.time_format),
        ("--time-unit", request.time_unit), ("--time-zone", request.time_zone),
    ):  # fmt: skip
        if value and not (value == TEXT and request.text is None):
            parts += [option, str(value)]
    return shlex.join(parts)
