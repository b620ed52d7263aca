"""The experiments on trees of topics and of components, made small."""

import numpy as np
import pytest
from click.testing import CliRunner

from research import ncrp_digits_numbers, ncrp_digits_report
from research.ncrp_digits_numbers import PUBLISHED, digits, pca_error
from research.reproduce import ncrp_digits, ncrp_topics

pytest.importorskip("matplotlib")

WORDS = (
    "goal ball striker keeper", "racket court serve set", "share stock fund index",
    "wheat corn bushel harvest", "trial jury murder guilty",
)  # fmt: skip


def run(command, *arguments):
    result = CliRunner().invoke(command, [*map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.output


def cells(out, start):
    """Return the numbers of the rows of a table that begin so."""
    return [
        [cell.strip() for cell in line.strip("| ").split("|")]
        for line in out.splitlines()
        if line.startswith(start)
    ]


@pytest.mark.parametrize(
    ("n", "deepest"), [(300, 3), pytest.param(1200, 5, marks=pytest.mark.slow)]
)
def test_digits(tmp_path, monkeypatch, n, deepest):
    pytest.importorskip("sklearn")
    monkeypatch.setenv("STREAMDDCRP_SHARED", str(tmp_path))
    depths = {depth: row for depth, row in PUBLISHED.items() if depth <= deepest}
    monkeypatch.setattr(ncrp_digits_report, "PUBLISHED", depths)
    monkeypatch.setattr(ncrp_digits_numbers, "_HERE", n)
    out = run(ncrp_digits, "--small", "--out", tmp_path)
    assert f"scikit-learn's digits: {n:,} images learned, {1797 - n:,} for the test." in out
    pca, stream, batch = (
        {int(row[0]): float(row[3]) for row in cells(out, "| ") if row[1] == method}
        for method in ("PCA", "stream, one pass", "batch")
    )
    assert pca.keys() == stream.keys() == batch.keys() == depths.keys()
    assert all(batch[depth] < 0.8 * pca[depth] for depth in (2, 3))
    assert n == 300 or all(stream[depth] < 0.8 * pca[depth] for depth in (2, 3))
    assert {path.suffix for path in tmp_path.iterdir()} == {".md", ".png"}


def test_errors_of_principal_components_as_computed_apart_from_this_library(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.setenv("STREAMDDCRP_SHARED", str(tmp_path))
    found = [[f"{error:.1f}" for error in pca_error(digits(small=True), depth)] for depth in (2, 3)]
    assert found == [["865.2", "865.1"], ["721.0", "719.6"]]


def test_missing_digits_are_not_replaced(tmp_path, monkeypatch):
    monkeypatch.setenv("STREAMDDCRP_SHARED", str(tmp_path))
    result = CliRunner().invoke(ncrp_digits, ["--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert "--small" in result.output
    assert "optdigits" in result.output


def test_topics_of_a_file(tmp_path):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS[rng.integers(5)].split(), 20)) for d in range(61)]
    file = tmp_path / "news.txt"
    file.write_text("\n\n".join(texts), encoding="utf-8")
    options = "--data", file, "--out", tmp_path / "out", "--sweeps", 20
    out = run(ncrp_topics, *options, "--folds", 2)
    rows = cells(out, "| news.txt, ")
    means = {(row[0], row[1]): float(row[2].split()[0]) for row in rows}
    table = [row for row in cells(out, "| ") if len(row) == 7 and row[4].isdigit()]
    methods = ["stream, one pass", "fit", "Gibbs", "fit from Gibbs"]
    unigram = [float(row[2]) for row in cells(out, "| any | unigram")]
    assert len(unigram) == 2
    for prior in ("ours: eta 1, .2, .1; alpha 5, 2, .5", "the paper's: eta 1; alpha 50, 20, 10"):
        assert [row[1] for row in table if row[0] == prior] == 2 * methods
        for method in methods:
            folds = [float(row[3]) for row in table if row[:2] == [prior, method]]
            assert means[f"news.txt, {prior}", method] == pytest.approx(np.mean(folds), abs=6e-4)
            assert prior[0] == "t" or min(folds) > max(unigram)
    sweeps = {row[1]: int(row[5]) for row in table}
    assert sweeps["stream, one pass"] == 1
    assert sweeps["Gibbs"] == 20 < sweeps["fit from Gibbs"]
    assert len(list((tmp_path / "out").iterdir())) == 3


def test_what_is_missing_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("STREAMDDCRP_SHARED", str(tmp_path))
    for there, missing in ((), "ap"), (("ap",), "newsgroups20"):
        for name in there:
            (tmp_path / name).mkdir()
        result = CliRunner().invoke(ncrp_topics, ["--out", str(tmp_path / "out")])
        assert result.exit_code == 2
        assert "--data FILE" in result.output
        assert f"there is no {tmp_path / missing};" in result.output
        assert not list((tmp_path / "out").iterdir())
    short = tmp_path / "short.txt"
    short.write_text("one text", encoding="utf-8")
    result = CliRunner().invoke(ncrp_topics, ["--out", str(tmp_path), "--data", str(short)])
    assert result.exit_code == 2
    assert "too little text" in result.output
