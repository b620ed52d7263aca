"""Read the output of ``streamddcrp run`` together with its series."""

import os
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamddcrp import Seasonal
from streamddcrp.contract import Event
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.plots.series import Cause, Clock, Labelled
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp_connectors.run.columns import Columns, refusals
from streamddcrp_connectors.run.config import read_season
from streamddcrp_connectors.run.joining import joined
from streamddcrp_connectors.run.names import Names
from streamddcrp_connectors.run.sinks import read_events, read_written
from streamddcrp_connectors.run.sources import Source, open_source

_BATCH = 1 << 14
_NEEDED = ("row", "label", "score")
_FINAL = ("final_row", "final_label")
_STATE = ("state",)  # regimes are drawn by it if results have it
_THEME = ("theme",)  # of stories


class _ResultColumns(Columns):
    """The columns of results, with or without a time and a key."""

    __slots__ = ()

    def check(self, available: Any, where: str) -> Columns:
        """Find the required columns."""
        for name in _NEEDED:
            if name not in available:
                has = ", ".join(available) or "none"
                raise ConfigError(
                    f"{where} is not what `streamddcrp run` writes: it has no column {name!r}, "
                    f"only {has}"
                )
        time, key = (name if name in available else None for name in ("time", "key"))
        more = (
            names for names in (_FINAL, _STATE, _THEME) if all(name in available for name in names)
        )
        return Columns(time, key, sum(more, _NEEDED))


def read_labelled(
    results: str | os.PathLike[str],
    data: str | os.PathLike[str],
    columns: Columns,
    only: str | None = None,
    season: str | None = None,
    names: Names | None = None,
) -> Labelled:
    """Read results and the matching rows of the series, for the key ``only``.

    ``columns`` belong to ``data``. ``season`` has the periods of the seasons that the model
    subtracted, and the values are shown without them. ``names`` are those given to regimes.
    """
    name, found, batch, table, clock, _ = _both(results, data, columns, only)
    features = found.features or ()
    values = np.column_stack([_floats(batch.column(feature)) for feature in features])
    causes = read_causes(results, table["row"])
    labels, scores = table.get("state", table["label"]), table["score"]
    given = (
        names.of(str(table["key"][0]) if "key" in table else "") if names and len(labels) else {}
    )
    if season is None:
        return Labelled(name, features, values, labels, scores, clock, causes, names=given)
    rows = pa.table(
        {name: pa.array(x, from_pandas=True) for name, x in zip(features, values.T, strict=True)}
    )
    left = Seasonal(read_season(season)).step_many(rows, None if clock.counts_rows else clock.times)
    net = np.column_stack([_floats(left.column(feature)) for feature in features])
    return Labelled(name, features, net, labels, scores, clock, causes, values, given)


def read_causes(path: str | os.PathLike[str], rows: IntArray) -> tuple[Cause, ...]:
    """Read each row's features, by ascending number; empty if results have none."""
    table = None
    with suppress(pa.ArrowInvalid, pa.ArrowKeyError, KeyError, OSError):
        columns = ["row", "features"]
        table = read_written(Path(path), columns).select(columns)
    if table is None or not pa.types.is_list(table.schema.field("features").type):
        return ()
    sets = table["features"].combine_chunks()
    owner = np.repeat(table["row"].to_numpy(), sets.value_lengths().fill_null(0).to_numpy())
    ids = sets.flatten().to_numpy()
    return tuple(
        Cause(int(i), np.isin(rows, owner[ids == i]))
        for i in np.unique(ids).tolist()
        if np.isin(owner[ids == i], rows).any()
    )


def read_fleet(
    results: str | os.PathLike[str], data: str | os.PathLike[str], columns: Columns,
    names: Names | None = None,
) -> list[tuple[str, Labelled]]:  # fmt: skip
    """Read the results of several keys, each with its series; see `read_labelled`."""
    table, _, utc = read_results(results, least=0)
    if len(set(table.get("key", ()))) < 2:
        return []
    with closing(open_source(data, columns, batch_rows=_BATCH)) as source:
        batch = read_rows(source, table["row"], os.fspath(results))
    columns = check_named(table, columns, source.columns, os.fspath(results))
    keys = batch.column(columns.key or "")
    _check_key(keys, table["key"], table["row"], source.name, os.fspath(results))
    features, labels = columns.features or (), table.get("state", table["label"])
    values = np.column_stack([_floats(batch.column(feature)) for feature in features])
    clock = _clock(table, utc, batch, columns, source.name, os.fspath(results))
    kinds, which = np.unique(table["key"].astype(str), return_inverse=True)
    order, cuts, found = np.argsort(which, kind="stable"), np.bincount(which).cumsum()[:-1], []
    for key, at in zip(kinds.tolist(), np.split(order, cuts), strict=True):
        own = Clock(clock.times[at], utc=utc)
        given = {} if names is None else names.of(key)
        series = values[at], labels[at], table["score"][at], own
        found.append((key, Labelled(key, features, *series, names=given)))
    return found


