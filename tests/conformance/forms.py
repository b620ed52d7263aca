"""Batches of one stream in every form, and batches and rows that are refused."""

import math
import random
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy import sparse

from tests.conformance.case import Refusal


def river_rows(n):
    rng = random.Random(0)
    return [({f"x{j}": rng.gauss(3 * (t % 3), 1) for j in range(5)}, None) for t in range(n)]


def river_alarms(n):
    """Three levels; every fiftieth row is odd."""
    rng, rows = random.Random(0), []
    for t in range(n):
        odd = t % 50 == 49
        center = 60.0 if odd else 3.0 * (t % 3)
        rows.append(({f"x{j}": rng.gauss(center, 1) for j in range(5)}, int(odd)))
    return rows


def river_counts(n):
    return [({k: abs(v) for k, v in x.items()}, y) for x, y in river_rows(n)]


def river_bits(n):
    return [({k: float(v > 3.0) for k, v in x.items()}, y) for x, y in river_rows(n)]


def of_numbers(stream):
    X = stream.rows
    table = pa.table({"b": X[:, 1], "a": X[:, 0]} | {f"c{d:02}": x for d, x in enumerate(X.T[2:])})
    tables = {
        "table": table, "one by one": None, "sorted": table.select(sorted(table.column_names)),
        "batch": table.to_batches()[0], "reader": table.to_reader(), "pandas": table.to_pandas(),
        "chunks": pa.Table.from_batches(table.to_batches(max_chunksize=7)),
    }  # fmt: skip
    if polars := installed("polars"):
        tables["polars"] = polars.from_arrow(table)
    arrays = {"array": X, "one by one": None, "lists": X.tolist(), "columns": np.asfortranarray(X)}
    return [arrays, tables]


def of_arrays(stream):
    return of_numbers(stream)[:1]


def of_rows(stream):
    arrays, tables = of_numbers(stream)
    del tables["reader"]
    return [arrays, tables]


def installed(name):
    try:
        return __import__(name)
    except ImportError:
        return None


def of_texts(stream):
    rows = stream.rows
    forms = {
        "list": rows, "one by one": None, "array": np.array(rows), "Arrow": pa.array(rows),
        "chunks": pa.chunked_array([rows[:9], rows[9:]]), "table": pa.table({"text": rows}),
        "large": pa.array(rows, pa.large_string()), "dicts": [{"text": x} for x in rows],
        "pandas": pd.DataFrame({"text": rows}),
    }  # fmt: skip
    return [forms]


def of_dated_texts(stream):
    (forms,) = of_texts(stream)
    del forms["dicts"]  # counts of words, unless texts are expected
    return [forms]


def of_counts(stream):
    X = stream.rows
    forms = {
        "array": X, "one by one": None, "floats": X.astype(float), "rows": sparse.csr_array(X),
        "columns": sparse.coo_matrix(X).tocsc(),
        "dicts": [{v: int(c) for v, c in enumerate(x) if c} for x in X],
    }  # fmt: skip
    return [forms]


def with_keys(stream):
    table = stream.rows
    encoded = table.set_column(0, "key", table["key"].dictionary_encode())
    chunks = pa.Table.from_batches(table.to_batches(max_chunksize=7))
    frame = table.to_pandas()
    forms = {"table": table, "one by one": None, "encoded": encoded, "chunks": chunks}
    return [forms | {"pandas": frame, "batch": table.to_batches()[0]}]


def with_value(value, row, column=1):
    def spoil(stream):
        rows = stream.rows[:12].copy()
        rows[row, column] = value
        return replace(stream[:12], rows=rows)

    return spoil


def with_text(value, row):
    def spoil(stream):
        rows = list(stream.rows[:8])
        rows[row] = value
        return replace(stream[:8], rows=rows)

    return spoil


def with_cell(column, value, row):
    def spoil(stream):
        table = stream.rows.slice(0, 8)
        at, cells = table.column_names.index(column), table[column].to_pylist()
        cells[row] = value
        return replace(stream[:8], rows=table.set_column(at, column, pa.array(cells)))

    return spoil


def instead(rows, n=1):
    """Return what puts n rows in the place of those to come."""
    return lambda stream: replace(stream[:n], rows=rows)


BAD_NUMBERS = (
    Refusal("minus infinity", with_value(-math.inf, 3), "row 3, column 1", 3),
    Refusal("infinity", with_value(math.inf, 10), "row 10, column 1", 10),
    Refusal("width", lambda s: replace(s[:5], rows=s.rows[:5, :1]), "0 to 0 does not", begun=True),
    Refusal("text", instead(pa.table({"a": ["x"] * 5}), 5), "numbers"),
)
BAD_BITS = (
    Refusal("half", with_value(0.5, 4), "row 4, column 1: 0.5; .* 0 or 1", 4),
    Refusal("two", with_value(2.0, 0), "row 0, column 1: 2.0; .* 0 or 1", 0),
    Refusal("missing", with_value(math.nan, 7), "row 7, column 1: nan; .* must be there", 7),
)
HUGE = Refusal("huge", with_value(1e200, 3), "row 3, column 1", 3)
BAD_OF_EPOCHS = (*BAD_NUMBERS[:3], BAD_NUMBERS[3]._replace(begun=True), HUGE)  # texts are data
ODD_NUMBERS = (({0: 1.0, "b": "text"}, "'b'"), ({0: math.inf, 1: 0.0}, "column 0"))
BAD_TEXTS = (
    Refusal("none", with_text(None, 1), "row 1", 1),
    Refusal("number", with_text(3.0, 2), "row 2", 2),
    Refusal("null", instead(pa.table({"text": ["a", None]}), 2), "row 1", 1),
    Refusal("null of an array", instead(pa.array(["a", None]), 2), "row 1", 1),
    Refusal("one text", instead("oil"), "several documents"),
)
ODD_TEXTS = ((3.0, "3.0"), (None, "None"), ({"oil": -1.0, "cup": 2.0}, "'oil'.*not a count"))
BAD_COUNTS = (
    Refusal("negative", instead([{"a": -1}]), "row 0.*not a count", 0),
    Refusal("NaN", instead([{"a": 1}, {"a": math.nan}]), "row 1.*not a count", 1),
    Refusal("in an array", instead(np.array([[1.0, -2.0]])), "row 0, column 1.*not a count", 0),
    Refusal("infinity", instead(np.array([[np.inf, 1.0]])), "row 0, column 0.*not a count", 0),
    Refusal("too many", instead([{"a": 1}, {"a": 1e16}]), "row 1.*not a count", 1),
    Refusal("no float", instead([{"a": 10**400}]), "row 0.*not a count", 0),
)
NO_KEY = Refusal("no key", with_cell("key", None, 2), "row 2, column 'key': missing", 2)
BAD_CELL = Refusal("infinity", with_cell("a", math.inf, 5), "row 5, key '[pqr]': column 'a'", 5)


def far_behind(stream):
    rows = stream.rows.copy()
    rows[-10, 1] = math.inf
    return replace(stream, rows=rows)
