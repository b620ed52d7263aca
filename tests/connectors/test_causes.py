"""Latent features in results: read from every format, drawn and told in words."""

import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from streamddcrp_connectors.report.report import make_report
from streamddcrp_connectors.report.results import read_causes

SETS = [[], [0], [0, 1], [1], [], [1]]


def results():
    return pa.table(
        {
            "row": pa.array(range(6), pa.int64()),
            "label": pa.array([0, 1, 2, 3, 4, 3], pa.int64()),
            "score": pa.array([None, 1.0, 2.0, 1.0, 0.5, 1.0], pa.float64()),
            "features": pa.array(SETS, pa.list_(pa.int64())),
        }
    )


def written(path, table):
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".arrow":
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    return path


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".jsonl"])
def test_every_format_is_read(tmp_path, ending):
    path = written(tmp_path / f"told{ending}", results())
    causes = read_causes(path, np.array([0, 1, 2, 5]))
    assert [(cause.id, cause.on.tolist()) for cause in causes] == [
        (0, [False, True, True, False]),
        (1, [False, False, True, True]),
    ]


def test_results_without_features(tmp_path):
    path = written(tmp_path / "told.parquet", results().drop_columns(["features"]))
    assert read_causes(path, np.arange(6)) == ()


def test_report_tells_of_features(tmp_path):
    pytest.importorskip("matplotlib")
    source = tmp_path / "data.csv"
    source.write_text("a\n" + "".join(f"{v}\n" for v in (0, 1, 2, 1, 0, 1)))
    path = written(tmp_path / "told.parquet", results())
    words, paths = make_report(path, source)
    assert all(made.stat().st_size > 0 for made in paths)
    assert "feature 0, 2 rows from row 1 to row 2" in words
    assert "feature 1, 3 rows from row 2 to row 5" in words