@dataclass(frozen=True, slots=True)
class LabelledTexts:
    """Texts with their stories."""

    name: str  # of the source, with the key if there are several
    texts: Any
    labels: IntArray  # (N,), final labels if the results have them; -1: none
    scores: FloatArray
    clock: Clock
    events: tuple[Event, ...] = ()  # of stories; ``index`` is a text's position
    themes: IntArray | None = None  # (N,); -1: none


def read_labelled_texts(
    results: str | os.PathLike[str],
    data: str | os.PathLike[str],
    columns: Columns,
    only: str | None = None,
    events: str | os.PathLike[str] | None = None,
) -> LabelledTexts:
    """Read results, their texts and the events; see `read_labelled`."""
    name, found, batch, table, clock, last = _both(results, data, columns, only)
    texts = batch.column((found.features or ())[0])
    labels, themes = table["label"].copy(), None
    if "theme" in table:
        themes = np.nan_to_num(table["theme"].astype(np.float64), nan=-1.0).astype(np.int64)
    for cells in (table, last) if _FINAL[0] in table else ():
        row, label = (cells[column] for column in _FINAL)
        known = row < len(labels)  # False where the row is missing
        labels[row[known].astype(np.int64)] = label[known].astype(np.int64)
    key = str(table["key"][0]) if "key" in table else None
    told = () if events is None else read_events(events, key, len(labels))
    happened = tuple(event for event, _ in told)
    return LabelledTexts(name, texts, labels, table["score"], clock, happened, themes)


def _both(
    results: str | os.PathLike[str],
    data: str | os.PathLike[str],
    columns: Columns,
    only: str | None,
) -> tuple[str, Columns, Any, dict[str, Any], Clock, dict[str, Any]]:
    """Read the results of one key and the rows of the source that they describe.

    The last rows are those added at the end of a run, whose labels are nearly final.
    """
    table, last, utc = read_results(results, least=-1 if columns.text else 0)
    key = _choose_key(table, only, os.fspath(results))
    if key is not None:
        table, last = (
            {name: cells[rows["key"] == key] for name, cells in rows.items()}
            for rows in (table, last)
        )
    with closing(open_source(data, columns, batch_rows=_BATCH)) as source:
        batch = read_rows(source, table["row"], os.fspath(results))
    columns = check_named(table, columns, source.columns, os.fspath(results))
    if key is not None and columns.key is not None:
        _check_key(batch.column(columns.key), key, table["row"], source.name, os.fspath(results))
    name = Path(source.name).name + (f", {key}" if key is not None else "")
    clock = _clock(table, utc, batch, columns, source.name, os.fspath(results))
    return name, columns, batch, table, clock, last


def check_named(table: dict[str, Any], given: Columns, found: Columns, results: str) -> Columns:
    """Return the columns found in the source of results, whose time or key is no feature there."""
    if given.features is None or given.text:
        for what, named in (("time", found.time), ("key", found.key)):
            if what in table and named is None:
                raise ConfigError(
                    f"{results} was made with --{what}: give the same --{what} COL, or name the "
                    "columns to show with --features"
                )
    return found


def read_results(
    path: str | os.PathLike[str], *, least: int
) -> tuple[dict[str, Any], dict[str, Any], bool]:
    """Read results as numpy arrays by column, and whether the time is in UTC.

    The parts are the results of rows, and those at the end that have none.
    """
    with closing(open_source(path, _ResultColumns(), batch_rows=_BATCH)) as source:
        whole = _whole(source)
    ends = whole.filter(pc.is_null(whole["row"]))
    whole = whole.filter(pc.is_valid(whole["row"]))
    table = {name: _numpy(whole.column(name)) for name in whole.schema.names}
    last = {name: _numpy(ends.column(name)) for name in ends.schema.names}
    for name, low in (("row", 0), ("label", least), ("state", 0)):
        if name in table:
            table[name] = _whole_numbers(table[name], name, source.name, low)
    # A pipe may repeat rows: the last copy counts.
    _, place = np.unique(table["row"][::-1], return_index=True)
    order = len(table["row"]) - 1 - place
    utc = "time" in table and _zoned(whole.schema.field("time").type)
    return {name: cells[order] for name, cells in table.items()}, last, utc


