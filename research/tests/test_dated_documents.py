"""Mixtures of dated documents: what is read, and that decay helps where words change with time."""

from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from research.dated_documents import Dated, predicted, read
from research.reproduce import reproduce


@pytest.fixture
def folder(tmp_path):
    """Write two small corpora whose topics come one after the other."""
    rng = np.random.default_rng(0)
    names = [f"{a}{b}word" for a in "abcdefgh" for b in "klmnopqr"]

    def text(i):
        return " ".join(names[8 * (i // 10) + w] for w in rng.integers(8, size=12))

    texts = [text(i) for i in range(80)]
    (tmp_path / "ap").mkdir()
    (tmp_path / "sotu").mkdir()
    order = rng.permutation(80)
    days = [date(1990, 1, 1) + timedelta(int(i)) for i in order]
    table = {"date": pa.array(days), "text": [texts[i] for i in order]}
    pq.write_table(pa.table(table), tmp_path / "ap/docs.parquet")
    years = pa.array((1900 + order).astype(np.int16))
    pq.write_table(pa.table({"year": years, "text": table["text"]}), tmp_path / "sotu/sotu.parquet")
    return tmp_path


def test_documents_come_in_order_of_time_with_their_words(folder):
    for file, column in (("ap/docs.parquet", "date"), ("sotu/sotu.parquet", "year")):
        corpus = read(folder / file, column)
        np.testing.assert_array_equal(corpus.t, np.arange(80.0))
        assert (corpus.X.sum(axis=1) == 12).all()
        assert (corpus.X[:10] @ corpus.X[10:20].T == 0).all()  # topics share no word
    assert len(read(folder / "ap/docs.parquet", "date", 30).t) == 30


def test_predictions_multiply_to_the_evidence_where_nothing_is_shared():
    X = np.array([[3.0, 0.0], [0.0, 3.0]])
    found, n_tables = predicted(Dated(X, np.array([0.0, 1e9])), 1.0, ("exponential", 1.0), 2, 0)
    alone = np.log([0.1 / 0.2 * 1.1 / 1.2 * 2.1 / 2.2] * 2)
    np.testing.assert_allclose(found, alone, rtol=1e-10)
    assert n_tables == 2


def test_command_chooses_on_the_first_half(folder, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("STREAMDDCRP_SHARED", str(folder))
    options = ["ddcrp-documents", "--out", str(tmp_path / "out"), "--particles", "2"]
    out = CliRunner().invoke(reproduce, options)
    assert out.exit_code == 0, out.output
    rows = [line.split("|") for line in out.output.splitlines() if "exponential decay" in line]
    assert len(rows) == 2
    assert all(float(row[6].replace(",", "")) > 0.0 for row in rows)
    assert (tmp_path / "out/dated-documents.png").exists()


def test_a_corpus_that_is_missing_is_said_before_the_work(folder, monkeypatch):
    monkeypatch.setenv("STREAMDDCRP_SHARED", str(folder))
    (folder / "sotu/sotu.parquet").unlink()
    out = CliRunner().invoke(reproduce, ["ddcrp-documents", "--out", str(folder / "out")])
    assert out.exit_code == 2
    assert "sotu.parquet" in out.output
    assert "AP articles" not in out.output
