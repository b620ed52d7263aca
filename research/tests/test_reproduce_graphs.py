"""The graph-CRP's experiment as a command, and its data."""

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.metrics import adjusted_rand_score

from research.graph_clustering_numbers import adjusted_rand, oracle_score, tv_gauss
from research.reproduce import reproduce

pytest.importorskip("matplotlib")


def test_the_stream_is_the_one_that_was_specified():
    X, y = tv_gauss(0)
    assert X.sum() == pytest.approx(-582.5072683835, abs=1e-9)
    assert np.bincount(y).tolist() == [392, 613, 325, 404, 266]
    assert tv_gauss(1)[0].sum() == pytest.approx(-933.2893922578, abs=1e-9)
    mean = np.mean([oracle_score(tv_gauss(seed)[0]) for seed in range(5)])
    assert mean == pytest.approx(-3.7339, abs=5e-5)


def test_adjusted_rand():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 4, 100), rng.integers(0, 3, 100)
    assert adjusted_rand(a, b) == pytest.approx(adjusted_rand_score(a, b), rel=1e-12)
    assert adjusted_rand(a, a) == 1.0


@pytest.mark.parametrize("name", ["graph-clustering", "graph-images", "seqddcrp-gaussians"])
def test_the_first_data_set_can_be_chosen(name, tmp_path, monkeypatch):
    module = {"graph-clustering": "graph_clustering_numbers", "graph-images": "graph_images",
              "seqddcrp-gaussians": "gaussians"}[name]  # fmt: skip
    given = []
    monkeypatch.setattr(f"research.{module}.run", lambda *args: given.append(args) or [])
    options = [name, "--out", str(tmp_path), "--seeds", "2", "--seed", "40"]
    assert CliRunner().invoke(reproduce, options).exit_code == 0
    assert given[0][1] == 2
    assert given[0][-1] == 40


def test_graph_clustering(tmp_path):
    done = CliRunner().invoke(
        reproduce, ["graph-clustering", "--out", str(tmp_path), "--seeds", "1", "--particles", "20"]
    )
    assert done.exit_code == 0, done.output
    rows = [line.split("|") for line in done.output.splitlines() if line.startswith("| r = ")]
    score = {row[1].strip(): (float(row[2].split()[0]), float(row[3])) for row in rows}
    assert score["r = 50"][0] > 0.98
    assert score["r = 50"][1] > score["r = 2000: Dirichlet process"][1] + 0.3
    assert (tmp_path / "clusters.png").exists()
