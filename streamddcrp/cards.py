"""Notebook views of models and results: a small HTML table, escaped."""

import dataclasses
import inspect
import math
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from typing import Any

_ROWS, _COLUMNS, _LETTERS = 8, 10, 60  # of a table; letters of a cell


class ModelCard:
    """A model shown in notebooks by its class, options and summary."""

    _has_overview = True  # whether its summary is fast

    def _repr_html_(self) -> str:
        card = _card(type(self).__name__, _changed(self))
        facts = {"keys": "n_keys", "rows learned": "n_seen", "alive now": "n_tables"}
        known = {said: getattr(self, name) for said, name in facts.items() if hasattr(self, name)}
        _line(card, ", ".join(f"{said}: {_text(value)}" for said, value in known.items()))
        table = self.summary() if self._has_overview and hasattr(self, "summary") else None
        if table is not None and table.num_rows:
            names = table.column_names[:_COLUMNS]
            if "words" in table.column_names[_COLUMNS:]:  # the most informative column
                names[-1] = "words"
            rows = table.slice(0, _ROWS).select(names).to_pylist()
            _table(card, names, ([row[name] for name in names] for row in rows))
            left = [(table.num_rows - len(rows), "row"), (table.num_columns - len(names), "column")]
            more = [f"{n:,} more {what}{'s' if n > 1 else ''}" for n, what in left if n]
            _line(card, f"{' and '.join(more)} in summary()" if more else "")
        return ET.tostring(card, encoding="unicode", method="html")


class ResultCard:
    """A result shown in notebooks by its fields, with arrays as shapes."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        fields: Any = dataclasses.fields(self)  # type: ignore[arg-type]  # this class is a mixin
        more = inspect.getmembers(type(self), lambda member: isinstance(member, property))
        names = [name for name, _ in more if name[0] != "_"] + [field.name for field in fields]
        rows = [(name, getattr(self, name)) for name in names]
        return table_card(type(self).__name__, "", ("field", "value"), rows, len(rows))


def table_card(
    name: str, said: str, names: Iterable[str], rows: Sequence[Iterable[Any]], most: int = _ROWS
) -> str:
    """Return a card with a line and the first rows of a table."""
    card = _card(name, said)
    _table(card, names, rows[:most])
    _line(card, f"{len(rows) - most:,} more" if len(rows) > most else "")
    return ET.tostring(card, encoding="unicode", method="html")


def _changed(model: Any) -> str:
    """Return the options of a model that differ from their defaults."""
    options = inspect.signature(type(model).__init__).parameters
    changed = [
        f"{name}={_text(getattr(model, name))}"
        for name, option in options.items()
        if hasattr(model, name) and repr(getattr(model, name)) != repr(option.default)
    ]
    return ", ".join(changed) or "default options"


def _text(value: Any) -> str:
    """Format a cell: short numbers, arrays as shapes, the rest truncated."""
    if isinstance(value, bool) or value is None:
        return "" if value is None else str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}" if math.isfinite(value) else str(value)
    if (shape := getattr(value, "shape", None)) is not None and shape != ():
        kind = getattr(value, "dtype", type(value).__name__)
        return f"{kind}, shape ({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"
    if isinstance(value, list | tuple) and len(value) > _ROWS:
        return f"{type(value).__name__} of {len(value):,}"
    if isinstance(value, ModelCard):
        value = f"{type(value).__name__}, {_changed(value)}"
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…"


def _card(name: str, said: str) -> ET.Element:
    card = ET.Element("div", {"style": "font-size: 0.9em; overflow-x: auto"})
    ET.SubElement(card, "strong").text = name
    _line(card, said)
    return card


def _line(card: ET.Element, text: str) -> None:
    if text:
        ET.SubElement(card, "div").text = text


def _table(card: ET.Element, names: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    table = ET.SubElement(card, "table")
    head = ET.SubElement(ET.SubElement(table, "thead"), "tr")
    for name in names:
        ET.SubElement(head, "th", {"scope": "col"}).text = _text(str(name))
    body = ET.SubElement(table, "tbody")
    for row in rows:
        line = ET.SubElement(body, "tr")
        for value in row:
            ET.SubElement(line, "td").text = _text(value)