def _whole(source: Source) -> Any:
    """Read all rows of a source; none may be refused."""
    batches = []
    for batch, offset in source.read_after(None):
        kept, refused = refusals(batch)
        if refused:
            place = min(refused)
            row = offset["row"] - batch.num_rows + place
            raise SchemaError(f"{source.name}: row {row}: {refused[place].reason}", row=row)
        batches.append(kept)
    if not batches:
        raise SchemaError(f"{source.name} holds no rows: there is nothing to report")
    return joined(batches)


def _zoned(kind: Any) -> bool:
    return getattr(kind, "tz", None) is not None


def _numpy(column: Any) -> Any:
    if pa.types.is_boolean(column.type):  # of results without numbers
        column = pc.cast(column, pa.float64())
    return np.ascontiguousarray(column.to_numpy(zero_copy_only=False))


def _floats(column: Any) -> FloatArray:
    values = column.to_numpy(zero_copy_only=False).astype(np.float64)
    return np.where(np.isfinite(values), values, np.nan)


def _whole_numbers(values: FloatArray, name: str, where: str, least: int) -> IntArray:
    bad = ~((values >= least) & (values == np.floor(values)))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        message = f"{where}: row {row}: column {name!r} must be a whole number, got {values[row]:g}"
        raise SchemaError(message, row=row)
    return values.astype(np.int64)


def _choose_key(table: dict[str, Any], only: str | None, where: str) -> str | None:
    if "key" not in table:
        if only is not None:
            message = f"{where} has no keys, so --only {only} cannot be chosen; leave it out"
            raise ConfigError(message)
        return None
    keys = [str(key) for key in dict.fromkeys(table["key"].tolist())]
    if only is None and len(keys) == 1:
        return keys[0]
    shown = ", ".join(keys[:10]) + (f", ... ({len(keys):,} in all)" if len(keys) > 10 else "")
    if only is None:
        raise ConfigError(f"{where} holds several series; choose one with --only KEY: {shown}")
    if only not in keys:
        raise ConfigError(f"{where} has no key {only!r}; it has {shown}")
    return only


def read_rows(source: Source, rows: IntArray, results: str) -> Any:
    """Read the given rows of a source, in learning order."""
    order = np.argsort(rows, kind="stable")
    rows = rows[order]
    parts = []
    for batch, offset in source.read_after(None):
        first = offset["row"] - batch.num_rows
        low, high = np.searchsorted(rows, [first, offset["row"]]).tolist()
        if low == high:
            continue
        kept, refused = refusals(batch)
        wanted = rows[low:high] - first
        for place in wanted.tolist() if refused else ():
            if place in refused:
                reason = f"row {first + place}: {refused[place].reason}"
                raise _not_about(results, source.name, reason)
        parts.append(kept.take(pa.array(wanted)))
        if high == len(rows):
            break
    n_found = sum(part.num_rows for part in parts)
    if n_found < len(rows):
        reason = f"row {rows[n_found]} is not in it"
        raise _not_about(results, source.name, reason)
    return joined(parts).take(pa.array(np.argsort(order)))


def _clock(
    table: dict[str, Any], utc: bool, batch: Any, columns: Columns, data: str, results: str
) -> Clock:
    """Take the times of the series or of the results; where both have them they must agree."""
    theirs = table.get("time")
    if columns.time is None:
        times = table["row"] if theirs is None else theirs
        return Clock(times, utc=utc)
    column = batch.column(columns.time)
    times = column.to_numpy(zero_copy_only=False)
    if theirs is not None:
        same = theirs.dtype == times.dtype and theirs == times
        if not np.all(same):
            place = int(np.argmin(same))
            row = table["row"][place]
            reason = f"row {row}: the time was {theirs[place]}, and is {times[place]} there"
            raise _not_about(results, data, reason)
    return Clock(times, utc=_zoned(column.type))


def _check_key(column: Any, keys: Any, rows: IntArray, data: str, results: str) -> None:
    there = column.to_numpy(zero_copy_only=False)
    other = np.flatnonzero(there != keys)
    if len(other):
        place = int(other[0])
        was, now = np.broadcast_to(keys, len(there))[place], column[place].as_py()
        reason = f"row {rows[place]}: the key was {was!r}, and is {now!r} there"
        raise _not_about(results, data, reason)


def _not_about(results: str, data: str, reason: str) -> SchemaError:
    return SchemaError(f"{results} is not about {data}: {reason}")
