"""Rows for the tests of sources and runs: some are fine, some are refused for each known reason."""

import json
import random

import pyarrow as pa
import pyarrow.parquet as pq

NAMES = ("t", "k", "a", "b")
BAD = (
    {"a": -1.0},
    {"t": -1.0},
    {"a": "1.2.3"},
    {"a": float("nan")},
    {"b": float("inf")},
    {"k": None},
    {"t": 1e6, "a": -2.0},
)


def rows(n, *, bad=0.0, seed=0):
    """Draw ``n`` rows; a share ``bad`` of them is refused by the reader, runner or model."""
    draw = random.Random(seed)
    made = []
    for i in range(n):
        row = {
            "t": float(i // 2),
            "k": draw.choice(["x", "y", "zz"]),
            "a": round(draw.uniform(0, 10), 6),
            "b": draw.choice([None, float(draw.randrange(9))]),
        }
        if draw.random() < bad:
            row |= draw.choice(BAD)
        made.append(row)
    return made


def write_csv(path, table):
    lines = [",".join(NAMES)]
    lines += [
        ",".join("" if row[name] is None else str(row[name]) for name in NAMES) for row in table
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_jsonl(path, table):
    path.write_text("".join(json.dumps(row) + "\n" for row in table))
    return path


def as_arrow(table):
    kinds = [pa.float64(), pa.string(), pa.float64(), pa.float64()]
    columns = [
        pa.array([row[name] for row in table], kind)
        for name, kind in zip(NAMES, kinds, strict=True)
    ]
    return pa.table(columns, names=list(NAMES))


def write_parquet(path, table):
    pq.write_table(as_arrow(table), path, row_group_size=7)
    return path


def write_arrow_file(path, table):
    made = as_arrow(table)
    with pa.ipc.new_file(path, made.schema) as writer:
        writer.write_table(made, max_chunksize=6)
    return path


def write_arrow_stream(path, table):
    made = as_arrow(table)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, made.schema) as writer:
        writer.write_table(made, max_chunksize=6)
    return path


WRITERS = {
    "csv": write_csv,
    "jsonl": write_jsonl,
    "parquet": write_parquet,
    "arrow": write_arrow_file,
    "arrows": write_arrow_stream,
}
